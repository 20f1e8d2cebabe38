"""GET /runs/{id}/logs: all that a run printed, later or while it prints."""
import base64
import json
import socket
import threading
import time

import httpx
import pytest

from jar import SLOWER
from server import BASE, make_server, server, server_of_users, users  # noqa: F401 (fixtures)

PATIENCE = 30 * SLOWER
UNKNOWN = "00000000-0000-4000-8000-000000000000"
LINES = "application/x-ndjson"


def logs(server, run_id, client=None, headers=None, **params):
    return (client or server.http).get(f"/runs/{run_id}/logs", params=params, headers=headers)


def frames_of(answer):
    return [json.loads(line) for line in answer.text.splitlines()]


def bytes_of(frames, *kinds):
    data = b""
    for f in frames:
        if f["type"] in kinds:
            plain = f["data"].encode()
            data += base64.b64decode(plain) if f["encoding"] == "base64" else plain
    return data


@pytest.mark.once
def test_all_of_it_is_there_later(server):
    run = server.run("sh", "-c", "echo out; sleep 0.2; echo err >&2; sleep 0.2; printf '\\377\\0'")
    for _ in range(2):
        answer = logs(server, run["id"])
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.content == b"out\nerr\n\xff\0"
        assert logs(server, run["id"], stream="stdout").content == b"out\n\xff\0"
        assert logs(server, run["id"], stream="stderr").content == b"err\n"
        server.restart()


@pytest.mark.once
def test_more_than_an_answer_carries(server):
    run = server.run("sh", "-c", "seq 1 200000; seq 1 100 >&2")
    whole = "".join(f"{i}\n" for i in range(1, 200001))
    assert run["stdout_truncated"] is True
    assert logs(server, run["id"], stream="stdout").text == whole
    assert logs(server, run["id"], stream="stderr").text == "".join(
        f"{i}\n" for i in range(1, 101))
    assert len(logs(server, run["id"]).content) == run["resource_usage"]["log_bytes"]


@pytest.mark.once
def test_json_lines_are_the_frames_of_the_stream(server):
    run = server.run("sh", "-c", "echo out; sleep 0.2; echo err >&2; printf '\\377'")
    by_accept = logs(server, run["id"], headers={"Accept": LINES})
    assert by_accept.headers["content-type"] == LINES
    assert logs(server, run["id"], format="jsonl").text == by_accept.text
    plain = logs(server, run["id"], headers={"Accept": LINES}, format="text")
    assert plain.headers["content-type"].startswith("text/plain")
    frames = frames_of(by_accept)
    assert [f["seq"] for f in frames] == list(range(1, len(frames) + 1))
    assert bytes_of(frames, "stdout", "stderr") == plain.content
    assert frames[-1]["event"] == "end" and frames[-1]["data"]["exit_code"] == 0
    only = frames_of(logs(server, run["id"], format="jsonl", stream="stderr"))
    assert only == [f for f in frames if f["type"] != "stdout"]
    for seq in range(len(frames) + 3):
        rest = frames_of(logs(server, run["id"], format="jsonl", from_seq=seq))
        assert rest == frames[max(seq, 1) - 1:]


def test_a_part_of_the_text(server):
    run = server.sh("printf 0123456789; sleep 0.1; printf abcdef >&2")
    whole = logs(server, run["id"])
    assert (whole.text, whole.headers["accept-ranges"]) == ("0123456789abcdef", "bytes")
    for ask, part, said in (
            ("bytes=0-3", "0123", "bytes 0-3/16"), ("bytes=8-11", "89ab", "bytes 8-11/16"),
            ("bytes=12-", "cdef", "bytes 12-15/16"), ("bytes=-2", "ef", "bytes 14-15/16")):
        answer = logs(server, run["id"], headers={"Range": ask})
        assert (answer.status_code, answer.text) == (206, part)
        assert answer.headers["content-range"] == said
    part = logs(server, run["id"], headers={"Range": "bytes=2-3"}, stream="stderr")
    assert (part.text, part.headers["content-range"]) == ("cd", "bytes 2-3/6")
    for wrong in ("bytes=16-", "bytes=3-2", "bytes=0-1,4-5", "lines=1-2"):
        answer = logs(server, run["id"], headers={"Range": wrong})
        assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */16")
    resumed = logs(server, run["id"], headers={"Range": "bytes=2-3", "If-Range": '"x"'})
    assert (resumed.status_code, resumed.text) == (200, whole.text)
    lines = logs(server, run["id"], headers={"Range": "bytes=2-3"}, format="jsonl")
    assert lines.status_code == 200


@pytest.mark.once
def test_a_part_far_behind_the_beginning(server):
    run = server.run("python3", "-c", "import sys\nfor i in range(300000): print(i)")
    whole = logs(server, run["id"]).content
    for at in (0, 100001, 1500000, len(whole) - 5):
        part = logs(server, run["id"], headers={"Range": f"bytes={at}-{at + 99}"})
        assert part.content == whole[at:at + 100]


