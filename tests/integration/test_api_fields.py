"""What a request may say: names that nobody knows, names of the same thing, and code instead of a
command. At every door that takes JSON."""
import json

import pytest

import test_fathom as fathom
from server import make_server, server  # noqa: F401 (fixtures)
from test_mcp import Client

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
    ({"resources.memory_mb": 64}, "resources.memory_mb",
     "unknown field 'resources.memory_mb': memory_mb is a member of the object resources"),
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


def test_a_page_has_an_end(server):
    page = server.get("/runs", params={"limit": 201}).json()
    assert page["limit"] == page["pagination"]["limit"] == 200
    assert page["warnings"] == ["limit was lowered to 200, the most that a page has"]
    assert "warnings" not in server.get("/admin/runs", params={"limit": 200}).json()
    refusal(server.get("/runs", params={"limit": 1001}), "limit")


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


# --- where it came from ---

CONTEXT = {"source": "IDE", "model": "m-1", "prompt_id": "p-1", "thread_id": "t-1"}


def audit(server, **like):
    """The lines of the audit log that have these members."""
    lines = (server.root / "data/audit/audit.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if like.items() <= line.items()]


def test_the_context_of_a_request_is_for_the_audit_log_alone(server):
    key = {"Idempotency-Key": "k"}
    run = server.run("env", context=CONTEXT, headers=key)
    assert run["phase"] == "completed" and "m-1" not in json.dumps(run)
    again = server.run("env", context={**CONTEXT, "model": "m-2"}, headers=key)
    assert again["id"] == run["id"]
    lines = audit(server, run_id=run["id"])
    assert {line["event"].split(".")[-1] for line in lines} >= {"created", "running", "completed"}
    for line in lines:
        assert CONTEXT.items() <= line.items(), line
    session = server.session(context={"thread_id": "t-2"})
    created, = audit(server, session_id=session["id"], event="sandbox.session.created")
    assert (created["thread_id"], created["source"]) == ("t-2", "API")
    plain = server.run("true")
    assert run["policy_hash"] == plain["policy_hash"]
    assert {line["source"] for line in audit(server, run_id=plain["id"])} == {"API"}
    assert all("source" in line for line in audit(server))


def test_an_execution_in_an_interpreter_is_of_the_door_it_came_by(server):
    session = server.session()["id"]
    path = f"/sessions/{session}/kernel/executions"
    first = server.post(path, json={"code": "1", "context": {"model": "m-1"}}).json()
    second = server.post(path, json={"code": "2", "context": {"source": "IDE"}}).json()
    assert first["run_id"] == second["run_id"]
    Client(server).good("run_python", session_id=session, code="3", kernel=True)
    executed = audit(server, run_id=first["run_id"], event="sandbox.kernel.executed")
    assert [(x["source"], x.get("model")) for x in executed] == [
        ("API", "m-1"), ("IDE", None), ("MCP", None)]
    created, = audit(server, run_id=first["run_id"], event="sandbox.run.created")
    assert (created["source"], created["model"]) == ("API", "m-1")


def test_small_bodies_are_looked_at_like_large_ones(make_server):
    server = make_server(SANDBOX_APPROVAL_REQUIRED="cpu>0.5")
    path = f"/sessions/{server.session(cpu_limit=0.5)['id']}/kernel/executions"
    held = server.start_run("true", resources={"cpu": 1}).json()["id"]
    for answer, field, message in (
            (server.post(path, json={"code": "1", "timeout": 5}), "timeout",
             "unknown field 'timeout'; did you mean timeout_ms?"),
            (server.post(path, json={"code": "1", "context": {"models": "m"}}), "context.models",
             "unknown field 'context.models'; did you mean context.model?"),
            (server.post(f"/admin/runs/{held}/deny", json={"reasons": "x"}), "reasons",
             "unknown field 'reasons'; did you mean reason?")):
        assert refusal(answer, field) == message


def test_small_bodies_may_only_be_warned_of(make_server):
    server = make_server(SANDBOX_UNKNOWN_FIELDS="warn")
    path = f"/sessions/{server.session()['id']}/kernel/executions"
    answer = server.post(path, json={"code": "1", "timeout": 5}).json()
    assert (answer["outcome"], answer["warnings"]) == (
        "ok", ["unknown field 'timeout'; did you mean timeout_ms?"])


def test_a_context_has_limits(server):
    for context, field in (({"model": "x" * 257}, "context.model"), ("x", "context"),
                           ({"source": "Moon"}, "context.source")):
        refusal(server.start_run("true", context=context), field)


# --- the door of MCP ---

def test_an_unknown_argument_of_a_tool_is_named(server):
    client = Client(server)
    cases = [("run_python", {"session_id": "s", "code": "1", "memory": 64},
              "run_python: unknown field 'memory'; did you mean limits.memory_mb?"),
             ("sandbox.run", {"base_image": "host", "comand_": ["x"], "command": ["true"]},
              "sandbox.run: unknown field 'comand_'; did you mean command?"),
             ("run_code", {"session_id": "s", "language": "sh", "code": "",
                           "limits": {"second": 1}},
              "run_code: unknown field 'limits.second'; did you mean limits.seconds?")]
    for tool, arguments, message in cases:
        assert client.bad(tool, **arguments) == message


def test_arguments_of_the_earlier_interface(server):
    answer = Client(server).good(
        "sandbox.run", base_image="host", command=["true"], memory_mb=128,
        trust_level="untrusted", persona_id="p", idempotency_key="k")
    assert answer["warnings"] == ["field 'idempotency_key' means nothing here and was ignored"]
    run = server.status(answer["run_id"])
    assert (run["trust_level"], run["persona_id"]) == ("untrusted", "p")
    assert run["limits"]["memory_mb"] == 128


def test_a_tool_may_only_warn(make_server):
    server = make_server(SANDBOX_UNKNOWN_FIELDS="warn")
    result = Client(server).call("run_python", session_id="s", code="print(1)", memory=1)
    warning = "unknown field 'memory'; did you mean limits.memory_mb?"
    assert not result["isError"]
    assert result["structuredContent"]["warnings"] == [warning]
    assert result["content"][-1]["text"] == warning


def test_a_session_has_one_name_at_every_door(server):
    client = Client(server)
    client.good("run_python", session_id="sess_1", code="open('kept', 'w').write('x')")
    run = server.run("cat", "kept", session_id="sess_1")
    session = server.get("/sessions/sess_1").json()
    assert (run["stdout"], run["session_id"]) == ("x", session["id"])
    listed = server.get("/runs", params={"session_id": "sess_1"}).json()
    assert listed["total"] == 2
    assert server.upload("sess_1", ("up", b"y")).status_code == 200
    snapshot = server.post("/sessions/sess_1/snapshot").json()["snapshot_id"]
    back = server.post("/sessions/sess_1/restore", json={"snapshot_id": snapshot})
    assert back.status_code == 200, back.text
    assert server.delete("/sessions/sess_1").status_code == 200
    assert server.get("/sessions/sess_1").status_code == 404


def test_the_meta_of_a_call_is_its_context(server):
    client = Client(server)
    answer = client.ask("tools/call", {
        "name": "run_python", "arguments": {"session_id": "s", "code": "1"},
        "_meta": {"model": "m-1", "thread_id": "t-1", "progressToken": 1}})
    run_id = answer["result"]["structuredContent"]["run_id"]
    lines = audit(server, run_id=run_id)
    assert lines
    for line in lines:
        assert (line["model"], line["thread_id"], line["source"]) == ("m-1", "t-1", "MCP")


# --- the door of Fathom ---

def test_an_unknown_field_of_a_message_is_named(server):
    for fields, message in (
            ({"limits": {"memory": 64}},
             "unknown field 'limits.memory'; did you mean limits.memory_mb?"),
            ({"input": "x"}, "unknown field 'input'")):
        last = fathom.run(server, "print(1)", **fields)[-1]
        assert (last["type"], last["code"]) == ("error", "INVALID_REQUEST")
        assert last["message"] == message


def test_a_message_may_only_be_warned_of(make_server):
    server = make_server(SANDBOX_UNKNOWN_FIELDS="warn")
    got = fathom.run(server, "print(1)", input="x")
    assert got[0]["warnings"] == ["unknown field 'input'"]
    assert fathom.text_of(got) == "1\n"
    assert "warnings" not in fathom.run(server, "print(1)")[0]
