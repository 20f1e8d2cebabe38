"""What MCP's tools make of code: how it gets there, what it prints, and how it ended."""
from server import make_server, server  # noqa: F401 (fixtures)
from test_mcp import Client, client, once  # noqa: F401 (fixtures)

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
