"""The MCP door, spoken to by hand: JSON-RPC over POST, GET and DELETE /mcp."""
import base64
import contextlib
import hashlib
import json
import re
import socket
import subprocess
import sys
import threading
import time

import httpx
import jsonschema
import pytest

from jar import SLOWER, eventually
from server import make_server, server, server_of_users, users  # noqa: F401 (fixtures)

NEWEST = "2025-11-25"
# An image may be in what they answer, or a text, which would have to be structuredContent then.
WITHOUT_SCHEMA = {"run_python", "read_artifact"}
BOTH = "application/json, text/event-stream"
once = pytest.mark.once


def events(text):
    """What a stream of events said: (id, message) each; a message that is empty is None."""
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in fields or "id" in fields:
            data = fields.get("data", "").strip()
            yield fields.get("id"), json.loads(data) if data else None


class Client:
    """A client of MCP, with a session of its own."""

    def __init__(self, server, key=None, version=NEWEST, accept=BOTH, **capabilities):
        self.server = server
        self.http = server.client(key, headers={"Accept": accept})
        self.url = server.url + "/mcp"
        self.next_id = 0
        self.headers = {}
        self._tools = None
        answer = self.post("initialize", {
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}})
        assert answer.status_code == 200, answer.text
        self.hello = answer.json()["result"]
        self.headers = {"Mcp-Session-Id": answer.headers["mcp-session-id"],
                        "MCP-Protocol-Version": self.hello["protocolVersion"]}
        assert self.post("notifications/initialized", notify=True).status_code == 202

    def message(self, method, params=None, notify=False):
        it = {"jsonrpc": "2.0", "method": method}
        if not notify:
            self.next_id += 1
            it["id"] = self.next_id
        return it if params is None else {**it, "params": params}

    def send(self, body, **headers):
        return self.http.post(self.url, json=body, headers={**self.headers, **headers})

    def post(self, method, params=None, notify=False):
        return self.send(self.message(method, params, notify))

    def ask(self, method, params=None):
        """The whole answer, however it comes."""
        answer = self.post(method, params)
        assert answer.status_code == 200, answer.text
        if answer.headers["content-type"] == "application/json":
            return answer.json()
        return list(events(answer.text))[-1][1]

    def call(self, name, **arguments):
        """The result of a tool; what is structured fits what it promises, also of an error, or
        clients would refuse it."""
        answer = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert "result" in answer, answer
        result, schema = answer["result"], self.tools[name].get("outputSchema")
        if schema and ("structuredContent" in result or not result["isError"]):
            jsonschema.validate(result["structuredContent"], schema)
        return result

    def good(self, name, **arguments):
        """The structured content of a tool that worked."""
        result = self.call(name, **arguments)
        assert not result["isError"], result
        return result["structuredContent"]

    @property
    def tools(self):
        if not self._tools:
            self._tools = {t["name"]: t for t in self.ask("tools/list")["result"]["tools"]}
        return self._tools

    def put(self, name, content, session_id="s", **more):
        return self.good("upload_file", session_id=session_id, filename=name,
                         content_base64=base64.b64encode(content).decode(), **more)["path"]

    def bad(self, name, **arguments):
        """The sentence of one that failed."""
        result = self.call(name, **arguments)
        assert result["isError"], result
        return result["content"][0]["text"]


@pytest.fixture
def client(server):
    return Client(server)


# --- the protocol ---

@once
def test_a_client_is_greeted_and_told_what_there_is(client):
    assert client.hello["protocolVersion"] == NEWEST
    assert client.hello["serverInfo"]["name"] == "belljar"
    assert "tools" in client.hello["capabilities"]
    assert client.ask("ping")["result"] == {}
    for tool in client.ask("tools/list")["result"]["tools"]:
        assert tool["title"] and len(tool["description"]) > 40
        assert tool["inputSchema"]["type"] == "object"
        if tool["name"] in WITHOUT_SCHEMA:
            assert "outputSchema" not in tool
        else:
            assert tool["outputSchema"]["type"] == "object"
        assert set(tool["annotations"]) >= {"readOnlyHint", "destructiveHint", "openWorldHint"}


@once
@pytest.mark.parametrize("asked, got", [("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-03-26"),
                                        ("2024-11-05", NEWEST), ("x", NEWEST)])
def test_versions_are_negotiated(server, asked, got):
    assert Client(server, version=asked).hello["protocolVersion"] == got


@once
def test_headers_are_looked_at(server, client):
    ping = client.message("ping")
    assert client.http.post(client.url, json=ping).status_code == 400
    assert client.send(ping, **{"Mcp-Session-Id": "x"}).status_code == 404
    assert client.send(ping, **{"MCP-Protocol-Version": "2024-01-01"}).status_code == 400
    assert client.send(ping, Accept="text/html").status_code == 406
    assert client.send(ping, Accept="application/json").status_code == 200
    assert client.send(ping, Accept="*/*").status_code == 200
    assert client.send(ping, **{"Content-Type": "text/plain"}).status_code == 415
    assert client.http.post(client.url, content=json.dumps(ping), headers=client.headers
                            ).status_code == 200
    assert client.send(ping, Origin="http://evil.example").status_code == 403
    assert client.send(ping, Host="evil.example").status_code == 403
    assert server.client("").post(client.url, json=ping, headers=client.headers).status_code == 401
    assert client.http.get(client.url, headers={**client.headers, "Accept": "text/html"}
                           ).status_code == 406


@once
@pytest.mark.parametrize("body, code", [
    ("", -32700), ("{", -32700), ("7", -32700), ("{}", -32600), ("[]", -32600),
    ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    ("[" * 100, -32700), ('{"jsonrpc":"2.0","id":1,"method":"' + "x" * 200 + '"}', -32600)])
