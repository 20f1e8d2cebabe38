"""Part F: the service, attacked by who can reach it, by its users, and by their guests.

Each test starts a server of its own and speaks to it over real sockets; `enemy` has what no
decent client would send. That the server lives on is part of every test, since it must end by
itself at the end. What lies behind its door is in test_f_service_inside.py."""
import asyncio
import contextlib
import json
import resource
import select
import socket
import time

import pytest
from enemy import (BASE, BareSocket, Issuer, dial, files_with, growth_of, head, listen, memory_of,
                   plain64, say, statuses, unsigned)
from jar import SLOWER, eventually
from outside import PYTHON
from server import WsRefused, make_server, server, users, ws_status  # noqa: F401 (fixtures)

MB = 1 << 20
# Else a sanitizer, if there is one, keeps what was freed, and memory can not be measured.
FREED_IS_FREE = {"ASAN_OPTIONS": "quarantine_size_mb=16"}
NONE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def lean_server(make_server):
    """A server whose memory can be measured."""
    return make_server(**FREED_IS_FREE)


@pytest.fixture
def crowd(make_server, users):
    """A server of many users, and a client for each of them."""
    settings, keys = users

    def make(**more):
        it = make_server(**settings, **more)
        it.people = {name: it.client(key) for name, key in keys.items()}
        it.keys = keys
        return it
    return make


def answers(server, **options):
    """How long a stranger's small request takes."""
    began = time.monotonic()
    client = server.client("", timeout=20 * SLOWER, **options)
    assert client.get("/health/public").status_code == 200
    return time.monotonic() - began


# --- one request is one request -----------------------------------------------------

SECOND = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
AMBIGUOUS = {
    "length_and_chunks": (["Content-Length: 5", "Transfer-Encoding: chunked"], "0\r\n\r\n"),
    "chunks_and_length": (["Transfer-Encoding: chunked", "Content-Length: 5"], "0\r\n\r\n"),
    "two_lengths": (["Content-Length: 0", "Content-Length: 2"], "{}"),
    "two_equal_lengths": (["Content-Length: 2", "Content-Length: 2"], "{}"),
    "list_of_lengths": (["Content-Length: 2, 2"], "{}"),
    "signed_length": (["Content-Length: +2"], "{}"),
    "length_in_hex": (["Content-Length: 0x2"], "{}"),
    "negative_length": (["Content-Length: -1"], "{}"),
    "huge_length": (["Content-Length: 18446744073709551618"], "{}"),
    "blank_before_colon": (["Content-Length : 2"], "{}"),
    "folded_line": (["X-A: b", " Content-Length: 2"], "{}"),
    "chunked_twice": (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], "0\r\n\r\n"),
    "other_coding": (["Transfer-Encoding: gzip, chunked"], "0\r\n\r\n"),
    "nearly_chunked": (["Transfer-Encoding: xchunked"], "0\r\n\r\n"),
    "vertical_tab": (["Transfer-Encoding: \x0bchunked"], "0\r\n\r\n"),
    "bare_line_feed": (["X-A: b\nTransfer-Encoding: chunked"], "0\r\n\r\n"),
    "bare_return": (["X-A: b\rTransfer-Encoding: chunked"], "0\r\n\r\n"),
    "nul": (["X-A: b\0Transfer-Encoding: chunked"], "0\r\n\r\n"),
    "chunk_of_16_digits": (["Transfer-Encoding: chunked"], "ffffffffffffffff\r\n"),
    "negative_chunk": (["Transfer-Encoding: chunked"], "-1\r\n"),
    "chunk_with_bare_feed": (["Transfer-Encoding: chunked"], "0\n\n"),
    "chunk_too_long_for_its_size": (["Transfer-Encoding: chunked"], "1\r\n{}\r\n0\r\n\r\n"),
}


