"""Malformed requests: each a 4xx in one shape that says what is wrong, never a 5xx, and the
server is there afterwards."""
import json
import re
import socket
import uuid

import pytest

from server import BASE, make_server, server  # noqa: F401 (fixtures)

GOOD = {"spec_version": "1.0", "base_image": "host", "command": ["true"]}


def check_shape(answer):
    body = answer.json()
    assert set(body) == {"error", "detail"}
    assert set(body["error"]) == {"code", "message", "details"}
    assert isinstance(body["error"]["details"], dict)
    assert body["error"]["code"] and body["error"]["message"]
    assert answer.headers["content-type"] == "application/json"
    return body["error"]


def without(name):
    return {key: value for key, value in GOOD.items() if key != name}


# --- fields ---

WRONG_FOR_BOTH = [
    ("timeout_sec", 0), ("timeout_sec", 3601), ("timeout_sec", "5"), ("timeout_sec", 1.5),
    ("timeout_sec", True), ("timeout_sec", -1), ("network_policy", "allow_all"),
    ("network_policy", 1), ("runtime", "nope"), ("trust_level", "root"), ("env", []),
    ("env", {"A": 1}), ("env", {"": "x"}), ("env", {"A=B": "x"}), ("env", {"A": "x" * 70000}),
    ("labels", "x"), ("labels", {"a": None}), ("base_image", 5), ("base_image", "x" * 300),
    ("persona_id", 7), ("spec_version", 1.0)]
WRONG_FOR_SESSIONS = [
    ("memory_mb", 10), ("memory_mb", "64"), ("memory_mb", 2**40), ("cpu_limit", -1),
    ("cpu_limit", "1"), ("cpu_limit", 1e300), ("git", "x"), ("git", {}),
    ("git", {"url": "https://x.example/y", "depth": 0})]
WRONG_FOR_RUNS = [
    ("command", []), ("command", "true"), ("command", [1]), ("command", [""]),
    ("command", ["x"] * 5000), ("resources", []), ("resources", {"memory_mb": 1}),
    ("resources", {"cpu": "x"}), ("capture_patterns", "x"), ("capture_patterns", [1]),
    ("capture_patterns", ["x" * 2000]), ("capture_patterns", [""]),
    ("command", ["echo", "x" * 200_000]), ("interactive", "yes"), ("stdin_max_bytes", -1),
    ("stdin_bps", 1.5), ("resume_from_seq", -1), ("startup_timeout_sec", 0),
    ("startup_timeout_sec", 601), ("session_id", 1), ("session_id", ""), ("files", "x"),
    ("files", [{"path": "a", "content_b64": "="}] * 300)]


def test_wrong_fields_are_named(server):
    for path, wrong in (("/sessions", WRONG_FOR_BOTH + WRONG_FOR_SESSIONS),
                        ("/runs", WRONG_FOR_BOTH + WRONG_FOR_RUNS)):
        for name, value in wrong:
            if (path, name) == ("/runs", "session_id"):
                body = {**without("base_image"), name: value}
            else:
                body = {**GOOD, name: value}
            if path == "/sessions":
                body.pop("command", None)
            answer = server.post(path, json=body)
            assert answer.status_code == 422, (path, name, value, answer.text[:200])
            error = check_shape(answer)
            assert error["code"] == "invalid_request"
            assert error["details"]["field"].split(".")[0] == name
            assert name in error["message"]
            assert answer.json()["detail"][0]["loc"][:1] == ["body"]
    assert server.get("/runs").json()["total"] == server.get("/sessions").json()["total"] == 0


def test_a_version_that_is_not_spoken(server):
    for path in ("/runs", "/sessions"):
        body = GOOD if path == "/runs" else without("command")
        answer = server.post(path, json={**body, "spec_version": "0.9"})
        assert answer.status_code == 400
        error = check_shape(answer)
        assert error["code"] == "invalid_spec_version"
        assert "0.9" in error["message"]
        assert error["details"] == {"supported": ["1.0", "1.1"], "provided": "0.9"}


