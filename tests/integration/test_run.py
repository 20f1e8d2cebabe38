"""`belljar run` as a person uses it: what goes in, what comes out, how it ends."""
import base64
import datetime
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest

from jar import SLEEPER, SLOWER

FACETS = {
    "user", "mount", "pid", "net", "ipc", "uts", "cgroup", "timeout", "memory", "cpu", "pids",
    "workspace", "rlimits", "capabilities", "seccomp", "landlock", "uid",
}
SOON = 2.0 * SLOWER  # seconds within which something is to be over that waits for nothing
DEFAULT_LIMITS = {
    "timeout_sec": 60, "startup_timeout_sec": 20, "memory_mb": 1024, "pids": 256, "nofile": 1024,
    "cpu": 1, "workspace_mb": 256, "tmp_mb": 64, "artifact_mb": 32,
}

once = pytest.mark.once


def needs(program):
    return pytest.mark.skipif(not os.path.exists(program), reason=f"{program} is not installed")


# What AddressSanitizer says about a vfork, in builds that have it.
NOISE = re.compile(r"==\d+==WARNING: ASan is ignoring|False positive error|For details see http")


def said(done):
    """The one line that belljar itself wrote, without its name."""
    lines = [line for line in done.stderr.splitlines() if not NOISE.match(line)]
    assert len(lines) == 1 and lines[0].startswith("belljar: "), done.stderr
    return lines[0].removeprefix("belljar: ")


def result_of(jar, *argv, **options):
    done = jar.run("--json", *argv, **options)
    result = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    return done, result


class Timer:
    def __enter__(self):
        self.start = time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.start


# --- how it ends


def test_hello(jar):
    done = jar.run("--", "echo", "hi")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")


@once
@pytest.mark.parametrize("status", [0, 1, 42, 124, 137, 255])
def test_the_status_of_the_guest_is_ours(jar, status):
    done = jar.sh(f"echo out; echo err >&2; exit {status}")
    assert (done.returncode, done.stdout, done.stderr) == (status, "out\n", "err\n")


def test_124_it_ran_into_its_timeout(jar):
    with Timer() as took:
        done = jar.sh("echo before; sleep 60", "--timeout", "300ms")
    assert (done.returncode, done.stdout) == (124, "before\n")
    assert said(done) == "timed out: running took longer than 0.300 s"
    assert 0.3 <= took.seconds < SOON


@once
@pytest.mark.parametrize("argv, words", [
    ([], "no command"),
    (["--"], "no command"),
    (["--", ""], "no command"),
    (["--lang"], "option --lang needs a value"),
    (["--json=1", "--", "true"], "option --json takes no value"),
    (["--timeout", "soon", "--", "true"], "option --timeout: 'soon' is not a time such as 20s"),
    (["--timeout", "0", "--", "true"], "option --timeout: "),
    (["--timeout", "999999h", "--", "true"], "timeout"),
    (["--memory", "64X", "--", "true"], "option --memory: '64X' is not a size such as 256M"),
    (["--memory", "-1", "--", "true"], "option --memory: '-1' is not a size"),
    (["--memory", "0", "--", "true"], "option --memory: "),
    (["--memory", "1K", "--", "true"], "memory"),
    (["--memory", "999999999T", "--", "true"], "option --memory: '999999999T' is out of range"),
    (["--cpu", "much", "--", "true"], "option --cpu: 'much' is not a number such as 1.5"),
    (["--cpu", "0", "--", "true"], "option --cpu: "),
    (["--pids", "1.5", "--", "true"], "option --pids: '1.5' is not a whole number"),
    (["--pids", "0", "--", "true"], "option --pids: "),
    (["--pids", "1", "--", "true"], "pids"),
    (["--workspace-cap", "0", "--", "true"], "option --workspace-cap: "),
    (["--workspace-cap", "1", "--", "true"], "workspace"),
    (["--env", "NAME", "--", "true"], "--env wants NAME=VALUE"),
    (["--env", "=value", "--", "true"], "--env wants NAME=VALUE"),
    (["--cwd", "relative", "--", "true"], "working directory 'relative' is not absolute"),
    (["--capture", "*", "--", "true"], "--capture needs --out DIR"),
    (["--out", "out", "--capture", "", "--", "true"], "capture pattern 1 is empty"),
    (["--require", "memory,speed", "--", "true"], "'speed' is not a limit"),
    (["--require", "memroy", "--", "true"], "did you mean 'memory'?"),
    (["--tiemout", "1s", "--", "true"], "unknown option --tiemout, did you mean --timeout?"),
    (["--frobnicate", "--", "true"], "unknown option --frobnicate, see belljar run --help"),
    (["-z", "--", "true"], "unknown option -z"),
    (["--image", "hots", "--", "true"], "did you mean 'host'?"),
    (["--image", "nothing-like-it", "--", "true"], "no image 'nothing-like-it'"),
    (["--image", "../../etc", "--", "true"], "../../etc"),
    (["--lang", "pyhton", "x"], "unknown language 'pyhton', did you mean 'python'?"),
    (["--lang", "cobol", "x"], "known are python, javascript, shell, "),
    (["--lang", "python", "/nonexistent.py"], "open /nonexistent.py: No such file or directory"),
    (["--lang", "python", "/"], "/"),
    (["--copy-in", "/nonexistent", "--", "true"], "/nonexistent: No such file or directory"),
    (["--copy-in", ".", "--", "true"], "say what to call it"),
    (["--copy-in", "/etc/hostname:../x", "--", "true"], "'../x' is not a name"),
    (["--copy-in", "/etc/hostname:/etc/x", "--", "true"], "'/etc/x' is not a name"),
    (["--copy-in", "/dev/null", "--", "true"], "/dev/null is neither a file nor a directory"),
    (["--root", "", "--", "true"], "--root: '' is not an absolute path"),
], ids=lambda v: " ".join(v) or "nothing" if isinstance(v, list) else "")
def test_125_belljar_could_not(jar, argv, words):
    done = jar.run(*argv)
    assert (done.returncode, done.stdout) == (125, "")
    assert words in said(done)


@once
def test_126_it_can_not_be_executed(jar):
    script = jar.file("script", "#!/bin/sh\necho ran\n", 0o755)
    noexec = ("files in /workspace and /tmp cannot be executed (noexec): use `sh s.sh`, or "
              "workspace_exec")
    for argv, why in ((["--", "/etc/hostname"], "Permission denied"),
                      (["--", "/usr"], "Permission denied"),
                      (["--no-exec", "--copy-in", script, "--", "/workspace/script"], noexec)):
        done = jar.run(*argv)
        assert (done.returncode, done.stdout) == (126, "")
        assert said(done) == f"could not start: cannot execute '{argv[-1]}': {why}"