@pytest.mark.once
def test_a_second_request_can_not_be_smuggled(server):
    for name, (fields, body) in AMBIGUOUS.items():
        heard = say(server, head(server, f"POST {BASE}/runs", *fields) + body + SECOND)
        assert len(statuses(heard)) == 1 and statuses(heard)[0] in (400, 501), (name, heard)
    for body in ("0\r\n\r\n", f"{len(SECOND):x}\r\n{SECOND}\r\n0\r\n\r\n"):  # nobody reads these
        for line, status in ((f"POST {BASE}/runs", 401), ("POST /nothing", 404)):
            text = head(server, line, "Transfer-Encoding: chunked", key=False) + body
            assert statuses(say(server, text)) == [status]
    control = say(server, 2 * SECOND)
    assert statuses(control) == [200, 200]


@pytest.mark.once
def test_nothing_that_is_echoed_ends_a_header(server):
    run = server.run(PYTHON, "-c",
                     "for name in ('a\\r\\nX-Evil: 1', 'b\"; x=\"', 'c%0d%0aX-Evil: 1', 'd'):\n"
                     "    open(name, 'w').write('<script>')", capture_patterns=["*"])
    listed = server.get(f"/runs/{run['id']}/artifacts").json()["items"]
    assert "d" in [item["path"] for item in listed]
    for item in listed:
        answer = server.http.get(server.url + item["download_url"])
        assert answer.headers["content-disposition"].startswith("attachment; ")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "x-evil" not in answer.headers
    for fields in (["traceparent: 00-" + "a" * 32 + "-" + "b" * 16 + "-01\tX-Evil: 1"],
                   ["Idempotency-Key: a\tX-Evil: 1"], ["Origin: http://localhost\tX-Evil: 1"]):
        heard = say(server, head(server, f"POST {BASE}/runs", *fields, "Content-Length: 0"))
        assert len(statuses(heard)) == 1 and b"\nX-Evil" not in heard
    path = f"GET {BASE}/runs/{run['id']}/artifacts/d%0d%0aX-Evil:%201"
    assert statuses(say(server, head(server, path))) == [400]


# --- floods -------------------------------------------------------------------------


