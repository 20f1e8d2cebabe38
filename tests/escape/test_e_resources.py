"""Part E: what can be used up, and who notices. A limit that this host can not enforce
is one of which the result says so."""
import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import threading
import time

import pytest
from outside import PYTHON, SLOWER, processes_with, running_keeper, wait_until

MB = 1 << 20
LATENCY_SECONDS = 3 * SLOWER  # of another run, however busy this one is
FREED_IS_FREE = "quarantine_size_mb=16"  # a sanitizer keeps more than that otherwise


def exhaust(box, way, most=1 << 20, *more, **kwargs):
    box.give("exhaust.py")
    return box.run("exhaust.py", way, str(most), *more, **kwargs)


# --- processes ---------------------------------------------------------------------


@pytest.mark.warm
@pytest.mark.parametrize("way", ["processes", "threads"])
@pytest.mark.delegated
def test_number_of_processes_is_limited(box, way):
    result = exhaust(box, way, 1000, options=["--pids", "50"])
    found = result.json()
    assert found["why"] == "EAGAIN" and 40 <= found["n"] <= 50
    control = exhaust(box, way, 30, options=["--pids", "50"]).json()
    assert control == {"n": 30, "why": "unlimited"}


def test_number_of_processes_is_said_to_be_the_reason(box):
    script = "for i in $(seq 100); do sleep 30 & done"
    result = box.run("sh", "-c", script, options=["--pids", "20"])
    counted = result["resource_usage"]["pids"]
    assert result["reason_code"] in ("pids_limit_exceeded", "nonzero_exit"), result
    # Without a cgroup nobody counts refusals; the program's own words remain.
    assert result["reason_code"] == "pids_limit_exceeded" or "fork" in result["stderr"].lower()
    assert counted is None or counted <= 21


@pytest.mark.root_only("needs root to be the root of a container")
def test_root_without_capabilities_is_told_the_truth(box):
    """The kernel does not count the processes of its root: without a cgroup there is no
    limit in a container without a user namespace, and that must be said."""
    lessen = ["unshare", "--mount", "sh", "-c",
              'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh",
              "setpriv", "--bounding-set", "-sys_admin,-mknod,-sys_resource", "--inh-caps", "-all"]
    box.give("harness.py")
    argv = box.argv("exhaust.py", "processes", "200", options=["--pids", "40"])
    done = box.belljar.command(*lessen, box.belljar.path, *argv, env=box.env())
    result = box.parse(done.stdout, done.stderr)
    assert "memory" in result["not_enforced"] and "uid" in result["not_enforced"]
    assert result.json()["n"] <= 40 or "pids" in result["not_enforced"]


@pytest.mark.alone
@pytest.mark.parametrize("bomb", [("crowd.py", "fork"), ("exhaust.py", "threads", "100000")],
                         ids=["fork", "threads"])
def test_bomb_does_not_disturb_another_run(box, bomb):
    box.give("exhaust.py")
    with running_keeper(box) as root:
        options = ["--root", root]
        box.run("true", options=options)
        more = ["hold", "10"] if bomb[0] == "exhaust.py" else []
        child = box.start(*bomb, *more,
                          options=[*options, "--timeout", "3s", "--copy-in",
                                   box.home / "hostile/exhaust.py"])
        assert wait_until(lambda: len(processes_with(bomb[0])) > 1)
        time.sleep(0.5)
        latencies = []
        while child.poll() is None and len(latencies) < 5:
            begin = time.monotonic()
            assert box.run("echo", "ran", options=options).out == "ran\n"
            latencies.append(time.monotonic() - begin)
        result = box.finish(child)
    assert latencies and max(latencies) < LATENCY_SECONDS, latencies
    assert result["reason_code"] == "execution_timeout"
    assert not processes_with(bomb[0])


# --- what the kernel closes later ---------------------------------------------------


def shared_megabytes():
    """Memory of tmpfs and memfds in the whole machine."""
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Shmem:")) // 1024


@pytest.mark.alone
def test_files_left_to_the_kernel_do_not_keep_memory(box):
    """The kernel closes the files of AF_UNIX cycles one after another in a thread of its
    own. A socket that lingers there would keep the memory of every later run."""
    before = shared_megabytes()
    assert box.run("linger.py", "plug", "20").out == "Protocol not available\n"
    for _ in range(10):
        assert box.run("linger.py", "fill", "40")["exit_code"] == 0
    assert wait_until(lambda: shared_megabytes() < before + 100, 5)


# --- memory ------------------------------------------------------------------------


def no_memory_limit(box):
    """True, and a truthful result, where there is no memory limit."""
    result = box.run("true")
    if box.enforces(result, "memory"):
        return False
    refused = box.run("echo", "ran", options=["--require", "memory"])
    assert refused["reason_code"] == "policy_denied" and "memory" in refused["message"]
    return True


