"""`jar`: the program with a state directory of its own, and the proof that nothing of
it is left when the test is over: no process, no registered keeper."""
import contextlib
import os
import pathlib
import secrets
import signal
import subprocess
import time

import pytest

SLOWER = int(os.environ.get("BELLJAR_TEST_SLOWER", "1"))
ENDING_SECONDS = 5 * SLOWER  # how long what lost its owner may take to be gone


def processes_with(*needles):
    """{pid: command line} of all whose command line or environment holds a needle.
    The pids are enough to end them by."""
    found = {}
    wanted = [n.encode() for n in needles]
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes()
            environ = b""
            with contextlib.suppress(OSError):
                environ = (entry / "environ").read_bytes()
            if any(n in line or n in environ for n in wanted):
                found[int(entry.name)] = line.replace(b"\0", b" ").decode(errors="replace")
    return found


def eventually(probe, seconds=ENDING_SECONDS, pause=0.01):
    """Calls `probe` until it returns something true, which is returned; else the last
    thing that it returned."""
    until = time.monotonic() + seconds
    while not (got := probe()) and time.monotonic() < until:
        time.sleep(pause)
    return got


class Jar:
    """`belljar`, with a root and a mark that finds its processes again."""

    def __init__(self, belljar):
        self.belljar = belljar
        self.home = belljar.home
        self.path = belljar.path
        self.is_root = belljar.is_root
        self.becomes_user = belljar.becomes_user
        self.root = belljar.home / "state"
        self.mark = "belljar-mark-" + secrets.token_hex(8)
        self.file = belljar.file
        self.started = []
        belljar.env["BELLJAR_ROOT"] = str(self.root)

    def command(self, *argv, **options):
        return self.belljar.command(*argv, **options)

    def cli(self, *argv, **options):
        """belljar ARGV..., waited for."""
        return self.belljar.run(*argv, **options)

    def run(self, *argv, **options):
        """belljar run ARGV..., marked and quiet, waited for."""
        return self.belljar.run(*self.arguments(*argv), **options)

    def sh(self, script, *options, **more):
        """The same for a script of the shell."""
        return self.run(*options, "--", "/bin/sh", "-c", script, **more)

    def start(self, *argv, **options):
        """belljar ARGV..., as a Popen with pipes; it is ended with the test."""
        for name in ("stdin", "stdout", "stderr"):
            options.setdefault(name, subprocess.PIPE)
        process = self.belljar.start(*argv, **options)
        self.started.append(process)
        return process

    def start_run(self, *argv, **options):
        return self.start(*self.arguments(*argv), **options)

    def start_keeper(self, *argv, **options):
        """A keeper that serves the root; returns when clients can connect."""
        process = self.start("keeper", *argv, stdin=subprocess.DEVNULL, **options)
        socket = self.root / "keeper.sock"
        assert eventually(lambda: socket.exists() or process.poll() is not None), "no keeper"
        assert process.poll() is None, process.stderr.read()
        return process

    def arguments(self, *argv):
        return ["run", "-q", "-e", f"BELLJAR_MARK={self.mark}", *argv]

    def processes(self):
        """Our keepers, inits and guests that live."""
        return processes_with(f"--root\0{self.root}\0", f"BELLJAR_ROOT={self.root}\0",
                              f"BELLJAR_MARK={self.mark}")

    def registered(self):
        """Keepers that say that they are there."""
        keepers = self.root / "keepers"
        return sorted(k.name for k in keepers.iterdir()) if keepers.exists() else []

    def assert_nothing_left(self, seconds=ENDING_SECONDS):
        eventually(lambda: not self.processes(), seconds)
        assert self.processes() == {}
        assert self.registered() == []

    def close(self):
        for process in self.started:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_SECONDS)
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(OSError):
                        stream.close()


@pytest.fixture
def jar(belljar):
    it = Jar(belljar)
    yield it
    it.close()
    try:
        it.assert_nothing_left()
    finally:
        for pid in it.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
