"""Runs over REST: made, waited for, looked at, listed, canceled, approved."""
import base64
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import time
import uuid

import httpx
import pytest

from jar import SLOWER, eventually
from server import BASE, OVER, make_server, server, users  # noqa: F401 (fixtures)

PROGRAM = pathlib.Path(os.environ.get("BELLJAR", "build/belljar"))
PHASES = {"queued", "starting", "running", *OVER}
NULLABLE = ("image_digest", "session_id", "persona_id", "workspace_id", "workspace_group_id",
            "scope_snapshot_id", "estimated_start_time")


def test_a_run_is_accepted_and_completes(server):
    answer = server.start_run("true")
    run = answer.json()
    assert answer.status_code == 200
    assert run["id"] == run["run_id"] == str(uuid.UUID(run["id"]))
    assert run["phase"] in PHASES
    assert run["spec_version"] == "1.0"
    assert re.fullmatch("[0-9a-f]{64}", run["policy_hash"])
    assert run["log_stream_url"] == f"{BASE}/runs/{run['id']}/stream"
    assert all(name in run for name in NULLABLE)
    over = server.wait_for(run["id"])
    assert (over["phase"], over["exit_code"]) == ("completed", 0)
    assert over["status_reason_code"] == "completed"
    assert over["status_reason_details"]["user_message_key"] == "sandbox.status.completed"
    assert over["resource_usage"]["log_bytes"] == 0
    assert over["started_at"].endswith("Z") and over["finished_at"] >= over["started_at"]
    assert over["log_stream_url"] is None


def test_waiting_brings_output_and_artifacts(server):
    run = server.sh("echo out; echo err >&2; printf 0123456789 >out.txt; mkdir d; echo x >'d/a b'",
                    capture_patterns=["out.txt", "d/*"])
    assert (run["phase"], run["exit_code"]) == ("completed", 0)
    assert (run["stdout"], run["stderr"]) == ("out\n", "err\n")
    assert (run["stdout_encoding"], run["stdout_truncated"]) == ("utf8", False)
    assert (run["stderr_encoding"], run["stderr_truncated"]) == ("utf8", False)
    assert [(a["path"], a["size"]) for a in run["artifacts"]] == [("d/a b", 2), ("out.txt", 10)]
    url = run["artifacts"][0]["download_url"]
    assert url == f"{BASE}/runs/{run['id']}/artifacts/d/a%20b"
    assert server.get(server.url + url).content == b"x\n"


def test_output_that_is_no_text_is_base64(server):
    run = server.sh(r"printf '\377\376\0'")
    assert run["stdout_encoding"] == "base64"
    assert base64.b64decode(run["stdout"]) == b"\xff\xfe\0"


def test_long_output_is_cut_and_says_so(server):
    run = server.run("python3", "-c", "print('ä' * 100000, end='')")
    assert run["stdout_truncated"] is True
    assert run["stdout"] == "ä" * 32768
    assert run["stderr_truncated"] is False


def test_of_long_output_the_end_is_there_too(server):
    run = server.run("python3", "-c", "print('a' + 'ä' * 100000 + 'end', end='')")
    assert run["stdout"] == "a" + "ä" * 32767
    assert run["stdout_tail"] == "ä" * 32766 + "end"
    assert run["stdout_tail_encoding"] == "utf8"
    assert "stderr_tail" not in run
    # What both parts have together is never shown twice.
    short = server.run("python3", "-c", "print('a' * 65536 + 'end', end='')")
    assert (short["stdout"], short["stdout_tail"]) == ("a" * 65536, "end")


def test_the_end_of_what_is_over_the_cap_is_there_too(server):
    run = server.run("python3", "-c", "print('a' * 5000 + 'end', end='')", max_output_bytes=1000)
    assert run["stdout"] == "a" * 1000
    assert run["stdout_truncated"] is True
    assert run["stdout_tail"].endswith("end")


OUTPUT = ("stdout", "stdout_encoding", "stdout_truncated", "stderr", "stderr_encoding",
          "stderr_truncated", "artifacts")


COUNT_PROCESSES = """\
import os, time
n = 1
try:
    while n < 2000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        n += 1
except BlockingIOError:
    pass
print(n)
"""


@pytest.mark.parametrize("name, trust, limit", [
    ("SANDBOX_PIDS_LIMIT", "standard", 20), ("SANDBOX_ULIMIT_NPROC", "standard", 20),
    ("SANDBOX_PIDS_LIMIT", "trusted", 300)])
