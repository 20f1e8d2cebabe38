"""The tools that judge the rest: what they must catch, and that they count right."""
import argparse
import importlib.machinery
import importlib.util
import pathlib
import subprocess

import pytest

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"


@pytest.fixture
def source(tmp_path):
    """Writes files below a source directory of its own."""
    def write(**files):
        for name, text in files.items():
            layer, stem, suffix = name.split("__")
            path = tmp_path / "src" / layer / f"{stem}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "src"
    return write


def judge(tool, directory):
    done = subprocess.run([TOOLS / tool, directory], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("layer, include, word", [
    ("base", '#include "ipc/cur.h"', "base may include nothing, not ipc"),
    ("box", '#  include "keeper/keeper.h"', "not keeper"),
    ("client", '#include "box/box.h"', "not box"),
    ("ipc", '#include "cur.h"', 'write "ipc/cur.h"'),
    ("ipc", '#include "lib/test.h"', '"lib" is not a layer'),
    ("elsewhere", "", '"elsewhere" is not in the table'),
])
def test_an_upward_include_is_caught(source, layer, include, word):
    status, said = judge("check_layers", source(**{f"{layer}__x__c": f"int x;\n{include}\n"}))
    assert status == 1
    assert word in said


def test_a_downward_include_is_fine(source):
    top = source(cli__x__c='#include "keeper/keeper.h"\n#include <box/nothing.h>\n',
                 keeper__k__c='#include "box/box.h"\n#include "keeper/keeper.h"\n',
                 box__b_test__c='#include "lib/test.h"\n#include "ipc/spec.h"\n',
                 client__c__c='#include "belljar.h"\n')
    assert judge("check_layers", top) == (0, "")


def test_a_module_without_a_test_is_caught(source):
    top = source(box__alone__c="", box__pair__c="", box__pair_test__c="", box__pair_more__c="",
                 box__seedless_fuzz__c="")
    status, said = judge("check_tests", top)
    assert status == 1
    assert "alone.c: no alone_test.c" in said
    assert "pair" not in said
    assert "seedless_fuzz.c: no seeds" in said


@pytest.fixture
def tester():
    loader = importlib.machinery.SourceFileLoader("tools_test", str(TOOLS / "test"))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("tools_test", loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def tally(tester):
    return tester.Tally()


def program(result, status, stdout):
    return {"name": "belljar:unit / x", "result": result, "returncode": status, "stdout": stdout}


@pytest.mark.parametrize("skip", ["not ok 3 # SKIP c", "ok 3 # SKIP c"])
def test_cases_are_counted(tally, skip):
    tally.add_program(program("FAIL", 1, f"1..3\nok 1 - a\nnot ok 2 - b\nskip: no tty\n{skip}\n"))
    assert (tally.passed, tally.failed, tally.skipped) == (1, ["x: b"], [("x: c", "no tty")])


def test_a_program_that_dies_on_the_way_has_failed(tally):
    tally.add_program(program("OK", 0, "1..3\nok 1 - a\n"))
    assert tally.passed == 1
    assert tally.failed == ["x: OK, status 0, 2 cases not reported"]


def test_a_program_that_fails_after_its_last_case_has_failed(tally):
    tally.add_program(program("FAIL", 23, "1..1\nok 1 - a\n"))
    assert len(tally.failed) == 1


def test_nothing_passed_is_a_failure(tally, capsys):
    assert tally.report() == 1
    assert capsys.readouterr().out == "0 passed, 0 failed, 0 skipped\n"


# A case says when it began, and where: in one of several processes, or in the only one.
CASES = """
import os, pathlib
import pytest

def note(name):
    with open(pathlib.Path(__file__).parent / "order", "a") as f:
        f.write(f"{name} {os.environ.get('PYTEST_XDIST_WORKER', '')[:2]}\\n")

@pytest.mark.alone
def test_alone():
    note("alone")

def test_together():
    note("together")

@pytest.mark.other
def test_fails():
    assert False
"""


@pytest.mark.parametrize("jobs, mark, order, n_failed", [
    (2, "", ["together gw"] * 2 + ["alone "] * 2, 2),
    (1, "", ["alone ", "together "] * 2, 2),
    (2, "not other", ["together gw"] * 2 + ["alone "] * 2, 0),
    (2, "other or alone", ["alone "] * 2, 2),
    (1, "other", [], 2),
])
def test_what_must_be_alone_is(tester, tally, monkeypatch, tmp_path, jobs, mark, order, n_failed):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setattr(tester, "TOP", tmp_path)
    suite = tmp_path / "tests/few"
    suite.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    alone\n    other\n")
    for name in ("a", "b"):
        (suite / f"test_{name}.py").write_text(CASES)
    args = argparse.Namespace(build=tmp_path, slower=1, jobs=jobs, m=mark)
    tester.run_suite("few", args, tally, [])
    seen = suite / "order"
    assert (seen.read_text().splitlines() if seen.exists() else []) == order
    assert (tally.passed, len(tally.failed), tally.skipped) == (len(order), n_failed, [])
