"""`belljar doctor` against the host it runs on: what it says must be so."""

import ctypes
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from jar import SLOWER, eventually

PROGRAM = Path(os.environ.get("BELLJAR", "build/belljar")).absolute()
STATES = {"ok", "partial", "missing", "unknown"}
SEVERITIES = {"required", "limit", "optional"}
FACETS = {
    "user", "mount", "pid", "net", "ipc", "uts", "cgroup", "timeout", "memory", "cpu", "pids",
    "workspace", "rlimits", "capabilities", "seccomp", "landlock", "uid",
}
IS_ROOT = os.geteuid() == 0
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
needs_root = pytest.mark.skipif(not IS_ROOT, reason="needs root")


@pytest.fixture(scope="module")
def program():
    """A copy that every user may execute, wherever the build directory is."""
    with tempfile.TemporaryDirectory(prefix="doctor-") as d:
        os.chmod(d, 0o755)
        copy = Path(d) / "belljar"
        shutil.copy(PROGRAM, copy)
        copy.chmod(0o755)
        yield str(copy)


USERS = [
    pytest.param([], id="self"),
    pytest.param(AS_NOBODY, id="nobody", marks=needs_root),
]


def run(program, *args, prefix=(), **kw):
    return subprocess.run([*prefix, program, "doctor", *args], capture_output=True, text=True,
                          timeout=20, cwd="/", **kw)


def checkup(program, prefix=(), **kw):
    done = run(program, "--json", prefix=prefix, **kw)
    for word in ("belljar:", "ERROR", "runtime error"):  # the last two are of sanitizers
        assert word not in done.stderr
    found = json.loads(done.stdout)
    found["exit"] = done.returncode
    found["by_name"] = {p["name"]: p for p in found["probes"]}
    return found


def works(prefix, *argv):
    return subprocess.run([*prefix, *argv], capture_output=True, timeout=20, cwd="/").returncode == 0


@pytest.mark.parametrize("prefix", USERS)
def test_json_has_its_shape(program, prefix):
    found = checkup(program, prefix)
    assert isinstance(found["version"], str) and found["version"]
    assert found["kernel"] == os.uname().release
    assert found["uid"] == (65534 if prefix else os.geteuid())
    assert isinstance(found["user"], str) and found["user"]
    assert isinstance(found["can_run"], bool)
    assert len(found["by_name"]) == len(found["probes"]) >= 35
    for p in found["probes"]:
        assert set(p) == {"name", "group", "state", "severity", "detail", "means", "fix"}
        assert p["state"] in STATES and p["severity"] in SEVERITIES
        assert p["detail"] and "\n" not in p["detail"]
        if p["state"] == "ok":
            assert p["means"] is None and p["fix"] is None
        else:
            assert p["means"] and p["fix"]
    assert set(found["not_enforced"]) <= FACETS


@pytest.mark.parametrize("prefix", USERS)
def test_the_verdict_follows_from_the_rows(program, prefix):
    found = checkup(program, prefix)
    lacking = [p["name"] for p in found["probes"]
               if p["severity"] == "required" and p["state"] in ("missing", "unknown")]
    assert found["can_run"] == (not lacking)
    assert found["exit"] == (0 if found["can_run"] else 1)
    for name in ("memory", "cpu", "pids", "uid", "landlock", "seccomp"):
        if found["by_name"][name]["state"] == "missing":
            assert name in found["not_enforced"]
        elif name != "memory":  # which swap can take away too
            assert name not in found["not_enforced"]


UNSHARE = {
    "user": "-r", "mount": "-rm", "net": "-rn", "ipc": "-ri", "uts": "-ru", "cgroup": "-rC",
    "pid": "-rpf", "time": "-rT",
}


@pytest.mark.parametrize("prefix", USERS)
@pytest.mark.parametrize("name", UNSHARE)
def test_namespaces_are_as_unshare_finds_them(program, prefix, name):
    says = checkup(program, prefix)["by_name"][name]["state"] == "ok"
    assert says == works(prefix, "unshare", UNSHARE[name], "true")


@pytest.mark.parametrize("prefix", USERS)
def test_a_fresh_proc_is_as_unshare_finds_it(program, prefix):
    says = checkup(program, prefix)["by_name"]["proc"]["state"] == "ok"
    assert says == works(prefix, "unshare", "-rmpf", "--mount-proc", "true")


