"""WS /ws: the Fathom protocol. Every sequence of its diagrams, every error code, and what a
client may do wrong or to us. The client is Debian's python3-websockets."""
import asyncio
import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import time

import pytest
import websockets

from jar import SLOWER, eventually
from server import WsRefused, make_server, server, server_of_users, users, ws_status  # noqa: F401 (fixtures)

PATIENCE = 30 * SLOWER
STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
TERMINAL = ("completed", "failed", "cancelled", "timeout", "oom")
RETRYABLE = {"SANDBOX_OVERLOADED", "INTERNAL_ERROR", "NETWORK_ERROR"}
SPIN = "import time\nprint('on', flush=True)\ntime.sleep(60)\n"


def now():
    return datetime.datetime.utcnow().isoformat(timespec="milliseconds") + "Z"


def execute(id, code, language="python", limits=None, **fields):
    return {"v": 1, "type": "execute", "id": id, "ts": now(), "language": language, "code": code,
            "limits": {"timeout_ms": 20000, "memory_mb": 256, **(limits or {})}, **fields}


def cancel(id):
    return {"v": 1, "type": "cancel", "id": id, "ts": now()}


def ping():
    return {"v": 1, "type": "ping", "ts": now()}


class Client:
    """A socket whose every message is looked at."""

    def __init__(self, ws):
        self.ws = ws

    async def send(self, message):
        await self.ws.send(message if isinstance(message, (str, bytes)) else json.dumps(message))

    async def recv(self, seconds=PATIENCE):
        m = json.loads(await asyncio.wait_for(self.ws.recv(), seconds))
        assert m["v"] == 1 and STAMP.match(m["ts"]), m
        if m["type"] == "error":
            assert m["retryable"] == (m["code"] in RETRYABLE) and m["message"], m
        return m

    async def until(self, test):
        got = []
        while not got or not test(got[-1]):
            got.append(await self.recv())
        return got

    async def run(self, message):
        """All messages of one execution."""
        await self.send(message)
        return await self.until(is_last)


def is_last(m):
    return m["type"] == "result" or (m["type"] == "error" and m["code"] != "OUTPUT_LIMIT")


@contextlib.asynccontextmanager
async def client_of(server, **options):
    async with server.connect("/ws", **options) as ws:
        yield Client(ws)


def talk(server, what, **options):
    """The result of the coroutine `what(client)`, with a new connection."""
    async def go():
        async with client_of(server, **options) as c:
            return await what(c)
    return asyncio.run(go())


def run(server, *args, **fields):
    return talk(server, lambda c: c.run(execute("e", *args, **fields)))


def words(messages):
    """The sequence, as the diagrams have it; neighbours of output are one."""
    said = []
    for m in messages:
        word = m["type"] + (f":{m['status']}" if "status" in m else "")
        if not (said and said[-1] == word and word.startswith("std")):
            said.append(word)
    return said


def text_of(messages, kind="stdout"):
    return "".join(m["data"] for m in messages if m["type"] == kind)


def refusal(server, **options):
    async def go():
        with pytest.raises(WsRefused) as caught:
            async with server.connect("/ws", **options):
                pass
        return caught.value
    return asyncio.run(go())


def row_of(server, execution, **options):
    """The run of an execution, as REST shows it."""
    items = server.get("/runs", **options).json()["items"]
    return next((r for r in items if r["labels"].get("execution_id") == execution), None)


# --- the diagrams ---

def test_successful_execution(server):
    got = run(server, "import sys\nprint('one', flush=True)\nprint('two')\n"
                      "sys.stdout.flush()\nprint('oops', file=sys.stderr)")
    said = words(got)
    assert said[:2] == ["ack", "status:running"]
    assert said[-2:] == ["status:completed", "result"]
    assert set(said[2:-2]) == {"stdout", "stderr"}
    assert text_of(got) == "one\ntwo\n" and text_of(got, "stderr") == "oops\n"
    assert {m["id"] for m in got} == {"e"}
    result = got[-1]
    assert result["exit_code"] == 0 and result["duration_ms"] >= 0
    assert result["resource_usage"]["cpu_time_ms"] >= 0
    assert "error" not in result
    assert [m["ts"] for m in got] == sorted(m["ts"] for m in got)


