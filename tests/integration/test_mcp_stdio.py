"""`belljar mcp`: how it finds or starts a server, and how it ends. What it carries is tested with
clients of others, in test_mcp_sdk.py."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import httpx
import pytest

from jar import SLOWER, eventually, processes_with
from server import BASE, make_server, users  # pylint: disable=unused-import

OPEN = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "test", "version": "1"}}}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


def lines(*messages):
    return "".join(f"{m if isinstance(m, str) else json.dumps(m)}\n" for m in messages)


class Host:
    """Programs on one state directory, and all that they leave behind."""

    def __init__(self, belljar):
        self.belljar = belljar
        self.root = belljar.home / "state"
        os.chmod(belljar.home, 0o755)

    def talk(self, *messages, **options):
        """All of it at once; the answers by their id."""
        done = self.belljar.run("mcp", "--root", self.root, input=lines(*messages), **options)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        return {a.get("id"): a for a in answers}

    def start(self, **options):
        """One that goes on, initialized."""
        it = self.belljar.start("mcp", "--root", self.root, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, **options)
        assert self.ask(it, OPEN)["result"]["protocolVersion"] == "2025-06-18"
        self.say(it, READY)
        return it

    @staticmethod
    def say(it, message):
        it.stdin.write(lines(message))
        it.stdin.flush()

    def ask(self, it, message):
        self.say(it, message)
        while True:
            answer = json.loads(it.stdout.readline())
            if answer.get("id") == message["id"]:
                return answer

    @staticmethod
    def end(it):
        it.stdin.close()
        assert it.wait(20 * SLOWER) == 0
        it.stdout.close()

    def servers(self):
        needle = f"--root\0{self.root}\0"
        return [pid for pid, line in processes_with(needle).items() if " serve " in line]

    def close(self):
        def tell(number):
            for pid, line in sorted(processes_with(f"--root\0{self.root}\0").items()):
                if f"--root {self.root}" in line:
                    with contextlib.suppress(OSError):
                        os.kill(pid, number)
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            tell(number)
            if eventually(lambda: not processes_with(f"--root\0{self.root}\0"), 8 * SLOWER):
                break


@pytest.fixture
def host(belljar):
    if "POST /mcp" not in belljar.run("serve", "--print-routes").stdout:
        pytest.skip("this build has no /mcp")
    it = Host(belljar)
    yield it
    it.close()


def test_all_at_once_on_an_empty_machine(host):
    answers = host.talk(OPEN, READY, PING, "nonsense", {"id": 7})
    assert answers[1]["result"]["protocolVersion"] == "2025-06-18"
    assert answers[2]["result"] == {}
    assert answers[None]["error"]["code"] == -32700
    assert answers[7]["error"]["code"] == -32600


META = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                  "io.modelcontextprotocol/clientCapabilities": {}}}


def single(number, method, **params):
    """A request that needs no session."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, **META}}


def python(number, code):
    return single(number, "tools/call", name="run_python", arguments={
        "session_id": "s", "code": code})


def test_without_a_session(host):
    answers = host.talk(single(1, "server/discover"), single(2, "ping"),
                        python(3, "open('ä', 'w'); print(6*7)"), single(4, "tools/list"),
                        {**single(5, "tools/list"), "params": {"_meta": {
                            **META["_meta"], "io.modelcontextprotocol/protocolVersion": "x"}}})
    assert "2026-07-28" in answers[1]["result"]["supportedVersions"]
    assert answers[2]["error"]["code"] == -32601
    assert answers[3]["result"]["structuredContent"]["stdout"] == "42\n"
    assert answers[4]["result"]["resultType"] == "complete"
    assert answers[5]["error"]["code"] == -32022
    answers = host.talk(single(1, "resources/read", uri="belljar://s/%C3%A4"), OPEN | {"id": 2})
    assert "contents" in answers[1]["result"] and "protocolVersion" in answers[2]["result"]


