"""Clients and keepers are killed at any moment, again and again. In the end nothing is
left of them, and nothing was said that did not happen.

BELLJAR_TEST_SEED=N repeats the choices of an earlier storm, though not its timing.
"""
import contextlib
import ctypes
import os
import pathlib
import random
import signal
import struct
import threading
import time

import pytest

import wire
from jar import SLOWER, eventually

pytestmark = pytest.mark.alone  # else the storm is over before a keeper was there to be hit
ROUNDS = 150  # of each kind
PARALLEL = 3
SOON = 10 * SLOWER
# From before a private keeper has started to after its run has ended.
LATEST_SECONDS = 0.06 * SLOWER
QUIET = {"ASAN_OPTIONS": "detect_leaks=0"}  # which can not bear to be killed
IN_CREATE, IN_CLOEXEC = 0x100, 0o2000000


class Names:
    """Every name that was ever made in a directory."""

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(IN_CLOEXEC)
        assert libc.inotify_add_watch(self.fd, os.fsencode(path), IN_CREATE) >= 0
        self.names = set()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        head = struct.Struct("iIII")
        with contextlib.suppress(OSError):
            while data := os.read(self.fd, 1 << 16):
                while data:
                    *_, size = head.unpack_from(data)
                    name = data[head.size:head.size + size].rstrip(b"\0").decode()
                    self.names.add(name)
                    data = data[head.size + size:]
                    if name == "end":
                        return

    def close(self, path):
        """Returns the names, all events that are under way included."""
        (path / "end").touch()
        self.thread.join(SOON)
        (path / "end").unlink()
        os.close(self.fd)
        return self.names - {"end"}


def mounts_below(root):
    return [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
            if str(root) in line]


def cgroups_called(names):
    return [os.path.join(top, d) for top, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs
            if d in names]


class Storm:
    def __init__(self, jar, name):
        self.jar = jar
        seed = int(os.environ.get("BELLJAR_TEST_SEED", time.time_ns()))
        print(f"BELLJAR_TEST_SEED={seed}")
        self.rng = random.Random(f"{seed} {name}")
        assert jar.run("--", "true").returncode == 0  # makes the root
        self.keepers = Names(jar.root / "keepers")
        self.counts = {}

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def start_runs(self):
        """Some runs that print a token, wait a moment, and print it again."""
        runs = []
        for _ in range(PARALLEL):
            token = "%016x" % self.rng.getrandbits(64)
            wait = self.rng.choice(("", "", "sleep 0.01; ", "sleep 0.03; ", "sleep 60; "))
            script = f"echo {token}; {wait}echo {token}"
            run = self.jar.start_run("--grace", "100ms", "--", "sh", "-c", script, env=QUIET)
            runs.append((run, token, wait != "sleep 60; "))
        return runs

    def judge(self, run, token, ends, killed):
        """What a client said must have happened."""
        if not ends and not killed and run.poll() is None:
            run.send_signal(signal.SIGTERM)  # it would take a minute
        out, err = run.communicate(timeout=SOON)
        self.jar.started.remove(run)
        status = run.returncode
        self.count(status)
        assert f"{token}\n{token}\n".startswith(out), "somebody else's output"
        if status == 0:
            assert (out, err) == (f"{token}\n{token}\n", "")
        elif killed:
            assert (status, err) == (-signal.SIGKILL, "")
        elif status == 125:
            assert err.count("\n") == 1 and "keeper" in err, err
        elif status == 128 + signal.SIGTERM:
            assert not ends and err == "belljar: stopped: canceled\n"
        else:
            assert (status, ends) == (-signal.SIGTERM, False), (status, err)

    def check_calm(self):
        """After the next keeper, which sweeps, nothing is left."""
        jar = self.jar
        assert eventually(lambda: not jar.processes()), jar.processes()
        keeper = jar.start_keeper()
        assert len(jar.registered()) == 1
        keeper.terminate()
        assert keeper.wait(SOON) == 0
        ids = self.keepers.close(jar.root / "keepers")
        assert len(ids) > ROUNDS / 4
        assert jar.registered() == []
        assert cgroups_called({f"belljar-{id}" for id in ids}) == []
        assert mounts_below(jar.root) == []
        left = {str(p.relative_to(jar.root)) for p in jar.root.rglob("*")}
        assert left == {"images", "keepers", "keeper.lock"}


