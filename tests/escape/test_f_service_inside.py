"""Part F, behind the door: files that come in and go out, what guests print, secrets, the
processes of the service, and what is left when it ends badly. test_f_service.py has the rest."""
import asyncio
import base64
import contextlib
import gzip
import json
import os
import pathlib
import secrets
import socket
import stat
import subprocess
import tarfile
import threading
import time

import pytest
from enemy import (BASE, dial, files_with, form, growth_of, head, keepers_of, memory_of, status_of,
                   tar, zipped)
from jar import SLOWER, eventually
from outside import PYTHON, host_address
from server import _own_uid, make_server, server  # noqa: F401 (fixtures)
from test_mcp import Client

MB = 1 << 20
# Else a sanitizer, if there is one, keeps what was freed, and memory can not be measured.
FREED_IS_FREE = {"ASAN_OPTIONS": "quarantine_size_mb=16"}
NOBODY_ELSE = 64243  # who has nothing to do with it


# --- what a guest holds -------------------------------------------------------------


DESCRIPTORS = """
import array, errno, json, os, socket
def kind(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}").split(":")[0]
    except FileNotFoundError:
        return None
def send(fd):
    try:
        it = socket.socket(fileno=fd)
    except OSError as e:
        return errno.errorcode[e.errno]
    it.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
    it.detach()
    return "sent"
print(json.dumps({fd: [kind(fd), send(fd)] for fd in range(1024) if kind(fd)}))
"""


def _fathom_says(server, code):
    async def go():
        async with server.connect("/ws") as ws:
            await ws.send(json.dumps({
                "v": 1, "type": "execute", "id": "e", "ts": "2024-01-01T00:00:00.000Z",
                "language": "python", "code": code,
                "limits": {"timeout_ms": 20000, "memory_mb": 256}}))
            out = ""
            while (m := json.loads(await ws.recv()))["type"] != "result":
                assert m["type"] != "error", m
                out += m["data"] if m["type"] == "stdout" else ""
            return out
    return asyncio.run(go())


def _tool_says(server, **arguments):
    result = Client(server).call("run_python", **arguments)
    assert not result["isError"], result
    return result["structuredContent"]["stdout"]


GUESTS = {
    "run": lambda s: s.run("python3", "-c", DESCRIPTORS)["stdout"],
    "own": lambda s: s.run("/usr/bin/env", "python3", "-c", DESCRIPTORS)["stdout"],
    "session": lambda s: s.run("python3", "-c", DESCRIPTORS, session_id=s.session()["id"])[
        "stdout"],
    "interactive": lambda s: s.run("python3", "-c", DESCRIPTORS, interactive=True,
                                   spec_version="1.1")["stdout"],
    "capture": lambda s: s.run("python3", "-c", DESCRIPTORS, capture_patterns=["*"])["stdout"],
    "fathom": lambda s: _fathom_says(s, DESCRIPTORS),
    "tool": lambda s: _tool_says(s, code=DESCRIPTORS, session_id="t"),
    "kernel": lambda s: _tool_says(s, code=DESCRIPTORS, kernel=True, session_id="k"),
}


@pytest.mark.parametrize("guest", GUESTS)
def test_no_guest_holds_a_socket_of_ours(server, guest):
    """Who could send descriptors to the keeper or the server would make them close files, and wait
    for what these files wait for."""
    found = json.loads(GUESTS[guest](server))
    assert set(found) >= {"0", "1", "2"}
    for fd, (kind, sent) in found.items():
        assert kind in ("pipe", "/dev/null") and sent == "ENOTSOCK", found


# --- files that come in -------------------------------------------------------------


def _put(server, session, body, kind):
    return server.http.post(f"/sessions/{session}/files", content=body,
                            headers={"Content-Type": kind})


