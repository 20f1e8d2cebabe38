"""A program can not tell whether its interpreter was there before it: each is run by a new one
and by a clone of a template, and must come out the same, byte for byte. And what one run does
reaches no other, however warm."""
import contextlib
import json
import os
import pathlib
import re
import signal
from concurrent import futures

import httpx
import pytest

from jar import SLOWER, eventually
from server import make_server  # noqa: F401, a fixture
from test_image import BASE, oci, write_dir
from test_keeper import Keeper
from test_mcp_stateless import Client as Stateless

WARM_SECONDS = 20 * SLOWER
ADDRESS = re.compile(r"0x[0-9a-f]+")
TEXT = (pathlib.Path(__file__).parent / "warm_programs.txt").read_text()
PROGRAMS = dict(part.split("\n", 1) for part in TEXT.split("### ")[1:])

# How a program is given.
WAYS = {
    "-c": lambda path, code: ["--", "python3", "-c", code, "a", "b c"],
    "file": lambda path, code: ["--copy-in", path, "--", "python3", "main.py", "x"],
    "path": lambda path, code: ["--copy-in", path, "--", "/usr/bin/python3", "/mnt/data/main.py"],
    "language": lambda path, code: ["--lang", "python", path, "y"],
}


class Both:
    """A keeper whose runs are cold, until they are to be warm."""

    def __init__(self, jar):
        self.jar = jar
        self.keeper = Keeper(jar)
        self.peer = self.keeper.greet()

    def set(self, what, imports=""):
        self.peer.warm(what, imports)
        self.peer.list()  # it has heard that
        if what == "languages":
            assert eventually(lambda: self.run("--", "python3", "-c", "")["started"] == "warm",
                              WARM_SECONDS, pause=0.1)

    def run(self, *argv, stdin="one\ntwo\n"):
        done = self.jar.run("--json", *argv, input=stdin)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def outcome(self, *argv, started):
        """How a run came out, of one that was started like that."""
        for _ in range(50):
            run = self.run(*argv)
            if run["started"] == started:
                return {name: ADDRESS.sub("0x", str(run[name])) for name in (
                    "phase", "reason_code", "exit_code", "signal", "stdout", "stderr")}
        raise AssertionError(f"never {started}: {argv}")


@pytest.fixture
def both(jar):
    return Both(jar)


@pytest.mark.parametrize("way", WAYS)
def test_no_program_can_tell(both, way):
    def arguments(name):
        path = both.jar.file("main.py", PROGRAMS[name])
        return WAYS[way](path, PROGRAMS[name])

    both.set("off")
    cold = {name: both.outcome(*arguments(name), started="cold") for name in PROGRAMS}
    both.set("languages")
    warm = {name: both.outcome(*arguments(name), started="warm") for name in PROGRAMS}
    assert {name: warm[name] for name in PROGRAMS if warm[name] != cold[name]} == \
        {name: cold[name] for name in PROGRAMS if warm[name] != cold[name]}


# What a clone would get wrong is executed instead, in the same box.
COLD = {
    "an option": ["--", "python3", "-u", "-c", "print(1)"],
    "no program": ["--", "python3"],
    "stdin": ["--", "python3", "-"],
    "a module": ["--", "python3", "-m", "this"],
    "a variable of Python": ["-e", "PYTHONHASHSEED=1", "--", "python3", "-c", "print(hash('a'))"],
    "a number for a variable of Python": ["-e", "PYTHONUNBUFFERED=0", "--", "python3", "-c",
                                          "import sys; print(sys.stdout.write_through)"],
    "a variable of the loader": ["-e", "LD_BIND_NOW=1", "--", "python3", "-c", "print(1)"],
    "another locale": ["-e", "LANG=C", "--", "python3", "-c",
                       "import sys; print(sys.stdout.errors)"],
    "a time zone": ["-e", "TZ=Asia/Tokyo", "--", "python3", "-c", "import time; print(time.tzname)"],
    "another home": ["-e", "HOME=", "--", "python3", "-c", "import site; print(site.USER_SITE)"],
    "settings elsewhere": ["-e", "XDG_CONFIG_HOME=/x", "--", "python3", "-c", "print(1)"],
    "a variable of modules": ["-e", "SETUPTOOLS_USE_DISTUTILS=stdlib", "--", "python3", "-c",
                              "import sys; print(len(sys.meta_path))"],
    "a name with a dot": ["--copy-in", "DOT", "--", "python3", "./main.py"],
    "no such file": ["--", "python3", "nowhere.py"],
    "a directory": ["--", "python3", "/workspace"],
    "what is not UTF-8": ["--", "python3", "-c", "print('\udcff')"],
    "a shell": ["--", "sh", "-c", "echo $0"],
}


