"""Snapshots and clones over REST: they have everything, or there are none."""
import threading
import time

import httpx
import pytest

from server import make_server, server  # noqa: F401 (fixtures)


def snapshot(server, session):
    made = server.post(f"/sessions/{session}/snapshot")
    assert made.status_code == 200, made.text
    return made.json()["snapshot_id"]


def restore(server, session, snapshot_id):
    return server.post(f"/sessions/{session}/restore", json={"snapshot_id": snapshot_id})


def told(answer):
    return answer.status_code, answer.json()["error"]["code"]


def shell(server, session, script):
    run = server.sh(script, session_id=session)
    assert run["exit_code"] == 0, run
    return run["stdout"]


def test_linked_files_stay_linked_and_count_once(server):
    session = server.session()["id"]
    shell(server, session, "head -c 130M /dev/zero >a; mkdir d; ln a d/b; echo keep >z")
    made = snapshot(server, session)
    shell(server, session, "rm -r *; echo other >other")
    assert restore(server, session, made).status_code == 200
    look = "ls -R | tr '\\n' ' '; stat -c '%s %h' a; test a -ef d/b && cat z"
    there = "a d z  ./d: b 136314880 2\nkeep\n"
    assert shell(server, session, look).endswith(there)
    clone = server.post(f"/sessions/{session}/clone")
    assert clone.status_code == 200, clone.text
    assert shell(server, clone.json()["id"], look).endswith(there)


def test_what_does_not_fit_makes_no_snapshot(make_server):
    server = make_server(SANDBOX_SNAPSHOT_MAX_SIZE_MB=1)
    session = server.session()["id"]
    kept = snapshot(server, session)
    server.upload(session, ("small.txt", b"small"), ("two.bin", bytes(2 << 20)))
    refused = server.post(f"/sessions/{session}/snapshot")
    assert told(refused) == (413, "snapshot_too_large")
    assert refused.json()["error"]["details"]["limit_mb"] == 1
    listed = server.get(f"/sessions/{session}/snapshots").json()["items"]
    assert [i["snapshot_id"] for i in listed] == [kept]
    assert shell(server, session, "ls") == "small.txt\ntwo.bin\n"


def test_files_with_holes_count_in_full(server):
    session = server.session()["id"]
    shell(server, session, "truncate -s 100M a b c")
    assert told(server.post(f"/sessions/{session}/snapshot")) == (413, "snapshot_too_large")
    assert told(server.post(f"/sessions/{session}/clone")) == (413, "workspace_cap_exceeded")
    assert server.get(f"/sessions/{session}/snapshots").json()["items"] == []


@pytest.mark.parametrize("script, status", [
    ("echo >a; chmod 0 a", 422),
    ("mkdir a; echo >a/b; chmod 0 a", 422),
    ("d=.; for i in $(seq 70); do d=$d/d; done; mkdir -p $d", 413)],
    ids=["closed file", "closed directory", "deep"])
def test_what_can_not_be_read_makes_no_snapshot(server, script, status):
    session = server.session()["id"]
    shell(server, session, script)
    for what in ("snapshot", "clone"):
        refused = server.post(f"/sessions/{session}/{what}")
        assert refused.status_code == status, refused.text
        assert f"no {what} of this workspace" in refused.json()["error"]["message"]
    assert server.get(f"/sessions/{session}/snapshots").json()["items"] == []
    assert server.get("/sessions").json()["total"] == 1


def test_times_and_odd_names_come_back(server):
    session = server.session()["id"]
    look = "find . -mindepth 1 ! -name fifo -printf '%P %T@ %l\\n' | sort"
    shell(server, session, """
        mkdir -p .hidden/d; echo x >.hidden/d/'a b'; ln -s nowhere link; mkfifo fifo; mkdir empty
        touch -h -d 2020-01-01T00:00:00.5Z link .hidden/d/*; touch -d 1960-01-01 .hidden empty""")
    before = shell(server, session, look)
    made = snapshot(server, session)
    shell(server, session, "echo y >.hidden/d/c; rm -r empty link")
    assert restore(server, session, made).status_code == 200
    assert shell(server, session, look) == before
    assert "1577836800.5" in before and shell(server, session, "ls") == "empty\nlink\n"


