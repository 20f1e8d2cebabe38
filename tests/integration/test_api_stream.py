"""WS /runs/{id}/stream: frames, replay, who is let in, input, quotas, ends."""
import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import time

import pytest
import websockets

from jar import SLOWER, eventually
from server import BASE, WsRefused, make_server, server, server_of_users, users, ws_status  # noqa: F401 (fixtures)

PATIENCE = 30 * SLOWER
SECRET = "a-secret-for-signatures-0123456789"
UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def take(ws, until=None, seconds=PATIENCE):
    """Frames up to the one for which `until` holds, by default the end event."""
    until = until or (lambda f: f.get("event") == "end")
    frames = []
    while not frames or not until(frames[-1]):
        frames.append(json.loads(await asyncio.wait_for(ws.recv(), seconds)))
    return frames


def read(server, path, until=None, **options):
    """All frames of a new connection, up to the end event."""
    async def go():
        async with server.connect(path, **options) as ws:
            return await take(ws, until)
    return asyncio.run(go())


def until_closed(server, path):
    """All frames of a new connection, until the server closes it as one that is over."""
    async def go():
        frames = []
        async with server.connect(path) as ws:
            with pytest.raises(websockets.ConnectionClosedOK):
                while True:
                    frames.append(json.loads(await asyncio.wait_for(ws.recv(), PATIENCE)))
        return frames
    return asyncio.run(go())


def refusal(server, path, **options):
    """The HTTP status that an upgrade is refused with."""
    async def go():
        with pytest.raises(WsRefused) as caught:
            async with server.connect(path, **options):
                pass
        return ws_status(caught.value)
    return asyncio.run(go())


def text_of(frames, kind="stdout"):
    data = b""
    for frame in frames:
        if frame["type"] == kind:
            plain = frame["data"].encode()
            data += base64.b64decode(plain) if frame["encoding"] == "base64" else plain
    return data


def kinds(frames):
    return [f.get("event", f["type"]) for f in frames]


def sign(run_id, exp, secret=SECRET):
    return hmac.new(secret.encode(), f"{run_id}:{exp}".encode(), hashlib.sha256).hexdigest()


# --- frames and replay ---

def test_a_run_is_numbered_from_one_and_ends_once(server):
    run_id = server.start_run(
        "sh", "-c", "echo out; echo err >&2; sleep 0.1; printf '\\377\\376'").json()["id"]
    frames = read(server, run_id)
    assert [f["seq"] for f in frames] == sorted({f["seq"] for f in frames})
    assert frames[0]["seq"] == 1
    assert kinds(frames).count("start") == 1
    assert kinds(frames).index("start") < kinds(frames).index("stdout")
    assert text_of(frames) == b"out\n\xff\xfe"
    assert text_of(frames, "stderr") == b"err\n"
    assert {"utf8", "base64"} == {f["encoding"] for f in frames if f["type"] == "stdout"}
    assert frames[-1]["data"]["exit_code"] == 0
    assert kinds(frames).count("end") == 1


def phases(frames):
    return [f["data"]["phase"] for f in frames if f.get("event") == "phase"]


@pytest.mark.once
def test_every_phase_is_told(server):
    run_id = server.start_run("sh", "-c", "sleep 0.5; exit 3").json()["id"]
    frames = read(server, f"{BASE}/runs/{run_id}/stream?from_seq=1")
    assert phases(frames) == ["starting", "running", "failed"]
    assert kinds(frames)[-2:] == ["phase", "end"]
    assert frames[0] == {"type": "event", "event": "phase", "data": {"phase": "starting"}, "seq": 1}
    assert kinds(frames).index("start") == 2
    server.restart()
    assert phases(read(server, run_id)) == ["starting", "running", "failed"]


@pytest.mark.once
def test_a_run_that_waits_is_queued_first(make_server):
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=1)
    first = server.start_run("sleep", "1").json()["id"]
    second = server.start_run("true").json()["id"]
    frames = read(server, f"{BASE}/runs/{second}/stream?from_seq=1")
    assert phases(frames) == ["queued", "starting", "running", "completed"]
    server.wait_for(first)


