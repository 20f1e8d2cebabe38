"""The MCP door without sessions: revision 2026-07-28, spoken to by hand."""
import base64
import concurrent.futures
import contextlib
import json
import threading

import httpx
import jsonschema
import pytest

from jar import SLOWER, eventually
from server import make_server, server, server_of_users, users  # noqa: F401 (fixtures)

VERSION = "2026-07-28"
BOTH = "application/json, text/event-stream"
PREFIX = "io.modelcontextprotocol/"
META = {PREFIX + "protocolVersion": VERSION, PREFIX + "clientCapabilities": {}}
SUBJECTS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
CACHED = {"server/discover": "public", "tools/list": "public", "prompts/list": "public",
          "resources/templates/list": "public", "resources/list": "private"}
once = pytest.mark.once


def messages(text):
    """What a stream of events said."""
    assert "id: " not in text and "retry: " not in text
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


class Client:
    """One who sends requests, each by itself."""

    def __init__(self, server, key=None, **options):
        self.http = server.client(key, headers={"Accept": BOTH}, timeout=60 * SLOWER, **options)
        self.url = server.url + "/mcp"
        self.numbers = iter(range(1, 1000000))

    def message(self, method, params=None, meta=None):
        return {"jsonrpc": "2.0", "id": next(self.numbers), "method": method,
                "params": {**(params or {}), "_meta": META if meta is None else meta}}

    @staticmethod
    def headers(message):
        it = {"MCP-Protocol-Version": VERSION, "Mcp-Method": message["method"]}
        if message["method"] in SUBJECTS:
            name = message["params"].get(SUBJECTS[message["method"]], "")
            it["Mcp-Name"] = name if name.isascii() else (
                f"=?base64?{base64.b64encode(name.encode()).decode()}?=")
        return it

    def send(self, message, **headers):
        """With the headers that belong to it; None leaves one out."""
        these = {**self.headers(message), **{k.replace("_", "-"): v for k, v in headers.items()}}
        return self.http.post(self.url, json=message, headers={
            name: value for name, value in these.items() if value is not None})

    def stream(self, message):
        return self.http.stream("POST", self.url, json=message, headers=self.headers(message))

    def ask(self, method, params=None, meta=None):
        """The result."""
        message = self.message(method, params, meta)
        answer = self.send(message)
        assert answer.status_code == 200, answer.text
        assert "mcp-session-id" not in answer.headers
        is_json = answer.headers["content-type"] == "application/json"
        got = answer.json() if is_json else messages(answer.text)[-1]
        assert got["id"] == message["id"] and "result" in got, got
        assert got["result"]["resultType"] == "complete"
        assert got["result"]["_meta"][PREFIX + "serverInfo"]["name"] == "belljar"
        return got["result"]

    def call(self, name, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def good(self, name, **arguments):
        result = self.call(name, **arguments)
        assert not result["isError"], result
        return result["structuredContent"]

    def refused(self, status, code, message, **headers):
        """The error, with the id of what was asked."""
        answer = self.send(message, **headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
        assert answer.json()["id"] == message["id"]
        return answer.json()["error"]


@pytest.fixture
def client(server):
    return Client(server)


# --- the protocol ---

@once
def test_what_there_is_can_be_discovered(client):
    found = client.ask("server/discover")
    assert found["supportedVersions"] == [VERSION, "2025-11-25", "2025-06-18", "2025-03-26"]
    assert set(found["capabilities"]) >= {"tools", "resources", "prompts", "completions"}
    assert "session_id" in found["instructions"]
    for method, scope in CACHED.items():
        result = client.ask(method)
        assert result["cacheScope"] == scope
        assert (result["ttlMs"] > 0) == (scope == "public")


@once
def test_lists_prompts_and_completion_are_as_ever(client):
    tools = client.ask("tools/list")["tools"]
    assert tools == client.ask("tools/list")["tools"] and "run_python" in [t["name"] for t in tools]
    assert client.ask("prompts/list")["prompts"]
    client.good("run_python", session_id="sess_1", code="1")
    got = client.ask("completion/complete", {
        "ref": {"type": "ref/prompt", "name": "analyze_file"},
        "argument": {"name": "session_id", "value": "se"}})
    assert got["completion"]["values"] == ["sess_1"] and "ttlMs" not in got
    got = client.ask("prompts/get", {"name": "analyze_file", "arguments": {
        "session_id": "s", "path": "a.csv"}})
    assert got["messages"]


def test_python_runs_and_its_files_can_be_read(client):
    """Nothing is remembered but the session of code, which each request names."""
    got = client.good("run_python", session_id="s", code="print(6*7)\nopen('ä.txt','w').write('x')")
    tools = {t["name"]: t for t in client.ask("tools/list")["tools"]}
    same = client.good("run_code", session_id="s", language="python", code="print(6*7)")
    jsonschema.validate(same, tools["run_code"]["outputSchema"])
    assert got["stdout"] == same["stdout"] == "42\n"
    assert [a["path"] for a in got["artifacts"]] == ["/mnt/data/ä.txt"]
    assert client.http.get(got["artifacts"][0]["download_url"]).text == "x"
    (resource,) = client.ask("resources/list")["resources"]
    read = client.ask("resources/read", {"uri": resource["uri"]})
    assert read["contents"][0]["text"] == "x"
    assert (read["ttlMs"], read["cacheScope"]) == (0, "private")
    assert client.call("run_python", session_id="s", code="1/0")["isError"]


@once
def test_versions_that_are_not_spoken_are_refused(client):
    meta = {**META, PREFIX + "protocolVersion": "2099-01-01"}
    error = client.refused(400, -32022, client.message("tools/list", meta=meta),
                           MCP_Protocol_Version="2099-01-01")
    assert error["data"]["requested"] == "2099-01-01" and VERSION in error["data"]["supported"]
    for wrong in ({}, {k: v for k, v in META.items() if "Version" not in k},
                  {k: v for k, v in META.items() if "Cap" not in k},
                  {**META, PREFIX + "logLevel": "loud"}):
        client.refused(400, -32602, client.message("tools/list", meta=wrong))


@once
def test_headers_must_say_what_the_body_says(client):
    names = client.message("tools/call", {"name": "list_files", "arguments": {"session_id": "s"}})
    for wrong in ({"MCP_Protocol_Version": None}, {"MCP_Protocol_Version": "2025-11-25"},
                  {"MCP_Protocol_Version": "2099-01-01"}, {"Mcp_Method": None},
                  {"Mcp_Method": "tools/list"}, {"Mcp_Method": "TOOLS/CALL"}, {"Mcp_Name": None},
                  {"Mcp_Name": "close_session"}, {"Mcp_Name": "=?base64?!?="},
                  {"Mcp_Name": "=?base64?bGlzdA==?="}):
        client.refused(400, -32020, names, **wrong)
    legacy = {**META, PREFIX + "protocolVersion": "2025-11-25"}
    client.refused(400, -32020, client.message("tools/list", meta=legacy))
    encoded = base64.b64encode(b"list_files").decode()
    assert client.send(names, Mcp_Name=f"=?base64?{encoded}?=").status_code == 200
    assert client.send(names, Mcp_Session_Id="x", Last_Event_ID="1-1").status_code == 200
    assert client.send(names, Origin="http://evil.example").status_code == 403


@once
@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe",
                                    "resources/unsubscribe", "tasks/get", "x"])