def test_as_many_processes_can_be_made_as_the_setting_says(make_server, name, trust, limit):
    server = make_server(**{name: limit})
    run = server.run("python3", "-c", COUNT_PROCESSES, trust_level=trust)
    assert run["stdout"] == f"{limit}\n", run
    assert (run["resource_usage"]["pids"] or 0) <= limit


@pytest.mark.once
def test_output_is_there_later(server):
    started = server.start_run("sh", "-c", "echo out; echo err >&2; echo x >f; sleep 1; exit 3",
                               capture_patterns=["f"]).json()
    assert "stdout" not in started
    until = time.monotonic() + 30 * SLOWER
    while (now := server.status(started["id"]))["stdout"] == "" and time.monotonic() < until:
        time.sleep(0.02)
    assert (now["stdout"], now["artifacts"]) == ("out\n", [])  # while it goes on
    answer = server.get(f"/runs/{started['id']}", params={"wait": 30})
    run = answer.json()
    assert (answer.status_code, run["phase"], run["exit_code"]) == (200, "failed", 3)
    assert (run["stdout"], run["stderr"]) == ("out\n", "err\n")
    assert [a["path"] for a in run["artifacts"]] == ["f"]
    assert server.get(server.url + run["artifacts"][0]["download_url"]).content == b"x\n"
    server.restart()
    again = server.status(run["id"])
    assert {name: again[name] for name in OUTPUT} == {name: run[name] for name in OUTPUT}


def test_a_look_at_a_run_waits_for_its_end(server):
    run_id = server.start_run("sh", "-c", "sleep 1; echo late").json()["id"]
    began = time.monotonic()
    assert server.get(f"/runs/{run_id}", params={"wait": 0.2}).json()["phase"] != "completed"
    assert time.monotonic() - began >= 0.2
    run = server.get(f"/runs/{run_id}", params={"wait": 30}).json()
    assert (run["phase"], run["stdout"]) == ("completed", "late\n")
    for wrong in ("-1", "x", "3601", ""):
        answer = server.get(f"/runs/{run_id}", params={"wait": wrong})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
        assert "wait" in answer.text


def test_a_failure_has_its_exit_code(server):
    run = server.sh("exit 3")
    assert (run["phase"], run["exit_code"]) == ("failed", 3)
    assert run["status_reason_code"] == "nonzero_exit"


def test_a_run_that_takes_too_long(server):
    run = server.run("sleep", "60", timeout_sec=1)
    assert (run["phase"], run["message"]) == ("timed_out", "execution_timeout")
    assert run["exit_code"] is None
    assert run["status_reason_code"] == "execution_timeout"


def test_waiting_ends_before_a_long_run_does(server):
    begun = time.monotonic()
    run = server.run("sh", "-c", "echo first; sleep 30", wait=1)
    assert 0.9 < time.monotonic() - begun < 15
    assert run["phase"] == "running"
    assert run["stdout"] == "first\n"
    assert server.post(f"/runs/{run['id']}/cancel").json()["cancelled"] is True


def test_who_hangs_up_does_not_end_the_run(server):
    client = server.client(timeout=0.5 * SLOWER)
    script = f"sleep {1.5 * SLOWER}; echo done"
    with pytest.raises(httpx.ReadTimeout):  # not before it was sent
        server.start_run("sh", "-c", script, client=client, params={"wait": 30},
                         headers={"Idempotency-Key": "gone"})
    client.close()
    assert server.get("/runs").json()["total"] == 1
    again = server.start_run("sh", "-c", script, params={"wait": 30},
                             headers={"Idempotency-Key": "gone"}).json()
    assert (again["phase"], again["stdout"]) == ("completed", "done\n")
    assert server.get("/runs").json()["total"] == 1


@pytest.mark.parametrize("wait", ["x", "-1", "3601", "", "1e3", "nan"])
def test_a_wait_that_is_no_time_is_refused(server, wait):
    answer = server.start_run("true", params={"wait": wait})
    assert answer.status_code == 422
    assert answer.json()["error"]["details"]["field"] == "wait"