@pytest.mark.warm
@pytest.mark.delegated
@pytest.mark.parametrize("way", ["anonymous", "shared", "memfd", "system_v", "workspace"])
def test_memory_is_limited(box, way):
    if no_memory_limit(box):
        return
    result = exhaust(box, way, 400, options=["--memory", "64M", "--workspace-cap", "512M"])
    assert result["reason_code"] == "oom_killed" and result["exit_code"] is None, result
    assert "67108864" in result["message"]
    control = exhaust(box, way, 16, options=["--memory", "64M"]).json()
    assert control == {"n": 16, "why": "unlimited"}


@pytest.mark.delegated
@pytest.mark.parametrize("way", ["sockets", "pipes"])
def test_memory_of_the_kernel_is_limited(box, way):
    """Charged to the box, or refused to the user: never without an end."""
    if no_memory_limit(box):
        return
    box.give("exhaust.py")
    result = box.run("crowd.py", way, options=["--memory", "64M", "--timeout", "8s", "--copy-in",
                                               box.home / "hostile/exhaust.py"])
    peak = result["resource_usage"]["peak_rss_mb"]
    assert result["reason_code"] in ("oom_killed", "execution_timeout"), result
    assert peak <= 65
    assert way != "sockets" or result["reason_code"] == "oom_killed"


def pages_of_sockets(protocol):
    """What all sockets of the host have queued; the kernel counts it for all together."""
    for line in pathlib.Path("/proc/net/sockstat").read_text().splitlines():
        if line.startswith(protocol + ":"):
            return int(line.split()[-1])
    return 0


@pytest.mark.alone
@pytest.mark.delegated
@pytest.mark.parametrize("way, protocol", [("tcp", "TCP"), ("udp", "UDP")])
def test_what_sockets_hold_is_limited(box, way, protocol):
    """Or one process could take all memory that the host has for sockets, the server's among them.
    A box with version 2 of control groups dies of it; with version 1 its sockets drop or wait."""
    if no_memory_limit(box):
        return
    before, most = pages_of_sockets(protocol), 0
    box.give("exhaust.py")
    guest = box.start("exhaust.py", way, "100", "hold", "2", options=["--memory", "64M"])
    while guest.poll() is None:
        most = max(most, pages_of_sockets(protocol))
        time.sleep(0.02)
    guest.communicate()
    assert most - before < 72 * MB / os.sysconf("SC_PAGE_SIZE"), most - before


@pytest.mark.delegated
def test_page_cache_is_no_reason_to_die(box):
    """Reading much is not having much: what can be dropped is dropped."""
    script = "cat /usr/lib/*/*.so* /usr/bin/* 2>/dev/null | head -c 300M | wc -c"
    result = box.run("sh", "-c", script, options=["--memory", "64M"])
    assert result["reason_code"] == "exit_code_0" and int(result.out) > 64 * MB


@pytest.mark.alone
@pytest.mark.delegated
def test_running_out_of_memory_hurts_nobody_else(box):
    if no_memory_limit(box):
        return
    with running_keeper(box) as root:
        options = ["--root", root]
        quiet = box.start("sh", "-c", "echo begin; sleep 1; echo end", options=options)
        for _ in range(3):
            assert exhaust(box, "anonymous", 400, options=[*options, "--memory", "32M"])[
                "reason_code"] == "oom_killed"
        assert box.finish(quiet).out == "begin\nend\n"
        assert box.run("echo", "ran", options=options).out == "ran\n"


@pytest.mark.delegated
def test_one_child_out_of_memory_ends_all(box):
    """The whole box goes, and not just its largest process."""
    if no_memory_limit(box):
        return
    box.give("exhaust.py")
    marker = f"bystander-{time.monotonic_ns()}"
    script = f"sh -c 'sleep 600' {marker} & python3 /workspace/exhaust.py anonymous 400; wait"
    result = box.run("sh", "-c", script, options=["--memory", "48M", "--copy-in",
                                                  box.home / "hostile/exhaust.py"])
    assert result["reason_code"] == "oom_killed" and not processes_with(marker)


# --- processor ---------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.delegated
@pytest.mark.parametrize("cores, processes", [(0.25, 1), (0.5, 4)])
def test_processor_time_is_limited(box, cores, processes):
    result = box.run("spin.py", str(processes), "1.5", options=["--cpu", str(cores)])
    assert "got it" not in result.out
    if not box.enforces(result, "cpu"):
        refused = box.run("echo", "ran", options=["--require", "cpu"])
        assert refused["reason_code"] == "policy_denied"
        return
    usage = result["resource_usage"]
    share = usage["cpu_time_sec"] / usage["wall_time_sec"]
    assert share < cores * 1.35 + 0.05, usage
    assert share > cores * 0.3  # it did try


