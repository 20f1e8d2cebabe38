"""docs/openapi.yaml: what the server serves, what its table of routes has, and what it really
answers are the same."""
import asyncio
import copy
import json
import pathlib
import re
import subprocess
import sys

import jsonschema
import pytest
import yaml

from server import BASE, make_server, server, users  # noqa: F401 (fixtures)

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = TOP / "docs/openapi.yaml"
METHODS = ("get", "post", "put", "patch", "delete")
PROBES = ("/healthz", "/readyz")  # which may ask as often as they like
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def document():
    return yaml.safe_load(SOURCE.read_text())


def operations(document):
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method], item


def resolve(document, node):
    while "$ref" in node:
        at = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            at = at[part]
        node = at
    return node


class Checker:
    """Looks at answers: their status must be one of the operation's, their body must fit its
    schema and have nothing that is not written there."""

    def __init__(self, document):
        self.document = document
        self.seen = set()

    def schema_errors(self, schema, value):
        if "anyOf" in schema:
            return min((self.schema_errors(s, value) for s in schema["anyOf"]), key=len)
        whole = {**copy.deepcopy(schema), "components": self.document["components"]}
        if {"$ref", "allOf", "properties"} & whole.keys():
            whole.setdefault("unevaluatedProperties", False)
        validator = jsonschema.Draft202012Validator(
            whole, format_checker=jsonschema.FormatChecker())
        return [f"{list(e.absolute_path)}: {e.message[:300]}" for e in validator.iter_errors(value)]

    def __call__(self, path, answer, method="get"):
        operation = self.document["paths"][path][method]
        status = str(answer.status_code)
        assert status in operation["responses"], f"{method} {path} does not have {status}"
        self.seen.add((method, path, status))
        response = resolve(self.document, operation["responses"][status])
        content = response.get("content", {})
        kind = answer.headers.get("content-type", "").split(";")[0]
        if not content or "*/*" in content:
            return answer
        assert kind in content, f"{method} {path} {status}: {kind}"
        if kind.endswith("json"):
            errors = self.schema_errors(content[kind]["schema"], answer.json())
            assert not errors, f"{method} {path} {status}: {errors}\n{answer.text[:2000]}"
        return answer


@pytest.fixture(scope="module")
def check(document):
    return Checker(document)


# --- the document itself ---

def test_what_the_build_reads_is_what_any_parser_reads(document, tmp_path):
    output = tmp_path / "openapi.json"
    subprocess.run([sys.executable, TOP / "tools/yaml2json", SOURCE, output], check=True)
    assert json.loads(output.read_text()) == document