def test_environment_files_and_labels(server):
    files = [{"path": "a/b.txt", "content_b64": base64.b64encode(b"hello").decode()}]
    run = server.sh("cat a/b.txt; printf %s \"$X\"", env={"X": "y z"}, files=files,
                    labels={"team": "blue"})
    assert run["stdout"] == "helloy z"
    assert run["labels"] == {"team": "blue"}


def test_resume_from_seq_is_in_the_stream_url(server):
    run = server.start_run("true", spec_version="1.1", resume_from_seq=5).json()
    assert run["log_stream_url"].endswith("/stream?from_seq=5")


def test_signed_stream_urls(make_server):
    server = make_server(SANDBOX_WS_SIGNED_URLS="true")
    url = server.start_run("true").json()["log_stream_url"]
    signed = re.fullmatch(rf"{BASE}/runs/[0-9a-f-]+/stream\?token=[0-9a-f]{{64}}&exp=(\d+)&u=(\S+)",
                          url)
    assert signed and 0 < int(signed[1]) - time.time() <= 61
    assert signed[2] == "single_user"


# --- idempotency ---

def keyed(server, key, *command, client=None, **fields):
    return server.start_run(*command, client=client, headers={"Idempotency-Key": key}, **fields)


def test_a_replay_is_the_same_run(server):
    first = keyed(server, "k1", "sh", "-c", "echo $$").json()
    server.wait_for(first["id"])
    again = keyed(server, "k1", "sh", "-c", "echo $$")
    assert again.status_code == 200
    assert (again.json()["id"], again.json()["phase"]) == (first["id"], "completed")
    # A default that is written out means the same.
    same = keyed(server, "k1", "sh", "-c", "echo $$", network_policy="deny_all")
    assert same.json()["id"] == first["id"]
    assert server.get("/runs").json()["total"] == 1


@pytest.mark.once
@pytest.mark.parametrize("params", [{}, {"wait": 30}])
def test_whether_it_is_a_replay_is_told(server, params):
    told = [keyed(server, "k1", "true", params=params).json()["details"] for _ in range(2)]
    server.restart()  # and so it is of those that are only stored
    told.append(keyed(server, "k1", "true", params=params).json()["details"])
    assert told == [{"idempotency_key_echo": "k1", "idempotency_status": status}
                    for status in ("new", "replayed", "replayed")]
    assert "details" not in server.start_run("true", params=params).json()


def test_a_replay_with_another_body_is_refused(server):
    first = keyed(server, "k1", "true").json()
    other = keyed(server, "k1", "false")
    assert other.status_code == 409
    error = other.json()["error"]
    assert error["code"] == "idempotency_conflict"
    assert (error["details"]["prior_id"], error["details"]["key"]) == (first["id"], "k1")
    assert error["details"]["prior_created_at"].endswith("Z")


def test_keys_of_sessions_and_runs_are_apart(server):
    session = server.post("/sessions", json={"base_image": "host"},
                          headers={"Idempotency-Key": "both"})
    run = keyed(server, "both", "true")
    assert (session.status_code, run.status_code) == (200, 200)
    assert session.json()["id"] != run.json()["id"]


def test_equal_requests_at_once_make_one_run(server):
    def ask(_):
        return keyed(server, "storm", "true", client=server.client()).json()["id"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(16)))) == 1
    assert server.get("/runs").json()["total"] == 1


def test_a_replay_survives_a_restart(server):
    first = keyed(server, "k1", "sh", "-c", "echo kept", params={"wait": 30}).json()
    server.restart()
    again = keyed(server, "k1", "sh", "-c", "echo kept", params={"wait": 30}).json()
    assert again["id"] == first["id"]
    assert (again["stdout"], again["artifacts"]) == ("kept\n", [])


@pytest.mark.parametrize("key", ["k" * 129, "", "\x7f", "ä".encode()])
def test_a_key_that_is_none_is_refused(server, key):
    answer = server.start_run("true", headers={"Idempotency-Key": key})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["code"] in ("invalid_request", "bad_request")


def test_a_key_of_128_characters_is_one(server):
    assert keyed(server, "k" * 128, "true").status_code == 200


# --- cancel ---

def test_cancel(server):
    run = server.start_run("sleep", "60").json()
    server.wait_for(run["id"], "running")
    answer = server.post(f"/runs/{run['id']}/cancel")
    assert answer.status_code == 200
    assert answer.json()["cancelled"] is True
    assert answer.json()["message"] == "canceled_by_user"
    assert answer.json()["id"] == run["id"]
    over = server.status(run["id"])
    assert (over["phase"], over["message"], over["exit_code"]) == (
        "killed", "canceled_by_user", None)
    again = server.post(f"/runs/{run['id']}/cancel")
    assert again.status_code == 200
    assert again.json()["cancelled"] is False
    assert again.json()["message"] == "not_running_or_not_found"


