"""/admin: lists with filters, pages and orders; details, sums, sweeps; for admins alone."""
import time

import pytest

from server import make_server, server, server_of_users, users  # noqa: F401 (fixtures)

TOP = {"total", "limit", "offset", "has_more", "pagination", "items"}
PAGINATION = {"limit", "offset", "total", "has_more", "next_offset"}
ADMIN_GETS = ("/admin/runs", "/admin/runs/x", "/admin/idempotency", "/admin/usage",
              "/admin/usage/summary", "/admin/metrics", "/admin/approvals")


def page(client, path, **params):
    answer = client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    got = answer.json()
    assert set(got) == TOP
    assert set(got["pagination"]) == PAGINATION
    for name in ("limit", "offset", "total", "has_more"):
        assert got["pagination"][name] == got[name]
    following = got["offset"] + got["limit"]
    assert got["has_more"] == (following < got["total"])
    assert got["pagination"]["next_offset"] == (following if got["has_more"] else None)
    return got


def ids(got):
    return [item["id"] for item in got["items"]]


def test_only_admins_are_let_in(server_of_users):
    server, keys = server_of_users
    boss, ann, nobody = (server.client(key) for key in (keys["boss"], keys["ann"], ""))
    for path in ADMIN_GETS:
        assert nobody.get(path).status_code == 401
        answer = ann.get(path)
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "forbidden"
        assert answer.json()["detail"] == "Access denied. Required role(s): admin"
        assert boss.get(path).status_code == (404 if path.endswith("/x") else 200)
    assert nobody.post("/admin/gc").status_code == 401
    assert ann.post("/admin/gc").status_code == 403


def test_runs_of_everybody_are_listed(server_of_users):
    server, keys = server_of_users
    boss, ann, bob = (server.client(keys[name]) for name in ("boss", "ann", "bob"))
    mine = server.start_run("true", client=ann, params={"wait": 30}).json()["id"]
    other = server.start_run("false", client=bob, params={"wait": 30}).json()["id"]
    got = page(boss, "/admin/runs")
    assert ids(got) == [other, mine]
    assert got["items"][1]["user_id"] == "ann"
    assert ids(page(boss, "/admin/runs", user_id="ann")) == [mine]
    assert ids(page(boss, "/admin/runs", user_id="nobody")) == []
    usage = page(boss, "/admin/usage")
    assert {u["user_id"]: u["runs_count"] for u in usage["items"]} == {"ann": 1, "bob": 1}


@pytest.mark.once
def test_every_filter_finds_its_runs(server):
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 1))
    session = server.session(workspace_id="w1", workspace_group_id="g1", scope_snapshot_id="s1")
    good = server.run("true", session_id=session["id"])["id"]
    exited = server.run("sh", "-c", "exit 3", base_image="python:3-slim")
    assert exited["exit_code"] == 3, exited  # it has started: there is some such Python
    bad = exited["id"]
    late = server.run("sleep", "9", timeout_sec=1)["id"]
    everything = {good, bad, late}
    ended = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    cases = [
        ({}, everything),
        ({"phase": "completed"}, {good}),
        ({"phase": "failed"}, {bad}),
        ({"phase": "timed_out"}, {late}),
        ({"phase": "queued"}, set()),
        ({"runtime": "native"}, everything),
        ({"runtime": "docker"}, set()),
        ({"base_image": "host"}, {good, late}),
        ({"q": "PYTHON"}, {bad}),
        ({"q": "execution_timeout"}, {late}),
        ({"q": "100%"}, set()),
        ({"session_id": session["id"]}, {good}),
        ({"workspace_id": "w1"}, {good}),
        ({"workspace_group_id": "g1"}, {good}),
        ({"scope_snapshot_id": "s1"}, {good}),
        ({"image_digest": "sha256:00"}, set()),
        ({"started_at_from": began, "started_at_to": ended}, everything),
        ({"started_at_from": ended}, set()),
        ({"started_at_to": began}, set()),
        ({"finished_at_from": began, "finished_at_to": ended}, everything),
        ({"finished_at_to": began}, set()),
        ({"phase": "failed", "base_image": "host"}, set()),
    ]
    for params, expected in cases:
        got = page(server, "/admin/runs", **params)
        assert set(ids(got)) == expected, params
        assert got["total"] == len(expected), params
    exact = next(i for i in page(server, "/admin/runs")["items"] if i["id"] == bad)
    assert ids(page(server, "/admin/runs", started_at_from=exact["started_at"],
                    started_at_to=exact["started_at"])) == [bad]


