"""A thousand subscribers of one run that prints 50 MB, ten of them stuck: the server stays
small, nobody waits for those, and all others get everything.

That is 50 GB through the loopback, so it is left out of `make test`; `make test-crowd` has it.
"""
import asyncio
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from jar import SLOWER
from server import BASE, make_server  # noqa: F401 (a fixture)

CC = shutil.which("cc") or shutil.which("gcc")
N = int(os.environ.get("BELLJAR_TEST_CROWD", "0"))
N_STUCK = 10
N_CAREFUL = 5
OUTPUT_BYTES = 50 << 20
RSS_MAX_KB = 64 << 10
LINE = "the quick brown fox jumps over the lazy dog and says \"hello\" to number {:06d}\n"

pytestmark = [
    pytest.mark.skipif(not N, reason="takes minutes; `make test-crowd` has it"),
    pytest.mark.skipif(not CC, reason="there is no C compiler"),
]

# Waits for a word, so that everybody is there when it begins.
GUEST = f"""
import sys
sys.stdin.readline()
line = {LINE!r}
left, number = {OUTPUT_BYTES}, 0
while left > 0:
    text = "".join(line.format(n) for n in range(number, number + 2000))[:left]
    number += 2000
    left -= len(text)
    sys.stdout.write(text)
"""


def expected_output():
    size = len(LINE.format(0))
    return "".join(LINE.format(n) for n in range(OUTPUT_BYTES // size + 1))[:OUTPUT_BYTES]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """The program that is the crowd."""
    path = tmp_path_factory.mktemp("crowd") / "crowd"
    source = pathlib.Path(__file__).parent / "crowd/crowd.c"
    done = subprocess.run([CC, "-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", source,
                           "-o", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


def status_kb(pid, name):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise KeyError(name)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def say(server, run_id, text):
    async with server.connect(f"{BASE}/runs/{run_id}/stream") as ws:
        await ws.send(json.dumps({"type": "stdin", "data": text}))
        while json.loads(await ws.recv()).get("type") != "stdout":
            pass


async def read_output(server, run_id):
    """(what was printed, frames, bytes of all messages)"""
    parts, n_frames, n_bytes = [], 0, 0
    async with server.connect(f"{BASE}/runs/{run_id}/stream?from_seq=1") as ws:
        while True:
            message = await ws.recv()
            frame = json.loads(message)
            n_frames += 1
            n_bytes += len(message.encode())
            if frame["type"] == "stdout":
                parts.append(frame["data"])
            if frame.get("event") == "end":
                return "".join(parts), n_frames, n_bytes


def listen(server, program, n_readers, n_stuck):
    """Milliseconds until all of a crowd had heard all of one run."""
    run_id = server.start_run("python3", "-c", GUEST, spec_version="1.1", interactive=True,
                              timeout_sec=600).json()["id"]
    server.wait_for(run_id, "running")
    target = f"{BASE}/runs/{run_id}/stream?from_seq=1"
    process = subprocess.Popen(
        [program, str(server.port), target, server.key, str(n_readers), str(n_stuck),
         str(N_CAREFUL)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n", process.communicate()
    asyncio.run(say(server, run_id, "go\n"))
    out, err = process.communicate(timeout=400 * SLOWER)
    assert process.returncode == 0, (out, err)
    n_done, n_frames, n_bytes, _, ms = out.split()
    assert int(n_done) == n_readers
    text, *numbers = asyncio.run(read_output(server, run_id))
    assert numbers == [int(n_frames), int(n_bytes)]
    assert text == expected_output()
    return int(ms)


@pytest.mark.heavy
@pytest.mark.once
def test_a_crowd(make_server, crowd):
    server = make_server(SANDBOX_MAX_LOG_BYTES=OUTPUT_BYTES + 1, SANDBOX_WS_HEARTBEAT_SEC=3600,
                         SANDBOX_INTERACTIVE_IDLE_TIMEOUT_SEC=600,
                         SANDBOX_WS_POLL_TIMEOUT_SEC=600)
    pid = server.process.pid
    print(f"idle: {status_kb(pid, 'VmRSS')} kB")
    took = {}
    for n_stuck in (0, N_STUCK):
        used = cpu_seconds(pid)
        took[n_stuck] = listen(server, crowd, N - N_STUCK, n_stuck)
        peak = status_kb(pid, "VmHWM")
        print(f"{n_stuck} stuck: {took[n_stuck]} ms, {cpu_seconds(pid) - used:.1f} s of CPU, "
              f"peak {peak} kB")
        assert peak < RSS_MAX_KB
    assert took[N_STUCK] < took[0] * 1.3 + 1000
