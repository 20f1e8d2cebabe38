"""What MCP's tools make of code: how it gets there, what it prints, and how it ended."""
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