def test_what_is_no_message_is_an_error(client, body, code):
    answer = client.http.post(client.url, content=body, headers={
        **client.headers, "Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in (code, -32600)


@once
def test_batches_are_for_the_oldest_version_only(server, client):
    batch = [client.message("ping"), client.message("notifications/x", notify=True),
             client.message("ping"), {"id": 77}]
    assert client.send(batch).status_code == 400
    old = Client(server, version="2025-03-26")
    answers = old.send(batch).json()
    assert sorted(a["id"] for a in answers) == [batch[0]["id"], batch[2]["id"], 77]
    assert [a["id"] for a in answers if "error" in a] == [77]
    assert old.send(batch[1:2]).status_code == 202
    assert old.send([batch[0]] * 65).status_code == 400


@once
def test_a_session_ends_when_it_is_deleted(client):
    assert client.http.delete(client.url, headers=client.headers).status_code == 204
    assert client.post("ping").status_code == 404
    assert client.http.delete(client.url, headers=client.headers).status_code == 404


@once
def test_a_session_is_its_users_own(server_of_users):
    server, keys = server_of_users
    ann, bob = Client(server, keys["ann"]), Client(server, keys["bob"])
    bob.headers = ann.headers
    assert bob.post("ping").status_code == 404
    assert bob.http.delete(bob.url, headers=bob.headers).status_code == 404
    assert ann.post("ping").status_code == 200


@once
def test_idle_sessions_make_room_and_expire(make_server):
    server = make_server(SANDBOX_MCP_MAX_SESSIONS_PER_USER=2, SANDBOX_MCP_SESSION_TTL_SEC=2)
    first, second = Client(server), Client(server)
    assert first.post("ping").status_code == 200
    third = Client(server)
    assert [c.post("ping").status_code for c in (first, second, third)] == [200, 404, 200]
    time.sleep(4.5)
    assert first.post("ping").status_code == 404


@once
def test_who_comes_back_to_a_session_that_expired_is_told(make_server):
    server = make_server(SANDBOX_SESSION_TTL_SEC=2)
    client = Client(server)
    for name in ("a", "b", "c"):
        client.put("mine.txt", b"x", session_id=name)
    (by_id,) = [i["id"] for i in server.get("/sessions").json()["items"] if i["name"] == "a"]
    when = {i["session_id"]: i["expires_at"] for i in client.good("session_info")["sessions"]}
    time.sleep(3.5)
    for name in ("a", by_id):
        for tool, more in (("list_files", {}), ("session_info", {}), ("close_session", {}),
                           ("read_artifact", {"path": "mine.txt"})):
            said = client.bad(tool, session_id=name, **more)
            assert said.startswith("session_not_found: the session ") and name in said, said
            assert f"expired at {when['a']}" in said and "upload_file begin a new" in said, said
    assert "a name that you choose" in client.bad("run_python", session_id=by_id, code="1")

    anew = f"the session had expired at {when['a']}: its earlier files and variables are gone"
    got = client.good("run_python", session_id="a", code="import os; print(os.listdir())")
    assert got["stdout"] == "[]\n" and got["message"].startswith(anew)
    assert client.good("run_python", session_id="a", code="1")["message"] is None
    got = client.good("run_python", session_id="b", code="1", kernel=True)
    assert "had expired at" in got["message"] and got["fresh"] == "first_use"
    got = client.good("upload_file", session_id="c", filename="f", content_base64="")
    assert "had expired at" in got["message"]
    client.good("close_session", session_id="a")
    assert "there is no session" in client.bad("list_files", session_id="a")


# --- run_python ---

def test_python_runs_and_files_stay(client):
    got = client.good("run_python", session_id="sess_123", code="print(6*7)\nopen('a','w').write('x')")
    assert (got["exit_code"], got["stdout"], got["stderr"]) == (0, "42\n", "")
    assert got["traceback"] is None and got["truncated"] is False
    assert got["session_id"] == "sess_123"
    got = client.good("run_python", session_id="sess_123",
                      code="import os; print(open('/mnt/data/a').read(), os.listdir('.'), os.getcwd())")
    assert got["stdout"] == "x ['a'] /workspace\n"


def test_the_session_is_the_one_that_rest_shows(server, client):
    run = client.good("run_python", session_id="sess_123", code="print(1)")
    (item,) = server.get("/sessions").json()["items"]
    assert item["name"] == "sess_123"
    shown = server.status(run["run_id"])
    assert shown["session_id"] == item["id"] and shown["phase"] == "completed"
    got = client.good("run_python", session_id=item["id"], code="print(2)")
    assert got["session_id"] == "sess_123"
    assert server.get("/sessions").json()["total"] == 1


@once
def test_a_traceback_is_whole_and_shows_the_code(client):
    result = client.call("run_python", session_id="s",
                         code="def f(x):\n    return 1 / x\n\ntry:\n    f(0)\nexcept Exception as e:\n"
                              "    raise ValueError('bad') from e\n")
    assert result["isError"]
    got = result["structuredContent"]
    assert got["exit_code"] == 1 and got["artifacts"] == []
    assert got["traceback"] == got["stderr"]
    lines = got["traceback"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: bad"
    assert "    return 1 / x" in lines and "ZeroDivisionError: division by zero" in lines
    assert "posix" not in got["traceback"] and "exec(" not in got["traceback"]
    got = client.call("run_python", session_id="s", code="def f(:\n")["structuredContent"]
    assert got["traceback"].startswith('  File "<string>", line 1\n    def f(:\n')
    assert client.call("run_python", session_id="s", code="raise SystemExit(3)"
                       )["structuredContent"]["exit_code"] == 3


@once
def test_a_traceback_behind_a_bar_of_progress_is_whole(client):
    got = client.call("run_python", session_id="s", code=(
        "import sys\nsys.stderr.write('50%|####')\ntry:\n    1 / 0\nexcept Exception as e:\n"
        "    raise ValueError('b') from e\n"))["structuredContent"]
    assert got["stderr"] == "50%|####" + got["traceback"]
    assert "division by zero" in got["traceback"] and got["traceback"].endswith("ValueError: b\n")


@once
@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python has no groups of exceptions")
def test_a_traceback_of_a_group_is_whole(client, kernel):
    got = client.call("run_python", session_id="s", kernel=kernel, code=(
        "import asyncio\nasync def fail(): raise KeyError('inner')\n"
        "async def main():\n    async with asyncio.TaskGroup() as g: g.create_task(fail())\n"
        "asyncio.run(main())"))["structuredContent"]
    assert got["exit_code"] == 1
    assert got["traceback"].startswith("  + Exception Group Traceback (most recent call last):\n")
    assert "KeyError: 'inner'" in got["traceback"] and got["traceback"].endswith("-----\n")


@once
@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("size", [400000, 1000000])
def test_a_long_traceback_is_whole(client, kernel, size):
    got = client.call("run_python", session_id="s", kernel=kernel,
                      code=f"raise ValueError('M' * {size})")["structuredContent"]
    assert got["traceback"].startswith("Traceback (most recent call last):\n")
    assert got["traceback"].endswith("\nValueError: " + "M" * size + "\n")
    assert got["truncated"] is not kernel  # which has nothing on stderr


@once
def test_a_traceback_of_a_kernel_that_is_cut_is_said_to_be(client):
    got = client.call("run_python", session_id="s", kernel=True,
                      code="raise ValueError('€' * 1000000)")["structuredContent"]
    assert got["truncated"] and len(got["traceback"].encode()) < (1 << 20) + 200
    assert got["traceback"].startswith("Traceback (most recent call last):\n")
    assert got["traceback"].endswith("€€€\n") and "\ufffd" not in got["traceback"]


@once
def test_code_is_main_and_can_be_large(client):
    got = client.good("run_python", session_id="s", code=(
        "import pickle, sys\nclass A: pass\n"
        "print(__name__, type(pickle.loads(pickle.dumps(A()))) is A, sys.argv, 'run' in globals())\n"
        + "#" * 200000))
    assert got["stdout"] == "__main__ True [''] False\n"


@once
def test_limits_end_it_with_a_reason(client):
    result = client.call("run_python", session_id="s", code="print('a'); import time; time.sleep(30)",
                         limits={"seconds": 0.5})
    got = result["structuredContent"]
    assert result["isError"] and got["exit_code"] is None and got["stdout"] == "a\n"
    assert got["reason_code"] == "execution_timeout" and "limits.seconds" in got["message"]


@once
@pytest.mark.parametrize("size", [1, 255, 256, 257, 258, 259, 1000, 100000])
def test_long_output_keeps_its_ends(make_server, size):
    server = make_server(SANDBOX_MCP_MAX_OUTPUT_BYTES=256)
    got = Client(server).good(
        "run_python", session_id="s",
        code=f"import sys; b='€'.encode()*{size}; sys.stdout.buffer.write(b[:{size}])")
    assert got["truncated"] is (size > 256)
    if size > 256:
        head, rest = got["stdout"].split("\n[... ")
        number, tail = rest.split(f" of {size} bytes are not shown here ...]\n")
        kept = len(head.encode()) + len(tail.encode())
        assert head.strip("€") == "" and tail.strip("€") in ("", "\ufffd", "\ufffd\ufffd")
        assert int(number) + kept == pytest.approx(size, abs=6)


@once
def test_how_it_ended_is_told_even_over_the_log_cap(make_server):
    client = Client(make_server(SANDBOX_MAX_LOG_BYTES=100000))
    for stream in ("stdout", "stderr"):
        result = client.call("run_python", session_id="s", code=(
            f"import sys\nfor i in range(20000): print(i, 'é' * 50, file=sys.{stream})\n"
            "sys.stdout.flush()\n1/0"))
        got = result["structuredContent"]
        assert got["truncated"] and got["exit_code"] == 1
        assert got["traceback"].startswith("Traceback (most recent call last):\n")
        assert got["traceback"].endswith("ZeroDivisionError: division by zero\n")
        assert got["stderr"].endswith(got["traceback"])
        assert got[stream].startswith("0 é") and f"19999 {'é' * 50}\n" in got[stream]
        assert "\ufffd" not in got[stream] and "bytes are not shown here" in got[stream]


@once
def test_code_and_env_have_limits(make_server):
    client = Client(make_server(SANDBOX_MCP_MAX_CODE_BYTES=1000))
    assert "1001 bytes" in client.bad("run_python", session_id="s", code="#" * 1001)
    client.good("run_python", session_id="s", code="#" * 1000)
    assert "'LD_PRELOAD' may not be set" in client.bad(
        "run_python", session_id="s", code="1", env={"TZ": "UTC", "LD_PRELOAD": "x"})
    got = client.good("run_python", session_id="s", env={"APP_X": "1"},
                      code="import os; print(os.environ['APP_X'])")
    assert got["stdout"] == "1\n"


@once
@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "x" * 65, "ä", "a b",
                                  "%2e%2e", "00000000-0000-4000-8000-000000000000", "a\nb"])
def test_a_name_that_is_none_is_refused(client, name):
    assert "session_id" in client.bad("run_python", session_id=name, code="1")


@once
def test_another_users_session_is_another_one(server_of_users):
    server, keys = server_of_users
    ann, bob = Client(server, keys["ann"]), Client(server, keys["bob"])
    ann.good("run_python", session_id="s", code="open('secret','w').write('x')")
    got = bob.good("run_python", session_id="s", code="import os; print(os.listdir())")
    assert got["stdout"] == "[]\n"
    (hers,) = ann.http.get("/sessions").json()["items"]
    assert "session_id" in bob.bad("run_python", session_id=hers["id"], code="1")


@once
def test_a_name_survives_the_server(server):
    Client(server).good("run_python", session_id="s", code="open('a','w').write('kept')")
    server.kill()
    server.start()
    got = Client(server).good("run_python", session_id="s", code="print(open('a').read())")
    assert got["stdout"] == "kept\n"
    assert server.get("/sessions").json()["total"] == 1


# --- while it runs ---

@once
def test_progress_comes_as_events_and_can_be_resumed(client):
    message = client.message("tools/call", {
        "name": "run_python", "_meta": {"progressToken": "p"},
        "arguments": {"session_id": "s", "code": "import time; time.sleep(2.2); print('done')"}})
    answer = client.send(message)
    assert answer.headers["content-type"] == "text/event-stream"
    got = list(events(answer.text))
    assert got[0][1] is None and "retry: " in answer.text
    progress = [m["params"] for _, m in got[1:-1]]
    assert len(progress) >= 2 and all(p["progressToken"] == "p" for p in progress)
    assert [p["progress"] for p in progress] == sorted({p["progress"] for p in progress})
    assert got[-1][1]["result"]["structuredContent"]["stdout"] == "done\n"
    for i in range(len(got)):
        again = client.http.get(client.url, headers={**client.headers, "Last-Event-ID": got[i][0]})
        assert list(events(again.text)) == got[i + 1:]
    for wrong in ("x", "99-1", "1", "-", "1-x"):
        assert client.http.get(client.url, headers={**client.headers, "Last-Event-ID": wrong}
                               ).status_code == 400


@once
def test_a_cut_connection_loses_nothing(client):
    message = client.message("tools/call", {
        "name": "run_python", "_meta": {"progressToken": 1},
        "arguments": {"session_id": "s", "code": "import time; time.sleep(2); print('done')"}})
    with client.http.stream("POST", client.url, json=message, headers=client.headers) as stream:
        for line in stream.iter_lines():
            if line.startswith("id: "):
                last = line[4:].strip()
                break
    again = client.http.get(client.url, headers={**client.headers, "Last-Event-ID": last})
    *_, (_, answer) = events(again.text)
    assert answer["id"] == message["id"]
    assert answer["result"]["structuredContent"]["stdout"] == "done\n"


@once
def test_who_takes_only_json_gets_json(server):
    client = Client(server, accept="application/json")
    answer = client.send(client.message("tools/call", {
        "name": "run_python", "_meta": {"progressToken": 1},
        "arguments": {"session_id": "s", "code": "import time; time.sleep(2.5); print('done')"}}))
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["structuredContent"]["stdout"] == "done\n"


@once
def test_canceling_a_call_ends_its_run(server, client):
    message = client.message("tools/call", {
        "name": "run_python", "arguments": {"session_id": "s", "code": "import time; time.sleep(60)"}})
    answers = []
    thread = threading.Thread(target=lambda: answers.append(
        server.client(headers={"Accept": BOTH}).post(client.url, json=message, headers=client.headers)))
    thread.start()
    while not (live := server.get("/runs", params={"phase": "running"}).json()["items"]):
        pass
    client.post("notifications/cancelled", {"requestId": message["id"], "reason": "no"}, notify=True)
    assert server.wait_for(live[0]["id"])["reason_code"] == "canceled_by_user"
    thread.join(20)
    assert answers and "result" not in answers[0].text


# --- other tools ---

@once
def test_any_language_runs_in_the_same_session(client):
    client.good("run_python", session_id="s", code="open('a','w').write('x')")
    got = client.good("run_code", session_id="s", language="shell", code="ls; cat", stdin="42")
    assert got["stdout"] == "a\nmain.sh\n42"
    assert "klingon" in client.bad("run_code", session_id="s", language="klingon", code="")


@once
def test_sandbox_run_is_one_shot_or_in_a_session(client):
    got = client.good("sandbox.run", base_image="host", command=["cat", "a.txt"],
                      files=[{"path": "a.txt", "content_b64": base64.b64encode(b"hi").decode()}])
    assert got["stdout"] == "hi" and got["run_id"] and len(got["policy_hash"]) == 64
    assert got["log_stream_url"].endswith(f"/runs/{got['run_id']}/stream")
    assert "must have session_id, or base_image" in client.bad("sandbox.run", command=["true"])
    assert "exclude" in client.bad("sandbox.run", session_id="s", base_image="host", command=["true"])
    assert "session_not_found" in client.bad("sandbox.run", session_id="s", command=["true"])
    client.good("run_python", session_id="s", code="open('a','w').write('x')")
    assert client.good("sandbox.run", session_id="s", command=["ls"])["stdout"] == "a\n"


@once
def test_sandbox_run_says_what_can_be_done(client):
    late = client.call("sandbox.run", base_image="host", command=["sleep", "30"], timeout_sec=1)
    message = late["structuredContent"]["message"]
    assert "timeout_sec" in message and "limits" not in message
    refused = client.bad("sandbox.run", base_image="host", command=["true"], runtime="docker")
    assert "docker" in refused and "native" in refused and "moment" not in refused


# --- files ---

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
                       "RU5ErkJggg==")


