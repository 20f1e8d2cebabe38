"""The load of the benchmarks, by bench/load.c: a client in C, since one in Python took a tenth of
the machine whose speed it measured. What it does is a work: spawn() or post().
"""
import json
import pathlib
import statistics
import subprocess

# A p99 is judged over the quietest of so many rounds.
ROUNDS = 3
PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "build/bench/bench_load"


def spawn(*argv):
    """A program, without a server."""
    return {"spawn": argv}


def post(port, path, headers, value, expect):
    """A request, on a connection that is kept. Every answer must have the text `expect`."""
    body = json.dumps(value)
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json",
             *(f"{name}: {text}" for name, text in headers.items()),
             f"Content-Length: {len(body)}"]
    return {"port": port, "send": "\r\n".join(lines) + "\r\n\r\n" + body, "expect": expect}


def measure(kind, *args):
    texts = [json.dumps(arg) if isinstance(arg, dict) else str(arg) for arg in args]
    done = subprocess.run([PROGRAM, kind, *texts], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def percentiles(times):
    times = sorted(times)
    return {"p50": statistics.median(times), "p99": times[int(len(times) * 0.99)],
            "min": times[0]}


def over_rounds(rounds):
    """One row of the percentiles of several rounds. The p99 is that of the quietest round: other
    users of the machine can only add to a p99. The p50 of that round is "quiet_p50"."""
    quietest = min(rounds, key=lambda row: row["p99"])
    return {"p50": statistics.median(row["p50"] for row in rounds),
            "p99": quietest["p99"], "quiet_p50": quietest["p50"],
            "min": min(row["min"] for row in rounds)}


def time_in_turns(works, times, pause_ms=0, rounds=1):
    """Each of `works`, by name, so many times a round and one after the other: the machine is slow
    for all at the same moments."""
    seen = [measure("turns", times, pause_ms, *works.values()) for _ in range(rounds)]
    return {name: over_rounds([percentiles(row) for row in rows])
            for name, rows in zip(works, zip(*seen))}


def rates_in_turns(works, clients, seconds, turns=4):
    """How often each of `works` is done in a second: one after the other, again and again, since
    the machine is not as fast at every moment; the median."""
    seen = [[measure("rate", clients, round(seconds * 1000 / turns), work) for work in works]
            for _ in range(turns)]
    return [statistics.median(row) for row in zip(*seen)]


def time_burst(work, clients):
    """Once by each client, all at the same moment."""
    return percentiles(measure("burst", clients, work))
