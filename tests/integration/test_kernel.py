"""Variables that persist: run_python with kernel, over MCP, in real boxes."""
import base64
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

from jar import SLOWER, eventually
from server import BASE, make_server, server, users  # noqa: F401 (fixtures)
from test_lost import keeper_of
from test_mcp import Client

once = pytest.mark.once


def told(result):
    """What the first text says; without images, structuredContent says the same."""
    it = json.loads(result["content"][0]["text"])
    has_image = any(c["type"] == "image" for c in result["content"])
    assert result.get("structuredContent") == (None if has_image else it)
    return it


class Kernel:
    """The interpreter of one session."""

    def __init__(self, server, name="k"):
        self.client, self.name = Client(server), name

    def ask(self, code, **more):
        result = self.client.call("run_python", session_id=self.name, code=code, kernel=True,
                                  **more)
        it = told(result)
        is_dead = "variables are lost" in (it["message"] or "")
        assert result["isError"] == (it["exit_code"] != 0 or is_dead)
        return result

    def run(self, code, **more):
        return told(self.ask(code, **more))


@pytest.fixture
def kernel(server):
    return Kernel(server)


def test_variables_and_files_persist(kernel):
    first = kernel.run("import json\nx = [1, 2]\nprint('made')")
    assert first["stdout"] == "made\n" and first["result"] is None and first["exit_code"] == 0
    assert first["execution_count"] == 1 and first["fresh"] == "first_use"
    assert first["reason_code"] == "exit_code_0"
    second = kernel.run("x.append(3)\nopen('a.txt', 'w').write('hello')\njson.dumps(x)")
    assert second["result"] == "'[1, 2, 3]'" and second["fresh"] is None and second["execution_count"] == 2
    assert second["run_id"] == first["run_id"]
    assert [a["path"] for a in second["artifacts"]] == ["/mnt/data/a.txt"]
    assert kernel.run("_")["result"] == "'[1, 2, 3]'"
    plain = kernel.client.good("run_python", session_id="k", code="print(open('a.txt').read())")
    assert plain["stdout"] == "hello\n"  # another box, the same files
    assert kernel.run("open('/mnt/data/a.txt').read()")["result"] == "'hello'"


def test_what_is_printed_is_all_there(kernel):
    it = kernel.run("import os, sys\nos.system('echo child')\nos.write(1, b'raw \\xff\\n')\n"
                    "print('error', file=sys.stderr)\nos.write(2, b'low\\n');")
    assert it["stdout"] == "child\nraw \ufffd\n" and it["stderr"] == "error\nlow\n"
    flood = kernel.run("for i in range(300000): print('line', i)")
    assert flood["truncated"] and flood["stdout"].startswith("line 0\n")
    assert flood["stdout"].endswith("line 299999\n") and "bytes are not shown" in flood["stdout"]
    huge = kernel.run("'x' * 5_000_000")
    assert huge["exit_code"] == 0 and huge["truncated"]
    assert " of 5000002 bytes are not shown here" in huge["result"]
    kernel.run("import threading\nt = threading.Timer(0.1, print, ('late',)); t.start()")
    assert kernel.run("t.join()")["stdout"] == "late\n"


@pytest.mark.parametrize("code, error, words", [
    ("def f():\n    return 1 / 0\nf()", "ZeroDivisionError", "return 1 / 0"),
    ("x ===", "SyntaxError", "x ==="), ("input()", "EOFError", "EOF"),
    ("import sys; sys.exit(4)", "SystemExit", "4"),
    ("class A:\n    def __repr__(self): raise KeyError('no')\nA()", "KeyError", "__repr__"),
    ("import socket; socket.create_connection(('1.1.1.1', 80), 1)", "OSError", "socket"),
    ("raise ValueError('\\udcff \\0')", "ValueError", "ValueError")])