def test_without_a_session_one_listens_and_cancels(host, make_server):  # pylint: disable=redefined-outer-name
    server = make_server()
    it = host.belljar.start("mcp", "--root", host.root, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
    host.say(it, single("l", "subscriptions/listen", notifications={"resourcesListChanged": True}))
    assert json.loads(it.stdout.readline())["method"].endswith("acknowledged")
    host.say(it, python(2, "import time; time.sleep(60)"))
    assert eventually(lambda: server.get("/runs", params={"phase": "running"}).json()["items"])
    (live,) = server.get("/runs").json()["items"]
    host.say(it, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    assert server.wait_for(live["id"])["reason_code"] == "canceled_by_user"
    host.say(it, python(3, "open('a', 'w')"))
    got = [json.loads(it.stdout.readline()) for _ in range(2)]  # in any order
    (told,) = (m["params"] for m in got if "method" in m)
    assert told["_meta"] == {"io.modelcontextprotocol/subscriptionId": "l"}
    assert [m["id"] for m in got if "id" in m] == [3]
    host.end(it)  # it does not wait for who listens


def test_two_at_once_share_one_server(host):
    first, second = (host.belljar.start("mcp", "--root", host.root, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE) for _ in range(2))
    for it in (first, second):
        assert host.ask(it, OPEN)["result"]
        host.say(it, READY)
    assert len(host.servers()) == 1
    host.end(first)
    assert host.ask(second, PING)["result"] == {}
    host.end(second)


def test_the_server_on_the_root_is_used(host, make_server):  # pylint: disable=redefined-outer-name
    server = make_server()
    it = host.start()
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {
        "name": "run_python", "arguments": {"code": "print(6*7)", "session_id": "shared"}}}
    assert "42" in json.dumps(host.ask(it, call)["result"])
    assert len(host.servers()) == 1
    assert server.get("/sessions").json()["items"], "REST does not see the session"
    # Another server takes its place, and the client does not notice.
    server.restart()
    assert host.ask(it, {**call, "id": 6})["result"]
    server.kill()
    server.start()
    assert host.ask(it, {**call, "id": 7})["result"]
    host.end(it)


@pytest.mark.parametrize("has_server", [False, True])
def test_a_download_url_needs_no_key(host, make_server, has_server):  # pylint: disable=redefined-outer-name
    server = make_server() if has_server else None
    answers = host.talk(OPEN, READY, python(3, "open('a.txt', 'w').write('made')"))
    [made] = answers[3]["result"]["structuredContent"]["artifacts"]
    url = httpx.URL(made["download_url"])
    assert httpx.get(url, trust_env=False).text == "made"
    without = url.copy_with(query=None)
    assert httpx.get(without, trust_env=False).status_code == 401
    for name, value in (("token", "0" * 64), ("exp", "99999999999")):
        wrong = url.copy_set_param(name, value)
        assert httpx.get(wrong, trust_env=False).status_code in (401, 403)
    if server:
        # over HTTP the settings decide, and a client with a key gets a URL for its key
        message = python(4, "open('b.txt', 'w').write('b')")
        answer = server.client().post(f"{server.url}/mcp", json=message, headers={
            "Accept": "application/json, text/event-stream", "Mcp-Method": "tools/call",
            "Mcp-Name": "run_python", "MCP-Protocol-Version": "2026-07-28"})
        made = answer.json()["result"]["structuredContent"]["artifacts"]
        assert {m["filename"] for m in made} == {"a.txt", "b.txt"}
        assert not any("token=" in m["download_url"] for m in made)


def test_signals_end_it_cleanly(host):
    for number in (signal.SIGTERM, signal.SIGINT):
        it = host.start()
        it.send_signal(number)
        assert it.wait(10 * SLOWER) == 0
        it.stdin.close()
        it.stdout.close()


def is_dead(pid):
    """Not while a thread of it is on its way: the last one closes its sockets."""
    with contextlib.suppress(OSError):
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1
    return True


def test_a_killed_server_is_replaced(host):
    it = host.start()
    (killed,) = host.servers()
    os.kill(killed, signal.SIGKILL)
    assert (host.root / "data/serve.sock").exists()
    # It listens, and so may have started the next one before it is asked anything.
    assert eventually(lambda: is_dead(killed))
    assert host.ask(it, PING)["result"] == {}
    assert len(host.servers()) == 1
    host.end(it)


def test_who_is_gone_is_noticed(host):
    """The client dies in the middle of a call: so does its bridge, without an answer to write."""
    it = host.start(env={"SANDBOX_DRAIN_TIMEOUT_SEC": "0"})
    host.say(it, {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {
        "name": "run_python", "arguments": {"code": "import time; time.sleep(50)",
                                            "session_id": "s"}}})
    time.sleep(0.3)
    it.stdin.close()
    it.stdout.close()
    assert it.wait(10 * SLOWER) == 0


def test_a_server_by_hand_takes_over(host, make_server):  # pylint: disable=redefined-outer-name
    it = host.start()
    server = make_server()  # on the same root
    assert len(host.servers()) == 1
    assert host.ask(it, PING)["result"] == {}
    host.end(it)
    assert server.process.poll() is None


def test_the_socket_is_for_the_owner(make_server):  # pylint: disable=redefined-outer-name
    root = make_server().root
    socket = root / "data/serve.sock"
    assert socket.stat().st_mode & 0o777 == 0o600
    assert (root / "data").stat().st_mode & 0o077 == 0
    transport = httpx.HTTPTransport(uds=str(socket))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        assert client.get(f"{BASE}/sessions").status_code == 200  # no key: we are the owner, or root
        assert client.get(f"{BASE}/sessions", headers={"X-API-KEY": "wrong-key"}).status_code == 401
        evil = {"Origin": "http://evil.example"}
        assert client.get(f"{BASE}/sessions", headers=evil).status_code == 403


def test_with_users_a_key_is_asked_for(host, users, make_server):  # pylint: disable=redefined-outer-name
    settings, keys = users
    make_server(**settings)
    refused = host.talk(OPEN)
    assert "401" in refused[1]["error"]["message"]
    assert host.talk(OPEN, env={"SANDBOX_API_KEY": keys["ann"]})[1]["result"]


def test_what_is_wrong_is_said(belljar):
    done = belljar.run("mcp", "--nonsense")
    assert (done.returncode, "--nonsense" in done.stderr) == (125, True)
    done = belljar.run("mcp", "--root", "a/../b", input="")
    assert done.returncode == 125


def test_nobody_there_and_it_ends(make_server):  # pylint: disable=redefined-outer-name
    server = make_server("--idle-exit", "1s")
    assert server.run("true")["exit_code"] == 0
    beacon = server.root / "data/serve.url"
    assert beacon.read_text() == f"{server.url} on-demand\n"
    time.sleep(1.5)
    assert server.process.poll() is None, "the client is still connected"
    session = server.session()
    server.http.close()
    time.sleep(2)
    assert server.process.poll() is None, "a session is left"
    with httpx.Client(base_url=server.url + BASE, headers={"X-API-KEY": server.key}) as client:
        assert client.delete(f"/sessions/{session['id']}").status_code == 200
    assert server.process.wait(10 * SLOWER) == 0
    assert not beacon.exists() and not beacon.with_name("serve.sock").exists()
