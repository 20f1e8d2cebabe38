#!/usr/bin/python3
"""What a thousand boxes that wait cost: memory, and time of every other start.

    bench/thousand.py [--boxes N] [--rounds N] [--program PATH]

A server whose budget allows for so many is asked until it has them; then runs of /bin/true on it
and on one with the usual stock are timed in turns. The exit status is 1 when a goal is missed.
Not a part of bench/run: it takes the whole machine for a minute, and needs root.
"""
import argparse
import contextlib
import json
import pathlib
import re
import sys
import tempfile
import threading
import time

import load
import serve
import warm

TOP = pathlib.Path(__file__).resolve().parent.parent
FILL_SECONDS = 90
HOLD_SECONDS = 6
PATIENCE = 4
CLIENTS = 25
BUSY = {"MAX_CONCURRENT_RUNS": 4000, "QUEUE_MAX_LENGTH": 4000}
MEMORY_GOAL_MB = 2048
SLOWER_GOAL = 1.2


def keepers(server):
    found = set()
    for entry in filter(lambda e: e.name.isdigit(), pathlib.Path("/proc").iterdir()):
        with contextlib.suppress(OSError):
            argv = (entry / "cmdline").read_bytes().split(b"\0")
            if b"keeper" in argv[1:2] and bytes(server.root) in argv:
                found.add(int(entry.name))
    return found


def inits(server):
    """Process 1 of every box of its keeper."""
    parents, found = keepers(server), []
    for entry in filter(lambda e: e.name.isdigit(), pathlib.Path("/proc").iterdir()):
        with contextlib.suppress(OSError):
            if warm.is_waiting_box(entry) and warm.parent_of(entry) in parents:
                found.append(int(entry.name))
    return found


def available_mb():
    """Of the machine: what the kernel takes for a box counts as well."""
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(re.search(r"MemAvailable:\s+(\d+)", text)[1]) / 1024


def be_missed(server, number):
    """So many runs at a time, which is more than boxes are ready: those are made from then on."""
    body = json.dumps({"base_image": "host", "command": ["/bin/sleep", str(HOLD_SECONDS)]}).encode()

    def go():
        client = serve.Client(server.port)
        for _ in range(number // CLIENTS):
            client.call("POST", "/runs", body)
    threads = [threading.Thread(target=go) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(HOLD_SECONDS)


def fill(server, boxes):
    """Until so many wait. Who asks for nothing for ten seconds has them taken away, so one run
    now and then is asked for."""
    client = serve.Client(server.port)
    until = time.monotonic() + FILL_SECONDS
    n, most, idle = len(inits(server)), 0, PATIENCE
    while n < boxes and time.monotonic() < until:
        idle = 0 if n > most else idle + 1
        most = max(n, most)
        if idle >= PATIENCE:  # it does not grow by itself
            be_missed(server, boxes * 5 // 4)
            idle = most = 0
        client.run(serve.TRUE)
        time.sleep(1)
        n = len(inits(server))
        print(f"{n} boxes wait", file=sys.stderr)
    return n


def memory_of(pids):
    """Their PSS, in MB."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += warm.pss_mb(pid)
    return total


def measure(program, scratch, boxes, rounds):
    few = serve.Server(program, scratch / "few", WARM="boxes", **BUSY)
    # Half of the budget is for boxes, at 1 MB each.
    many = serve.Server(program, scratch / "many", WARM="boxes", WARM_MEMORY_MB=2 * boxes, **BUSY)
    try:
        works = {"few": serve.run_work(few.port), "many": serve.run_work(many.port)}
        load.time_in_turns(works, 20)
        time.sleep(2)
        before = available_mb()
        n = fill(many, boxes)
        result = {"boxes": n, "memory_mb": before - available_mb(), "pss_mb": memory_of(inits(many))}
        load.time_in_turns(works, 20, 4)
        result["true_ms"] = load.time_in_turns(works, rounds, 20)
        result["boxes_then"] = len(inits(many))
        return result
    finally:
        for server in (few, many):
            server.stop()
            server.end_keeper()


def main():
    parser = argparse.ArgumentParser(description="measure what a thousand boxes cost")
    parser.add_argument("--boxes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--program", default=TOP / "build/belljar")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="belljar-bench-") as scratch:
        scratch = pathlib.Path(scratch)
        scratch.chmod(0o755)
        m = measure(options.program, scratch, options.boxes, options.rounds)
    print(json.dumps(m, indent=1))
    few, many = m["true_ms"]["few"]["p50"], m["true_ms"]["many"]["p50"]
    goals = [("boxes that wait / wanted", options.boxes / max(m["boxes_then"], 1), 1.01),
             (f"memory of {m['boxes']} boxes, MB", m["memory_mb"], MEMORY_GOAL_MB),
             ("start with these / with the usual stock, p50", many / few, SLOWER_GOAL)]
    for name, value, bound in goals:
        print(f"{name:46} {value:9.2f}  goal {bound:<8.2f} {'met' if value <= bound else 'MISSED'}")
    sys.exit(any(value > bound for _, value, bound in goals))


if __name__ == "__main__":
    main()