@pytest.mark.once
def test_pages_neither_overlap_nor_miss_one(server):
    made = [server.sh("true")["id"] for _ in range(7)]
    for sort, expected in (("asc", made), ("desc", made[::-1]), ("started_at:asc", made),
                           ("started_at:desc", made[::-1]), ("finished_at:asc", made),
                           ("finished_at", made[::-1])):
        seen, offset = [], 0
        while offset is not None:
            got = page(server, "/admin/runs", limit=3, offset=offset, sort=sort)
            assert len(got["items"]) <= 3 and got["total"] == 7
            seen += ids(got)
            offset = got["pagination"]["next_offset"]
        assert seen == expected, sort
    assert ids(page(server, "/admin/runs")) == made[::-1]
    assert page(server, "/admin/runs", offset=7)["items"] == []
    assert page(server, "/admin/runs")["limit"] == 50


@pytest.mark.once
@pytest.mark.parametrize("path, params", [
    ("/admin/runs", {"sort": "bogus"}), ("/admin/runs", {"sort": "started_at:up"}),
    ("/admin/runs", {"sort": "message"}), ("/admin/runs", {"limit": "0"}),
    ("/admin/runs", {"limit": "1001"}), ("/admin/runs", {"limit": "x"}),
    ("/admin/runs", {"limit": "-1"}), ("/admin/runs", {"offset": "-1"}),
    ("/admin/runs", {"offset": "9" * 30}), ("/admin/runs", {"phase": "over"}),
    ("/admin/runs", {"started_at_from": "yesterday"}),
    ("/admin/runs", {"finished_at_to": "2026-02-30"}), ("/admin/runs", {"q": "x" * 600}),
    ("/admin/idempotency", {"endpoint": "files"}), ("/admin/idempotency", {"sort": "key"}),
    ("/admin/idempotency", {"created_at_from": "1"}), ("/admin/usage", {"sort": "bogus"}),
    ("/admin/usage", {"limit": "0"}), ("/admin/usage/summary", {"from": "now"}),
])
def test_a_wrong_parameter_is_named(server, path, params):
    answer = server.get(path, params=params)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "invalid_request"
    assert error["details"]["field"] == next(iter(params))


@pytest.mark.once
def test_what_lives_is_shown_as_it_is(server):
    run_id = server.start_run("sleep", "20").json()["id"]
    server.wait_for(run_id, "running")
    item = next(i for i in page(server, "/admin/runs")["items"] if i["id"] == run_id)
    assert item["phase"] == "running" and item["started_at"]
    assert server.get(f"/admin/runs/{run_id}").json()["phase"] == "running"
    server.post(f"/runs/{run_id}/cancel")


@pytest.mark.once
def test_details_have_what_was_used_and_left(server):
    run = server.sh("printf 0123456789 >out.txt; echo hi", capture_patterns=["*.txt"])
    got = server.get(f"/admin/runs/{run['id']}").json()
    assert got["id"] == run["id"] and got["user_id"] == "single_user"
    assert got["artifacts"] == [{"path": "out.txt", "size": 10}]
    usage = got["resource_usage"]
    assert (usage["log_bytes"], usage["artifact_bytes"]) == (3, 10)
    assert {"cpu_time_sec", "wall_time_sec", "peak_rss_mb", "limits"} <= set(usage)
    answer = server.get("/admin/runs/00000000-0000-4000-8000-000000000000")
    assert (answer.status_code, answer.json()["detail"]) == (404, "run_not_found")