def test_what_a_clone_can_not_do_is_done_by_a_new_interpreter(both):
    path = both.jar.file("main.py", "print(__file__)")
    given = {name: [path if word == "DOT" else word for word in argv]
             for name, argv in COLD.items()}
    both.set("off")
    cold = {name: both.outcome(*argv, started="cold") for name, argv in given.items()}
    both.set("languages")
    for name, argv in given.items():
        run = both.run(*argv)
        if name != "a shell":
            assert run["started"] == "cold", name
        for field, value in cold[name].items():
            assert ADDRESS.sub("0x", str(run[field])) == value, (name, field)


def test_modules_of_the_user_are_found(both):
    """Python looks for those when it starts."""
    both.set("languages")
    script = ("import os, subprocess, sys, sysconfig; "
              "where = f'/workspace/.local/lib/python3.{sys.version_info[1]}/site-packages'; "
              "os.makedirs(where); open(where + '/mine.py', 'w').write('x = 5'); "
              "sys.exit(subprocess.run(['python3', '-c', 'import mine; print(mine.x)']).returncode)")
    run = both.run("--", "python3", "-c", script)
    assert (run["stdout"], run["exit_code"]) == ("5\n", 0), run["stderr"]


VENV = """
import os, subprocess, sys
os.makedirs("v/bin"); os.makedirs("v/lib/python3.%d/site-packages" % sys.version_info[1])
os.symlink("/usr/bin/python3", "v/bin/python3"); open("v/pyvenv.cfg", "w").write("home = /usr/bin")
"""


def test_a_virtual_environment_is_used(make_server):
    server = make_server()
    session = server.post("/sessions", json={"base_image": "host"}).json()["id"]

    def run(*command):
        return server.post("/runs?wait=20", json={
            "session_id": session, "command": list(command)}).json()
    assert run("python3", "-c", VENV)["exit_code"] == 0
    for _ in range(4):
        done = run("/workspace/v/bin/python3", "-c", "import sys; print(sys.prefix)")
        assert done["stdout"] == "/workspace/v\n", done


def test_a_module_beside_the_program_comes_first(both):
    both.set("languages", "queue")
    path = both.jar.file("main.py", "import queue; print(queue.__file__)")
    mine = both.jar.file("queue.py", "")
    argv = ["--copy-in", path, "--", "python3", "main.py"]
    assert both.outcome(*argv, started="warm")["stdout"].startswith("/usr/lib/")
    run = both.run("--copy-in", mine, *argv)
    assert (run["stdout"], run["started"]) == ("/workspace/queue.py\n", "cold")


LEAVES = """
import builtins, ctypes, gc, locale, os, random, resource, signal, sys, threading
open("/workspace/left", "w").write("x"); open("/tmp/left", "w").write("x")
open("/dev/shm/left", "w").write("x")
os.environ["LEFT"] = "x"; os.chdir("/tmp"); os.umask(0)
for name in (n for n in dir(resource) if n.startswith("RLIMIT_") and n != "RLIMIT_OFILE"):
    soft, hard = resource.getrlimit(getattr(resource, name))
    if name not in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_STACK", "RLIMIT_CPU"):  # or it ends here
        resource.setrlimit(getattr(resource, name), (min(soft, 40) if soft > 0 else soft, hard))
ctypes.CDLL(None).prctl(15, b"left"); os.nice(5); locale.setlocale(locale.LC_ALL, "C")
builtins.left = sys.left = os.left = 1; sys.modules["left"] = sys; sys.path.append("/left")
signal.signal(signal.SIGTERM, signal.SIG_IGN); random.seed(1); gc.disable()
sys.setrecursionlimit(50); os.open("/dev/null", os.O_RDONLY)
"""