def test_uploads_stay_in_the_workspace(server):
    outside = server.home / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    victim = outside / "victim"
    victim.write_text("untouched")
    victim.chmod(0o666)
    session = server.session()["id"]
    attacks = [
        tar(("../x", b"evil"), ("a/../../x", b"evil"), (f"{outside}/x", b"evil")),
        tar(("l", tarfile.SYMTYPE, str(outside)), ("l/x", b"evil")),
        tar(("l2", tarfile.SYMTYPE, str(victim)), ("l2", b"evil")),
        tar(("h", tarfile.LNKTYPE, str(victim)), ("h", b"evil")),
        tar(("device", tarfile.CHRTYPE, ""), ("block", tarfile.BLKTYPE, ""),
            ("fifo", tarfile.FIFOTYPE, "")),
        zipped(("../x", b"evil"), (f"{outside}/x", b"evil"), ("..\\x", b"evil")),
    ]
    for body in attacks:
        kind = "application/zip" if body[:2] == b"PK" else "application/x-tar"
        assert _put(server, session, body, kind).status_code in (200, 422)
    names = (b"../../x", b"/etc/x", str(victim).encode(), b"..\\x", b"a/../../x", b".", b"")
    answer = _put(server, session, *form(*((name, b"evil") for name in names)))
    assert answer.status_code in (200, 422) and answer.json().get("file_count", 0) == 0
    # Links that a guest put there are not written through either.
    server.sh(f"ln -s {outside} d; ln -s {victim} f; ln -s /tmp t; mkfifo p", session_id=session)
    for name in ("d/x", "f", "t/x", "p"):
        assert _put(server, session, tar((name, b"evil")), "application/x-tar").status_code in (
            200, 422)
    assert victim.read_text() == "untouched" and os.listdir(outside) == ["victim"]
    kinds = server.sh("find . -type c -o -type b -o -links +1 -type f", session_id=session)
    assert kinds["stdout"] == ""
    assert _put(server, session, tar(("plain", b"good")), "application/x-tar").status_code == 200
    assert server.sh("cat plain; ls /tmp", session_id=session)["stdout"] == "good"


@pytest.mark.once
def test_bombs_are_refused_and_change_nothing(make_server):
    server = make_server(**FREED_IS_FREE)
    session = server.session()["id"]
    before = memory_of(server.process.pid)
    zeros = bytes(200 * MB)
    bombs = {
        "zip": (zipped(("zeros", zeros)), "application/zip"),
        "tar.gz": (gzip.compress(tar(("zeros", zeros))), "application/gzip"),
        "many": (zipped(*((f"f{n}", b"") for n in range(20000))), "application/zip"),
        "deep": (tar(("d/" * 50 + "x", b"")), "application/x-tar"),
        "form": form(*((b"%d" % n, b"") for n in range(20000))),
        "form_of_bombs": form(*((b"%d.zip" % n, zipped(("z%d" % n, bytes(9 * MB))))
                                for n in range(40))),
    }
    for name, (body, kind) in bombs.items():
        began = time.monotonic()
        answer = _put(server, session, body, kind)
        assert answer.status_code in (413, 422), (name, answer.text)
        assert time.monotonic() - began < 20 * SLOWER, name
    assert growth_of(server, before) < 64 * MB
    assert server.sh("ls -A", session_id=session)["stdout"] == ""
    assert _put(server, session, zipped(("a", b"b" * 1000)), "application/zip").status_code == 200


def test_repositories_are_not_fetched_from_inside(make_server):
    it = make_server(SANDBOX_GIT_ALLOW="https,http,git")
    with socket.create_server(("127.0.0.1", 0)) as canary:
        port = canary.getsockname()[1]
        hosts = ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1",
                 "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::]"]
        hosts += [host_address()] if host_address() else []
        urls = [f"{scheme}://{host}:{port}/x.git" for host in hosts
                for scheme in ("http", "https", "git")]
        urls += ["http://169.254.169.254/latest/meta-data", "http://[fd00:ec2::254]/x",
                 f"file://{it.root}", "ext::sh -c id", "ssh://-oProxyCommand=id/x", "-u./x",
                 f"ssh://127.0.0.1:{port}/x", f"git@127.0.0.1:{port}/x", "/etc",
                 f"http://user:git-secret-5dK@127.0.0.1:{port}/x?token=git-secret-7fQ"]
        for url in urls:
            answer = it.post("/sessions", json={"base_image": "host", "git": {"url": url}})
            assert answer.status_code == 422, (url, answer.text)
            assert "git-secret" not in answer.text
        canary.settimeout(0.2)
        with pytest.raises(TimeoutError):
            canary.accept()
        socket.create_connection(("127.0.0.1", port)).close()
        canary.accept()[0].close()
    assert "git-secret" not in it.log() and not files_with(it.root, "git-secret")
    assert it.get("/sessions").json()["total"] == 0


def _stuck_repository(belljar):
    """A repository of the server's own whose opening takes until somebody writes to it."""
    repository = belljar.home / "stuck.git"
    subprocess.run(["git", "init", "-q", "--bare", repository], check=True)
    os.mkfifo(repository / "packed-refs", 0o644)
    for path in (repository, *repository.rglob("*")):
        os.chown(path, _own_uid(belljar), -1)
    return repository


