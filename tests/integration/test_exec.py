"""One's own programs: compiled, interpreted by their first line, loaded as libraries. They
run in a box with workspace_exec; in one without, whoever tries is told what to do."""
import pathlib
import shutil
import subprocess
import sysconfig

import pytest

from server import make_server, server  # noqa: F401 (fixtures)
from test_mcp import Client
from test_run import needs, said

HINT = ("files in /workspace and /tmp cannot be executed (noexec): "
        "use `sh s.sh`, or workspace_exec")
HELLO = '#include <stdio.h>\nint main(void) { puts("hi"); }\n'
PYTHON_HEADER = pathlib.Path(sysconfig.get_paths()["include"], "Python.h")
NODE_HEADERS = next((p for p in (pathlib.Path("/usr/include/node"),
                                 pathlib.Path("/usr/include/nodejs/src"))
                     if (p / "node_api.h").exists()), None)


@needs("/usr/bin/gcc")
def test_a_program_that_was_compiled_in_the_box(jar):
    source = jar.file("hello.c", HELLO)
    done = jar.sh("gcc hello.c -o hello && ./hello && cp hello /tmp && /tmp/hello", "--copy-in", source)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\nhi\n", "")


@needs("/usr/bin/gcc")
def test_a_program_that_was_copied_in(jar):
    """The example of the manual: belljar run --copy-in untrusted -- ./untrusted"""
    source = jar.file("untrusted.c", HELLO)
    subprocess.run(["gcc", source, "-o", jar.home / "untrusted"], check=True)
    done = jar.run("--copy-in", jar.home / "untrusted", "--", "./untrusted")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")


def test_a_script_with_a_first_line(jar):
    script = jar.file("s.sh", "#!/bin/sh\necho script $1\n")
    script.chmod(0o755)
    done = jar.run("--copy-in", script, "--", "./s.sh", "x")
    assert (done.returncode, done.stdout, done.stderr) == (0, "script x\n", "")


@needs("/usr/bin/gcc")
@pytest.mark.skipif(not PYTHON_HEADER.exists(), reason="no headers of Python")
def test_an_extension_module_of_python(jar):
    source = jar.file("own.c", """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *args) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = { { "answer", answer, METH_NOARGS, "" }, { 0 } };
static struct PyModuleDef module = { PyModuleDef_HEAD_INIT, "own", "", -1, methods };
PyMODINIT_FUNC PyInit_own(void) { return PyModule_Create(&module); }
""")
    done = jar.sh(f"gcc -shared -fPIC -I{PYTHON_HEADER.parent} own.c -o own.so && "
                  "python3 -c 'import own; print(own.answer())'", "--copy-in", source)
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


@needs("/usr/bin/gcc")
@needs("/usr/bin/node")
@pytest.mark.skipif(not NODE_HEADERS, reason="no headers of Node")
def test_a_native_module_of_node(jar):
    source = jar.file("own.c", """
#include <node_api.h>
static napi_value init(napi_env env, napi_value exports)
{
    napi_value v;
    napi_create_int32(env, 42, &v);
    napi_set_named_property(env, exports, "answer", v);
    return exports;
}
NAPI_MODULE(own, init)
""")
    done = jar.sh(f"gcc -shared -fPIC -I{NODE_HEADERS} own.c -o own.node && "
                  "node -e 'console.log(require(\"./own.node\").answer)'", "--copy-in", source,
                  "--memory", "2G")
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


@pytest.mark.heavy
@pytest.mark.skipif(not shutil.which("go"), reason="no go")
def test_go_test_of_a_module(jar):
    for name, text in (
            ("go.mod", "module example.org/own\n\ngo 1.19\n"),
            ("own.go", "package own\n\nfunc Answer() int { return 42 }\n"),
            ("own_test.go", "package own\n\nimport \"testing\"\n\nfunc TestAnswer(t *testing.T) {\n"
                            "\tif Answer() != 42 {\n\t\tt.Fatal(Answer())\n\t}\n}\n")):
        jar.file("own/" + name, text)
    done = jar.run("--copy-in", jar.home / "own", "--cwd", "/workspace/own", "--timeout", "300s",
                   "--memory", "2G", "--workspace-cap", "512M", "--env", "GOFLAGS=-mod=mod",
                   "--env", "GOCACHE=/workspace/cache", "--env", "GOTMPDIR=/workspace", "--",
                   "go", "test", "./...", timeout=400)
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr


def test_without_exec_a_program_is_refused_and_that_is_explained(jar):
    script = jar.file("s.sh", "#!/bin/sh\necho never\n")
    script.chmod(0o755)
    done = jar.run("--no-exec", "--copy-in", script, "--", "./s.sh")
    assert (done.returncode, done.stdout) == (126, "")
    assert said(done) == f"could not start: cannot execute './s.sh': {HINT}"
    done = jar.sh("./s.sh", "--no-exec", "--copy-in", script)
    assert (done.returncode, done.stdout) == (126, "")
    assert f"exited with status 126, cannot execute: {HINT}" in done.stderr


def test_what_may_not_be_executed_anyway_is_not_blamed_on_the_mount(jar):
    plain = jar.file("plain", "#!/bin/sh\n")
    plain.chmod(0o644)
    for option in ("--exec", "--no-exec"):
        done = jar.run(option, "--copy-in", plain, "--", "./plain")
        assert done.returncode == 126
        assert said(done) == "could not start: cannot execute './plain': Permission denied"


# --- the service ---

COPY = "cp /usr/bin/true t && ./t && cp t /tmp && /tmp/t"


def test_the_service_does_not_execute_unless_it_is_allowed(server):
    run = server.sh(COPY)
    assert (run["exit_code"], run["workspace_exec"]) == (126, False)
    assert run["message"] == f"exited with status 126, cannot execute: {HINT}"
    assert server.session()["workspace_exec"] is False
    for answer in (server.start_run("true", workspace_exec=True),
                   server.post("/sessions", json={"spec_version": "1.0", "base_image": "host",
                                                  "workspace_exec": True})):
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (403, "policy_denied")
        assert "SANDBOX_WORKSPACE_EXEC" in error["message"]
        assert error["details"]["setting"] == "SANDBOX_WORKSPACE_EXEC"
    assert server.start_run("true", workspace_exec=False).status_code == 200
    assert server.start_run("true", workspace_exec="yes").status_code == 422


def test_a_run_may_ask_for_more_than_its_session_and_for_less(make_server):
    server = make_server(SANDBOX_WORKSPACE_EXEC="ask")
    plain, own = server.session(), server.session(workspace_exec=True)
    assert (plain["workspace_exec"], own["workspace_exec"]) == (False, True)
    for session, fields, runs in ((plain, {}, False), (plain, {"workspace_exec": True}, True),
                                  (own, {}, True), (own, {"workspace_exec": False}, False),
                                  (own, {"trust_level": "untrusted"}, False)):
        run = server.sh(COPY, session_id=session["id"], **fields)
        assert (run["exit_code"], run["workspace_exec"]) == (0 if runs else 126, runs)
    assert server.sh(COPY)["exit_code"] == 126
    run = server.sh(COPY, workspace_exec=True)
    assert (run["exit_code"], run["workspace_exec"]) == (0, True)
    assert server.start_run("true", workspace_exec=True,
                            trust_level="untrusted").status_code == 403
    server.stop()
    server.start()  # what is stored says the same
    assert server.status(run["id"])["workspace_exec"] is True
    assert server.sh(COPY, session_id=own["id"])["exit_code"] == 0


def test_where_it_is_on_runs_need_not_ask(make_server):
    server = make_server(SANDBOX_WORKSPACE_EXEC="on")
    assert server.sh(COPY)["exit_code"] == 0
    assert server.sh(COPY, trust_level="untrusted")["exit_code"] == 126
    assert server.sh(COPY, workspace_exec=False)["exit_code"] == 126


CALL = "import shutil, subprocess; shutil.copy('/usr/bin/true', 't'); subprocess.run('./t', check=True)"


def test_models_are_told_and_can_ask(make_server):
    client = Client(make_server(SANDBOX_WORKSPACE_EXEC="ask"))
    refused = client.call("run_python", session_id="s", code=CALL)
    assert HINT in refused["structuredContent"]["message"]
    assert client.good("run_python", session_id="s", code=CALL, workspace_exec=True)
    assert client.good("run_code", session_id="s", language="shell", code="./t",
                       workspace_exec=True)
    got = client.good("sandbox.run", base_image="host", command=["sh", "-c", COPY],
                      workspace_exec=True)
    assert got["exit_code"] == 0