@pytest.mark.once
def test_idempotency_keys_are_listed(server):
    began = int(time.time())
    run = server.start_run("true", headers={"Idempotency-Key": "k1"}).json()
    body = {"spec_version": "1.0", "base_image": "host"}
    session = server.post("/sessions", json=body, headers={"Idempotency-Key": "k1"}).json()
    got = page(server, "/admin/idempotency")
    assert {i["endpoint"]: i["object_id"] for i in got["items"]} == {
        "runs": run["id"], "sessions": session["id"]}
    item = got["items"][0]
    assert set(item) == {"endpoint", "user_id", "key", "fingerprint", "object_id", "created_at"}
    assert (item["user_id"], item["key"], len(item["fingerprint"])) == ("single_user", "k1", 64)

    def at(seconds):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began + seconds))
    for params, n in (({"endpoint": "runs"}, 1), ({"endpoint": "sessions"}, 1),
                      ({"endpoint": "any"}, 2), ({"user_id": "single_user"}, 2),
                      ({"user_id": "x"}, 0), ({"key": "k1"}, 2), ({"key": "k2"}, 0),
                      ({"created_at_from": at(-1), "created_at_to": at(60)}, 2),
                      ({"created_at_from": at(60)}, 0), ({"created_at_to": at(-60)}, 0),
                      ({"limit": 1}, 1), ({"sort": "asc"}, 2)):
        assert len(page(server, "/admin/idempotency", **params)["items"]) == n, params


@pytest.mark.once
def test_usage_is_summed_up(server):
    server.sh("printf 0123456789 >out.txt; echo hi", capture_patterns=["*.txt"])
    server.sh("exit 1")
    got = page(server, "/admin/usage")
    assert got["items"] == [{"user_id": "single_user", "runs_count": 2, "log_bytes": 3,
                             "artifact_bytes": 10}]
    assert page(server, "/admin/usage", user_id="x")["items"] == []
    assert page(server, "/admin/usage", sort="user_id:asc")["total"] == 1


@pytest.mark.once
def test_the_summary_adds_up(server):
    server.sh("printf 0123456789 >out.txt; echo hi", capture_patterns=["*.txt"])
    server.sh("exit 1")
    server.run("sleep", "9", timeout_sec=1)
    live = server.start_run("sleep", "20").json()["id"]
    got = server.get("/admin/usage/summary").json()
    assert got["window"] == {"from": None, "to": None}
    totals = {name: got["totals"][name] for name in
              ("runs", "completed", "failed", "timed_out", "killed", "active", "log_bytes",
               "artifact_bytes")}
    assert totals == {"runs": 4, "completed": 1, "failed": 1, "timed_out": 1, "killed": 0,
                      "active": 1, "log_bytes": 3, "artifact_bytes": 10}
    assert got["by_runtime"] == [{"runtime": "native", **got["totals"]}]
    assert got["top_users"] == [{"user_id": "single_user", "runs": 4, "log_bytes": 3,
                                 "artifact_bytes": 10}]
    later = server.get("/admin/usage/summary", params={"from": "2100-01-01"}).json()
    assert later["window"] == {"from": "2100-01-01T00:00:00.000000Z", "to": None}
    assert (later["totals"]["runs"], later["by_runtime"], later["top_users"]) == (0, [], [])
    none = server.get("/admin/usage/summary", params={"user_id": "x"}).json()
    assert none["totals"]["runs"] == 0
    server.post(f"/runs/{live}/cancel")


@pytest.mark.once
def test_metrics_as_json(server):
    server.sh("true")
    got = server.get("/admin/metrics").json()
    assert {"labels": {"runtime": "native", "outcome": "completed", "reason": "exit_code_0"},
            "value": 1} in got["sandbox_runs_completed_total"]
    assert got["sandbox_run_duration_seconds_count"][0]["value"] == 1


@pytest.mark.once
def test_a_sweep_removes_what_is_past_its_time(make_server):
    server = make_server(SANDBOX_ARTIFACT_TTL_HOURS=1, SANDBOX_IDEMPOTENCY_TTL_SEC=0)
    run = server.sh("printf 0123456789 >out.txt", capture_patterns=["*.txt"])
    server.start_run("true", headers={"Idempotency-Key": "k1"}, params={"wait": 30})
    time.sleep(1.1)
    answer = server.post("/admin/gc")
    assert answer.status_code == 200 and answer.json()["ok"]
    assert all(isinstance(n, int) for n in answer.json()["removed"].values())
    assert page(server, "/admin/idempotency")["items"] == []
    assert server.get(f"/runs/{run['id']}/artifacts/out.txt").content == b"0123456789"
