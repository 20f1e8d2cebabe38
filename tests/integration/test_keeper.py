"""The keeper by itself: who may talk to it, what it bears, and that runs outlive their
clients if, and only if, they are to."""
import contextlib
import errno
import os
import pathlib
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest

import wire
from jar import SLOWER, eventually

SOON = 2.0 * SLOWER
STRANGER = 64243
NOBODY = 65534


class Keeper:
    """A running `belljar keeper`, and connections to it as its own user."""

    def __init__(self, jar, *options, **more):
        self.jar = jar
        self.process = jar.start_keeper(*options, **more)
        self.address = jar.root / "keeper.sock"
        self.uid = jar.home.stat().st_uid
        self.env = ("PATH=/usr/bin:/bin", f"BELLJAR_MARK={jar.mark}")
        self.wires = []

    def connect(self, uid=None):
        with wire.acting_as(self.uid if uid is None else uid):
            it = wire.Wire(self.address)
        self.wires.append(it)
        return it

    def greet(self, uid=None):
        return self.connect(uid).greet()

    def spec(self, *argv, **options):
        return wire.spec(*argv, env=self.env, **options)

    def start(self, peer, *argv, **options):
        return peer.start(*argv, env=self.env, **options)

    def sh(self, peer, script, **options):
        return self.start(peer, "/bin/sh", "-c", script, **options)

    def boxes(self):
        """The inits of all its boxes: those children that have a pid of their own inside."""
        found = set()
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in children.read_text().split():
            with contextlib.suppress(OSError):
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                if len(re.search(r"^NSpid:\s+(.*)$", status, re.M)[1].split()) == 2:
                    found.add(int(pid))
        return found

    def n_fds(self):
        """But for networks and groups that wait for a box: there may soon be more of them."""
        where = f"/proc/{self.process.pid}/fd"
        links = []
        for fd in os.listdir(where):
            with contextlib.suppress(FileNotFoundError):
                links.append(os.readlink(f"{where}/{fd}"))
        nets = [link for link in links if link.startswith("net:")]
        assert len(set(nets)) == len(nets) < 100
        shown = [link for link in links if re.fullmatch(r"/proc/(\d+|sys)/net/[\w/]+", link)]
        assert len(shown) <= 128
        groups = [link for link in links if re.search(r"/cgroup/.*/box-\d+(/|$)", link)]
        assert len(set(groups)) == len(groups) < 100
        return len(links) - len(nets) - len(shown) - len(groups)

    def settled(self):
        """How many descriptors it holds once it has nothing more to do."""
        last, since = None, time.monotonic()
        while time.monotonic() - since < 0.3 * SLOWER:
            if self.n_fds() != last:
                last, since = self.n_fds(), time.monotonic()
            time.sleep(0.01)
        return last

    def settles_at(self, n_fds):
        """True once it holds that many descriptors: none was leaked."""
        return eventually(lambda: self.n_fds() == n_fds)

    def assert_well(self):
        """It lives, and serves a newcomer."""
        assert self.process.poll() is None
        with self.greet() as peer:
            started = self.sh(peer, "echo well")
            assert read_all(started.channels["stdout"]) == b"well\n"
            assert peer.result().reason == "exit_code_0"
            peer.about(wire.ACK, started.id)
            assert started.id not in peer.list()

    def close(self):
        for it in self.wires:
            it.close()


@pytest.fixture
def keeper(jar):
    it = Keeper(jar)
    yield it
    it.close()


def read_all(fd):
    data = b""
    while chunk := os.read(fd, 1 << 16):
        data += chunk
    return data


def read_line(fd):
    data = b""
    while not data.endswith(b"\n"):
        chunk = os.read(fd, 1)
        assert chunk, data
        data += chunk
    return data


# --- finding one


def test_run_uses_the_keeper_that_is_there(jar):
    keeper = jar.start_keeper()
    (registered,) = jar.registered()
    p = jar.start_run("--", "sh", "-c", "echo ready; sleep 60")
    assert p.stdout.readline() == "ready\n"
    assert jar.registered() == [registered]
    assert not any("--lifeline-fd" in line for line in jar.processes().values())
    keeper.kill()
    keeper.wait()
    assert p.wait(SOON) == 125
    assert p.stderr.read() == "belljar: the keeper is gone\n"
    assert jar.run("--", "true").returncode == 0  # by one of its own, which sweeps