def test_from_a_table_to_a_picture(server, client):
    """upload, run, list, read, download."""
    path = client.put("sales.csv", b"a,b\n1,2\n3,4\n")
    assert path == "/mnt/data/sales.csv"
    got = client.good("run_python", session_id="s", code=(
        f"rows = open({path!r}).read().splitlines()\nprint(len(rows))\n"
        f"open('/mnt/data/plot.png', 'wb').write({PNG!r})"))
    assert got["stdout"] == "3\n"
    assert [a["filename"] for a in got["artifacts"]] == ["plot.png", "sales.csv"]
    picture = got["artifacts"][0]
    assert picture["path"] == "/mnt/data/plot.png" and picture["mime_type"] == "image/png"
    assert picture["size_bytes"] == len(PNG)
    assert picture["download_url"] == f"{server.url}/files/s/plot.png"
    result = client.call("read_artifact", session_id="s", path=picture["path"])
    assert "structuredContent" not in result
    image, about = result["content"]
    assert image == {"type": "image", "mimeType": "image/png",
                     "data": base64.b64encode(PNG).decode()}
    assert json.loads(about["text"]) == {
        "path": "/mnt/data/plot.png", "mime_type": "image/png", "size_bytes": len(PNG),
        "sha256": hashlib.sha256(PNG).hexdigest()}
    fetched = client.http.get(picture["download_url"])
    assert fetched.content == PNG and fetched.headers["content-type"] == "image/png"
    assert client.good("close_session", session_id="s") == {"status": "closed"}
    assert client.http.get(picture["download_url"]).status_code == 404
    assert server.get("/sessions").json()["total"] == 0


