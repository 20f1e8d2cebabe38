"""A client that speaks to the keeper by itself, so that it can also say what no client
of ours would. src/ipc/message.h is the reference."""
import array
import contextlib
import itertools
import os
import secrets
import socket
import struct

VERSION = 14
(HELLO, START, SIGNAL, CANCEL, ATTACH, LIST, ACK, CLOSE_STDIN, MAKE_WORKSPACE, DROP_WORKSPACE,
 LIST_WORKSPACES, WARM) = range(1, 13)
WELCOME, STARTED, REFUSED, RUNNING, ENDED, RUNS, WORKSPACE, WORKSPACES, WARMTH = range(20, 29)
CHANNELS = ("stdin", "stdout", "stderr", "tty", "files", "capture", "listing", "reply")
FREEZE, THAW, USAGE, USED = 13, 14, 16, 30
STATES = ("starting", "running", "ending", "ended")
REASONS = (
    "exit_code_0", "nonzero_exit", "signaled", "oom_killed", "pids_limit_exceeded",
    "execution_timeout", "startup_timeout", "canceled_by_user", "image_pull_failed",
    "provision_failed", "exec_failed", "policy_denied", "infrastructure_error",
)
LIMITS = {  # in the order in which they travel
    "timeout_ms": 60000, "startup_ms": 20000, "grace_ms": 5000, "memory_bytes": 1 << 30,
    "cpu_milli": 1000, "pids": 256, "workspace_bytes": 256 << 20, "tmp_bytes": 64 << 20,
    "files": 1024, "processes": 512, "capture_bytes": 32 << 20,
}
STOCK = ("waiting", "making", "hits", "misses", "made", "made_us")
FDS_MAX = 8


def u8(value):
    return struct.pack("<B", value)


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return u32(len(data)) + data


def texts(values):
    return u32(len(values)) + b"".join(text(v) for v in values)


def new_id():
    return secrets.token_hex(16)


def spec(*argv, id=None, image="host", env=("PATH=/usr/bin:/bin",), globs=(), cwd="/workspace",
         require=0, tty=0, rows=24, columns=80, takes_files=0, lingers=0, workspace="", deed=0,
         clears=0, lists=0, digests=0, talks=0, deaf=0, exec=0, change="", **limits):
    """The payload of a START message."""
    values = {**LIMITS, **limits}
    assert len(values) == len(LIMITS)
    return b"".join([
        text(id or new_id()), text(image), texts(argv), texts(env), texts(globs), text(cwd),
        *(u64(v) for v in values.values()), u64(require), u8(tty), u32(rows), u32(columns),
        u8(takes_files), u8(lingers), text(workspace), u8(deed), u8(clears), u8(lists), u8(digests), u8(talks),
        u8(deaf), u8(exec), text(change)])


class Reader:
    """The payload of an answer, field by field."""

    def __init__(self, data):
        self.data = data

    def _unpack(self, form):
        size = struct.calcsize(form)
        (value,), self.data = struct.unpack(form, self.data[:size]), self.data[size:]
        return value

    def u8(self):
        return self._unpack("<B")

    def u32(self):
        return self._unpack("<I")

    def i32(self):
        return self._unpack("<i")

    def u64(self):
        return self._unpack("<Q")

    def text(self):
        size = self.u32()
        value, self.data = self.data[:size], self.data[size:]
        return value.decode()

    def end(self):
        assert self.data == b""


class Message:
    """An answer of the keeper, with its fields by name."""

    def __init__(self, kind, payload, fds):
        self.kind = kind
        self.payload = payload
        self.fds = fds
        read = Reader(payload)
        {WELCOME: self._welcome, STARTED: self._started, REFUSED: self._refused,
         RUNNING: self._running, ENDED: self._ended, RUNS: self._runs, WORKSPACE: self._workspace,
         WORKSPACES: self._workspaces, USED: self._used}[kind](read)
        read.end()

    def _welcome(self, read):
        self.facets = read.u64()
        self.keeper = read.text()

    def _started(self, read):
        self.id = read.text()
        mask = read.u32()
        names = [name for bit, name in enumerate(CHANNELS) if mask & 1 << bit]
        assert len(names) == len(self.fds)
        self.channels = dict(zip(names, self.fds))

    def _refused(self, read):
        self.id, self.errno = read.text(), read.u32()
        self.reason, self.text = REASONS[read.u32()], read.text()

    def _running(self, read):
        self.id, self.started_ns = read.text(), read.u64()

    def _ended(self, read):
        self.id, self.reason = read.text(), REASONS[read.u32()]
        self.exit_code, self.signal, self.errno = read.i32(), read.i32(), read.i32()
        self.created_ns, self.started_ns, self.ended_ns = read.u64(), read.u64(), read.u64()
        self.enforced = read.u64()
        self.cpu_us, self.wall_us, self.peak = read.u64(), read.u64(), read.u64()
        self.pids, self.open_files, self.captured_bytes = read.u64(), read.u64(), read.u64()
        self.is_warm = bool(read.u8())
        self.text = read.text()

    def _used(self, read):
        self.id, self.cpu_us, self.is_frozen = read.text(), read.u64(), bool(read.u8())

    def _workspace(self, read):
        self.id = read.text()

    def _workspaces(self, read):
        self.ids = [read.text() for _ in range(read.u32())]

    def _runs(self, read):
        n = read.u32()
        self.runs = {read.text(): STATES[read.u32()] for _ in range(n)}


