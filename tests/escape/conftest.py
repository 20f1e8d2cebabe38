"""What the escape tests share; hostile/harness.py explains what an attack is.

`box` runs hostile programs in a box and fails the test when a token comes out that was
planted outside of it, whatever else the test asks. `fails` checks one row of a table of
attacks; a whole table runs in one box, once as root and once as a plain user.

Planted outside (see Sentinels): files, sockets, System V and POSIX IPC, a key, and
processes with a secret in their arguments and environment. All are open to everybody:
only the box stands between them and the guest.

    @pytest.mark.warm      also in clones of an interpreter that was there before; without
                           it a test runs in a box of its own only, as `belljar run` makes it
    @pytest.mark.clones    only in such clones
"""
import importlib
import json
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from outside import HOSTILE, PYTHON, SLOWER, THROWAWAY, Box, Sentinels, check_row, compile_c


@pytest.fixture(scope="session")
def sentinels():
    planted = Sentinels()
    try:
        planted.plant()
        yield planted
    finally:
        planted.close()


def pytest_configure(config):
    config.addinivalue_line("markers", "warm: runs also in clones of a template")
    config.addinivalue_line("markers", "clones: runs in clones of a template only")


def pytest_generate_tests(metafunc):
    if metafunc.definition.get_closest_marker("warm"):
        metafunc.parametrize("warmth", ["cold", "warm"], indirect=True)


@pytest.fixture
def warmth(request):
    """How its Python programs are started."""
    if request.node.get_closest_marker("clones"):
        return "warm"
    return getattr(request, "param", "cold")


@pytest.fixture
def box(belljar, sentinels, warmth):
    it = Box(belljar, sentinels, warmth == "warm")
    yield it
    it.close()


@pytest.fixture(scope="session")
def compiled():
    """A directory with the hostile programs in C, as NAME.bin."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc to compile hostile programs with")
    with tempfile.TemporaryDirectory(prefix="belljar-hostile-", dir="/tmp") as where:
        for source in HOSTILE.glob("*.c"):
            compile_c(source, pathlib.Path(where))
        yield pathlib.Path(where)


@pytest.fixture(scope="session")
def cache():
    """Results of whole tables: one run serves all their rows."""
    return {}


@pytest.fixture(scope="session")
def outside(sentinels, cache, compiled):
    """The outcomes of a table outside of any box."""

    def run(table):
        if ("outside", table) in cache:
            return cache["outside", table]
        module = importlib.import_module(table)
        with tempfile.TemporaryDirectory(prefix="belljar-outside-", dir="/tmp") as where:
            copy = pathlib.Path(where)
            for path in (*HOSTILE.glob("*.py"), *compiled.iterdir()):
                shutil.copy(path, copy)
            (copy / "places.json").write_text(json.dumps(sentinels.places))
            prefix = THROWAWAY if getattr(module, "THROWAWAY", False) else []
            done = subprocess.run([*prefix, PYTHON, "-B", copy / (table + ".py"), "--outside"],
                                  capture_output=True, text=True, timeout=60 * SLOWER, cwd=where,
                                  check=False)
        assert done.returncode == 0, done.stderr
        cache["outside", table] = json.loads(done.stdout)
        return cache["outside", table]

    return run


@pytest.fixture
def fails(box, cache, outside, compiled):
    """fails(table, name): that attack failed in the box, and its control did not."""

    def check(table, name):
        row = importlib.import_module(table).ATTACKS[name]
        for needed in row.needs:
            if needed not in box.sentinels.places:
                pytest.skip("not planted: " + box.sentinels.why_not.get(needed, needed))
        key = (table, box.who)
        if key not in cache:
            cache[key] = box.run_table(table, compiled)
        results = cache[key].json()
        assert name in results, f"{name} did not run"
        check_row(row, results[name], outside(table).get(name) if row.outside else None)

    return check
