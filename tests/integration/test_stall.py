"""A loop that stands still: the keeper's, which then serves nobody though its socket is open, and
the server's. Both are stopped here by a signal."""
import contextlib
import os
import signal
import time

import pytest

from jar import SLOWER, eventually
from server import make_server, server  # noqa: F401 (fixtures)

pytestmark = pytest.mark.once


def ready(server):
    answer = server.client("").get(server.url + "/readyz")
    return answer.status_code, answer.json()


def metric(server, name, loop):
    start = f'{name}{{loop="{loop}"}} '
    lines = server.client("").get(server.url + "/metrics").text.splitlines()
    return sum(float(line[len(start):]) for line in lines if line.startswith(start))


def has_loop(pid):
    links = [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]
    return any(os.readlink(link) == "anon_inode:[eventpoll]" for link in links)


def keeper_of(server):
    """The process that answers: not its guardian, its maker, or an init."""
    [pid] = [pid for pid, line in server.processes().items() if " keeper " in line and has_loop(pid)]
    return pid


def phase(server, run):
    return server.status(run.json()["id"])["phase"]


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.alone
def test_a_keeper_that_stands_still_is_told_of(server):
    status, body = ready(server)
    assert (status, body["checks"]["keeper"]) == (200, True)
    assert body["loops"]["keeper"] == {"stall": None, "last_stall": None}
    run = server.start_run("sleep", "60", timeout_sec=90)
    assert eventually(lambda: phase(server, run) == "running", 10)
    with stopped(keeper_of(server)):
        assert eventually(lambda: ready(server)[0] == 503, 10 * SLOWER)
        body = ready(server)[1]
        assert not body["ready"] and not body["checks"]["keeper"]
        assert body["loops"]["keeper"]["stall"]["seconds"] > 2
        assert body["loops"]["keeper"]["stall"]["since"].endswith("Z")
        assert metric(server, "sandbox_loop_stalls_total", "keeper") == 1
        assert eventually(
            lambda: metric(server, "sandbox_loop_stalled_seconds", "keeper") > 2, 5 * SLOWER)
        assert "event=stall loop=keeper" in server.log()
        late = server.start_run("echo", "late")  # so early nobody is sent away
    assert eventually(lambda: ready(server)[0] == 200, 10 * SLOWER)
    assert ready(server)[1]["loops"]["keeper"]["last_stall"]["seconds"] > 2
    assert metric(server, "sandbox_loop_stalled_seconds", "keeper") == 0
    assert metric(server, "sandbox_loop_stall_seconds_total", "keeper") > 2
    assert "the keeper answers again after" in server.log()
    assert eventually(
        lambda: phase(server, late) == "completed", 10 * SLOWER)
    assert phase(server, run) == "running"


@pytest.mark.alone
def test_a_keeper_that_does_not_answer_for_long_is_taken_for_lost(server):
    run = server.start_run("sh", "-c", "sleep 45; echo done", timeout_sec=90)
    assert eventually(lambda: phase(server, run) == "running", 10)
    with stopped(keeper_of(server)):
        assert eventually(lambda: not ready(server)[1]["checks"]["runtime"], 60 * SLOWER)
        assert ready(server)[1]["loops"]["keeper"]["stall"]["seconds"] > 30
        answer = server.start_run("true")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "runtime_unavailable")
        assert "has not answered" in answer.json()["error"]["message"]
        answer = server.post("/sessions", json={"spec_version": "1.0", "base_image": "host"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "runtime_unavailable")
        assert phase(server, run) == "running"
    assert eventually(lambda: ready(server)[0] == 200, 10 * SLOWER)
    assert server.sh("echo again")["stdout"] == "again\n"
    # Who was under way was never ended.
    assert eventually(
        lambda: phase(server, run) == "completed", 60 * SLOWER)


@pytest.mark.alone
def test_a_server_that_stood_still_says_so_afterwards(server):
    assert ready(server)[1]["loops"]["server"] == {"stall": None, "last_stall": None}
    with stopped(server.process.pid):
        time.sleep(3.5)
    assert eventually(lambda: ready(server)[1]["loops"]["server"]["last_stall"], 10 * SLOWER)
    status, body = ready(server)
    assert (status, body["ready"]) == (200, True)
    assert body["loops"]["server"]["last_stall"]["seconds"] > 2
    assert metric(server, "sandbox_loop_stalls_total", "server") == 1
    assert metric(server, "sandbox_loop_stall_seconds_total", "server") > 2
    assert "event=stalled loop=server" in server.log()
    # The keeper answered all the time; the answer only was not read.
    assert metric(server, "sandbox_loop_stalls_total", "keeper") == 0
