"""The benchmark's own arithmetic: what is a missed goal, which round counts, what is worse."""
import importlib
import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BENCH = TOP / "bench"
LOAD = pathlib.Path(os.environ.get("BELLJAR", TOP / "build/belljar")).parent / "bench/bench_load"


@pytest.fixture
def bench(monkeypatch):
    """A module of bench/ by its name. The names are taken back: tests have modules like these."""
    monkeypatch.syspath_prepend(str(BENCH))
    names = [path.stem for path in BENCH.glob("*.py")]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


def test_missed_goals_are_said_at_the_end(bench, capsys):
    missed = bench("goals").show([("fast", 0.5, 1.0), ("slow", 2.5, 2.0), ("absent", None, 0.5)])
    lines = capsys.readouterr().out.splitlines()
    assert missed == ["slow"]
    assert lines[0].endswith("met")
    assert lines[2].endswith("not installed")
    assert lines[-2:] == ["1 of 2 goals missed:", "  slow"]


@pytest.mark.parametrize("missed, strict, status", [
    ([], False, 0), ([], True, 0), (["slow"], False, 0), (["slow"], True, 1)])
def test_a_missed_goal_is_an_error_only_when_strict(bench, missed, strict, status):
    assert bench("goals").status(missed, strict) == status


def test_the_quietest_round_has_the_p99(bench):
    rounds = [{"p50": 1, "p99": 9, "min": 0.9}, {"p50": 3, "p99": 4, "min": 0.8},
              {"p50": 2, "p99": 5, "min": 0.7}]
    assert bench("load").over_rounds(rounds) == {"p50": 2, "p99": 4, "quiet_p50": 3, "min": 0.7}


def test_the_burst_is_judged_beside_the_same_burst_without_boxes(bench):
    row = {"p50": 1.0, "p99": 1.0}
    names = ("warm.python_ms", "bare.python_ms", "warm.true_ms", "bare.true_ms", "bwrap.true_ms")
    m = {**dict.fromkeys(names, row), "warm.idle_mb_per_box": {},
         "warm.runs_per_sec": {"python": 1, "bare python, two at a time": 1, "true": 1,
                               "bwrap true": 1},
         "warm.burst_ms": {"p99": 300.0}, "bare.burst_ms": {"p99": 100.0}}
    found = [goal for goal in bench("warm").goals(m) if "burst" in goal[0]]
    assert found == [("burst of 200 / the same without boxes, p99", 3.0, 2.0)]


def test_go_judge_that_is_not_installed_is_said_to_be(bench, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("GO_JUDGE", str(tmp_path / "nothing"))
    gojudge = bench("gojudge")
    m = gojudge.measure("belljar", tmp_path)
    gojudge.show(m)
    assert capsys.readouterr().out.count("not installed\n") == 6
    assert [(value, bound) for _, value, bound in gojudge.goals(m)] == [(None, 0.5)] * 6


def test_go_judge_is_to_have_half_of_our_rate(bench):
    gojudge = bench("gojudge")
    rates = {name: {n: {"ours": 100, "theirs": 60} for n in gojudge.CLIENTS}
             for name in gojudge.PROGRAMS}
    goals = gojudge.goals({"gojudge": {"installed": True, "rates": rates}})
    assert {(value, bound) for _, value, bound in goals} == {(0.6, 0.5)}


@pytest.mark.parametrize("seccomp, caps, said", [
    ("0", "0", "namespaces net; cgroup v1; seccomp no; no_new_privs yes; capabilities none"),
    ("2", "4", "namespaces net; cgroup v1; seccomp yes; no_new_privs yes; capabilities 4")])
def test_go_judge_isolation_is_as_its_guest_saw_it(bench, seccomp, caps, said):
    guest = f"NoNewPrivs: 1\nSeccomp: {seccomp}\nCapEff: {caps}\nns net net:[2]\n" \
            "ns time time:[1]\nns net_for_children net:[2]\n"
    ours = {"net": "net:[1]", "time": "time:[1]", "net_for_children": "net:[1]"}
    assert bench("gojudge").isolation(guest, 1, ours) == said


def test_two_builds_are_compared_by_turns(bench):
    def build(ms, p99, rate):
        return {"serve.run_true_ms": {"p50": ms, "p99": p99, "quiet_p50": ms},
                "serve.runs_per_sec": {8: rate}, "bare.true_ms": {"p50": 1.0}}
    ours = [build(2.0, 9.0, 100), build(4.0, 5.0, 50), build(2.2, 7.0, 90)]
    other = [build(1.0, 4.0, 200), build(2.0, 6.0, 100), build(1.0, 8.0, 90)]
    rows = {name: times for name, _, _, times in bench("against").compare(ours, other)}
    assert rows == {"serve.run_true_ms p50": 2.0, "serve.run_true_ms p99": 5.0 / 4.0,
                    "serve.runs_per_sec 8": 2.0}


def test_each_part_is_measured_for_both_builds_in_turn(bench, tmp_path):
    order = []

    def part(name):
        return lambda program, scratch: order.append(name + program) or {name: len(order)}
    seen = bench("against").measure(("a", "b"), 2, tmp_path, [part("x"), part("y")])
    assert order == ["xa", "xb", "yb", "ya", "xb", "xa", "ya", "yb"]
    assert seen == [[{"x": 1, "y": 4}, {"x": 6, "y": 7}], [{"x": 2, "y": 3}, {"x": 5, "y": 8}]]


@pytest.mark.parametrize("expect, status", [("Accepted", 0), ("never", 1)])
def test_the_load_fails_where_a_run_did(bench, expect, status):
    """An answer with 200 is no proof that the program ended well."""
    work_of = bench("load").post
    with socket.create_server(("127.0.0.1", 0)) as listener:
        work = work_of(listener.getsockname()[1], "/run", {}, {}, expect)
        with subprocess.Popen([LOAD, "turns", "1", "0", json.dumps(work)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nAccepted")
                assert process.wait(10) == status
