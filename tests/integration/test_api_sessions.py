"""Sessions over REST: their limits, files, snapshots and end."""
import base64
import datetime
import io
import os
import stat
import tarfile
import time
import uuid
import zipfile

import pytest

from jar import SLOWER
from server import make_server, server, users  # noqa: F401 (fixtures)


def tar_of(*members, mode="w:gz"):
    """(name, content) or a TarInfo each."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            tar.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def zip_of(*members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


# --- making one ---

def test_what_is_asked_for_is_echoed(server):
    asked = {"cpu_limit": 1.5, "memory_mb": 768, "timeout_sec": 77, "trust_level": "trusted",
             "env": {"A": "b"}, "labels": {"c": "d"}, "persona_id": "p", "workspace_id": "w",
             "workspace_group_id": "g", "scope_snapshot_id": "s"}
    session = server.session(**asked)
    assert {name: session[name] for name in asked} == asked
    assert session["id"] == session["session_id"] == str(uuid.UUID(session["id"]))
    assert session["runtime"] == "native" and session["base_image"] == "host"
    assert session["network_policy"] == "deny_all" and session["policy_hash"]
    assert server.get(f"/sessions/{session['id']}").json()["env"] == {"A": "b"}


def test_too_much_is_clamped(server):
    assert server.session(cpu_limit=99)["cpu_limit"] <= 4
    small = server.session(trust_level="untrusted", cpu_limit=4, memory_mb=4096, timeout_sec=300)
    assert small["cpu_limit"] <= 1 and small["memory_mb"] <= 1024 and small["timeout_sec"] <= 60
    assert server.session(memory_mb=99999)["memory_mb"] == 8192


def test_who_asks_for_nothing_gets_a_part_of_the_machine(make_server):
    server = make_server()
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    session = server.session()
    assert session["cpu_limit"] == 1
    assert session["memory_mb"] <= min(1024, machine // 4)
    server.stop()
    server = make_server(SANDBOX_DEFAULT_MEM_MB=300, SANDBOX_DEFAULT_CPU=0.5)
    session = server.session()
    assert (session["memory_mb"], session["cpu_limit"]) == (300, 0.5)


def test_a_replay_is_the_same_session(server):
    def make(**fields):
        return server.post("/sessions", json={"base_image": "host", **fields},
                           headers={"Idempotency-Key": "k"})
    first = make(timeout_sec=50)
    again = make(timeout_sec=50)
    assert again.json()["id"] == first.json()["id"]
    for answer, status in ((first, "new"), (again, "replayed")):
        assert answer.json()["details"] == {"idempotency_key_echo": "k",
                                            "idempotency_status": status}
    assert "details" not in server.get(f"/sessions/{first.json()['id']}").json()
    other = make(timeout_sec=51)
    assert other.status_code == 409
    assert other.json()["error"]["code"] == "idempotency_conflict"
    assert other.json()["error"]["details"]["prior_id"] == first.json()["id"]
    assert server.get("/sessions").json()["total"] == 1


def test_sessions_are_listed_and_limited(make_server):
    server = make_server(SANDBOX_MAX_SESSIONS_PER_USER=3)
    made = [server.session()["id"] for _ in range(3)]
    page = server.get("/sessions", params={"limit": 2}).json()
    assert page["total"] == 3 and page["has_more"] and len(page["items"]) == 2
    assert {i["id"] for i in server.get("/sessions").json()["items"]} == set(made)
    refused = server.post("/sessions", json={"base_image": "host"})
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "quota_exceeded"
    assert server.delete(f"/sessions/{made[0]}").json() == {"ok": True}
    assert server.session()["id"] not in made


def test_a_run_inherits_from_its_session(server):
    session = server.session(env={"WHO": "me"}, timeout_sec=7, memory_mb=256)
    run = server.run("sh", "-c", "printf %s $WHO", session_id=session["id"], timeout_sec=None)
    assert run["stdout"] == "me"
    assert run["session_id"] == session["id"] and run["base_image"] == "host"
    limits = run["resource_usage"]["limits"]
    assert (limits["timeout_sec"], limits["memory_mb"]) == (7, 256)
    other = server.run("sh", "-c", "printf %s $WHO", session_id=session["id"], env={"X": "y"})
    assert other["stdout"] == ""


KEEPER_OF_PIPES = """
import os, socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("/workspace/here.tmp")
server.listen()
os.rename("/workspace/here.tmp", "/workspace/here")
peer, _ = server.accept()
_, rights, _, _ = peer.recvmsg(1, socket.CMSG_SPACE(8))
peer.send(b"x")
time.sleep(20)
"""
GIVER_OF_PIPES = """
import array, os, socket, time
while not os.path.exists("/workspace/here"):
    time.sleep(0.01)
