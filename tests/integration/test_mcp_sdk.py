"""Every tool of the MCP door with the official TypeScript client, over stdio and over HTTP. The
client itself checks each result against the tool's output schema."""
import base64
import json
import time

import httpx
import pytest

import mcp
from jar import SLOWER
from server import make_server  # pylint: disable=unused-import
from test_mcp import WITHOUT_SCHEMA
from test_mcp_stdio import Host

TOOLS = {"run_python", "upload_file", "read_artifact", "close_session", "sandbox.run", "run_code",
         "list_files", "list_artifacts", "session_info"}
CSV = "region,amount\nnorth,3\nsouth,4\n"
PLOT = """
import pandas
import matplotlib
matplotlib.use("Agg")
frame = pandas.read_csv("/mnt/data/sales.csv")
frame.plot.bar(x="region", y="amount").figure.savefig("/mnt/data/chart.png")
print(frame.amount.sum())
"""


@pytest.fixture(params=["stdio", "http"])
def client(request, belljar):
    """A connected client; over stdio on an empty machine."""
    host = Host(belljar)
    if request.param == "stdio":
        it = mcp.over_stdio(belljar, host.root)
    else:
        server = request.getfixturevalue("make_server")(SANDBOX_FILES_SIGNED_URLS="true")
        it = mcp.over_http(server)
    it.do("listTools")  # only then it knows the schemas to check with
    yield it
    status = it.close()
    if request.param == "stdio":
        host.close()
    assert status == 0


