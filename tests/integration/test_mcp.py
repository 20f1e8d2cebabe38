"""The MCP door, spoken to by hand: JSON-RPC over POST, GET and DELETE /mcp."""
import json

import pytest

from server import make_server, server, users  # noqa: F401 (fixtures)

NEWEST = "2025-11-25"
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
        """The result of a tool."""
        answer = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert "result" in answer, answer
        return answer["result"]

    def good(self, name, **arguments):
        """The structured content of a tool that worked."""
        result = self.call(name, **arguments)
        assert not result["isError"], result
        return result["structuredContent"]

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
def test_a_session_is_its_users_own(make_server, users):
    settings, keys = users
    server = make_server(**settings)
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
    import time
    time.sleep(4.5)
    assert first.post("ping").status_code == 404


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
    assert got["traceback"].startswith('  File "<code>", line 1\n    def f(:\n')
    assert client.call("run_python", session_id="s", code="raise SystemExit(3)"
                       )["structuredContent"]["exit_code"] == 3


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
def test_another_users_session_is_another_one(make_server, users):
    settings, keys = users
    server = make_server(**settings)
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
    import threading
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
    got = client.good("run_code", session_id="s", language="shell", code="ls; cat", stdin="in")
    assert got["stdout"] == "a\nmain.sh\nin"
    assert "klingon" in client.bad("run_code", session_id="s", language="klingon", code="")


@once
def test_sandbox_run_is_one_shot_or_in_a_session(client):
    import base64
    got = client.good("sandbox.run", base_image="host", command=["cat", "a.txt"],
                      files=[{"path": "a.txt", "content_b64": base64.b64encode(b"hi").decode()}])
    assert got["stdout"] == "hi" and got["run_id"] and len(got["policy_hash"]) == 64
    assert got["log_stream_url"].endswith(f"/runs/{got['run_id']}/stream")
    assert "must have" in client.bad("sandbox.run", command=["true"])
    assert "exclude" in client.bad("sandbox.run", session_id="s", base_image="host", command=["true"])
    assert "session_not_found" in client.bad("sandbox.run", session_id="s", command=["true"])
    client.good("run_python", session_id="s", code="open('a','w').write('x')")
    assert client.good("sandbox.run", session_id="s", command=["ls"])["stdout"] == "a\n"