def test_cancel_of_one_that_ignores_it(make_server):
    server = make_server(SANDBOX_CANCEL_GRACE_SECONDS=1)
    run = server.start_run(
        "python3", "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('deaf', flush=True); time.sleep(60)").json()
    server.wait_for(run["id"], "running")
    time.sleep(0.5)
    begun = time.monotonic()
    answer = server.post(f"/runs/{run['id']}/cancel").json()
    assert answer["cancelled"] is True
    assert time.monotonic() - begun < 10
    assert server.wait_for(run["id"])["phase"] == "killed"


def test_cancel_of_one_that_waits(make_server):
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=1)
    first = server.start_run("sleep", "60").json()
    second = server.start_run("sleep", "60").json()
    assert second["phase"] == "queued" and second["estimated_start_time"].endswith("Z")
    assert server.post(f"/runs/{second['id']}/cancel").json()["cancelled"] is True
    assert server.status(second["id"])["phase"] == "killed"
    assert server.post(f"/runs/{first['id']}/cancel").json()["cancelled"] is True


def test_cancel_of_what_is_not_there(server):
    answer = server.post(f"/runs/{uuid.uuid4()}/cancel")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "run_not_found"


# --- lists, queues, approvals ---

def test_lists_are_paged_and_filtered(server):
    runs = [server.sh(f"exit {n % 2}")["id"] for n in range(5)]
    session = server.session()
    inside = server.run("true", session_id=session["id"])["id"]
    live = server.start_run("sleep", "60").json()["id"]
    server.wait_for(live, "running")
    whole = server.get("/runs").json()
    assert whole["total"] == 7 and set(whole) == {
        "total", "limit", "offset", "has_more", "items", "pagination"}
    ids = [i["id"] for i in whole["items"]]
    assert ids[0] == live and set(ids) == {*runs, inside, live}
    pages = []
    offset = 0
    while offset is not None:
        page = server.get("/runs", params={"limit": 2, "offset": offset}).json()
        pages += [i["id"] for i in page["items"]]
        offset = page["pagination"]["next_offset"]
    assert pages == ids
    failed = server.get("/runs", params={"phase": "failed"}).json()
    assert {i["id"] for i in failed["items"]} == {runs[1], runs[3]}
    running = server.get("/runs", params={"phase": "running"}).json()
    assert [i["id"] for i in running["items"]] == [live]
    of_session = server.get("/runs", params={"session_id": session["id"]}).json()
    assert [i["id"] for i in of_session["items"]] == [inside]
    assert server.post(f"/runs/{live}/cancel").json()["cancelled"] is True


def test_a_run_is_listed_once_while_its_end_is_being_stored(server):
    made = []
    for _ in range(40):
        made.append(server.run("true")["id"])
        listed = server.get("/runs").json()
        assert sorted(i["id"] for i in listed["items"]) == sorted(made)
        assert listed["total"] == len(made)


@pytest.mark.parametrize("name, value", [
    ("limit", "0"), ("limit", "1001"), ("limit", "x"), ("offset", "-1"),
    ("offset", str(2**63)), ("phase", "bogus")])
def test_a_page_that_is_none_is_refused(server, name, value):
    answer = server.get("/runs", params={name: value})
    assert answer.status_code == 422
    assert answer.json()["error"]["details"]["field"] == name


@pytest.mark.once
def test_where_nothing_is_executed_runs_wait(make_server):
    server = make_server(SANDBOX_ENABLE_EXECUTION="false", SANDBOX_QUEUE_TTL_SEC=1)
    alone = server.run("sh", "-c", "echo ran", wait=1)
    in_session = server.start_run("true", session_id=server.session()["id"]).json()
    for run in (alone, in_session):
        assert (run["phase"], run["started_at"], run["exit_code"]) == ("queued", None, None)
        assert run["estimated_start_time"] is None
        assert "SANDBOX_ENABLE_EXECUTION" in run["message"]
    time.sleep(2.5)
    assert server.status(alone["id"])["phase"] == "queued"


