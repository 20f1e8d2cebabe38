"""Nothing is lost: the server is killed at any moment while runs are accepted, wait, print
and end, and starts again on the same directory; then the keeper is. In the end every run that
was accepted is there with its true end, was executed once, and every line of it can be read
once and in order.

BELLJAR_TEST_SEED=N repeats the choices of an earlier storm, though not its timing;
BELLJAR_TEST_LOST_RUNS=N makes it longer.
"""
import asyncio
import base64
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import random
import signal
import sqlite3
import threading
import time

import httpx
import pytest
import websockets

import wire
from jar import SLOWER, eventually
from server import BASE, OVER, PLAIN, make_server  # noqa: F401 (a fixture)

N_RUNS = int(os.environ.get("BELLJAR_TEST_LOST_RUNS", "200"))
SEED = int(os.environ.get("BELLJAR_TEST_SEED", "0")) or random.randrange(1, 1 << 31)
N_CREATORS = 6
N_FOLLOWED = 16
N_CROWDED = 320
PATIENCE = 120 * SLOWER
KILL_AFTER = (0.02, 0.7)  # seconds from one start to the next kill
SETTINGS = {
    "SANDBOX_MAX_CONCURRENT_RUNS": 8,
    "SANDBOX_QUEUE_MAX_LENGTH": 25,  # so that some are sent away, and come back
    "SANDBOX_QUEUE_TTL_SEC": 600,
    "SANDBOX_WS_HEARTBEAT_SEC": 3600,  # a heartbeat has a seq, and is not replayed
}
NOBODY = (httpx.TransportError, OSError)  # the server was just killed
RUN_TABLE = "sandbox_runs"


