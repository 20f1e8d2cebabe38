"""Part B: what the kernel shows, and what it lets be set."""
import contextlib
import fcntl
import os
import pathlib
import subprocess
import time

import procfs
import pytest
from outside import (HOSTILE, PYTHON, in_a_container, processes_with, running_keeper,
                     wait_until)

CORE_PATTERN = pathlib.Path("/proc/sys/kernel/core_pattern")


@pytest.mark.parametrize("name", procfs.ATTACKS)
def test_proc_attack_fails(fails, name):
    fails("procfs", name)


def test_devices_are_few(box):
    result = box.run("sh", "-c", 'stat -c "%n %F %t %T" /dev/* /dev/pts/*')
    kinds = {"character special file": "device", "symbolic link": "link", "directory": "directory"}
    found = {}
    for line in result.out.splitlines():
        name, rest = line.removeprefix("/dev/").split(" ", 1)
        kind, major, minor = rest.rsplit(" ", 2)
        found[name] = (kinds[kind], int(major, 16), int(minor, 16))
    devices = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8),
               "urandom": (1, 9), "tty": (5, 0), "pts/ptmx": (5, 2)}
    assert found == {
        **{name: ("device", *number) for name, number in devices.items()},
        **dict.fromkeys(("fd", "ptmx", "stdin", "stdout", "stderr"), ("link", 0, 0)),
        **dict.fromkeys(("pts", "shm"), ("directory", 0, 0)),
    }


@pytest.mark.warm
def test_init_does_not_name_paths_of_the_host(box):
    """The arguments of a process are open to all, and init began as the keeper."""
    script = "import sys; print(*[open(path).read() for path in sys.argv[1:]])"
    result = box.run(PYTHON, "-c", script, "/proc/1/cmdline", "/proc/self/cmdline")
    assert result.out.startswith("belljar box\0") and "/proc/self/cmdline" in result.out
    assert "state" not in result.out and str(box.home) not in result.out


def groups_of(marker):
    """The cgroups of the processes on the host that have this in their arguments."""
    found = []
    for pid in processes_with(marker):
        with contextlib.suppress(OSError):
            found.append(pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"))
    return found


@pytest.mark.warm
@pytest.mark.root_only("only root has a cgroup for each box on every host")
def test_cgroup_namespace_hides_where_it_is(box):
    marker = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    script = "for x in ('self', 1): print(open(f'/proc/{x}/cgroup').read(), end='')\ninput()"
    child = box.start(PYTHON, "-c", script, marker)
    assert wait_until(lambda: any("box-" in text for text in groups_of(marker)))
    child.stdin.write("\n")
    result = box.finish(child)
    assert result.out and all(line.endswith(":/") for line in result.out.splitlines())


# --- core dumps --------------------------------------------------------------------


@contextlib.contextmanager
def core_helper(where):
    """A helper that the kernel calls, as root, with what crashed. Yields a function that
    returns what it was told: [[host pid, name of the machine]]. There is one setting for
    the whole machine, so whoever else tests this waits."""
    said = where / "called"
    helper = where / "helper"
    helper.write_text(f"#!/bin/sh\ncat >/dev/null\necho \"$@\" >>{said}\n")
    helper.chmod(0o755)
    with open("/tmp/belljar-test-core-pattern", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = CORE_PATTERN.read_text(encoding="utf-8")
        try:
            CORE_PATTERN.write_text(f"|{helper} %P %h", encoding="utf-8")
            yield lambda: [line.split() for line in said.read_text(encoding="utf-8").splitlines()
                           ] if said.exists() else []
        finally:
            CORE_PATTERN.write_text(before, encoding="utf-8")


@pytest.mark.warm
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to set core_pattern for a moment")
@pytest.mark.skipif(in_a_container(), reason="the kernel looks for a helper outside of the "
                                             "container around the tests")
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGQUIT", "SIGSYS"])
def test_no_core_helper_of_the_host_runs(box, name):
    with core_helper(box.home) as calls:
        result = box.run("crash.py", name)
        assert result["reason_code"] == "signaled"
        outside = subprocess.Popen([PYTHON, HOSTILE / "crash.py", name], cwd=box.home)
        assert outside.wait(timeout=30) < 0
        # The control: a crash outside does call it.
        assert wait_until(lambda: [str(outside.pid), os.uname().nodename] in calls())
        assert os.uname().nodename != "box"
        assert not [machine for _, machine in calls() if machine == "box"]


# --- what one run leaves for the next ----------------------------------------------


@pytest.fixture
def leftovers(box, cache):
    """What the first run sees of its own, and what later ones see of it."""
    key = "leftovers", box.who
    if key not in cache:
        with running_keeper(box) as root:
            options = ["--root", root]
            first = box.run("leftovers.py", "plant", options=options)
            later = [box.run("leftovers.py", "look", options=options) for _ in range(3)]
        cache[key] = first.json(), [r.json() for r in later]
    return cache[key]


@pytest.mark.warm
@pytest.mark.parametrize("place", ["tmp", "var_tmp", "shm", "workspace", "data", "sysv_shm",
                                   "sysv_msg", "sysv_sem", "process"])
def test_nothing_is_left_for_the_next_run(leftovers, place):
    first, later = leftovers
    assert first[place]
    assert not any(found[place] for found in later)