@pytest.mark.once
def test_a_follower_hears_it_as_it_is_printed(server):
    run_id = server.start_run("sh", "-c", "echo one; sleep 1; echo two; exit 3").json()["id"]
    came = []
    with server.http.stream("GET", f"/runs/{run_id}/logs", params={"follow": "1"}) as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        for piece in answer.iter_raw():
            came.append((piece, time.monotonic()))
    assert b"".join(piece for piece, _ in came) == b"one\ntwo\n"
    assert came[-1][1] - came[0][1] > 0.5
    frames = frames_of(logs(server, run_id, follow="true", format="jsonl"))
    assert (frames[-1]["event"], frames[-1]["data"]["exit_code"]) == ("end", 3)


@pytest.mark.once
def test_what_is_there_does_not_wait(server):
    run_id = server.start_run("sh", "-c", "echo one; sleep 60").json()["id"]
    until = time.monotonic() + PATIENCE
    while (text := logs(server, run_id).text) == "" and time.monotonic() < until:
        time.sleep(0.02)
    assert text == "one\n"
    assert server.status(run_id)["phase"] == "running"
    server.post(f"/runs/{run_id}/cancel")


@pytest.mark.once
def test_a_slow_follower_gets_many_megabytes_and_holds_up_nobody(server):
    script = "import sys\nfor i in range(8 << 10): sys.stdout.write('%1023d\\n' % i)"
    run_id = server.start_run("python3", "-c", script).json()["id"]
    size = 0
    with server.http.stream("GET", f"/runs/{run_id}/logs", params={"follow": "1"}) as answer:
        pieces = answer.iter_raw(65536)
        size += len(next(pieces))
        time.sleep(1)  # its socket is full long before
        began = time.monotonic()
        over = server.wait_for(run_id)
        assert over["phase"] == "completed"
        assert logs(server, run_id).content == "".join(
            f"{i:1023d}\n" for i in range(8 << 10)).encode()
        assert time.monotonic() - began < PATIENCE
        for piece in pieces:
            size += len(piece)
            time.sleep(0.001)
    assert size == 8 << 20


@pytest.mark.once
def test_a_server_that_ends_does_not_pretend_that_this_was_all(server):
    run_id = server.start_run("sh", "-c", "echo one; sleep 60; echo two").json()["id"]
    got, failed = [], []

    def follow():
        client = server.client()
        try:
            with client.stream("GET", f"/runs/{run_id}/logs", params={"follow": "1"}) as answer:
                for piece in answer.iter_raw():
                    got.append(piece)
        except httpx.RemoteProtocolError as e:
            failed.append(e)
    thread = threading.Thread(target=follow)
    thread.start()
    until = time.monotonic() + PATIENCE
    while not got and time.monotonic() < until:
        time.sleep(0.02)
    server.process.terminate()
    thread.join(PATIENCE)
    assert (b"".join(got), len(failed)) == (b"one\n", 1)
    server.process.wait()
    server.start()
    server.post(f"/runs/{run_id}/cancel")
    frames = frames_of(logs(server, run_id, follow="1", format="jsonl"))
    assert bytes_of(frames, "stdout") == b"one\n"
    assert (frames[-1]["event"], frames[-1]["data"]["canceled"]) == ("end", True)


@pytest.mark.once
def test_followers_are_bounded_in_number(make_server):
    server = make_server(SANDBOX_WS_MAX_PER_USER=2)
    run_id = server.start_run("sleep", "60").json()["id"]
    sockets = []
    for _ in range(2):
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(f"GET {BASE}/runs/{run_id}/logs?follow=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                  f"X-API-KEY: {server.key}\r\n\r\n".encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
        sockets.append(s)
    answer = logs(server, run_id, follow="1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "quota_exceeded")
    sockets.pop().close()
    until = time.monotonic() + PATIENCE
    while logs(server, run_id).status_code != 200 and time.monotonic() < until:
        time.sleep(0.02)
    assert logs(server, run_id).status_code == 200
    sockets.pop().close()
    server.post(f"/runs/{run_id}/cancel")


def test_who_may_not_see_a_run_may_not_see_its_output(server_of_users):
    server, keys = server_of_users
    mine = server.client(keys["ann"])
    run = server.start_run("echo", "secret", client=mine, params={"wait": 30}).json()
    assert logs(server, run["id"], client=mine).text == "secret\n"
    other = logs(server, run["id"], client=server.client(keys["bob"]))
    assert (other.status_code, other.json()["error"]["code"]) == (404, "run_not_found")
    assert "secret" not in other.text
    assert logs(server, run["id"], client=server.client(keys["boss"])).text == "secret\n"
    assert logs(server, run["id"], client=server.client("")).status_code == 401


def test_a_request_that_makes_no_sense_is_told_why(server):
    run = server.sh("true")
    for name, value in (("stream", "out"), ("format", "xml"), ("follow", "yes"),
                        ("from_seq", "-1"), ("from_seq", "x")):
        answer = logs(server, run["id"], **{name: value})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
        assert name in answer.text
    assert "both, stdout or stderr" in logs(server, run["id"], stream="x").text
    assert logs(server, UNKNOWN).status_code == 404
    head = server.http.head(f"/runs/{run['id']}/logs")
    assert (head.status_code, head.content) == (200, b"")