class Plan:
    """One run: what it is asked to do, and what must have come of it."""

    def __init__(self, number, rng, sessions):
        self.number = number
        self.key = f"lost-{number}-{rng.getrandbits(64):x}"
        self.id = None
        self.n_lines = rng.randrange(1, 13)
        self.exit_code = rng.choice((0, 0, 0, 1, 7, 42, 255))
        self.times_out = number % 40 == 9
        self.session = rng.choice(sessions) if sessions and number % 4 == 1 else None
        self.artifact = b"%d\n" % number * rng.randrange(1, 60000) if number % 5 == 2 else None
        self.artifact_name = f"made-{number}.bin"
        self.given = f"given to {number}\n" * rng.randrange(1, 15000) if number % 6 == 3 else None
        self.given_name = f"given-{number}.txt"  # others of its session are given theirs
        self.pause = rng.choice(("0", "0.002", "0.01"))
        self.is_followed = number % (N_RUNS // N_FOLLOWED) == 0
        if self.is_followed:  # for longer than a server lives
            self.n_lines, self.pause = rng.randrange(30, 70), "0.015"

    def script(self):
        steps = ["echo mark $(cat /proc/sys/kernel/random/uuid)"]
        if self.session:
            steps.append(f"echo {self.number} >>marks")
        if self.given:
            steps.append(f"cksum <{self.given_name}")
        steps.append(f"i=1; while [ $i -le {self.n_lines} ]; do echo out {self.number} $i; "
                     f"echo err {self.number} $i >&2; sleep {self.pause}; i=$((i+1)); done")
        if self.artifact:
            steps.append(f"yes {self.number} | head -c {len(self.artifact)} >{self.artifact_name}")
        steps.append("sleep 60" if self.times_out else f"exit {self.exit_code}")
        return "\n".join(steps)

    def body(self):
        body = {"spec_version": "1.0", "command": ["sh", "-c", self.script()],
                "timeout_sec": 1 if self.times_out else 60, "startup_timeout_sec": 60}
        body.update({"session_id": self.session} if self.session else {"base_image": "host"})
        if self.artifact:
            body["capture_patterns"] = [self.artifact_name]
        if self.given:
            content = base64.b64encode(self.given.encode()).decode()
            body["files"] = [{"path": self.given_name, "content_b64": content}]
        return body

    def end(self):
        """(phase, reason_code, exit_code)"""
        if self.times_out:
            return "timed_out", "execution_timeout", None
        if self.exit_code:
            return "failed", "nonzero_exit", self.exit_code
        return "completed", "exit_code_0", 0

    def check_output(self, frames):
        """Every line once, in order; one start, one end; no number left out."""
        assert [f["seq"] for f in frames] == list(range(1, len(frames) + 1)), self.number
        assert events_of(frames) == ["start", "end"], (self.number, frames)
        assert frames[-1]["event"] == "end"
        out, err = (text_of(frames, name).splitlines() for name in ("stdout", "stderr"))
        assert err == [f"err {self.number} {i + 1}" for i in range(self.n_lines)]
        assert out.pop(0).startswith("mark ")
        if self.given:
            assert out.pop(0) == cksum(self.given.encode())
        assert out == [f"out {self.number} {i + 1}" for i in range(self.n_lines)]
        reason, code = frames[-1]["data"]["reason"], frames[-1]["data"]["exit_code"]
        assert (reason, code) == self.end()[1:], self.number


def cksum(data):
    """As the program of that name says it."""
    crc, size = 0, len(data)
    tail = bytes(size >> 8 * i & 255 for i in range((size.bit_length() + 7) // 8))
    for byte in data + tail:
        crc = crc << 8 & 0xffffffff ^ CRC[crc >> 24 ^ byte]
    return f"{crc ^ 0xffffffff} {size}"


def _crc_of(byte):
    crc = byte << 24
    for _ in range(8):
        crc = crc << 1 & 0xffffffff ^ (0x04c11db7 if crc >> 31 else 0)
    return crc


CRC = [_crc_of(byte) for byte in range(256)]


def text_of(frames, channel):
    parts = (f for f in frames if f["type"] == channel)
    return b"".join(base64.b64decode(f["data"]) if f.get("encoding") == "base64"
                    else f["data"].encode() for f in parts).decode()


class Follower:
    """A subscriber that comes back after every kill, where it was."""

    def __init__(self, server, run_id):
        self.server = server
        self.run_id = run_id
        self.frames = []
        self.n_connects = 0

    def path(self):
        return f"{BASE}/runs/{self.run_id}/stream?from_seq={len(self.frames) + 1}"

    def is_done(self):
        return bool(self.frames) and self.frames[-1].get("event") == "end"

    def take(self, text):
        frame = json.loads(text)
        assert frame["seq"] == len(self.frames) + 1, (self.run_id, frame, len(self.frames))
        self.frames.append(frame)

    async def follow(self, until):
        while not self.is_done():
            assert time.monotonic() < until, f"{self.run_id}: {self.frames[-3:]}"
            with contextlib.suppress(OSError, asyncio.TimeoutError, EOFError,
                                     websockets.WebSocketException):
                async with self.server.connect(self.path(), open_timeout=5) as ws:
                    self.n_connects += 1
                    while not self.is_done():
                        self.take(await asyncio.wait_for(ws.recv(), 5))
            await asyncio.sleep(0.02)


class Following:
    """All followers, in a thread of their own."""

    def __init__(self, server):
        self.server = server
        self.until = time.monotonic() + PATIENCE
        self.loop = asyncio.new_event_loop()
        self.followers, self.tasks = [], []
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def add(self, run_id):
        it = Follower(self.server, run_id)
        self.followers.append(it)
        self.tasks.append(asyncio.run_coroutine_threadsafe(it.follow(self.until), self.loop))

    def finish(self):
        for task in self.tasks:
            task.result(PATIENCE)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Creators:
    """Some clients that make the runs, and ask again until they have an answer."""

    def __init__(self, server, plans, on_accepted):
        self.server = server
        self.left = list(reversed(plans))
        self.on_accepted = on_accepted
        self.lock = threading.Lock()
        self.until = time.monotonic() + PATIENCE
        self.problems = []
        self.n_asked_again = 0
        self.threads = [threading.Thread(target=self._work) for _ in range(N_CREATORS)]
        for thread in self.threads:
            thread.start()

    def _work(self):
        try:
            while True:
                with self.lock:
                    if not self.left or self.problems:
                        return
                    plan = self.left.pop()
                self._create(plan)
        except BaseException as problem:  # pylint: disable=broad-except
            self.problems.append(problem)

    def _create(self, plan):
        headers = {"X-API-KEY": self.server.key, "Idempotency-Key": plan.key}
        client = None
        while plan.id is None:
            assert time.monotonic() < self.until, "it is never accepted"
            try:
                client = client or httpx.Client(**PLAIN, timeout=20)
                answer = client.post(f"{self.server.url}{BASE}/runs", json=plan.body(),
                                     headers=headers)
            except NOBODY:
                client = None
                self.n_asked_again += 1
                time.sleep(0.02)
                continue
            if answer.status_code in (429, 503):
                time.sleep(0.05)
                continue
            assert answer.status_code == 200, answer.text
            plan.id = answer.json()["id"]
        client.close()
        self.on_accepted(plan)

    def finish(self):
        for thread in self.threads:
            thread.join()
        if self.problems:
            raise self.problems[0]

    def is_done(self):
        return not any(thread.is_alive() for thread in self.threads)


async def replay(server, run_id, from_seq=1):
    """All frames of a run that is over."""
    frames = []
    path = f"{BASE}/runs/{run_id}/stream?from_seq={from_seq}"
    async with server.connect(path) as ws:
        while not frames or frames[-1].get("event") != "end":
            frames.append(json.loads(await asyncio.wait_for(ws.recv(), 10 * SLOWER)))
    return frames


async def replay_all(server, ids):
    few = asyncio.Semaphore(16)

    async def one(run_id):
        async with few:
            return await replay(server, run_id)
    return await asyncio.gather(*(one(run_id) for run_id in ids))


def end_of(run):
    return run["phase"], run["reason_code"], run["exit_code"]


def check_artifact(server, plan):
    listed = server.get(f"/runs/{plan.id}/artifacts").json()["items"]
    name = plan.artifact_name
    if plan.times_out:
        return  # what was made is kept or not, as the deadline found it
    assert [item["path"] for item in listed] == [name], plan.number
    got = server.get(f"/runs/{plan.id}/artifacts/{name}").content
    assert got == plan.artifact, (plan.number, len(got), len(plan.artifact))
    assert listed[0]["sha256"] == hashlib.sha256(got).hexdigest()


def check_marks(server, plans):
    """What was executed in a session left one mark there, however often it was asked for."""
    for session in {plan.session for plan in plans if plan.session}:
        done = server.run("cat", "marks", session_id=session)
        expected = sorted(plan.number for plan in plans if plan.session == session)
        assert sorted(map(int, done["stdout"].split())) == expected


def await_all_stored(server):
    """Who waits for a run hears of its end a moment before that is stored."""
    until = time.monotonic() + 5 * SLOWER
    while True:
        with contextlib.closing(database_of(server)) as db:
            left = db.execute(f"SELECT id FROM {RUN_TABLE} WHERE finished_at IS NULL").fetchall()
        if not left:
            break
        assert time.monotonic() < until, left
        time.sleep(0.05)
    time.sleep(0.2 * SLOWER)  # and its files are given back then


def check_nothing_left(server):
    """No directory of a run that was never accepted, and none of one whose row has it all; what
    is kept for the next run has nothing in it, or zeros where these are no frame."""
    await_all_stored(server)
    with contextlib.closing(database_of(server)) as db:
        rows = dict(db.execute(f"SELECT id, frames FROM {RUN_TABLE}"))
    data = server.root / "data"
    kept = {path.name for path in data.glob("*/runs/*")}
    assert kept <= set(rows)
    assert {name for name, frames in rows.items() if not frames} <= kept
    assert [path for path in data.glob("meta/fresh/*/std*") if path.stat().st_size > 0] == []
    assert [path for path in data.glob("meta/fresh/*/*") if path.read_bytes().strip(b"\0")] == []


def kill_and_restart(server, rng):
    time.sleep(rng.uniform(*KILL_AFTER) * SLOWER)
    server.kill()
    server.start()


def check_all(server, plans, following):
    for plan in plans:
        run = server.wait_for(plan.id, seconds=PATIENCE)
        assert end_of(run) == plan.end(), (plan.number, run)
        if plan.artifact:
            check_artifact(server, plan)
    for plan, frames in zip(plans, asyncio.run(replay_all(server, [p.id for p in plans]))):
        plan.check_output(frames)
    following.finish()
    by_id = {plan.id: plan for plan in plans}
    for follower in following.followers:
        by_id[follower.run_id].check_output(follower.frames)
    check_marks(server, plans)
    check_nothing_left(server)


@pytest.mark.heavy
def test_the_server_is_killed(make_server):
    print(f"BELLJAR_TEST_SEED={SEED}")
    rng = random.Random(SEED)
    server = make_server(**SETTINGS)
    sessions = [server.session()["id"] for _ in range(2)]
    plans = [Plan(number, rng, sessions) for number in range(N_RUNS)]
    following = Following(server)

    def accepted(plan):
        if plan.is_followed:
            following.add(plan.id)
    creators = Creators(server, plans, accepted)
    n_kills = 0
    while not creators.is_done() or n_kills % 4:  # and some more, while the last ones run
        kill_and_restart(server, rng)
        n_kills += 1
    creators.finish()
    check_all(server, plans, following)
    n_connects = sum(f.n_connects for f in following.followers)
    assert n_connects > 1.5 * len(following.followers)
    print(f"{n_kills} kills, {creators.n_asked_again} requests without an answer, "
          f"{n_connects} connections of {len(following.followers)} followers")
    assert n_kills >= 8
    assert len({plan.id for plan in plans}) == len(plans)


def make_session(server, key, until):
    """Asks until there is an answer, as for runs."""
    while time.monotonic() < until:
        with contextlib.suppress(*NOBODY):
            answer = httpx.post(f"{server.url}{BASE}/sessions", json={"base_image": "host"},
                                headers={"X-API-KEY": server.key, "Idempotency-Key": key},
                                **PLAIN)
            if answer.status_code not in (429, 503):
                assert answer.status_code == 200, answer.text
                return answer.json()["id"]
        time.sleep(0.01)
    raise AssertionError("it is never made")


@pytest.mark.once
def test_sessions_are_made_once(make_server):
    rng = random.Random(SEED)
    server = make_server()
    until = time.monotonic() + PATIENCE
    keys = [f"session-{rng.getrandbits(64):x}" for _ in range(15)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        answers = pool.map(lambda key: make_session(server, key, until), keys)
        for _ in range(8):
            time.sleep(rng.uniform(0, 0.1))
            server.kill()
            server.start()
        ids = list(answers)
    assert len(set(ids)) == len(keys)
    with contextlib.closing(database_of(server)) as db:
        assert {row[0] for row in db.execute("SELECT id FROM sandbox_sessions")} == set(ids)
    for number, session in enumerate(ids):
        server.run("sh", "-c", f"echo {number} >own", session_id=session)
    for number, session in enumerate(ids):
        assert server.run("cat", "own", session_id=session)["stdout"] == f"{number}\n"
    with wire.acting_as((server.root / "data").stat().st_uid), \
            wire.Wire(server.root / "keeper.sock").greet() as peer:
        peer.send(wire.LIST_WORKSPACES)
        assert sorted(peer.expect(wire.WORKSPACES).ids) == sorted(
            session.replace("-", "") for session in ids)


# --- the keeper dies ---

def keepers_of(server):
    return [pid for pid, line in server.processes().items()
            if " keeper " in line and f"--root {server.root} " in line]


def guardians_of(server):
    """Those that only wait for their child, a keeper, to die."""
    keepers = keepers_of(server)
    return [pid for pid in keepers if parent_of(pid) not in keepers]


def keeper_of(server):
    """The pid of the keeper itself."""
    for pid in guardians_of(server):
        with contextlib.suppress(OSError):
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if len(children) == 1:
                return int(children[0])
    return None


def parent_of(pid):
    """None when it has just ended."""
    with contextlib.suppress(OSError):
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return None


def ask_and_wait(server, answered, number, stop):
    """Run after run, each waited for; what was answered is what must be kept."""
    while not stop.is_set():
        word = f"{number}-{len(answered)}"
        body = {"base_image": "host", "command": ["sh", "-c", f"echo {word}; exit 3"]}
        with contextlib.suppress(*NOBODY):
            done = httpx.post(f"{server.url}{BASE}/runs?wait=20", json=body, timeout=20 * SLOWER,
                              headers={"X-API-KEY": server.key}, **PLAIN)
            if done.status_code == 200 and done.json()["phase"] in OVER:
                assert done.json()["stdout"] == word + "\n"
                answered.append(done.json())


def test_who_was_answered_is_not_forgotten(make_server):
    """A short run is answered for before the store has it. The server is killed in that moment,
    or any other, and the next one knows it, with its end and all it printed."""
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    server = make_server()
    stop, answers = threading.Event(), [[] for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asking = [pool.submit(ask_and_wait, server, answered, number, stop)
                  for number, answered in enumerate(answers)]
        try:
            for _ in range(12):
                kill_and_restart(server, rng)
        finally:
            stop.set()
        for one in asking:
            one.result()
    server.kill()
    server.start()
    assert len(sum(answers, [])) > 12
    for told in sum(answers, []):
        run = server.get(f"/runs/{told['id']}").json()
        assert {name: run[name] for name in ("phase", "reason_code", "exit_code", "finished_at")} \
            == {name: told[name] for name in ("phase", "reason_code", "exit_code", "finished_at")}
        assert run["exit_code"] == 3
        frames = asyncio.run(replay(server, told["id"]))
        assert text_of(frames, "stdout") == told["stdout"]
        assert events_of(frames) == ["start", "end"]


def events_of(frames):
    """But for the phases, which test_api_stream.py looks at."""
    return [f["event"] for f in frames if f["type"] == "event" and f["event"] != "phase"]


def kill_keeper(server):
    os.kill(eventually(lambda: keeper_of(server)), signal.SIGKILL)


LINES = "i=0; while [ $i -lt %d ]; do echo line $i; echo line $i >&2; sleep %s; i=$((i+1)); done"
ENDLESS = LINES % (10000, "0.02")
GONE = ("failed", "infrastructure_error", None)


def check_prefix(frames, n_least=0):
    """One end; and what was printed before it is the beginning of what was to come."""
    assert [f["seq"] for f in frames] == list(range(1, len(frames) + 1))
    assert [f["event"] for f in frames if f["type"] == "event"][-1:] == ["end"]
    assert sum(f.get("event") == "end" for f in frames) == 1
    for channel in ("stdout", "stderr"):
        lines = text_of(frames, channel).splitlines()
        assert lines[:-1] == [f"line {i}" for i in range(len(lines))][:-1]
        assert len(lines) >= n_least


@pytest.mark.alone
def test_the_keeper_is_killed(make_server):
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=3, **{
        k: v for k, v in SETTINGS.items() if "CONCURRENT" not in k})
    session = server.session()["id"]
    assert server.upload(session, ("a.txt", b"kept")).status_code == 200
    snapshot = server.post(f"/sessions/{session}/snapshot").json()["snapshot_id"]
    assert server.upload(session, ("a.txt", b"kept?")).status_code == 200
    running = [server.start_run("sh", "-c", ENDLESS, timeout_sec=60).json()["id"] for _ in "12"]
    running.append(server.start_run("sh", "-c", ENDLESS, session_id=session).json()["id"])
    for run_id in running:
        server.wait_for(run_id, "running")
    waiting = [server.start_run("echo", "late").json()["id"] for _ in "12"]
    barred = server.start_run("cat", "a.txt", session_id=session).json()["id"]
    assert {server.status(run_id)["phase"] for run_id in (*waiting, barred)} == {"queued"}
    time.sleep(0.3)

    kill_keeper(server)
    since = time.monotonic()
    for run_id in running:
        assert end_of(server.wait_for(run_id)) == GONE
        check_prefix(asyncio.run(replay(server, run_id)), n_least=3)
    assert server.run("echo", "new")["stdout"] == "new\n"
    assert time.monotonic() - since < 2 * SLOWER
    for run_id in waiting:
        assert server.wait_for(run_id)["phase"] == "completed"
        assert text_of(asyncio.run(replay(server, run_id)), "stdout") == "late\n"
    assert end_of(server.wait_for(barred)) == GONE  # there is nothing to execute it in

    check_lost_session(server, session)
    fresh = server.session()["id"]
    assert server.run("ls", session_id=fresh)["stdout"] == ""
    server.kill()
    server.start()
    check_lost_session(server, session)
    assert server.run("ls", session_id=fresh)["exit_code"] == 0
    for run_id in running:
        assert end_of(server.status(run_id)) == GONE
    check_restored_session(server, session, snapshot)
    assert server.delete(f"/sessions/{session}").status_code in (200, 204)
    assert server.get(f"/sessions/{session}").status_code == 404


def check_restored_session(server, session, snapshot):
    """A snapshot outlives the keeper, and the session has its files again."""
    answer = server.post(f"/sessions/{session}/restore", json={"snapshot_id": "snap-000000000000"})
    assert answer.status_code == 404, answer.text
    check_lost_session(server, session)
    answer = server.post(f"/sessions/{session}/restore", json={"snapshot_id": snapshot})
    assert answer.status_code == 200, answer.text
    assert server.get(f"/sessions/{session}").json()["state"] == "active"
    assert server.run("cat", "a.txt", session_id=session)["stdout"] == "kept"
    assert server.upload(session, ("b.txt", b"new")).status_code == 200


def check_lost_session(server, session):
    """It is still there, and says what became of it."""
    assert server.get(f"/sessions/{session}").json()["state"] == "lost"
    for answer in (server.start_run("ls", session_id=session),
                   server.upload(session, ("b.txt", b"new"))):
        assert answer.status_code == 410, answer.text
        assert answer.json()["error"]["code"] == "workspace_lost"


@pytest.mark.heavy
def test_the_keeper_is_killed_again_and_again(make_server):
    """With the server, sometimes. A run that is said to have completed did so."""
    rng = random.Random(SEED)
    server = make_server(**SETTINGS)
    n_gone = 0
    for _ in range(3):
        ids = []
        for number in range(12):
            answer = server.start_run("sh", "-c", LINES % (10, "0.05"),
                                      headers={"Idempotency-Key": f"{rng.getrandbits(64)}"})
            if answer.status_code == 200:  # else a queue is full, or the keeper just away
                ids.append(answer.json()["id"])
        time.sleep(rng.uniform(0, 0.5) * SLOWER)
        both = rng.random() < 0.4
        if both:
            server.process.kill()
        kill_keeper(server)
        if both:
            server.kill()
            server.start()
        for run_id in ids:
            run = server.wait_for(run_id)
            frames = asyncio.run(replay(server, run_id))
            check_prefix(frames)
            assert frames[-1]["data"]["reason"] == run["reason_code"]
            if run["phase"] == "completed":
                assert text_of(frames, "stdout").splitlines()[-1] == "line 9"
                assert end_of(run) == ("completed", "exit_code_0", 0)
            else:
                assert end_of(run) == GONE
                n_gone += 1
    print(f"{n_gone} runs went with their keeper")
    assert n_gone > 0


def test_both_are_killed(make_server):
    """The new server finds no keeper and starts one, and so does the guardian of the old: one
    of them has to go."""
    server = make_server()
    for _ in range(3):
        server.process.kill()
        kill_keeper(server)
        server.kill()
        server.start()
        assert server.run("echo", "hi")["stdout"] == "hi\n"
    assert eventually(lambda: len(guardians_of(server)) == 1)
    assert server.run("echo", "hi")["stdout"] == "hi\n"


# --- the server is asked to end ---

async def watch_until_close(server, run_id):
    """(frames, close code)"""
    frames = []
    async with server.connect(f"{BASE}/runs/{run_id}/stream?from_seq=1") as ws:
        with contextlib.suppress(websockets.ConnectionClosed):
            while True:
                frames.append(json.loads(await ws.recv()))
        return frames, ws.close_code


def in_thread(coroutine):
    """Runs it; join() returns what came of it."""
    results = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(coroutine)))
    thread.start()

    def join():
        thread.join()
        return results[0]
    return join


def test_what_runs_goes_on_without_a_server(make_server):
    server = make_server(SANDBOX_DRAIN_TIMEOUT_SEC=1, SANDBOX_WS_HEARTBEAT_SEC=3600)
    run_id = server.start_run("sh", "-c", LINES % (100, "0.02"),
                              capture_patterns=["*.txt"]).json()["id"]
    server.wait_for(run_id, "running")
    client = server.client()
    assert client.get(f"/runs/{run_id}").status_code == 200
    watching = in_thread(watch_until_close(server, run_id))
    time.sleep(0.3)
    since = time.monotonic()
    server.process.terminate()
    time.sleep(0.3)
    answer = client.post("/runs", json={"base_image": "host", "command": ["true"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
    assert server.process.wait(10 * SLOWER) == 0
    assert 0.9 < time.monotonic() - since < 3 * SLOWER
    seen, code = watching()
    assert code == 1012
    assert not any(f.get("event") == "end" for f in seen)
    server.stop()

    time.sleep(0.3)  # nobody is there
    server.start()
    rest = asyncio.run(replay(server, run_id, from_seq=len(seen) + 1))
    assert server.wait_for(run_id)["phase"] == "completed"
    frames = seen + rest
    check_prefix(frames)
    for channel in ("stdout", "stderr"):
        assert text_of(frames, channel).splitlines() == [f"line {i}" for i in range(100)]


@pytest.mark.once
def test_what_ends_soon_is_waited_for(make_server):
    server = make_server(SANDBOX_DRAIN_TIMEOUT_SEC=30, SANDBOX_MAX_CONCURRENT_RUNS=1)
    run_id = server.start_run("sh", "-c", LINES % (20, "0.03")).json()["id"]
    later = server.start_run("echo", "later").json()["id"]
    watching = in_thread(watch_until_close(server, run_id))
    server.wait_for(run_id, "running")
    time.sleep(0.2)
    since = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - since < 5 * SLOWER
    frames, _ = watching()
    check_prefix(frames, n_least=20)
    server.start()
    assert server.status(run_id)["phase"] == "completed"
    assert server.wait_for(later)["phase"] == "completed"  # it had not begun


# --- moments that are hard to hit ---

def boxes_of(server):
    """Pids of inits that wait for a run."""
    return [pid for pid, line in server.processes().items() if line.startswith("belljar box")]


@contextlib.contextmanager
def stopped(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_a_run_whose_files_were_on_their_way(make_server):
    """Its server dies while it sends them, before anything is executed: it is executed then,
    and has all of them."""
    server = make_server(SANDBOX_MAX_INLINE_BYTES=16 << 20)
    content = base64.b64encode(os.urandom(5 << 19)).decode()
    fields = {"files": [{"path": "1.bin", "content_b64": content}]}
    boxes = eventually(lambda: boxes_of(server))
    with stopped(*boxes):
        run_id = server.start_run("sh", "-c", "wc -c <1.bin", **fields).json()["id"]
        time.sleep(0.1)
        assert server.status(run_id)["phase"] == "starting"
        server.kill()
    time.sleep(0.1)
    server.start()
    run = server.wait_for(run_id)
    assert end_of(run) == ("completed", "exit_code_0", 0), run
    assert text_of(asyncio.run(replay(server, run_id)), "stdout") == f"{5 << 19}\n"


@pytest.mark.once
def test_what_the_keeper_had_not_read(make_server):
    """Orders that were still in the socket of a server that died are neither lost nor
    followed twice."""
    server = make_server(**SETTINGS)
    session = server.session()["id"]
    keeper = eventually(lambda: keeper_of(server))
    os.kill(keeper, signal.SIGSTOP)
    try:
        ids = [server.start_run("sh", "-c", "echo once; echo once >>marks",
                                session_id=session).json()["id"] for _ in range(3)]
        ids += [server.start_run("sh", "-c", "echo once").json()["id"] for _ in range(3)]
        server.process.kill()
        server.process.wait()
        threading.Timer(0.5, lambda: os.kill(keeper, signal.SIGCONT)).start()
        server.kill()
        server.start()
    finally:
        os.kill(keeper, signal.SIGCONT)
    for run_id in ids:
        run = server.wait_for(run_id)
        assert end_of(run) == ("completed", "exit_code_0", 0), run
        assert text_of(asyncio.run(replay(server, run_id)), "stdout") == "once\n"
    assert server.run("cat", "marks", session_id=session)["stdout"] == "once\n" * 3


@pytest.mark.once
def test_what_the_keeper_read_late(make_server):
    """It had told a new server what it holds before it read the last order of the old one."""
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=1)
    first = server.start_run("sleep", "1").json()["id"]
    run_id = server.start_run("echo", "twice").json()["id"]
    uid = (server.root / "data").stat().st_uid
    with wire.acting_as(uid), wire.Wire(server.root / "keeper.sock").greet() as before:
        before.send(wire.START, wire.spec("/bin/sh", "-c", "echo once; exit 3", lingers=1,
                                          id=run_id.replace("-", "")))
        before.expect(wire.STARTED)
    assert server.wait_for(first)["phase"] == "completed"
    assert end_of(server.wait_for(run_id)) == ("failed", "nonzero_exit", 3)
    assert text_of(asyncio.run(replay(server, run_id)), "stdout") == "once\n"


@pytest.mark.heavy
@pytest.mark.once
def test_more_at_once_than_a_socket_holds(make_server):
    """A new server takes over hundreds of runs, and then hears nothing while all of them end:
    a keeper hangs up on who does not read, and has everything for who comes back."""
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=N_CROWDED)
    end = int(time.time()) + 7 * SLOWER  # of all of them
    body = {"base_image": "host", "timeout_sec": 60 * SLOWER, "command": [
        "sh", "-c", f"echo a; n=$(({end} - $(date +%s))); [ $n -le 0 ] || sleep $n; echo b"]}

    def create(n):
        with httpx.Client(headers={"X-API-KEY": server.key}, **PLAIN) as client:
            return [client.post(f"{server.url}{BASE}/runs", json=body, timeout=60).json()["id"]
                    for _ in range(n)]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        ids = sum(pool.map(create, [N_CROWDED // 10] * 10), [])
    server.kill()
    server.start()
    for run_id in ids:
        server.wait_for(run_id, "running", *OVER)
    had_time = time.time() < end
    with stopped(server.process.pid):
        time.sleep(max(0, end - time.time()) + 3 * SLOWER)
    for run_id in ids:
        assert end_of(server.wait_for(run_id)) == ("completed", "exit_code_0", 0)
    for frames in asyncio.run(replay_all(server, ids)):
        assert text_of(frames, "stdout") == "a\nb\n"
    # Or there were too few of them to see it.
    assert "does not read" in server.log() or not had_time


@pytest.mark.once
def test_the_queue_keeps_its_order(make_server):
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=1)
    first = server.start_run("sleep", "0.8").json()["id"]
    ids = [server.start_run("echo", str(i)).json()["id"] for i in range(5)]
    server.kill()
    server.start()
    assert server.wait_for(first)["phase"] == "completed"
    began = [server.wait_for(run_id)["started_at"] for run_id in ids]
    assert began == sorted(began)


@pytest.mark.once
def test_who_listens_early_hears_the_start(make_server):
    """Heartbeats come before it."""
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=1, SANDBOX_WS_HEARTBEAT_SEC=0.1)
    server.start_run("sleep", "1")
    run_id = server.start_run("echo", "hi").json()["id"]
    frames, _ = asyncio.run(watch_until_end(server, run_id))
    assert frames[0]["event"] == "phase" and frames[0]["data"]["phase"] == "queued"
    assert [f["type"] for f in frames][1:3] == ["heartbeat"] * 2
    assert events_of(frames) == ["start", "end"]
    assert [f["seq"] for f in frames] == list(range(1, len(frames) + 1))


async def watch_until_end(server, run_id):
    frames = []
    async with server.connect(f"{BASE}/runs/{run_id}/stream?from_seq=1") as ws:
        while not frames or frames[-1].get("event") != "end":
            frames.append(json.loads(await asyncio.wait_for(ws.recv(), 20 * SLOWER)))
    return frames, ws.close_code


@pytest.mark.once
def test_an_end_that_was_told_and_not_stored(make_server):
    """Subscribers heard of it, so it stays as it was told."""
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=1)
    running = server.start_run("sleep", "20").json()["id"]
    run_id = server.start_run("echo", "never").json()["id"]
    assert server.status(run_id)["phase"] == "queued"
    server.kill()
    before = row_of(server, run_id)
    server.start()
    assert server.post(f"/runs/{run_id}/cancel").status_code == 200
    assert server.wait_for(run_id)["phase"] == "killed"
    server.kill()
    put_row(server, before)
    server.start()
    assert end_of(server.wait_for(run_id)) == ("killed", "canceled_by_user", None)
    frames = asyncio.run(replay(server, run_id))
    assert events_of(frames) == ["end"]
    server.post(f"/runs/{running}/cancel")


def database_of(server):
    return sqlite3.connect(server.root / "data/meta/sandbox_store.db")


def row_of(server, run_id):
    with contextlib.closing(database_of(server)) as db:
        return db.execute(f"SELECT * FROM {RUN_TABLE} WHERE id = ?", (run_id,)).fetchone()


def put_row(server, row):
    with contextlib.closing(database_of(server)) as db, db:
        marks = ",".join("?" * len(row))
        db.execute(f"INSERT OR REPLACE INTO {RUN_TABLE} VALUES ({marks})", row)
