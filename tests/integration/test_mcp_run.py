"""What MCP's tools make of code: how it gets there, what it prints, and how it ended."""
import concurrent.futures

import pytest

from jar import SLOWER, eventually
from server import make_server, server  # noqa: F401 (fixtures)
from test_mcp import Client, client, once  # noqa: F401 (fixtures)

MIB = 1 << 20


# --- how the code gets there ---

@once
def test_python_with_input_leaves_no_file(client):
    client.put("main.py", b"MY OWN FILE")
    got = client.good("run_code", session_id="s", language="python", stdin="one\ntwo\n", code=(
        "import sys\nprint(open('main.py').read(), input(), sys.stdin.read(), sys.argv)"))
    assert got["stdout"] == "MY OWN FILE one two\n ['']\n"
    assert [a["filename"] for a in got["artifacts"]] == ["main.py"]
    got = client.good("run_code", session_id="s", language="python", stdin="",
                      code="print(repr(input.__name__), open(0).read() == '')")
    assert got["stdout"] == "'input' True\n"


@once
def test_code_that_is_too_large_is_said_to_be_the_code(make_server):
    client = Client(make_server(SANDBOX_MCP_MAX_CODE_BYTES="4M", SANDBOX_MAX_INLINE_BYTES=1000))
    refused = client.bad("run_code", session_id="s", language="shell", code="#" * 1001)
    assert refused.startswith("code: it has 1001 bytes, and 1000 are allowed")
    client.good("run_code", session_id="s", language="shell", code="#" * 1000)
    refused = client.bad("run_python", session_id="s", code="#" * (MIB + 1))
    assert refused.startswith(f"code: it has {MIB + 1} bytes, and {MIB} are allowed")
    refused = client.bad("run_code", session_id="s", language="python", code="#" * MIB, stdin="x")
    assert refused.startswith(f"code and stdin: it has {MIB + 1} bytes, and {MIB} are allowed")
    client.good("run_code", session_id="s", language="python", code="#" * (MIB - 1), stdin="x")


@once
def test_an_interpreter_is_found_whatever_path_the_code_has(make_server):
    server = make_server(SANDBOX_MCP_ENV_ALLOW="PATH")
    client = Client(server)
    for language, code in (("python", "import os; print(os.environ['PATH'])"),
                           ("shell", "echo $PATH"), ("perl", "print $ENV{PATH}, qq(\\n)")):
        got = client.good("run_code", session_id="s", language=language, code=code,
                          env={"PATH": "/x"})
        assert got["stdout"] == "/x\n", language
    made = server.session(env={"PATH": "/y"})["id"]
    got = client.good("run_python", session_id=made, kernel=True,
                      code="import os; print(os.environ['PATH'])")
    assert got["stdout"] == "/y\n"


# --- how it ended ---

@once
def test_a_full_workspace_is_said_to_be_why_nothing_ran(make_server):
    client = Client(make_server(SANDBOX_WORKSPACE_CAP_MB=1))
    client.call("run_python", session_id="s", code=(
        "with open('big', 'wb', 0) as f:\n"
        "    for size in (1 << 16, 1 << 8, 1):\n"
        "        try:\n"
        "            while f.write(b'x' * size): pass\n"
        "        except OSError: pass\n"))
    result = client.call("run_code", session_id="s", language="javascript", code="1")
    got = result["structuredContent"]
    assert result["isError"] and got["reason_code"] == "provision_failed"
    assert "No space left" in got["message"] and "close_session" in got["message"]


# --- what it printed ---

@once
def test_what_is_printed_behind_a_traceback_is_bounded(client):
    got = client.call("run_python", session_id="s", code=(
        "import atexit, sys\natexit.register(lambda: sys.stderr.write('z\\n' * 100000))\n"
        "raise ValueError('E')"))["structuredContent"]
    assert got["traceback"].startswith("Traceback (most recent call last):\n  File")
    assert "\nValueError: E\nz\n" in got["traceback"]
    assert len(got["traceback"]) < (64 << 10) + 200 and got["truncated"]


@once
def test_a_traceback_of_what_was_caught_is_none(client):
    got = client.call("run_python", session_id="s", code=(
        "import logging\ntry: 1 / 0\nexcept Exception: logging.exception('handled')\n"
        "raise SystemExit(2)"))["structuredContent"]
    assert got["exit_code"] == 2 and got["traceback"] is None
    assert "ZeroDivisionError" in got["stderr"]