@pytest.mark.heavy
def test_clients_that_say_nothing_keep_nobody_out(lean_server):
    """More connections than there may be; some have begun a request, and never end it."""
    server = lean_server
    most = 4096 + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < most + 1000:
        pytest.skip(f"needs {most} descriptors, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        before = memory_of(server.process.pid)
        for n in range(most):
            connection = stack.enter_context(dial(server))
            with contextlib.suppress(OSError):
                connection.send(b"GET /healthz HTTP/1.1\r\nHost:" if n % 2 else b"")
        assert answers(server) < 3 * SLOWER
        assert server.run("echo", "hi")["stdout"] == "hi\n"
        assert growth_of(server, before) < 64 * MB


@pytest.mark.once
def test_requests_that_nobody_reads_the_answers_of_are_not_kept(lean_server):
    server = lean_server
    before = memory_of(server.process.pid)
    with dial(server) as connection:
        connection.settimeout(1)
        with contextlib.suppress(socket.timeout):
            for _ in range(2000):
                connection.sendall(100 * SECOND.encode())
        assert answers(server) < 3 * SLOWER
        assert growth_of(server, before) < 16 * MB


def test_one_user_can_not_take_all_memory_or_disk_for_bodies(crowd):
    """They are kept there while they come."""
    it = crowd()
    session = {name: it.session(client=it.people[name])["id"] for name in ("ann", "bob")}
    with contextlib.ExitStack() as stack:
        def upload(name):
            connection = stack.enter_context(dial(it))
            connection.sendall((
                f"POST {BASE}/sessions/{session[name]}/files?path=x HTTP/1.1\r\nHost: localhost\r\n"
                f"X-API-KEY: {it.keys[name]}\r\nContent-Type: application/octet-stream\r\n"
                "Content-Length: 100000\r\n\r\n").encode() + b"x")
            return connection
        pending = [upload("ann") for _ in range(20)]
        assert eventually(lambda: len(select.select(pending, [], [], 0)[0]) == 4)
        time.sleep(0.2)
        refused = select.select(pending, [], [], 0)[0]
        assert [statuses(c.recv(65536)) for c in refused] == [[429]] * 4
        control = upload("bob")
        control.sendall(b"x" * 99999)
        assert statuses(listen(control, 1)) == [200]
        allowed = next(c for c in pending if c not in refused)
        # Nor does a large body for memory get in; a small one does.
        large = it.start_run("true", "x" * 100000, client=it.people["ann"])
        assert large.status_code == 429 and large.json()["error"]["code"] == "rate_limited"
        assert it.start_run("true", client=it.people["ann"]).status_code == 200
        allowed.sendall(b"x" * 99999)
        assert statuses(listen(allowed, 1)) == [200]
        large = it.start_run("true", "x" * 100000, client=it.people["ann"])
        assert large.status_code == 200


# --- paths --------------------------------------------------------------------------

ELSEWHERE = ["..%2f..%2fapi_key", "../../api_key", "%2e%2e/%2e%2e/api_key", "..%252f..%252fapi_key",
             "%252e%252e%252fapi_key", "..%5c..%5capi_key", "/etc/passwd", "%2fetc%2fpasswd",
             "a%00b", "%c0%ae%c0%ae/api_key", "%ef%bc%8e%ef%bc%8e/api_key", ".", "..", "%",
             "%ff%fe", "l1", "dir/passwd", "fifo", "%25" * 2000, "a/" * 2000]


@pytest.mark.once
def test_paths_lead_nowhere_else(server):
    run = server.sh("ln -s /etc/passwd l1; ln -s /etc dir; mkfifo fifo; echo ok > plain",
                    capture_patterns=["**"])["id"]
    session = server.session()["id"]
    for path in ELSEWHERE:
        for line in (f"GET {BASE}/runs/{run}/artifacts/{path}", f"GET {BASE}/runs/{path}",
                     f"GET {BASE}/sessions/{path}", f"GET {BASE}/runs/{path}/artifacts/plain",
                     f"DELETE {BASE}/sessions/{session}/snapshots/{path}", f"GET /{path}"):
            heard = say(server, head(server, line, "Connection: close"), seconds=5)
            assert len(statuses(heard)) == 1, (line, heard)
            assert statuses(heard)[0] < 500 and server.key.encode() not in heard, (line, heard)
            assert b"root:" not in heard and b'"ok":true' not in heard, (line, heard)
            assert statuses(heard)[0] >= 400 or b'"ok":false' in heard, (line, heard)
    assert server.get(f"/runs/{run}/artifacts/plain").text == "ok\n"


# --- other people's things ----------------------------------------------------------


def test_what_is_somebody_elses_is_as_if_it_were_not(crowd):
    """The very same answer as for what nobody has."""
    it = crowd()
    ann, bob = it.people["ann"], it.people["bob"]
    session = it.session(client=ann)["id"]
    snapshot = ann.post(f"/sessions/{session}/snapshot").json()["snapshot_id"]
    run = it.start_run("sh", "-c", "echo a > a", client=ann, capture_patterns=["*"],
                       params={"wait": 20}).json()["id"]
    attempts = [("GET", "/runs/{run}", None), ("POST", "/runs/{run}/cancel", None),
                ("GET", "/runs/{run}/artifacts", None), ("GET", "/runs/{run}/artifacts/a", None),
                ("GET", "/sessions/{session}", None), ("POST", "/sessions/{session}/clone", None),
                ("POST", "/sessions/{session}/snapshot", None),
                ("GET", "/sessions/{session}/snapshots", None),
                ("POST", "/sessions/{session}/restore", {"snapshot_id": snapshot}),
                ("DELETE", f"/sessions/{{session}}/snapshots/{snapshot}", None),
                ("POST", "/runs", {"session_id": "{session}", "command": ["true"]}),
                ("DELETE", "/sessions/{session}", None)]

    def ask(client, attempt, **ids):
        method, path, body = attempt
        body = body and json.loads(json.dumps(body).replace("{session}", ids["session"]))
        answer = client.request(method, path.format(**ids), json=body)
        return answer.status_code, answer.text.replace(ids["session"], "").replace(ids["run"], "")
    for attempt in attempts:
        theirs = ask(bob, attempt, run=run, session=session)
        nobodys = ask(bob, attempt, run=NONE, session=NONE)
        assert theirs == nobodys and theirs[0] == 404, attempt
        control = ask(ann, attempt, run=run, session=session)
        assert control[0] == 200, (attempt, control)
    for path in ("/admin/runs", f"/admin/runs/{run}", "/admin/usage", "/admin/idempotency"):
        assert bob.get(path).status_code == 403
        assert it.people["boss"].get(path).status_code == 200


def test_counters_name_nobody(crowd):
    it = crowd()
    run = it.start_run("true", client=it.people["ann"], params={"wait": 20}).json()["id"]
    heard = say(it, head(it, "GET /metrics", "Connection: close", key=False), seconds=5).decode()
    assert "sandbox_runs_completed_total" in heard
    assert run not in heard and "ann" not in heard


# --- credentials --------------------------------------------------------------------


def _opens(server, path, **options):
    """Does a WebSocket at this path open?"""
    async def go():
        try:
            async with server.connect(path, **options):
                return True
        except WsRefused as e:
            assert ws_status(e) in (400, 401, 403, 404, 422), e
            return False
    return asyncio.run(go())


def test_a_signed_url_is_good_for_one_stream_and_a_while(crowd):
    it = crowd(SANDBOX_WS_SIGNED_URLS="true", SANDBOX_WS_SIGNED_URL_TTL_SEC=3 * SLOWER)
    mine = it.start_run("sleep", "1", client=it.people["bob"]).json()
    run = it.start_run("true", client=it.people["ann"]).json()
    assert eventually(lambda: it.status(run["id"], it.people["ann"])["finished_at"])
    url = run["log_stream_url"]
    path, query = url.split("?")
    asked = dict(part.split("=") for part in query.split("&"))

    def changed(**changes):
        parts = {**asked, **changes}
        return path + "?" + "&".join(f"{k}={v}" for k, v in parts.items() if v is not None)
    assert _opens(it, url, key="")
    assert not _opens(it, mine["log_stream_url"].replace("u=bob", "u=ann"), key="")  # it lives
    for attack in (path, changed(token="0" * 64), changed(token=""), changed(token=None),
                   changed(exp=None), changed(exp=int(asked["exp"]) + 60), changed(exp="1"),
                   changed(exp="9999-12-31T00:00:00Z"), changed(u="bob"), changed(u=".."),
                   changed(u="../ann"), changed(u="..%2fann"), changed(u="meta"),
                   changed().replace(run["id"], mine["id"]),
                   changed().replace(run["id"], run["id"].upper())):
        assert not _opens(it, attack, key=""), attack
    other = {"headers": {"X-API-KEY": it.keys["bob"]}, "key": ""}
    assert not _opens(it, path, **other) and not _opens(it, changed(exp=None, token=None), **other)
    assert eventually(lambda: not _opens(it, url, key=""), 10 * SLOWER, pause=0.5)
    assert asked["token"] not in it.log() and not files_with(it.root, asked["token"])


def test_tokens_are_only_those_that_the_issuer_signed_for_us(belljar, make_server):
    issuer = Issuer(belljar.home)
    it = make_server(SANDBOX_JWT_ALG="RS256", SANDBOX_JWT_PUBLIC_KEY_FILE=issuer.public,
                     SANDBOX_JWT_AUDIENCE="box")

    def ask(token):
        return it.client("", headers={"Authorization": f"Bearer {token}"}).get("/runs").status_code
    good, public = issuer.sign(), issuer.public.read_bytes()
    assert ask(good) == 200
    attacks = {
        **{f"algorithm {name}": unsigned({"alg": name}, issuer.claims()) + "."
           for name in ("none", "None", "NONE", "", "RS256")},
        "no algorithm": unsigned({}, issuer.claims()) + ".",
        "the public key as a secret": issuer.by_secret(public),
        "the same without its end": issuer.by_secret(public.strip()),
        "no secret": issuer.by_secret(b""),
        "another digest": issuer.sign({"alg": "RS512"}, digest="-sha512"),
        "expired": issuer.sign(exp=int(time.time()) - 1),
        "without an end": issuer.sign(exp=None),
        "not yet": issuer.sign(nbf=int(time.time()) + 600),
        "for others": issuer.sign(aud="elsewhere"),
        "for nobody": issuer.sign(aud=None),
        "other claims": unsigned({"alg": "RS256"}, issuer.claims(sub="boss", roles=["admin"])) +
                        "." + good.split(".")[2],
        "huge": f"a.{'b' * 12000}.c",
        "no signature": good.rsplit(".", 1)[0] + ".",
        "four parts": good + "." + plain64(b"x"),
        **{f"user {name!r}": issuer.sign(sub=name)
           for name in ("..", "../x", "a/b", ".x", "meta", "tmp", "api_key", "", "x" * 200)},
    }
    for name, token in attacks.items():
        assert ask(token) == 401, name
    assert ask(issuer.sign({"kid": "../../../../dev/null", "jku": "http://127.0.0.1/"})) == 200
    admin = it.client("", headers={"Authorization": f"Bearer {good}"})
    assert admin.get("/admin/runs").status_code == 403
    assert good not in it.log()


def test_web_pages_of_others_can_not_call_us(server):
    run = server.run("true")["id"]

    def ask(host, origin=None):
        fields = [f"Host: {host}", f"X-API-KEY: {server.key}", "Connection: close"]
        fields += [f"Origin: {origin}"] if origin else []
        text = f"GET {BASE}/runs HTTP/1.1\r\n" + "\r\n".join(fields) + "\r\n\r\n"
        return statuses(say(server, text, seconds=5))
    own = f"localhost:{server.port}"
    assert ask(f"127.0.0.1:{server.port}") == ask(own, f"http://{own}") == [200]
    assert ask(own, "http://localhost:1") == ask(own, "http://localhost") == [403]
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "0.0.0.0",
                 "2130706433", "[::ffff:127.0.0.1]", "\xff\xfe", ""):
        assert ask(host) == [403], host
    for origin in ("http://evil.example", "null", "http://localhost.evil.example", "file://",
                   "http://localhost/x", "http://localhost@evil.example", "\xff\xfe"):
        assert ask("localhost", origin) == [403], origin
    two = ["Origin: http://localhost", "Origin: http://evil.example"]
    assert statuses(say(server, head(server, f"GET {BASE}/runs", *two))) == [400]
    assert _opens(server, run, headers={"Origin": f"http://127.0.0.1:{server.port}"})
    assert not _opens(server, run, headers={"Origin": "http://127.0.0.1:1"})
    assert not _opens(server, run, headers={"Origin": "http://evil.example"})
    assert not _opens(server, run, headers={"Origin": "null"})