LOOKS = """
import builtins, gc, locale, os, random, resource, signal, sys
print(sorted(os.listdir("/workspace")), os.listdir("/tmp"), os.listdir("/dev/shm"),
      "LEFT" in os.environ, os.getcwd(), os.umask(0), os.nice(0), locale.setlocale(locale.LC_ALL),
      [(name, resource.getrlimit(getattr(resource, name))) for name in dir(resource)
       if name.startswith("RLIMIT_")], open("/proc/self/comm").read(),
      hasattr(builtins, "left"), hasattr(sys, "left"), hasattr(os, "left"), "left" in sys.modules,
      "/left" in sys.path, signal.getsignal(signal.SIGTERM), gc.isenabled(),
      sys.getrecursionlimit(), sorted(os.listdir("/proc/self/fd")), os.listdir("/proc/self/task"))
"""


def test_nothing_of_a_run_reaches_another(both):
    seen = {}
    for what, started in (("off", "cold"), ("languages", "warm")):
        both.set(what)
        seen[started] = both.outcome("--", "python3", "-c", LOOKS, started=started)
        for _ in range(5):
            left = both.outcome("--", "python3", "-c", LEAVES, started=started)
            assert left["exit_code"] == "0", left
        assert both.outcome("--", "python3", "-c", LOOKS, started=started) == seen[started]
    assert seen["warm"] == seen["cold"] and "'left'" not in seen["cold"]["stdout"]


def test_what_is_left_is_seen_by_who_left_it(both):
    """The control of the above."""
    both.set("languages")
    before = both.outcome("--", "python3", "-c", LOOKS, started="warm")["stdout"]
    after = both.outcome("--", "python3", "-c", LEAVES + LOOKS, started="warm")["stdout"]
    assert "'left'" in after and after.count("True") > before.count("True") + 4
    for changed in (f"/workspace 18 {os.nice(0)} ", "('RLIMIT_NOFILE', (1024,", "python3\n"):
        assert changed in before and changed not in after, changed


CHANCE = {
    "random": "import random; print(random.random(), random.getrandbits(64))",
    "the system's": "import os; print(os.urandom(8))",
    "OpenSSL": "import ssl; print(ssl.RAND_bytes(8))",
    "names of files": "import tempfile; print(tempfile.mktemp())",
    "identifiers": "import uuid; print(uuid.uuid4())",
}


@pytest.mark.parametrize("what, started", [("off", "cold"), ("languages", "warm")])
def test_chance_is_new_in_each_run(both, what, started):
    both.set(what, "random,ssl,tempfile,uuid")
    for name, code in CHANCE.items():
        drawn = {both.outcome("--", "python3", "-c", code, started=started)["stdout"]
                 for _ in range(6)}
        assert len(drawn) == 6, name


def test_imports_are_there_and_nothing_else(both):
    show = "import sys; print('json' in sys.modules, 'decimal' in sys.modules)"
    both.set("languages", "json")
    assert both.outcome("--", "python3", "-c", show, started="warm")["stdout"] == "True False\n"
    both.set("languages", "decimal,no_such_module")
    assert both.outcome("--", "python3", "-c", show, started="warm")["stdout"].endswith("True\n")