def test_and_one_of_its_own_otherwise(jar):
    p = jar.start_run("--", "sh", "-c", "echo ready; read x")
    assert p.stdout.readline() == "ready\n"
    assert len(jar.registered()) == 1
    assert any("--lifeline-fd" in line for line in jar.processes().values())
    assert not (jar.root / "keeper.sock").exists()
    p.stdin.close()
    p.wait(SOON)
    jar.assert_nothing_left(0)


@pytest.mark.once
def test_a_socket_without_a_keeper_is_no_keeper(jar):
    keeper = jar.start_keeper()
    keeper.kill()
    keeper.wait()
    assert (jar.root / "keeper.sock").exists()
    assert jar.run("--", "echo", "hi").stdout == "hi\n"
    assert jar.registered() == []
    again = jar.start_keeper()
    assert jar.run("--", "echo", "hi").stdout == "hi\n"
    again.terminate()
    assert again.wait(SOON) == 0
    assert not (jar.root / "keeper.sock").exists()


def test_the_second_keeper_of_a_root_is_refused(keeper):
    done = keeper.jar.cli("keeper")
    assert done.returncode == 125
    assert done.stderr == f"belljar: keeper: another keeper serves {keeper.jar.root}\n"
    keeper.assert_well()
    assert len(keeper.jar.registered()) == 1


@pytest.mark.once
def test_a_private_keeper_holds_nothing_of_ours(jar):
    """A pipe that it held open would never end for who reads it."""
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    p = jar.start_run("--", "sh", "-c", "echo ready; read x", pass_fds=[theirs])
    assert p.stdout.readline() == "ready\n"
    keepers = [pid for pid, line in jar.processes().items()
               if "--lifeline-fd" in line and os.stat(f"/proc/{pid}/fd").st_uid == os.geteuid()]
    assert keepers
    for pid in keepers:
        with contextlib.suppress(OSError):
            links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
            mine = {os.readlink(f"/proc/self/fd/{f.fileno()}") for f in (p.stdin, p.stdout)}
            assert not links & (mine | {os.readlink(f"/proc/self/fd/{theirs}")})
    p.stdin.close()
    p.wait(SOON)
    os.close(ours)
    os.close(theirs)


# --- who may


@pytest.mark.root_only("connects as several users")
def test_strangers_are_turned_away(jar):
    os.chmod(jar.home, 0o755)
    keeper = Keeper(jar, "--uid", "64242")
    try:
        assert os.stat(keeper.address).st_uid == 64242
        with pytest.raises(PermissionError):
            keeper.connect(STRANGER)
        os.chmod(keeper.address, 0o666)  # as if somebody had been careless
        peer = keeper.connect(STRANGER)
        with contextlib.suppress(BrokenPipeError):
            peer.send(wire.HELLO)
        assert peer.is_dropped()
        for uid in (64242, 0):
            assert keeper.greet(uid).list() == {}
    finally:
        keeper.close()


@pytest.mark.root_only("connects as several users")
def test_a_user_may_not_touch_the_runs_of_another(jar):
    os.chmod(jar.home, 0o755)
    keeper = Keeper(jar, "--uid", "64242")
    try:
        root, user = keeper.greet(0), keeper.greet(64242)
        of_root = keeper.sh(root, "sleep 60", grace_ms=0).id
        of_user = keeper.sh(user, "sleep 60", grace_ms=0).id
        assert root.expect(wire.RUNNING) and user.expect(wire.RUNNING)
        assert user.list() == {of_user: "running"}
        assert root.list() == {of_user: "running", of_root: "running"}
        for kind, more in ((wire.ATTACH, []), (wire.CANCEL, []), (wire.ACK, []),
                           (wire.CLOSE_STDIN, []), (wire.SIGNAL, [wire.u32(9)])):
            user.about(kind, of_root, *more)
            refused = user.expect(wire.REFUSED)
            assert (refused.errno, refused.text) == (errno.ENOENT, f"there is no run {of_root}")
        assert root.list()[of_root] == "running"
        root.about(wire.CANCEL, of_user)
        assert user.result().reason == "canceled_by_user"
    finally:
        keeper.close()


