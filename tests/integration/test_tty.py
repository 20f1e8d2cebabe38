"""`belljar run` on a terminal: the guest has one of its own, and ours comes back as it
was."""
import contextlib
import fcntl
import hashlib
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

from jar import SLEEPER, SLOWER, eventually

SOON = 5.0 * SLOWER
INTERRUPT, END, SUSPEND, QUIT = "\x03", "\x04", "\x1a", "\x1c"


class Terminal:
    """A person in front of a terminal: types, reads, resizes it."""

    def __init__(self, rows=40, columns=100):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.seen = ""
        self.process = None

    def start(self, jar, *argv):
        """`belljar ARGV...` in the foreground of this terminal."""
        self.process = jar.belljar.start(
            *argv, stdin=self.slave, stdout=self.slave, stderr=self.slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        jar.started.append(self.process)
        return self

    def run(self, jar, *argv):
        return self.start(jar, *jar.arguments(*argv))

    def type(self, text):
        data = text.encode() if isinstance(text, str) else text
        while data:
            data = data[os.write(self.master, data[:512]):]

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.seen += os.read(self.master, 1 << 16).decode(errors="replace")
        return bool(ready)

    def expect(self, pattern):
        """Waits until the screen has shown it; returns the match. What was before it
        is forgotten."""
        until = time.monotonic() + SOON
        while not (found := re.search(pattern, self.seen)):
            left = until - time.monotonic()
            assert left > 0 and self._read(left), f"no {pattern!r} in {self.seen!r}"
        self.seen = self.seen[found.end():]
        return found

    def ended(self):
        """(exit status, what was shown since)."""
        until = time.monotonic() + SOON
        while self.process.poll() is None:
            assert time.monotonic() < until, self.seen
            self._read(0.02)
        while self._read(0):
            pass
        return self.process.returncode, self.seen

    def close(self):
        for fd in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(fd)


@pytest.fixture
def terminal():
    it = Terminal()
    yield it
    it.close()


def test_the_guest_has_a_terminal(jar, terminal):
    terminal.run(jar, "--", "sh", "-c",
                 "test -t 0 && test -t 1 && test -t 2 && tty && stty size && echo $TERM")
    status, shown = terminal.ended()
    assert status == 0
    assert shown.split() == ["/dev/pts/0", "40", "100", "xterm-256color"]


@pytest.mark.once
def test_its_variables_can_be_set(jar, terminal):
    terminal.run(jar, "-e", "TERM=dumb", "--", "sh", "-c", "echo $TERM")
    assert terminal.ended() == (0, "dumb\r\n")


@pytest.mark.once
@pytest.mark.parametrize("options", [["--no-tty"], ["--json"]])
def test_but_not_if_it_is_not_to(jar, terminal, options):
    terminal.run(jar, *options, "--", "sh", "-c", "test -t 0 || test -t 1 || echo pipes")
    status, shown = terminal.ended()
    assert status == 0 and "pipes" in shown


@pytest.mark.once
def test_nor_if_its_output_goes_elsewhere(jar, terminal):
    done = jar.run("--", "sh", "-c", "test -t 0 || test -t 1 || test -t 2 || echo pipes",
                   stdin=terminal.slave)
    assert done.stdout == "pipes\n"


def test_a_new_size_reaches_the_guest(jar, terminal):
    code = ("import os, signal, time\n"
            "def tell(*_): os.write(1, b'%d %d\\n' % os.get_terminal_size())\n"
            "signal.signal(signal.SIGWINCH, tell)\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
            "os.write(1, b'ready\\n')\nwhile True: time.sleep(1)\n")
    terminal.run(jar, "--", "/usr/bin/python3", "-c", code)
    terminal.expect("ready\r\n")
    for rows, columns in ((50, 120), (10, 20)):
        terminal.resize(rows, columns)
        terminal.expect(f"{columns} {rows}\r\n")
    terminal.type(INTERRUPT)
    assert terminal.ended()[0] == 128 + signal.SIGINT


def test_interrupt_ends_a_sleep(jar, terminal):
    terminal.run(jar, "--", *SLEEPER)
    terminal.expect("ready\r\n")
    terminal.type(INTERRUPT)
    status, shown = terminal.ended()
    assert status == 128 + signal.SIGINT
    assert shown == "^Cbelljar: killed: ended by signal 2 (Interrupt)\r\n"


@pytest.mark.once
def test_quit_ends_it_too(jar, terminal):
    terminal.run(jar, "--", *SLEEPER)
    terminal.expect("ready\r\n")
    terminal.type(QUIT)
    assert terminal.ended()[0] == 128 + signal.SIGQUIT


@pytest.mark.once
def test_keys_belong_to_the_guest_alone(jar, terminal):
    """A guest that takes keys as they are gets them, Ctrl-C included."""
    terminal.run(jar, "--", "sh", "-c",
                 "stty raw -echo; echo ready; head -c 4 | od -An -tx1; stty sane")
    terminal.expect("ready")
    terminal.type(INTERRUPT + SUSPEND + QUIT + END)
    terminal.expect("03 1a 1c 04")
    assert terminal.ended()[0] == 0


def test_end_of_input(jar, terminal):
    terminal.run(jar, "--", "sh", "-c", "echo ready; cat")
    terminal.expect("ready\r\n")
    terminal.type("hello\n")
    terminal.expect("hello\r\nhello\r\n")  # typed, and said
    terminal.type(END)
    assert terminal.ended() == (0, "")


@pytest.mark.once
def test_python_at_its_prompt(jar, terminal):
    terminal.run(jar, "--", "/usr/bin/python3", "-q")
    terminal.expect(">>> ")
    terminal.type("6 * 7\n")
    terminal.expect("42\r\n")
    terminal.type("import time; time.sleep(60)\n")
    terminal.expect("sleep")
    time.sleep(0.2)
    terminal.type(INTERRUPT)
    terminal.expect("(?s)KeyboardInterrupt.*>>> ")
    terminal.type("exit(4)\n")
    assert terminal.ended()[0] == 4


def test_job_control(jar, terminal):
    terminal.run(jar, "-e", "PS1=prompt>", "--", "bash", "--norc", "--noprofile", "-i")
    terminal.expect("prompt>")
    terminal.type("sleep 600\n")
    terminal.expect("sleep 600\r\n")
    time.sleep(0.1)
    terminal.type(SUSPEND)
    terminal.expect(r"Stopped +sleep 600")
    terminal.type("bg\n")
    terminal.expect(r"sleep 600 &")
    terminal.type("jobs\n")
    terminal.expect(r"Running +sleep 600")
    terminal.type("fg\n")
    terminal.expect("sleep 600\r\n")
    time.sleep(0.1)
    terminal.type(INTERRUPT)
    terminal.expect("prompt>")
    terminal.type("kill -9 %% 2>/dev/null; exit 3\n")
    status, shown = terminal.ended()
    assert status == 3
    assert "no job control" not in shown


@pytest.mark.once
def test_all_output_arrives(jar, terminal):
    terminal.run(jar, "--", "seq", "1", "20000")
    status, shown = terminal.ended()
    assert status == 0
    assert shown.split("\r\n") == [*map(str, range(1, 20001)), ""]


@pytest.mark.once
def test_much_that_is_pasted_arrives(jar, terminal):
    data = bytes(range(32, 127)) * 1000
    terminal.run(jar, "--", "sh", "-c",
                 f"stty raw -echo; echo ready; head -c {len(data)} | sha256sum")
    terminal.expect("ready")
    terminal.type(data)
    terminal.expect(hashlib.sha256(data).hexdigest())
    assert terminal.ended()[0] == 0


# --- our own terminal afterwards


@pytest.mark.parametrize("argv, status", [
    (["--", "true"], 0),
    (["--", "sh", "-c", "stty raw -echo; exit 3"], 3),
    (["--", "sh", "-c", "kill -9 $$"], 137),
    (["--", "no-such-program"], 127),
    (["-t", "200ms", "--", "sleep", "60"], 124),
    (["--copy-in", "/nonexistent", "--", "true"], 125),
])
def test_it_is_as_before(jar, terminal, argv, status):
    terminal.run(jar, *argv)
    assert terminal.ended()[0] == status
    assert termios.tcgetattr(terminal.slave) == terminal.before


@pytest.mark.once
def test_it_is_raw_meanwhile(jar, terminal):
    terminal.run(jar, "--", "sh", "-c", "echo ready; read x")
    terminal.expect("ready")
    local = termios.tcgetattr(terminal.slave)[3]
    assert not local & (termios.ICANON | termios.ECHO | termios.ISIG)
    terminal.type("\n")
    assert terminal.ended()[0] == 0
    assert termios.tcgetattr(terminal.slave) == terminal.before


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP])
def test_it_is_as_before_when_we_are_ended(jar, terminal, sig):
    terminal.run(jar, "--grace", "100ms", "--", "bash", "--norc", "-i")
    terminal.expect(r"\$ ")
    terminal.process.send_signal(sig)
    assert terminal.ended()[0] == 128 + sig
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_a_terminal_that_goes_away_ends_it(jar, terminal):
    terminal.run(jar, "--grace", "100ms", "--", "sh", "-c",
                 "trap '' HUP TERM; echo ready; while :; do sleep 0.02; done")
    terminal.expect("ready")
    terminal.close()
    assert terminal.process.wait(SOON) != 0
    jar.assert_nothing_left()