def test_real_time_of_the_caller_is_not_the_guests(box):
    """A caller with the right to real-time priorities does not hand it on."""
    limits = {resource.RLIMIT_RTPRIO: 50, resource.RLIMIT_NICE: 40}
    script = """
import os, resource
print(resource.getrlimit(resource.RLIMIT_RTPRIO), resource.getrlimit(resource.RLIMIT_NICE))
for attempt in (lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
                lambda: os.nice(-10)):
    try:
        attempt()
        print("got it")
    except PermissionError:
        print("refused")
"""
    raised = []
    try:
        for which, value in limits.items():
            before = resource.getrlimit(which)
            resource.setrlimit(which, (value, value))
            raised.append((which, before))
    except (OSError, ValueError):
        pytest.skip("needs CAP_SYS_RESOURCE to have such rights first")
    finally:
        out = box.run("/usr/bin/python3", "-c", script).out if len(raised) == 2 else ""
        for which, before in raised:
            resource.setrlimit(which, before)
    assert out == "(0, 0) (0, 0)\nrefused\nrefused\n"


@pytest.mark.warm
def test_scheduling_rights_are_none(box):
    script = """
import resource
print(resource.getrlimit(resource.RLIMIT_RTPRIO), resource.getrlimit(resource.RLIMIT_NICE))
"""
    assert box.run("/usr/bin/python3", "-c", script).out == "(0, 0) (0, 0)\n"


# --- disk --------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.parametrize("way, most", [("workspace", 16), ("data", 16), ("tmp", 64), ("shm", 64),
                                       ("preallocate", 16)])
def test_files_fill_their_cap_and_not_the_disk(box, way, most):
    lost = []
    while not lost or (lost[-1] >= 8 * MB and len(lost) < 5):  # others write to it too
        free = shutil.disk_usage("/").free
        found = exhaust(box, way, 1000, options=["--workspace-cap", "16M"]).json()
        lost.append(free - shutil.disk_usage("/").free)
        assert found["why"] == "ENOSPC" and most - 2 <= found["n"] <= most
    assert min(lost) < 8 * MB


@pytest.mark.warm
def test_number_of_files_is_limited(box):
    found = exhaust(box, "inodes", 1000, options=["--workspace-cap", "16M"]).json()
    assert found["why"] == "ENOSPC" and 3 <= found["n"] <= 4  # thousands


def test_attributes_of_files_are_limited(box):
    found = exhaust(box, "attributes", options=["--workspace-cap", "16M"]).json()
    assert found["why"] in ("ENOSPC", "EOPNOTSUPP", "E2BIG", "ENOTSUP"), found


@pytest.mark.warm
def test_size_of_one_file_is_limited(box):
    script = """
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("/workspace/sparse", "wb") as f:
    f.truncate(8 << 20)
    try:
        f.truncate(1 << 40)
        print("got it")
    except OSError as e:
        print(os.strerror(e.errno))
"""
    result = box.run("/usr/bin/python3", "-c", script, options=["--workspace-cap", "16M"])
    assert result.out == "File too large\n"


# --- output ------------------------------------------------------------------------


def watch_memory(pid, most):
    """Put into `most` the memory that a process ever had, in MiB, until it ends."""
    with contextlib.suppress(OSError, StopIteration):
        while True:
            with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                line = next(line for line in f if line.startswith("VmHWM"))
            most.append(int(line.split()[1]) / 1024)
            time.sleep(0.02)


def run_measured(box, *argv, reader, **options):
    """belljar run ARGV..., handing each chunk of its output to `reader`. Returns its exit
    status and the most memory it had, in MiB."""
    argv = ["run", "--timeout", f"{60 * SLOWER}s", *argv]
    env = {**box.env(), "ASAN_OPTIONS": FREED_IS_FREE}
    child = box.belljar.start(*argv, env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, **{"text": False, **options})
    most = []
    watcher = threading.Thread(target=watch_memory, args=(child.pid, most))
    watcher.start()
    while chunk := child.stdout.read(1 << 20):
        reader(chunk)
    child.stdout.close()
    status = child.wait(timeout=60 * SLOWER)
    watcher.join()
    assert most[-1] > 1  # it was seen
    return status, max(most)


def test_flood_of_output_passes_through(box):
    seen = []
    status, memory = run_measured(box, "-q", "--", "head", "-c", "1G", "/dev/zero",
                                  reader=lambda chunk: seen.append(len(chunk)))
    assert (status, sum(seen)) == (0, 1 << 30)
    assert memory < 64


def test_flood_of_output_in_json_is_cut_and_said(box):
    kept = []
    status, memory = run_measured(box, "--json", "--", "sh", "-c",
                                  "yes | head -c 400M", reader=kept.append)
    result = json.loads(b"".join(kept))
    assert status == 0 and result["reason_code"] == "exit_code_0"
    assert result["stdout_truncated"] and len(result["stdout"]) == 16 * MB
    assert not result["stderr_truncated"]
    assert result["resource_usage"]["log_bytes"] == 400 * MB
    assert memory < 200