def test_what_is_shut_is_no_obstacle_to_restoring(server):
    session = server.session()["id"]
    server.upload(session, ("v.txt", b"v1"))
    made = snapshot(server, session)
    shell(server, session, "mkdir -p shut/in; echo >shut/in/x; chmod 0 shut/in; chmod 555 shut")
    assert restore(server, session, made).status_code == 200
    assert shell(server, session, "ls -A; cat v.txt") == "v.txt\nv1"


@pytest.mark.parametrize("mode", ["0", "0100", "0300", "0444", "0555"])
def test_a_workspace_that_is_shut_is_no_obstacle_to_restoring(server, mode):
    session = server.session()["id"]
    server.upload(session, ("v.txt", b"v1"))
    made = snapshot(server, session)
    shell(server, session, f"echo >more; chmod {mode} /workspace")
    assert restore(server, session, made).status_code == 200
    assert shell(server, session, "ls -A; cat v.txt") == "v.txt\nv1"


X = "0123456789abcdef"


@pytest.mark.parametrize("script", [
    f"mkdir -p .outgoing-{X}/a a; touch a/x .outgoing-{X}/a/y",
    f"mkdir .arriving-{X}; touch .arriving-{X}/q; chmod 500 .arriving-{X}",
    f"mkdir -p .outgoing-{X}/.outgoing-{X}; touch .outgoing-{X}/.outgoing-{X}/f",
    f"mkdir .incoming-{X}; touch .incoming-{X}/f; chmod 500 .incoming-{X}"],
    ids=["in the way", "shut", "nested", "incoming"])
def test_directories_of_a_guest_are_no_obstacle(server, script):
    session = server.session()["id"]
    made = snapshot(server, session)
    shell(server, session, script)
    before = shell(server, session, "ls -lAR")
    assert server.upload(session, ("new.txt", b"new")).status_code == 200
    assert shell(server, session, "cat new.txt; rm new.txt; ls -lAR") == "new" + before
    assert restore(server, session, made).status_code == 200
    assert shell(server, session, "ls -A") == ""


def test_files_with_names_like_ours_replace_nothing(server):
    session = server.session()["id"]
    shell(server, session, f"mkdir .outgoing-{X}; echo a >data.txt; echo b >.outgoing-{X}/data.txt")
    assert server.upload(session, ("new.txt", b"new")).status_code == 200
    assert shell(server, session, f"cat data.txt .outgoing-{X}/data.txt") == "a\nb\n"


def test_a_snapshot_that_was_damaged_changes_nothing(server):
    session = server.session()["id"]
    server.upload(session, ("v.txt", b"v1"))
    made = snapshot(server, session)
    file, = server.root.glob(f"data/*/snapshots/{session}/{made}")
    file.write_bytes(file.read_bytes()[:-1])
    server.upload(session, ("v.txt", b"v2"))
    assert restore(server, session, made).status_code == 500
    assert shell(server, session, "ls -A; cat v.txt") == "v.txt\nv2"


def begin_restore(server, session, snapshot_id):
    """Somebody who asks for it, and may never hear."""
    def ask():
        try:
            httpx.post(f"{server.url}/api/v1/sandbox/sessions/{session}/restore", timeout=60,
                       headers={"X-API-KEY": server.key}, json={"snapshot_id": snapshot_id})
        except httpx.TransportError:
            pass
    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def test_a_server_that_is_killed_while_it_restores_leaves_all_old_files_or_all_new(make_server):
    server = make_server()
    session = server.session()["id"]
    shell(server, session, "for i in $(seq 4000); do echo >new$i; done")
    made = snapshot(server, session)
    fill = "find . -mindepth 1 -delete; for i in $(seq 5000); do echo >old$i; done"
    count = "ls -A | tr -d 0-9 | sort | uniq -c | tr -s ' '"
    for moment in (0.04, 0.06, 0.08, 0.1, 0.15):
        shell(server, session, fill)
        asking = begin_restore(server, session, made)
        time.sleep(moment)
        server.kill()
        asking.join()
        server.start()
        snapshot(server, session)  # whoever looks at the files waits for those who look after them
        assert shell(server, session, count) in (" 4000 new\n", " 5000 old\n")
