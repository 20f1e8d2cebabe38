"""What it is worth to have boxes and interpreters ready, beside what they replace: the same
program without any box, started by posix_spawn(). Used by bench/run.
"""
import contextlib
import os
import pathlib
import statistics
import time

import load
import serve

PRINT = ["/usr/bin/python3", "-c", "print(1)"]
PANDAS = ["/usr/bin/python3", "-c", "import pandas; print(1)"]
TRUE = ["/bin/true"]
BURST = 200
SECONDS = 30


def has_pandas():
    return os.system("/usr/bin/python3 -c 'import pandas' 2>/dev/null") == 0


def measure_single(server, rounds):
    works = {
        "warm.python_ms": serve.run_work(server.port, PRINT), "bare.python_ms": load.spawn(*PRINT),
        "warm.true_ms": serve.run_work(server.port, TRUE), "bare.true_ms": load.spawn(*TRUE),
        "bwrap.true_ms": serve.bwrap_work(),
    }
    load.time_in_turns(works, 1)
    return load.time_in_turns(works, rounds, 4, load.ROUNDS)


def measure_pandas(program, scratch, rounds):
    server = serve.Server(program, scratch / "pandas", WARM_IMPORTS="numpy,pandas")
    try:
        works = {"warm.python_pandas_ms": serve.run_work(server.port, PANDAS),
                 "bare.python_pandas_ms": load.spawn(*PANDAS)}
        time.sleep(4)
        load.time_in_turns(works, 3)
        return load.time_in_turns(works, max(10, rounds // 20), 20)
    finally:
        server.stop()
        server.end_keeper()


def measure_rates(server, seconds):
    python, true, bwrap = load.rates_in_turns(
        (serve.run_work(server.port, PRINT), serve.run_work(server.port, TRUE),
         serve.bwrap_work()), 16, seconds)
    bare_python, = load.rates_in_turns((load.spawn(*PRINT),), 2, seconds / 3)
    return {"python": python, "bare python, two at a time": bare_python, "true": true,
            "bwrap true": bwrap}


def pss_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def status_of(entry):
    text = (entry / "status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def parent_of(entry):
    return int(status_of(entry)["PPid"])


def is_waiting_box(entry):
    """Is this process of /proc the init of a box?"""
    with contextlib.suppress(OSError, ValueError, KeyError):
        status = status_of(entry)
        return status["NSpid"].split()[-1] == "1" and int(status["Uid"].split()[0]) >= 0x70000000
    return False


def waiting_boxes(server):
    """{"box" or "python": the memory of each that waits}"""
    found = {"box": [], "python": []}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdigit() or not is_waiting_box(entry):
                continue
            maps = (entry / "maps").read_text()
            found["python" if "belljar-warm" in maps else "box"].append(pss_mb(int(entry.name)))
    return {kind: statistics.mean(values) for kind, values in found.items() if values}


def measure_bursts(works):
    """All at once, where there was nothing to do; in turns, and beside one alone."""
    alone = load.time_in_turns(works, 20, 10)
    seen = {name: [] for name in works}
    for _ in range(load.ROUNDS):
        for name, work in works.items():
            time.sleep(1)
            seen[name].append(load.time_burst(work, BURST))
    return {name: {**load.over_rounds(rows), "alone": alone[name]["p50"]}
            for name, rows in seen.items()}


def measure(program, scratch, rounds, seconds=SECONDS):
    server = serve.Server(program, scratch / "warm", QUEUE_MAX_LENGTH=1000)
    result = {}
    try:
        time.sleep(1.5)
        result.update(measure_single(server, rounds))
        time.sleep(1)
        result["warm.idle_mb_per_box"] = waiting_boxes(server)
        result["warm.runs_per_sec"] = measure_rates(server, seconds)
        result.update(measure_bursts({"warm.burst_ms": serve.run_work(server.port, TRUE),
                                      "bare.burst_ms": load.spawn(*TRUE)}))
    finally:
        server.stop()
        server.end_keeper()
    if has_pandas():
        result.update(measure_pandas(program, scratch, rounds))
    return result


def goals(m):
    """As bench/run has them."""
    rates = m["warm.runs_per_sec"]
    rows = [
        ("warm / bare python, p50", m["warm.python_ms"]["p50"] / m["bare.python_ms"]["p50"], 0.25),
        ("warm python p99 / bare p50",
         m["warm.python_ms"]["p99"] / m["bare.python_ms"]["p50"], 1.0),
        ("warm / bare true, p50", m["warm.true_ms"]["p50"] / m["bare.true_ms"]["p50"], 1.5),
        ("warm / bwrap true, p50", m["warm.true_ms"]["p50"] / m["bwrap.true_ms"]["p50"], 0.4),
        ("bare / warm python runs per second",
         rates["bare python, two at a time"] / rates["python"], 1 / 4),
        ("bwrap / warm true runs per second", rates["bwrap true"] / rates["true"], 1 / 2),
        (f"burst of {BURST} / the same without boxes, p99",
         m["warm.burst_ms"]["p99"] / m["bare.burst_ms"]["p99"], 2.0),
    ]
    for kind, bound in (("box", 1.0), ("python", 6.0)):
        if kind in m["warm.idle_mb_per_box"]:
            rows.append((f"idle memory of a {kind}, MB", m["warm.idle_mb_per_box"][kind], bound))
    if "warm.python_pandas_ms" in m:
        rows.append(("warm / bare pandas, p50", m["warm.python_pandas_ms"]["p50"]
                     / m["bare.python_pandas_ms"]["p50"], 0.05))
    return rows


def show(m):
    rates = ", ".join(f"{name} {value:.0f}" for name, value in m["warm.runs_per_sec"].items())
    print(f"{'warm.runs_per_sec':30} {rates}")
    idle = ", ".join(f"{name} {value:.2f}" for name, value in m["warm.idle_mb_per_box"].items())
    print(f"{'warm.idle_mb_per_box':30} {idle}")
    for name, what in (("warm.burst_ms", "by REST"), ("bare.burst_ms", "without boxes")):
        burst = m[name]
        print(f"a burst of {BURST} {what}: p99 {burst['p99']:.0f} ms, "
              f"{burst['p99'] / burst['alone']:.0f} times the p50 of one alone")
