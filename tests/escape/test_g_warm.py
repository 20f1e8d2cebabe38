"""Part G: the same, attempted by clones of an interpreter that was there before. Attacks that
others have cases for are made all at once here; tests elsewhere that are marked `warm` run
again as a whole."""
import importlib
import time

import pytest
from outside import SLOWER, check_row, processes_with

pytestmark = pytest.mark.clones


@pytest.mark.parametrize("table", ["mounts", "procfs", "syscalls", "border"])
def test_every_attack_of_a_clone_fails(box, outside, compiled, table):
    attacks = importlib.import_module(table).ATTACKS
    results = box.run_table(table, compiled).json()
    expected = {name for name, row in attacks.items()
                if all(needed in box.sentinels.places for needed in row.needs)}
    assert set(results) == expected and len(expected) > 40
    wrong = {}
    for name in expected:
        row = attacks[name]
        try:
            check_row(row, results[name], outside(table).get(name) if row.outside else None)
        except pytest.skip.Exception:
            pass  # its own case says why
        except AssertionError as e:
            wrong[name] = str(e)
    assert not wrong


def test_every_thread_and_program_of_a_clone_is_confined(box):
    found = box.run("confined.py").json()
    assert len(found) == 9
    for row in found:
        assert (row["NoNewPrivs"], row["Seccomp"]) == (["1"], ["2"])
        assert {row[name][0].strip("0") for name in row if name.startswith("Cap")} == {""}
        assert row["Uid"] == row["Gid"] == ["1000"] * 4


@pytest.mark.parametrize("way, most", [("workspace", 16), ("tmp", 64), ("shm", 64)])
def test_files_of_a_clone_fill_their_cap(box, way, most):
    found = box.run("exhaust.py", way, "1000", options=["--workspace-cap", "16M"]).json()
    assert found["why"] == "ENOSPC" and most - 2 <= found["n"] <= most


@pytest.mark.alone
@pytest.mark.delegated
def test_processor_time_of_a_clone_is_limited(box):
    result = box.run("spin.py", "1", "1.5", options=["--cpu", "0.25"])
    if box.enforces(result, "cpu"):
        usage = result["resource_usage"]
        assert 0.25 * 0.3 < usage["cpu_time_sec"] / usage["wall_time_sec"] < 0.25 * 1.35 + 0.05


@pytest.mark.alone
def test_the_timeouts_of_clones_hold(box):
    begin = time.monotonic()
    hows = ("ignore", "stop", "trace", "vfork", "starve_init")
    children = [box.start("stubborn.py", how, options=["--timeout", "1s"]) for how in hows]
    results = [box.finish(child) for child in children]
    assert [r["reason_code"] for r in results] == ["execution_timeout"] * len(hows)
    assert [r.out for r in results] == ["started\n"] * len(hows)
    assert 1 <= time.monotonic() - begin < 6 * SLOWER
    assert not processes_with("stubborn.py")
