"""What a request may say: names that nobody knows, names of the same thing, and code instead of a
command. At every door that takes JSON."""
import json

import pytest

from server import BASE, make_server, server  # noqa: F401 (fixtures)

RUN = {"base_image": "host", "command": ["true"]}


def refusal(answer, field):
    """What a 422 says that names the field."""
    assert answer.status_code == 422, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["details"]["field"]) == ("invalid_request", field)
    return error["message"]


# --- names that nobody knows ---

@pytest.mark.parametrize("extra, field, message", [
    ({"memory": 512}, "memory", "unknown field 'memory'; did you mean resources.memory_mb?"),
    ({"resources": {"memmory_mb": 512}}, "resources.memmory_mb",
     "unknown field 'resources.memmory_mb'; did you mean resources.memory_mb?"),
    ({"files": [{"path": "a", "content": ""}]}, "files[0].content",
     "unknown field 'files[0].content'; did you mean files.content_b64?"),
    ({"git": {"url": "https://x.example/y", "branch": "b"}}, "git.branch",
     "unknown field 'git.branch'; did you mean git.ref?"),
    ({"context": {"models": "x"}}, "context.models",
     "unknown field 'context.models'; did you mean context.model?"),
    ({"idempotency_key": "k"}, "idempotency_key",
     "unknown field 'idempotency_key'; did you mean the header Idempotency-Key?"),
    ({"\u00e4": 1}, "??", "unknown field '\\xc3\\xa4'"),
])
def test_an_unknown_field_of_a_run_is_refused_by_name(server, extra, field, message):
    assert refusal(server.post("/runs", json={**RUN, **extra}), field) == message
    assert server.get("/runs").json()["total"] == 0


def test_other_bodies_and_parameters_are_looked_at_as_well(server):
    session = server.session()["id"]
    cases = [
        (server.post("/sessions", json={"base_image": "host", "memory": 64}), "memory",
         "unknown field 'memory'; did you mean memory_mb?"),
        (server.post(f"/sessions/{session}/restore", json={"snapshot": "snap-1"}), "snapshot",
         "unknown field 'snapshot'; did you mean snapshot_id?"),
        (server.post(f"/sessions/{session}/clone", json={"name": "n"}), "name",
         "unknown field 'name'; did you mean new_session_name?"),
        (server.get("/runs", params={"phases": "failed"}), "phases",
         "unknown parameter 'phases'; did you mean phase?"),
        (server.get("/admin/runs", params={"started_from": "x"}), "started_from",
         "unknown parameter 'started_from'; did you mean started_at_from?"),
        (server.post("/runs", params={"waits": "5"}, json=RUN), "waits",
         "unknown parameter 'waits'; did you mean wait?"),
    ]
    for answer, field, message in cases:
        assert refusal(answer, field) == message
    detail = server.get("/runs", params={"phases": "x"}).json()["detail"]
    assert detail[0]["loc"] == ["query", "phases"]


def test_what_means_nothing_here_is_told_of(server):
    run = server.run("true", limits={"pids": 10, "memory_mb": 128})
    assert run["phase"] == "completed"
    assert run["warnings"] == ["field 'limits.pids' means nothing here and was ignored"]
    assert "warnings" not in server.run("true")


def test_a_server_may_only_warn(make_server):
    server = make_server(SANDBOX_UNKNOWN_FIELDS="warn")
    warning = "unknown field 'memory'; did you mean resources.memory_mb?"
    run = server.run("true", memory=512)
    assert (run["phase"], run["warnings"]) == ("completed", [warning])
    assert server.start_run("true", memory=512).json()["warnings"] == [warning]
    assert server.session(colour="red")["warnings"] == ["unknown field 'colour'"]
    listing = server.get("/runs", params={"colour": "red"}).json()
    assert listing["warnings"] == ["unknown parameter 'colour'"]
    # What is wrong is not taken for that.
    refusal(server.start_run("true", memory=512, timeout_sec=0), "timeout_sec")


# --- two names of the same ---