def encoded(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def text_of(result):
    return "".join(c["text"] for c in result["content"] if c["type"] == "text")


def structured(result):
    assert not result.get("isError"), text_of(result)
    return result["structuredContent"]


def test_tools_are_described(client):
    tools = {t["name"]: t for t in client.do("listTools")["tools"]}
    assert set(tools) == TOOLS
    for tool in tools.values():
        assert tool["title"] and tool["description"] and tool["annotations"]
        assert tool["inputSchema"]["type"] == "object"
        if tool["name"] not in WITHOUT_SCHEMA:
            assert tool["outputSchema"]["type"] == "object"
    about = client.do("about")
    assert about["server"]["name"] and about["can"]["tools"] is not None
    assert client.do("ping") == {}


@pytest.mark.heavy
def test_from_csv_to_a_picture_and_its_url(client):
    assert structured(client.tool("upload_file", session_id="s", filename="sales.csv",
                                  content_base64=encoded(CSV)))["path"] == "/mnt/data/sales.csv"
    ran = structured(client.tool("run_python", session_id="s", code=PLOT,
                                 limits={"seconds": 60, "memory_mb": 1024}))
    assert (ran["exit_code"], ran["stdout"]) == (0, "7\n"), ran
    found = {a["filename"]: a for a in ran["artifacts"]}
    chart = found["chart.png"]
    assert (chart["path"], chart["mime_type"]) == ("/mnt/data/chart.png", "image/png")
    seen = client.tool("read_artifact", session_id="s", path=chart["path"])
    image = next(c for c in seen["content"] if c["type"] == "image")
    picture = base64.b64decode(image["data"])
    assert "structuredContent" not in seen
    assert (image["mimeType"], picture[:4]) == ("image/png", b"\x89PNG")
    fetched = httpx.get(chart["download_url"], trust_env=False)
    assert (fetched.status_code, fetched.content) == (200, picture)
    assert fetched.headers["content-type"] == "image/png"
    assert chart["size_bytes"] == len(picture)


def test_files_stay_and_sessions_end(client):
    client.tool("run_python", session_id="a", code="open('x.txt', 'w').write('kept')")
    again = structured(client.tool("run_python", session_id="a", code="print(open('x.txt').read())"))
    assert again["stdout"] == "kept\n"
    names = json.dumps(structured(client.tool("list_files", session_id="a")))
    assert "x.txt" in names
    assert "x.txt" in json.dumps(structured(client.tool("list_artifacts", session_id="a")))
    assert structured(client.tool("session_info", session_id="a"))
    structured(client.tool("close_session", session_id="a"))
    gone = structured(client.tool("run_python", session_id="a",
                                  code="import os; print(os.path.exists('x.txt'))"))
    assert gone["stdout"] == "False\n"


def test_failures_are_told_whole(client):
    failed = client.tool("run_python", session_id="f", code="open('y','w')\ndef f():\n  1/0\nf()")
    result = failed["structuredContent"]
    assert result["exit_code"] == 1 and result["artifacts"] == []
    assert "ZeroDivisionError" in result["traceback"] and "in f" in result["traceback"]
    assert client.tool("read_artifact", session_id="f", path="/mnt/data/none.png")["isError"]
    with pytest.raises(mcp.ToolError):
        client.do("callTool", {"name": "no_such_tool", "arguments": {}})
    big = structured(client.tool("run_python", session_id="f", code="print('ü' * 3000000)"))
    assert big["truncated"] and "\ufffd" not in big["stdout"]


def test_other_languages_and_commands(client):
    ran = structured(client.tool("run_code", session_id="l", language="shell", code="echo $((6*7))"))
    assert ran["stdout"] == "42\n"
    ran = structured(client.tool("sandbox.run", base_image="host", command=["echo", "hi"]))
    assert "hi" in json.dumps(ran)


def test_there_is_no_network(client):
    code = ("import socket\n"
            "for to in (('1.1.1.1', 53), ('127.0.0.1', 8080), ('::1', 8080)):\n"
            "  try:\n    socket.create_connection(to, 2)\n    print('connected')\n"
            "  except OSError as e:\n    print(type(e).__name__)\n"
            "try:\n  socket.getaddrinfo('example.org', 80)\n  print('resolved')\n"
            "except OSError as e:\n  print('no name')\n")
    said = structured(client.tool("run_python", session_id="n", code=code))["stdout"]
    assert "connected" not in said and "resolved" not in said and "no name" in said


TRICKS = ["../victim/secret.txt", "/mnt/data/../victim/secret.txt", "/etc/passwd", "//etc/passwd",
          "..", "a/../../secret.txt", "%2e%2e/victim/secret.txt", "link", "/proc/self/root/etc/passwd",
          "..\\victim\\secret.txt", "./../../../../etc/passwd", "dir/link"]


def test_no_trick_reaches_another_sessions_files(client):
    structured(client.tool("upload_file", session_id="victim", filename="secret.txt",
                           content_base64=encoded("TOPSECRET")))
    structured(client.tool("run_python", session_id="thief", code=(
        "import os\nos.symlink('/etc/passwd', 'link')\nos.mkdir('dir')\n"
        "os.symlink('../../victim/secret.txt', 'dir/link')")))
    for path in TRICKS:
        for order in ({"name": "read_artifact", "arguments": {"session_id": "thief", "path": path}},
                      {"name": "read_artifact", "arguments": {
                          "session_id": f"thief/{path}", "path": "secret.txt"}}):
            try:
                told = client.do("callTool", order)
            except mcp.ToolError as error:
                told = {"isError": True, "content": [{"type": "text", "text": str(error)}]}
            assert told.get("isError"), (order, told)
            everything = json.dumps(told)
            assert "TOPSECRET" not in everything and "root:x:" not in everything
            assert encoded("TOPSECRET") not in everything
        try:
            client.tool("upload_file", session_id="thief", filename=path, overwrite=True,
                        content_base64=encoded("changed"))
        except mcp.ToolError:
            pass
    for name in ("victim/../victim", "../victim", "victim\0", "victim ", "./victim", "VICTIM"):
        try:
            told = client.tool("read_artifact", session_id=name, path="secret.txt")
        except mcp.ToolError:
            continue
        assert told.get("isError") and "TOPSECRET" not in json.dumps(told), name
    kept = client.tool("read_artifact", session_id="victim", path="secret.txt")
    assert "TOPSECRET" in json.dumps(kept) or encoded("TOPSECRET") in json.dumps(kept)


def test_calls_overlap_and_can_be_canceled(client):
    client.tool("run_python", session_id="c", code="pass")
    begin = time.monotonic()
    slow = client.begin("callTool", {"name": "run_python", "arguments": {
        "session_id": "c", "code": "import time; time.sleep(60)"}}, cancel_ms=1500)
    quick = client.tool("run_code", session_id="d", language="shell", code="echo quick")
    assert structured(quick)["stdout"] == "quick\n"
    with pytest.raises(mcp.ToolError, match="tired|abort"):
        client.end(slow)
    after = client.tool("run_python", session_id="c", code="print('next')")
    assert structured(after)["stdout"] == "next\n"
    assert time.monotonic() - begin < 30 * SLOWER, "the canceled run went on"


def test_progress_is_told(client):
    n = client.begin("callTool", {"name": "run_python", "arguments": {
        "session_id": "p", "code": "import time\nfor i in range(4):\n  print(i, flush=True)\n"
                                   "  time.sleep(0.7)"}}, progress=True)
    done = client.end(n)
    assert structured(done["value"])["exit_code"] == 0
    steps = [p["progress"] for p in done["progress"]]
    assert steps and steps == sorted(steps)


def test_artifacts_are_resources(client):
    client.tool("upload_file", session_id="r", filename="note.txt", content_base64=encoded("hello"))
    ran = client.tool("run_python", session_id="r", code="open('two.txt', 'w').write('2')")
    links = [c for c in ran["content"] if c["type"] == "resource_link"]
    listed = {r["uri"]: r for r in client.do("listResources")["resources"]}
    assert links and listed
    for link in links:
        read = client.do("readResource", {"uri": link["uri"]})["contents"][0]
        assert read["uri"] == link["uri"] and (read.get("text") or read.get("blob"))
    for prompt in client.do("listPrompts")["prompts"]:
        arguments = {a["name"]: "r" for a in prompt["arguments"]}
        assert client.do("getPrompt", {"name": prompt["name"], "arguments": arguments})["messages"]
