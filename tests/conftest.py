"""What every integration and escape test shares.

`belljar` is the program, run as somebody. A test that asks for it runs once as root
and once as a plain user where pytest itself is root, and only as the plain user
elsewhere. Marks change that:

    @pytest.mark.root_only("why")    needs root; skipped, with that reason, elsewhere
    @pytest.mark.user_only           pointless as root
    @pytest.mark.once                one run is enough, as whoever pytest is
    @pytest.mark.delegated           also as a user to whom a cgroup was delegated
    @pytest.mark.heavy               minutes in an emulated machine; skipped there
    @pytest.mark.alone               looks at a short time or at the whole machine, or
                                     takes all of it: no other test runs meanwhile

    def test_echo(belljar):
        done = belljar.run("run", "--", "echo", "hi")
        assert (done.returncode, done.stdout) == (0, "hi\\n")

The plain user has no name, no group, and no home but an empty one: what a service
account looks like, or a container from inside.
"""
import contextlib
import ctypes
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
from _pytest.runner import runtestprotocol

TOP = pathlib.Path(__file__).resolve().parent.parent
CGROUPS = pathlib.Path("/sys/fs/cgroup")
PR_SET_CHILD_SUBREAPER = 36
USER_ID = 64242  # nobody's: Debian leaves this range to the administrator
SLOWER = int(os.environ.get("BELLJAR_TEST_SLOWER", "1"))  # than the machines we write for
TIMEOUT_SECONDS = 60 * SLOWER

# Enters a group and becomes the user: what systemd does for a unit with Delegate=.
ENTER = ('echo 0 >"$0/cgroup.procs" && '
         f'exec setpriv --reuid {USER_ID} --regid {USER_ID} --clear-groups -- "$@"')


class Delegation:
    """Groups of cgroup v2 that belong to the plain user, one per command: a group
    that hands its controllers on takes no process any more."""

    names = (f"belljar-test-{os.getpid()}-{n}" for n in itertools.count())

    def __init__(self):
        self.groups = []

    def new(self):
        group = CGROUPS / next(self.names)
        group.mkdir()
        self.groups.append(group)
        for path in (group, *(group / f"cgroup.{x}" for x in ("procs", "threads",
                                                              "subtree_control"))):
            os.chown(path, USER_ID, USER_ID)
        # As systemd marks what it delegates: only then the client, which is in the group
        # too, is moved out of the way of what is made there.
        os.setxattr(group, "user.delegate", b"1")
        return group

    def close(self):
        for group in self.groups:
            (group / "cgroup.kill").write_text("1")
            for _ in range(100):
                with contextlib.suppress(OSError):
                    for below, _, _ in os.walk(group, topdown=False):
                        os.rmdir(below)
                if not group.exists():
                    break
                time.sleep(0.02)