@once
def test_files_are_listed_and_linked(client):
    client.put("d/x.txt", b"hello")
    result = client.call("run_python", session_id="s",
                         code="import os; os.symlink('x','l'); open('y.csv','w').write('1')")
    links = [c for c in result["content"] if c["type"] == "resource_link"]
    assert {c["uri"] for c in links} == {"belljar://s/y.csv", "belljar://s/d/x.txt"}
    files = client.good("list_files", session_id="s")["files"]
    assert [(f["path"], f["type"]) for f in files] == [
        ("/mnt/data/d", "directory"), ("/mnt/data/d/x.txt", "file"), ("/mnt/data/l", "link"),
        ("/mnt/data/y.csv", "file")]
    assert [a["filename"] for a in client.good("list_artifacts", session_id="s")["artifacts"]
            ] == ["y.csv", "x.txt"]
    resources = client.ask("resources/list")["result"]["resources"]
    assert {r["uri"] for r in resources} == {c["uri"] for c in links}
    (got,) = client.ask("resources/read", {"uri": "belljar://s/d/x.txt"})["result"]["contents"]
    assert got == {"uri": "belljar://s/d/x.txt", "mimeType": "text/plain", "text": "hello"}
    client.put("b.png", PNG)
    (got,) = client.ask("resources/read", {"uri": "belljar://s/b.png"})["result"]["contents"]
    assert base64.b64decode(got["blob"]) == PNG