@once
def test_errors_keep_the_interpreter(kernel, code, error, words):
    kernel.run("kept = 1")
    it = kernel.run(code)
    assert it["exit_code"] == 1 and it["reason_code"] == "nonzero_exit"
    assert error in it["traceback"] and words in it["traceback"] and it["artifacts"] == []
    assert "kernel_driver" not in it["traceback"] and "run_cell" not in it["traceback"]
    assert kernel.run("kept")["result"] == "1"


def test_a_figure_is_returned_without_being_saved(kernel):
    if subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], check=False,
                      capture_output=True).returncode != 0:
        pytest.skip("the host has no python3-matplotlib")
    result = kernel.ask("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()",
                        limits={"seconds": 60 * SLOWER})
    it = told(result)
    assert it["exit_code"] == 0 and it["artifacts"] == [] and "cannot" not in it["stderr"], it
    (image,) = [c for c in result["content"] if c["type"] == "image"]
    assert image["mimeType"] == "image/png"
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG\r\n\x1a\n")
    assert all(c["type"] != "image" for c in kernel.ask("1")["content"])  # it was closed


def test_time_that_is_over(kernel):
    kernel.run("x = 1")
    late = kernel.run("import time\nprint('before')\ntime.sleep(100)", limits={"seconds": 0.3})
    assert 300 <= late["duration_ms"] < 20000 * SLOWER
    assert late["exit_code"] is None and late["stdout"] == "before\n"
    assert late["reason_code"] == "execution_timeout" and "kept" in late["message"]
    assert kernel.run("x")["result"] == "1"
    dead = kernel.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                      "while True: pass", limits={"seconds": 0.3})
    assert "lost" in dead["message"] and dead["reason_code"] == "execution_timeout"
    fresh = kernel.run("'x' in globals()")
    assert fresh["result"] == "False" and fresh["fresh"] == "died: execution_timeout"


def test_time_that_is_over_before_the_code_begins(kernel):
    """The interpreter still looks at the files that are there: it is told, and keeps its variables.
    Not so if it has not even begun to read the code, as on a busy machine."""
    kernel.run("for n in range(1500): open(f'f{n}', 'w').close()")
    messages = []
    for _ in range(6):
        kernel.run("x = 1")
        late = kernel.run("import time\ntime.sleep(100)", limits={"seconds": 0.003})
        assert late["reason_code"] == "execution_timeout"
        messages.append(late["message"])
        assert kernel.run("'x' in globals()")["result"] == str("lost" not in late["message"])
    assert not all("lost" in message for message in messages)


@once
def test_an_execution_has_the_time_it_asks_for(make_server):
    kernel = Kernel(make_server(SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC=2))
    kernel.run("import time")
    assert kernel.run("time.sleep(3)", limits={"seconds": 60})["exit_code"] == 0
    assert kernel.run("time.sleep(60)")["reason_code"] == "execution_timeout"


def begin_call(kernel, code):
    """(message, thread) of a call that has begun when this returns."""
    client = kernel.client
    body = client.message("tools/call", {"name": "run_python", "arguments": {
        "session_id": "k", "kernel": True, "code": "open('on', 'w')\n" + code}})
    answers = []
    worker = threading.Thread(target=lambda: answers.append(client.send(body)), daemon=True)
    worker.start()
    other = Client(kernel.client.server)
    eventually(lambda: "on" in other.good(
        "run_python", session_id="k", code="import os; print(os.listdir())")["stdout"], 20)
    return body, worker, answers


@once
def test_a_canceled_call_that_takes_no_interrupt_is_ended(kernel):
    kernel.run("x = 5")
    body, _, _ = begin_call(kernel, "import time\nwhile True:\n    try: time.sleep(100)\n"
                            "    except KeyboardInterrupt: pass")
    assert kernel.client.post("notifications/cancelled", {"requestId": body["id"]},
                              notify=True).status_code == 202
    it = kernel.run("'x' in globals()", limits={"seconds": 30})
    assert it["result"] == "False" and it["fresh"] == "died: canceled_by_user"


