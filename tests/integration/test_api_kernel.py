"""What REST has of a session beside its runs: a list of its files, and an interpreter."""
import base64
import threading

import pytest

from jar import SLOWER, eventually
from server import make_server, server, server_of_users, users  # noqa: F401 (fixtures)

once = pytest.mark.once
UNKNOWN = "00000000-0000-4000-8000-000000000000"
PIXEL = ("import base64\n"
         "class P:\n"
         "    def _repr_png_(self):\n"
         "        return base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4"
         "2mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\n"
         "P()")


class Kernel:
    def __init__(self, server, client=None):
        self.http = client or server.http
        self.session_id = server.session(client=client)["id"]
        self.base = f"/sessions/{self.session_id}/kernel"

    def post(self, code, **fields):
        return self.http.post(f"{self.base}/executions", json={"code": code, **fields})

    def run(self, code, **fields):
        answer = self.post(code, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def state(self):
        return self.http.get(self.base).json()["state"]


# --- the interpreter ---

@once
def test_variables_are_kept_between_executions(server):
    kernel = Kernel(server)
    assert kernel.state() == "none"
    first = kernel.run("x = 41; print('out'); import sys; print('err', file=sys.stderr)")
    assert (first["outcome"], first["stdout"], first["stderr"]) == ("ok", "out\n", "err\n")
    assert (first["fresh"], first["result"]) == ("first_use", None)
    assert kernel.state() == "idle"
    second = kernel.run("x + 1")
    assert (second["result"], second["fresh"], second["execution_count"]) == ("42", None, 2)
    assert second["run_id"] == first["run_id"] == kernel.http.get(kernel.base).json()["run_id"]
    assert server.status(first["run_id"])["session_id"] == kernel.session_id


@once
def test_what_raises_has_a_traceback(server):
    failed = Kernel(server).run("1 / 0")
    assert (failed["outcome"], failed["reason_code"]) == ("error", "nonzero_exit")
    assert "ZeroDivisionError" in failed["traceback"]
    assert failed["error"] == "ZeroDivisionError"


@once
def test_an_image_comes_with_the_answer(server):
    shown = Kernel(server).run(PIXEL)
    (image,) = shown["images"]
    assert image["mime"] == "image/png"
    assert base64.b64decode(image["data_b64"]).startswith(b"\x89PNG")


@once
def test_of_long_output_both_ends_are_there(server):
    printed = Kernel(server).run("print('a' + 'b' * 300000 + 'c')")
    assert printed["stdout"].startswith("ab") and len(printed["stdout"]) == 65536
    assert printed["stdout_truncated"] is True
    assert printed["stdout_tail"].endswith("bc\n")


@once
def test_what_takes_too_long_is_interrupted_and_keeps_its_variables(server):
    kernel = Kernel(server)
    late = kernel.run("x = 1\nimport time\ntime.sleep(60)", timeout_ms=500)
    assert (late["outcome"], late["timed_out"]) == ("interrupted", True)
    assert late["reason_code"] == "execution_timeout"
    assert kernel.run("x")["result"] == "1"


def begin(kernel, code):
    """Execute in a thread; returns when the code itself is being executed."""
    answers = []
    begun = "open('begun', 'w').close()\n"
    worker = threading.Thread(target=lambda: answers.append(kernel.run(begun + code)), daemon=True)
    worker.start()
    files = f"/sessions/{kernel.session_id}/files"
    assert eventually(
        lambda: [i["path"] for i in kernel.http.get(files).json()["items"]] == ["begun"],
        20 * SLOWER)
    assert kernel.state() == "busy"
    return worker, answers


@once
def test_it_can_be_interrupted_and_restarted(server):
    kernel = Kernel(server)
    kernel.run("x = 1")
    worker, answers = begin(kernel, "import time\nwhile True: time.sleep(0.1)")
    assert kernel.http.post(f"{kernel.base}/interrupt").json()["interrupted"] is True
    worker.join(30)
    assert answers[0]["outcome"] == "interrupted"
    assert kernel.http.post(f"{kernel.base}/interrupt").json()["interrupted"] is False
    assert kernel.run("x")["result"] == "1"
    assert kernel.http.post(f"{kernel.base}/restart").json()["restarted"] is True
    again = kernel.run("'x' in dir()")
    assert (again["result"], again["fresh"]) == ("False", "restarted")


@once
def test_one_that_dies_says_why_and_the_next_is_fresh(server):
    kernel = Kernel(server)
    died = kernel.run("import os; os._exit(3)")
    assert (died["outcome"], died["exit_code"], died["reason_code"]) == (
        "died", 3, "nonzero_exit")
    assert kernel.run("1")["fresh"] == "died"


@once
def test_who_hangs_up_does_not_want_it_any_more(server):
    kernel = Kernel(server)
    kernel.run("x = 1")
    impatient = server.client(timeout=1)
    with pytest.raises(Exception):
        impatient.post(f"{kernel.base}/executions", json={"code": "import time; time.sleep(60)"})
    assert eventually(lambda: kernel.state() == "idle", 20 * SLOWER)
    assert kernel.run("x")["result"] == "1"


@once
def test_a_request_for_it_that_makes_no_sense(server):
    kernel = Kernel(server)
    for body, field in (({}, "code"), ({"code": 1}, "code"), ({"code": "1", "x": 1}, "x"),
                        ({"code": "1", "timeout_ms": 0}, "timeout_ms"),
                        ({"code": "1", "timeout_ms": "5"}, "timeout_ms"),
                        ({"code": "1", "env": []}, "env"), ({"code": "1", "env": {"A": 1}}, "env"),
                        ({"code": "1", "memory_mb": -1}, "memory_mb")):
        answer = kernel.http.post(f"{kernel.base}/executions", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
        assert field in answer.text
    assert server.get(f"/sessions/{UNKNOWN}/kernel").status_code == 404


@once
def test_another_users_interpreter_is_not_there(server_of_users):
    server, keys = server_of_users
    kernel = Kernel(server, server.client(keys["ann"]))
    bob = server.client(keys["bob"])
    for answer in (bob.get(kernel.base), bob.post(f"{kernel.base}/restart"),
                   bob.post(f"{kernel.base}/executions", json={"code": "1"}),
                   bob.get(f"/sessions/{kernel.session_id}/files")):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "session_not_found")


# --- files ---

def listed(server, session_id, **params):
    answer = server.get(f"/sessions/{session_id}/files", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


@once
def test_the_files_of_a_session_are_listed(server):
    session_id = server.session()["id"]
    assert listed(server, session_id)["items"] == []
    server.upload(session_id, ("a.txt", b"abc"), ("d/b.txt", b"de"), ("d/e/c.txt", b""))
    server.sh("ln -s a.txt link; mkdir empty", session_id=session_id)
    whole = listed(server, session_id)
    assert [(i["path"], i["type"]) for i in whole["items"]] == [
        ("a.txt", "file"), ("d", "directory"), ("d/b.txt", "file"), ("d/e", "directory"),
        ("d/e/c.txt", "file"), ("empty", "directory"), ("link", "link")]
    assert (whole["total"], whole["truncated"], whole["files_omitted"]) == (7, False, 0)
    first = whole["items"][0]
    assert first["size"] == 3 and first["modified_at"].endswith("Z")
    assert server.http.get(first["download_url"]).content == b"abc"
    assert whole["items"][1]["download_url"] is None


@once
def test_one_directory_can_be_asked_for(server):
    session_id = server.session()["id"]
    server.upload(session_id, ("a.txt", b""), ("d/b.txt", b""), ("d/e/c.txt", b""), ("dx", b""))

    def paths(**params):
        return [i["path"] for i in listed(server, session_id, **params)["items"]]
    for name in ("d", "d/", "./d", "/workspace/d"):
        assert paths(path=name) == ["d/b.txt", "d/e", "d/e/c.txt"]
    assert paths(path="d", recursive="0") == ["d/b.txt", "d/e"]
    assert paths(recursive="false") == ["a.txt", "d", "dx"]
    assert paths(path=".", recursive="0") == ["a.txt", "d", "dx"]
    assert paths(limit=2, offset=1) == ["d", "d/b.txt"]
    assert listed(server, session_id, limit=2)["has_more"] is True
    for wrong, code in (("nothing", "file_not_found"), ("a.txt", "file_not_found"),
                        ("../x", "invalid_path"), ("/etc", "invalid_path")):
        answer = server.get(f"/sessions/{session_id}/files", params={"path": wrong})
        assert answer.json()["error"]["code"] == code
    assert server.get(f"/sessions/{session_id}/files",
                      params={"recursive": "x"}).status_code == 422


@once
def test_a_list_that_is_not_all_says_so(server):
    session_id = server.session()["id"]
    server.sh("i=0; while [ $i -lt 2500 ]; do : >f$i; i=$((i+1)); done", session_id=session_id)
    # Who gets little of a processor looks at few names in time, and does not know of the rest.
    whole = {}

    def look():
        whole.update(listed(server, session_id, limit=1000))
        return whole["files_omitted"] >= 500
    assert eventually(look), whole["files_omitted"]
    assert whole["truncated"] is True
    assert whole["total"] <= 2000


@once
def test_a_session_can_be_called_by_its_name(server):
    session_id = server.session()["id"]
    server.upload(session_id, ("a.txt", b"a"))
    server.post(f"/sessions/{session_id}/clone", json={"new_session_name": "mine"})
    assert [i["path"] for i in listed(server, "mine")["items"]] == ["a.txt"]
    assert server.delete("/sessions/mine").status_code == 200
    assert server.get("/sessions/mine/files").status_code == 404