@once
def test_caches_of_libraries_are_no_artifacts(client):
    got = client.good("run_python", session_id="s", code=(
        "import os\nos.makedirs('.cache/matplotlib')\nos.makedirs('d/.cache')\n"
        "for name in ('.cache/matplotlib/fonts.json', '.cached', 'd/.cache/own', 'plot.png'):\n"
        "    open(name, 'w').close()"))
    names = {"/mnt/data/.cached", "/mnt/data/d/.cache/own", "/mnt/data/plot.png"}
    assert {a["path"] for a in got["artifacts"]} == names and "artifacts_omitted" not in got
    listed = client.good("list_artifacts", session_id="s")
    assert {a["path"] for a in listed["artifacts"]} == names
    uris = {r["uri"] for r in client.ask("resources/list")["result"]["resources"]}
    assert uris == {name.replace("/mnt/data", "belljar://s") for name in names}
    files = client.good("list_files", session_id="s")["files"]
    assert "/mnt/data/.cache/matplotlib/fonts.json" in {f["path"] for f in files}


@once
def test_a_saved_figure_is_the_only_artifact(client):
    if subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], check=False,
                      capture_output=True).returncode != 0:
        pytest.skip("the host has no python3-matplotlib")
    for _ in range(2):
        got = client.good("run_python", session_id="s", limits={"seconds": 60 * SLOWER}, code=(
            "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('plot.png')"))
        assert [a["filename"] for a in got["artifacts"]] == ["plot.png"]


@once
def test_a_failed_run_lists_nothing(client):
    result = client.call("run_python", session_id="s", code="open('a','w').write('x'); 1/0")
    assert result["structuredContent"]["artifacts"] == []
    assert len(client.good("list_artifacts", session_id="s")["artifacts"]) == 1


@once
def test_a_long_url_is_told_whole(make_server):
    client = Client(make_server(SANDBOX_MCP_MAX_READ_BYTES=3))
    name = "/".join(["é" * 100] * 4) + "/x.txt"
    client.put(name, b"abcd")
    got = client.call("read_artifact", session_id="s", path=name)
    url = got["structuredContent"]["download_url"]
    assert len(url) > 2400 and f"fetch it from {url}, or" in got["content"][0]["text"]
    uri = f"belljar://s/{name}"
    error = client.ask("resources/read", {"uri": uri})["error"]
    assert error["message"].endswith(f"fetch it from {url}")


@once
def test_a_file_is_only_replaced_when_that_is_said(client):
    assert client.tools["upload_file"]["annotations"]["idempotentHint"] is False
    client.put("a.txt", b"1")
    assert "file_exists" in client.bad("upload_file", session_id="s", filename="a.txt",
                                       content_base64="Mg==")
    client.put("a.txt", b"2", overwrite=True)
    result = client.call("read_artifact", session_id="s", path="a.txt")
    assert result == {"content": [{"type": "text", "text": "2"}], "isError": False}
    client.put("a.bin", b"\xff")
    result = client.call("read_artifact", session_id="s", path="a.bin")
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["structuredContent"]["content_base64"] == "/w=="
    assert "base64" in client.bad("upload_file", session_id="s", filename="b", content_base64="%")


@once
def test_the_limit_of_an_upload_is_that_of_the_rest_door(make_server):
    server = make_server(SANDBOX_MAX_UPLOAD_MB=1)
    client = Client(server)
    client.put("a.bin", b"x" * (1 << 20))
    content = base64.b64encode(b"x" * ((1 << 20) + 1)).decode()
    told = client.bad("upload_file", session_id="s", filename="b.bin", content_base64=content)
    assert "payload_too_large: the upload is larger than the 1 MB" in told
    by_rest = server.http.post("/sessions/s/files", params={"path": "b.bin"},
                               headers={"Content-Type": "application/octet-stream"},
                               content=b"x" * ((1 << 20) + 1))
    assert by_rest.status_code == 413
    assert by_rest.json()["error"]["code"] == "payload_too_large"
    names = [f["path"] for f in client.good("list_files", session_id="s")["files"]]
    assert names == ["/mnt/data/a.bin"]