def test_methods_that_are_gone_are_not_found(client, method):
    client.refused(404, -32601, client.message(method, {"uri": "belljar://s/a", "level": "info"}))


@once
def test_what_is_no_request_is_not_answered(client):
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    answer = client.send(note)
    assert (answer.status_code, answer.text) == (202, "")
    head = {"MCP-Protocol-Version": VERSION}
    for wrong in ([client.message("tools/list")], {"jsonrpc": "2.0", "id": 1, "result": {}}):
        answer = client.http.post(client.url, json=wrong, headers=head)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
    assert client.http.get(client.url, headers=head).status_code == 405
    assert client.http.delete(client.url, headers=head).status_code == 405


@once
def test_what_is_not_there_is_a_wrong_parameter(client):
    for method, params in (("resources/read", {"uri": "belljar://none/x"}),
                           ("tools/call", {"name": "none"}), ("prompts/get", {"name": "none"}),
                           ("tools/list", {"cursor": "x"})):
        answer = client.send(client.message(method, params))
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32602)


# --- users ---

@once
def test_users_share_nothing(server_of_users):
    server, keys = server_of_users
    ann, bob = Client(server, keys["ann"]), Client(server, keys["bob"])
    ann.good("run_python", session_id="s", code="open('secret','w').write('x')")
    got = bob.good("run_python", session_id="s", code="import os; print(os.listdir())")
    assert got["stdout"] == "[]\n"
    (hers,) = ann.ask("resources/list")["resources"]
    assert bob.ask("resources/list")["resources"] == []
    answer = bob.send(bob.message("resources/read", {"uri": hers["uri"]}))
    assert answer.json()["error"]["code"] == -32602
    with bob.stream(listen(bob, hers["uri"])) as stream:
        lines = data_of(stream)
        assert "acknowledged" in next(lines)["method"]
        ann.good("run_python", session_id="s", code="open('secret','w').write('changed')")
        bob.good("run_python", session_id="t", code="open('own','w').write('x')")
        assert next(lines)["method"] == "notifications/resources/list_changed"
    assert Client(server, "wrong").send(bob.message("tools/list")).status_code == 401


# --- while it runs ---