@once
def test_messages_of_many_lines_and_notes_are_whole(client):
    text = "".join(f"line {i}\n" for i in range(4000))
    got = client.call("run_python", session_id="s", code=(
        f"try:\n    raise ValueError({text!r})\nexcept Exception as e:\n"
        "    error = RuntimeError('second')\n    error.__notes__ = ['a note\\nof two lines']\n"
        "    raise error from e"))["structuredContent"]
    assert got["traceback"].startswith("Traceback (most recent call last):\n")
    assert text in got["traceback"] and "RuntimeError: second" in got["traceback"]


@once
def test_nothing_is_said_to_be_missing_of_what_is_whole(client):
    got = client.call("run_python", session_id="s", code=(
        "import sys\nsys.stdout.write('x' * 12000000 + '\\n')\nraise ValueError('E')"
    ))["structuredContent"]
    assert got["stderr"].startswith("Traceback") and got["stderr"] == got["traceback"]
    assert got["truncated"] and "bytes are not shown here" in got["stdout"]


# --- where it starts ---

@once
@pytest.mark.parametrize("code,printed", [
    ("record P(int x) {}\npublic class Main { public static void main(String[] a) "
     "{ System.out.println(new P(7)); } }", "P[x=7]\n"),
    ("class Hello { public static void main(String[] a) { System.out.println(\"hi\"); } }", "hi\n")])
def test_java_starts_main_wherever_it_is(client, code, printed):
    if "java" not in client.good("session_info")["languages"]:
        pytest.skip("there is no Java here")
    got = client.good("run_code", session_id="s", language="java", code=code,
                      limits={"seconds": 60, "memory_mb": 512})
    assert got["stdout"] == printed
    assert [a["filename"] for a in got["artifacts"]] == ["Main.java"]


@once
def test_the_url_of_the_stream_is_whole(client):
    got = client.good("sandbox.run", base_image="host", command=["true"])
    assert got["log_stream_url"] == (client.server.url.replace("http", "ws", 1)
                                     + f"/api/v1/sandbox/runs/{got['run_id']}/stream")


# --- where an error is ---

CARETS = [
    ("1 / 0", "    1 / 0\n    ~~^~~\n"),  # without a newline at its end
    ("if 1:\n\tx = (1)\t+ 1/0 \t\n", "    x = (1)\t+ 1/0\n           \t  ~^~\n"),
    ("x = 1\r\ny = 2/0\r\n", "    y = 2/0\n        ~^~\n"),
    ("s = '\u2028\x0c'\nt = 1 + 1/0", "    t = 1 + 1/0\n            ~^~\n"),
    ("s = '日本' + 'é' / 0", "    s = '日本' + 'é' / 0\n                 ~~~~^~~\n"),
    ("print('日本', 1/0)", "    print('日本', 1/0)\n                  ~^~\n"),
    ("s = 'e\u0301' + 1/0", "    s = 'e\u0301' + 1/0\n              ~^~\n"),
]


@once
@pytest.mark.parametrize("options", [{}, {"kernel": True}])
def test_the_mark_of_an_error_is_below_it(client, options):
    """With as many columns before it as there are before what it marks."""
    for code, shown in CARETS:
        result = client.call("run_python", session_id="s", code=code, **options)
        assert shown in result["structuredContent"]["traceback"], code


SYNTAX_CARETS = [
    ("x = '日本' + (1 2)", "    x = '日本' + (1 2)\n                  ^^^\n"),
    ("'日本'; a = 012", "    '日本'; a = 012\n                ^\n"),  # counted in bytes
    ("s = 'é'\nif s:\n  '日本'; é = ( 1", "    '日本'; é = ( 1\n                ^\n"),
]


@once
@pytest.mark.parametrize("options", [{}, {"kernel": True}])
def test_the_mark_of_a_syntax_error_is_below_it(client, options):
    for code, shown in SYNTAX_CARETS:
        result = client.call("run_python", session_id="s", code=code, **options)
        assert shown in result["structuredContent"]["traceback"], code


@once
def test_a_denial_says_why(make_server):
    server = make_server(SANDBOX_APPROVAL_REQUIRED="timeout_sec>100")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        call = pool.submit(Client(server).call, "run_python", session_id="s", code="1",
                           limits={"seconds": 200})
        (held,) = eventually(lambda: server.get("/admin/approvals").json()["items"], 20 * SLOWER)
        server.post(f"/admin/runs/{held['id']}/deny", json={"reason": "not on a Friday"})
        answer = call.result()
    assert answer["isError"]
    assert "not on a Friday" in answer["structuredContent"]["message"]