def own_keeper(pid):
    """The private keeper of a client, if there is one already."""
    with contextlib.suppress(OSError, ValueError):
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None
    return None


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.heavy
def test_private_keepers(jar):
    storm = Storm(jar, "private")
    for _ in range(ROUNDS):
        runs = storm.start_runs()
        time.sleep(storm.rng.random() * LATEST_SECONDS)
        victims = set()
        for run, _, _ in runs:
            keeper = own_keeper(run.pid) if storm.rng.random() < 0.5 else None
            # A client that has ended is a zombie, still ours: its pid is nobody else's.
            if keeper:
                kill(keeper)
                storm.count("keeper")
            else:
                kill(run.pid)
                victims.add(run.pid)
                storm.count("client")
        for run, token, ends in runs:
            storm.judge(run, token, ends, run.pid in victims)
    print(storm.counts)
    storm.check_calm()


class Lingering:
    """A client that dies and comes back for its run."""

    def __init__(self, storm):
        self.storm = storm
        self.token = "%016x" % storm.rng.getrandbits(64)
        self.id = wire.new_id()
        self.output = b""

    def connect(self):
        with wire.acting_as(self.storm.jar.home.stat().st_uid):
            return wire.Wire(self.storm.jar.root / "keeper.sock").greet()

    def start(self):
        peer = self.connect()
        peer.send(wire.START, wire.spec(
            "/bin/sh", "-c", f"echo {self.token}; sleep 0.02; echo {self.token}", id=self.id,
            lingers=1, env=("PATH=/bin", f"BELLJAR_MARK={self.storm.jar.mark}")))
        if self.storm.rng.random() < 0.5:
            peer.expect(wire.STARTED)
        return peer

    def come_back(self):
        """To the same keeper: it has the run, once, and tells the truth about it."""
        with self.connect() as peer:
            assert set(peer.list()) <= {self.id}
            if self.id not in peer.list():
                self.storm.count("never started")  # we died before the keeper read it
                return
            started = peer.attach(self.id)
            with os.fdopen(os.dup(started.channels["stdout"]), "rb") as stdout:
                assert stdout.read().decode() == f"{self.token}\n{self.token}\n"
            ended = peer.result()
            assert (ended.id, ended.reason) == (self.id, "exit_code_0")
            peer.about(wire.ACK, self.id)
            assert peer.list() == {}
            self.storm.count("came back")


@pytest.mark.heavy
def test_a_shared_keeper(jar):
    storm = Storm(jar, "shared")
    keeper = jar.start_keeper()
    for _ in range(ROUNDS):
        lingering = Lingering(storm)
        peer = lingering.start()
        runs = storm.start_runs()
        time.sleep(storm.rng.random() * LATEST_SECONDS)
        victims = set()
        if storm.rng.random() < 0.5:
            keeper.kill()
            storm.count("keeper")
        else:
            for run, _, _ in runs:
                kill(run.pid)
                victims.add(run.pid)
            storm.count("clients")
        peer.close()
        for run, token, ends in runs:
            storm.judge(run, token, ends, run.pid in victims)
        if victims:
            assert eventually(lambda: set(lingering_list(lingering)) <= {lingering.id})
            lingering.come_back()
        else:
            keeper.wait(SOON)
            jar.started.remove(keeper)
            keeper = jar.start_keeper()
            assert lingering_list(lingering) == {}  # what died with it is not reported
    print(storm.counts)
    keeper.terminate()
    assert keeper.wait(SOON) == 0
    storm.check_calm()


def lingering_list(lingering):
    with lingering.connect() as peer:
        return peer.list()
