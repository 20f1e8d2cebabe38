"""The program with a state directory of its own, and what of it still lives."""
import contextlib
import os
import pathlib
import re
import secrets
import signal
import subprocess
import time

import wire

SLOWER = int(os.environ.get("BELLJAR_TEST_SLOWER", "1"))
# A guest that dies of a signal as soon as it has said "ready"; a shell that is just
# about to start another program may overlook one.
SLEEPER = ("/usr/bin/python3", "-c",
           "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); "
           "print('ready', flush=True); time.sleep(60)")
PF_KTHREAD = 0x200000
ENDING_SECONDS = 5 * SLOWER  # how long what lost its owner may take to be gone


def _read(pid, name):
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as f:
        return f.readall()


def _processes():
    """{pid: (command line, environment, parent)} of all that live but for the kernel's own.
    Called so often that it must be quick."""
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if pid == os.getpid():
            continue
        with contextlib.suppress(OSError):
            state, parent, *_, flags = _read(pid, "stat").rpartition(b") ")[2].split()[:7]
            if state == b"Z" or int(flags) & PF_KTHREAD:
                continue
            line, environ = _read(pid, "cmdline"), b""
            with contextlib.suppress(OSError):
                environ = _read(pid, "environ")
            found[pid] = (line, environ, int(parent))
    return found


def _depth(pid):
    """In how many pid namespaces it is; 0 when it is gone."""
    with contextlib.suppress(OSError):
        return len(re.search(rb"^NSpid:(.*)$", _read(pid, "status"), re.M)[1].split())
    return 0


def processes_with(*needles):
    """{pid: command line} of all whose command line or environment holds a needle, of
    all that these have started, and of inits of boxes that lost their keeper: those
    have no command line of their own to be known by, but became our children."""
    wanted = [n.encode() for n in needles]
    every = _processes()
    found = {pid for pid, (line, environ, _) in every.items()
             if any(n in line or n in environ for n in wanted)}
    found |= {pid for pid, (line, _, parent) in every.items()
              if parent == os.getpid() and line.split(b"\0")[0] in (b"", b"belljar")
              and _depth(pid) > _depth("self")}
    while more := {pid for pid, (*_, parent) in every.items()
                   if parent in found} - found:
        found |= more
    return {pid: every[pid][0].replace(b"\0", b" ").decode(errors="replace") for pid in found}


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
        assert eventually(lambda: self.is_served() or process.poll() is not None), "no keeper"
        assert process.poll() is None, process.stderr.read()
        return process

    def is_served(self):
        """A greeting, since the socket of a killed keeper lives for as long as a box that
        was just being made."""
        with contextlib.suppress(OSError, AssertionError), \
                wire.acting_as(self.home.stat().st_uid):
            wire.Wire(self.root / "keeper.sock").greet().close()
            return True
        return False

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
        assert eventually(lambda: not self.processes(), seconds), self.processes()
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