def test_a_run_needs_a_session_or_an_image(server):
    neither = server.post("/runs", json=without("base_image"))
    both = server.post("/runs", json={**GOOD, "session_id": str(uuid.uuid4())})
    for answer in (neither, both):
        assert answer.status_code == 422
        assert "Provide exactly one of session_id or base_image" in check_shape(answer)["message"]
        assert answer.json()["detail"][0]["loc"] == ["body"]


@pytest.mark.once
def test_where_in_the_request_the_fault_is(server):
    def loc(answer):
        assert answer.status_code == 422
        return answer.json()["detail"][0]["loc"]
    assert loc(server.post("/runs", json=GOOD, params={"wait": "x"})) == ["query", "wait"]
    assert loc(server.get("/runs", params={"limit": "0"})) == ["query", "limit"]
    assert loc(server.get("/runs", params={"phase": "x"})) == ["query", "phase"]
    assert loc(server.get("/admin/runs", params={"sort": "x"})) == ["query", "sort"]
    for path in ("/runs", "/sessions"):
        answer = server.post(path, json=GOOD, headers={"Idempotency-Key": "x" * 129})
        assert loc(answer) == ["header", "Idempotency-Key"]


@pytest.mark.parametrize("file, why", [
    ({"path": "a", "content_b64": "not base64!"}, "base64"),
    ({"path": "a", "content_b64": "QQ"}, "base64"),
    ({"path": "../a", "content_b64": "QQ=="}, "relative"),
    ({"path": "/a", "content_b64": "QQ=="}, "relative"),
    ({"path": "a"}, "content_b64"), ({"content_b64": "QQ=="}, "path"), ("x", "path")])
def test_an_inline_file_that_is_none(server, file, why):
    answer = server.post("/runs", json={**GOOD, "files": [file]})
    assert answer.status_code == 422
    error = check_shape(answer)
    assert error["code"] == "invalid_inline_file"
    assert error["message"].startswith("invalid inline file at index 0")
    assert why in error["message"]
    assert answer.json()["detail"]["error"]["code"] == "invalid_inline_file"


@pytest.mark.parametrize("paths, index, why", [
    (("x", "x/y"), 1, "directory"), (("x/y/z", "x"), 0, "directory"), (("x", "y", "x"), 0, "same")])
def test_inline_files_that_are_in_each_others_way(server, paths, index, why):
    files = [{"path": path, "content_b64": "QQ=="} for path in paths]
    answer = server.post("/runs", json={**GOOD, "files": files})
    assert answer.status_code == 422
    error = check_shape(answer)
    assert error["code"] == "invalid_inline_file"
    assert error["message"].startswith(f"invalid inline file at index {index}")
    assert why in error["message"]
    assert error["details"] == {
        "field": f"files[{index}]", "index": index, "path": paths[index]}


def test_runtimes_that_are_not_there(server):
    known = {entry["name"]: entry for entry in server.get("/runtimes").json()["runtimes"]}
    for runtime in ("docker", "firecracker"):
        answer = server.post("/runs", json={**GOOD, "runtime": runtime})
        assert answer.status_code == 503
        error = check_shape(answer)
        assert error["code"] == "runtime_unavailable"
        assert error["details"]["runtime"] == runtime
        assert error["details"]["available"] is False
        assert error["details"]["reasons"] == known[runtime]["reasons"]
        assert "native" in error["details"]["suggested"]
    allowlist = server.post("/runs", json={**GOOD, "network_policy": "allowlist"})
    assert allowlist.status_code == 422
    assert check_shape(allowlist)["code"] == "policy_unsupported"


def test_an_image_that_nobody_has(server):
    run = server.run("true", base_image="no-such-image:1")
    assert run["phase"] == "failed"
    assert run["reason_code"] == "image_pull_failed"
    assert run["status_reason_details"]["retryable"] is False


@pytest.mark.parametrize("image, says", [
    ("node:99", "host"), ("python:3.1", "the host has python 3."), ("alpine:3.1", "host"),
    ("ubuntu:4.10", "host"), ("golang:0.1", "go"), ("eclipse-temurin:1-jre", "java"),
    ("mcr.microsoft.com/dotnet/sdk:1.0", "dotnet")])