class Wire:
    """One connection. Descriptors that arrive are closed with it."""

    def __init__(self, address, timeout=10):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.fds = []
        self.boxes = self.clones = dict.fromkeys(STOCK, 0)
        self.socket.connect(os.fspath(address))  # waits while too many others do
        self.socket.settimeout(timeout)

    def send_raw(self, data, fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([data], rights)

    def send(self, kind, payload=b"", fds=(), version=VERSION):
        self.send_raw(u32(version) + u32(kind) + payload, fds)

    def _receive(self):
        """Kind, payload and descriptors of the next message; None when the keeper hung up."""
        try:
            data, rights, flags, _ = self.socket.recvmsg(
                1 << 18, socket.CMSG_SPACE(4 * FDS_MAX), socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            return None
        assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        fds = list(itertools.chain.from_iterable(
            array.array("i", value[:len(value) - len(value) % 4])
            for level, kind, value in rights if kind == socket.SCM_RIGHTS))
        self.fds += fds
        if not data:
            return None
        version, kind = struct.unpack("<II", data[:8])
        assert version == VERSION
        return kind, data[8:], fds

    def receive(self):
        """The next message but for news of what is warm; None when the keeper hung up."""
        while (got := self._receive()) and got[0] == WARMTH:
            self._hear(got[1])
        return got and Message(*got)

    def _hear(self, payload):
        read = Reader(payload)
        self.boxes, self.imported, self.clones = (
            {name: read.u64() for name in STOCK} for _ in range(3))
        read.end()

    def hear_warmth(self):
        """Waits for the next news of what is warm, and nothing else: `boxes` of the
        host, those that are `imported`, `clones`."""
        kind, payload, _ = self._receive()
        assert kind == WARMTH
        self._hear(payload)

    def expect(self, kind):
        message = self.receive()
        assert message, "the keeper hung up"
        assert message.kind == kind, (message.kind, getattr(message, "text", ""))
        return message

    def is_dropped(self):
        """True when the keeper hung up, whatever it said before."""
        try:
            while self.receive():
                pass
            return True
        except TimeoutError:
            return False

    def is_silent(self, seconds=0.2):
        """True when nothing arrives for a while."""
        before = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(before)

    def greet(self):
        self.send(HELLO)
        self.expect(WELCOME)
        return self

    def warm(self, what, imports="", memory=256 << 20):
        """What to make ahead: off, boxes or languages."""
        self.send(WARM, u32(("off", "boxes", "languages").index(what)) + u64(memory)
                  + text(imports))

    def start(self, *argv, **options):
        """Start a run; returns STARTED."""
        self.send(START, spec(*argv, **options))
        return self.expect(STARTED)

    def about(self, kind, run, *more):
        self.send(kind, text(run) + b"".join(more))

    def attach(self, run):
        self.about(ATTACH, run)
        return self.expect(STARTED)

    def list(self):
        self.send(LIST)
        while (message := self.receive()) and message.kind == RUNNING:
            pass
        assert message and message.kind == RUNS, message
        return message.runs

    def result(self):
        """ENDED, after RUNNING if that comes first."""
        message = self.receive()
        if message and message.kind == RUNNING:
            message = self.receive()
        assert message and message.kind == ENDED, message
        return message

    def close(self):
        self.socket.close()
        for fd in self.fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        self.fds = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@contextlib.contextmanager
def acting_as(uid):
    """Connect as somebody else: the kernel tells the peer our effective ids."""
    if uid is None or uid == os.geteuid():
        yield
        return
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