@pytest.mark.parametrize("prefix", USERS)
@pytest.mark.parametrize("name", ["memory", "cpu", "pids"])
def test_a_controller_that_is_ok_lets_groups_be_made(program, prefix, name):
    row = checkup(program, prefix)["by_name"][name]
    if row["state"] != "ok":
        own = Path("/sys/fs/cgroup") / name
        assert not own.is_dir() or not works(prefix, "test", "-w", str(own))
        return
    place = re.search(r"(?:tried|switched on) in (/.*)$", row["detail"]).group(1)
    group = f"{place}/doctor-test-{os.getpid()}"
    assert works(prefix, "mkdir", group)
    assert works(prefix, "rmdir", group)


def groups_left():
    # Groups of other tests come and go meanwhile, which this does not mind.
    return [f"{top}/{name}" for top, names, _ in os.walk("/sys/fs/cgroup") for name in names
            if name.startswith("belljar-doctor-")]


@pytest.mark.parametrize("prefix", USERS)
def test_no_group_is_left_behind(program, prefix):
    checkup(program, prefix)
    assert groups_left() == []


def test_landlock_is_as_the_kernel_says(program):
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(444, None, 0, 1)
    row = checkup(program)["by_name"]["landlock"]
    if abi < 0:
        assert row["state"] == "missing"
    else:
        assert f"ABI {abi}" in row["detail"]


def test_seccomp_actions_are_as_the_kernel_says(program):
    listed = Path("/proc/sys/kernel/seccomp/actions_avail").read_text().split()
    row = checkup(program)["by_name"]["seccomp_actions"]
    for word in row["detail"].split(";")[0].split():
        assert word in listed


@pytest.mark.parametrize("name", ["python3", "node", "bash"])
def test_languages_are_those_of_usr_bin(program, name):
    path = Path("/usr/bin") / name
    row = checkup(program)["by_name"][name]
    if not path.exists():
        assert row["state"] == "missing"
        return
    done = subprocess.run([path, "--version"], capture_output=True, text=True)
    version = re.search(r"\d+(\.\d+)+", row["detail"]).group(0)
    assert row["state"] == "ok" and version in done.stdout


def test_languages_of_the_table_are_listed(program):
    row = checkup(program)["by_name"]["languages"]
    here, _, missing = row["detail"].partition("; there is no ")
    here = here.split(", ")
    for name, path in {"python": "python3", "ruby": "ruby", "perl": "perl", "lua": "lua"}.items():
        assert (name in here) == Path("/usr/bin", path).exists(), row
        assert (name in here) != (name in missing.split(", "))
    assert row["state"] == ("partial" if missing else "ok")
    assert not missing or row["fix"].startswith("sudo apt install ")


def test_what_python_lacks_for_data_has_its_package(program):
    names = ["pandas", "numpy", "matplotlib", "seaborn", "openpyxl", "reportlab"]
    lacking = [n for n in names if subprocess.run(
        ["/usr/bin/python3", "-I", "-c", f"import importlib.util as u; exit(not getattr(u.find_spec({n!r}), 'origin', None))"]
    ).returncode]
    row = checkup(program)["by_name"]["science"]
    assert row["state"] == ("partial" if lacking else "ok")
    for name in lacking:
        assert name in row["detail"] and f"python3-{name}" in row["fix"]


@pytest.mark.alone
def test_it_takes_less_than_a_second(program):
    checkup(program)
    start = time.monotonic()
    checkup(program)
    assert time.monotonic() - start < 1 * SLOWER


def children():
    mine = str(os.getpid())
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if rest.rpartition(") ")[2].split()[1] == mine:
            found.append(int(pid))
    return found


def reap_dead():
    """Orphans that were killed are ours to reap; those that live stay listed."""
    for pid in children():
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass


@pytest.mark.parametrize("prefix", USERS)
def test_no_process_is_left_behind(program, prefix):
    before = set(children())
    checkup(program, prefix)
    reap_dead()
    assert set(children()) <= before