def test_execution_timeout(server):
    began = time.monotonic()
    got = run(server, SPIN, limits={"timeout_ms": 700})
    assert words(got) == ["ack", "status:running", "stdout", "status:timeout", "result"]
    assert got[-1]["exit_code"] is None
    assert 700 <= got[-1]["duration_ms"] < 5000 * SLOWER
    assert got[-1]["error"] == {"code": "TIMEOUT", "retryable": False}
    assert time.monotonic() - began < 10 * SLOWER


def test_client_initiated_cancel(server):
    async def go(c):
        await c.send(execute("e", SPIN))
        got = await c.until(lambda m: m["type"] == "stdout")
        await c.send(cancel("e"))
        await c.send(cancel("e"))  # twice is as good as once
        return got + await c.until(is_last)
    got = talk(server, go)
    assert words(got) == ["ack", "status:running", "stdout", "status:cancelled", "result"]
    assert got[-1]["exit_code"] is None and "error" not in got[-1]
    assert server.wait_for(got[0]["run_id"])["reason_code"] == "canceled_by_user"


def keeper_of(server):
    """The pid of the keeper itself: the only child of the process that watches over it."""
    for pid, line in server.processes().items():
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if " keeper " in line and len(children) == 1 and int(children[0]) in server.processes():
            return int(children[0])
    return None


def test_infrastructure_error(server):
    async def go(c):
        await c.send(execute("e", SPIN))
        got = await c.until(lambda m: m["type"] == "stdout")
        os.kill(keeper_of(server), signal.SIGKILL)
        return got + await c.until(is_last)
    got = talk(server, go)
    assert words(got) == ["ack", "status:running", "stdout", "error"]
    assert got[-1]["code"] == "INTERNAL_ERROR" and got[-1]["retryable"] is True


def test_request_rejected(server):
    got = run(server, "fn main() {}", "rust")
    assert words(got) == ["error"]
    assert got[0]["code"] == "LANGUAGE_NOT_SUPPORTED" and got[0]["id"] == "e"
    assert "'rust'" in got[0]["message"] and "python" in got[0]["message"]


# --- statuses and results ---

@pytest.mark.parametrize("code, status, exit_code", [
    ("pass", "completed", 0),
    ("raise SystemExit(3)", "failed", 3),
    ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "failed", None),
    ("1/0", "failed", 1),
])
@pytest.mark.once
def test_how_a_program_ends(server, code, status, exit_code):
    got = run(server, code)
    assert words(got)[-2:] == [f"status:{status}", "result"]
    assert got[-1]["exit_code"] == exit_code
    assert ("Traceback" in text_of(got, "stderr")) == (exit_code == 1)


@pytest.mark.root_only("memory is only enforced with a cgroup")
def test_out_of_memory(server):
    got = run(server, "x = bytearray(1 << 30)\nprint(len(x))", limits={"memory_mb": 64})
    assert words(got) == ["ack", "status:running", "status:oom", "result"]
    assert got[-1]["exit_code"] is None
    assert got[-1]["error"] == {"code": "OOM", "retryable": False}


@pytest.mark.parametrize("language, code", [
    ("python", "print('hi')"), ("javascript", "console.log('hi')"), ("shell", "echo hi"),
    ("elixir", "IO.puts(\"hi\")"),
])
@pytest.mark.once
def test_languages(server, language, code):
    program = {"python": "python3", "javascript": "node", "shell": "sh", "elixir": "elixir"}[language]
    got = run(server, code, language)
    if not shutil.which(program):
        assert got[0]["code"] == "LANGUAGE_NOT_SUPPORTED"
        return
    assert text_of(got) == "hi\n", got


@pytest.mark.once
def test_stdin_and_env(server):
    got = run(server, "import os, sys\nprint(sys.stdin.read() + os.environ['A'])",
              stdin="zwölf\n", env={"A": "ä"})
    assert text_of(got) == "zwölf\nä\n"
    got = run(server, "import sys\nprint(repr(sys.stdin.read()))", stdin=None, env=None)
    assert text_of(got) == "''\n"
    big = "x" * 500_000
    got = run(server, "import sys\nprint(len(sys.stdin.read()))", stdin=big)
    assert text_of(got) == "500000\n"


