"""Who may come in: keys, tokens, roles, other people's things, Host, Origin, rates."""
import asyncio
import json
import time
import uuid

import httpx
import jwt
import pytest

from server import BASE, WsRefused, make_server, server, users  # noqa: F401 (fixtures)

UNKNOWN = "Not authenticated (provide Bearer token or X-API-KEY)"
WRONG = "Not authenticated: unknown key, or invalid token"


@pytest.fixture
def crowd(make_server, users):
    """A server of many users, and a client for each of them."""
    settings, keys = users
    it = make_server(**settings)
    it.people = {name: it.client(key) for name, key in keys.items()}
    return it


# --- credentials ---

@pytest.mark.parametrize("headers", [
    {}, {"X-API-KEY": "wrong"}, {"X-API-KEY": ""}, {"Authorization": "Bearer wrong"},
    {"Authorization": "Bearer a.b.c"}, {"Authorization": "Basic eDp5"}])
def test_without_a_key_nothing_is_told(server, headers):
    client = server.client("", headers=headers)
    for method, path in (("GET", "/runs"), ("POST", "/runs"), ("GET", f"/runs/{uuid.uuid4()}"),
                         ("GET", "/sessions"), ("POST", "/sessions"),
                         ("GET", "/admin/approvals")):
        answer = client.request(method, path, json={} if method == "POST" else None)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["detail"] == (WRONG if any(headers.values()) else UNKNOWN)
        assert answer.json()["error"]["code"] == "unauthorized"


@pytest.mark.parametrize("scheme", ["X-API-KEY", "Bearer", "Authorization X-API-KEY"])
def test_every_way_to_show_a_key(server, scheme):
    headers = {"X-API-KEY": {"X-API-KEY": server.key},
               "Bearer": {"Authorization": f"Bearer {server.key}"},
               "Authorization X-API-KEY": {"Authorization": f"X-API-KEY {server.key}"}}[scheme]
    assert server.client("", headers=headers).get("/runs").status_code == 200


def test_a_key_in_the_query_is_none(server):
    client = server.client("")
    for name in ("auth_token", "api_key", "key", "token"):
        assert client.get("/runs", params={name: server.key}).status_code == 401


def test_a_key_of_the_settings(make_server):
    server = make_server(SANDBOX_API_KEY="a-key-that-is-long-enough-to-be-one")
    client = server.client("a-key-that-is-long-enough-to-be-one")
    assert client.get("/runs").status_code == 200
    assert server.client("another-key-that-is-long-enough-to-be").get("/runs").status_code == 401


def test_tokens(make_server):
    secret = "s" * 40
    server = make_server(SANDBOX_JWT_ALG="HS256", SANDBOX_JWT_SECRET=secret)

    def ask(key=secret, alg="HS256", path="/runs", **claims):
        token = jwt.encode({"sub": "ann", "exp": time.time() + 60, **claims}, key, alg)
        return server.client("", headers={"Authorization": f"Bearer {token}"}).get(path)
    assert ask().status_code == 200
    assert ask(exp=time.time() - 60).status_code == 401
    assert ask(key="x" * 40).status_code == 401
    assert ask(alg="HS384").status_code == 401
    assert ask(sub="../x").status_code == 401
    none = jwt.encode({"sub": "ann", "exp": time.time() + 60}, None, "none")
    client = server.client("", headers={"Authorization": f"Bearer {none}"})
    assert client.get("/runs").status_code == 401
    for claims, status in (({}, 403), ({"is_admin": True}, 200), ({"is_admin": "true"}, 403),
                           ({"role": "sandbox_admin"}, 200), ({"role": "user"}, 403)):
        assert ask(path="/admin/runs", **claims).status_code == status, claims
    assert ask(path="/admin/runs", key="x" * 40, is_admin=True).status_code == 401


# --- whose it is ---

def test_what_belongs_to_others_is_not_there(crowd):
    ann, bob = crowd.people["ann"], crowd.people["bob"]
    session = crowd.session(client=ann)["id"]
    run = crowd.start_run("sleep", "60", client=ann).json()["id"]
    for method, path in (
            ("GET", f"/runs/{run}"), ("POST", f"/runs/{run}/cancel"),
            ("GET", f"/runs/{run}/artifacts"), ("GET", f"/runs/{run}/artifacts/x"),
            ("GET", f"/sessions/{session}"), ("DELETE", f"/sessions/{session}"),
            ("POST", f"/sessions/{session}/snapshot"), ("POST", f"/sessions/{session}/clone"),
            ("GET", f"/sessions/{session}/snapshots")):
        assert bob.request(method, path).status_code == 404, path
    assert crowd.upload(session, ("a", b"b"), client=bob).status_code == 404
    inside = crowd.start_run("true", session_id=session, client=bob)
    assert (inside.status_code, inside.json()["detail"]) == (404, "session_not_found")
    assert bob.get("/runs").json()["total"] == bob.get("/sessions").json()["total"] == 0
    assert ann.get("/runs").json()["total"] == ann.get("/sessions").json()["total"] == 1
    assert ann.get(f"/runs/{run}").json()["phase"] != "killed"
    assert ann.post(f"/runs/{run}/cancel").json()["cancelled"] is True
    assert bob.get(f"/runs/{run}").status_code == 404  # and when it is over, neither