@once
def test_progress_and_logs_come_with_the_request_that_wants_them(client):
    code = {"name": "run_python", "arguments": {"session_id": "s", "code": "import time; time.sleep(2.2)"}}
    answer = client.send(client.message("tools/call", code))
    assert [m.get("method") for m in messages(answer.text)] == [None]
    meta = {**META, "progressToken": "p", PREFIX + "logLevel": "debug"}
    answer = client.send(client.message("tools/call", code, meta))
    assert answer.headers["x-accel-buffering"] == "no" and "mcp-session-id" not in answer.headers
    *before, last = messages(answer.text)
    assert "notifications/progress" in {m["method"] for m in before}
    assert last["result"]["resultType"] == "complete"


@once
@pytest.mark.parametrize("delay", [0.3, 2])
def test_who_hangs_up_cancels(server, client, delay):
    """Before the stream of the answer has begun, and after."""
    message = client.message("tools/call", {"name": "run_python", "arguments": {
        "session_id": "s", "code": "import time; time.sleep(60)"}})
    with contextlib.suppress(Exception):
        client.http.post(client.url, json=message, headers=client.headers(message),
                         timeout=delay * SLOWER)
    (live,) = server.get("/runs").json()["items"]
    assert server.wait_for(live["id"])["reason_code"] == "canceled_by_user"
    client.good("run_python", session_id="s", code="1")


@once
def test_many_at_once(server, client):
    """The same ids, at the same time: requests know nothing of each other."""
    def work(n):
        own = Client(server)
        return [own.good("run_python", session_id=f"s{n}", code=f"print({n} + {i})")["stdout"]
                for i in range(3)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(work, range(8)))
    assert got == [[f"{n + i}\n" for i in range(3)] for n in range(8)]
    assert client.ask("resources/list")["resources"] == []


@once
def test_requests_under_way_are_counted(server, client):
    many = Client(server, limits=httpx.Limits(max_connections=None))
    with contextlib.ExitStack() as stack:
        for _ in range(256):
            assert stack.enter_context(many.stream(listen(many))).status_code == 200
        answer = client.send(client.message("tools/list"))
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert eventually(lambda: client.send(client.message("tools/list")).status_code == 200)


# --- subscriptions/listen ---

def listen(client, *uris, **more):
    return client.message("subscriptions/listen", {"notifications": {
        "resourceSubscriptions": list(uris), "resourcesListChanged": True, **more}})


def data_of(stream):
    assert stream.status_code == 200
    for line in stream.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])


@once
def test_who_listens_is_told_of_changes(server, client):
    message = listen(client, "belljar://s/a", toolsListChanged=True)
    worker = Client(server)
    with client.stream(message) as stream:
        lines = data_of(stream)
        first = next(lines)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {
            "resourcesListChanged": True, "resourceSubscriptions": ["belljar://s/a"]}
        worker.good("run_python", session_id="s", code="open('a','w').write('1')")
        told = [next(lines), next(lines)]
        assert [m["method"].split("/", 1)[1] for m in told] == [
            "resources/updated", "resources/list_changed"]
        assert told[0]["params"]["uri"] == "belljar://s/a"
        assert all(m["params"]["_meta"] == {PREFIX + "subscriptionId": message["id"]}
                   for m in (first, *told))


@once
def test_only_what_was_asked_for_is_told(server, client):
    message = listen(client, "belljar://s/b", resourcesListChanged=False)
    worker = Client(server)
    with client.stream(message) as stream:
        lines = data_of(stream)
        assert "resourcesListChanged" not in next(lines)["params"]["notifications"]
        worker.good("run_python", session_id="s", code="open('a','w').write('1')")
        worker.good("run_python", session_id="s", code="open('b','w').write('1')")
        assert next(lines)["params"]["uri"] == "belljar://s/b"


@once
def test_listening_has_limits(client):
    for wrong in ({}, {"notifications": []}, {"notifications": {"resourceSubscriptions": "x"}},
                  {"notifications": {"resourceSubscriptions": [7]}},
                  {"notifications": {"resourceSubscriptions": ["x" * 1025]}},
                  {"notifications": {"resourceSubscriptions": ["x"] * 257}}):
        answer = client.send(client.message("subscriptions/listen", wrong))
        assert answer.json()["error"]["code"] == -32602
    answer = client.send(listen(client), Accept="application/json")
    assert answer.json()["error"]["code"] == -32600


@once
def test_the_end_of_the_server_ends_them(server, client):
    held = threading.Event()

    def hold():
        with contextlib.suppress(Exception), client.stream(listen(client)) as stream:
            for _ in data_of(stream):
                held.set()
    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(20 * SLOWER)
    server.process.terminate()
    assert server.process.wait(20 * SLOWER) == 0
    thread.join(20 * SLOWER)
    assert not thread.is_alive()