@pytest.mark.once
def test_the_same_run_in_rest_and_limits_as_they_were_granted(make_server):
    server = make_server(SANDBOX_MAX_MEM_MB=512, SANDBOX_MAX_CPU=0.5, SANDBOX_MAX_LOG_BYTES=1000)
    got = run(server, "print(1)", limits={"memory_mb": 4096, "cpu_shares": 4096,
                                          "timeout_ms": 3600000})
    assert got[0]["limits"] == {"timeout_ms": 300000, "memory_mb": 512, "cpu_shares": 512,
                                "max_output_bytes": 1000}
    rest = server.wait_for(got[0]["run_id"])
    assert rest["labels"] == {"door": "fathom", "execution_id": "e"}
    assert rest["phase"] == "completed"
    assert rest["resource_usage"]["limits"]["memory_mb"] == 512
    granted = run(server, "print(1)", limits={"timeout_ms": 1500, "memory_mb": 64})[0]["limits"]
    assert granted == {"timeout_ms": 1500, "memory_mb": 64, "cpu_shares": 512,
                       "max_output_bytes": 1000}


# --- text ---

@pytest.mark.once
def test_characters_are_never_split(server):
    code = ("import os, time\n"
            "for part in (b'a\\xe2', b'\\x82', b'\\xacb\\xf0\\x9f', b'\\x98\\x80'):\n"
            "    os.write(1, part)\n    time.sleep(0.1)\n")
    got = run(server, code)
    assert text_of(got) == "a€b😀"
    assert "\ufffd" not in text_of(got)
    text = "".join("€😀ä" for _ in range(60000))
    got = run(server, f"import sys\nsys.stdout.write('€😀ä' * {len(text) // 3})")
    assert text_of(got) == text
    assert len([m for m in got if m["type"] == "stdout"]) > 10


@pytest.mark.once
def test_bytes_that_are_no_text_are_replaced(server):
    raw = b"ok \xff\xfe \xe2\x82 \x00\x1b end\n\xc3"
    got = run(server, f"import os\nos.write(1, {raw!r})")
    assert text_of(got) == raw.decode("utf-8", "replace")


# --- errors ---

def test_output_limit(server):
    got = run(server, "while True: print('x' * 99)", limits={"max_output_bytes": 1000})
    assert words(got) == ["ack", "status:running", "stdout", "error", "status:failed", "result"]
    assert len(text_of(got)) == 1000
    error = got[-3]
    assert (error["code"], error["retryable"]) == ("OUTPUT_LIMIT", False)
    assert "1000" in error["message"]
    assert got[-1]["exit_code"] is None
    assert got[-1]["error"]["code"] == "OUTPUT_LIMIT"
    assert server.wait_for(got[0]["run_id"])["reason_code"] == "output_limit_exceeded"
    got = run(server, "import sys\nsys.stdout.write('x' * 600)\nsys.stderr.write('y' * 600)",
              limits={"max_output_bytes": 1200})
    assert words(got)[-2:] == ["status:completed", "result"]


@pytest.mark.once
def test_output_limit_of_one_that_ends_by_itself(server):
    got = run(server, "print('x' * 99)", limits={"max_output_bytes": 10})
    assert words(got) == ["ack", "status:running", "stdout", "error", "status:failed", "result"]
    assert text_of(got) == "x" * 10


INVALID = [
    ({"v": 2}, "version 2"), ({"v": None}, "v is required"), ({"v": "1"}, "v must"),
    ({"type": "exec"}, "type must"), ({"id": 7}, "id must"), ({"id": ""}, "id must"),
    ({"ts": "yesterday"}, "ts must"), ({"ts": None}, "ts is required"),
    ({"language": None}, "language is required"), ({"code": 1}, "code must"),
    ({"stdin": 1}, "stdin must"), ({"env": {"A": 1}}, "env"), ({"env": {"A=B": "1"}}, "env"),
    ({"env": {"A": "x" * 70000}}, "env"), ({"limits": None}, "limits is required"),
    ({"limits": {"timeout_ms": 1}}, "limits.memory_mb is required"),
    ({"limits": {"timeout_ms": 0, "memory_mb": 64}}, "limits.timeout_ms must"),
    ({"limits": {"timeout_ms": 1, "memory_mb": 1}}, "limits.memory_mb must"),
    ({"limits": {"timeout_ms": 1, "memory_mb": 64, "cpu_shares": 1}}, "limits.cpu_shares must"),
    ({"code": "print(1)\0"}, "NUL"), ({"env": {"A": "\0"}}, "NUL"), ({"more": ["\0"]}, "NUL"),
    ({"id": "e\0"}, "NUL"),
]