def test_keys_of_idempotency_are_each_users_own(crowd):
    def ask(name, *command):
        return crowd.start_run(*command, client=crowd.people[name],
                               headers={"Idempotency-Key": "k"})
    ann, bob = ask("ann", "true"), ask("bob", "false")
    assert (ann.status_code, bob.status_code) == (200, 200)
    assert ann.json()["id"] != bob.json()["id"]


def test_admins_see_every_run_and_others_no_admin_page(crowd):
    run = crowd.start_run("true", client=crowd.people["ann"]).json()["id"]
    assert crowd.people["boss"].get(f"/runs/{run}").status_code == 200
    assert crowd.people["boss"].get("/admin/approvals").status_code == 200
    for method, path in (("GET", "/admin/approvals"), ("POST", f"/admin/runs/{run}/approve"),
                         ("POST", f"/admin/runs/{run}/deny")):
        answer = crowd.people["ann"].request(method, path)
        assert answer.status_code == 403
        assert answer.json()["detail"] == "Access denied. Required role(s): admin"
        assert answer.json()["error"]["code"] == "forbidden"


# --- Host and Origin ---

@pytest.mark.parametrize("host, status", [
    ("localhost", 200), ("LocalHost:1", 200), ("127.0.0.1:9", 200), ("[::1]:9", 200),
    ("box.example:80", 200), ("evil.example", 403), ("localhost.evil.example", 403),
    ("127.0.0.1.evil.example", 403), ("", 403)])
def test_only_our_own_names(make_server, host, status):
    server = make_server(SANDBOX_ALLOWED_HOSTS="box.example")
    answer = server.get("/runs", headers={"Host": host})
    assert answer.status_code == status, answer.text
    if status == 403:
        assert answer.json()["error"]["code"] == "forbidden"


@pytest.mark.parametrize("origin, status", [
    ("http://127.0.0.1:{port}", 200), ("https://app.example", 200), ("http://app.example", 403),
    ("http://127.0.0.1:1", 403), ("http://localhost:{port}", 403), ("http://localhost", 403),
    ("https://evil.example", 403), ("null", 403), ("http://localhost.evil.example", 403)])
def test_only_pages_that_may(make_server, origin, status):
    server = make_server(SANDBOX_ALLOWED_ORIGINS="https://app.example")
    origin = origin.format(port=server.port)
    assert server.get("/runs", headers={"Origin": origin}).status_code == status


def test_strange_names_get_no_socket_either(server):
    run = server.run("true")["id"]

    def refused(**headers):
        with httpx.Client(trust_env=False) as client:
            return client.get(f"{server.url}{BASE}/runs/{run}/stream", headers={
                "X-API-KEY": server.key, "Connection": "Upgrade", "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers}).status_code
    assert refused(Origin="https://evil.example") == 403
    assert refused(Host="evil.example") == 403


def first_frame(server, path):
    async def receive():
        async with server.connect(path, key="") as stream:
            return await stream.recv()
    return asyncio.run(receive())


def test_a_socket_takes_the_key_from_the_query(server):
    path = f"{BASE}/runs/{server.run('true')['id']}/stream"
    assert json.loads(first_frame(server, f"{path}?auth_token={server.key}"))["seq"] == 1
    with pytest.raises(WsRefused):
        first_frame(server, f"{path}?auth_token=wrong")
    with pytest.raises(WsRefused):
        first_frame(server, f"{path}?api_key={server.key}")
    assert server.key not in server.log()


# --- rates ---

def test_too_many_requests_of_one_user(make_server, users):
    settings, keys = users
    server = make_server(**settings, SANDBOX_RATE_LIMIT_PER_USER=5)
    ann, bob = server.client(keys["ann"]), server.client(keys["bob"])
    answers = [ann.get("/runs") for _ in range(8)]
    assert [a.status_code for a in answers[:5]] == [200] * 5
    late = answers[-1]
    assert late.status_code == 429
    assert late.json()["error"]["code"] == "rate_limited"
    assert late.json()["error"]["details"]["scope"] == "user"
    assert int(late.headers["retry-after"]) >= 1
    assert bob.get("/runs").status_code == 200


def test_too_many_requests_of_one_address(make_server):
    server = make_server(SANDBOX_RATE_LIMIT_PER_IP=5)
    client = server.client("wrong")
    codes = [client.get("/runs").status_code for _ in range(8)]
    assert codes[0] == 401 and codes[-1] == 429
    assert server.get("/runs").status_code == 429
    # What watches over it may come from the same address.
    assert [client.get(server.url + path).status_code for path in ("/healthz", "/readyz")
            for _ in range(10)] == [200] * 20