# --- bodies -------------------------------------------------------------------------

PLAIN = '{"base_image": "host", "command": ["true"], %s}'
BODIES = {
    "deep_list": "[" * 100000,
    "deep_object": '{"a":' * 5000 + "1" + "}" * 5000,
    "key_twice": PLAIN % '"command": ["false"]',
    "2^63": PLAIN % '"timeout_sec": 9223372036854775808',
    "2^63-1": PLAIN % '"timeout_sec": 9223372036854775807',
    "negative": PLAIN % '"stdin_bps": -1',
    "infinite": PLAIN % '"resources": {"cpu": 1e999}',
    "many_digits": PLAIN % ('"resources": {"cpu": 1' + "0" * 500000 + "}"),
    "not_a_number": PLAIN % '"resources": {"cpu": NaN}',
    "less_than_nothing": PLAIN % '"resources": {"cpu": -5e-324}',
    "bad_utf8": b'{"base_image": "host", "command": ["\xff\xfe"]}',
    "half_a_character": PLAIN % '"labels": {"a": "\\ud800"}',
    "nul": PLAIN % '"labels": {"a": "x\\u0000y"}',
    "long_list": '{"base_image": "host", "command": [' + ",".join(['"x"'] * 200000) + "]}",
    "many_keys": "{" + ",".join(f'"k{n}": 1' for n in range(200000)) + "}",
    "many_variables": PLAIN % ('"env": {' + ",".join(f'"A{n}": "1"' for n in range(5000)) + "}"),
    "odd_variable": PLAIN % '"env": {"A=B": "1"}',
    "climbing_file": PLAIN % '"files": [{"path": "../x", "content_b64": ""}]',
    "absolute_file": PLAIN % '"files": [{"path": "/x", "content_b64": ""}]',
    "backslash_file": PLAIN % '"files": [{"path": "..\\\\x", "content_b64": ""}]',
    "climbing_session": '{"session_id": "../../x", "command": ["true"]}',
    "too_large": '{"a": "' + "x" * (5 * MB) + '"}',
}