@pytest.mark.once
def test_a_denial_says_why(make_server):
    server = make_server(SANDBOX_APPROVAL_REQUIRED="timeout_sec>100")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        told = pool.submit(run, server, "print(1)", limits={"timeout_ms": 200000})
        (held,) = eventually(lambda: server.get("/admin/approvals").json()["items"], 20 * SLOWER)
        server.post(f"/admin/runs/{held['id']}/deny", json={"reason": "not on a Friday"})
        last = told.result()[-1]
    assert (last["type"], last["code"]) == ("error", "INVALID_REQUEST")
    assert last["message"].endswith("not on a Friday")


@pytest.mark.once
def test_invalid_requests(server):
    async def go(c):
        for change, word in INVALID:
            got = await c.run({**execute("e", "print(1)"), **change})
            assert words(got) == ["error"]  # and no ack
            assert got[0]["code"] == "INVALID_REQUEST"
            assert word in got[0]["message"]
            assert got[0].get("id") == (None if "id" in change else "e")
    talk(server, go)


def test_code_that_is_too_large_is_called_that(make_server):
    server = make_server(SANDBOX_MAX_INLINE_BYTES=1000)
    got = run(server, "#" * 2000)
    assert words(got) == ["error"] and got[0]["message"].startswith("code: "), got


@pytest.mark.once
def test_a_key_that_comes_twice_is_refused_with_the_id(server):
    async def go(c):
        await c.send('{"v":1,"type":"ping","id":"e","ts":"x","ts":"y"}')
        return await c.recv()
    assert talk(server, go)["id"] == "e"


@pytest.mark.once
@pytest.mark.parametrize("language, code", [
    ("python", "import os; print(os.environ['PATH'])"), ("shell", "echo $PATH"),
    ("perl", "print $ENV{PATH}, \"\\n\"")])
def test_an_interpreter_is_found_whatever_path_a_program_has(server, language, code):
    got = run(server, code, language, env={"PATH": "/x"})
    assert text_of(got) == "/x\n"
    assert got[-1]["exit_code"] == 0


@pytest.mark.once
def test_limits_above_all_policies_are_lowered(server):
    got = run(server, "print(1)", limits={
        "timeout_ms": 5000, "memory_mb": 1 << 40, "cpu_shares": 10_000_000,
        "max_output_bytes": 1 << 62})
    assert text_of(got) == "1\n"
    granted = got[0]["limits"]
    assert granted["cpu_shares"] <= 1 << 20
    assert granted["memory_mb"] < 1 << 30


@pytest.mark.once
def test_what_is_no_message_is_refused_and_the_socket_stays(server):
    async def go(c):
        for bad in ("", "{", "[]", "null", b"\x00\x01", '{"v":1,"v":1}', "[" * 1000):
            await c.send(bad)
            m = await c.recv()
            assert (m["type"], m["code"]) == ("error", "INVALID_REQUEST")
            assert "id" not in m
        return await c.run(execute("e", "print('still here')"))
    assert text_of(talk(server, go)) == "still here\n"


@pytest.mark.once
def test_an_id_is_one_execution_at_a_time(server):
    async def go(c):
        await c.send(execute("e", SPIN))
        await c.until(lambda m: m["type"] == "stdout")
        await c.send(execute("e", "print('second')"))
        m = (await c.until(lambda m: m["type"] == "error"))[-1]
        assert (m["code"], m["id"]) == ("INVALID_REQUEST", "e")
        await c.send(cancel("e"))
        assert (await c.until(is_last))[-2]["status"] == "cancelled"
        return await c.run(execute("e", "print('third')"))
    assert text_of(talk(server, go)) == "third\n"


@pytest.mark.once
def test_unknown_execution(server):
    async def go(c):
        await c.send(cancel("nobody"))
        first = await c.recv()
        await c.run(execute("e", "pass"))
        await c.send(cancel("e"))  # it is over
        return first, await c.recv()
    for m in talk(server, go):
        assert (m["type"], m["code"], m["retryable"]) == ("error", "UNKNOWN_EXECUTION", False)