def test_limits_and_resources_are_both_taken(server):
    run = server.run("true", timeout_sec=None, limits={"memory_mb": 128, "timeout_sec": 7})
    assert run["resource_usage"]["limits"]["memory_mb"] == 128
    assert run["resource_usage"]["limits"]["timeout_sec"] == 7
    session = server.session(limits={"cpu": 0.5}, resources={"memory_mb": 128})
    assert (session["cpu_limit"], session["memory_mb"]) == (0.5, 128)
    both = {"limits": {"memory_mb": 128}, "resources": {"memory_mb": 128}}
    assert server.run("true", **both)["phase"] == "completed"
    both["limits"]["memory_mb"] = 64
    message = refusal(server.start_run("true", **both), "limits.memory_mb")
    assert message == "limits.memory_mb: resources.memory_mb says something else; send one of them"


def test_an_interactive_run_says_its_version(server):
    for version in ({}, {"spec_version": "1.0"}):
        answer = server.post("/runs", json={**RUN, "interactive": True, **version})
        assert refusal(answer, "interactive") == \
            'interactive: needs "spec_version": "1.1"'
    assert server.start_run("true", interactive=True, spec_version="1.1").status_code == 200


# --- code ---

def code(server, wait=60, **fields):
    answer = server.post("/runs", params={"wait": wait}, json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_code_in_a_language_needs_neither_image_nor_command(server):
    run = code(server, language="python", code="print(1)")
    assert (run["phase"], run["stdout"], run["base_image"]) == ("completed", "1\n", "host")


def test_code_has_files_input_and_arguments(server):
    run = code(server, language="python", args=["a b"], stdin="typed",
               files=[{"path": "data.txt", "content_b64": "ZGF0YQ=="}], env={"HUE": "red"},
               code="import os, sys\n"
                    "print(sys.argv[1], input(), open('data.txt').read(), os.environ['HUE'])")
    assert run["stdout"] == "a b typed data red\n"
    run = code(server, language="bash", code='echo "$1"; exit 3', args=["x"])
    assert (run["stdout"], run["exit_code"]) == ("x\n", 3)


def test_code_runs_in_a_session_too(server):
    session = server.session(env={"HUE": "blue"})["id"]
    run = code(server, session_id=session, language="python",
               code="import os; open('kept', 'w').write(os.environ['HUE'])")
    assert run["phase"] == "completed"
    assert server.run("cat", "kept", session_id=session)["stdout"] == "blue"


@pytest.mark.parametrize("fields, field", [
    ({"language": "python", "code": "1", "command": ["true"], "base_image": "host"}, "code"),
    ({"language": "python"}, "code"),
    ({"code": "1"}, "language"),
    ({"language": "klingon", "code": "1"}, "language"),
    ({"language": 5, "code": "1"}, "language"),
    ({"command": ["true"], "args": ["x"], "base_image": "host"}, "args"),
    ({"base_image": "host"}, "command"),
    ({"language": "python", "code": "1", "base_image": "host", "session_id": "s"}, "body"),
])
def test_either_a_command_or_code(server, fields, field):
    refusal(server.post("/runs", json=fields), field)


def test_too_much_code_and_a_file_in_its_place_are_named(server):
    answer = server.post("/runs", json={"language": "python", "code": "#" * (1 << 20) + "#"})
    assert (answer.status_code, answer.json()["error"]["details"]["field"]) == (422, "code")
    answer = server.post("/runs", json={
        "language": "python", "code": "1", "files": [{"path": "main.py", "content_b64": ""}]})
    assert answer.status_code == 422
    assert answer.json()["error"]["details"]["field"] == "files[0]"


def test_code_with_a_key_is_run_once(server):
    body = {"language": "python", "code": "print(1)"}
    key = {"Idempotency-Key": "k"}
    first = server.post("/runs", json=body, headers=key).json()["id"]
    assert server.post("/runs", json=body, headers=key).json()["id"] == first
    other = server.post("/runs", json={**body, "code": "print(2)"}, headers=key)
    assert other.status_code == 409