def test_a_full_queue(make_server):
    server = make_server(SANDBOX_QUEUE_MAX_LENGTH=0, SANDBOX_QUEUE_TTL_SEC=7)
    answer = server.start_run("true")
    assert answer.status_code == 429
    error = answer.json()["error"]
    assert error["code"] == "queue_full"
    assert int(answer.headers["retry-after"]) >= 1
    assert error["details"]["retry_after"] == int(answer.headers["retry-after"])
    assert {"reason", "quota_scope", "limit"} <= set(error["details"])


def test_a_run_that_must_be_approved(make_server):
    server = make_server(SANDBOX_APPROVAL_REQUIRED="timeout_sec>100")
    assert server.sh("true")["phase"] == "completed"
    held = server.start_run("echo", "yes", timeout_sec=200).json()
    denied = server.start_run("echo", "no", timeout_sec=200).json()
    assert (held["phase"], held["reason_code"]) == ("queued", "approval_required")
    listed = server.get("/admin/approvals").json()
    assert {i["id"] for i in listed["items"]} == {held["id"], denied["id"]}
    assert listed["items"][0]["approval_rule"] == "timeout_sec>100"
    assert server.post(f"/admin/runs/{held['id']}/approve").json()["approval"] == "approved"
    assert server.post(f"/admin/runs/{denied['id']}/deny").json()["approval"] == "denied"
    assert server.wait_for(held["id"])["phase"] == "completed"
    over = server.wait_for(denied["id"])
    assert (over["phase"], over["reason_code"]) == ("failed", "policy_denied")
    again = server.post(f"/admin/runs/{held['id']}/approve")
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "approval_not_pending"
    assert server.post(f"/admin/runs/{uuid.uuid4()}/approve").status_code == 404
    assert server.get("/admin/approvals").json()["total"] == 0


def test_an_admin_sees_what_is_to_be_approved(make_server):
    server = make_server(SANDBOX_APPROVAL_REQUIRED="timeout_sec>100")
    content = base64.b64encode(b"print(1)" * 4000).decode()
    held = server.start_run(
        "sh", "-c", "python3 main.py", timeout_sec=200, env={"TOKEN": "a-secret"},
        files=[{"path": "main.py", "content_b64": content}], capture_patterns=["*.txt"]).json()
    (item,) = server.get("/admin/approvals").json()["items"]
    one = server.get(f"/admin/runs/{held['id']}").json()
    for shown in (item["request"], one["request"]):
        assert shown["command"] == ["sh", "-c", "python3 main.py"]
        assert shown["command_truncated"] is False
        assert shown["files"] == [{"path": "main.py", "size": 32000}]
        assert shown["env_names"] == ["TOKEN"]
        assert shown["capture_patterns"] == ["*.txt"]
        assert shown["rule"] == "timeout_sec>100"
        assert shown["limits"]["timeout_sec"] == 200
        assert "a-secret" not in json.dumps(shown)
    server.restart()
    (again,) = server.get("/admin/approvals").json()["items"]
    assert again["request"] == item["request"]
    server.post(f"/admin/runs/{held['id']}/deny")
    server.wait_for(held["id"])
    assert server.get(f"/admin/runs/{held['id']}").json()["request"] is None


def test_of_a_long_command_an_admin_sees_how_long_it_is(make_server):
    server = make_server(SANDBOX_APPROVAL_REQUIRED="timeout_sec>100")
    server.start_run("sh", "-c", ":" + " " * 100000 + "; evil", timeout_sec=200)
    (item,) = server.get("/admin/approvals").json()["items"]
    shown = item["request"]
    assert shown["command_truncated"] is True
    assert shown["command_bytes"] > 100000
    assert len(json.dumps(shown)) < 80000
    server.post(f"/admin/runs/{item['id']}/deny")


def test_long_names_of_files_are_shown_as_far_as_there_is_room(make_server):
    server = make_server(SANDBOX_APPROVAL_REQUIRED="timeout_sec>100")
    files = [{"path": "/".join(["x" * 200] * 10) + f"/{i}", "content_b64": ""} for i in range(256)]
    server.start_run("true", timeout_sec=200, files=files)
    (item,) = server.get("/admin/approvals").json()["items"]
    shown = item["request"]
    assert [f["path"] for f in shown["files"]] == [f["path"] for f in files[:len(shown["files"])]]
    assert shown["files"] and len(shown["files"]) + shown["files_omitted"] == 256
    assert len(json.dumps(shown)) < 80000
    server.post(f"/admin/runs/{item['id']}/deny")