@pytest.mark.alone
def test_programs_that_hang_are_given_up(program, tmp_path):
    before = set(children())
    for name in ("runc", "podman", "runsc", "bwrap"):
        fake = tmp_path / name
        fake.write_text("#!/bin/sh\nsleep 600 &\nwhile :; do echo still here; sleep 0.01; done\n")
        fake.chmod(0o755)
    start = time.monotonic()
    found = checkup(program, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert time.monotonic() - start < 2 * SLOWER
    for name in ("runc", "podman", "runsc", "bwrap"):
        assert found["by_name"][name]["state"] == "unknown"
    for _ in range(50):
        reap_dead()
        if set(children()) <= before:
            break
        time.sleep(0.02)
    assert set(children()) <= before


def test_a_hostile_version_can_not_forge_output(program, tmp_path):
    fake = tmp_path / "runc"
    fake.write_text("#!/bin/sh\nprintf 'runc 1.2\\033[31m\\377\\001x\\n'\n")
    fake.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    row = checkup(program, env=env)["by_name"]["runc"]
    assert row["state"] == "ok" and row["detail"].isprintable()
    assert "\033" not in run(program, env=env).stdout


def engine(path, answer):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(1)

    def serve():
        peer, _ = server.accept()
        with peer:
            peer.recv(4096)
            if answer is None:
                time.sleep(2)
            else:
                try:
                    peer.sendall(answer)
                except BrokenPipeError:
                    pass  # it has heard enough
        server.close()

    threading.Thread(target=serve, daemon=True).start()


@pytest.mark.alone
@pytest.mark.parametrize("answer, state", [
    (b'HTTP/1.0 200 OK\r\n\r\n{"Version": "77.7.7"}', "ok"),
    (b"HTTP/1.0 500 No\r\n\r\n{}", "unknown"),
    (b"hello", "unknown"),
    (b'HTTP/1.0 200 OK\r\n\r\n{"Version":' + b"[" * 200000, "unknown"),
    (None, "unknown"),
], ids=["good", "refuses", "babbles", "floods", "silent"])
def test_an_engine_is_asked_and_not_waited_for(program, tmp_path, answer, state):
    path = tmp_path / "docker.sock"
    engine(path, answer)
    start = time.monotonic()
    row = checkup(program, env={**os.environ, "DOCKER_HOST": f"unix://{path}"})["by_name"]["docker"]
    assert time.monotonic() - start < 1.5 * SLOWER
    assert row["state"] == state
    assert ("77.7.7" in row["detail"]) == (state == "ok")


def test_the_table_fits_and_is_plain_when_piped(program):
    done = run(program)
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    assert done.stdout.isascii() and "\033" not in done.stdout
    assert re.search(r"^Boxes can", done.stdout, re.M)


def on_terminal(program, **env):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(env)
        os.execv(program, [program, "doctor"])
    text = b""
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        text += data
    os.waitpid(pid, 0)
    os.close(fd)
    return text


def test_colours_are_for_terminals_that_want_them(program):
    assert b"\033[32mok" in on_terminal(program, NO_COLOR="", TERM="xterm")
    assert b"\033" not in on_terminal(program, NO_COLOR="1", TERM="xterm")
    assert b"\033" not in on_terminal(program, NO_COLOR="", TERM="dumb")


def test_gaps_alone(program):
    found = checkup(program)
    gaps = json.loads(run(program, "--json", "--gaps").stdout)["probes"]
    assert [g["name"] for g in gaps] == [p["name"] for p in found["probes"] if p["state"] != "ok"]


@pytest.mark.parametrize("args, word", [(["--jsno"], "--json"), (["extra"], "extra")])
def test_bad_arguments_are_named(program, args, word):
    done = run(program, *args)
    assert done.returncode == 125 and word in done.stderr and done.stdout == ""


def test_a_closed_output_is_an_error(program):
    with open("/dev/full", "w") as full:
        done = subprocess.run([program, "doctor"], stdout=full, stderr=subprocess.PIPE, timeout=20)
    assert done.returncode == 125 and b"standard output" in done.stderr


def inside(script):
    """Run a command as root of new namespaces, after `script`."""
    return ["unshare", "-rm", "sh", "-ec", f"{script}; exec \"$@\"", "sh"]


needs_userns = pytest.mark.skipif(not works([], "unshare", "-rm", "true"),
                                  reason="no user namespaces here")


@needs_userns
def test_no_user_namespaces_means_no_boxes(program):
    found = checkup(program, inside("echo 0 > /proc/sys/user/max_user_namespaces"))
    assert found["exit"] == 1 and not found["can_run"]
    assert found["by_name"]["user"]["state"] == "missing"
    assert found["by_name"]["max_user_namespaces"]["state"] == "missing"
    assert "sysctl" in found["by_name"]["max_user_namespaces"]["fix"]
    assert "user" in found["not_enforced"]


@needs_userns
@pytest.mark.parametrize("hidden, unknown", [
    (["/proc"], {"user", "box", "cgroups", "memory", "cpu", "pids", "core_pattern"}),
    (["/proc/sys"], {"core_pattern", "ptrace_scope"}),
    (["/sys"], set()),
    (["/etc"], set()),
    (["/proc", "/sys", "/etc", "/tmp", "/run"], {"user", "memory"}),
])
def test_what_is_hidden_is_unknown_and_crashes_nothing(program, hidden, unknown):
    copy = f"/dev/shm/belljar-{os.getpid()}"
    shutil.copy(program, copy)
    try:
        found = checkup(copy, inside("; ".join(f"mount -t tmpfs none {d}" for d in hidden)))
    finally:
        os.unlink(copy)
    for name in unknown:
        assert found["by_name"][name]["state"] == "unknown", name
    if "/proc" in hidden:
        assert found["exit"] == 1 and not found["can_run"]


@needs_root
def test_in_a_chroot_it_works_and_says_no(program, tmp_path):
    tmp_path.chmod(0o755)
    libraries = re.findall(r"(/\S+) \(0x", subprocess.check_output(["ldd", program], text=True))
    for lib in libraries:
        target = tmp_path / lib.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(lib, target)
    shutil.copy(program, tmp_path / "belljar")
    found = checkup("/belljar", ["chroot", str(tmp_path)])
    # the kernel refuses user namespaces to a process in a chroot
    assert found["exit"] == 1
    assert found["by_name"]["user"]["state"] == "missing"
    assert found["by_name"]["python3"]["state"] == "missing"
    assert found["by_name"]["cgroups"]["state"] == "unknown"


# --- remedies ---
#
# Applied here is what changes nothing but a namespace or a process of the test's own. The others
# change the machine for all (sysctl outside of a namespace, kernel options, AppArmor profiles,
# group membership, swap) or install packages.


def keeper_advice(row):
    """The two lines of "run root's keeper", without what else would help."""
    first, second = row["fix"].split("\n")[:2]
    assert first.startswith("sudo belljar keeper ") and second.startswith("export BELLJAR_ROOT=")
    return first, second


@needs_root
@pytest.mark.parametrize("name", ["uid", "memory", "cpu", "pids"])
def test_a_keeper_of_roots_is_the_remedy_that_it_is_said_to_be(program, name):
    before = checkup(program, AS_NOBODY)
    row = before["by_name"][name]
    if row["state"] == "ok" or "belljar keeper" not in row["fix"]:
        assert name not in before["not_enforced"]
        return
    start, use = keeper_advice(row)
    # The user's shell expands what sudo gets.
    line = subprocess.run([*AS_NOBODY, "sh", "-c", f"echo {start.rstrip(' &')}"], text=True,
                          capture_output=True, check=True, cwd="/").stdout.split()
    root = line[line.index("--root") + 1]
    keeper = subprocess.Popen([program, *line[2:]], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: os.path.exists(f"{root}/keeper.sock"), 10 * SLOWER)
        with_root = [*AS_NOBODY, "sh", "-c", f'{use} && exec "$@"', "sh"]
        after = checkup(program, with_root)
        assert after["by_name"][name]["state"] == "ok"
        assert name not in after["not_enforced"]
        told = subprocess.run([*with_root, program, "run", "--", "true"], capture_output=True,
                              text=True, cwd="/", timeout=60 * SLOWER)
        assert (told.returncode, name in told.stderr) == (0, False), told.stderr
    finally:
        keeper.terminate()
        keeper.wait(20 * SLOWER)
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.parametrize("prefix", USERS)
def test_a_run_says_the_same_as_doctor(program, prefix, tmp_path_factory):
    root = tempfile.mkdtemp(prefix="doctor-root-", dir="/tmp")
    os.chmod(root, 0o777)
    env = {**os.environ, "BELLJAR_ROOT": f"{root}/state"}
    try:
        says = checkup(program, prefix, env=env)["not_enforced"]
        done = subprocess.run([*prefix, program, "run", "--", "true"], capture_output=True,
                              text=True, cwd="/", env=env, timeout=60 * SLOWER)
        assert done.returncode == 0, done.stderr
        found = re.search(r"not enforced on this host: (.*) \(belljar doctor", done.stderr)
        assert sorted(says) == sorted(found[1].split(", ") if found else [])
    finally:
        shutil.rmtree(root, ignore_errors=True)


@needs_userns
def test_the_remedy_for_no_user_namespaces_helps(program):
    """In a namespace of its own, where the limit is nobody else's."""
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces"
    fix = checkup(program, inside(forbid))["by_name"]["max_user_namespaces"]["fix"]
    assert fix.startswith("sudo sysctl -w ")
    name, value = fix.split()[-1].split("=")
    apply = f"echo {value} > /proc/sys/{name.replace('.', '/')}"
    found = checkup(program, inside(f"{forbid}; {apply}"))
    assert found["by_name"]["max_user_namespaces"]["state"] == "ok"