@pytest.mark.once
def test_overloaded_by_the_queue(make_server):
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=1, SANDBOX_QUEUE_MAX_LENGTH=1)

    async def go(c):
        await c.send(execute("a", SPIN))
        await c.until(lambda m: m["type"] == "stdout")
        await c.send(execute("b", "print('b')"))
        got = await c.until(lambda m: m["id"] == "b")
        assert words(got)[-1] == "ack"  # it waits, and nothing more is told
        await c.send(ping())
        pong = (await c.until(lambda m: m["type"] == "pong"))[-1]
        assert pong["load"] == {"active_executions": 1, "queue_depth": 1}
        await c.send(execute("c", "print('c')"))
        full = (await c.until(lambda m: m["id"] == "c"))[-1]
        assert (full["id"], full["code"], full["retryable"]) == ("c", "SANDBOX_OVERLOADED", True)
        await c.send(cancel("a"))
        got = await c.until(lambda m: m["type"] == "result" and m["id"] == "b")
        assert text_of(m for m in got if m["id"] == "b") == "b\n"
    talk(server, go)


@pytest.mark.once
def test_overloaded_by_one_connection(make_server):
    server = make_server(SANDBOX_FATHOM_MAX_ACTIVE=3)

    async def go(c):
        for name in "xyz":
            await c.send(execute(name, SPIN, limits={"timeout_ms": 5000}))
        await c.send(execute("one too many", "pass"))
        got = await c.until(lambda m: m["type"] == "error")
        assert (got[-1]["id"], got[-1]["code"]) == ("one too many", "SANDBOX_OVERLOADED")
    talk(server, go)


@pytest.mark.once
def test_overloaded_by_the_rate(make_server):
    server = make_server(SANDBOX_RATE_LIMIT_PER_USER=3)

    async def go(c):
        for _ in range(2):
            await c.send(ping())
            assert (await c.recv())["type"] == "pong"
        await c.send(execute("e", "pass"))
        m = await c.recv()
        assert (m["id"], m["code"], m["retryable"]) == ("e", "SANDBOX_OVERLOADED", True)
        await c.send(cancel("nobody"))  # is heard all the same
        assert (await c.recv())["code"] == "UNKNOWN_EXECUTION"
    talk(server, go)


@pytest.mark.once
def test_network_error_while_the_server_ends(server):
    async def go(c):
        await c.send(execute("a", "import time\ntime.sleep(2)\nprint('done')"))
        await c.until(lambda m: m["type"] == "status")
        server.process.send_signal(signal.SIGTERM)
        m = None
        for n in range(50):
            m = (await c.run(execute(f"late-{n}", "pass", limits={"timeout_ms": 1000})))[-1]
            if m["type"] == "error":
                break
            await asyncio.sleep(0.05)
        assert (m["code"], m["retryable"]) == ("NETWORK_ERROR", True)
        got = await c.until(lambda m: m["type"] == "result" and m["id"] == "a")
        assert text_of(m for m in got if m["id"] == "a") == "done\n"
    talk(server, go)


# --- ping ---

@pytest.mark.once
def test_ping(server):
    async def go(c):
        await c.send(ping())
        return await c.recv()
    pong = talk(server, go)
    assert pong["type"] == "pong" and "id" not in pong
    assert pong["load"] == {"active_executions": 0, "queue_depth": 0}


# --- coming in ---

@pytest.mark.once
def test_version_is_negotiated(server):
    async def go(headers):
        async with server.connect("/ws", headers=headers) as ws:
            heads = getattr(ws, "response_headers", None) or ws.response.headers
            return heads["X-Protocol-Version"]
    for said in ({}, {"X-Protocol-Version": "1"}, {"X-Protocol-Version": "1.0"},
                 {"X-Protocol-Version": "2, 1"}):
        assert asyncio.run(go(said)) == "1"
    for said in ("2", "", "11", "one"):
        if said:
            assert ws_status(refusal(server, headers={"X-Protocol-Version": said})) == 426
    answer = server.client().get(server.url + "/ws", headers={
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "X-Protocol-Version": "2"})
    assert answer.status_code == 426
    assert answer.headers["X-Protocol-Version"] == "1"
    assert answer.json()["error"]["code"] == "protocol_version_unsupported"
    assert server.get(server.url + "/ws").status_code == 426  # no upgrade at all