def test_science_is_warm_and_reseeded(both):
    pytest.importorskip("numpy")
    both.set("languages", "numpy,pandas")
    code = "import numpy, pandas; print(numpy.random.rand(), numpy.ones((300, 300)).dot(2).sum())"
    drawn = {both.outcome("--", "python3", "-c", code, started="warm")["stdout"] for _ in range(4)}
    assert len(drawn) == 4
    threads = ("import numpy as n; a = n.random.rand(900, 900); print(n.isfinite(a.dot(a)).all())")
    assert both.outcome("--", "python3", "-c", threads, started="warm")["stdout"] == "True\n"


def template_pids():
    """Of all keepers on this machine: a test may end only its own, see below."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"belljar-warm" in (entry / "maps").read_bytes():
                found.append(int(entry.name))
    return found


def descendants(pid):
    """Processes whose parents, theirs and so on come to `pid`."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                stat = (entry / "stat").read_text()
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def templates_of(keeper):
    return [pid for pid in template_pids() if pid in descendants(keeper.process.pid)]


def kill_templates(keeper):
    assert templates_of(keeper)
    for pid in templates_of(keeper):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_template_is_of_the_host_whatever_was_run_last(both):
    """An image's own interpreter is a guest's, and in a box, or nowhere."""
    source = write_dir(oci(BASE), both.jar.home / "image")
    assert both.jar.cli("image", "import", source).returncode == 0
    both.set("languages")
    for _ in range(3):
        both.run("--image", "test:1", "--", "/nothing")
    kill_templates(both.keeper)
    both.run("--image", "test:1", "--", "/nothing")
    assert eventually(lambda: templates_of(both.keeper), WARM_SECONDS)
    assert eventually(lambda: both.run("--", "python3", "-c", "")["started"] == "warm",
                      WARM_SECONDS, pause=0.1)


def test_a_template_that_dies_is_replaced(both):
    """And a run goes on meanwhile: with an interpreter of its own. Its seed for hashes is new,
    which was the same for all clones of the one before."""
    both.set("languages")
    show = ["--", "python3", "-c", "print(hash('a'))"]
    seeds = {both.outcome(*show, started="warm")["stdout"] for _ in range(3)}
    assert len(seeds) == 1
    kill_templates(both.keeper)
    assert both.run("--", "python3", "-c", "print(1)")["stdout"] == "1\n"
    assert eventually(lambda: both.run("--", "python3", "-c", "")["started"] == "warm",
                      WARM_SECONDS, pause=0.1)
    assert both.outcome(*show, started="warm")["stdout"] not in seeds