@once
def test_a_session_that_is_closed_meanwhile_keeps_no_files(kernel):
    _, worker, answers = begin_call(kernel, "while True: pass")
    Client(kernel.client.server).good("close_session", session_id="k")
    worker.join(30)
    assert "the session was closed" in answers[0].text and "files are kept" not in answers[0].text


@once
def test_what_waits_for_an_approval_says_so(make_server):
    server = make_server(SANDBOX_APPROVAL_REQUIRED="timeout_sec>30,memory_mb>512")
    kernel = Kernel(server)
    assert kernel.run("1", limits={"seconds": 10, "memory_mb": 256})["result"] == "1"
    refused = kernel.client.call("run_python", session_id="k", code="1", kernel=True)
    assert refused["isError"] and "approval_required" in refused["content"][0]["text"]
    for more in ({"kernel": True, "restart": True}, {}):
        waits = kernel.client.message("tools/call", {
            "name": "run_python", "_meta": {"progressToken": "p"},
            "arguments": {"session_id": "k", "code": "print(7)", **more}})
        answers = []
        worker = threading.Thread(
            target=lambda it=waits, to=answers: to.append(kernel.client.send(it)), daemon=True)
        worker.start()
        (held,) = eventually(lambda: server.get("/admin/approvals").json()["items"], 20)
        time.sleep(1.2)  # progress is told each second
        assert server.post(f"/admin/runs/{held['id']}/approve").status_code == 200
        worker.join(30)
        assert "waiting for an admin's approval for" in answers[0].text


@pytest.mark.parametrize("code, reason, exit_code", [
    ("import os; os._exit(3)", "nonzero_exit", 3), ("import os; os._exit(0)", "exit_code_0", 0),
    ("import ctypes; ctypes.string_at(0)", "signaled", None),
    ("import os; os.kill(os.getpid(), 9)", "signaled", None),
    ("import os\nfor fd in range(3, 200):\n    try: os.write(fd, b'nonsense')\n"
     "    except OSError: pass\nimport time; time.sleep(60)", "protocol_error", None)])
def test_what_kills_it_is_said(kernel, code, reason, exit_code):
    kernel.run("x = 1")
    dead = kernel.run("print('last words', flush=True)\n" + code)
    assert dead["reason_code"] == reason and "lost" in dead["message"]
    assert dead["exit_code"] == exit_code and dead["stdout"] == "last words\n"
    fresh = kernel.run("'x' in globals()")
    assert fresh["result"] == "False" and fresh["execution_count"] == 1
    assert fresh["fresh"] == "died: " + reason


def limited(server, kernel):
    """What is, of a run on this host."""
    plain = kernel.client.good("run_python", session_id="k", code="1")
    run = server.client().get(f"{server.url}{BASE}/runs/{plain['run_id']}").json()
    return run["resource_usage"]["enforced"]


@once
def test_memory_has_an_end(make_server):
    server = make_server(SANDBOX_MAX_MEM_MB=256)
    kernel = Kernel(server)
    if "memory" not in limited(server, kernel):
        pytest.skip("memory is not limited on this host")
    dead = kernel.run("l = []\nwhile True: l.append(bytearray(b'x') * (16 << 20))")
    assert dead["reason_code"] == "oom_killed" and "lost" in dead["message"]
    assert kernel.run("1")["fresh"] == "died: oom_killed"