class Belljar:
    """The program as root or as a plain user, with a home that is also its scratch
    directory."""

    def __init__(self, path, home, who, delegation=None):
        self.path = str(path)
        self.home = pathlib.Path(home)
        self.who = who
        self.is_root = who == "root"
        self.becomes_user = os.geteuid() == 0 and not self.is_root
        self.delegation = delegation
        self.env = {
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }

    def _call(self, argv, options):
        """The arguments for subprocess that run `argv` as this user."""
        argv = [str(a) for a in argv]
        options = {"cwd": self.home, "text": True, **options}
        options["env"] = {**self.env, **(options.get("env") or {})}
        if self.delegation:
            argv = ["/bin/sh", "-c", ENTER, str(self.delegation.new()), *argv]
        elif self.becomes_user:
            options.update(user=USER_ID, group=USER_ID, extra_groups=[])
        return {"args": argv, **options}

    def command(self, *argv, **options):
        """Any command as this user; returns what subprocess.run() does."""
        options.setdefault("timeout", TIMEOUT_SECONDS)
        options.setdefault("capture_output", not {"stdout", "stderr"} & options.keys())
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(check=False, **self._call(argv, options))

    def run(self, *argv, **options):
        """belljar ARGV..., waited for."""
        return self.command(self.path, *argv, **options)

    def start(self, *argv, **options):
        """belljar ARGV..., as a Popen that the test must end itself."""
        return subprocess.Popen(**self._call([self.path, *argv], options))

    def file(self, name, content="", mode=0o644):
        """A file in the home of this user, owned by it. Returns its path."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        while self.becomes_user and path != self.home:
            os.chown(path, USER_ID, USER_ID)
            path = path.parent
        return self.home / name


MARKS = (
    "root_only(why): needs root; skipped elsewhere",
    "user_only: runs only as the plain user",
    "once: runs once, as whoever pytest is",
    "delegated: runs also as a user who has a cgroup of its own",
    "heavy: takes minutes on an emulated machine",
    "alone: runs while no other test does",
)


def _hear_signals():
    """A shell starts what it puts in the background with these two ignored, and every
    program that a test starts would inherit that."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler),
                            (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


def _adopt_orphans():
    """What loses its parent becomes our child, and not the child of the first process:
    so it can be told whose it was."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@pytest.fixture(autouse=True)
def bury_orphans():
    """After each test; what it waits for itself is gone by then."""
    yield
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def pytest_configure(config):
    _hear_signals()
    _adopt_orphans()
    for line in MARKS:
        config.addinivalue_line("markers", line)


def pytest_collection_modifyitems(items):
    if SLOWER == 1:
        return
    for item in items:
        if item.get_closest_marker("heavy"):
            item.add_marker(pytest.mark.skip(reason="takes minutes on an emulated machine"))


def _why_no_delegation():
    if os.geteuid() != 0:
        return "needs root to delegate a cgroup"
    if not (CGROUPS / "cgroup.subtree_control").exists():
        return "no cgroup v2 at /sys/fs/cgroup to delegate; tools/vm has it"
    given = (CGROUPS / "cgroup.subtree_control").read_text().split()
    lacking = {"cpu", "memory", "pids"} - set(given)
    return f"cgroup v2 root does not hand on {', '.join(sorted(lacking))}" if lacking else None


def _modes(definition):
    """Whom a test runs as: [(who, reason to skip or None)]."""
    mark = definition.get_closest_marker
    is_root = os.geteuid() == 0
    if mark("root_only"):
        why = next(iter(mark("root_only").args), "needs root")
        return [("root", None if is_root else why)]
    modes = [("user", None)]
    if is_root and mark("once"):
        modes = [("root", None)]
    elif is_root and not mark("user_only"):
        modes = [("root", None), ("user", None)]
    if mark("delegated"):
        modes.append(("delegated", _why_no_delegation()))
    return modes


def pytest_generate_tests(metafunc):
    if "as_user" not in metafunc.fixturenames:
        return
    params = [pytest.param(who, marks=[pytest.mark.skip(reason=why)] if why else [])
              for who, why in _modes(metafunc.definition)]
    metafunc.parametrize("as_user", params, indirect=True)


@pytest.fixture
def as_user(request):
    """Whom the test runs as: "root", "user" or "delegated"."""
    return request.param


@pytest.fixture(scope="session")
def program():
    """A copy of the program that every user can reach: a clone may lie below a home
    that is closed to others."""
    source = pathlib.Path(os.environ.get("BELLJAR", TOP / "build/belljar"))
    if not source.exists():
        pytest.fail(f"{source} is not built; run `make build`", pytrace=False)
    with tempfile.TemporaryDirectory(prefix="belljar-test-", dir="/tmp") as where:
        os.chmod(where, 0o755)
        copy = pathlib.Path(where) / "belljar"
        shutil.copyfile(source, copy)
        copy.chmod(0o755)
        yield copy


@pytest.fixture
def belljar(program, as_user):
    """The program, with an empty home that belongs to the user it runs as."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="belljar-home-", dir="/tmp"))
    delegation = Delegation() if as_user == "delegated" else None
    it = Belljar(program, home, as_user, delegation)
    if it.becomes_user:
        os.chown(home, USER_ID, USER_ID)
    yield it
    if delegation:
        delegation.close()
    shutil.rmtree(home, ignore_errors=True)


# --- a machine that stands still ---

STOLEN_TICKS = 10  # of 10 ms, on all processors: a pause that a bound on time would take for ours
TRIES = 3


def stolen_ticks():
    """For how long the machine below has had others run instead of this one."""
    with open("/proc/stat", encoding="ascii") as stat:
        return int(stat.readline().split()[8])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """A case that looks at a short time, and failed while the machine stood still, says nothing:
    it is tried again, with the same bounds."""
    if not item.get_closest_marker("alone"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for tries_left in reversed(range(TRIES)):
        before = stolen_ticks()
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        was_paused = stolen_ticks() - before >= STOLEN_TICKS
        if tries_left == 0 or not was_paused or not any(r.failed for r in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