def is_process_1(pid):
    """In its own pid namespace: of a template, or of a box that waits."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return re.search(r"^NSpid:.*\s1$", status, re.M)


def test_a_template_that_hangs_is_ended(both):
    """When it has not made a box for ten seconds; nobody waits for it meanwhile."""
    both.set("languages")
    stuck, = [pid for pid in templates_of(both.keeper) if not is_process_1(pid)]
    os.kill(stuck, signal.SIGSTOP)
    assert eventually(lambda: both.run("--", "python3", "-c", "print(1)")["stdout"] == "1\n"
                      and stuck not in templates_of(both.keeper), 2 * WARM_SECONDS, pause=0.1)
    assert eventually(lambda: both.run("--", "python3", "-c", "")["started"] == "warm",
                      WARM_SECONDS, pause=0.1)


def test_without_memory_for_a_clone_there_is_no_template(make_server):
    server = make_server(SANDBOX_WARM_MEMORY_MB="4")
    assert eventually(lambda: series(server, "sandbox_warm_boxes", "none"), WARM_SECONDS)
    run = server.run("python3", "-c", "print(1)")
    assert run["stdout"] == "1\n" and run["resource_usage"]["started"] == "cold"
    assert series(server, "sandbox_warm_boxes", "python") == 0
    assert not set(template_pids()) & set().union(*map(descendants, server.processes()))


def test_off_means_that_nothing_is_made_ahead(both):
    both.set("off")
    assert [both.run("--", "true")["started"] for _ in range(3)] == ["cold"] * 3
    assert not templates_of(both.keeper)
    both.set("boxes")
    assert eventually(lambda: both.run("--", "true")["started"] == "warm", WARM_SECONDS)
    assert not templates_of(both.keeper)


def series(server, name, language):
    """The value of a metric of boxes of the host."""
    text = httpx.get(server.url + "/metrics").text
    found = re.search(rf'^{name}{{image="host",language="{language}"[^}}]*}} (\S+)$', text, re.M)
    return float(found[1]) if found else None


def test_a_server_shows_what_is_warm(make_server):
    server = make_server()
    ask = {"base_image": "host", "command": ["python3", "-c", "print(6 * 7)"]}
    assert eventually(lambda: series(server, "sandbox_warm_boxes", "python"), WARM_SECONDS)
    run = server.post("/runs?wait=20", json=ask).json()
    assert (run["stdout"], run["resource_usage"]["started"]) == ("42\n", "warm")
    assert eventually(lambda: series(server, "sandbox_warm_hits_total", "python"), WARM_SECONDS)
    assert series(server, "sandbox_warm_refill_seconds_total", "python") > 0
    assert series(server, "sandbox_warm_boxes", "none") is not None


def test_a_server_can_be_cold(make_server):
    server = make_server(SANDBOX_WARM="off")
    for command in (["python3", "-c", "print(1)"], ["true"]):
        run = server.post("/runs?wait=20", json={"base_image": "host", "command": command}).json()
        assert run["resource_usage"]["started"] == "cold"


def answers(server, started):
    """{program: what its run_python was answered with}, of runs that were started like that."""
    client = Stateless(server)

    def answer(code):
        for _ in range(50):
            got = client.call("run_python", session_id=started, code=code)["structuredContent"]
            if server.status(got["run_id"])["resource_usage"]["started"] == started:
                return {name: ADDRESS.sub("0x", str(got[name])) for name in (
                    "reason_code", "exit_code", "stdout", "stderr", "traceback")}
        raise AssertionError(f"never {started}: {code}")
    return {name: answer(code) for name, code in PROGRAMS.items()}


def test_no_code_of_a_model_can_tell(make_server):
    server = make_server(SANDBOX_WARM="off")
    cold = answers(server, "cold")
    server.close()
    server = make_server()
    assert eventually(lambda: series(server, "sandbox_warm_boxes", "python"), WARM_SECONDS)
    warm = answers(server, "warm")
    assert {name: warm[name] for name in cold if warm[name] != cold[name]} == \
        {name: cold[name] for name in cold if warm[name] != cold[name]}
    assert "ZeroDivisionError" in warm["an_exception"]["traceback"]


def test_more_wait_where_more_were_missed(make_server):
    server = make_server(SANDBOX_MAX_CONCURRENT_RUNS=16)
    ask = {"base_image": "host", "command": ["sleep", "0.2"]}
    assert eventually(lambda: series(server, "sandbox_warm_boxes", "none"), WARM_SECONDS)
    before = series(server, "sandbox_warm_boxes", "none")

    def is_missed():
        """Some come faster than boxes are made, but not each time."""
        missed = series(server, "sandbox_warm_misses_total", "none")
        with futures.ThreadPoolExecutor(16) as pool:
            done = [pool.submit(server.post, "/runs?wait=20", json=ask) for _ in range(16)]
            assert all(one.result().status_code == 200 for one in done)
        return eventually(lambda: series(server, "sandbox_warm_misses_total", "none") > missed,
                          1 * SLOWER)

    assert eventually(is_missed, WARM_SECONDS)
    assert eventually(lambda: series(server, "sandbox_warm_boxes", "none") > before, WARM_SECONDS)


@pytest.mark.parametrize("value, text", [
    ("SANDBOX_WARM=hot", "off, boxes"), ("SANDBOX_WARM_IMPORTS=os;rm", "name of a Python module")])
def test_bad_settings_are_refused(belljar, value, text):
    name, _, what = value.partition("=")
    done = belljar.run("serve", "--root", belljar.home / "state", "--port", "0", env={name: what})
    assert done.returncode != 0 and name in done.stderr and text in done.stderr, done.stderr