def test_an_image_of_another_version_is_refused(server, image, says):
    run = server.run("true", base_image=image)
    assert (run["phase"], run["reason_code"]) == ("failed", "image_pull_failed")
    assert says in run["message"] and image in run["message"]
    assert "belljar image import" in run["message"]


def test_a_command_that_is_not_there_is_not_retried(server):
    run = server.run("no-such-program")
    assert run["reason_code"] == "exec_failed"
    assert run["status_reason_details"]["retryable"] is False


# --- JSON ---

@pytest.mark.parametrize("body", [
    b"", b"{", b"nope", b'{"a":NaN}', b'{"timeout_sec":Infinity}', b"\xff\xfe", b'"\\ud800"',
    b'{"timeout_sec":9223372036854775808}', b'{"cpu_limit":1e999}', b"[" * 1000 + b"]" * 1000,
    b'{"command":["true"],"command":["false"]}', b'{"base_image":"a\\u0000b"}', b"{} {}",
    b'{"a":1,}', b"// x\n{}"], ids=lambda b: repr(b[:24]))
def test_what_is_no_json(server, body):
    for path in ("/runs", "/sessions"):
        answer = server.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, answer.text
        error = check_shape(answer)
        assert error["code"] == "invalid_json"
        assert error["details"]["field"]
    assert server.run("true")["phase"] == "completed"


@pytest.mark.parametrize("body, field, why", [
    ('{"env":{"A":NaN}}', "env.A", "NaN is no JSON number"),
    ('{"timeout_sec":-Infinity}', "timeout_sec", "Infinity is no JSON number"),
    ('{"timeout_sec":9223372036854775808}', "timeout_sec", "the number is too large"),
    ('{"resources":{"cpu":1e999}}', "resources.cpu", "the number is too large"),
    ('{"files":[{"path":"a"},{"path":"a\\u0000b"}]}', "files[1].path",
     "a NUL character (\\u0000) is not allowed"),
    ('{"env":' + "[" * 100 + "]" * 100 + "}", "env[0]", "nested deeper than 64 levels"),
    ('{"command":["true"],"command":["false"]}', "command", "stands twice"),
    ("", "body", "there is no body"), ("nope", "body", "this is no JSON")],
    ids=lambda text: text[:24])
def test_the_field_that_can_not_be_read_is_named(server, body, field, why):
    for path in ("/runs", "/sessions"):
        answer = server.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, answer.text
        error = check_shape(answer)
        assert error["code"] == "invalid_json"
        assert error["details"]["field"].startswith(field)
        assert error["message"].startswith(field) and why in error["message"]
        assert "JSON_" not in error["message"]


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"x"'])
def test_json_that_is_no_object(server, body):
    for path in ("/runs", "/sessions"):
        answer = server.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert "object" in check_shape(answer)["message"]


def test_the_largest_number_is_too_large_and_no_crash(server):
    for name in ("stdin_max_bytes", "stdin_bps", "resume_from_seq"):
        body = {**GOOD, name: 2**63 - 1}
        assert server.post("/runs", json=body).status_code in (200, 422)
    assert server.run("true")["phase"] == "completed"