def test_reader_that_is_slow_costs_no_memory(box):
    """Nobody reads for a while: the guest waits, nothing grows."""
    seen = []

    def reader(chunk):
        if not seen:
            time.sleep(1)
        seen.append(len(chunk))

    status, memory = run_measured(box, "-q", "--", "head", "-c", "100M", "/dev/zero",
                                  reader=reader)
    assert (status, sum(seen)) == (0, 100 * MB) and memory < 64


def test_flood_of_input_is_not_kept(box):
    """A guest that does not read its input does not make us keep it."""
    read_end, write_end = os.pipe()

    def pour():
        try:
            while True:
                os.write(write_end, b"x" * 65536)
        except OSError:
            pass

    thread = threading.Thread(target=pour, daemon=True)
    thread.start()
    status, memory = run_measured(box, "-q", "--", "sleep", "1", reader=lambda chunk: None,
                                  stdin=read_end)
    os.close(read_end)
    thread.join(timeout=10)
    os.close(write_end)
    assert status == 0 and memory < 64


# --- descriptors, timers, signals --------------------------------------------------


@pytest.mark.parametrize("way, whys, most", [
    ("descriptors", {"EMFILE"}, 1024),
    ("terminals", {"ENOSPC"}, 64),
    ("epolls", {"EMFILE"}, 1024),
    ("inotify", {"EMFILE"}, 1024),
    ("timers", {"EAGAIN"}, 4096),
    ("queued_signals", {"EAGAIN"}, 4096),
    ("locked_memory", {"ENOMEM", "EPERM", "EAGAIN"}, 1),
])
@pytest.mark.warm
def test_number_is_limited(box, way, whys, most):
    found = exhaust(box, way, 100000).json()
    assert found["why"] in whys and found["n"] <= most
    assert found["n"] > 0 or way == "locked_memory"


def test_descriptors_in_flight_leave_some_to_the_keeper(box):
    """The kernel counts them for each user, and guests of a plain user are he himself."""
    few = (resource.RLIMIT_NOFILE, (1024, 1024))
    with running_keeper(box, preexec_fn=lambda: resource.setrlimit(*few)) as root:
        options = ["--root", root]
        box.give("exhaust.py")
        greedy = box.start("exhaust.py", "in_flight", "100", "hold", "3", options=options)
        time.sleep(1)
        assert box.run("echo", "ran", options=options).out == "ran\n"
        assert box.finish(greedy).json()["why"] == "ETOOMANYREFS"


@pytest.mark.alone
def test_watches_come_to_an_end(box):
    found = exhaust(box, "watches", 1).json()
    assert found["why"] in ("ENOSPC", "ENOMEM"), found


@pytest.mark.warm
def test_exhausting_descriptors_hurts_nobody_else(box):
    with running_keeper(box) as root:
        options = ["--root", root]
        box.give("exhaust.py")
        greedy = [box.start("exhaust.py", "descriptors", "100000", "hold", "3", options=options)
                  for _ in range(3)]
        assert wait_until(lambda: len(processes_with("exhaust.py")) >= 6)
        assert box.run("echo", "ran", options=options).out == "ran\n"
        for child in greedy:
            child.send_signal(signal.SIGTERM)
            box.finish(child)


# --- time --------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.parametrize("how", ["ignore", "stop", "trace", "vfork", "starve_init"])
def test_timeout_holds(box, how):
    begin = time.monotonic()
    result = box.run("stubborn.py", how, options=["--timeout", "1s"])
    took = time.monotonic() - begin
    assert result["reason_code"] == "execution_timeout" and result.out == "started\n"
    assert 1 <= took < 2 * SLOWER + 1
    assert not processes_with("stubborn.py")


def ignores_term(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as f:
        ignored = next(line for line in f if line.startswith("SigIgn:"))
        return bool(int(ignored.split()[1], 16) & 1 << signal.SIGTERM - 1)
    return False


@pytest.mark.warm
@pytest.mark.alone
def test_cancel_holds(box):
    child = box.start("stubborn.py", "ignore", options=["--grace", "500ms"])
    # The guest itself, and not one of ours on the way to it, with its name in the arguments.
    assert wait_until(lambda: any(map(ignores_term, processes_with("stubborn.py\0ignore",
                                                                   begins=PYTHON))))
    begin = time.monotonic()
    child.send_signal(signal.SIGTERM)
    result = box.finish(child)
    assert result["reason_code"] == "canceled_by_user"
    assert 0.5 <= time.monotonic() - begin < 2 * SLOWER + 1


def test_no_timeout_is_not_the_default(box):
    assert box.run("true")["resource_usage"]["limits"]["timeout_sec"] == 60