@pytest.mark.once
def test_who_is_let_in(server_of_users):
    server, keys = server_of_users
    assert ws_status(refusal(server, key="")) == 401
    assert ws_status(refusal(server, key="wrong")) == 401
    assert ws_status(refusal(server, key="", headers={"Authorization": "Bearer wrong"})) == 401
    bearer = {"Authorization": f"Bearer {keys['ann']}"}
    got = talk(server, lambda c: c.run(execute("e", "print('ann')")), key="", headers=bearer)
    assert text_of(got) == "ann\n"
    ann, bob = server.client(keys["ann"]), server.client(keys["bob"])
    assert ann.get(f"/runs/{got[0]['run_id']}").status_code == 200
    assert bob.get(f"/runs/{got[0]['run_id']}").status_code == 404

    async def go(c):  # an execution of one connection is none of another's, or of another user's
        await c.send(execute("mine", SPIN))
        await c.until(lambda m: m["type"] == "stdout")
        async with client_of(server, key=keys["bob"]) as other:
            await other.send(cancel("mine"))
            assert (await other.recv())["code"] == "UNKNOWN_EXECUTION"
        await c.send(cancel("mine"))
        await c.until(is_last)
    talk(server, go, key=keys["ann"])


@pytest.mark.once
def test_connections_are_counted_with_all_other_sockets(make_server):
    server = make_server(SANDBOX_WS_MAX_PER_USER=1)

    async def go(c):
        await c.send(ping())
        await c.recv()
        with pytest.raises(WsRefused) as caught:
            async with server.connect("/ws"):
                pass
        assert ws_status(caught.value) == 429
    talk(server, go)
    assert eventually(lambda: talk(server, lambda c: asyncio.sleep(0, True)))


# --- many, and hostile ones ---

def test_a_hundred_executions_on_one_socket(server):
    """All are asked for at once; each gets its own words, in its own order."""
    async def go(c):
        for n in range(100):
            await c.send(execute(f"e{n}", f"echo {n}; sleep 0.0{n % 10}; echo {n} >&2; exit {n}",
                                 "shell", limits={"memory_mb": 64}))
        got = {f"e{n}": [] for n in range(100)}
        left = 100
        while left:
            m = await c.recv()
            got[m["id"]].append(m)
            left -= is_last(m)
        return got
    got = talk(server, go)
    for n in range(100):
        messages = got[f"e{n}"]
        said = words(messages)
        assert said[:2] == ["ack", "status:running"], said
        assert said[-2:] == [f"status:{'failed' if n else 'completed'}", "result"], said
        assert text_of(messages) == text_of(messages, "stderr") == f"{n}\n"
        assert messages[-1]["exit_code"] == n


@pytest.mark.once
def test_a_flood_of_one_does_not_silence_another(server):
    async def go(c):
        await c.send(execute("flood", "while True: print('x' * 9999)",
                             limits={"max_output_bytes": 8 << 20, "timeout_ms": 20000}))
        await c.until(lambda m: m["type"] == "stdout")
        await c.send(execute("calm", "print('calm')"))
        got = await c.until(lambda m: m["type"] == "result" and m["id"] == "calm")
        assert text_of(m for m in got if m["id"] == "calm") == "calm\n"
    talk(server, go)


def test_a_socket_that_is_cut(make_server):
    """What it left is ended after the grace, and what is quick may end by itself."""
    server = make_server(SANDBOX_FATHOM_GRACE_SEC=1)

    async def go():
        ws = await server.connect("/ws")
        c = Client(ws)
        await c.send(execute("long", SPIN))
        got = await c.until(lambda m: m["type"] == "stdout")
        await c.send(execute("short", "import time\ntime.sleep(0.2)"))
        got += await c.until(lambda m: m["type"] == "status" and m["id"] == "short")
        ws.transport.abort()
        return {m["id"]: m["run_id"] for m in got if m["type"] == "ack"}
    ids = asyncio.run(go())
    cut = time.monotonic()
    assert server.wait_for(ids["short"])["phase"] == "completed"
    long = server.wait_for(ids["long"])
    assert (long["phase"], long["reason_code"]) == ("killed", "canceled_by_user")
    assert 0.5 < time.monotonic() - cut < 15 * SLOWER


@pytest.mark.once
def test_what_is_cut_while_it_waits_is_never_executed(make_server):
    server = make_server(SANDBOX_FATHOM_GRACE_SEC=0, SANDBOX_MAX_CONCURRENT_RUNS=1)

    async def go():
        ws = await server.connect("/ws")
        c = Client(ws)
        await c.send(execute("first", SPIN))
        await c.until(lambda m: m["type"] == "stdout")
        await c.send(execute("waits", "print('never')"))
        got = await c.until(lambda m: m["type"] == "ack")
        await c.send(execute("asked", "print('never')"))
        ws.transport.abort()
        return got[-1]["run_id"]
    run_id = asyncio.run(go())
    rest = server.wait_for(run_id)
    assert (rest["phase"], rest["reason_code"]) == ("killed", "canceled_by_user")
    assert rest["started_at"] is None
    assert eventually(lambda: server.run("echo", "free")["stdout"] == "free\n")