def test_it_has_the_limits_of_the_call_that_begins_it(server, kernel):
    first = kernel.run("1", limits={"memory_mb": 128, "cpu": 0.5})
    assert first["message"] is None
    assert kernel.run("1")["message"] is None
    assert kernel.run("1", limits={"memory_mb": 128, "seconds": 5})["message"] is None
    other = kernel.run("x = 1", limits={"memory_mb": 96})
    assert other["exit_code"] == 0
    assert "memory_mb 128, cpu 0.5" in other["message"] and "restart: true" in other["message"]
    fresh = kernel.run("1", limits={"memory_mb": 96}, restart=True)
    assert fresh["message"] is None and fresh["fresh"] == "restarted"
    run = server.client().get(f"{server.url}{BASE}/runs/{first['run_id']}").json()
    had = run["resource_usage"]["limits"]  # it is over
    assert had["memory_mb"] == 128 and had["cpu"] == 0.5
    dead = kernel.run("b = bytearray(b'x') * (300 << 20)")
    if "memory" in limited(server, kernel):
        assert dead["reason_code"] == "oom_killed", dead
        kernel.run("1", limits={"memory_mb": 128})
        dead = kernel.run("b = bytearray(b'x') * (300 << 20)", limits={"memory_mb": 96})
        assert "this one had memory_mb 128" in dead["message"] and "keeps" not in dead["message"]


def test_a_fork_of_it_says_nothing(kernel):
    it = kernel.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n7")
    assert it["result"] == "7" and kernel.run("8")["result"] == "8"


def test_a_canceled_call_is_an_interrupt(kernel):
    kernel.run("x = 5")
    body, _, _ = begin_call(kernel, "while True: pass")
    assert kernel.client.post("notifications/cancelled", {"requestId": body["id"]},
                       notify=True).status_code == 202
    it = kernel.run("x")
    assert it["result"] == "5" and it["fresh"] is None


def test_sessions_share_nothing_and_a_restart_is_fresh(server, kernel):
    kernel.run("x = 1")
    other = Kernel(server, "other")
    assert other.run("'x' in globals()")["result"] == "False"
    it = kernel.run("'x' in globals()", restart=True)
    assert it["result"] == "False" and it["fresh"] == "restarted"
    assert other.run("2")["fresh"] is None


@once
def test_it_is_a_run_like_any_other_and_ends_with_its_session(server, kernel):
    run_id = kernel.run("1")["run_id"]
    api = server.client()
    run = api.get(f"{server.url}{BASE}/runs/{run_id}").json()
    assert run["phase"] == "running" and run["labels"] == {"kernel": "python"}
    assert api.delete(f"{server.url}{BASE}/sessions/{run['session_id']}").status_code == 200
    run = api.get(f"{server.url}{BASE}/runs/{run_id}").json()
    assert run["phase"] == "killed" and run["reason_code"] == "canceled_by_user"
    assert kernel.run("1")["fresh"] == "first_use"


@once
def test_many_at_once_are_one_after_the_other(kernel):
    kernel.run("n = 0")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(
        Client(kernel.client.server).good("run_python", session_id="k", kernel=True,
                                          code="n += 1\nn")["result"])) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(answers) == [str(i) for i in range(1, 9)]


@once
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_server_that_comes_back_has_ended_it_and_says_so(make_server, how):
    server = make_server()
    kernel = Kernel(server)
    run_id = kernel.run("x = 1")["run_id"]
    kernel.client.good("run_python", session_id="other", code="1")
    getattr(server, how)()
    server.restart()
    assert Kernel(server, "other").run("1")["fresh"] == "first_use"
    kernel = Kernel(server)
    it = kernel.run("'x' in globals()")
    assert it["result"] == "False" and it["fresh"] == "server_restarted"
    api = server.client()
    assert eventually(lambda: api.get(f"{server.url}{BASE}/runs/{run_id}").json()["phase"] in (
        "killed", "failed"))


@once
def test_the_processor_time_of_a_day_holds_for_a_live_interpreter(make_server):
    kernel = Kernel(make_server(SANDBOX_MAX_CPU_SECONDS_PER_USER_PER_DAY=2))
    kernel.run("import time\nx = 1")
    assert kernel.run("while time.process_time() < 2.2: pass")["exit_code"] == 0
    refused = kernel.client.call("run_python", session_id="k", code="x", kernel=True)
    assert refused["isError"] and "quota_exceeded" in refused["content"][0]["text"]