@pytest.mark.root_only("connects as several users")
@pytest.mark.parametrize("uid", [64242, NOBODY])
def test_strangers_can_not_use_a_private_keeper(jar, uid):
    """Its socket has no place in the file system, hence no mode. And to a plain user's
    keeper, which is in a user namespace, all strangers look alike: like nobody."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("")
    listener.listen(8)
    root = jar.home / "private"
    root.mkdir()
    os.chown(root, uid, uid)
    os.chmod(jar.home, 0o755)
    process = subprocess.Popen(
        [jar.path, "keeper", "--root", root, "--listen-fd", str(listener.fileno())],
        user=uid, group=uid, extra_groups=[], pass_fds=[listener.fileno()],
        stderr=subprocess.PIPE, text=True, env={"BELLJAR_ROOT": str(jar.root)})
    try:
        with wire.acting_as(uid):
            friend = wire.Wire(listener.getsockname())
        listener.close()
        friend.greet()
        for other in (STRANGER, 64242 if uid == NOBODY else NOBODY):
            with wire.acting_as(other):
                stranger = wire.Wire(friend.socket.getpeername())
            with contextlib.suppress(BrokenPipeError):
                stranger.send(wire.HELLO)
            assert stranger.receive() is None
            stranger.close()
        assert friend.list() == {}
        friend.close()
    finally:
        process.terminate()
        assert process.wait(SOON) == 0
        process.stderr.close()


# --- what it bears


def bad_messages(keeper):
    """(name, what to do with a greeted connection)."""
    good = keeper.spec("true")
    null = os.open("/dev/null", os.O_RDONLY)
    run = wire.new_id()
    yield "a version of tomorrow", lambda p: p.send(wire.LIST, version=wire.VERSION + 1)
    yield "a version of yesterday", lambda p: p.send(wire.LIST, version=wire.VERSION - 1)
    for kind in (0, 12, 19, wire.WELCOME, wire.ENDED, 40, 41, 42, 60, 61, 62, 1 << 31, 0xffffffff):
        yield f"type {kind}", lambda p, kind=kind: p.send(kind)
    yield "nothing", lambda p: p.send_raw(b"")
    yield "half a header", lambda p: p.send_raw(wire.u32(wire.VERSION) + b"\2")
    yield "another greeting", lambda p: p.send(wire.HELLO)
    yield "a greeting with more", lambda p: p.send(wire.HELLO, b"x")
    yield "a list with more", lambda p: p.send(wire.LIST, b"x")
    yield "a start with more", lambda p: p.send(wire.START, good + b"x")
    yield "a start without", lambda p: p.send(wire.START)
    yield "a long one", lambda p: p.send_raw(
        wire.u32(wire.VERSION) + wire.u32(wire.START) + bytes(205 << 10))
    yield "a list with a descriptor", lambda p: p.send(wire.LIST, fds=[null])
    yield "a start with descriptors", lambda p: p.send(wire.START, good, fds=[null] * 8)
    yield "more descriptors than fit", lambda p: p.send(wire.LIST, fds=[null] * 200)
    yield "a signal that is none", lambda p: p.about(wire.SIGNAL, run, wire.u32(0))
    yield "a signal beyond all", lambda p: p.about(wire.SIGNAL, run, wire.u32(65))
    yield "an id with a NUL", lambda p: p.about(wire.CANCEL, "a\0" + "b" * 30)
    yield "an id that is too long", lambda p: p.about(wire.CANCEL, "a" * 33)
    yield "a length beyond the end", lambda p: p.send(wire.CANCEL, wire.u32(1 << 31) + b"x")
    yield "a bool that is neither", lambda p: p.send(wire.START, good[:-1] + b"\2")
    yield "facets that are unknown", lambda p: p.send(wire.START, keeper.spec(
        "true", require=1 << 63))
    yield "a workspace without a size", lambda p: p.send(wire.MAKE_WORKSPACE, wire.text(run))
    yield "a tiny workspace", lambda p: p.send(
        wire.MAKE_WORKSPACE, wire.text(run) + wire.u64(1))
    yield "a huge workspace", lambda p: p.send(
        wire.MAKE_WORKSPACE, wire.text(run) + wire.u64(1 << 60))
    yield "a workspace with a path", lambda p: p.send(
        wire.MAKE_WORKSPACE, wire.text("../" + run[3:]) + wire.u64(1 << 20))
    yield "too many arguments", lambda p: p.send(wire.START, keeper.spec(*["x"] * 4097))
    for cut in sorted({0, 1, 4, 36, len(good) // 2, len(good) - 9, len(good) - 1}):
        yield f"cut after {cut}", lambda p, cut=cut: p.send(wire.START, good[:cut])


def test_who_speaks_nonsense_is_dropped(keeper):
    other = keeper.greet()
    ticking = keeper.sh(other, "while :; do echo tick; sleep 0.02; done")
    before = keeper.settled()
    for name, say in bad_messages(keeper):
        with keeper.greet() as peer:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                say(peer)
            assert peer.is_dropped(), name
        assert read_line(ticking.channels["stdout"]) == b"tick\n"
    assert other.expect(wire.RUNNING).id == ticking.id
    assert other.list() == {ticking.id: "running"}
    assert keeper.settles_at(before)
    keeper.assert_well()


@pytest.mark.once
def test_before_the_greeting_nothing_is_answered(keeper):
    for kind in (wire.START, wire.SIGNAL, wire.CANCEL, wire.ATTACH, wire.LIST, wire.ACK,
                 wire.CLOSE_STDIN):
        with keeper.connect() as peer:
            peer.send(kind, keeper.spec("true") if kind == wire.START else b"")
            assert peer.receive() is None
    keeper.assert_well()


@pytest.mark.once
@pytest.mark.parametrize("options, words", [
    ({"id": "x" * 32}, "run id is not 32 hexadecimal digits"),
    ({"id": "A" * 32}, "run id is not 32 hexadecimal digits"),
    ({"id": "a" * 31}, "run id is not 32 hexadecimal digits"),
    ({"image": "../../etc"}, "image is neither 'host' nor a digest"),
    ({"image": "0" * 64}, "0" * 12),
    ({"cwd": "relative"}, "working directory 'relative' is not absolute"),
    ({"globs": ("*", "")}, "capture pattern 2 is empty"),
    ({"env": ("A",)}, "environment entry 1 is not NAME=VALUE"),
    ({"timeout_ms": 0}, "timeout_ms"),
    ({"timeout_ms": 1 << 63}, "timeout_ms"),
    ({"memory_bytes": 4096}, "memory_bytes"),
    ({"pids": 1}, "pids"),
    ({"files": 1 << 40}, "files"),
])
def test_a_good_message_that_asks_too_much_is_answered(keeper, options, words):
    with keeper.greet() as peer:
        peer.send(wire.START, wire.spec("true", **options))
        refused = peer.expect(wire.REFUSED)
        assert words in refused.text and refused.errno != 0
        assert refused.reason in ("policy_denied", "image_pull_failed", "provision_failed")
        peer.send(wire.START, wire.spec("", **options))
        peer.expect(wire.REFUSED)
        assert peer.list() == {}
    keeper.assert_well()


@pytest.mark.once
def test_an_id_is_used_once(keeper):
    with keeper.greet() as peer:
        run = wire.new_id()
        keeper.sh(peer, "sleep 60", id=run)
        peer.expect(wire.RUNNING)
        peer.send(wire.START, keeper.spec("true", id=run))
        refused = peer.expect(wire.REFUSED)
        assert (refused.errno, refused.id) == (errno.EEXIST, run)
        assert refused.text == f"there is a run {run} already"
        assert peer.list() == {run: "running"}


@pytest.mark.once
def test_what_is_not_over_can_not_be_acknowledged(keeper):
    with keeper.greet() as peer:
        started = keeper.sh(peer, "sleep 60")
        peer.expect(wire.RUNNING)
        peer.about(wire.ACK, started.id)
        assert peer.is_dropped()
    keeper.assert_well()


@pytest.mark.once
@pytest.mark.heavy
def test_two_thousand_messages_of_noise(keeper):
    seed = int(os.environ.get("BELLJAR_TEST_SEED", time.time_ns()))
    print(f"BELLJAR_TEST_SEED={seed}")
    rng = random.Random(seed)
    other = keeper.greet()
    ticking = keeper.sh(other, "while :; do echo tick; sleep 0.02; done")
    before = keeper.settled()
    good = keeper.spec("/bin/true")
    peer = keeper.greet()
    for n in range(2000):
        payload = bytearray(good if rng.random() < 0.5 else rng.randbytes(rng.randrange(300)))
        for _ in range(rng.randrange(4)):
            if payload:
                payload[rng.randrange(len(payload))] = rng.randrange(256)
        if rng.random() < 0.2:
            payload = payload[:rng.randrange(len(payload) + 1)]
        head = struct.pack("<II", rng.choice((1, 1, 1, 1, rng.randrange(1 << 32))),
                           rng.choice((*range(1, 9), 2, 2, rng.randrange(70))))
        try:
            peer.send_raw(bytes(head + payload))
        except OSError:
            peer.close()
            peer = keeper.greet() if rng.random() < 0.9 else keeper.connect()
        if n % 100 == 0:
            assert read_line(ticking.channels["stdout"]) == b"tick\n"
            assert keeper.process.poll() is None
    peer.close()
    assert other.expect(wire.RUNNING).id == ticking.id
    assert eventually(lambda: other.list() == {ticking.id: "running"}), "a run of noise lives"
    assert keeper.settles_at(before)
    keeper.assert_well()


@pytest.mark.once
def test_who_does_not_read_is_dropped(keeper):
    with keeper.greet() as peer:
        peer.socket.setblocking(False)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(100000):
                try:
                    peer.send(wire.LIST)
                except BlockingIOError:
                    time.sleep(0.001)
        peer.socket.settimeout(SOON)
        assert peer.is_dropped()
    keeper.assert_well()


@pytest.mark.once
def test_more_clients_than_there_is_room_for(keeper):
    peers = [keeper.connect() for _ in range(300)]
    served = 0
    for peer in peers:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            peer.send(wire.HELLO)
            served += peer.receive() is not None
    assert served == 256
    for peer in peers:
        peer.close()
    keeper.assert_well()


@pytest.mark.once
def test_without_descriptors_it_refuses_and_recovers(jar):
    few = (64, 64)
    keeper = Keeper(jar, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few))
    peer = keeper.greet()
    for n in range(64):
        peer.send(wire.START, keeper.spec("sleep", "60", grace_ms=0))
        while (answer := peer.receive()).kind == wire.RUNNING:
            pass
        if answer.kind == wire.REFUSED:
            break
    assert n > 0 and answer.kind == wire.REFUSED
    assert (answer.reason, answer.errno) == ("provision_failed", errno.EMFILE)
    assert "Too many open files" in answer.text
    for _ in range(40):
        keeper.connect()  # more than it has descriptors left for: they wait
    before = processor_seconds(keeper.process.pid)
    time.sleep(0.3)
    assert processor_seconds(keeper.process.pid) - before < 0.1  # it does not spin
    keeper.close()
    # The boxes are buried: there are those made ahead at most, and the socket of their maker.
    assert eventually(lambda: keeper.n_fds() < 28 and len(keeper.boxes()) <= 2)
    keeper.assert_well()
    keeper.close()


# What a guest sees of its network; and what leaves as much behind there as can be.
LOOK = "readlink /proc/self/ns/net; cd /proc/net; cat dev snmp netstat sockstat6 unix " \
    "tcp udp raw tcp6 udp6 if_inet6 route snmp6 ip6_flowlabel"
STIR = """
import array, os, socket, struct
pairs = [socket.socketpair() for _ in range(2)]  # that hold each other, for the kernel to find
for (a, _), (_, b) in (pairs, pairs[::-1]):
    socket.send_fds(a, [b"x"], [b.fileno()])
