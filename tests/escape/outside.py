"""The near side of the border: what is planted there, how a box is started from there,
and what becomes of an attack there."""
import contextlib
import ctypes
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import secrets
import socket
import subprocess
import sys
import tarfile
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "hostile"))
# The server and the words of the keeper are those of the integration tests.
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

import harness  # noqa: E402
import wire  # noqa: E402

HOSTILE = pathlib.Path(harness.__file__).parent
PYTHON = "/usr/bin/python3"
USER_ID = 64242  # of tests/conftest.py
KEYCTL_REVOKE = 3
TOKEN = re.compile(harness.SENTINEL + "[0-9a-f]{16}")
SLOWER = int(os.environ.get("BELLJAR_TEST_SLOWER", "1"))

# Where the outside half of a table runs: root in namespaces that end with it, so that
# a mount which works harms nobody; or the host as it is, where the sentinels are.
THROWAWAY = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork",
             "--mount-proc", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]


def host_address():
    """An address of this machine that is not 127.0.0.1, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, contextlib.suppress(OSError):
        s.connect(("192.0.2.1", 9))  # sends nothing: it only chooses a route
        return s.getsockname()[0]
    return None


class Sentinels:
    """Things outside that hold a token each. `places` says where they are."""

    def __init__(self):
        self.tokens = {}
        self.places = {}
        self.why_not = {}  # why one could not be planted
        self.cleanup = contextlib.ExitStack()

    def token(self, name):
        self.tokens[name] = harness.SENTINEL + secrets.token_hex(8)
        return self.tokens[name]

    def plant(self):
        for plant in (self._files, self._servers, self._processes, self._ipc, self._key):
            plant()

    def close(self):
        self.cleanup.close()

    def _files(self):
        for name, where in (("root", "/root"), ("home", "/home"), ("tmp", "/tmp"),
                            ("var", "/var/tmp"), ("run", "/run"), ("shm", "/dev/shm")):
            path = pathlib.Path(where) / ("belljar-sentinel-" + secrets.token_hex(4))
            try:
                path.write_text(self.token("file_" + name))
            except OSError as e:
                self.why_not["file_" + name] = f"{where}: {e.strerror}"
                continue
            path.chmod(0o644)
            self.cleanup.callback(path.unlink, missing_ok=True)
            self.places["file_" + name] = str(path)

    def _serve(self, name, listener, place):
        token = self.token(name).encode()

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer, contextlib.suppress(OSError):
                        peer.sendall(token)

        listener.listen(16)
        threading.Thread(target=answer, daemon=True).start()
        self.cleanup.callback(listener.close)
        self.cleanup.callback(listener.shutdown, socket.SHUT_RDWR)
        self.places[name] = place

    def _servers(self):
        tcp = socket.create_server(("0.0.0.0", 0))
        self._serve("tcp", tcp, tcp.getsockname()[1])
        address = host_address()
        if address:
            self.places["host_address"] = address
        else:
            self.why_not["host_address"] = "the host has no address but 127.0.0.1"
        abstract = socket.socket(socket.AF_UNIX)
        address = "\0belljar-sentinel-" + secrets.token_hex(4)
        abstract.bind(address)
        self._serve("abstract", abstract, address)
        path = "/tmp/belljar-sentinel-" + secrets.token_hex(4)
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(path)
        os.chmod(path, 0o666)
        self.cleanup.callback(os.unlink, path)
        self._serve("unix", unix, path)

    def _processes(self):
        """A process whose arguments and environment hold tokens; and the same as the
        user that a box has on the host where there is no root."""
        for name, options in (("process", {}), ("user_process", {"user": USER_ID})):
            if os.geteuid() != 0:
                options = {}
            child = subprocess.Popen(
                [PYTHON, "-c", "import time; time.sleep(3600)", self.token(name + "_argv")],
                env={"SECRET": self.token(name + "_environ")}, cwd="/", **options)
            self.cleanup.callback(child.wait)
            self.cleanup.callback(child.kill)
            self.places[name] = child.pid

    def _ipc(self):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        key = 0x42000000 + secrets.randbelow(1 << 24)
        segment = libc.shmget(key, 4096, 0o1666)
        token = self.token("sysv_shm").encode()
        ctypes.memmove(libc.shmat(segment, None, 0), token, len(token))
        self.cleanup.callback(libc.shmctl, segment, 0, None)
        self.places["sysv_shm"] = key
        queue = libc.msgget(key, 0o1666)
        message = ctypes.create_string_buffer(
            (1).to_bytes(8, sys.byteorder) + self.token("sysv_msg").encode())
        libc.msgsnd(queue, message, len(self.tokens["sysv_msg"]), 0)
        self.cleanup.callback(libc.msgctl, queue, 0, None)
        self.places["sysv_msg"] = key
        name = "/belljar-sentinel-" + secrets.token_hex(4)
        token = self.token("mqueue").encode()
        fd = libc.mq_open(name.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
        if fd < 0:
            self.why_not["mqueue"] = "the host has no message queues to spare"
            return
        libc.mq_send(fd, token, len(token), 0)
        os.close(fd)
        self.cleanup.callback(libc.mq_unlink, name.encode())
        self.places["mqueue"] = name

    def _key(self):
        token = self.token("key").encode()
        try:
            key = harness.syscall("add_key", b"user", b"belljar-sentinel", token, len(token), -3)
        except OSError as e:
            self.why_not["key"] = f"add_key: {e.strerror}"
            return
        self.cleanup.callback(harness.syscall, "keyctl", KEYCTL_REVOKE, key)
        self.places["key"] = "belljar-sentinel"

    def assert_absent(self, text):
        for found in TOKEN.findall(text):
            name = next((n for n, t in self.tokens.items() if t == found), "an unknown")
            pytest.fail(f"the sentinel '{name}' came out of the box")


def make_image(belljar, name, entries):
    """Import an image of one layer, as `docker save` writes them; entries are {path:
    bytes of a program, or "-> TARGET" for a link}."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for path, content in entries.items():
            info = tarfile.TarInfo(path)
            info.mode = 0o4755
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content.removeprefix("-> ")
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    layer = layer.getvalue()
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    config = json.dumps({"architecture": arch, "os": "linux", "config": {}, "rootfs": {
        "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}})
    config_name = hashlib.sha256(config.encode()).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    belljar.file("image/layer.tar", layer)
    belljar.file("image/" + config_name, config)
    where = belljar.file("image/manifest.json", json.dumps(manifest)).parent
    done = belljar.run("image", "import", where, "--root", belljar.home / "state")
    assert done.returncode == 0, done.stderr


class Result(dict):
    """The JSON of `belljar run --json`."""

    @property
    def out(self):
        return self["stdout"]

    def json(self):
        assert self["reason_code"] == "exit_code_0", self
        return json.loads(self.out)


class Clones:
    """What a keeper has of them, for who wants each of his runs to be one."""

    def __init__(self, address, uid):
        with wire.acting_as(uid):
            self.keeper = wire.Wire(address, 30 * SLOWER).greet()
        self.keeper.warm("languages")
        self.n_taken = 0

    def take(self):
        """Waits until all that were taken are replaced; one is going to be taken now."""
        counts = self.keeper.clones
        while counts["waiting"] < 2 or counts["hits"] + counts["misses"] < self.n_taken:
            self.keeper.hear_warmth()
            counts = self.keeper.clones
        self.n_taken += 1

    def close(self):
        self.keeper.close()


class Box:
    """Runs hostile programs, and watches what comes out. One that is warm does so in clones
    of a template, and fails when a Python program was none."""

    def __init__(self, belljar, sentinels, is_warm=False):
        self.belljar = belljar
        self.is_warm = is_warm
        self.clones = {}  # of which keeper
        self.keepers = contextlib.ExitStack()
        self.own_keepers = []
        self.sentinels = sentinels
        self.who = belljar.who, is_warm  # what has an outcome of its own
        self.is_root = belljar.is_root
        self.home = belljar.home
        self.started = []

    def give(self, name):
        """A hostile program, where this user can read it. Returns its path. Written
        once: another run may be copying it."""
        path = self.home / "hostile" / name
        if path.exists():
            return path
        return self.belljar.file("hostile/" + name, (HOSTILE / name).read_bytes())

    def give_all(self, compiled):
        """All of them with what they need, as one directory."""
        for path in (*HOSTILE.glob("*.py"), *compiled.iterdir()):
            self.belljar.file("hostile/" + path.name, path.read_bytes())
        return self.belljar.file("hostile/places.json", json.dumps(self.sentinels.places)).parent

    def argv(self, program, *args, options=()):
        """belljar run --json ..., for a hostile program by its name, or any command. As the
        service runs it by default, so that what is written is not executed, unless `options`
        have "--exec"."""
        if "--exec" not in options:
            options = ["--no-exec", *options]
        if program in hostile_names():
            self.give("harness.py")
            copies = ["--copy-in", self.give(program), "--copy-in",
                      self.home / "hostile/harness.py"]
            return ["run", "--json", *copies, *options, "--", PYTHON, "/workspace/" + program,
                    *args]
        return ["run", "--json", *options, "--", program, *args]

    def env(self):
        """A secret in the environment of client and keeper; and state of our own."""
        secret = self.sentinels.tokens.setdefault("client_env",
                                                  harness.SENTINEL + secrets.token_hex(8))
        return {"BELLJAR_TEST_SECRET": secret, "BELLJAR_ROOT": str(self.home / "state")}

    def warm_up(self, argv):
        """Has a clone waiting for what it is about to run, if that is Python and to be warm;
        whether it is."""
        if not self.is_warm or PYTHON not in argv:
            return False
        root = argv[argv.index("--root") + 1] if "--root" in argv else self.home / "state"
        if root not in self.clones:
            if not (root / "keeper.sock").exists():
                self.keepers.enter_context(running_keeper(self, root))
            self.clones[root] = Clones(root / "keeper.sock", self.home.stat().st_uid)
            self.keepers.callback(self.clones[root].close)
        self.clones[root].take()
        return True

    def parse(self, out, err="", is_clone=False):
        self.sentinels.assert_absent(out + err)
        assert out, f"belljar said nothing but: {err}"
        result = Result(json.loads(out))
        assert not is_clone or result["started"] == "warm", result
        return result

    def run(self, program, *args, options=(), **more):
        argv = self.argv(program, *args, options=options)
        is_clone = self.warm_up(argv)
        done = self.belljar.run(*argv, env=self.env(), **more)
        return self.parse(done.stdout, done.stderr, is_clone)

    def run_table(self, table, compiled, options=()):
        """Every attack of a table in one box."""
        options = ["--copy-in", self.give_all(compiled), "--timeout", f"{50 * SLOWER}s",
                   *options]
        return self.run(PYTHON, f"/workspace/hostile/{table}.py", options=options)

    def start(self, program, *args, options=(), **more):
        """The same, going on meanwhile; finish() ends it."""
        argv = self.argv(program, *args, options=options)
        is_clone = self.warm_up(argv)
        child = self.belljar.start(*argv, env=self.env(), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        child.is_clone = is_clone
        self.started.append(child)
        return child

    def finish(self, child, timeout=60):
        out, err = child.communicate(timeout=timeout * SLOWER)
        return self.parse(out, err, child.is_clone)

    def close(self):
        for child in self.started:
            if child.poll() is None:
                child.kill()
            child.communicate()
        self.keepers.close()

    def enforces(self, result, facet):
        """Is it enforced here? A result that does not say so must say that it is not."""
        assert (facet in result["enforced"]) != (facet in result["not_enforced"]), result
        return facet in result["enforced"]


def hostile_names():
    return {p.name for p in HOSTILE.iterdir() if p.suffix == ".py"}


def compile_c(source, where):
    """A hostile program in C. A loader stands alone; others bring their libc along."""
    alone = ["-nostdlib", "-static-pie", "-fPIE", "-ffreestanding", "-fno-stack-protector"]
    out = where / (source.stem + ".bin")
    flags = alone if source.stem == "loader" else ["-static"]
    subprocess.run(["gcc", "-O1", *flags, "-o", out, source], check=True)


def in_a_container():
    """Whether these tests are in a pid namespace of their own already."""
    first = "pid:[4026531836]"  # a number that the kernel keeps for it
    return os.readlink("/proc/self/ns/pid") != first


def check_row(row, inside, outside):
    outcome, value = inside["attack"]
    assert outcome in row.fails, f"{outcome}: {value}"
    if row.control is not None:
        assert inside["control"][0] == "ok", f"the control failed: {inside['control'][0]}"
    if not row.outside:
        return
    outcome = outside["attack"][0]
    assert not outcome.startswith("error"), outcome
    if outcome == "ENOSYS" and outcome in row.fails:
        pytest.skip("this kernel does not have it, so nothing is proven")
    if outcome == "nothing" and in_a_container():
        pytest.skip("there is nothing to be seen in the container around the tests either")
    if outcome in row.fails and os.geteuid() != 0:
        pytest.skip("its control needs root")
    assert outcome not in row.fails, f"it fails outside of the box too: {outcome}"


def wait_until(condition, seconds=5):
    """Wait for something to become true. Returns its value."""
    end = time.monotonic() + seconds * SLOWER
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.02)


def processes_with(marker, begins=""):
    """Host pids of processes with this in a command line that begins so."""
    found = []
    for path in pathlib.Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = (path / "cmdline").read_bytes()
            if marker.encode() in line and line.startswith(begins.encode()):
                found.append(int(path.name))
    return found


def listens(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s, contextlib.suppress(OSError):
        s.connect(str(path))
        return True
    return False


@contextlib.contextmanager
def running_keeper(box, root=None, **options):
    """A keeper that serves several runs. Yields its state directory."""
    root = root or box.home / "keeper"
    child = box.belljar.start("keeper", "--root", root, env=box.env(), stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, **options)
    box.own_keepers.append(child)
    try:
        assert wait_until(lambda: listens(root / "keeper.sock")), child.poll()
        yield root
    finally:
        child.terminate()
        _, said = child.communicate(timeout=30 * SLOWER)
        print(said, file=sys.stderr)