@pytest.mark.once
def test_bodies_that_are_meant_to_break_something_are_refused(lean_server):
    server = lean_server
    before = memory_of(server.process.pid)
    for name, body in BODIES.items():
        answer = server.http.post("/runs", content=body, params={"wait": 20},
                                  headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 404, 413, 422), (name, answer.text)
        assert len(answer.content) < 2000, name
    assert growth_of(server, before) < 128 * MB
    control = server.http.post("/runs", content=PLAIN % '"labels": {}', params={"wait": 20},
                               headers={"Content-Type": "application/json"})
    assert control.json()["phase"] == "completed"
    smallest = server.post("/runs?wait=10", content=PLAIN % '"resources": {"cpu": 5e-324}',
                           headers={"Content-Type": "application/json"}).json()
    assert (smallest["phase"], smallest["limits"]["cpu"]) == ("completed", 0.01)
    for image in ("../../../etc", "/etc", "host/../..", "a\nb"):
        run = server.run("true", base_image=image)
        assert (run["phase"], run["reason_code"]) == ("failed", "image_pull_failed")


# --- sockets ------------------------------------------------------------------------


@pytest.mark.once
def test_sockets_that_break_the_rules_are_closed_and_cost_nothing(lean_server):
    server = lean_server
    run = server.start_run("sh", "-c", "sleep 3; echo done", interactive=True,
                           spec_version="1.1").json()["id"]
    server.wait_for(run, "running")
    before = memory_of(server.process.pid)
    breaks = {
        "not masked": (1002, lambda ws: ws.send(1, b"{}", masked=False)),
        "unknown kind": (1002, lambda ws: ws.send(3, b"x")),
        "long ping": (1002, lambda ws: ws.send(9, b"x" * 200)),
        "ping in pieces": (1002, lambda ws: ws.send(9, b"x", final=False)),
        "more of nothing": (1002, lambda ws: ws.send(0, b"x")),
        "larger than allowed": (1009, lambda ws: ws.send(1, b"x", size=1 << 40)),
        "2^63": (1002, lambda ws: ws.send(1, b"x", size=1 << 63)),
        "no UTF-8": (1007, lambda ws: ws.send(1, b"\xff\xfe")),
        "endless pieces": (1009, lambda ws: [ws.send(1, b"x" * 1000, final=False)] +
                           [ws.send(0, b"x" * 1000, final=False) for _ in range(500)]),
    }
    for name, (code, attack) in breaks.items():
        with BareSocket(server, run) as ws:
            with contextlib.suppress(OSError):
                attack(ws)
            assert ws.close_code() == code, name
    with BareSocket(server, run) as flood:
        flood.connection.settimeout(0.5)
        with contextlib.suppress(OSError):
            for _ in range(100000):
                flood.send(9, b"x" * 100)
        with contextlib.suppress(OSError):
            for _ in range(1000):
                flood.send(1, json.dumps({"type": "stdin", "data": "y" * 60000}).encode())
        assert answers(server) < 3 * SLOWER
    assert growth_of(server, before) < 32 * MB
    assert server.wait_for(run)["phase"] == "completed"


# --- one user against others --------------------------------------------------------


def test_a_burst_of_one_user_starves_nobody(crowd):
    it = crowd(SANDBOX_MAX_CONCURRENT_RUNS=2, SANDBOX_QUEUE_MAX_LENGTH=6)
    ann = [it.start_run("sleep", "60", client=it.people["ann"]) for _ in range(12)]
    assert [a.status_code for a in ann] == [200] * 7 + [429] * 5
    began = time.monotonic()
    for _ in range(3):
        answer = it.start_run("echo", "hi", client=it.people["bob"], params={"wait": 20})
        assert answer.status_code == 200 and answer.json()["stdout"] == "hi\n", answer.text
    assert time.monotonic() - began < 10 * SLOWER
    for answer in ann[:7]:
        it.people["ann"].post(f"/runs/{answer.json()['id']}/cancel")