@pytest.mark.once
def test_a_restart_does_not_tell_a_phase_again(server):
    run_id = server.start_run("sh", "-c", "echo begun; sleep 4").json()["id"]
    server.wait_for(run_id, "running")
    server.kill()
    server.start()
    server.wait_for(run_id)
    assert phases(read(server, f"{BASE}/runs/{run_id}/stream?from_seq=1")) == [
        "starting", "running", "completed"]


@pytest.mark.once
def test_history_is_the_same_for_everybody_and_after_a_restart(server):
    run_id = server.sh("for i in 1 2 3 4 5; do echo $i; sleep 0.02; done")["id"]
    first = read(server, run_id)
    assert text_of(first) == b"1\n2\n3\n4\n5\n"
    assert read(server, run_id) == first
    server.restart()
    assert read(server, run_id) == first


@pytest.mark.once
def test_from_seq_says_where_to_begin(server):
    run_id = server.sh("for i in 1 2 3 4 5; do echo $i; sleep 0.02; done")["id"]
    everything = read(server, run_id)
    path = f"{BASE}/runs/{run_id}/stream?from_seq="
    for seq in (1, 2, len(everything)):
        assert read(server, path + str(seq)) == everything[seq - 1:]
    for garbage in ("0", "-1", "x", "", "1e3", "99999999999999999999"):
        assert read(server, path + garbage) == everything
    for beyond in (len(everything) + 1, 1000):
        assert until_closed(server, path + str(beyond)) == []


@pytest.mark.once
def test_who_resumes_after_the_last_frame_hears_the_end(server):
    run_id = server.start_run("sleep", "1").json()["id"]
    frames = read(server, f"{BASE}/runs/{run_id}/stream?from_seq=1000")
    assert kinds(frames) == ["end"]


@pytest.mark.once
def test_resume_from_seq_of_the_request_is_part_of_the_url(server):
    run = server.run("sh", "-c", "echo a; echo b", resume_from_seq=2, spec_version="1.1")
    url = server.start_run("true", resume_from_seq=2, spec_version="1.1").json()["log_stream_url"]
    assert url.endswith("/stream?from_seq=2")
    assert read(server, run["log_stream_url"] + "?from_seq=2")[0]["seq"] == 2


@pytest.mark.alone
@pytest.mark.once
def test_without_from_seq_the_last_hundred_frames_come(server):
    run_id = server.run("python3", "-u", "-c",
                        "import time\nfor i in range(150):\n    print(i); time.sleep(0.004)")["id"]
    everything = read(server, f"{BASE}/runs/{run_id}/stream?from_seq=1")
    if len(everything) <= 100:
        pytest.fail(f"only {len(everything)} frames were made of 150 writes")
    assert read(server, run_id) == everything[-100:]


def test_a_subscriber_follows_what_is_written_now(server):
    run_id = server.start_run("sh", "-c", "echo one; sleep 1; echo two").json()["id"]

    async def go():
        async with server.connect(run_id) as ws:
            begun = await take(ws, lambda f: f.get("data") == "one\n")
            at = time.monotonic()
            rest = await take(ws)
            return begun + rest, time.monotonic() - at
    frames, waited = asyncio.run(go())
    assert text_of(frames) == b"one\ntwo\n"
    assert waited > 0.5


@pytest.mark.once
def test_many_subscribers_see_the_same(server):
    run_id = server.start_run(
        "sh", "-c", "sleep 0.3; seq 1 20000; printf 'end\\n'").json()["id"]

    async def one():
        async with server.connect(f"{BASE}/runs/{run_id}/stream?from_seq=1") as ws:
            return await take(ws)

    async def go():
        return await asyncio.gather(*(one() for _ in range(20)))
    everybody = asyncio.run(go())
    assert all(frames == everybody[0] for frames in everybody)
    assert text_of(everybody[0]).split() == [*(b"%d" % n for n in range(1, 20001)), b"end"]


@pytest.mark.once
def test_messages_are_at_most_64_kib(server):
    run_id = server.sh("head -c 500000 /dev/zero | tr '\\0' '\\1'")["id"]

    async def go():
        async with server.connect(f"{BASE}/runs/{run_id}/stream?from_seq=1") as ws:
            sizes, data = [], b""
            while True:
                text = await asyncio.wait_for(ws.recv(), PATIENCE)
                frame = json.loads(text)
                sizes.append(len(text.encode()))
                data += text_of([frame])
                if frame.get("event") == "end":
                    return sizes, data
    sizes, data = asyncio.run(go())
    assert max(sizes) <= 64 << 10
    assert data == b"\1" * 500000