def test_the_reason_of_a_denial_reaches_whoever_asked(make_server):
    server = make_server(SANDBOX_APPROVAL_REQUIRED="timeout_sec>100")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(server.run, "true", timeout_sec=200)
        (held,) = eventually(lambda: server.get("/admin/approvals").json()["items"], 20 * SLOWER)
        for wrong in ({"reason": ""}, {"reason": 1}, {"reason": "x" * 201}, {"reason": "a\nb"},
                      {"because": "x"}, []):
            answer = server.post(f"/admin/runs/{held['id']}/deny", json=wrong)
            assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
        answer = server.post(f"/admin/runs/{held['id']}/deny", json={"reason": "not on a Friday"})
        assert answer.json()["approval"] == "denied"
        run = waiting.result()
    told = "an admin denied this run: not on a Friday"
    assert (run["phase"], run["message"]) == ("failed", told)
    assert server.status(run["id"])["message"] == told
    lines = server.get(f"/runs/{run['id']}/logs", params={"format": "jsonl"}).text.splitlines()
    end = json.loads(lines[-1])
    assert end["data"] == {"exit_code": None, "reason": "policy_denied", "message": told}


def test_runs_that_wait_for_an_admin_take_a_place(make_server):
    server = make_server(SANDBOX_APPROVAL_REQUIRED="trusted", SANDBOX_QUEUE_MAX_LENGTH=2)
    held = [server.start_run("true", trust_level="trusted").json()["id"] for _ in range(2)]
    answer = server.start_run("true", trust_level="trusted")
    assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1
    assert answer.json()["error"]["code"] == "queue_full"
    assert server.sh("true")["phase"] == "completed"  # it waits for nobody
    server.post(f"/admin/runs/{held[0]}/deny")
    assert server.start_run("true", trust_level="trusted").status_code == 200


def rss_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) >> 10


@pytest.mark.once
@pytest.mark.skipif(b"__asan_init" in PROGRAM.read_bytes(),
                    reason="a sanitizer holds what is freed for a while")
def test_files_of_runs_that_wait_are_not_held_in_memory(make_server):
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=1)
    first = server.start_run("sleep", "60").json()["id"]
    file = {"path": "a", "content_b64": base64.b64encode(bytes(1_000_000)).decode()}
    before = rss_mb(server.process.pid)
    waiting = [server.start_run("sh", "-c", "wc -c <a", files=[file]).json()["id"]
               for _ in range(40)]
    assert rss_mb(server.process.pid) - before < 64
    for run_id in waiting[1:-1]:
        server.post(f"/runs/{run_id}/cancel")
    server.post(f"/runs/{first}/cancel")
    for run_id in (waiting[0], waiting[-1]):
        over = server.wait_for(run_id)
        assert (over["phase"], over["resource_usage"]["log_bytes"]) == ("completed", 8), over


@pytest.mark.once
def test_a_keeper_that_does_not_answer(server):
    keepers = [pid for pid, line in server.processes().items() if " keeper " in line]
    for pid in keepers:
        os.kill(pid, signal.SIGSTOP)
    try:
        run = server.run("true", startup_timeout_sec=1, wait=20 * SLOWER)
    finally:
        for pid in keepers:
            os.kill(pid, signal.SIGCONT)
    assert (run["phase"], run["message"]) == ("timed_out", "startup_timeout"), run
    assert server.sh("true")["phase"] == "completed"


def test_little_of_a_processor_is_as_much_as_can_be_granted(server):
    assert server.run("true", resources={"cpu": 0.001})["limits"]["cpu"] == 0.01
    assert server.session(cpu_limit=0.001)["cpu_limit"] == 0.01


def lines_of(text, run_id):
    found = [json.loads(line) for line in text.splitlines() if run_id in line]
    return [line for line in found if line.get("run_id") == run_id]