@once
def test_limits_of_files(make_server):
    server = make_server(SANDBOX_MCP_MAX_READ_BYTES=1000, SANDBOX_MCP_MAX_ARTIFACTS=3)
    client = Client(server)
    client.put("a.bin", b"\xff" * 1000)
    client.put("b.bin", b"x" * 1001)
    assert client.good("read_artifact", session_id="s", path="a.bin")["size_bytes"] == 1000
    result = client.call("read_artifact", session_id="s", path="/mnt/data/b.bin")
    url = f"{server.url}/files/s/b.bin"
    assert result["isError"] and url in result["content"][0]["text"]
    assert result["structuredContent"]["download_url"] == url
    assert len(client.http.get(url).content) == 1001
    assert client.call("read_artifact", session_id="s", path="/mnt/data/b.bin") == result
    error = client.ask("resources/read", {"uri": "belljar://s/b.bin"})["error"]
    assert url in error["message"]
    got = client.good("run_python", session_id="s", code="for i in range(9): open(str(i),'w')")
    assert len(got["artifacts"]) == 3 and got["artifacts_omitted"] == 8


TRICKS = ["../x", "a/../../x", "/etc/passwd", "/mnt/data/../../etc/passwd", "a\\b", "", "/", ".", "..",
          "/mnt/data", "/mnt/data/", "%2e%2e/x", "%252e%252e%252fx", "a//b", "./../x", "a/./b", "a/.", "a\nb",
          "/mnt/data//etc/passwd", "/workspace/../x", "~/x/..", "\u2025/../x", ".belljar-x"]


@once
@pytest.mark.parametrize("path", TRICKS)
def test_paths_that_lead_out_are_refused(client, path):
    client.put("a", b"1")
    for tool, name in (("read_artifact", "path"), ("upload_file", "filename")):
        more = {"content_base64": "MQ=="} if tool == "upload_file" else {}
        said = client.bad(tool, session_id="s", **{name: path}, **more)
        assert "invalid_path" in said or "length of at least" in said
    assert "error" in client.ask("resources/read", {"uri": f"belljar://s/{path}"})
    assert [f["path"] for f in client.good("list_files", session_id="s")["files"]] == ["/mnt/data/a"]


def test_nobody_reaches_another_session(server_of_users):
    server, keys = server_of_users
    ann, bob = Client(server, keys["ann"]), Client(server, keys["bob"])
    ann.put("secret", b"hers", session_id="mine")
    bob.put("other", b"his", session_id="mine")
    (hers,) = ann.good("session_info")["sessions"]
    (his,) = bob.good("session_info")["sessions"]
    assert hers["id"] != his["id"]
    names = ["mine", hers["id"], hers["id"].upper(), "../" + hers["id"], f"{his['id']}/../{hers['id']}"]
    for name in names:
        for tool, more in (("read_artifact", {"path": "secret"}), ("list_files", {}),
                           ("list_artifacts", {}), ("session_info", {}),
                           ("read_artifact", {"path": f"../{hers['id']}/secret"}),
                           ("sandbox.run", {"command": ["cat", "secret"]})):
            assert "hers" not in json.dumps(bob.call(tool, session_id=name, **more))
            assert "/secret" not in json.dumps(bob.call("list_files", session_id=name))
        uri = f"belljar://{name}/secret"
        assert "error" in bob.ask("resources/read", {"uri": uri})
        if name != "mine":
            assert "error" in bob.ask("resources/subscribe", {"uri": uri})
        assert bob.http.get(f"{server.url}/files/{name}/secret").status_code in (400, 404)
    assert bob.bad("close_session", session_id=hers["id"]).startswith("session_not_found")
    bob.call("run_python", session_id="mine", code="import os; os.symlink('/workspace/../secret','l')")
    assert bob.call("read_artifact", session_id="mine", path="l")["isError"]
    assert ann.http.get(f"{server.url}/files/mine/secret").content == b"hers"
    assert "secret" not in json.dumps(bob.ask("resources/list"))


@once
def test_signed_urls_have_the_id(make_server):
    server = make_server(SANDBOX_FILES_SIGNED_URLS="true")
    client = Client(server)
    client.put("a.txt", b"x")
    url = client.good("list_artifacts", session_id="s")["artifacts"][0]["download_url"]
    assert "token=" in url and "/files/s/" not in url
    assert server.client("").get(url).content == b"x"
    named = re.sub("/files/[^/]+/", "/files/s/", url)
    assert server.client("").get(named).status_code == 403


# --- what else there is ---

@once
def test_sessions_tell_about_themselves(client):
    assert client.good("session_info")["sessions"] == []
    client.put("a", b"1")
    got = client.good("session_info", session_id="s")
    assert got["sessions"][0]["session_id"] == "s" and got["sessions"][0]["path"] == "/mnt/data"
    assert "python" in got["languages"]
    assert "session_not_found" in client.bad("session_info", session_id="t")
    assert "session_not_found" in client.bad("close_session", session_id="t")
    client.good("close_session", session_id="s")
    client.put("a", b"2")
    assert client.good("read_artifact", session_id="s", path="a")["size_bytes"] == 1


