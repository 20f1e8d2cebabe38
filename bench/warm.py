"""What it is worth to have boxes and interpreters ready, beside what they replace: the same
program without any box, started by posix_spawn(). Used by bench/run.
"""
import contextlib
import json
import os
import pathlib
import statistics
import threading
import time

import serve

PRINT = ["/usr/bin/python3", "-c", "print(1)"]
PANDAS = ["/usr/bin/python3", "-c", "import pandas; print(1)"]
TRUE = ["/bin/true"]
BURST = 200
SECONDS = 30


def through(client, argv):
    body = json.dumps({"base_image": "host", "command": argv}).encode()
    return lambda: client.call("POST", "/runs?wait=30", body)


def bare(argv):
    null = os.open("/dev/null", os.O_WRONLY)

    def once():
        pid = os.posix_spawn(argv[0], argv, os.environ,
                             file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
        assert os.waitpid(pid, 0)[1] == 0
    return once


def time_in_turns(works, rounds, pause=0.0):
    """Each of `works`, by name, once a round: the machine is slow for all at the same moments."""
    times = {name: [] for name in works}
    for _ in range(rounds):
        for name, once in works.items():
            time.sleep(pause)
            begin = time.perf_counter()
            once()
            times[name].append((time.perf_counter() - begin) * 1000)
    return {name: serve.percentiles(list(values)) for name, values in times.items()}


def has_pandas():
    return os.system("/usr/bin/python3 -c 'import pandas' 2>/dev/null") == 0


def measure_single(server, rounds):
    client = serve.Client(server.port)
    works = {
        "warm.python_ms": through(client, PRINT), "bare.python_ms": bare(PRINT),
        "warm.true_ms": through(client, TRUE), "bare.true_ms": bare(TRUE),
        "bwrap.true_ms": serve.bwrap_client(),
    }
    for once in works.values():
        once()
    return time_in_turns(works, rounds, 0.004)


def measure_pandas(program, scratch, rounds):
    server = serve.Server(program, scratch / "pandas", WARM_IMPORTS="numpy,pandas")
    try:
        client = serve.Client(server.port)
        works = {"warm.python_pandas_ms": through(client, PANDAS),
                 "bare.python_pandas_ms": bare(PANDAS)}
        time.sleep(4)
        time_in_turns(works, 3)
        return time_in_turns(works, max(10, rounds // 20), 0.02)
    finally:
        server.stop()
        server.end_keeper()


def measure_rates(server, seconds):
    def client(argv):
        return lambda: through(serve.Client(server.port), argv)

    python, true, bwrap = serve.rates_in_turns(
        (client(PRINT), client(TRUE), serve.bwrap_client), 16, seconds)
    bare_python, = serve.rates_in_turns((lambda: bare(PRINT),), 2, seconds / 3)
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


def measure_burst(works):
    """All at once, where there was nothing to do; against one alone."""
    alone = time_in_turns({"one": works[0]}, 20, 0.01)["one"]["p50"]
    time.sleep(1)
    gate, times = threading.Barrier(BURST), []

    def go(once):
        gate.wait()
        begin = time.perf_counter()
        once()
        times.append((time.perf_counter() - begin) * 1000)

    threads = [threading.Thread(target=go, args=(once,)) for once in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == BURST
    return {"alone": alone, **serve.percentiles(times)}


def measure(program, scratch, rounds, seconds=SECONDS):
    server = serve.Server(program, scratch / "warm", QUEUE_MAX_LENGTH=1000)
    result = {}
    try:
        time.sleep(1.5)
        result.update(measure_single(server, rounds))
        time.sleep(1)
        result["warm.idle_mb_per_box"] = waiting_boxes(server)
        result["warm.runs_per_sec"] = measure_rates(server, seconds)
        result["warm.burst_ms"] = measure_burst(
            [through(serve.Client(server.port), TRUE) for _ in range(BURST)])
        result["bare.burst_ms"] = measure_burst([bare(TRUE) for _ in range(BURST)])
    finally:
        server.stop()
        server.end_keeper()
    if has_pandas():
        result.update(measure_pandas(program, scratch, rounds))
    return result


def goals(m):
    """As bench/run has them."""
    rates, burst = m["warm.runs_per_sec"], m["warm.burst_ms"]
    rows = [
        ("warm / bare python, p50", m["warm.python_ms"]["p50"] / m["bare.python_ms"]["p50"], 0.25),
        ("warm python p99 / bare p50",
         m["warm.python_ms"]["p99"] / m["bare.python_ms"]["p50"], 1.0),
        ("warm / bare true, p50", m["warm.true_ms"]["p50"] / m["bare.true_ms"]["p50"], 1.5),
        ("warm / bwrap true, p50", m["warm.true_ms"]["p50"] / m["bwrap.true_ms"]["p50"], 0.4),
        ("bare / warm python runs per second",
         rates["bare python, two at a time"] / rates["python"], 1 / 4),
        ("bwrap / warm true runs per second", rates["bwrap true"] / rates["true"], 1 / 2),
        ("burst of 200, p99 / p50 of one", burst["p99"] / burst["alone"], 20.0),
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
    burst = m["bare.burst_ms"]
    print(f"a burst of {BURST} without any box: p99 / p50 of one {burst['p99'] / burst['alone']:.0f}")