@pytest.mark.once
def test_no_character_is_split(server):
    run_id = server.run("python3", "-c", "print('\u00e4\u20ac\U0001f600' * 30000, end='')")["id"]
    frames = read(server, f"{BASE}/runs/{run_id}/stream?from_seq=1")
    assert all(f["encoding"] == "utf8" for f in frames if f["type"] == "stdout")
    assert text_of(frames).decode() == "\u00e4\u20ac\U0001f600" * 30000


@pytest.mark.once
def test_a_character_that_comes_in_parts_is_one(server):
    run = server.sh(r"printf 'h\303'; sleep 0.2; printf '\251llo \342\202'; sleep 0.2; printf '\254'")
    frames = read(server, f"{BASE}/runs/{run['id']}/stream?from_seq=1")
    assert {f["encoding"] for f in frames if f["type"] == "stdout"} == {"utf8"}
    assert text_of(frames).decode() == "h\u00e9llo \u20ac"


@pytest.mark.once
def test_the_log_cap_truncates_once_and_the_run_completes(make_server):
    server = make_server(SANDBOX_MAX_LOG_BYTES=1000)
    run = server.run("sh", "-c", "head -c 5000 /dev/zero | tr '\\0' x; echo more >&2; exit 3")
    frames = read(server, run["id"])
    assert (run["phase"], run["exit_code"]) == ("failed", 3)
    assert [f["reason"] for f in frames if f["type"] == "truncated"] == ["log_cap"]
    assert len(text_of(frames)) + len(text_of(frames, "stderr")) == 1000


@pytest.mark.once
def test_the_end_says_how(server):
    timed_out = server.run("sleep", "60", timeout_sec=1)
    end = read(server, timed_out["id"])[-1]
    assert end["data"]["reason"] == "execution_timeout"
    assert end["data"]["exit_code"] is None
    canceled = server.start_run("sleep", "60").json()["id"]
    server.wait_for(canceled, "running")
    server.post(f"/runs/{canceled}/cancel")
    end = read(server, canceled)[-1]
    assert end["data"]["canceled"] is True
    assert end["data"]["exit_code"] is None


@pytest.mark.once
def test_heartbeats_come_while_nothing_else_does(make_server):
    server = make_server(SANDBOX_WS_HEARTBEAT_SEC="0.2")
    run_id = server.start_run("sh", "-c", "sleep 1.2; echo done").json()["id"]
    frames = read(server, run_id)
    beats = [f for f in frames if f["type"] == "heartbeat"]
    assert len(beats) >= 3
    assert all(f["ts"].endswith("Z") for f in beats)
    assert [f["seq"] for f in frames] == sorted({f["seq"] for f in frames})
    assert not [f for f in read(server, run_id) if f["type"] == "heartbeat"]
    text = server.client(key="").get(server.url + "/metrics").text
    counted = [line for line in text.splitlines()
               if line.startswith("sandbox_ws_heartbeats_sent_total{")]
    assert float(counted[0].split()[-1]) == len(beats)


@pytest.mark.once
def test_the_socket_is_closed_a_while_after_the_end(server):
    run_id = server.sh("true")["id"]

    async def go():
        async with server.connect(run_id) as ws:
            await take(ws)
            at = time.monotonic()
            with pytest.raises(websockets.ConnectionClosed) as caught:
                await asyncio.wait_for(ws.recv(), PATIENCE)
            return caught.value.rcvd.code, time.monotonic() - at
    code, waited = asyncio.run(go())
    assert code == 1000
    assert 4 < waited < 10 * SLOWER