@once
def test_prompts_and_completion(client):
    names = [p["name"] for p in client.ask("prompts/list")["result"]["prompts"]]
    assert names == ["analyze_file", "make_report"]
    got = client.ask("prompts/get", {"name": "analyze_file", "arguments": {
        "session_id": "s", "path": "/mnt/data/a.csv"}})["result"]
    assert "/mnt/data/a.csv" in got["messages"][0]["content"]["text"]
    assert "error" in client.ask("prompts/get", {"name": "analyze_file", "arguments": {}})
    client.put("a", b"1", session_id="sess_1")
    client.put("a", b"1", session_id="other")
    for ref in ({"type": "ref/prompt", "name": "make_report"},
                {"type": "ref/resource", "uri": "belljar://{session_id}/{+path}"}):
        got = client.ask("completion/complete", {"ref": ref, "argument": {
            "name": "session_id", "value": "se"}})["result"]["completion"]
        assert got["values"] == ["sess_1"]
    templates = client.ask("resources/templates/list")["result"]["resourceTemplates"]
    assert templates[0]["uriTemplate"] == "belljar://{session_id}/{+path}"


def listen(client, got):
    """Reads the general stream, in a thread, into a list."""
    def go():
        try:
            with client.server.client(headers={"Accept": "text/event-stream"}, timeout=30).stream(
                    "GET", client.url, headers=client.headers) as stream:
                got.append(stream.status_code)
                for line in stream.iter_lines():
                    if line.startswith("data: {"):
                        got.append(json.loads(line[6:]))
        except Exception:  # pylint: disable=broad-except
            pass  # the server ended
    threading.Thread(target=go, daemon=True).start()
    assert eventually(lambda: got)


@once
def test_who_subscribed_hears_of_changes(server, client):
    got = []
    client.put("a.txt", b"1")
    listen(client, got)
    assert client.ask("resources/subscribe", {"uri": "belljar://s/a.txt"})["result"] == {}
    assert "error" in client.ask("resources/subscribe", {"uri": "belljar://t/a.txt"})
    client.good("run_python", session_id="s", code="open('a.txt','w').write('2')")
    assert eventually(lambda: any(m["method"] == "notifications/resources/updated" for m in got[1:]))
    assert eventually(
        lambda: any(m["method"] == "notifications/resources/list_changed" for m in got[1:]))
    del got[1:]
    client.ask("resources/unsubscribe", {"uri": "belljar://s/a.txt"})
    client.good("run_python", session_id="s", code="open('b.txt','w').write('2')")
    assert eventually(lambda: len(got) > 1)
    assert all(m["method"] == "notifications/resources/list_changed" for m in got[1:])


@once
def test_streams_of_a_session_are_counted(client):
    sockets = []
    for i in range(9):
        it = socket.create_connection(("127.0.0.1", client.server.port), 10)
        sockets.append(it)
        lines = "".join(f"{k}: {v}\r\n" for k, v in client.headers.items())
        it.sendall(f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {client.server.key}\r\n"
                   f"Accept: text/event-stream\r\n{lines}\r\n".encode())
        assert f"HTTP/1.1 {429 if i == 8 else 200}".encode() in it.recv(4096)
    for it in sockets:
        it.close()


@once
def test_logs_come_to_who_asked_for_them(client):
    assert client.ask("logging/setLevel", {"level": "info"})["result"] == {}
    answer = client.post("tools/call", {"name": "run_python",
                                        "arguments": {"session_id": "s", "code": "print(1)"}})
    said = [m["params"]["data"]["event"] for _, m in events(answer.text) if m and "method" in m]
    assert said == ["started", "ended"]
    client.ask("logging/setLevel", {"level": "warning"})
    answer = client.post("tools/call", {"name": "run_python",
                                        "arguments": {"session_id": "s", "code": "print(1)"}})
    assert answer.headers["content-type"] == "application/json"


@once
def test_each_call_is_a_line_of_the_log_without_what_it_ran(server, client):
    got = client.good("run_python", session_id="s", code="print('a secret')", env={"APP_A": "hidden"})
    client.bad("run_python", session_id="t", code="raise SystemExit(3) # secret", kernel=True)
    client.bad("read_artifact", session_id="s", path="no")
    lines = [json.loads(line) for line in server.log().splitlines() if '"msg":"tool"' in line]
    assert [(x["tool"], x["session_id"], x["is_error"]) for x in lines] == [
        ("run_python", "s", False), ("run_python", "t", True), ("read_artifact", "s", True)]
    assert (lines[0]["run_id"], lines[0]["exit_code"]) == (got["run_id"], 0)
    assert lines[0]["duration_ms"] > 0 and len(lines[0]["trace_id"]) == 32
    assert lines[1]["run_id"] and "exit_code" in lines[1]
    assert "secret" not in server.log() and "hidden" not in server.log()