def test_another_content_type(server):
    for path in ("/runs", "/sessions"):
        answer = server.post(path, content=json.dumps(GOOD),
                             headers={"Content-Type": "text/plain"})
        assert answer.status_code == 415
        assert check_shape(answer)["code"] == "unsupported_media_type"
    # What curl -d says is understood.
    answer = server.post("/runs", content=json.dumps(GOOD),
                         headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status_code == 200


# --- sizes ---

def test_a_body_that_is_too_large(server):
    body = json.dumps({**GOOD, "env": {"A": "x" * (5 << 20)}})
    answer = server.post("/runs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    error = check_shape(answer)
    assert error["code"] == "payload_too_large"
    assert error["details"]["field"] == "body"
    assert re.search(r"the body is larger than this path allows: \d+ bytes", error["message"])
    large = [{"path": "a", "content_b64": "QUFB" * (400 << 10)}]
    inline = server.post("/runs", json={**GOOD, "files": large})
    assert inline.status_code == 413
    error = check_shape(inline)
    assert error["details"] == {"field": "files[0].content_b64", "limit_bytes": 1 << 20}
    assert "1048576 bytes" in error["message"]
    assert server.run("true")["phase"] == "completed"


def test_headers_that_are_too_large(server):
    answer = server.get("/runs", headers={"X-Large": "x" * 20000})
    assert answer.status_code == 431
    check_shape(answer)


# --- routes ---

@pytest.mark.parametrize("method, path, status, code", [
    ("GET", "/nothing", 404, "not_found"),
    ("GET", "/runs/x/nothing", 404, "not_found"),
    ("POST", "/runs/x", 405, "method_not_allowed"),
    ("DELETE", "/runs", 405, "method_not_allowed"),
    ("PUT", "/sessions", 405, "method_not_allowed"),
    ("PATCH", "/sessions/x", 405, "method_not_allowed"),
    ("GET", "/runs/x", 404, "run_not_found"),
    ("GET", "/runs/%ff%00", 400, "bad_request"),
    ("GET", "/runs/" + "x" * 3000, 404, "run_not_found"),
    ("GET", "/runs/..%2f..%2fetc", 404, "run_not_found"),
    ("GET", "/sessions/%ff", 404, "session_not_found")])
def test_routes_that_are_not_there(server, method, path, status, code):
    answer = server.http.request(method, path)
    assert answer.status_code == status, answer.text
    assert check_shape(answer)["code"] == code
    if status == 405:
        assert answer.headers["allow"]
    if code == "not_found":
        assert answer.json()["detail"] == "Not Found"


def test_problem_documents(server):
    headers = {"Accept": "application/problem+json"}
    missing = server.get(f"/runs/{uuid.uuid4()}", headers=headers)
    assert missing.status_code == 404
    assert missing.headers["content-type"] == "application/problem+json"
    body = missing.json()
    assert body["status"] == 404 and body["title"] and body["detail"]
    assert body["type"].endswith("run_not_found")
    assert body["extensions"]["code"] == "run_not_found"
    version = server.post("/runs", json={**GOOD, "spec_version": "0.9"}, headers=headers)
    assert version.json()["extensions"]["provided"] == "0.9"
    nothing = server.get("/nothing", headers=headers)
    assert nothing.headers["content-type"] == "application/problem+json"
    unwanted = server.get("/nothing", headers={"Accept": "application/problem+json;q=0"})
    assert unwanted.headers["content-type"] == "application/json"
    worse = "application/json, application/problem+json;q=0.5"
    assert server.get("/nothing", headers={"Accept": worse}).headers["content-type"] == \
        "application/json"


# --- bytes that are no request ---

@pytest.mark.parametrize("request_bytes", [
    b"\r\n\r\n\r\nHELLO\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST " + BASE.encode() + b"/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST " + BASE.encode() + b"/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET " + BASE.encode() + b"/runs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"])
def test_bytes_that_are_no_request(server, request_bytes):
    with socket.create_connection(("127.0.0.1", server.port), 10) as peer:
        peer.sendall(request_bytes)
        peer.settimeout(10)
        said = peer.recv(65536)
    assert said.startswith(b"HTTP/1.1 4") or said.startswith(b"HTTP/1.1 5")
    status = int(said.split()[1])
    assert 400 <= status < 500 or status in (501, 505)
    assert server.run("true")["phase"] == "completed"


# --- ours ---

def test_a_server_that_ends_takes_no_runs(make_server):
    server = make_server(SANDBOX_DRAIN_TIMEOUT_SEC=5)
    client = server.client()
    run = server.start_run("sleep", "60", client=client).json()["id"]
    server.wait_for(run, "running")
    server.process.terminate()
    for _ in range(100):
        answer = server.start_run("true", client=client)
        if answer.status_code == 503:
            break
    assert answer.status_code == 503
    assert check_shape(answer)["code"] == "shutting_down"
    assert client.post(f"/runs/{run}/cancel").json()["cancelled"] is True