# --- beside a shell


@pytest.mark.once
def test_in_the_background_it_leaves_the_terminal_alone(jar, terminal):
    terminal.process = jar.belljar._call(["bash", "--norc", "--noprofile", "-i"], {})
    options = {**terminal.process, "env": {**terminal.process["env"], "PS1": "prompt>"}}
    terminal.process = subprocess.Popen(
        **options, stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    jar.started.append(terminal.process)
    terminal.expect("prompt>")
    run = " ".join(jar.arguments("--", "sh", "-c", "'test -t 1 || echo not a $(echo tty)'"))
    terminal.type(f"{jar.path} {run} & wait; jobs; echo END$((1 + 1))\n")
    terminal.expect("not a tty\r\n")
    found = terminal.expect("(?s)(.*)END2")
    assert "Stopped" not in found[1]
    terminal.type("exit\n")
    assert terminal.ended()[0] == 0


@pytest.mark.once
@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
def test_in_tmux(jar):
    tmux = ["tmux", "-L", "belljar", "-f", "/dev/null"]
    env = {"TMUX_TMPDIR": str(jar.home), "TERM": "xterm"}

    def do(*argv):
        done = jar.command(*tmux, *argv, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def screen():
        return do("capture-pane", "-p", "-t", "belljar")

    run = " ".join(jar.arguments("--", "bash", "--norc", "--noprofile", "-i"))
    do("new-session", "-d", "-s", "belljar", "-x", "90", "-y", "30",
       f"env BELLJAR_ROOT={jar.root} {jar.path} {run}; echo status=$?; sleep 60")
    try:
        assert eventually(lambda: "$" in screen(), SOON), screen()
        do("send-keys", "-t", "belljar", "stty size", "Enter")
        assert eventually(lambda: re.search(r"^\d+ 90$", screen(), re.M), SOON), screen()
        do("resize-window", "-t", "belljar", "-x", "70", "-y", "20")
        time.sleep(0.2)
        do("send-keys", "-t", "belljar", "clear; stty size", "Enter")
        assert eventually(lambda: re.search(r"^\d+ 70$", screen(), re.M), SOON), screen()
        do("send-keys", "-t", "belljar", "clear; exit 5", "Enter")
        assert eventually(lambda: "status=5" in screen(), SOON), screen()
    finally:
        do("kill-server")