@once
def test_many_calls_at_once_are_all_answered(client):
    answers = []

    def go(i):
        answer = client.server.client(headers={"Accept": BOTH}).post(
            client.url, headers=client.headers, json={
                "jsonrpc": "2.0", "id": f"n{i}", "method": "tools/call", "params": {
                    "name": "run_python", "arguments": {"session_id": "s", "code": f"print({i})"}}})
        message = (answer.json() if answer.headers["content-type"] == "application/json"
                   else list(events(answer.text))[-1][1])
        answers.append((message["id"], message["result"]["structuredContent"]["stdout"]))
    threads = [threading.Thread(target=go, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted((f"n{i}", f"{i}\n") for i in range(20))
    assert client.server.get("/sessions").json()["total"] == 1


@once
def test_there_is_no_network(client):
    result = client.call("run_python", session_id="s", code=(
        "import socket; socket.create_connection(('192.0.2.1', 80), 3)"))
    assert result["isError"] and "OSError" in result["structuredContent"]["traceback"]


@once
def test_a_body_that_is_too_large_is_refused(client):
    answer = client.http.post(client.url, content=b" " * ((8 << 20) + 1), headers=client.headers)
    assert answer.status_code == 413
    said = answer.json()["error"]["message"]
    assert str(8 << 20) in said and "in parts" in said and "/sessions/{id}/files" in said


@once
def test_the_server_ends_while_a_call_waits(make_server):
    server = make_server(SANDBOX_DRAIN_TIMEOUT_SEC=1)
    client = Client(server)
    answers = []

    def go():
        with contextlib.suppress(httpx.HTTPError):  # cut by the end of the server
            answers.append(client.post("tools/call", {"name": "run_python", "arguments": {
                "session_id": "s", "code": "import time; time.sleep(20)"}}).status_code)
    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    assert eventually(lambda: server.get("/runs", params={"phase": "running"}).json()["items"])
    server.process.terminate()
    assert server.process.wait(30) == 0
    server.start()
    assert server.get("/runs", params={"phase": "running"}).json()["items"]


@once
def test_a_call_that_the_end_of_the_server_cuts_is_not_one_of_a_lost_session(make_server):
    # Who hears 404 begins a new session and calls again, and the code would run twice.
    server = make_server(SANDBOX_DRAIN_TIMEOUT_SEC=0)
    client = Client(server, accept="application/json")
    answers = []
    thread = threading.Thread(daemon=True, target=lambda: answers.append(client.post(
        "tools/call", {"name": "run_python", "arguments": {
            "session_id": "s", "code": "import time; time.sleep(20)"}})))
    thread.start()
    assert eventually(lambda: server.get("/runs", params={"phase": "running"}).json()["items"])
    server.process.terminate()
    thread.join(20)
    assert answers[0].status_code == 503
    assert "may" in answers[0].json()["error"]["message"]
    assert server.process.wait(30) == 0
    server.start()


# --- with a kernel ---

@once
def test_a_kernel_keeps_variables_and_shows_the_last_expression(client):
    got = client.good("run_python", session_id="s", code="x = 20\nprint('a')\nx + 1", kernel=True)
    assert (got["stdout"], got["result"], got["exit_code"]) == ("a\n", "21", 0)
    assert got["fresh"] == "first_use" and got["execution_count"] == 1
    got = client.good("run_python", session_id="s", code="open('f','w').write('1'); x", kernel=True)
    assert got["result"] == "20" and got["fresh"] is None
    assert [a["filename"] for a in got["artifacts"]] == ["f"]
    result = client.call("run_python", session_id="s", code="1/0", kernel=True)
    got = result["structuredContent"]
    assert result["isError"] and got["exit_code"] == 1 and got["artifacts"] == []
    assert got["traceback"].strip().endswith("ZeroDivisionError: division by zero")
    got = client.good("run_python", session_id="s", code="'x' in dir()", kernel=True, restart=True)
    assert got["result"] == "False" and got["fresh"] == "restarted"
    assert "kernel: true" in client.bad("run_python", session_id="s", code="1", restart=True)
    client.good("run_python", session_id="s", code="1", restart=False)


@once
def test_a_kernel_that_is_late_keeps_its_variables_and_one_that_dies_says_so(client):
    client.good("run_python", session_id="s", code="x = 1", kernel=True)
    result = client.call("run_python", session_id="s", code="import time; time.sleep(30)",
                         kernel=True, limits={"seconds": 0.5})
    assert result["isError"]
    assert result["structuredContent"]["reason_code"] == "execution_timeout"
    assert client.good("run_python", session_id="s", code="x", kernel=True)["result"] == "1"
    result = client.call("run_python", session_id="s", code="import os; os._exit(3)", kernel=True)
    assert result["isError"] and "variables are lost" in result["structuredContent"]["message"]
    got = client.good("run_python", session_id="s", code="'x' in dir()", kernel=True)
    assert got["result"] == "False" and got["fresh"].startswith("died")


@once
def test_a_kernel_tells_of_its_progress(client):
    client.ask("logging/setLevel", {"level": "info"})
    answer = client.post("tools/call", {"name": "run_python", "_meta": {"progressToken": "p"},
                         "arguments": {"session_id": "s", "kernel": True,
                                       "code": "import time; time.sleep(2)"}})
    said = [m for _, m in events(answer.text) if m]
    progress = [m["params"] for m in said if m.get("method") == "notifications/progress"]
    assert len(progress) >= 2 and progress[0]["progress"] < progress[-1]["progress"]
    logs = [m["params"]["data"] for m in said if m.get("method") == "notifications/message"]
    assert [x["event"] for x in logs] == ["started", "ended"]
    assert logs[1]["run_id"] == said[-1]["result"]["structuredContent"]["run_id"]


@once
def test_a_kernel_does_not_begin_what_was_canceled_before(server):
    client = Client(server, version="2025-03-26")
    call = client.message("tools/call", {"name": "run_python", "arguments": {
        "session_id": "s", "code": "open('x', 'w')", "kernel": True}})
    # Its session is being made when it is canceled.
    cancel = client.message("notifications/cancelled", {"requestId": call["id"]}, notify=True)
    assert client.send([call, cancel]).status_code == 202
    got = client.good("run_python", session_id="s", code="import os; os.listdir()", kernel=True)
    assert got["result"] == "[]"


@once
def test_long_output_of_a_kernel_keeps_its_ends(make_server):
    client = Client(make_server(SANDBOX_MCP_MAX_OUTPUT_BYTES=256))
    for size in (256, 257, 70000, 300000):
        got = client.good("run_python", session_id="s", kernel=True,
                          code=f"print('a' * {size - 2} + 'z', end='\\n')")
        assert got["truncated"] is (size > 256)
        assert got["stdout"].startswith("aa") and got["stdout"].endswith("z\n")
        if size > 256:
            assert f" of {size} bytes are not shown here" in got["stdout"]


@once
def test_a_long_result_of_a_kernel_keeps_its_ends(make_server):
    client = Client(make_server(SANDBOX_MCP_MAX_OUTPUT_BYTES=1000))
    for size in (1000, 1001, 300000, 1000000):
        got = client.good("run_python", session_id="s", kernel=True, code=f"'z' * {size - 2}")
        assert got["truncated"] is (size > 1000)
        assert got["result"].startswith("'zz") and got["result"].endswith("zz'")
        if size > 1000:
            assert len(got["result"]) < 1100 and f" {size - 1000} of {size} bytes" in got["result"]
