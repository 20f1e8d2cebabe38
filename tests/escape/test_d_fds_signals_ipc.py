"""Part D: descriptors, signals, terminals, sockets, IPC, and who is left afterwards."""
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import border
import pytest
from outside import SLOWER, processes_with, running_keeper, wait_until

# What a guest finds in its environment; more is asked for with --env.
ENVIRONMENT = {"HOME", "LANG", "PATH", "PWD", "SHLVL", "TERM", "TMPDIR", "USER", "LOGNAME", "_",
               "LC_ALL", "LC_CTYPE", "SHELL", "HOSTNAME"}


@pytest.mark.parametrize("name", border.ATTACKS)
def test_border_attack_fails(fails, name):
    fails("border", name)


# --- descriptors -------------------------------------------------------------------


@pytest.mark.warm
def test_only_three_descriptors_are_open(box):
    """Also when whoever started us left others open, without close-on-exec."""
    path = box.sentinels.places["file_tmp"]
    fds = [os.open(path, os.O_RDONLY) for _ in range(20)]
    try:
        result = box.run("descriptors.py", pass_fds=fds)
    finally:
        for fd in fds:
            os.close(fd)
    found = result.json()
    assert found["open"] == [0, 1, 2]
    assert found["kinds"] == ["pipe"] * 3  # none is a file of the host's


def test_descriptors_are_the_guests_own(box):
    """So much so that it can open them again, by name."""
    result = box.run("sh", "-c", "cat </dev/stdin >/dev/stdout; echo err >/dev/stderr", input="in")
    assert (result.out, result["stderr"]) == ("in", "err\n")


@pytest.mark.warm
def test_environment_is_not_the_clients(box):
    found = box.run("descriptors.py", options=["--env", "ASKED=1"]).json()
    assert set(found["environment"]) - ENVIRONMENT == {"ASKED"}


@pytest.mark.warm
def test_without_a_terminal_there_is_none(box):
    found = box.run("descriptors.py").json()
    assert not found["is_tty"] and found["dev_tty"] == "ENXIO" and found["pts"] == ["ptmx"]


# --- terminals ---------------------------------------------------------------------


class Terminal:
    """A terminal of the host with belljar on it, as its controlling one."""

    def __init__(self, box, *argv):
        self.master, self.slave = pty.openpty()
        self.resize(24, 80)
        attributes = termios.tcgetattr(self.slave)
        attributes[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(self.slave, termios.TCSANOW, attributes)
        slave = self.slave
        self.child = box.belljar.start(
            "run", "-q", *argv, env=box.env(), stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))
        box.started.append(self.child)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, word, seconds=20):
        end = time.monotonic() + seconds * SLOWER
        while word not in self.text and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.text += os.read(self.master, 65536).decode("utf-8", "replace")
            elif self.child.poll() is not None:
                break
        assert word in self.text, self.text
        return self.text

    def pending_input(self):
        """What somebody typed into the slave's side."""
        os.set_blocking(self.slave, False)
        try:
            return os.read(self.slave, 4096)
        except BlockingIOError:
            return b""

    def close(self):
        for fd in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(fd)


@pytest.fixture
def on_terminal(box, cache):
    """What a guest with a terminal finds."""
    key = "terminal", box.who
    if key not in cache:
        box.give("descriptors.py")
        t = Terminal(box, "--copy-in", box.home / "hostile/descriptors.py", "--",
                     "/usr/bin/python3", "-B", "/workspace/descriptors.py")
        text = t.read_until("}")
        assert t.child.wait(timeout=30 * SLOWER) == 0
        cache[key] = json.loads(text[text.index("{"):text.index("}") + 1]), t.pending_input()
        box.sentinels.assert_absent(text)
        t.close()
    return cache[key]


def test_terminal_is_the_guests_own(on_terminal):
    found, _ = on_terminal
    assert found["is_tty"] and found["ttyname"] == "/dev/pts/0" and found["dev_tty"] == "own"
    assert found["open"] == [0, 1, 2] and found["leads"]
    assert found["size"] == "ok"  # the control of what follows


@pytest.mark.parametrize("request_name", ["tiocsti", "tiocsti_tty", "tioclinux", "tiocsetd",
                                          "tioccons"])
def test_terminal_takes_no_orders(on_terminal, request_name):
    assert on_terminal[0][request_name] == "EPERM"


def test_nothing_is_typed_into_the_hosts_terminal(on_terminal):
    assert on_terminal[1] == b""


def test_master_of_the_terminal_is_not_inside(on_terminal):
    found, _ = on_terminal
    assert found["masters"] == [] and found["pts"] == ["0", "ptmx"]
    assert found["tiocgptn"] in ("ENOTTY", "EIO") and found["tiocgptpeer"] in ("ENOTTY", "EIO")


def test_resizing_wildly_does_no_harm(box):
    t = Terminal(box, "--", "sh", "-c", "echo ready; read x; stty size; echo done")
    t.read_until("ready")
    for i in range(300):
        t.resize(1 + i % 100, 1 + i)
    t.resize(33, 44)
    time.sleep(0.2)
    os.write(t.master, b"x\n")
    assert "33 44" in t.read_until("done")
    assert t.child.wait(timeout=20 * SLOWER) == 0
    t.close()


def test_hanging_up_ends_the_run(box):
    marker = f"hangup-{time.monotonic_ns()}"
    t = Terminal(box, "--grace", "1s", "--", "sh", "-c",
                 "trap '' HUP TERM; echo ready; while :; do sleep 0.1; done", marker)
    t.read_until("ready")
    assert processes_with(marker)
    t.close()
    t.child.wait(timeout=20 * SLOWER)
    assert wait_until(lambda: not processes_with(marker))


