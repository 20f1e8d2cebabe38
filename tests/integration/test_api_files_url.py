"""GET /files/{session}/{path}: a file of a session's workspace, by key or by a signed URL, and
never another one."""
import hashlib
import hmac
import pathlib
import socket
import threading
import time
import urllib.parse

import pytest

from jar import eventually
from server import make_server, server, server_of_users, users  # noqa: F401 (fixtures)

TEN = b"0123456789"
SECRET = "0123456789abcdef0123456789abcdef"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
once = pytest.mark.once


def url_of(session, path):
    return f"/files/{session['id']}/{path}"


def fetch(server, session, path="ten.txt", key=None, query="", **options):
    """The path is sent as it is."""
    client = server.client(key)
    return client.get(server.url + url_of(session, path) + query, **options)


def raw(server, target, key=None):
    """An answer to a target that no client library would send: status and body."""
    key = server.key if key is None else key
    with socket.create_connection(("127.0.0.1", server.port), 10) as s:
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {key}\r\n"
                  "Connection: close\r\n\r\n".encode())
        data = b""
        while more := s.recv(65536):
            data += more
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def sign(session_id, path, exp, secret=SECRET):
    """As core/sign.c does it, written once more."""
    key = hmac.new(secret.encode(), b"files of sessions", hashlib.sha256).digest()
    return hmac.new(key, f"{session_id}\n{exp}\n{path}".encode(), hashlib.sha256).hexdigest()


def query_of(session, path, exp, **other):
    token = other.get("token") or sign(session["id"], path, exp)
    return f"?token={token}&exp={exp}"


@pytest.fixture
def session(server):
    """One with ten.txt in it."""
    it = server.session()
    assert server.upload(it["id"], ("ten.txt", TEN)).status_code == 200
    return it


# --- what is served ---

def test_a_file_has_its_headers(server, session):
    answer = fetch(server, session)
    assert (answer.status_code, answer.content) == (200, TEN)
    expected = {
        "content-type": "text/plain", "content-length": "10", "accept-ranges": "bytes",
        "etag": f'"{hashlib.sha256(TEN).hexdigest()}"', "x-content-type-options": "nosniff",
        "cache-control": "private",
        "content-security-policy": "sandbox; default-src 'none'",
        "content-disposition": "attachment; filename=\"ten.txt\"; filename*=UTF-8''ten.txt",
    }
    assert {name: answer.headers.get(name) for name in expected} == expected
    head = server.client().head(server.url + url_of(session, "ten.txt"))
    assert (head.status_code, head.content) == (200, b"")
    assert {name: head.headers.get(name) for name in expected} == expected


def test_what_a_run_wrote_is_there_and_stays_current(server, session):
    server.sh("mkdir -p plots; printf '\\211PNG\\r\\n\\032\\n' >plots/a.png; echo new >ten.txt",
              session_id=session["id"])
    answer = fetch(server, session, "plots/a.png")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert answer.content == b"\x89PNG\r\n\x1a\n"
    assert fetch(server, session).text == "new\n"


@once
def test_a_file_can_be_fetched_while_a_run_goes(server, session):
    run = server.start_run("sh", "-c", "echo now >live.txt; sleep 30",
                           session_id=session["id"]).json()
    server.wait_for(run["id"], "running")
    deadline = time.monotonic() + 20
    while (answer := fetch(server, session, "live.txt")).status_code == 404:
        assert time.monotonic() < deadline
    assert answer.text == "now\n"
    server.post(f"/runs/{run['id']}/cancel")


@once
def test_every_name_can_be_asked_for(server):
    names = ["a b.txt", "100%.txt", "\u00e4\u20ac.txt", "q?#&+=.txt", "'q'.txt", "[a-z]*.txt",
             "d/x y/z.txt", "\"dq\".txt", "**", ".hidden"]
    session = server.session()
    script = ("import os, sys\nfor n in sys.argv[1:]:\n"
              "    os.makedirs(os.path.dirname(n) or '.', exist_ok=True)\n"
              "    open(n, 'w').write(n)")
    server.run("python3", "-c", script, *names, session_id=session["id"])
    for name in names:
        answer = fetch(server, session, urllib.parse.quote(name))
        assert (answer.status_code, answer.text) == (200, name), name
        assert answer.headers["content-disposition"].startswith('attachment; filename="')