def test_the_log_says_how_each_run_ended(server):
    secret = "s3cret-word"
    runs = [server.run("sh", "-c", f"exit {code} # {secret}", env={"K": secret})
            for code in (0, 3)]
    runs.append(server.run("sleep", "9", timeout_sec=1))
    runs.append(server.run("no-such-program"))
    server.stop()
    assert secret not in server.log() and "no-such-program" not in server.log()
    for run in runs:
        ends = [x for x in lines_of(server.log(), run["id"]) if x["msg"] == "run ended"]
        assert len(ends) == 1
        assert ends[0]["phase"] == run["phase"]
        assert ends[0]["reason_code"] == run["reason_code"]
        assert ends[0].get("exit_code") == run["exit_code"]
        assert ends[0]["policy_hash"] == run["policy_hash"] and ends[0]["user_id"]
    timed = [x for x in lines_of(server.log(), runs[2]["id"]) if x["msg"] == "run ended"][0]
    assert 900 <= timed["duration_ms"] < 9000


def test_the_audit_says_why_a_run_was_killed_or_failed(server):
    killed = server.start_run("sleep", "60").json()["id"]
    assert server.post(f"/runs/{killed}/cancel").json()["cancelled"]
    failed = server.run("false")["id"]
    missing = server.run("true", base_image="no-such-image")["id"]
    server.stop()
    log = (server.root / "data/audit/audit.jsonl").read_text(encoding="utf-8")
    end = lines_of(log, killed)[-1]
    assert (end["event"], end["message"]) == ("sandbox.run.killed", "canceled_by_user")
    end = lines_of(log, failed)[-1]
    assert (end["event"], end["error_class"]) == ("sandbox.run.failed", "execution")
    assert "message" not in end
    assert lines_of(log, missing)[-1]["error_class"] == "runtime"


def test_the_audit_has_nothing_of_what_is_executed(server):
    run = server.run("nosuchprogram")
    assert "nosuchprogram" in run["message"]
    server.stop()
    log = (server.root / "data/audit/audit.jsonl").read_text(encoding="utf-8")
    ends = [line for line in map(json.loads, log.splitlines()) if line["run_id"] == run["id"]]
    assert ends[-1]["reason_code"] == run["reason_code"]
    assert "nosuchprogram" not in log


def test_foreground_execution(make_server):
    server = make_server(SANDBOX_BACKGROUND_EXECUTION="false")
    run = server.start_run("sh", "-c", "sleep 0.3; exit 4").json()
    assert (run["phase"], run["exit_code"]) == ("failed", 4)
    assert "stdout" not in run


def test_who_waits_when_the_server_ends_gets_an_answer(make_server):
    server = make_server(SANDBOX_DRAIN_TIMEOUT_SEC=1)
    client = server.client()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.start_run, "sh", "-c", "sleep 5; echo after", client=client,
                             params={"wait": 60}, headers={"Idempotency-Key": "k"})
        time.sleep(1)
        server.clients.clear()
        assert server.stop() == 0
        run = answer.result().json()
    client.close()
    assert run["phase"] == "running"
    server.start()
    again = server.wait_for(run["id"])
    assert again["phase"] == "completed"
    assert keyed(server, "k", "sh", "-c", "sleep 5; echo after",
                 params={"wait": 5}).json()["stdout"] == "after\n"


def test_a_trace_is_kept_and_told(server):
    trace = "0af7651916cd43dd8448eb211c80319c"
    given = server.start_run("true", headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    assert given.headers["x-trace-id"] == trace
    fresh = server.start_run("true", headers={"traceparent": "00-zz-b7ad6b7169203331-01"})
    assert re.fullmatch("[0-9a-f]{32}", fresh.headers["x-trace-id"])
    server.wait_for(given.json()["id"])
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    line = next(i for i in lines if i.get("trace_id") == trace)
    assert (line["method"], line["route"], line["status"]) == ("POST", BASE + "/runs", 200)
    assert line["run_id"] == given.json()["id"]
    assert line["user_id"] == "single_user" and line["took_ms"] > 0


@pytest.mark.once
@pytest.mark.delegated
def test_a_run_at_its_limit_of_processes_has_its_exit_code(make_server):
    server = make_server(SANDBOX_PIDS_LIMIT=20)
    code = ("import os, time\n"
            "try:\n"
            "    while True:\n"
            "        if os.fork() == 0: time.sleep(600)\n"
            "except BlockingIOError: raise SystemExit(7)\n")
    run = server.run("/usr/bin/python3", "-c", code)
    if run["reason_code"] != "pids_limit_exceeded":
        pytest.skip("processes are not counted by a cgroup for this user on this host")
    assert run["exit_code"] == 7
    assert run["signal"] is None