@once
def test_127_it_was_not_found(jar):
    for name in ("no-such-program", "/no/such/program", "./no-such-program"):
        done = jar.run("--", name)
        assert (done.returncode, done.stdout) == (127, "")
        assert said(done) == f"could not start: cannot execute '{name}': No such file or directory"


@once
@pytest.mark.parametrize("sig", [signal.SIGSEGV, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_128_and_the_signal(jar, sig):
    done = jar.sh(f"echo out; kill -{sig} $$")
    assert (done.returncode, done.stdout) == (128 + sig, "out\n")
    assert said(done) == f"killed: ended by signal {int(sig)} ({signal.strsignal(sig)})"


@pytest.mark.delegated
def test_137_it_ran_out_of_memory(jar):
    if "memory" in result_of(jar, "--", "true")[1]["not_enforced"]:
        pytest.skip("memory is not enforced for this user on this host")
    hog = "import time; print('before', flush=True); x = bytearray(512 << 20); time.sleep(60)"
    done = jar.run("--memory", "64M", "--", "/usr/bin/python3", "-c", hog)
    assert (done.returncode, done.stdout) == (137, "before\n")
    assert said(done) == f"out of memory: used more than {64 << 20} bytes of memory"
    _, result = result_of(jar, "--memory", "64M", "--", "/usr/bin/python3", "-c", hog)
    assert (result["phase"], result["reason_code"]) == ("failed", "oom_killed")
    assert result["exit_code"] is None
    assert 32 < result["resource_usage"]["peak_rss_mb"] <= 64
    assert result["resource_usage"]["limits"]["memory_mb"] == 64


# --- --json


def test_json_says_everything(jar):
    before = time.time()
    done, result = result_of(jar, "--", "/bin/sh", "-c", "echo out; echo err >&2; exit 3")
    after = time.time()
    assert (done.returncode, done.stderr) == (3, "")
    usage = result.pop("resource_usage")
    times = [datetime.datetime.fromisoformat(result.pop(k).replace("Z", "+00:00")).timestamp()
             for k in ("created_at", "started_at", "finished_at")]
    assert times == sorted(times) and before - 0.002 <= times[0] and times[2] <= after
    enforced, lacking = set(result.pop("enforced")), set(result.pop("not_enforced"))
    assert enforced | lacking == FACETS and not enforced & lacking
    assert {"user", "mount", "pid", "net", "seccomp", "timeout"} <= enforced
    assert result == {
        "phase": "failed", "reason_code": "nonzero_exit", "message": "exited with status 3",
        "exit_code": 3, "signal": None, "image": "host", "captured_files": 0, "skipped_files": 0,
        "capture_incomplete": False, "started": "cold", "workspace_exec": True,
        "skipped_file": None, "unmatched_capture": None, "unreadable_files": 0,
        "unreadable_file": None, "stdout": "out\n", "stdout_encoding": "utf8", "stdout_truncated": False,
        "stderr": "err\n", "stderr_encoding": "utf8", "stderr_truncated": False,
    }
    assert set(usage) == {"cpu_time_sec", "wall_time_sec", "peak_rss_mb", "pids",
                          "max_open_files", "log_bytes", "artifact_bytes", "limits"}
    assert 0 < usage["cpu_time_sec"] < 1 and 0 < usage["wall_time_sec"] < 2
    assert 0 < usage["peak_rss_mb"] < 64
    assert usage["log_bytes"] == len("out\nerr\n") and usage["artifact_bytes"] == 0
    assert usage["limits"] == DEFAULT_LIMITS


@once
def test_json_of_a_success(jar):
    done, result = result_of(jar, "--", "true")
    assert done.returncode == 0
    assert (result["phase"], result["reason_code"]) == ("completed", "exit_code_0")
    assert (result["exit_code"], result["signal"]) == (0, None)


@once
@pytest.mark.parametrize("argv, status, phase, reason", [
    (["--", "sh", "-c", "kill -9 $$"], 137, "failed", "signaled"),
    (["-t", "200ms", "--", "sleep", "60"], 124, "timed_out", "execution_timeout"),
    (["--", "no-such-program"], 127, "failed", "exec_failed"),
    (["--image", "no-such-image", "--", "true"], 125, "failed", "image_pull_failed"),
    (["--copy-in", "/nonexistent", "--", "true"], 125, "failed", "infrastructure_error"),
])
def test_json_of_other_ends(jar, argv, status, phase, reason):
    done, result = result_of(jar, *argv)
    assert (done.returncode, result["phase"], result["reason_code"]) == (status, phase, reason)
    assert result["exit_code"] is None
    assert result["signal"] == (9 if reason in ("signaled", "execution_timeout") else None)
    assert result["message"]
    if reason == "infrastructure_error":
        assert result["message"] in said(done)
    else:
        assert done.stderr == ""


@once
def test_json_shows_the_limits_that_were_asked_for(jar):
    _, result = result_of(
        jar, "-t", "1.5m", "-m", "100M", "-c", "0.5", "--pids", "20", "--workspace-cap", "8M",
        "--capture-cap", "1M", "--", "true")
    assert result["resource_usage"]["limits"] == {
        **DEFAULT_LIMITS, "timeout_sec": 90, "memory_mb": 100, "cpu": 0.5, "pids": 20,
        "workspace_mb": 8, "artifact_mb": 1}


@once
def test_json_holds_output_that_is_no_text(jar):
    _, result = result_of(jar, "--", "sh", "-c", r"printf '\377\000\001'; printf 'a\000b' >&2")
    assert result["stdout_encoding"] == "base64"
    assert base64.b64decode(result["stdout"]) == b"\xff\0\1"
    assert (result["stderr_encoding"], result["stderr"]) == ("utf8", "a\0b")


@once
@pytest.mark.heavy
def test_json_holds_output_up_to_its_cap(jar):
    size = 20 << 20
    done, result = result_of(jar, "--", "sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x")
    assert done.returncode == 0
    assert result["stdout"] == "x" * (16 << 20) and result["stdout_truncated"]
    assert result["resource_usage"]["log_bytes"] == size
    assert not result["stderr_truncated"]


@once
def test_json_counts_what_was_used(jar):
    code = ("import os, time\nfs = [open('/dev/null') for _ in range(100)]\n"
            "def burn():\n"
            "    end = time.process_time() + 0.2\n"
            "    while time.process_time() < end: pass\n"
            "for _ in range(3):\n"
            "    if os.fork() == 0: burn(); os._exit(0)\n"
            "x = bytearray(50 << 20)\nburn()\nfor _ in range(3): os.wait()\n")
    _, result = result_of(jar, "--cpu", "2", "--", "/usr/bin/python3", "-c", code)
    usage = result["resource_usage"]
    assert usage["cpu_time_sec"] >= 0.75
    assert usage["pids"] >= 4
    assert usage["max_open_files"] >= 100
    assert usage["peak_rss_mb"] >= 50
    assert usage["wall_time_sec"] >= 0.2


# --- streams


def test_output_streams_while_it_runs(jar):
    p = jar.start_run("--", "sh", "-c", "echo one; read x; echo two $x; echo three >&2; read x")
    assert p.stdout.readline() == "one\n"
    p.stdin.write("and\n")
    p.stdin.flush()
    assert p.stdout.readline() == "two and\n"
    assert p.stderr.readline() == "three\n"
    assert p.poll() is None
    p.stdin.close()
    assert p.wait(SOON) == 1  # what `read` says at the end of input


def test_python_output_streams_too(jar):
    source = jar.file("ticks.py", "print('tick')\ninput()\n")
    p = jar.start_run("--lang", "python", source)
    assert p.stdout.readline() == "tick\n"
    assert p.poll() is None
    p.stdin.write("\n")
    p.stdin.close()
    assert p.wait(SOON) == 0


@once
@pytest.mark.heavy
def test_fifty_megabytes_of_any_bytes_come_back_the_same(jar):
    data = os.urandom(1 << 20) * 50
    done = jar.run("--memory", "64M", "--", "cat", input=data, text=False)
    assert done.returncode == 0 and done.stderr == b""
    assert len(done.stdout) == len(data)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


@once
def test_stdout_and_stderr_stay_apart_and_whole(jar):
    code = "import os\nfor i in range(20000):\n os.write(1 + i % 2, b'%d\\n' % i)\n"
    done = jar.run("--", "/usr/bin/python3", "-c", code)
    assert done.stdout.split() == [str(i) for i in range(0, 20000, 2)]
    assert done.stderr.split() == [str(i) for i in range(1, 20000, 2)]


@once
def test_a_guest_that_does_not_read_its_input(jar):
    data = b"x" * (50 << 20)
    with Timer() as took:
        done = jar.run("--", "true", input=data, text=False)
        assert (done.returncode, done.stderr) == (0, b"")
        done = jar.sh("exec 0<&-; sleep 0.2; echo late", input=data, text=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"late\n", b"")
        done = jar.run("--", "head", "-c", "3", input=data, text=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"xxx", b"")
    assert took.seconds < 2 * SOON


@once
def test_input_that_never_ends_delays_nothing(jar):
    p = jar.start_run("--", "echo", "done")
    with Timer() as took:
        assert p.stdout.read() == "done\n"
        assert p.wait(SOON) == 0
    assert took.seconds < SOON


@once
def test_a_reader_that_leaves_ends_it(jar):
    with Timer() as took:
        done = jar.command("bash", "-c", '"$@" | head -n 1; echo ${PIPESTATUS[0]}', "sh",
                           jar.path, *jar.arguments("--", "yes"))
    assert done.stdout == f"y\n{128 + signal.SIGPIPE}\n"
    assert said(done) == "stopped: nobody reads its output"
    assert took.seconds < SOON


@once
def test_a_reader_that_leaves_ends_also_who_would_not(jar):
    script = "trap '' TERM PIPE; while :; do echo x; done"
    with Timer() as took:
        done = jar.command("bash", "-c", '"$@" | head -n 1; echo ${PIPESTATUS[0]}', "sh",
                           jar.path, *jar.arguments("--grace", "200ms", "--", "sh", "-c", script))
    assert done.stdout == f"x\n{128 + signal.SIGPIPE}\n"
    assert took.seconds < SOON


@once
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_can_not_be_written_is_not_a_success(jar, options):
    with open("/dev/full", "w") as full:
        done = jar.run(*options, "--", "echo", "lost", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode != 0
    assert "No space left on device" in said(done)


@once
def test_a_reader_that_does_not_block_gets_everything(jar):
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    size = 4 << 20
    p = jar.start_run("--", "head", "-c", str(size), "/dev/zero", stdout=theirs)
    theirs.close()
    time.sleep(0.3)  # until its side is full
    got = 0
    while data := ours.recv(1 << 20):
        got += len(data)
    assert (got, p.wait(SOON), p.stderr.read()) == (size, 0, "")
    ours.close()


@once
@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_missing_standard_descriptor(jar, closed):
    """Whatever is opened next must not become the guest's input or output."""
    script = jar.arguments("--", "sh", "-c", "cat; echo out; echo err >&2")
    done = jar.command("bash", "-c", f'exec "$@" {closed}>&-', "sh", jar.path, *script)
    assert done.returncode == 0
    assert done.stdout == ("" if closed == 1 else "out\n")
    assert done.stderr == ("" if closed == 2 else "err\n")


@once
def test_a_parent_that_ignores_its_children(jar):
    """The disposition of SIGCHLD is inherited, and would hide how a guest ended."""
    for ignored in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        with Timer() as took:
            done = jar.sh("exit 7", preexec_fn=lambda: signal.signal(ignored, signal.SIG_IGN))
        assert done.returncode == 7
        assert took.seconds < SOON


# --- signals


def await_line(process, line="ready\n"):
    assert process.stdout.readline() == line


def test_the_guest_gets_the_first_interrupt(jar):
    p = jar.start_run("--", "bash", "-c",
                      "trap 'echo caught; exit 7' INT; echo ready; sleep 60 & wait")
    await_line(p)
    p.send_signal(signal.SIGINT)
    assert p.stdout.read() == "caught\n"
    assert (p.wait(SOON), p.stderr.read()) == (7, "")


@once
def test_an_interrupt_ends_who_does_not_mind(jar):
    p = jar.start_run("--", *SLEEPER)
    await_line(p)
    p.send_signal(signal.SIGINT)
    assert p.wait(SOON) == 128 + signal.SIGINT
    assert p.stderr.read() == "belljar: killed: ended by signal 2 (Interrupt)\n"


@once
def test_the_second_interrupt_means_us(jar):
    p = jar.start_run("--grace", "200ms", "--", "sh", "-c",
                      "trap '' INT TERM; echo ready; while :; do sleep 0.02; done")
    await_line(p)
    p.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert p.poll() is None
    with Timer() as took:
        p.send_signal(signal.SIGINT)
        assert p.wait(SOON) == 128 + signal.SIGINT
    assert 0.2 <= took.seconds < SOON
    assert p.stderr.read().startswith("belljar: stopped: ")


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP])
def test_to_be_ended_the_guest_gets_a_term_first(jar, sig):
    p = jar.start_run("--", "bash", "-c",
                      "trap 'echo tidying; exit 5' TERM; echo ready; sleep 60 & wait")
    await_line(p)
    p.send_signal(sig)
    assert p.stdout.read() == "tidying\n"
    assert p.wait(SOON) == 128 + sig
    assert p.stderr.read() == "belljar: stopped: canceled\n"


@pytest.mark.alone
@pytest.mark.parametrize("grace, least", [("400ms", 0.4), ("0", 0)])
def test_and_then_a_kill(jar, grace, least):
    p = jar.start_run("--grace", grace, "--", "sh", "-c",
                      "trap '' TERM; echo ready; while :; do sleep 0.02; done")
    await_line(p)
    with Timer() as took:
        p.send_signal(signal.SIGTERM)
        assert p.wait(SOON) == 128 + signal.SIGTERM
    assert least <= took.seconds < least + 0.3 * SLOWER
    assert p.stderr.read() == "belljar: stopped: canceled\n"


@once
def test_a_stopped_guest_hears_that_it_is_to_end(jar):
    p = jar.start_run("--", "sh", "-c", "echo ready; kill -STOP $$; sleep 60")
    await_line(p)
    time.sleep(0.1)
    with Timer() as took:
        p.send_signal(signal.SIGTERM)
        assert p.wait(SOON) == 128 + signal.SIGTERM
    assert took.seconds < SOON


@once
def test_other_signals_go_to_the_guest(jar):
    p = jar.start_run("--", "bash", "-c",
                      "trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'echo quit; exit 3' QUIT;"
                      "echo ready; while :; do sleep 0.02; done")
    await_line(p)
    for sig, line in ((signal.SIGUSR1, "usr1\n"), (signal.SIGUSR2, "usr2\n"),
                      (signal.SIGUSR1, "usr1\n"), (signal.SIGQUIT, "quit\n")):
        p.send_signal(sig)
        assert p.stdout.readline() == line
    assert p.wait(SOON) == 3


@once
def test_an_interrupt_before_anything_has_started(jar):
    """At whatever moment it comes: it ends soon, and says 130 or died of it."""
    for delay in (0, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03):
        p = jar.start_run("--grace", "100ms", "--", "sleep", "60")
        time.sleep(delay)
        p.send_signal(signal.SIGINT)
        assert p.wait(SOON) in (-signal.SIGINT, 128 + signal.SIGINT)


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_the_client(jar, sig):
    p = jar.start_run("--grace", "100ms", "--", "sh", "-c",
                      "trap '' TERM HUP; sleep 600 & setsid sleep 600 & echo ready; sleep 600")
    await_line(p)
    assert len(jar.processes()) >= 5
    p.send_signal(sig)
    p.wait(SOON)
    jar.assert_nothing_left()


# --- guests that would rather stay

STAYING = {
    "a child holds stdout": "sleep 600 & echo said",
    "a child writes on": "(while :; do echo x >&2; sleep 0.01; done) & echo said",
    "a child ignores everything": "(trap '' HUP INT TERM PIPE; sleep 600) & sleep 0.05; echo said",
    "a daemon": "setsid sh -c 'setsid sleep 600 >/dev/null 2>&1 </dev/null &' ; echo said",
    "a stopped child": "sh -c 'kill -STOP $$; sleep 600' & sleep 0.05; echo said",
    "many children": "for i in $(seq 60); do sleep 600 & done; echo said",
    "a child that forks on": "(while :; do (sleep 0.001 &) ; done) 2>/dev/null & sleep 0.05; "
                             "echo said",
}


@pytest.mark.alone
@pytest.mark.parametrize("name", STAYING)
def test_the_end_of_the_guest_is_the_end(jar, name):
    with Timer() as took:
        done = jar.sh(STAYING[name])
    assert (done.returncode, done.stdout) == (0, "said\n")
    assert took.seconds < SOON
    assert jar.processes() == {}  # at once, and not only soon


def test_a_double_fork_does_not_escape(jar):
    code = ("import os, signal, time\n"
            "if os.fork() == 0:\n"
            "    os.setsid()\n"
            "    if os.fork() == 0:\n"
            "        for s in range(1, 32):\n"
            "            if s not in (9, 19): signal.signal(s, signal.SIG_IGN)\n"
            "        time.sleep(600)\n"
            "    os._exit(0)\n"
            "os.wait()\n"
            "print('gone')\n")
    with Timer() as took:
        done = jar.run("--", "/usr/bin/python3", "-c", code)
    assert (done.returncode, done.stdout) == (0, "gone\n")
    assert took.seconds < SOON
    assert jar.processes() == {}


@pytest.mark.alone
@pytest.mark.parametrize("script", [
    "trap '' TERM HUP INT; while :; do sleep 0.02; done",
    "kill -STOP $$",
    "sleep 600 & setsid sleep 600 & wait",
    "while :; do (sleep 600 &) ; done 2>/dev/null",
])
def test_a_timeout_spares_nobody(jar, script):
    with Timer() as took:
        done = jar.sh(script, "--timeout", "300ms", "--pids", "40")
    assert done.returncode == 124
    assert said(done) == "timed out: running took longer than 0.300 s"
    assert took.seconds < SOON
    assert jar.processes() == {}


# --- languages


@pytest.mark.parametrize("lang, source, output", [
    ("python", "import sys\nprint(6 * 7, sys.argv[1:])\n", "42 ['a', 'b c']\n"),
    ("python3", "import sys\nprint(6 * 7, sys.argv[1:])\n", "42 ['a', 'b c']\n"),
    pytest.param("javascript", "console.log(6 * 7, process.argv.slice(2).join('|'))\n",
                 "42 a|b c\n", marks=needs("/usr/bin/node")),
    pytest.param("js", "console.log(6 * 7, process.argv.slice(2).join('|'))\n", "42 a|b c\n",
                 marks=needs("/usr/bin/node")),
    ("shell", 'echo $((6 * 7)) "$1|$2"\n', "42 a|b c\n"),
    ("bash", 'echo $((6 * 7)) "$1|$2"\n', "42 a|b c\n"),
])
@once
def test_source_in_a_language(jar, lang, source, output):
    path = jar.file("program", source)
    done = jar.run("--lang", lang, path, "a", "b c")
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")
    done = jar.run("--lang", lang, "-", "a", "b c", input=source)
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


@once
def test_source_from_stdin_alone(jar):
    done = jar.run("--lang", "python", input="import sys\nprint(sys.stdin.read(), 1)\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, " 1\n", "")


@once
def test_source_from_a_file_leaves_stdin_to_the_program(jar):
    path = jar.file("echo.py", "import sys\nprint(sys.stdin.read().upper())\n")
    done = jar.run("--lang", "python", path, input="hello")
    assert (done.returncode, done.stdout) == (0, "HELLO\n")


@once
def test_a_traceback_names_the_line(jar):
    path = jar.file("bad.py", "def f():\n    return 1 / 0\n\nf()\n")
    done = jar.run("--lang", "python", path)
    assert done.returncode == 1
    assert 'File "/workspace/main.py", line 2, in f' in done.stderr
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


@once
@needs("/usr/bin/node")
def test_a_stack_names_the_line(jar):
    done = jar.run("--lang", "js", input="\nthrow new Error('no')\n")
    assert done.returncode == 1
    assert "/workspace/main.js:2" in done.stderr and "Error: no" in done.stderr


@once
def test_a_source_that_is_too_large_is_refused(jar):
    path = jar.file("large.py", b"#" * ((16 << 20) + 1))
    done = jar.run("--lang", "python", path)
    assert done.returncode == 125
    assert said(done) == "the source is larger than 16 MiB"


# --- the guest's surroundings


@once
def test_the_environment_is_ours_and_the_options(jar):
    done = jar.run("-e", "A=1", "--env", "B=two words", "--env=C=x=y", "-e", "LANG=C", "-e", "D=",
                   "--", "env", env={"SECRET": "of the host"})
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines())
    seen.pop("BELLJAR_MARK")
    assert seen == {
        "A": "1", "B": "two words", "C": "x=y", "D": "", "LANG": "C", "USER": "box",
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": "/workspace", "LOGNAME": "box", "SHELL": "/bin/sh", "TMPDIR": "/tmp",
    }


@once
def test_the_working_directory(jar):
    assert jar.run("--", "pwd").stdout == "/workspace\n"
    assert jar.run("--cwd", "/tmp", "--", "pwd").stdout == "/tmp\n"
    done = jar.run("--cwd", "/nonexistent", "--", "pwd")
    assert done.returncode == 125
    assert said(done) == ("could not make the box: enter the working directory '/nonexistent': "
                          "No such file or directory")


@once
def test_arguments_arrive_as_they_are(jar):
    words = ["", " ", "a b", "*", "$HOME", "-n", "--", "ü", "\n", "x" * 50000]
    done = jar.run("--", "/usr/bin/python3", "-c", "import sys, json; print(json.dumps(sys.argv))",
                   *words)
    assert json.loads(done.stdout)[1:] == words


@once
def test_a_command_that_is_too_large_is_refused(jar):
    done = jar.run("--", "true", *("x" * 60000 for _ in range(4)))
    assert done.returncode == 125
    assert said(done) == "command and environment together pass 192 KiB"
    done = jar.run("--", "true", *("x" for _ in range(5000)))
    assert done.returncode == 125
    assert "arguments" in said(done)


@once
def test_only_the_standard_descriptors_are_open(jar):
    secret = jar.file("secret", "x")
    with open(secret) as f:
        done = jar.run("--", "ls", "/proc/self/fd", pass_fds=[f.fileno()])
    assert done.stdout.split() == ["0", "1", "2", "3"]  # the last is the directory itself


# --- files in


def listing(jar, *options, cwd="/workspace"):
    """{name: kind and mode, or target} of what the guest finds."""
    code = ("import os, stat\n"
            "for d, dirs, files in os.walk('.'):\n"
            "    for n in sorted(dirs + files):\n"
            "        p = os.path.join(d, n); s = os.lstat(p)\n"
            "        l = os.readlink(p) if stat.S_ISLNK(s.st_mode) else stat.filemode(s.st_mode)\n"
            "        print(p[2:], l, s.st_uid, sep='\\t')\n")
    done = jar.run(*options, "--cwd", cwd, "--", "/usr/bin/python3", "-c", code)
    assert done.returncode == 0, done.stderr
    return {line.split("\t")[0]: line.split("\t")[1:] for line in done.stdout.splitlines()}


def test_files_and_directories_are_copied_in(jar):
    jar.file("in/a.txt", "A", 0o640)
    jar.file("in/deep/er/run.sh", "B", 0o755)
    jar.file("in/.hidden", "C", 0o400)
    (jar.home / "in/empty").mkdir()
    os.symlink("a.txt", jar.home / "in/link")
    os.symlink("/etc/shadow", jar.home / "in/outside")
    os.symlink("nowhere", jar.home / "in/broken")
    os.mkfifo(jar.home / "in/fifo")
    one = jar.file("one", b"\0\xff", 0o600)
    seen = listing(jar, "--copy-in", jar.home / "in", "--copy-in", one,
                   "--copy-in", f"{one}:named/two", "--copy-in", f"{jar.home}/in/deep/:d",
                   "--copy-in", f"{one}:/workspace/three")
    assert {name: kind for name, (kind, _) in seen.items()} == {
        "in": "drwxr-xr-x", "in/a.txt": "-rw-r-----", "in/deep": "drwxr-xr-x",
        "in/deep/er": "drwxr-xr-x", "in/deep/er/run.sh": "-rwxr-xr-x", "in/.hidden": "-rw-------",
        "in/empty": "drwxr-xr-x", "in/link": "a.txt", "in/outside": "/etc/shadow",
        "in/broken": "nowhere", "one": "-rw-------", "named": "drwxr-xr-x",
        "named/two": "-rw-------", "d": "drwxr-xr-x", "d/er": "drwxr-xr-x",
        "d/er/run.sh": "-rwxr-xr-x", "three": "-rw-------",
    }
    assert {uid for _, uid in seen.values()} == {"1000"}


@once
def test_a_link_that_is_named_itself_is_followed(jar):
    jar.file("target", "content")
    os.symlink("target", jar.home / "link")
    done = jar.run("--copy-in", jar.home / "link", "--", "cat", "link")
    assert done.stdout == "content"


@once
def test_a_copy_does_not_change_the_original(jar):
    path = jar.file("original", "before")
    assert jar.sh("echo after >original; rm original", "--copy-in", path).returncode == 0
    assert path.read_text() == "before"


@once
def test_a_later_file_replaces_an_earlier_one(jar):
    a, b = jar.file("a", "A"), jar.file("b", "B")
    done = jar.run("--copy-in", f"{a}:x", "--copy-in", f"{b}:x", "--", "cat", "x")
    assert done.stdout == "B"


@once
def test_a_file_in_the_way_of_a_directory(jar):
    a = jar.file("a", "A")
    done = jar.run("--copy-in", f"{a}:x", "--copy-in", f"{a}:x/y", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (125, "")
    assert "x/y" in said(done)


@once
def test_a_copied_link_leads_nobody_out_of_the_workspace(jar):
    (jar.home / "in").mkdir()
    os.symlink("/tmp", jar.home / "in/link")
    a = jar.file("a", "A")
    done = jar.run("--copy-in", jar.home / "in", "--copy-in", f"{a}:in/link/x", "--", "ls", "/tmp")
    assert (done.returncode, done.stdout) == (125, "")
    assert "in/link/x" in said(done)


@pytest.mark.user_only
def test_a_file_that_can_not_be_read_refuses_the_run(jar):
    path = jar.file("dir/secret", "x", 0)
    for source in (path, path.parent):
        done = jar.run("--copy-in", source, "--", "echo", "ran")
        assert (done.returncode, done.stdout) == (125, "")
        assert "secret" in said(done) and "Permission denied" in said(done)


def test_a_workspace_too_small_for_its_files_refuses_the_run(jar):
    large = jar.file("large", b"x" * (2 << 20))
    done = jar.sh("echo ran; touch /workspace/ran", "--workspace-cap", "1M", "--copy-in", large)
    assert (done.returncode, done.stdout) == (125, "")
    assert said(done) == ("could not make the box: 'large' passes the limit of 1048576 bytes")
    for n in range(20):
        jar.file(f"many/{n}", b"x" * 100000)
    done = jar.sh("echo ran", "--workspace-cap", "1M", "--copy-in", jar.home / "many")
    assert (done.returncode, done.stdout) == (125, "")
    assert re.match(r"could not make the box: '?.*many/\d+'? ?.*(limit|space)", said(done))
    _, result = result_of(jar, "--workspace-cap", "1M", "--copy-in", large, "--", "echo", "ran")
    assert (result["reason_code"], result["started_at"]) == ("provision_failed", None)


@once
@pytest.mark.heavy
def test_many_files_are_copied_in(jar):
    for n in range(3000):
        (jar.home / "many" / str(n % 30)).mkdir(parents=True, exist_ok=True)
        (jar.home / "many" / str(n % 30) / str(n)).write_text(str(n))
    done = jar.sh("find many -type f | wc -l; cat many/7/37", "--copy-in", jar.home / "many")
    assert done.stdout == "3000\n37"


# --- files out


def captured(jar, script, *options, out="out", status=0):
    """{name: content} of what was taken out."""
    done = jar.sh(script, "--out", jar.home / out, *options)
    assert done.returncode == status, done.stderr
    top = jar.home / out
    return {str(p.relative_to(top)): p.read_text() for p in top.rglob("*") if p.is_file()}


MAKE = ("mkdir -p a/b .h; echo 1 >one.txt; echo 2 >a/two.txt; echo 3 >a/b/three.txt;"
        "echo 4 >a/b/four.png; echo 5 >.h/five.txt; echo 6 >six")


@once
@pytest.mark.parametrize("globs, names", [
    (["*.txt"], {"one.txt", "a/two.txt", "a/b/three.txt", ".h/five.txt"}),
    (["*.png"], {"a/b/four.png"}),
    (["a/*"], {"a/two.txt"}),
    (["a/**"], {"a/two.txt", "a/b/three.txt", "a/b/four.png"}),
    (["**/three.txt", "six"], {"a/b/three.txt", "six"}),
    (["/workspace/a/two.txt", "./six"], {"a/two.txt", "six"}),
    (["[os]*"], {"one.txt", "six"}),
    (["nothing*"], set()),
    (["../*"], set()),
    (["**"], {"one.txt", "a/two.txt", "a/b/three.txt", "a/b/four.png", ".h/five.txt", "six"}),
])
def test_what_matches_is_taken_out(jar, globs, names):
    options = itertools.chain.from_iterable(("--capture", g) for g in globs)
    assert set(captured(jar, MAKE, *options)) == names


def test_captured_files_are_ours_and_whole(jar):
    done = jar.sh("head -c 3000000 /dev/urandom >data; sha256sum <data; chmod 755 data",
                  "--capture", "data", "--out", jar.home / "new/out")
    data = jar.home / "new/out/data"
    assert hashlib.sha256(data.read_bytes()).hexdigest() == done.stdout.split()[0]
    assert data.stat().st_uid == jar.home.stat().st_uid
    assert stat.S_IMODE(data.stat().st_mode) == 0o755


@once
def test_captured_names_of_every_kind(jar):
    names = ["a b", "-rf", "ü", "new\nline", "*", "\x1b[31m", "x" * 255]
    code = f"for n in {names!r}: open(n, 'w').write(n)\nopen(b'\\xff', 'w').write('bytes')\n"
    done = jar.run("--capture", "**", "--out", jar.home / "out", "--", "/usr/bin/python3", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    seen = {os.fsencode(p.name): p.read_text() for p in (jar.home / "out").iterdir()}
    assert seen == {**{n.encode(): n for n in names}, b"\xff": "bytes"}


def test_links_are_never_followed_out(jar):
    secret = jar.file("secret.txt", "of the host")
    script = (f"ln -s /etc/passwd passwd.txt; ln -s {secret} secret.txt; ln -s /etc etc;"
              "echo real >real.txt; ln real.txt hard.txt; mkfifo fifo.txt; ln -s . loop;"
              "ln -s real.txt soft.txt")
    assert captured(jar, script, "--capture", "**") == {"real.txt": "real\n", "hard.txt": "real\n"}


@once
def test_nor_followed_in(jar):
    """What lies in the target directory can not lead a guest's file elsewhere."""
    elsewhere = jar.file("elsewhere/kept", "kept")
    (jar.home / "out").mkdir()
    os.symlink(jar.home / "elsewhere", jar.home / "out/d")
    os.symlink(elsewhere, jar.home / "out/f")
    assert captured(jar, "echo new >f", "--capture", "f")["f"] == "new\n"
    assert not (jar.home / "out/f").is_symlink()
    done = jar.sh("mkdir d; echo new >d/kept", "--capture", "d/kept", "--out", jar.home / "out")
    assert said(done).startswith("not all files could be captured: ")
    assert "'d/kept'" in said(done)
    assert elsewhere.read_text() == "kept"


@once
def test_an_older_capture_is_replaced(jar):
    assert captured(jar, "echo old >f; chmod 400 f", "--capture", "f") == {"f": "old\n"}
    assert captured(jar, "echo new >f", "--capture", "f") == {"f": "new\n"}


@once
def test_a_capture_that_can_not_be_written_is_said(jar):
    (jar.home / "out/f").mkdir(parents=True)
    options = ["--capture", "f", "--out", jar.home / "out"]
    done = jar.sh("echo x >f; exit 3", *options)
    assert done.returncode == 3  # which is how it ended all the same
    assert said(done) == "not all files could be captured: replace 'f': Is a directory"
    _, result = result_of(jar, *options, "--", "sh", "-c", "echo x >f")
    assert (result["capture_incomplete"], result["captured_files"]) == (True, 0)
    jar.file("plain", "a file")
    done = jar.sh("echo ran", "--capture", "f", "--out", jar.home / "plain/out")
    assert (done.returncode, done.stdout) == (125, "")


def test_what_passes_the_capture_cap_is_left_out_and_counted(jar):
    script = "head -c 700000 /dev/zero >a; head -c 700000 /dev/zero >b; echo small >c; >empty"
    done = jar.sh(script, "--capture", "*", "--capture-cap", "1M", "--out", jar.home / "out")
    assert done.returncode == 125  # it went well, but not all that was wanted is there
    assert said(done) == ("captured files left out: 'b': all together may have 1048576 bytes, "
                          "--capture-cap allows more")
    assert {p.name: p.stat().st_size for p in (jar.home / "out").iterdir()} == {
        "a": 700000, "c": 6, "empty": 0}
    done, result = result_of(jar, "--capture", "*", "--capture-cap", "1M", "--out",
                             jar.home / "out", "--", "sh", "-c", script)
    assert done.returncode == 125
    assert (result["captured_files"], result["skipped_files"]) == (3, 1)
    assert (result["skipped_file"], result["unmatched_capture"]) == ("b", None)
    assert result["resource_usage"]["artifact_bytes"] == 700006


@once
def test_a_capture_that_finds_nothing_is_told(jar):
    options = ["--capture", "*.txt", "--capture", "*.png", "--out", jar.home / "out"]
    done = jar.sh("echo x >a.txt", *options)
    assert (done.returncode, said(done)) == (0, "no file matched --capture '*.png'")
    _, result = result_of(jar, *options, "--", "sh", "-c", "echo x >a.txt")
    assert (result["unmatched_capture"], result["skipped_file"]) == ("*.png", None)
    done = jar.sh("echo x >f", "--out", jar.home / "none")
    assert (done.returncode, said(done)) == (0, "--out has no effect without --capture GLOB")


@once
def test_files_are_taken_also_from_who_failed(jar):
    assert captured(jar, "echo x >f; exit 3", "--capture", "f", out="a", status=3) == {"f": "x\n"}
    assert captured(jar, "echo x >f; kill -9 $$", "--capture", "f", out="b",
                    status=137) == {"f": "x\n"}
    assert captured(jar, "echo x >f; sleep 60", "--capture", "f", "-t", "200ms", out="c",
                    status=124) == {"f": "x\n"}


@once
def test_a_guest_that_shuts_its_files_only_loses_them(jar):
    script = "echo x >ok; echo x >shut; chmod 0 shut; mkdir d; echo x >d/f; chmod 0 d"
    done = jar.sh(script, "--capture", "**", "--out", jar.home / "out")
    assert (done.returncode, said(done)) == (
        0, "captured files left out: 'shut': the guest made them unreadable")
    assert {p.name for p in (jar.home / "out").iterdir()} == {"ok"}


@once
@pytest.mark.heavy
def test_more_files_than_can_be_taken_is_said(jar):
    options = ["--capture", "**", "--workspace-cap", "1G", "--memory", "2G", "--out",
               jar.home / "out"]
    script = "mkdir d; cd d; seq 0 100000 | xargs -n 5000 touch"
    done = jar.sh(script, *options)
    assert done.returncode == 125  # it went well, but not all that was wanted is there
    assert said(done) == "not all files could be captured: more than 100000 files"
    _, result = result_of(jar, *options, "--", "sh", "-c", script)
    assert result["capture_incomplete"]


# --- --require and what is not enforced


def test_what_can_not_be_enforced_is_said_or_refused(jar):
    _, result = result_of(jar, "--", "true")
    lacking = result["not_enforced"]
    done = jar.cli("run", "--", "true")
    assert done.returncode == 0
    if lacking:
        assert said(done) == (f"not enforced on this host: {', '.join(lacking)} "
                              "(belljar doctor explains)")
        done = jar.run("--require", "all", "--", "echo", "ran")
        assert (done.returncode, done.stdout) == (125, "")
        assert said(done) == ("refused: this host can not enforce what is required: "
                              + ", ".join(lacking))
        _, result = result_of(jar, "--require", f"user,{lacking[0]}", "--", "true")
        assert result["reason_code"] == "policy_denied"
        assert (result["exit_code"], result["started_at"]) == (None, None)
    else:
        assert done.stderr == ""
        assert jar.run("--require", "all", "--", "true").returncode == 0
    assert jar.run("--require", ",".join(result_of(jar, "--", "true")[1]["enforced"]),
                   "--", "true").returncode == 0


# --- limits, each passed by one guest


def enforces(jar, facet):
    return facet in result_of(jar, "--", "true")[1]["enforced"]


@pytest.mark.delegated
def test_processes_are_limited(jar):
    code = ("import os, time\nn = 0\n"
            "try:\n"
            "    while True:\n"
            "        if os.fork() == 0: time.sleep(600)\n"
            "        n += 1\n"
            "except BlockingIOError: print(n)\n"
            "raise SystemExit(1)\n")
    done, result = result_of(jar, "--pids", "20", "--", "/usr/bin/python3", "-c", code)
    assert 10 <= int(result["stdout"]) <= 20
    assert done.returncode == 1
    if enforces(jar, "cgroup") and enforces(jar, "memory"):
        assert result["reason_code"] == "pids_limit_exceeded"
        assert result["message"] == "could not have more than 20 processes"
    else:
        assert result["reason_code"] in ("pids_limit_exceeded", "nonzero_exit")


@pytest.mark.delegated
def test_processor_time_is_limited(jar):
    if not enforces(jar, "cpu"):
        pytest.skip("cpu is not enforced for this user on this host")
    code = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\n"
    _, result = result_of(jar, "--cpu", "0.2", "--", "/usr/bin/python3", "-c", code)
    assert result["reason_code"] == "exit_code_0"
    usage = result["resource_usage"]
    assert usage["wall_time_sec"] >= 1
    assert usage["cpu_time_sec"] < 0.3 * usage["wall_time_sec"] + 0.1


@pytest.mark.parametrize("place, options, limit", [
    ("/workspace", ["--workspace-cap", "8M"], 8 << 20),
    ("/mnt/data", ["--workspace-cap", "8M"], 8 << 20),
    ("/tmp", [], 64 << 20),
    ("/dev/shm", [], 64 << 20),
])
def test_space_is_limited(jar, place, options, limit):
    code = ("import os\nn = i = 0\n"
            "try:\n"
            "    while True:\n"
            f"        f = open(f'{place}/{{i}}', 'wb', buffering=0); i += 1\n"
            "        for _ in range(8): n += f.write(bytes(1 << 19))\n"
            "except OSError as e: print(n, e.strerror)\n")
    done = jar.run(*options, "--", "/usr/bin/python3", "-c", code)
    n, why = done.stdout.strip().split(" ", 1)
    assert why == "No space left on device"
    assert limit - (1 << 20) <= int(n) <= limit


@once
def test_the_number_of_files_is_limited(jar):
    done = jar.sh("i=0; while >f$i; do i=$((i + 1)); done 2>/dev/null; echo $i",
                  "--workspace-cap", "1M")
    assert 900 <= int(done.stdout) <= 1024


def test_descriptors_are_limited(jar):
    code = ("fs = []\n"
            "try:\n"
            "    while True: fs.append(open('/dev/null'))\n"
            "except OSError as e: print(len(fs) + 3, e.strerror)\n")
    done = jar.run("--", "/usr/bin/python3", "-c", code)
    assert done.stdout == "1024 Too many open files\n"


@once
def test_the_size_of_a_file_is_limited(jar):
    done = jar.sh("truncate -s 257M f")
    assert done.returncode == 128 + signal.SIGXFSZ
    code = ("import os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "f = os.open('f', os.O_CREAT | os.O_WRONLY)\n"
            "try: os.ftruncate(f, 257 << 20)\n"
            "except OSError as e: print(e.strerror)\n")
    done = jar.run("--", "/usr/bin/python3", "-c", code)
    assert done.stdout == "File too large\n"


def test_limits_can_not_be_raised_from_inside(jar):
    code = ("import resource\n"
            "for name in ('NOFILE', 'NPROC', 'FSIZE', 'CPU', 'CORE', 'MEMLOCK'):\n"
            "    what = getattr(resource, 'RLIMIT_' + name)\n"
            "    soft, hard = resource.getrlimit(what)\n"
            "    assert soft == hard >= 0, name\n"
            "    try: resource.setrlimit(what, (hard + 1, hard + 1))\n"
            "    except (ValueError, OSError): pass\n"
            "    if resource.getrlimit(what) != (soft, hard): print(name)\n")
    done = jar.run("--", "/usr/bin/python3", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- the program's own words


@once
def test_version_and_help(jar):
    done = jar.cli("--version")
    assert re.fullmatch(r"belljar \d+\.\d+\.\d+\n", done.stdout)
    done = jar.cli("--help")
    assert done.returncode == 0
    names = re.findall(r"^  ([a-z]+) {2,}", done.stdout, re.M)
    assert {"run", "keeper", "doctor", "image"} <= set(names)
    for name in names:
        texts = {jar.cli(*argv).stdout for argv in
                 ((name, "--help"), (name, "-h"), ("help", name))}
        assert len(texts) == 1
        text = texts.pop()
        assert text.startswith(f"Usage: belljar {name}") and "--help" in text
    assert jar.cli("run", "--help").stdout.count("\n  ") > 20
    assert jar.cli().returncode == 125


@once
@pytest.mark.parametrize("argv, words", [
    (["rnu"], "unknown command 'rnu', did you mean 'run'?"),
    (["frobnicate"], "unknown command 'frobnicate', see belljar --help"),
    (["help", "kepeer"], "unknown command 'kepeer', did you mean 'keeper'?"),
    (["keeper", "surplus"], "keeper: unexpected argument 'surplus'"),
    (["keeper", "--log-level", "loud"], "keeper: unknown log level 'loud'"),
    (["keeper", "--seccomp", "/nonexistent"], "keeper: open the seccomp profile /nonexistent"),
])
def test_slips_of_the_finger(jar, argv, words):
    done = jar.cli(*argv)
    assert (done.returncode, done.stdout) == (125, "")
    assert words in said(done)


# --- real programs


@needs("/usr/lib/python3/dist-packages/numpy")
@needs("/usr/lib/python3/dist-packages/pandas")
@pytest.mark.heavy
def test_numpy_and_pandas(jar):
    code = ("import numpy as np, pandas as pd\n"
            "a = np.arange(10000).reshape(100, 100)\nprint((a @ a.T).trace())\n"
            "d = pd.DataFrame({'g': list('aab'), 'v': [1, 2, 3]})\n"
            "print(d.groupby('g').v.sum().to_dict())\nd.to_csv('d.csv', index=False)\n")
    done = jar.run("--lang", "python", "--capture", "*.csv", "--out", jar.home / "out", input=code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "333283335000\n{'a': 3, 'b': 3}\n"
    assert (jar.home / "out/d.csv").read_text() == "g,v\na,1\na,2\nb,3\n"


@once
@needs("/usr/lib/python3/dist-packages/matplotlib")
@pytest.mark.heavy
def test_matplotlib_saves_a_figure(jar):
    code = ("import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"
            "plt.plot([1, 4, 9])\nplt.savefig('plot.png')\n")
    done = jar.run("--lang", "python", "--capture", "*.png", "--out", jar.home / "out", input=code)
    assert done.returncode == 0, done.stderr
    png = (jar.home / "out/plot.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n") and len(png) > 5000


@needs("/usr/bin/node")
@pytest.mark.heavy
def test_node_with_its_threads(jar):
    code = ("const { Worker, isMainThread, parentPort } = require('worker_threads');\n"
            "const fs = require('fs');\n"
            "new Worker(`require('worker_threads').parentPort.postMessage(6 * 7)`, {eval: true})\n"
            "  .on('message', m => { fs.writeFileSync('f', String(m));\n"
            "    require('zlib').gzip('x'.repeat(9999), (e, b) =>\n"
            "      console.log(m, b.length < 100, fs.readFileSync('f', 'utf8'))) });\n")
    done = jar.run("--lang", "javascript", input=code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "42 true 42\n", "")


@needs("/usr/bin/git")
def test_git_commits(jar):
    script = ("git init -q r && cd r && echo x >f && git add f &&"
              "git -c user.name=n -c user.email=e@x commit -qm message && git log --format=%s &&"
              "git clone -q . ../c && cat ../c/f")
    done = jar.sh(script)
    assert (done.returncode, done.stdout) == (0, "message\nx\n"), done.stderr


@once
@needs("/usr/bin/gcc")
def test_gcc_compiles(jar):
    source = jar.file("hello.c", '#include <stdio.h>\nint main(void) { puts("hi"); }\n')
    done = jar.sh("gcc -O2 -Wall hello.c -o hello && ./hello", "--copy-in", source,
                  "--capture", "hello", "--out", jar.home / "out")
    assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr
    assert (jar.home / "out/hello").read_bytes()[:4] == b"\x7fELF"
    assert subprocess.run([jar.home / "out/hello"], capture_output=True,
                          check=True).stdout == b"hi\n"


@once
@needs("/usr/bin/javac")
@needs("/usr/bin/java")
@pytest.mark.heavy
def test_java_compiles_and_runs(jar):
    source = jar.file("Hello.java", 'class Hello { public static void main(String[] a) {'
                                    ' System.out.println("hi " + a[0]); } }\n')
    done = jar.sh("javac Hello.java && java -Xshare:auto Hello there", "--copy-in", source,
                  "--cpu", "2")
    assert (done.returncode, done.stdout) == (0, "hi there\n"), done.stderr