@pytest.mark.parametrize("text, line", [
    ("a: 1\n\tb: 2\n", 2), ("a: &x 1\n", 1), ("a: *x\n", 1), ("a: !t 1\n", 1), ("a: |\n  x\n", 1),
    ("a: 1\na: 2\n", 2), ("a: {b: 1, b: 2}\n", 1), ("a:\n  b: 1\n   c: 2\n", 3), ("a: 'x\n", 1),
    ("a: [1, 2\n", 1), ("a: yes\n", 1), ("a: 010\n", 1), ("a: 1e3\n", 1), ("a: b: c\n", 1),
    ("a: x # y\n", 1), ("--- \n", 1), ("---\na: 1\n", 1), ("200: x\n", 1), ("", 1),
    ("a: 'x' y\n", 1),
    ("- 1\nb: 2\n", 2), ("? a\n", 1), ("a: >\n  x\n", 1), ("a: \"\\x41\"\n", 1), ("a: 1 \n", 1),
    ("a: @x\n", 1), ("a:\n-\n  - 1\n", 2), ("a: True\n", 1), ("a: ~\n", 1),
])
def test_other_yaml_is_refused_with_its_line(tmp_path, text, line):
    source = tmp_path / "x.yaml"
    source.write_text(text)
    done = subprocess.run([sys.executable, TOP / "tools/yaml2json", source, tmp_path / "y"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f": line {line}: " in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("text", [
    "a: 1\nb: -2.5\nc: null\nd: true\ne: 'it''s'\nf: \"q\\\"\\u00e4\\n\"\ng: x y\n",
    "a:\n- 1\n- [2, {b: 'x, y'}, []]\n- [3]\n- c: 4\n  d:\n    - e: 5\nf: {}\n",
    "# note\na: >-\n  one\n  two\nb:\n  # inside\n  c: 1\n\nd:\n",
    "'200': {$ref: '#/x'}\n\"k\": http://x/y\nz: 2026-x\n",
])
def test_our_yaml_means_what_it_means_elsewhere(tmp_path, text):
    source, output = tmp_path / "x.yaml", tmp_path / "y.json"
    source.write_text(text)
    subprocess.run([sys.executable, TOP / "tools/yaml2json", source, output], check=True)
    assert json.loads(output.read_text()) == yaml.safe_load(text)


def test_every_reference_leads_somewhere_and_everything_is_used(document):
    refs = set(re.findall(r"'#/([^']+)'", SOURCE.read_text()))
    for ref in refs:
        resolve(document, {"$ref": "#/" + ref})
    for group, members in document["components"].items():
        if group == "securitySchemes":
            continue
        unused = {name for name in members if f"components/{group}/{name}" not in refs}
        assert unused <= {"Frame", "Input"}, unused


def test_operations_have_names_and_path_parameters(document):
    names = [operation["operationId"] for _, _, operation, _ in operations(document)]
    assert len(names) == len(set(names))
    for method, path, operation, item in operations(document):
        listed = [resolve(document, p) for p in
                  item.get("parameters", []) + operation.get("parameters", [])]
        in_path = {p["name"] for p in listed if p["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path)), (method, path)
        assert operation["summary"] and operation["tags"]
        needs_key = operation.get("security") not in ([],)
        assert ("401" in operation["responses"]) == needs_key, (method, path)
        assert {"403", "default"} <= operation["responses"].keys(), (method, path)
        assert ("429" in operation["responses"]) == (path not in PROBES), (method, path)


def test_schemas_are_schemas(document):
    for name, schema in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert isinstance(schema, dict), name


# --- the routes ---

@pytest.mark.once
def test_document_and_routes_agree(belljar, document):
    done = belljar.run("serve", "--print-routes")
    assert done.returncode == 0, done.stderr
    routes = set()
    for line in done.stdout.splitlines():
        method, pattern = line.split()
        routes.add(("get" if method == "WS" else method.lower(), pattern.replace("*}", "}")))
    written = {(method, path) for method, path, _, _ in operations(document)}
    assert routes - written == set(), "not in the document"
    assert written - routes == set(), "not in the server"


@pytest.mark.once
def test_the_server_serves_it(server, document):
    answer = server.client("").get(server.url + "/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == document
    version = server.client("").get(server.url + "/").json()["version"]
    assert document["info"]["version"] == version


# --- real answers ---

def api(path):
    return f"{BASE}{path}"


@pytest.mark.once
def test_answers_about_the_server_fit(server, check):
    stranger = server.client("")
    for path in ("/", "/healthz", "/readyz", "/metrics", "/openapi.json"):
        check(path, stranger.get(server.url + path))
    check(api("/health/public"), stranger.get("/health/public"))
    for path in ("/runtimes", "/health"):
        check(api(path), server.get(path))
        check(api(path), stranger.get(path))
        check(api(path), stranger.get(path, headers={"Accept": "application/problem+json"}))


@pytest.mark.once
def test_answers_about_an_interpreter_fit(server, check):
    session_id = server.session()["id"]
    kernel = f"/sessions/{session_id}/kernel"
    server.upload(session_id, ("d/a.txt", b"a"))
    files = f"/sessions/{session_id}/files"
    check(api("/sessions/{id}/files"), server.get(files))
    check(api("/sessions/{id}/files"), server.get(files, params={"path": "nothing"}))
    check(api("/sessions/{id}/kernel"), server.get(kernel))
    for body in ({"code": "1"}, {"code": "1 / 0"}, {"code": 1}):
        check(api("/sessions/{id}/kernel/executions"),
              server.post(f"{kernel}/executions", json=body), "post")
    check(api("/sessions/{id}/kernel"), server.get(kernel))
    for verb in ("interrupt", "restart"):
        check(api("/sessions/{id}/kernel/" + verb), server.post(f"{kernel}/{verb}"), "post")


@pytest.mark.once
def test_answers_about_runs_fit(server, check):
    runs, one = api("/runs"), api("/runs/{id}")
    run = check(runs, server.start_run("sh", "-c", "echo hi; echo 1 >a.csv", labels={"a": "b"},
                                       params={"wait": 30}, capture_patterns=["*"],
                                       headers={"Idempotency-Key": "k"}), "post").json()
    assert run["stdout"] == "hi\n"
    live = check(runs, server.start_run("sleep", "20"), "post").json()
    check(runs, server.start_run("true", headers={"Idempotency-Key": "k"}), "post")  # 409
    check(runs, server.start_run("true", spec_version="0.9"), "post")
    check(runs, server.start_run("true", session_id=UNKNOWN), "post")
    check(runs, server.start_run("true", timeout_sec=0), "post")
    check(runs, server.start_run("true", runtime="docker"), "post")
    check(runs, server.post("/runs", content="{"), "post")
    check(runs, server.post("/runs", content="x", headers={"Content-Type": "text/x"}), "post")
    check(runs, server.post("/runs", content="x" * (5 << 20)), "post")
    check(runs, server.get("/runs", params={"limit": 1}))
    check(runs, server.get("/runs", params={"limit": 0}))
    for run_id in (run["id"], live["id"], UNKNOWN):
        check(one, server.get(f"/runs/{run_id}"))
        check(api("/runs/{id}/artifacts"), server.get(f"/runs/{run_id}/artifacts"))
        check(api("/runs/{id}/logs"), server.get(f"/runs/{run_id}/logs"))
        check(api("/runs/{id}/cancel"), server.post(f"/runs/{run_id}/cancel"), "post")
    check(api("/runs/{id}/stream"), server.get(f"/runs/{run['id']}/stream"))
    file = api("/runs/{id}/artifacts/{path}")
    for path, headers in (("a.csv", {}), ("a.csv", {"Range": "bytes=0-0"}),
                          ("a.csv", {"Range": "bytes=9-"}), ("a.csv", {"Range": "bytes=0-0,1-1"}),
                          ("a.csv", {"If-None-Match": "*"}),
                          ("b.csv", {}), ("a%5cb", {})):
        check(file, server.get(f"/runs/{run['id']}/artifacts/{path}", headers=headers))


@pytest.mark.once
def test_frames_fit(make_server, document, check):
    server = make_server(SANDBOX_WS_HEARTBEAT_SEC="0.2", SANDBOX_MAX_LOG_BYTES=100)
    run_id = server.start_run(
        "sh", "-c", "echo a; sleep 0.7; echo b >&2; printf '\\377'; seq 1000").json()["id"]

    async def go():
        frames = []
        async with server.connect(f"{BASE}/runs/{run_id}/stream?from_seq=1") as ws:
            while not frames or frames[-1].get("event") != "end":
                frames.append(json.loads(await asyncio.wait_for(ws.recv(), 30)))
        return frames
    frames = asyncio.run(go())
    schema = document["components"]["schemas"]["Frame"]
    for frame in frames:
        assert not check.schema_errors(schema, frame), frame
    assert {f["type"] for f in frames} == {"stdout", "stderr", "event", "heartbeat", "truncated"}


@pytest.mark.once
def test_answers_about_sessions_fit(server, check):
    sessions, one = api("/sessions"), api("/sessions/{id}")
    session = check(sessions, server.post("/sessions", json={"base_image": "host"},
                                          headers={"Idempotency-Key": "k"}), "post").json()
    check(sessions, server.post("/sessions", json={"timeout_sec": 0}), "post")
    check(sessions, server.post("/sessions", json={"spec_version": "9"}), "post")
    check(sessions, server.post("/sessions", json={"runtime": "docker"}), "post")
    check(sessions, server.get("/sessions"))
    here, nowhere = f"/sessions/{session['id']}", f"/sessions/{UNKNOWN}"
    check(one, server.get(here))
    check(one, server.get(nowhere))
    files = api("/sessions/{id}/files")
    check(files, server.upload(session["id"], ("a.txt", "x")), "post")
    check(files, server.upload(UNKNOWN, ("a.txt", "x")), "post")
    for where in (f"{session['id']}/a.txt", f"{session['id']}/b.txt", f"{UNKNOWN}/a.txt",
                  f"{session['id']}/x..y"):
        check("/files/{id}/{path}", server.client().get(f"{server.url}/files/{where}"))
    check("/files/{id}/{path}", server.client().get(f"{server.url}/files/{session['id']}/a.txt",
                                                    headers={"Range": "bytes=9-"}))
    check(files, server.post(here + "/files", content="x", headers={"Content-Type": "text/x"}),
          "post")
    snapshot = check(api("/sessions/{id}/snapshot"), server.post(here + "/snapshot"), "post").json()
    check(api("/sessions/{id}/snapshots"), server.get(here + "/snapshots"))
    restore = api("/sessions/{id}/restore")
    check(restore, server.post(here + "/restore", json={"snapshot_id": snapshot["snapshot_id"]}),
          "post")
    check(restore, server.post(here + "/restore", json={"snapshot_id": "snap-000000000000"}),
          "post")
    check(restore, server.post(here + "/restore", json={}), "post")
    clone = check(api("/sessions/{id}/clone"), server.post(here + "/clone"), "post").json()
    assert clone["cloned_from"] == session["id"]
    for _ in range(2):
        check(api("/sessions/{id}/snapshots/{snapshot}"),
              server.delete(f"{here}/snapshots/{snapshot['snapshot_id']}"), "delete")
    run = server.start_run("sleep", "20", session_id=session["id"]).json()
    check(api("/sessions/{id}/snapshot"), server.post(here + "/snapshot"), "post")
    server.post(f"/runs/{run['id']}/cancel")
    check(one, server.delete(here), "delete")
    check(one, server.delete(here), "delete")


@pytest.mark.once
def test_answers_to_clients_of_mcp_fit(server, check):
    client, url = server.client(), server.url + "/mcp"
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-11-25", "capabilities": {}}}
    answer = check("/mcp", client.post(url, json=hello), "post")
    check("/mcp", client.post(url, content="{"), "post")
    check("/mcp", client.post(url, json=hello, headers={"Accept": "text/html"}), "post")
    check("/mcp", client.post(url, json=hello, headers={"Content-Type": "text/x"}), "post")
    check("/mcp", client.get(url))
    headers = {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
    with client.stream("GET", url, headers=headers) as stream:
        check("/mcp", stream)
    check("/mcp", client.delete(url, headers=headers), "delete")
    check("/mcp", client.delete(url, headers=headers), "delete")
    check("/mcp", client.get(url, headers=headers))


@pytest.mark.once
def test_answers_to_admins_fit(make_server, users, check):
    settings, keys = users
    server = make_server(**settings, SANDBOX_APPROVAL_REQUIRED="untrusted")
    boss, ann = server.client(keys["boss"]), server.client(keys["ann"])
    run = server.start_run("sh", "-c", "echo 1 >a.csv", client=ann, params={"wait": 30},
                           capture_patterns=["*"], headers={"Idempotency-Key": "k"}).json()
    for client in (boss, ann):
        for path in ("/admin/runs", "/admin/idempotency", "/admin/usage", "/admin/usage/summary",
                     "/admin/metrics", "/admin/approvals"):
            check(api(path), client.get(path))
        for run_id in (run["id"], UNKNOWN):
            check(api("/admin/runs/{id}"), client.get(f"/admin/runs/{run_id}"))
    check(api("/admin/runs"), boss.get("/admin/runs", params={"sort": "bogus"}))
    for verdict in ("approve", "deny"):
        path = api("/admin/runs/{id}/" + verdict)
        held = server.start_run("true", client=ann, trust_level="untrusted").json()
        check(api("/admin/approvals"), boss.get("/admin/approvals"))
        for client in (ann, boss, boss):
            check(path, client.post(f"/admin/runs/{held['id']}/{verdict}"), "post")
        check(path, boss.post(f"/admin/runs/{UNKNOWN}/{verdict}"), "post")
    check(api("/admin/gc"), boss.post("/admin/gc"), "post")
    check(api("/admin/gc"), ann.post("/admin/gc"), "post")


UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}


def ask(server, method, path, operation, **headers):
    """Any operation, of things that are not there."""
    if "101" in operation["responses"]:
        headers.update(UPGRADE)
    url = server.url + re.sub(r"{\w+}", UNKNOWN, path)
    return server.client().request(method, url, headers=headers)


@pytest.mark.once
def test_answers_to_another_host_fit(server, document, check):
    for method, path, operation, _ in operations(document):
        answer = ask(server, method, path, operation, Host="evil.example")
        assert answer.status_code == 403, (method, path)
        check(path, answer, method)


@pytest.mark.once
@pytest.mark.parametrize("limit", ["USER", "IP"])
def test_answers_to_too_many_requests_fit(make_server, document, check, limit):
    server = make_server(**{f"SANDBOX_RATE_LIMIT_PER_{limit}": 1})
    while server.get("/runtimes").status_code != 429:
        pass
    for method, path, operation, _ in operations(document):
        answer = ask(server, method, path, operation)
        if answer.status_code != 429 and path not in PROBES:
            answer = ask(server, method, path, operation)  # a minute had passed
        assert (answer.status_code == 429) == (path not in PROBES), (method, path)
        check(path, answer, method)


@pytest.mark.once
def test_every_operation_was_looked_at(check, document):
    """Runs last: no operation without a real answer above."""
    if len(check.seen) < 10:
        pytest.skip("the tests above did not run")
    answered = {(method, path) for method, path, status in check.seen if status < "300"}
    written = {(method, path) for method, path, _, _ in operations(document)}
    # See test_frames_fit, and test_fathom.py.
    assert written - answered == {("get", f"{BASE}/runs/{{id}}/stream"), ("get", "/ws")}