LEAVES_A_CHILD = """import os, subprocess, time
child = subprocess.Popen(["sh", "-c", "while echo . >>log; do :; done"])
while not os.path.exists("log"):
    time.sleep(0.01)"""


@pytest.mark.root_only("a plain user may have no cgroup that can be frozen")
def test_what_an_execution_leaves_behind_waits_for_the_next(kernel):
    """Else an idle interpreter would compute for nothing, without limit, place or quota."""
    kernel.run(LEAVES_A_CHILD)

    def size():
        return kernel.client.good("run_python", session_id="k",
                                  code="import os; print(os.stat('log').st_size)")["stdout"]

    def rests():
        before = size()
        time.sleep(0.5)
        return before == size()
    assert eventually(rests)  # the keeper hears of it soon, not at once
    assert rests()
    grown = kernel.run("import os, time\na = os.stat('log').st_size\ntime.sleep(0.3)\n"
                       "os.stat('log').st_size - a")
    assert int(grown["result"]) > 0
    assert kernel.run("child.poll() is None")["result"] == "True"


FROZEN_ONLY = pytest.mark.root_only("a plain user may have no cgroup that can be frozen")


def is_frozen():
    """Some box is: where one server runs, it is its."""
    return any("frozen 1" in path.read_text() for path in
               pathlib.Path("/sys/fs/cgroup").glob("**/belljar-*/box-*/cgroup.events"))


def pids_of(server, words):
    return [pid for pid, line in server.processes().items() if words in line]


@once
@FROZEN_ONLY
def test_what_is_frozen_ends_with_its_keeper(make_server):
    server = make_server()
    Kernel(server).run(LEAVES_A_CHILD)
    assert eventually(is_frozen) and pids_of(server, "echo . >>log")
    os.kill(keeper_of(server), signal.SIGKILL)
    assert eventually(lambda: not pids_of(server, "echo . >>log"))


@once
@FROZEN_ONLY
def test_the_end_of_a_frozen_one_is_noticed(make_server):
    server = make_server()
    kernel = Kernel(server)
    it = kernel.run("x = 1")
    assert eventually(is_frozen)
    for pid in pids_of(server, "python3 -c"):
        os.kill(pid, signal.SIGKILL)
    assert server.wait_for(it["run_id"], "failed")["signal"] == signal.SIGKILL
    assert kernel.run("1")["fresh"].startswith("died")


@once
@pytest.mark.root_only("a plain user may have no cgroup that counts")
def test_what_goes_on_between_executions_is_charged(make_server):
    """The processor time is that of its box, not what the interpreter says."""
    server = make_server(SANDBOX_KERNEL_IDLE="run", SANDBOX_MAX_CPU_SECONDS_PER_USER_PER_DAY=4)
    kernel = Kernel(server)
    kernel.run("import subprocess\nchild = subprocess.Popen(['sh', '-c', 'while :; do :; done'])")

    def is_refused():
        it = kernel.client.call("run_python", session_id="k", code="1", kernel=True)
        return it["isError"] and "quota_exceeded" in it["content"][0]["text"]
    assert eventually(is_refused, 60 * SLOWER, pause=2)


@once
def test_each_execution_is_in_the_audit_log_without_its_code(make_server):
    server = make_server()
    kernel = Kernel(server)
    run_id = kernel.run("secret_name = 1\nprint('four')")["run_id"]
    kernel.run("1 / 0")
    text = (pathlib.Path(server.root) / "data/audit/audit.jsonl").read_text()
    told = [json.loads(line) for line in text.splitlines()]
    told = [line for line in told if line["event"] == "sandbox.kernel.executed"]
    assert [(x["execution_count"], x["outcome"], x["stdout_bytes"]) for x in told] == [
        (1, "ok", 5), (2, "error", 0)]
    assert all(x["run_id"] == run_id and x["source"] == "MCP" and x["user_id"] and
               x["policy_hash"] and x["wall_time_sec"] > 0 for x in told)
    assert "secret_name" not in text and "four" not in text