def test_what_a_dead_server_left_is_ended_by_the_next(make_server):
    server = make_server(SANDBOX_FATHOM_GRACE_SEC=1)

    async def go():
        ws = await server.connect("/ws")
        c = Client(ws)
        await c.send(execute("e", SPIN))
        got = await c.until(lambda m: m["type"] == "stdout")
        server.kill()
        with contextlib.suppress(websockets.ConnectionClosed, OSError):
            await ws.close()
        return got[0]["run_id"]
    run_id = asyncio.run(go())
    server.start()
    rest = server.wait_for(run_id)
    assert (rest["phase"], rest["reason_code"]) == ("killed", "canceled_by_user")


def memory_of(server):
    """Bytes of memory that the server itself holds."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


@pytest.mark.root_only("looks at the memory of a process of another user")
def test_a_stuck_reader_costs_nothing_and_is_dropped(make_server):
    server = make_server(SANDBOX_WS_POLL_TIMEOUT_SEC=3, SANDBOX_MAX_LOG_BYTES=128 << 20)

    async def go():
        # One that reads no further once its buffers are full.
        ws = await server.connect("/ws", max_queue=1, ping_interval=None)
        c = Client(ws)
        await c.run(execute("warm", "pass"))
        before = memory_of(server)
        await c.send(execute("e", "while True: print('x' * 9999)", limits={
            "max_output_bytes": 100 << 20, "timeout_ms": 30000}))
        await c.until(lambda m: m["type"] == "stdout")
        ws.transport.pause_reading()
        grown = []
        for _ in range(40):
            await asyncio.sleep(0.1)
            grown.append(memory_of(server) - before)
        ws.transport.abort()
        return max(grown)
    assert asyncio.run(go()) < 24 << 20
    assert "fathom" in server.client().get(server.url + "/metrics").text


@pytest.mark.once
def test_who_asks_and_does_not_read_is_dropped(server):
    async def go():
        ws = await server.connect("/ws", max_queue=1, ping_interval=None)
        ws.transport.pause_reading()
        with pytest.raises((websockets.ConnectionClosed, asyncio.TimeoutError)):
            for _ in range(300):
                await asyncio.wait_for(ws.send("x" * 60000), 5)
                for _ in range(50):
                    await asyncio.wait_for(ws.send("{}"), 5)
            ws.transport.resume_reading()
            while True:
                await asyncio.wait_for(ws.recv(), 5)
        ws.transport.abort()
    asyncio.run(go())
    assert talk(server, lambda c: c.run(execute("e", "pass")))[-1]["exit_code"] == 0


@pytest.mark.once
def test_a_message_has_a_size(server):
    async def go(c):
        got = await c.run(execute("e", "#" * 900_000 + "\nprint('large')"))
        assert text_of(got) == "large\n"
        for code, stdin in (("#" * ((1 << 20) + 1), None), ("", "\1" * 300_000 + "x" * 800_000)):
            got = await c.run(execute("e", code, stdin=stdin))
            assert words(got) == ["error"]
            assert (got[0]["code"], got[0]["id"]) == ("INVALID_REQUEST", "e")
            assert "must have 0 to 1048576 bytes" in got[0]["message"]
        got = await c.run(execute("e", "print('most')" + "#" * ((1 << 20) - 13)))
        assert text_of(got) == "most\n"
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await c.send(execute("e", "#" * (4 << 20)))
            await c.recv()
        return closed.value.code
    assert talk(server, go) == 1009


@pytest.mark.once
def test_nothing_of_code_or_env_is_logged(make_server):
    server = make_server(SANDBOX_LOG_LEVEL="debug")
    secret = "s3cr3t-that-nobody-may-see"
    run(server, f"print('{secret}'[:3])", env={"API_KEY": secret}, stdin=secret)
    run(server, f"print('{secret}'[:3])", env={"1": secret})
    talk(server, lambda c: c.run('{"v":1,"id":"e","code":"' + secret))
    assert secret not in server.log()
    # The store has what a run asked for while it is not over, so that another server could go on.
    for path in server.root.rglob("*"):
        if path.is_file() and "meta" not in path.parts:
            assert secret.encode() not in path.read_bytes(), path
    assert secret not in json.dumps(server.get("/runs").json())