@pytest.mark.once
def test_a_drain_closes_streams_with_1012(make_server):
    server = make_server(SANDBOX_DRAIN_TIMEOUT_SEC=0)
    run_id = server.start_run("sleep", "60", timeout_sec=60).json()["id"]

    async def go():
        async with server.connect(run_id) as ws:
            await take(ws, lambda f: f.get("event") == "start")
            server.process.terminate()
            with pytest.raises(websockets.ConnectionClosed) as caught:
                while True:
                    await asyncio.wait_for(ws.recv(), PATIENCE)
            return caught.value.rcvd.code
    assert asyncio.run(go()) == 1012
    server.process.wait(PATIENCE)
    server.process.stdout.close()
    server.start()
    server.post(f"/runs/{run_id}/cancel")
    assert read(server, f"{BASE}/runs/{run_id}/stream?from_seq=1")[-1]["event"] == "end"


@pytest.mark.once
def test_a_stuck_reader_is_dropped_and_harms_nobody(make_server):
    server = make_server(SANDBOX_WS_POLL_TIMEOUT_SEC=1)
    run_id = server.start_run(
        "sh", "-c", "sleep 0.5; head -c 9000000 /dev/zero | tr '\\0' x; sleep 4").json()["id"]

    async def stuck():
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 10)
        key = base64.b64encode(b"0123456789abcdef").decode()
        writer.write((f"GET {BASE}/runs/{run_id}/stream?from_seq=1 HTTP/1.1\r\nHost: localhost\r\n"
                      f"X-API-KEY: {server.key}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        await writer.drain()
        assert (await reader.readline()).startswith(b"HTTP/1.1 101")
        writer.transport.pause_reading()
        return writer

    def drops():
        text = server.client(key="").get(server.url + "/metrics").text
        return [line for line in text.splitlines()
                if line.startswith("sandbox_ws_queue_drops_total{") and '"stuck"' in line]

    async def go():
        writer = await stuck()
        async with server.connect(f"{BASE}/runs/{run_id}/stream?from_seq=1") as ws:
            frames = await take(ws)
        found = eventually(drops, PATIENCE)
        writer.close()
        return frames, found
    frames, found = asyncio.run(go())
    assert text_of(frames) == b"x" * 9000000
    assert found and found[0].endswith(" 1")


# --- who is let in ---

def test_strangers_and_unknown_runs_are_refused(server_of_users):
    server, keys = server_of_users
    ann, bob = (server.client(keys[name]) for name in ("ann", "bob"))
    over = server.start_run("true", client=ann, params={"wait": 30}).json()["id"]
    live = server.start_run("sleep", "20", client=ann).json()["id"]
    for run_id in (over, live):
        assert refusal(server, run_id, key="") == 401
        assert refusal(server, run_id, key="wrong") == 401
        assert refusal(server, run_id, key=keys["bob"]) == 404
        assert refusal(server, run_id, key=keys["boss"]) == 404
        # somebody else's name helps nobody but an admin
        assert refusal(server, f"{BASE}/runs/{run_id}/stream?u=ann", key=keys["bob"]) == 404
        named = f"{BASE}/runs/{run_id}/stream?u=ann"
        assert read(server, named, lambda f: True, key=keys["boss"])
        assert refusal(server, f"{BASE}/runs/{run_id}/stream?u=../ann", key=keys["boss"]) == 422
    assert refusal(server, UNKNOWN, key=keys["ann"]) == 404
    assert refusal(server, "nonsense", key=keys["ann"]) == 404
    assert refusal(server, "..%2f..%2fbob%2fruns", key=keys["ann"]) == 404
    assert read(server, over, key=keys["ann"])[-1]["event"] == "end"
    ann.post(f"/runs/{live}/cancel")
    assert bob.get(f"/runs/{live}").status_code == 404


@pytest.mark.once
def test_credentials_may_be_in_the_query(server):
    run_id = server.sh("echo hi")["id"]
    path = f"{BASE}/runs/{run_id}/stream"
    for name in ("auth_token", "token"):
        assert text_of(read(server, f"{path}?{name}={server.key}", key="")) == b"hi\n"
        assert refusal(server, f"{path}?{name}=wrong", key="") == 401


@pytest.mark.once
def test_a_signed_url_needs_no_credentials(make_server):
    server = make_server(SANDBOX_WS_SIGNED_URLS="true", SANDBOX_WS_SIGNING_SECRET=SECRET)
    live = server.start_run("sh", "-c", "echo hi; sleep 1").json()
    assert text_of(read(server, live["log_stream_url"], key="")) == b"hi\n"
    over = server.sh("echo over")
    assert text_of(read(server, over["log_stream_url"], key="")) == b"over\n"
    assert "u=single_user" in over["log_stream_url"]
    server.restart()
    assert text_of(read(server, over["log_stream_url"], key="")) == b"over\n"


@pytest.mark.once
def test_a_wrong_signature_is_refused(make_server):
    server = make_server(SANDBOX_WS_SIGNED_URLS="true", SANDBOX_WS_SIGNING_SECRET=SECRET)
    run_id, other = server.sh("true")["id"], server.sh("true")["id"]
    soon, past = int(time.time()) + 60, int(time.time()) - 1
    good = sign(run_id, soon)

    def path(**query):
        text = "&".join(f"{name}={value}" for name, value in query.items())
        return f"{BASE}/runs/{run_id}/stream?{text}"
    assert read(server, path(token=good, exp=soon, u="single_user"), key="")
    assert read(server, path(token=good, exp=soon))
    assert read(server, path(token=good, exp=soon), key="")  # whose it is follows from the run
    iso = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(soon))
    assert read(server, path(token=good, exp=iso, u="single_user"), key="")
    wrong = [
        {"token": good, "exp": soon + 1},
        {"token": sign(other, soon), "exp": soon},
        {"token": sign(run_id, past), "exp": past},
        {"token": sign(run_id, soon, "another"), "exp": soon},
        {"token": good.upper(), "exp": soon},
        {"token": good, "exp": "x"},
        {"token": "", "exp": soon},
        {"exp": soon},
    ]
    for query in wrong:
        for key in ("", None):  # not even the owner may bring a wrong one
            assert refusal(server, path(**query, u="single_user"), key=key) == 403, query
    assert refusal(server, path(token=good), key="") == 401
    assert refusal(server, path(token=good, exp=soon, u="nobody-else"), key="") == 404
    assert refusal(server, path(token=good, exp=soon, u=".."), key="") == 422


@pytest.mark.once
def test_a_page_of_another_origin_is_refused(server):
    run_id = server.sh("true")["id"]
    assert refusal(server, run_id, origin="https://evil.example") == 403
    assert read(server, run_id, origin=server.url)


@pytest.mark.once
def test_there_is_only_a_websocket_here(server):
    run_id = server.sh("true")["id"]
    answer = server.get(f"/runs/{run_id}/stream")
    assert answer.status_code == 426
    assert answer.json()["error"]["code"] == "upgrade_required"


@pytest.mark.once
@pytest.mark.parametrize("setting", ["SANDBOX_WS_MAX_CONNECTIONS", "SANDBOX_WS_MAX_PER_USER"])
def test_there_is_a_limit_of_streams(make_server, setting):
    server = make_server(**{setting: 2})
    run_id = server.sh("true")["id"]

    async def is_refused():
        try:
            async with server.connect(run_id):
                return None
        except WsRefused as why:
            return ws_status(why)

    async def go():
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(server.connect(run_id))
            refused = await is_refused()
        for _ in range(100):  # a place is free again
            if await is_refused() is None:
                return refused
            await asyncio.sleep(0.05)
        return "still refused"
    assert asyncio.run(go()) == 429


# --- input ---

def converse(server, run_id, *messages, until=None):
    """Send messages once the run is running; its frames."""
    async def go():
        async with server.connect(f"{BASE}/runs/{run_id}/stream?from_seq=1") as ws:
            await take(ws, lambda f: f.get("event") == "start")
            server.wait_for(run_id, "running")
            for message in messages:
                await ws.send(message if isinstance(message, (str, bytes)) else json.dumps(message))
            return await take(ws, until)
    return asyncio.run(go())


CLOSE = {"type": "stdin_close"}


def typed(data, encoding="utf8"):
    return {"type": "stdin", "encoding": encoding, "data": data}


def interactive(server, *command, **fields):
    answer = server.start_run(*command, interactive=True, spec_version="1.1", **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def test_what_is_typed_reaches_the_guest(server):
    run_id = interactive(server, "cat")
    frames = converse(server, run_id, typed("hello "), typed("d29ybGQA/w==", "base64"),
                      {"type": "stdin", "data": "!"}, CLOSE)
    assert text_of(frames) == b"hello world\0\xff!"
    assert frames[-1]["data"]["exit_code"] == 0


def at_once(server, run_id, *messages):
    """Send messages without a look at how far the run is; its frames."""
    async def go():
        async with server.connect(f"{BASE}/runs/{run_id}/stream?from_seq=1") as ws:
            for message in messages:
                await ws.send(json.dumps(message))
            return await take(ws)
    return asyncio.run(go())


def test_input_does_not_have_to_wait_for_the_start(make_server):
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=1)
    first = server.start_run("sleep", "1").json()["id"]
    run_id = interactive(server, "cat", stdin_max_frame_bytes=3)
    frames = at_once(server, run_id, typed("abc"), typed("defg"), CLOSE, typed("late"))
    assert text_of(frames) == b"abcdef"
    frames = [f for f in frames if f["type"] != "heartbeat"]
    assert phases(frames) == ["queued", "starting", "running", "completed"]
    assert kinds(frames)[:5] == ["phase"] * 3 + ["start", "truncated"]
    assert frames[4]["reason"] == "stdin_frame_cap"
    assert server.status(first)["phase"] == "completed"
    for _ in range(10):
        assert text_of(at_once(server, interactive(server, "wc", "-c"), typed("abc"), CLOSE)
                       ).strip() == b"3"


@pytest.mark.once
def test_input_right_after_a_restart_is_not_lost(make_server):
    """Also when the keeper has not told yet that the run goes on."""
    server = make_server()
    run_id = interactive(server, "cat", stdin_max_frame_bytes=3)
    assert eventually(lambda: server.status(run_id)["phase"] == "running")

    async def say(text):
        async with server.connect(f"{BASE}/runs/{run_id}/stream?from_seq=1") as ws:
            await ws.send(json.dumps(typed(text)))
            return await take(ws, lambda f: f.get("data") == text)
    for text in ("abc", "def", "ghi"):
        server.kill()
        server.start()
        asyncio.run(say(text))
    server.kill()
    server.start()
    frames = at_once(server, run_id, typed("jklm"), CLOSE)
    assert text_of(frames) == b"abcdefghijkl"
    assert [f["reason"] for f in frames if f["type"] == "truncated"] == ["stdin_frame_cap"]
    assert frames[-1]["data"]["exit_code"] == 0


@pytest.mark.once
def test_a_nul_is_a_byte_like_any_other(server):
    assert text_of(at_once(server, interactive(server, "cat"), typed("a\0b"), CLOSE)) == b"a\0b"


@pytest.mark.once
@pytest.mark.parametrize("message", [
    typed("x" * 65536), typed("\1" * 65536),
    typed(base64.b64encode(b"x" * 65536).decode(), "base64")])
def test_a_frame_may_have_what_its_limit_says(server, message):
    frames = at_once(server, interactive(server, "wc", "-c"), message, CLOSE)
    assert text_of(frames).strip() == b"65536"
    assert "truncated" not in kinds(frames)


@pytest.mark.once
def test_a_frame_over_its_limit_is_cut(server):
    frames = at_once(server, interactive(server, "wc", "-c"), typed("x" * 200000), CLOSE)
    assert text_of(frames).strip() == b"65536"
    assert [f["reason"] for f in frames if f["type"] == "truncated"] == ["stdin_frame_cap"]


@pytest.mark.once
def test_the_limit_of_a_message_follows_the_setting(make_server):
    server = make_server(SANDBOX_INTERACTIVE_MAX_FRAME_BYTES=1 << 20,
                         SANDBOX_INTERACTIVE_INPUT_BPS=1 << 20)
    frames = at_once(server, interactive(server, "wc", "-c"), typed("\1" * (1 << 20)), CLOSE)
    assert text_of(frames).strip() == b"1048576"
    with pytest.raises(websockets.ConnectionClosed) as closed:
        at_once(server, interactive(server, "sleep", "2"), typed("x" * (7 << 20)))
    assert closed.value.code == 1009


@pytest.mark.once
def test_only_what_is_typed_into_takes_large_messages(server):
    run_id = server.start_run("sleep", "2").json()["id"]
    with pytest.raises(websockets.ConnectionClosed) as closed:
        at_once(server, run_id, typed("x" * 65536))
    assert closed.value.code == 1009


@pytest.mark.once
def test_large_messages_that_do_not_end_have_a_limit_together(make_server):
    server = make_server(SANDBOX_INTERACTIVE_MAX_FRAME_BYTES=1 << 20)  # messages of 6 MiB
    run_id = interactive(server, "sleep", "60")

    async def half(count):
        """One half of a message, which the other does not follow."""
        for _ in range(count):
            yield "x" * (1 << 20)
        await asyncio.sleep(PATIENCE)

    async def go():
        async with contextlib.AsyncExitStack() as stack:
            path = f"{BASE}/runs/{run_id}/stream?from_seq=1"
            sockets = [await stack.enter_async_context(server.connect(path)) for _ in range(16)]
            halves = [asyncio.ensure_future(ws.send(half(5))) for ws in sockets]
            while all(ws.close_code is None for ws in sockets):
                await asyncio.sleep(0.05)
            codes = [ws.close_code for ws in sockets]
            for task in halves:
                task.cancel()
            await asyncio.gather(*halves, return_exceptions=True)
            return codes
    codes = asyncio.run(asyncio.wait_for(go(), PATIENCE))
    server.post(f"/runs/{run_id}/cancel")
    assert set(codes) == {None, 1013}, codes
    assert server.get("/health").json()["ok"]


@pytest.mark.once
def test_what_is_no_input_is_ignored(server):
    run_id = interactive(server, "cat")
    frames = converse(
        server, run_id, "no json", "[]", "{}", "null", '{"type":1}', '{"type":"stdin"}',
        typed("%%%", "base64"), typed("x", "utf16"), typed(5), {"type": "signal", "data": "9"},
        b"\0binary", '{"type":"stdin","data":"' + "[" * 200 + '"' * 3, typed(""),
        typed("heard"), CLOSE)
    assert text_of(frames) == b"heard"


@pytest.mark.once
def test_a_run_that_is_not_interactive_hears_nothing(server):
    run_id = server.start_run("sh", "-c", "sleep 1; cat").json()["id"]
    assert text_of(converse(server, run_id, typed("hello"), CLOSE)) == b""


@pytest.mark.once
@pytest.mark.parametrize("limit, reason, heard", [
    ({"stdin_max_frame_bytes": 3}, "stdin_frame_cap", b"abc"),
    ({"stdin_max_bytes": 4}, "stdin_cap", b"abcd"),
    ({"stdin_bps": 5}, "stdin_rate", b"abcde"),
])
def test_input_over_a_limit_is_cut_and_said(server, limit, reason, heard):
    run_id = interactive(server, "cat", **limit)
    frames = converse(server, run_id, typed("abcdef"), CLOSE)
    assert text_of(frames) == heard
    assert reason in [f["reason"] for f in frames if f["type"] == "truncated"]


@pytest.mark.once
def test_idle_input_is_closed(server):
    run_id = interactive(server, "cat", stdin_idle_timeout_sec=1)
    frames = converse(server, run_id, typed("x"))
    assert text_of(frames) == b"x"
    assert "stdin_idle" in [f["reason"] for f in frames if f["type"] == "truncated"]
    assert frames[-1]["data"]["exit_code"] == 0


@pytest.mark.once
def test_input_after_the_end_is_ignored(server):
    run_id = interactive(server, "true")
    server.wait_for(run_id)

    async def go():
        async with server.connect(run_id) as ws:
            await take(ws)
            for message in (typed("late"), CLOSE):
                await ws.send(json.dumps(message))
            await asyncio.wait_for(await ws.ping(), PATIENCE)
    asyncio.run(go())
    assert server.get("/health").json()["ok"]


# --- when the client goes ---

@pytest.mark.once
def test_a_client_that_vanishes_is_no_loss(server):
    run_id = server.start_run("sh", "-c", "for i in $(seq 50); do echo $i; sleep 0.02; done"
                              ).json()["id"]

    async def vanish():
        async with server.connect(run_id) as ws:
            await take(ws, lambda f: f["type"] == "stdout")
            ws.transport.abort()
    for _ in range(3):
        asyncio.run(vanish())
    assert server.wait_for(run_id)["phase"] == "completed"
    assert text_of(read(server, f"{BASE}/runs/{run_id}/stream?from_seq=1")).split() == [
        b"%d" % n for n in range(1, 51)]
