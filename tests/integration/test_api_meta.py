"""What the server says about itself: runtimes, health, metrics, description."""
import contextlib
import os
import shutil
import signal
import subprocess

import httpx
import pytest

from jar import SLOWER, eventually
from server import make_server, server, users  # noqa: F401 (fixtures)

FIELDS = ("name available default_images max_cpu max_mem_mb max_upload_mb max_log_bytes "
          "queue_max_length queue_ttl_sec workspace_cap_mb artifact_ttl_hours "
          "supported_spec_versions interactive_supported egress_allowlist_supported "
          "store_mode").split()


def root_get(server, path, key="", **options):
    return server.client(key).get(server.url + path, **options)


def test_runtimes_say_what_they_can(server):
    answer = server.get("/runtimes")
    assert answer.status_code == 200
    entries = {entry["name"]: entry for entry in answer.json()["runtimes"]}
    assert [*entries] == ["native", "docker", "firecracker"]
    for entry in entries.values():
        assert not [field for field in FIELDS if field not in entry]
        assert entry["store_mode"] == "sqlite"
    native = entries["native"]
    assert native["available"] and native["interactive_supported"]
    assert not native["egress_allowlist_supported"]
    assert native["reasons"] == []
    enforced, rest = native["facets"]["enforced"], native["facets"]["not_enforced"]
    assert {"user", "mount", "pid", "net", "seccomp", "timeout"} <= set(enforced)
    assert not set(enforced) & set(rest)
    # what is not enforced is said aloud, and a run says the same
    assert all(f"{facet}_not_enforced" in native["isolation_warnings"] for facet in rest)
    usage = server.sh("true")["resource_usage"]
    assert set(usage["enforced"]) <= set(enforced)
    for name in ("docker", "firecracker"):
        assert not entries[name]["available"]
        assert entries[name]["reasons"] == [f"{name}_not_supported"]
        assert entries[name]["notes"]
        assert entries[name]["facets"] == {"enforced": [], "not_enforced": []}
    assert answer.json()["store_mode"] == "sqlite"


@pytest.mark.once
def test_runtimes_know_the_languages(server):
    native, *others = server.get("/runtimes").json()["runtimes"]
    languages = {entry["name"]: entry for entry in native["languages"]}
    assert [*languages] == ["python", "javascript", "shell", "elixir", "ruby", "perl", "lua", "c",
                            "go", "java"]
    assert "py" in languages["python"]["aliases"]
    assert all(entry["available"] == (entry["reason"] is None) for entry in languages.values())
    assert languages["shell"]["available"] and languages["python"]["available"]
    assert all(entry["languages"] == [] for entry in others)


@pytest.mark.once
def test_runtimes_follow_the_settings(make_server):
    server = make_server(SANDBOX_MAX_CPU="1.5", SANDBOX_MAX_MEM_MB=512, SANDBOX_MAX_LOG_BYTES=4096,
                         SANDBOX_QUEUE_MAX_LENGTH=7, SANDBOX_STORE_BACKEND="memory",
                         SANDBOX_SUPPORTED_SPEC_VERSIONS="1.0")
    native = server.get("/runtimes").json()["runtimes"][0]
    got = {name: native[name] for name in ("max_cpu", "max_mem_mb", "max_log_bytes",
                                           "queue_max_length", "supported_spec_versions",
                                           "store_mode")}
    assert got == {"max_cpu": 1.5, "max_mem_mb": 512, "max_log_bytes": 4096,
                   "queue_max_length": 7, "supported_spec_versions": ["1.0"],
                   "store_mode": "memory"}


@pytest.mark.once
def test_an_image_of_the_list_can_be_run(server):
    images = server.get("/runtimes").json()["runtimes"][0]["default_images"]
    assert "host" in images
    others = server.get("/runtimes").json()["runtimes"][1:]
    assert [r["default_images"] for r in others if not r["available"]] == [[]] * len(others)
    for image in images:
        assert server.run("true", base_image=image)["phase"] == "completed", image


def test_who_may_ask_for_what(server):
    stranger = server.client("")
    for path in ("/runtimes", "/health"):
        answer = stranger.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["detail"] == (
            "Not authenticated (provide Bearer token or X-API-KEY)")
    health = stranger.get("/health/public")
    assert health.status_code == 200
    assert health.json() == {
        "ok": True, "store": {"mode": "sqlite", "healthy": True},
        "redis": {"enabled": False, "channel": None, "connected": False}, "timings": {}}
    whole = server.get("/health").json()
    assert whole["ok"] and whole["runtime"] == {"name": "native", "up": True}
    for path in ("/healthz", "/readyz", "/openapi.json", "/"):
        assert root_get(server, path).status_code == 200
    assert root_get(server, "/readyz").json()["ready"]
    assert root_get(server, "/").json()["name"] == "belljar"


@pytest.mark.once
def test_not_ready_without_a_keeper(server):
    keepers = [pid for pid, line in server.processes().items() if " keeper " in line]
    assert keepers

    def is_ready():
        return root_get(server, "/readyz").status_code == 200
    try:
        for pid in keepers:
            os.kill(pid, signal.SIGSTOP)  # a guardian would start another one
        for pid in keepers:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: not is_ready(), 10 * SLOWER)
        answer = root_get(server, "/readyz")
        assert (answer.status_code, answer.json()["checks"]["runtime"]) == (503, False)
        assert root_get(server, "/healthz").status_code == 200
        assert not server.client("").get("/health/public").json()["ok"]
        native = server.get("/runtimes").json()["runtimes"][0]
        assert (native["available"], native["reasons"]) == (False, ["keeper_unreachable"])
    finally:
        for pid in keepers:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


# --- metrics ---

@pytest.mark.once
def test_metrics_are_what_prometheus_reads(server):
    server.sh("echo hi")
    server.run("sleep", "9", timeout_sec=1)
    server.start_run("true", base_image="no-such-image")
    session = server.session()
    server.upload(session["id"], ("a.txt", "x"))
    answer = root_get(server, "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    for line in ('sandbox_runs_completed_total{runtime="native",outcome="completed",'
                 'reason="exit_code_0"} 1',
                 'sandbox_runs_completed_total{runtime="native",outcome="timed_out",'
                 'reason="execution_timeout"} 1',
                 'sandbox_sessions_created_total{runtime="native"} 1'):
        assert line in lines
    assert shutil.which("promtool"), "the package prometheus has it"
    done = subprocess.run(["promtool", "check", "metrics"], input=answer.text, text=True,
                          capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_metrics_need_no_key_nearby_but_behind_a_proxy(server):
    assert root_get(server, "/metrics").status_code == 200
    for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP"):
        headers = {name: "203.0.113.7"}
        assert root_get(server, "/metrics", headers=headers).status_code == 401
        assert root_get(server, "/metrics", server.key, headers=headers).status_code == 200


# --- routes and errors ---

@pytest.mark.once
def test_what_is_not_there_has_the_same_envelope(server):
    for path, status, code in (("/nowhere", 404, "not_found"), ("/api/v1/x", 404, "not_found")):
        answer = root_get(server, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    answer = server.client().post(server.url + "/healthz")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
    assert "GET" in answer.headers["allow"]


@pytest.mark.once
def test_head_is_get_without_a_body(server):
    for path in ("/healthz", "/metrics", "/openapi.json", "/"):
        got = root_get(server, path)
        head = httpx.head(server.url + path, trust_env=False)
        assert (head.status_code, head.content) == (200, b"")
        if path != "/metrics":
            assert head.headers["content-length"] == got.headers["content-length"]