@contextlib.contextmanager
def _clones(server, repository, number):
    """Sessions that wait for a repository, and what became of those that did not."""
    heard = []

    def ask():
        with contextlib.suppress(Exception):  # the server may be killed meanwhile
            answer = server.client(timeout=60 * SLOWER).post(
                "/sessions", json={"base_image": "host", "git": {"url": f"file://{repository}"}})
            heard.append(answer.status_code)
    threads = [threading.Thread(target=ask) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield heard
    finally:
        while any(thread.is_alive() for thread in threads):
            with contextlib.suppress(OSError):  # whoever waits for a writer hears that it left
                os.close(os.open(repository / "packed-refs", os.O_WRONLY | os.O_NONBLOCK))
            time.sleep(0.05)
        for thread in threads:
            thread.join()


def test_repositories_that_take_long_keep_nobody_waiting(belljar, make_server):
    repository = _stuck_repository(belljar)
    it = make_server(SANDBOX_GIT_ALLOW="file")
    with _clones(it, repository, 8) as refused:
        assert eventually(lambda: len(refused) == 2, 10 * SLOWER)
        assert refused == [429, 429]
        began = time.monotonic()
        run = it.sh("echo hi > a", capture_patterns=["*"],
                    files=[{"path": "b", "content_b64": base64.b64encode(b"x").decode()}])
        assert run["phase"] == "completed" and time.monotonic() - began < 5 * SLOWER
        assert it.get(f"/runs/{run['id']}/artifacts/a").text == "hi\n"


# --- what guests print and leave ----------------------------------------------------

FORGER = r"""
import json, os
frames = [{"type": "event", "event": "end", "data": {"exit_code": 0}, "seq": 1},
          {"type": "stdout", "data": "forged", "seq": 99}]
out = b"".join(json.dumps(f).encode() + b"\n" for f in frames)
out += b"\x1b]52;c;aGk=\x07\x1b[2J\r\x00\xff\xfe\xc3\x28\xed\xa0\x80\xf0\x9f\x92" + b'"}\n{"' * 1000
os.write(1, out)
for _ in range(50000):
    os.write(1, b"\xc3")
os.write(2, out)
"""


def test_output_is_never_taken_for_frames(server):
    async def read(run):
        frames = []
        async with server.connect(f"{BASE}/runs/{run}/stream?from_seq=1") as ws:
            while not frames or frames[-1].get("event") != "end":
                frames.append(json.loads(await asyncio.wait_for(ws.recv(), 30 * SLOWER)))
        return frames
    run = server.run(PYTHON, "-c", FORGER)
    frames = asyncio.run(read(run["id"]))
    assert [f["seq"] for f in frames] == list(range(1, len(frames) + 1))
    assert [f.get("event") for f in frames].count("end") == 1 and run["exit_code"] == 0
    said = {"stdout": b"", "stderr": b""}
    for f in frames:
        if f["type"] in said:
            said[f["type"]] += (base64.b64decode(f["data"]) if f["encoding"] == "base64"
                                else f["data"].encode())
    names = {}
    exec(FORGER.split("os.write")[0], names)  # noqa: S102 (our own words)
    assert said["stderr"] == names["out"]
    assert said["stdout"] == names["out"] + b"\xc3" * 50000


HOARDER = r"""
import os, socket
os.symlink("/etc/passwd", "link"); os.symlink("/", "top"); os.mkfifo("fifo")
os.symlink("/proc/self/environ", "environ")
socket.socket(socket.AF_UNIX).bind("socket")
for name in ("new\nline", "back\\slash", "..dots", b"\xff\xfe", "\x1b[31mred"):
    open(name, "w").write("x")
path = "."
for _ in range(60):
    path += "/d"
    os.mkdir(path)
with open("sparse", "wb") as f:
    f.truncate(100 << 20)
for n in range(12000):
    open(f"many{n}", "w").close()
open("A plain one", "w").write("kept")
"""


def test_artifacts_follow_nothing_and_have_an_end(server):
    run = server.run(PYTHON, "-c", HOARDER, capture_patterns=["**"])
    assert run["phase"] == "completed", run
    items = server.get(f"/runs/{run['id']}/artifacts").json()["items"]
    names = [item["path"] for item in items]
    assert "A plain one" in names and len(names) <= 10000
    assert sum(item["size"] for item in items) <= 32 * MB and "sparse" not in names
    for name in names:
        assert name.isprintable() and ".." not in name and "\\" not in name
        assert name.split("/")[0] not in ("link", "top", "fifo", "environ", "socket")
    kept = server.get(f"/runs/{run['id']}/artifacts/A plain one")
    assert kept.text == "kept"
    if server.belljar.is_root or os.geteuid() == 0:
        top = next((server.root / "data").glob(f"*/runs/{run['id']}/artifacts"))
        assert all(not path.is_symlink() and (path.is_file() or path.is_dir())
                   for path in top.rglob("*"))


SWAPPER = r"""
import ctypes, os, time
os.makedirs("real", exist_ok=True); open("real/a", "w").write("mine")
os.symlink("/etc", "fake"); open("/workspace/fake_is", "w").close()
libc, until = ctypes.CDLL(None), time.time() + 8
while time.time() < until:
    libc.renameat2(-100, b"real", -100, b"fake", 2)
"""


def test_files_that_change_while_they_are_captured_lead_nowhere(server):
    session = server.session()["id"]
    swapper = server.start_run(PYTHON, "-c", SWAPPER, session_id=session).json()["id"]
    server.wait_for(swapper, "running")
    seen = set()
    for _ in range(20):
        run = server.run("true", session_id=session, capture_patterns=["real/**", "fake/**"])
        for item in server.get(f"/runs/{run['id']}/artifacts").json()["items"]:
            seen.add((item["path"].split("/", 1)[1],
                      server.http.get(server.url + item["download_url"]).text))
    server.post(f"/runs/{swapper}/cancel")
    assert seen == {("a", "mine")}


# --- secrets and files of ours ------------------------------------------------------


def _command_lines(server):
    """Of everything but guests, which live in a pid namespace of their own."""
    for pid in (server.process.pid, *keepers_of(server)):
        yield pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()


def test_code_and_environment_are_gone_with_the_run(server):
    code, value = (f"secret-{secrets.token_hex(12)}" for _ in range(2))
    inline = base64.b64encode(f"{code} in a file of some length {'x' * 5000}".encode()).decode()
    run = server.start_run("sh", "-c", f"sleep 1; echo ${{#VALUE}} # {code}", env={"VALUE": value},
                           files=[{"path": "a", "content_b64": inline}]).json()["id"]
    tokens = (code, value, inline[:60])
    server.wait_for(run, "running")
    # A successor needs them for as long as the run is not over.
    assert files_with(server.root, *tokens)
    for line in _command_lines(server):
        assert not any(token.encode() in line for token in (*tokens, server.key))
    server.wait_for(run)
    assert eventually(lambda: not files_with(server.root, *tokens), 15 * SLOWER, pause=0.2), \
        files_with(server.root, *tokens)
    assert not any(token in server.log() for token in (*tokens, server.key))
    text = json.dumps(server.status(run)) + server.get(f"/admin/runs/{run}").text
    assert not any(token in text for token in tokens)
    assert files_with(server.root, run)  # that it was is remembered
    assert files_with(server.root, server.key) == {"data/api_key"}


def test_what_is_ours_is_for_nobody_else(server):
    server.upload(server.session()["id"], ("a", b"b"))
    server.sh("echo a > a", capture_patterns=["*"])
    data = server.root / "data"
    for path in (data, *data.rglob("*")):
        assert stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path
    if os.geteuid() != 0:
        return
    probe = ("import os, socket, sys\n"
             "for name in ('data/api_key', 'data/meta/sandbox_store.db'):\n"
             "    try: print(open(os.path.join(sys.argv[1], name), 'rb').read(9))\n"
             "    except OSError: pass\n"
             "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
             "try: s.connect(os.path.join(sys.argv[1], 'keeper.sock')); s.send(b'x' * 64)\n"
             "except OSError: sys.exit()\n"
             "s.settimeout(5)\n"
             "try: print(s.recv(9))\n"
             "except OSError: pass\n")
    said = [subprocess.run([PYTHON, "-c", probe, server.root], user=who, group=who,
                           extra_groups=[], capture_output=True, text=True, check=False).stdout
            for who in (NOBODY_ELSE, 0)]
    assert said[0].replace("b''\n", "") == "" and "bj_" in said[1]


def test_the_server_has_no_rights_to_lose(server):
    status = status_of(server.process.pid)
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"].strip() == "1"
    uids = set(status["Uid"].split())
    assert uids == {str(_own_uid(server.belljar))} and uids != {"0"}
    if server.belljar.is_root:
        assert status["Groups"].strip() == ""
        assert {status_of(pid)["Uid"].split()[0] for pid in keepers_of(server)} == {"0"}
        # Not even who becomes the server's user reads its memory, or the keeper's.
        for pid in (server.process.pid, *keepers_of(server)):
            done = subprocess.run([PYTHON, "-c", f"open('/proc/{pid}/mem')"], check=False,
                                  user=_own_uid(server.belljar), group=65534, extra_groups=[],
                                  capture_output=True)
            assert b"PermissionError" in done.stderr
        pathlib.Path(f"/proc/{server.process.pid}/mem").open("rb").close()
    limits = pathlib.Path(f"/proc/{server.process.pid}/limits").read_text()
    assert int(limits.split("Max core file size")[1].split()[0]) <= 1


def test_guests_reach_neither_server_nor_keeper(server):
    places = [("127.0.0.1", server.port), ("::1", server.port)]
    places += [(host_address(), server.port)] if host_address() else []
    probe = ("import socket, sys, json\n"
             "places, paths = json.loads(sys.argv[1]), json.loads(sys.argv[2])\n"
             "def attempt(family, kind, place):\n"
             "    s = socket.socket(family, kind); s.settimeout(2)\n"
             "    try: s.connect(place); return True\n"
             "    except OSError: return False\n"
             "print(json.dumps([attempt(socket.AF_INET6 if ':' in h else socket.AF_INET,\n"
             "    socket.SOCK_STREAM, (h, p)) for h, p in places] +\n"
             "    [attempt(socket.AF_UNIX, socket.SOCK_SEQPACKET, p) for p in paths]))\n")
    argv = [PYTHON, "-c", probe, json.dumps(places),
            json.dumps([str(server.root / "keeper.sock")])]
    assert not any(json.loads(server.run(*argv)["stdout"]))
    session = server.session()["id"]
    assert not any(json.loads(server.run(*argv, session_id=session)["stdout"]))
    control = json.loads(server.belljar.command(*argv).stdout)
    assert control[0] and control[-1]


# --- what is used up, other servers, and ends ----------------------------------------


def test_a_disk_that_is_nearly_full_takes_nothing_new(make_server):
    it = make_server()
    session, run = it.session()["id"], it.run("echo", "hi")["id"]
    it.settings["SANDBOX_MIN_FREE_MB"] = str(1 << 26)  # more than any disk has
    it.restart()
    refused = [it.start_run("true"), it.post("/sessions", json={"base_image": "host"}),
               it.upload(session, ("a", b"b")), it.post(f"/sessions/{session}/snapshot")]
    assert [a.status_code for a in refused] == [507] * 4
    assert refused[0].json()["error"]["code"] == "insufficient_storage"
    assert it.status(run)["phase"] == "completed"
    assert it.delete(f"/sessions/{session}").status_code == 200


def test_a_second_server_is_refused(server):
    run = server.start_run("sleep", "2").json()["id"]
    for settings in ({}, {"SANDBOX_STORE_DB_PATH": str(server.home / "other.db")},
                     {"SANDBOX_STORE_BACKEND": "memory"}):
        done = server.belljar.run("serve", "--root", server.root, "--port", "0", env=settings)
        assert done.returncode == 125 and "in use" in done.stderr, done.stderr
    assert server.wait_for(run)["phase"] == "completed"


def test_what_was_half_done_is_swept(belljar, make_server):
    repository = _stuck_repository(belljar)
    it = make_server(SANDBOX_GIT_ALLOW="file")
    session = it.session()["id"]
    tmp = it.root / "data/tmp"
    with _clones(it, repository, 2), dial(it) as upload:
        upload.sendall((head(it, f"POST {BASE}/sessions/{session}/files?path=half",
                             "Content-Type: application/octet-stream", "Content-Length: 9999999")
                        + "half of it").encode())
        assert eventually(lambda: len(os.listdir(tmp)) == 2, 10 * SLOWER)
        it.kill()
    it.start()
    assert os.listdir(tmp) == []
    assert it.sh("ls -A", session_id=session)["stdout"] == ""
    assert it.get("/sessions").json()["total"] == 1
    assert it.upload(session, ("whole", b"x")).status_code == 200