@once
def test_an_empty_file_is_one(server):
    session = server.session()
    server.sh(": >empty", session_id=session["id"])
    answer = fetch(server, session, "empty")
    assert (answer.status_code, answer.headers["content-length"]) == (200, "0")


@once
@pytest.mark.parametrize("value, part", [
    ("bytes=0-0", (0, 0)), ("bytes=2-5", (2, 5)), ("bytes=5-", (5, 9)), ("bytes=-3", (7, 9)),
    ("bytes=0-999", (0, 9)),
])
def test_one_range_is_a_part(server, session, value, part):
    answer = fetch(server, session, headers={"Range": value})
    first, last = part
    assert (answer.status_code, answer.content) == (206, TEN[first:last + 1])
    assert answer.headers["content-range"] == f"bytes {first}-{last}/10"


@once
def test_any_other_range_can_not_be_satisfied(server, session):
    for value in ("bytes=10-", "items=0-1", "bytes=5-2"):
        answer = fetch(server, session, headers={"Range": value})
        assert answer.status_code == 416, value
        assert answer.headers["content-range"] == "bytes */10"
        assert answer.json()["error"]["code"] == "invalid_range"
    answer = fetch(server, session, headers={"Range": "bytes=0-1, 3-4, -1"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */10")
    assert answer.json()["error"]["message"] == "Multi-range not supported"
    assert answer.json()["error"]["details"] == {"ranges": 3}


@once
def test_who_has_it_is_told_so(server, session):
    tag = fetch(server, session).headers["etag"]
    answer = fetch(server, session, headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content) == (304, b"")
    resumed = fetch(server, session, headers={"Range": "bytes=5-", "If-Range": tag})
    assert (resumed.status_code, resumed.content) == (206, TEN[5:])
    other = fetch(server, session, headers={"Range": "bytes=5-", "If-Range": '"other"'})
    assert (other.status_code, other.content) == (200, TEN)


def resident_kb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


@once
def test_a_large_file_takes_no_memory_and_has_a_limit(make_server):
    server = make_server(SANDBOX_MAX_ARTIFACT_FILE_BYTES=40 << 20)
    session = server.session()
    server.sh("head -c 41943040 /dev/urandom >fits; head -c 41943041 /dev/zero >large; "
              "sha256sum fits >sum", session_id=session["id"])
    assert fetch(server, session, "sum").status_code == 200  # it knows kinds of files by now
    before = resident_kb(server.process.pid)
    answer = fetch(server, session, "fits", timeout=60)
    assert answer.status_code == 200
    assert hashlib.sha256(answer.content).hexdigest() == fetch(server, session, "sum").text[:64]
    took = resident_kb(server.process.pid) - before
    is_sanitized = b"__asan_init" in pathlib.Path(server.belljar.path).read_bytes()
    assert took // (2 if is_sanitized else 1) < 24 << 10  # a sanitizer has its own share of it
    answer = fetch(server, session, "large")
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
    assert answer.json()["error"]["details"]["limit_bytes"] == 40 << 20


@once
def test_copies_under_way_are_limited(server):
    """Each takes some of the disk, so who takes them slowly can not have many."""
    session = server.session()
    server.sh("head -c 8000000 /dev/zero >big", session_id=session["id"])
    request = (f"GET {url_of(session, 'big')} HTTP/1.1\r\nHost: localhost\r\n"
               f"X-API-KEY: {server.key}\r\n\r\n").encode()
    slow = []
    try:
        for _ in range(16):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", server.port))
            s.sendall(request)
            slow.append(s)
        for s in slow:
            s.settimeout(20)
            assert s.recv(12) == b"HTTP/1.1 200"
        answer = fetch(server, session, "big")
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
        assert answer.headers["retry-after"]
    finally:
        for s in slow:
            s.close()
    deadline = time.monotonic() + 20
    while fetch(server, session, "big").status_code == 429:
        assert time.monotonic() < deadline


# --- what is not ---

@once
def test_what_is_not_there_is_not_found(server, session):
    server.sh("mkdir dir; mkfifo fifo; echo 1 >shut; chmod 0 shut; mkdir closed; echo 1 >closed/a;"
              "chmod 0 closed", session_id=session["id"])
    for path in ("missing", "TEN.TXT", "ten.txt/x", "dir", "dir/x", "fifo", "shut", "closed/a",
                 "a" * 200):
        answer = fetch(server, session, path)
        assert (answer.status_code, answer.json()["detail"]) == (404, "file_not_found"), path
    for target in (f"/files/{UNKNOWN}/ten.txt", "/files/nonsense/ten.txt", "/files/*/ten.txt"):
        status, body = raw(server, target)
        assert status == 404 and b"session_not_found" in body, target
    status, _ = raw(server, "/files/")
    assert status == 404
    assert server.client().post(server.url + url_of(session, "ten.txt")).status_code == 405


@once
def test_a_path_that_leads_elsewhere_is_refused(server, session):
    for path in ("../ten.txt", "..", "a/../ten.txt", "%2E%2E/x", "%2e%2e%2fx", "%252E%252E/x",
                 "..%5cx", "a%5c..%5cb", "a\\b", "/etc/passwd", "a//b", "./ten.txt", "a/./b",
                 "ten.txt/", "%2Fetc/passwd", "%2Fworkspace%2Ften.txt", "a%00b", "a%0ab", "",
                 "%25252525252e%25252525252e/x", "a" * 5000):
        status, body = raw(server, url_of(session, path))
        assert status == 400, path
        assert b"invalid_path" in body or b"bad_request" in body, path


@once
def test_a_link_is_not_followed(server, session):
    server.sh("ln -s /etc/passwd out; ln -s /etc dir; ln -s ten.txt in; ln -s /proc/self/environ e;"
              "ln -s ../workspace/ten.txt around; ln -s / root; ln -s /dev/zero zero; mkdir d; "
              "ln -s ../.. d/up", session_id=session["id"])
    for path in ("out", "dir/passwd", "in", "e", "around", "root/etc/passwd", "zero",
                 "root/workspace/ten.txt", "d/up/etc/passwd"):
        answer = fetch(server, session, path)
        assert (answer.status_code, answer.json()["detail"]) == (404, "file_not_found"), path


def test_nobody_reads_what_is_another_ones(server_of_users):
    server, keys = server_of_users
    ann, bob = server.client(keys["ann"]), server.client(keys["bob"])
    hers, his = server.session(client=ann), server.session(client=bob)
    assert server.upload(hers["id"], ("secret.txt", b"hers"), client=ann).status_code == 200
    assert ann.get(server.url + url_of(hers, "secret.txt")).text == "hers"
    for path in ("secret.txt", "missing"):
        answer = bob.get(server.url + url_of(hers, path))
        assert (answer.status_code, answer.json()["detail"]) == (404, "session_not_found")
        answer = bob.get(server.url + url_of(his, path))
        assert (answer.status_code, answer.json()["detail"]) == (404, "file_not_found")
    for path in (f"{his['id']}/../{hers['id']}/secret.txt",
                 f"{his['id']}/..%2f{hers['id']}%2fsecret.txt",
                 f"{his['id']}%2f..%2f{hers['id']}/secret.txt",
                 f"{his['id']}/%2e%2e/{hers['id']}/secret.txt",
                 f"{hers['id'].upper()}/secret.txt", f"{hers['id']}%00/secret.txt",
                 f"{hers['id'].replace('-', '')}/secret.txt"):
        status, body = raw(server, f"/files/{path}", keys["bob"])
        assert status in (400, 404) and b"hers" not in body.replace(hers["id"].encode(), b""), path
    assert server.client("").get(server.url + url_of(hers, "secret.txt")).status_code == 401
    assert server.client("wrong").get(server.url + url_of(hers, "secret.txt")).status_code == 401


@once
def test_a_session_that_is_gone_has_no_files(server, session):
    assert server.delete(f"/sessions/{session['id']}").status_code == 200
    answer = fetch(server, session)
    assert (answer.status_code, answer.json()["detail"]) == (404, "session_not_found")


# --- signed URLs ---

@pytest.fixture
def signing(make_server):
    return make_server(SANDBOX_FILES_SIGNED_URLS="true", SANDBOX_WS_SIGNING_SECRET=SECRET)


@once
def test_a_signed_url_needs_no_credentials(signing):
    session, other = signing.session(), signing.session()
    for it in (session, other):
        assert signing.upload(it["id"], ("d/a b.txt", TEN)).status_code == 200
    soon = int(time.time()) + 60
    path = "d/a%20b.txt"
    good = query_of(session, "d/a b.txt", soon)
    answer = fetch(signing, session, path, key="", query=good, headers={"Range": "bytes=5-"})
    assert (answer.status_code, answer.content) == (206, TEN[5:])
    # it is for one file of one session until one moment
    for it, where, query in (
            (other, path, good), (session, "ten.txt", good),
            (session, path, good.replace(f"exp={soon}", f"exp={soon + 1}")),
            (session, path, query_of(session, "d/a b.txt", soon, token="0" * 64)),
            (session, path, f"?token={sign(session['id'], 'd/a b.txt', soon)}"),
            (session, path, f"?exp={soon}"),
            (session, path, query_of(session, "d/a b.txt", soon,
                                     token=sign(session["id"], "d/a b.txt", soon, "x" * 32)))):
        answer = fetch(signing, it, where, key="", query=query)
        assert answer.status_code == 403, query
        assert answer.json()["error"]["message"] == "the signature is wrong"
    past = int(time.time()) - 1
    answer = fetch(signing, session, path, key="", query=query_of(session, "d/a b.txt", past))
    assert answer.status_code == 403 and "expired" in answer.json()["error"]["message"]
    # without one a key is needed, and is enough
    assert fetch(signing, session, path, key="").status_code == 401
    assert fetch(signing, session, path).content == TEN
    # what leads elsewhere does so with a signature too
    status, _ = raw(signing, url_of(session, "../x") + query_of(session, "../x", soon), "")
    assert status == 400
    signing.restart()
    assert fetch(signing, session, path, key="", query=good).content == TEN


@once
def test_a_signature_of_a_stream_is_none_of_a_file(signing):
    session = signing.session()
    signing.upload(session["id"], ("a", TEN))
    soon = int(time.time()) + 60
    token = hmac.new(SECRET.encode(), f"{session['id']}:{soon}".encode(),
                     hashlib.sha256).hexdigest()
    assert fetch(signing, session, "a", key="", query=f"?token={token}&exp={soon}"
                 ).status_code == 403


@once
def test_a_signature_means_nothing_where_they_are_off(make_server):
    server = make_server(SANDBOX_WS_SIGNING_SECRET=SECRET)
    session = server.session()
    server.upload(session["id"], ("a", TEN))
    query = query_of(session, "a", int(time.time()) + 60)
    assert fetch(server, session, "a", key="", query=query).status_code == 401
    assert fetch(server, session, "a", query=query).content == TEN


@once
def test_a_signature_ends_with_its_session(signing):
    session = signing.session()
    signing.upload(session["id"], ("a", TEN))
    query = query_of(session, "a", int(time.time()) + 60)
    assert fetch(signing, session, "a", key="", query=query).content == TEN
    signing.delete(f"/sessions/{session['id']}")
    assert fetch(signing, session, "a", key="", query=query).status_code == 404


@once
def test_a_token_is_not_logged(signing):
    session = signing.session()
    signing.upload(session["id"], ("name-of-a-file", TEN))
    query = query_of(session, "name-of-a-file", int(time.time()) + 60)
    assert fetch(signing, session, "name-of-a-file", key="", query=query).content == TEN
    assert eventually(lambda: "/files/{id}" in signing.log())
    assert query[7:40] not in signing.log()
    assert "name-of-a-file" not in signing.log()


@once
def test_many_at_once_each_get_their_own(server):
    session = server.session()
    server.sh("for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/urandom >f$i; done; "
              "sha256sum f* >sums", session_id=session["id"])
    sums = dict(reversed(line.split()) for line in fetch(server, session, "sums").text.splitlines())
    got = {}

    def get(name):
        got[name] = hashlib.sha256(fetch(server, session, name).content).hexdigest()
    threads = [threading.Thread(target=get, args=(name,)) for name in sums]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == sums


# --- a guest that is in the way ---

LEASE = """
import fcntl, os, pathlib, time
fd = os.open("ten.txt", os.O_RDWR)
try:
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    said = "leased"
except OSError as e:
    said = e.strerror
pathlib.Path("said.new").write_text(said)
os.rename("said.new", "said.txt")
time.sleep(30)
"""


@once
def test_a_lease_keeps_nobody_from_a_file(server, session):
    """Whoever opened it would have to wait for the guest, or be turned away."""
    run = server.start_run("python3", "-c", LEASE, session_id=session["id"]).json()
    assert eventually(lambda: fetch(server, session, "said.txt").text == "Invalid argument", 20)
    answer = fetch(server, session)
    assert (answer.status_code, answer.content) == (200, TEN)
    server.post(f"/runs/{run['id']}/cancel")