pairs[0][0].close(); pairs[1][0].close()
name = socket.socket(socket.AF_UNIX); name.bind("\\0left behind"); name.listen()
server = socket.create_server(("127.0.0.1", 4567))
client = socket.create_connection(("127.0.0.1", 4567))
server.accept()[0].sendall(b"x" * 1000); client.recv(1000)  # and then it waits, for a minute
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
label = struct.pack("16sIBBHHHI", socket.inet_pton(socket.AF_INET6, "::1"),
                    socket.htonl(0x12345), 0, 1, 1, 30, 30, 0)
try:
    six.setsockopt(socket.IPPROTO_IPV6, 32, label)  # IPV6_FLOWLABEL_MGR: lingers for 30 s
except OSError:
    pass
six.sendto(b"x", ("::1", 9))
print("stirred")
"""


def look(keeper, peer, rest=0.0):
    """The network of a new box, and all that shows there. One that was given back can be had
    again when it has rested."""
    time.sleep(rest)
    started = keeper.sh(peer, LOOK)
    text = read_all(started.channels["stdout"]).decode()
    assert peer.result().reason == "exit_code_0"
    return text.split("\n", 1)


def test_a_network_without_a_trace_is_used_again(keeper):
    with keeper.greet() as peer:
        first, *others = [look(keeper, peer, rest=0.06) for _ in range(20)]
    assert len({net for net, _ in (first, *others)}) < 8
    assert {text for _, text in others} == {first[1]}
    assert "lo:" in first[1] and first[1].count("\n") > 20


def test_what_is_left_in_a_network_is_seen_by_nobody(keeper):
    with keeper.greet() as peer:
        _, clean = look(keeper, peer)
        for _ in range(5):
            stirred = keeper.start(peer, "/usr/bin/python3", "-c", STIR)
            assert read_all(stirred.channels["stdout"]) == b"stirred\n"
            assert peer.result().reason == "exit_code_0"
            for _ in range(5):
                assert look(keeper, peer)[1] == clean


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- a run and its client


def test_a_run_from_start_to_acknowledgement(keeper):
    with keeper.greet() as peer:
        run = wire.new_id()
        started = keeper.sh(peer, "cat; echo err >&2; exit 3", id=run)
        assert started.id == run and set(started.channels) == {"stdin", "stdout", "stderr"}
        os.write(started.channels["stdin"], b"in")
        os.close(started.channels["stdin"])
        assert read_all(started.channels["stdout"]) == b"in"
        assert read_all(started.channels["stderr"]) == b"err\n"
        running = peer.expect(wire.RUNNING)
        ended = peer.expect(wire.ENDED)
        assert (ended.id, ended.reason, ended.exit_code, ended.signal) == (run, "nonzero_exit", 3, 0)
        assert ended.created_ns <= running.started_ns == ended.started_ns <= ended.ended_ns
        assert peer.is_silent()  # it is told once
        assert peer.list() == {run: "ended"}
        peer.about(wire.ACK, run)
        assert peer.list() == {}
        peer.about(wire.ACK, run)
        assert peer.expect(wire.REFUSED).errno == errno.ENOENT


def test_a_run_dies_with_its_client(keeper):
    before = keeper.settled()
    peer = keeper.greet()
    started = keeper.sh(peer, "trap '' HUP TERM PIPE; sleep 600 & echo ready; sleep 600")
    assert read_line(started.channels["stdout"]) == b"ready\n"
    with keeper.greet() as other:
        assert eventually(lambda: other.list() == {started.id: "running"})
        peer.close()
        assert eventually(lambda: other.list() == {})
        assert not any("sleep 600" in line for line in keeper.jar.processes().values())
    assert keeper.settles_at(before)


def test_a_run_that_lingers_outlives_its_client(keeper):
    before = keeper.settled()
    run = wire.new_id()
    peer = keeper.greet()
    started = keeper.sh(peer, "echo one; read x; echo two $x; echo err >&2; exit 3", id=run,
                        lingers=1)
    peer.expect(wire.RUNNING)
    assert read_line(started.channels["stdout"]) == b"one\n"
    peer.close()

    peer = keeper.greet()
    assert peer.list() == {run: "running"}
    started = peer.attach(run)
    assert set(started.channels) == {"stdin", "stdout", "stderr"}
    peer.expect(wire.RUNNING)
    os.write(started.channels["stdin"], b"more\n")
    ended = peer.expect(wire.ENDED)
    assert (ended.reason, ended.exit_code) == ("nonzero_exit", 3)
    peer.close()  # without having read what it printed

    for read in (False, True, False):
        with keeper.greet() as peer:
            assert peer.list() == {run: "ended"}
            started = peer.attach(run)
            if read:
                assert read_all(started.channels["stdout"]) == b"two more\n"
                assert read_all(started.channels["stderr"]) == b"err\n"
            assert peer.expect(wire.RUNNING).started_ns == ended.started_ns
            assert peer.expect(wire.ENDED).payload == ended.payload
            assert peer.is_silent(0.05)
    with keeper.greet() as peer:
        peer.about(wire.ACK, run)
        assert peer.list() == {}
        peer.about(wire.ATTACH, run)
        assert peer.expect(wire.REFUSED).errno == errno.ENOENT
    assert keeper.settles_at(before)


def test_it_may_end_while_nobody_is_there(keeper):
    peer = keeper.greet()
    run = keeper.sh(peer, "sleep 0.1; echo said; exit 7", lingers=1).id
    peer.close()
    time.sleep(0.3 * SLOWER)
    with keeper.greet() as peer:
        assert eventually(lambda: peer.list() == {run: "ended"})
        started = peer.attach(run)
        assert read_all(started.channels["stdout"]) == b"said\n"
        ended = peer.result()
        assert (ended.reason, ended.exit_code) == ("nonzero_exit", 7)
        peer.about(wire.ACK, run)


@pytest.mark.alone
def test_deadlines_hold_while_nobody_is_there(keeper):
    peer = keeper.greet()
    run = keeper.sh(peer, "trap '' TERM; while :; do sleep 0.02; done", lingers=1,
                    timeout_ms=300).id
    peer.expect(wire.RUNNING)
    peer.close()
    time.sleep(0.5 * SLOWER)
    with keeper.greet() as peer:
        assert peer.list() == {run: "ended"}
        peer.attach(run)
        ended = peer.result()
        assert ended.reason == "execution_timeout"
        assert 300000 <= ended.wall_us < 300000 + 200000 * SLOWER
        peer.about(wire.ACK, run)


def test_a_box_that_does_not_start_in_time(keeper):
    """Here since the files that it waits for do not come."""
    with keeper.greet() as peer:
        started = keeper.sh(peer, "echo ran", takes_files=1, startup_ms=200)
        assert "files" in started.channels
        ended = peer.result()
        assert (ended.reason, ended.started_ns) == ("startup_timeout", 0)
        assert ended.text == "starting took longer than 0.200 s"
        assert read_all(started.channels["stdout"]) == b""


@pytest.mark.alone
@pytest.mark.once
def test_the_deadline_holds_also_when_canceled(keeper):
    """However long the grace, a run does not get more time than it had."""
    with keeper.greet() as peer:
        started = keeper.sh(peer, "trap '' TERM; echo ready; while :; do sleep 0.02; done",
                            timeout_ms=500, grace_ms=60000)
        assert read_line(started.channels["stdout"]) == b"ready\n"
        peer.about(wire.CANCEL, started.id)
        ended = peer.result()
        assert ended.reason == "canceled_by_user"
        assert ended.wall_us < 500000 + 300000 * SLOWER


@pytest.mark.alone
def test_cancel_with_grace(keeper):
    with keeper.greet() as peer:
        started = keeper.sh(peer, "trap 'echo tidying; exit 0' TERM; echo ready; sleep 60 & wait")
        assert read_line(started.channels["stdout"]) == b"ready\n"
        peer.about(wire.CANCEL, started.id)
        assert read_all(started.channels["stdout"]) == b"tidying\n"
        ended = peer.result()
        assert (ended.reason, ended.exit_code) == ("canceled_by_user", 0)
        started = keeper.sh(peer, "trap '' TERM; echo ready; while :; do sleep 0.02; done",
                            grace_ms=300)
        assert read_line(started.channels["stdout"]) == b"ready\n"
        at = time.monotonic()
        for _ in range(3):
            peer.about(wire.CANCEL, started.id)  # again does not prolong it
        ended = peer.result()
        assert (ended.reason, ended.signal) == ("canceled_by_user", signal.SIGKILL)
        assert 0.3 <= time.monotonic() - at < 0.3 + 0.3 * SLOWER
        assert peer.is_silent()


@pytest.mark.once
def test_a_signal_right_after_the_start_is_not_lost(keeper):
    """The guest may run before the keeper has heard of it."""
    with keeper.greet() as peer:
        for _ in range(20):
            started = keeper.sh(peer, "trap 'exit 7' USR1; echo ready; sleep 60 & wait")
            assert read_line(started.channels["stdout"]) == b"ready\n"
            peer.about(wire.SIGNAL, started.id, wire.u32(signal.SIGUSR1))
            ended = peer.result()
            assert (ended.reason, ended.exit_code) == ("nonzero_exit", 7)
            peer.about(wire.ACK, started.id)


@pytest.mark.once
def test_signals_to_who_is_gone_do_nothing(keeper):
    with keeper.greet() as peer:
        started = keeper.sh(peer, "exit 0")
        peer.result()
        for kind, more in ((wire.SIGNAL, [wire.u32(9)]), (wire.CANCEL, []), (wire.CLOSE_STDIN, [])):
            peer.about(kind, started.id, *more)
        assert peer.is_silent()
        assert peer.list() == {started.id: "ended"}


@pytest.mark.once
def test_stdin_of_a_lingering_run_ends_when_told(keeper):
    with keeper.greet() as peer:
        started = keeper.sh(peer, "cat; echo end", lingers=1)
        os.write(started.channels["stdin"], b"text ")
        os.close(started.channels["stdin"])
        peer.expect(wire.RUNNING)
        assert peer.is_silent(0.1)  # the keeper still holds it, for who may come back
        peer.about(wire.CLOSE_STDIN, started.id)
        assert read_all(started.channels["stdout"]) == b"text end\n"
        assert peer.result().reason == "exit_code_0"
        peer.about(wire.ACK, started.id)


@pytest.mark.once
def test_captured_files_wait_for_who_comes_back(keeper):
    peer = keeper.greet()
    run = keeper.sh(peer, "echo content >file; echo other >no", lingers=1, globs=("file",)).id
    peer.close()
    time.sleep(0.2 * SLOWER)
    with keeper.greet() as peer:
        started = peer.attach(run)
        data = read_all(started.channels["capture"])
        assert data.startswith(b"F") and b"filecontent\n" in data and b"other" not in data
        assert peer.result().captured_bytes == 8
        peer.about(wire.ACK, run)


@pytest.mark.once
def test_a_terminal_waits_for_who_comes_back(keeper):
    peer = keeper.greet()
    started = keeper.sh(peer, "echo ready; read x; echo got $x", lingers=1, tty=1)
    run = started.id
    assert set(started.channels) == {"tty"}
    assert read_line(started.channels["tty"]) == b"ready\r\n"
    peer.close()
    with keeper.greet() as peer:
        tty = peer.attach(run).channels["tty"]
        os.write(tty, b"this\n")
        assert read_line(tty) == b"this\r\n" and read_line(tty) == b"got this\r\n"
        assert peer.result().reason == "exit_code_0"
        peer.about(wire.ACK, run)


def attaches(peer, run):
    """True once the keeper has noticed that who was attached is gone."""
    peer.about(wire.ATTACH, run)
    return peer.receive().kind == wire.STARTED


@pytest.mark.once
def test_one_client_hears_of_a_run(keeper):
    first, second = keeper.greet(), keeper.greet()
    run = keeper.sh(first, "read x; exit 4", lingers=1).id
    first.expect(wire.RUNNING)
    second.about(wire.ATTACH, run)
    refused = second.expect(wire.REFUSED)
    assert refused.errno == errno.EBUSY
    assert refused.text == f"another client is attached to run {run}"
    first.close()
    assert eventually(lambda: attaches(second, run))
    second.about(wire.SIGNAL, run, wire.u32(signal.SIGKILL))
    assert second.result().signal == signal.SIGKILL
    second.about(wire.ACK, run)


# --- the end of a keeper


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_keeper_that_is_ended_ends_all(jar, sig):
    keeper = Keeper(jar)
    peers = [keeper.greet() for _ in range(4)]
    for n, peer in enumerate(peers):
        started = keeper.sh(peer, "trap '' TERM HUP INT; sleep 600 & echo ready; sleep 600",
                            lingers=n % 2)
        assert read_line(started.channels["stdout"]) == b"ready\n"
    run = jar.start_run("--", "sleep", "600")
    assert eventually(lambda: len(peers[0].list()) == 5)
    keeper.process.send_signal(sig)
    assert keeper.process.wait(SOON) == 0
    assert run.wait(SOON) == 125
    for peer in peers:
        assert peer.is_dropped()
    assert not keeper.address.exists()
    jar.assert_nothing_left(0.5 * SLOWER)
    assert not cgroups_of(jar)
    keeper.close()


def cgroups_of(jar):
    """Control groups of keepers that are registered or were, by their id."""
    ids = set(jar.registered())
    found = []
    for top, dirs, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(top, d) for d in dirs if d.removeprefix("belljar-") in ids]
        dirs[:] = [d for d in dirs if not d.startswith("belljar-")]
    return found


def test_what_a_killed_keeper_left_is_swept_by_the_next(jar):
    keeper = Keeper(jar)
    peer = keeper.greet()
    started = keeper.sh(peer, "trap '' TERM; sleep 600 & echo ready; sleep 600", lingers=1)
    assert read_line(started.channels["stdout"]) == b"ready\n"
    (registered,) = jar.registered()
    keeper.process.kill()
    keeper.process.wait()
    assert peer.is_dropped()
    assert eventually(lambda: not jar.processes()), jar.processes()  # by itself
    again = Keeper(jar)
    assert registered not in jar.registered()
    left = [d for _, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs
            if d == f"belljar-{registered}"]
    assert left == []
    assert again.greet().list() == {}
    again.assert_well()
    again.close()
    keeper.close()


@pytest.mark.once
def test_it_says_what_it_drops(jar):
    keeper = Keeper(jar)
    with keeper.greet() as peer:
        peer.send(99)
        assert peer.is_dropped()
    keeper.close()
    keeper.process.terminate()
    log = keeper.process.communicate(timeout=SOON)[1]
    assert re.fullmatch(r'level=warn msg="event=bad_ipc uid=\d+: dropping a client: .*"\n', log)