print("given", flush=True)
peer = socket.socket(socket.AF_UNIX)
peer.connect("/workspace/here")
peer.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1, 2]))])
peer.recv(1)
"""


def test_an_end_does_not_wait_for_a_pipe_that_another_run_holds(server):
    session = server.session()["id"]
    other = server.start_run("python3", "-c", KEEPER_OF_PIPES, session_id=session).json()
    server.wait_for(other["id"], "running")
    began = time.monotonic()
    run = server.run("python3", "-c", GIVER_OF_PIPES, session_id=session)
    assert run["stdout"] == "given\n" and run["exit_code"] == 0
    assert time.monotonic() - began < 2.5 * SLOWER, run
    assert server.status(other["id"])["phase"] == "running"
    assert server.post(f"/runs/{other['id']}/cancel").status_code == 200


def test_a_session_without_an_image_runs_nothing(server):
    session = server.post("/sessions", json={"spec_version": "1.0"}).json()
    answer = server.start_run("true", session_id=session["id"])
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "session_base_image_required"
    assert answer.json()["detail"]["error"]["code"] == "session_base_image_required"


def test_a_session_that_is_not_there(server):
    nobody = str(uuid.uuid4())
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/snapshot"),
                         ("GET", "/snapshots"), ("POST", "/clone"),
                         ("DELETE", "/snapshots/snap-1")):
        answer = server.http.request(method, f"/sessions/{nobody}{path}")
        assert answer.status_code == 404, path
        assert answer.json()["detail"] == "session_not_found"
    assert server.upload(nobody, ("a", b"b")).status_code == 404
    run = server.start_run("true", session_id=nobody)
    assert (run.status_code, run.json()["detail"]) == (404, "session_not_found")


# --- files ---

def test_an_uploaded_file_is_there_for_a_run(server):
    session = server.session()["id"]
    answer = server.upload(session, ("hello.txt", b"hello"), ("d/e.txt", b"deep"))
    assert answer.status_code == 200
    assert answer.json()["session_id"] == session
    assert (answer.json()["bytes_received"], answer.json()["file_count"]) == (9, 2)
    assert server.run("cat", "hello.txt", "d/e.txt", session_id=session)["stdout"] == "hellodeep"
    assert server.sh("echo more >>hello.txt", session_id=session)["exit_code"] == 0
    assert server.run("cat", "hello.txt", session_id=session)["stdout"] == "hellomore\n"


@pytest.mark.parametrize("name, content", [
    ("a.tar.gz", tar_of(("x/y.txt", b"packed"))),
    ("a.tar", tar_of(("x/y.txt", b"packed"), mode="w")),
    ("a.tar.bz2", tar_of(("x/y.txt", b"packed"), mode="w:bz2")),
    ("a.zip", zip_of(("x/y.txt", b"packed")))], ids=["tar.gz", "tar", "tar.bz2", "zip"])
def test_archives_in_a_form_are_unpacked(server, name, content):
    session = server.session()["id"]
    answer = server.upload(session, (name, content)).json()
    assert (answer["bytes_received"], answer["file_count"]) == (6, 1)
    assert server.run("cat", "x/y.txt", session_id=session)["stdout"] == "packed"


@pytest.mark.parametrize("content_type, content", [
    ("application/x-tar", tar_of(("x.txt", b"body"), mode="w")),
    ("application/gzip", tar_of(("x.txt", b"body"))),
    ("application/x-gtar", tar_of(("x.txt", b"body"))),
    ("application/zip", zip_of(("x.txt", b"body")))], ids=["tar", "gzip", "gtar", "zip"])
def test_archives_as_a_body_are_unpacked(server, content_type, content):
    session = server.session()["id"]
    answer = server.post(f"/sessions/{session}/files", content=content,
                         headers={"Content-Type": content_type})
    assert answer.status_code == 200, answer.text
    assert answer.json()["file_count"] == 1
    assert server.run("cat", "x.txt", session_id=session)["stdout"] == "body"


@pytest.mark.parametrize("how", ["query", "header"])
def test_a_plain_file_says_where_it_goes(server, how):
    session = server.session()["id"]
    path = f"/sessions/{session}/files"
    headers = {"Content-Type": "application/octet-stream"}
    options = {"params": {"path": "in/a b.tar"}} if how == "query" else {}
    if how == "header":
        headers["X-File-Path"] = "in/a b.tar"
    answer = server.post(path, content=b"no archive", headers=headers, **options)
    assert (answer.status_code, answer.json()["file_count"]) == (200, 1)
    assert server.run("cat", "in/a b.tar", session_id=session)["stdout"] == "no archive"
    nowhere = server.post(path, content=b"x", headers={"Content-Type": "application/octet-stream"})
    assert nowhere.status_code == 422
    assert nowhere.json()["error"]["details"]["field"] == "path"


@pytest.mark.parametrize("parts", [
    [("files", ("/etc/passwd", b"x"))],
    [("files", ("../../escape", b"x"))],
    [("files", ("a/../../escape", b"x"))],
    [("files", ("a.tar.gz", tar_of(("../escape", b"x"), ("/abs", b"x"))))],
    [("files", ("a.tar.gz", tar_of(link("l", "/etc/passwd"), link("h", "x", tarfile.LNKTYPE))))],
    [("files", ("a.zip", zip_of(("../escape", b"x"))))]])
def test_what_would_leave_the_workspace_is_skipped(server, parts):
    session = server.session()["id"]
    answer = server.post(f"/sessions/{session}/files", files=parts)
    assert answer.status_code == 200
    assert answer.json()["file_count"] == 0
    assert answer.json()["skipped"] >= 1
    assert server.run("find", ".", "-mindepth", "1", session_id=session)["stdout"] == ""


def test_a_corrupt_archive_changes_nothing(server):
    session = server.session()["id"]
    whole = tar_of(("x", os.urandom(5000)))
    for name, content in (("a.tar.gz", whole[:-2000]), ("a.tar", b"no archive" * 100),
                          ("a.zip", b"PK\3\4" + bytes(100)), ("a.tgz", b"\x1f\x8b" + bytes(9)),
                          ("a.zip", whole)):
        answer = server.upload(session, ("kept", b"k"), (name, content))
        assert answer.status_code == 422, (name, answer.text)
        error = answer.json()["error"]
        assert (error["code"], error["details"]) == ("invalid_upload", {"field": "files"})
        assert f"'{name}'" in error["message"]
    answer = server.post(f"/sessions/{session}/files", content=b"junk",
                         headers={"Content-Type": "application/x-tar"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_upload")
    assert server.run("ls", session_id=session)["stdout"] == ""


def test_binaries_are_blocked_but_for_a_list(make_server):
    server = make_server(SANDBOX_UPLOAD_BINARIES="block",
                         SANDBOX_UPLOAD_BINARIES_ALLOW="*.png,data/**")
    session = server.session()["id"]
    answer = server.upload(session, ("a.png", b"\0"), ("b.exe", b"MZ\0"), ("t", b"text"))
    assert (answer.status_code, answer.json()["binaries_blocked"]) == (200, 1)
    archive = tar_of(("data/x.bin", b"\0"), ("c.bin", b"\0"))
    answer = server.upload(session, ("a.tar.gz", archive))
    assert (answer.json()["binaries_blocked"], answer.json()["file_count"]) == (1, 1)
    listed = server.run("find", ".", "-type", "f", session_id=session)["stdout"]
    assert set(listed.split()) == {"./a.png", "./t", "./data/x.bin"}
    zero = base64.b64encode(b"\0").decode()
    for path, status in (("in.png", 200), ("in.exe", 422)):
        answer = server.start_run("true", files=[{"path": path, "content_b64": zero}])
        assert answer.status_code == status


def test_over_the_workspace_cap_nothing_is_written(make_server):
    server = make_server(SANDBOX_WORKSPACE_CAP_MB=4)
    session = server.session()["id"]
    assert server.upload(session, ("kept", b"k" * 1000)).status_code == 200
    answer = server.upload(session, ("a", b"x" * 1000), ("big", b"x" * (5 << 20)))
    assert answer.status_code == 413
    assert answer.json()["detail"] == "workspace_cap_exceeded"
    assert answer.json()["error"]["code"] == "workspace_cap_exceeded"
    assert server.run("ls", session_id=session)["stdout"] == "kept\n"


def test_a_body_over_the_upload_limit(make_server):
    server = make_server(SANDBOX_MAX_UPLOAD_MB=1)
    session = server.session()["id"]
    answer = server.upload(session, ("big", b"x" * (2 << 20)))
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "payload_too_large"


def test_a_form_without_files(server):
    session = server.session()["id"]
    answer = server.post(f"/sessions/{session}/files", files={"other": ("a", b"b")})
    assert answer.status_code == 422
    assert "needs a part named 'files', not 'other'" in answer.json()["error"]["message"]
    assert answer.json()["error"]["details"]["field"] == "files"


@pytest.mark.parametrize("headers, status", [
    ({"Content-Type": "text/plain"}, 415),
    ({"Content-Type": "multipart/form-data"}, 422),
    ({"Content-Type": "multipart/form-data; boundary=x"}, 422)])
def test_a_body_that_is_no_upload(server, headers, status):
    session = server.session()["id"]
    answer = server.post(f"/sessions/{session}/files", content=b"what?", headers=headers)
    assert answer.status_code == status, answer.text


PROGRAM = b"\x7fELF\x02\x01\x01 and so on"


def inline(name, content):
    return {"path": name, "content_b64": base64.b64encode(content).decode()}


def test_binaries_can_be_blocked(make_server):
    server = make_server(SANDBOX_UPLOAD_BINARIES="block")
    session = server.session()["id"]
    answer = server.upload(session, ("prog", PROGRAM), ("data.bin", b"a\0b"), ("a.txt", b"text"),
                           ("all.tgz", tar_of(("sub/prog", PROGRAM), ("sub/b.txt", b"text"))))
    assert answer.status_code == 200, answer.text
    assert (answer.json()["file_count"], answer.json()["binaries_blocked"]) == (2, 3)
    assert server.sh("find . -type f | sort", session_id=session)["stdout"] == (
        "./a.txt\n./sub/b.txt\n")
    for name, content in (("prog", PROGRAM), ("data.bin", b"a\0b")):
        for where in ({}, {"session_id": session}):
            refused = server.start_run(
                "true", files=[inline("a.txt", b"text"), inline(name, content)], **where)
            assert refused.status_code == 422, refused.text
            error = refused.json()["error"]
            assert (error["code"], error["details"]["index"]) == ("invalid_inline_file", 1)
    assert server.run("cat", "c.txt", files=[inline("c.txt", b"text")])["stdout"] == "text"


def test_binaries_are_taken_by_default(server):
    session = server.session()["id"]
    answer = server.upload(session, ("prog", PROGRAM)).json()
    assert (answer["file_count"], answer["binaries_blocked"]) == (1, 0)
    run = server.run("wc", "-c", "prog", files=[inline("prog", PROGRAM)])
    assert run["stdout"].split()[0] == str(len(PROGRAM))


def test_uploaded_programs_can_not_be_executed(server):
    """The workspace is noexec, whatever an archive says."""
    info = tarfile.TarInfo("run.sh")
    content = b"#!/bin/sh\necho ran\n"
    info.size, info.mode = len(content), 0o755
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(info, io.BytesIO(content))
    session = server.session()["id"]
    server.upload(session, ("a.tar", out.getvalue()))
    run = server.sh("stat -c %a run.sh; ./run.sh; sh run.sh", session_id=session)
    assert stat.S_IXUSR & int(run["stdout"].split()[0], 8)
    assert run["stdout"].splitlines()[1:] == ["ran"]


# --- its end ---

def test_deleting_kills_what_runs(server):
    session = server.session()["id"]
    run = server.start_run("sleep", "60", session_id=session).json()["id"]
    server.wait_for(run, "running")
    answer = server.delete(f"/sessions/{session}")
    assert (answer.status_code, answer.json()) == (200, {"ok": True})
    assert server.status(run)["phase"] == "killed"
    assert server.delete(f"/sessions/{session}").status_code == 404
    assert server.get(f"/sessions/{session}").status_code == 404


def test_files_survive_a_restart_of_the_server(server):
    session = server.session()["id"]
    server.upload(session, ("kept.txt", b"kept"))
    server.restart()
    assert server.run("cat", "kept.txt", session_id=session)["stdout"] == "kept"


# --- snapshots ---

def test_back_to_a_snapshot(server):
    session = server.session()["id"]
    server.upload(session, ("v.txt", b"v1"))
    made = server.post(f"/sessions/{session}/snapshot")
    assert made.status_code == 200, made.text
    first = made.json()
    assert first["snapshot_id"].startswith("snap-") and len(first["snapshot_id"]) == 17
    assert first["created_at"].endswith("Z") and first["size_bytes"] > 0
    server.upload(session, ("v.txt", b"v2"), ("new.txt", b"new"))
    second = server.post(f"/sessions/{session}/snapshot").json()
    listed = server.get(f"/sessions/{session}/snapshots").json()["items"]
    assert [i["snapshot_id"] for i in listed] == [second["snapshot_id"], first["snapshot_id"]]
    assert {i["session_id"] for i in listed} == {session}
    restored = server.post(f"/sessions/{session}/restore",
                           json={"snapshot_id": first["snapshot_id"]})
    assert restored.json() == {"restored": True, "snapshot_id": first["snapshot_id"]}
    assert server.sh("cat v.txt; ls", session_id=session)["stdout"] == "v1v.txt\n"
    gone = f"/sessions/{session}/snapshots/{first['snapshot_id']}"
    assert server.delete(gone).json() == {"ok": True, "snapshot_id": first["snapshot_id"]}
    assert server.delete(gone).json() == {"ok": False, "snapshot_id": first["snapshot_id"]}


def test_a_snapshot_that_is_not_there(server):
    session = server.session()["id"]
    answer = server.post(f"/sessions/{session}/restore", json={"snapshot_id": "snap-0"})
    assert answer.status_code == 404
    assert answer.json()["detail"] == "Snapshot not found: snap-0"
    assert answer.json()["error"]["code"] == "snapshot_not_found"
    for body in ({}, {"snapshot_id": 3}, {"snapshot_id": ""}, []):
        assert server.post(f"/sessions/{session}/restore", json=body).status_code == 422
    strange = server.delete(f"/sessions/{session}/snapshots/%ff%fe")
    assert (strange.status_code, strange.json()["ok"]) == (200, False)


def test_a_busy_session_is_not_copied(server):
    session = server.session()["id"]
    run = server.start_run("sleep", "60", session_id=session).json()["id"]
    server.wait_for(run, "running")
    for path, body in (("snapshot", None), ("clone", None), ("restore", {"snapshot_id": "snap-0"})):
        answer = server.post(f"/sessions/{session}/{path}", json=body)
        assert answer.status_code in ((409, 404) if path == "restore" else (409,)), path
        if answer.status_code == 409:
            assert answer.json()["detail"] == {
                "error": "session_has_active_runs", "active_runs": 1, "session_id": session}
    server.post(f"/runs/{run}/cancel")


def test_a_clone_has_files_of_its_own(server):
    session = server.session(labels={"a": "b"})["id"]
    server.upload(session, ("f.txt", b"one"))
    answer = server.post(f"/sessions/{session}/clone", json={"new_session_name": "n"})
    assert answer.status_code == 200, answer.text
    clone = answer.json()
    assert clone["cloned_from"] == session and clone["session_id"] != session
    assert clone["labels"] == {"a": "b"}
    assert clone["name"] == "n"
    server.upload(clone["session_id"], ("f.txt", b"two"))
    assert server.run("cat", "f.txt", session_id=session)["stdout"] == "one"
    assert server.run("cat", "f.txt", session_id=clone["session_id"])["stdout"] == "two"


def test_a_clone_has_the_name_it_is_given(server):
    session = server.session()["id"]
    path = f"/sessions/{session}/clone"
    clone = server.post(path, json={"new_session_name": "copy.1"}).json()
    assert server.get(f"/sessions/{clone['id']}").json()["name"] == "copy.1"
    assert server.post(path, json={"new_session_name": None}).json()["name"] is None
    assert server.post(path).json()["name"] is None
    taken = server.post(path, json={"new_session_name": "copy.1"})
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "session_name_taken")
    for bad in ("", ".", "a/b", "a b", "x" * 65, session):
        assert server.post(path, json={"new_session_name": bad}).status_code == 422, bad
    server.delete(f"/sessions/{clone['id']}")
    again = server.post(path, json={"new_session_name": "copy.1"})
    assert (again.status_code, again.json()["name"]) == (200, "copy.1")


# --- the end ---

def artifact_bytes(server):
    rows = server.get("/admin/usage").json()["items"]
    return sum(row["artifact_bytes"] for row in rows)


def test_artifacts_go_with_a_deleted_session(server):
    session = server.session()["id"]
    runs = [server.sh(f"echo {text} >out.txt; echo said", session_id=session,
                      capture_patterns=["out.txt"])["id"] for text in ("one", "two")]
    other = server.sh("echo 12345 >out.txt", capture_patterns=["out.txt"])["id"]
    assert artifact_bytes(server) == 14
    assert server.delete(f"/sessions/{session}").json() == {"ok": True}
    assert artifact_bytes(server) == 6
    for run in runs:
        assert server.get(f"/runs/{run}").json()["phase"] == "completed"
        assert server.get(f"/runs/{run}/artifacts").json()["items"] == []
        assert server.get(f"/runs/{run}/artifacts/out.txt").status_code == 404
    assert server.get(f"/runs/{other}/artifacts/out.txt").text == "12345\n"


def test_sessions_end_when_they_say(make_server):
    server = make_server(SANDBOX_SESSION_TTL_SEC=2)
    run = server.sh("echo >out.txt", session_id=server.session()["id"],
                    capture_patterns=["out.txt"])["id"]
    made = [server.session() for _ in range(20)]
    until = max(datetime.datetime.fromisoformat(s["expires_at"].replace("Z", "+00:00"))
                for s in made)
    time.sleep(max(0, (until - datetime.datetime.now(datetime.timezone.utc)).total_seconds()))
    assert server.get("/sessions").json()["total"] == 0
    for session in made:
        assert server.get(f"/sessions/{session['id']}").status_code == 404
        assert server.start_run("true", session_id=session["id"]).status_code == 404
    # What a run left has a time of its own.
    assert len(server.get(f"/runs/{run}/artifacts").json()["items"]) == 1