# --- signals -----------------------------------------------------------------------


@pytest.mark.warm
def test_killing_everybody_kills_nobody_else(box):
    script = """
import os, signal, subprocess
child = subprocess.Popen(["sleep", "100"])
os.kill(-1, signal.SIGKILL)
print(child.wait())
"""
    result = box.run("/usr/bin/python3", "-c", script)
    assert result.out == "-9\n" and result["reason_code"] == "exit_code_0"
    for name in ("process", "user_process"):
        os.kill(box.sentinels.places[name], 0)


@pytest.mark.warm
def test_init_survives_being_attacked(box, compiled):
    """Signals, scheduling: the run still ends as itself, and reports."""
    script = """
import contextlib, os, signal
for number in signal.valid_signals():
    with contextlib.suppress(OSError):
        os.kill(1, number)
with contextlib.suppress(PermissionError):
    os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))
with contextlib.suppress(PermissionError):
    os.setpriority(os.PRIO_PROCESS, 1, 19)
print("still here")
"""
    result = box.run("/usr/bin/python3", "-c", script)
    assert result.out == "still here\n" and result["reason_code"] == "exit_code_0"


# --- who is left -------------------------------------------------------------------


def end_by_itself(box, marker):
    return box.run("orphan.py", marker, "leave")


def end_by_timeout(box, marker):
    return box.run("orphan.py", marker, "spin", options=["--timeout", "1s"])


def end_by_timeout_when_stopped(box, marker):
    return box.run("orphan.py", marker, "stop", options=["--timeout", "1s"])


def end_by_cancel(box, marker):
    child = box.start("orphan.py", marker, "spin", options=["--grace", "500ms"])
    assert wait_until(lambda: processes_with("orphan-" + marker))
    child.send_signal(signal.SIGTERM)
    return box.finish(child)


def end_by_disconnect(box, marker):
    child = box.start("orphan.py", marker, "wait")
    assert wait_until(lambda: processes_with("orphan-" + marker))
    child.kill()
    child.communicate(timeout=30)
    return None


def end_by_killing_the_keeper(box, marker):
    child = box.start("orphan.py", marker, "wait")
    assert wait_until(lambda: processes_with("orphan-" + marker))
    for pid in [k.pid for k in box.own_keepers] or children_of(child.pid):
        os.kill(pid, signal.SIGKILL)
    out, _ = child.communicate(timeout=30)
    assert json.loads(out)["reason_code"] == "infrastructure_error"
    return None


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f:
        found = [int(p) for p in f.read().split()]
    assert found
    return found


ENDS = {
    "exit": (end_by_itself, "exit_code_0"),
    "timeout": (end_by_timeout, "execution_timeout"),
    "timeout_stopped": (end_by_timeout_when_stopped, "execution_timeout"),
    "cancel": (end_by_cancel, "canceled_by_user"),
    "disconnect": (end_by_disconnect, None),
    "keeper_killed": (end_by_killing_the_keeper, None),
}


@pytest.mark.warm
@pytest.mark.parametrize("how", ENDS)
def test_no_orphan_outlives_its_run(box, how):
    end, reason = ENDS[how]
    marker = f"{how}-{os.getpid()}-{time.monotonic_ns()}"
    result = end(box, marker)
    if reason:
        assert result["reason_code"] == reason and "started" in result.out
        assert not processes_with(marker)  # at once: the result is the last thing
    assert wait_until(lambda: not processes_with(marker))


def test_orphans_are_seen_while_they_live(box):
    """The control of the above: the host does see such a process."""
    marker = f"control-{os.getpid()}-{time.monotonic_ns()}"
    child = box.start("orphan.py", marker, "wait")
    assert wait_until(lambda: processes_with("orphan-" + marker))
    child.stdin.close()
    child.stdin = None
    assert box.finish(child)["reason_code"] == "exit_code_0"


# --- neighbours --------------------------------------------------------------------


@pytest.fixture
def neighbours(box, cache):
    """What one box serves, as it sees it itself and as its neighbour sees it."""
    key = "neighbours", box.who
    if key not in cache:
        with running_keeper(box) as root:
            options = ["--root", root]
            host = box.start("neighbour.py", "serve", options=options)
            assert wait_until(lambda: len(processes_with("neighbour.py")) > 1)  # not just us
            visitor = box.run("neighbour.py", "visit", options=options).json()
            host.stdin.close()
            host.stdin = None
            cache[key] = box.finish(host).json(), visitor
    return cache[key]


@pytest.mark.warm
@pytest.mark.parametrize("what", ["abstract", "path", "tcp", "tcp6", "sysv_shm", "sysv_msg",
                                  "posix_shm", "process"])
def test_neighbours_do_not_meet(neighbours, what):
    own, visitor = neighbours
    assert own[what] and not visitor[what]


def test_keeper_turns_others_away(box):
    """Its socket is for one user, and for root."""
    if os.geteuid() != 0:
        pytest.skip("needs root to be somebody else")
    with running_keeper(box) as root:
        mine = box.run("echo", "ran", options=["--root", root])
        assert mine.out == "ran\n"
        for path in (box.home, root):
            path.chmod(0o755)
        for path in root.iterdir():
            if path.is_socket():
                path.chmod(0o777)
        done = subprocess.run([box.belljar.path, "run", "--root", root, "--", "echo", "ran"],
                              capture_output=True, text=True, check=False, cwd="/",
                              user=54321, group=54321, extra_groups=[],
                              env={"HOME": "/nonexistent"})
        assert done.returncode == 125 and "ran" not in done.stdout
