"""What examples/ shows works as it stands there."""
import json
import pathlib
import re
import sys

import pytest

from server import make_server, server  # pylint: disable=unused-import
from test_mcp_stdio import host  # pylint: disable=unused-import

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"


@pytest.mark.heavy
@pytest.mark.parametrize("has_server", [False, True])
def test_csv_to_pdf(host, make_server, has_server):  # pylint: disable=redefined-outer-name
    """On a machine where nothing runs, and beside `belljar serve` on the same state directory."""
    if has_server:
        assert make_server().root == host.root
    script = host.belljar.file("csv_to_pdf.py", (EXAMPLES / "csv_to_pdf/csv_to_pdf.py").read_text())
    host.belljar.file("sales.csv", (EXAMPLES / "csv_to_pdf/sales.csv").read_text())
    done = host.belljar.command(
        sys.executable, script, env={"BELLJAR": host.belljar.path, "BELLJAR_ROOT": str(host.root)},
        timeout=180)
    assert done.returncode == 0, done.stderr
    assert "sum 714" in done.stdout
    assert (host.belljar.home / "report.pdf").read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize("has_server", [False, True])
def test_hello(host, make_server, has_server):  # pylint: disable=redefined-outer-name
    """Nothing of what it tries is reached: its status is 0."""
    if has_server:
        assert make_server().root == host.root
    script = host.belljar.file("hello.py", (EXAMPLES / "hello.py").read_text())
    done = host.belljar.run("run", "--root", host.root, "--lang", "python", script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 * 7 = 42" in done.stdout and "REACHED" not in done.stdout
    assert done.stdout.count(" no: ") == 4


def test_every_example_is_run_here():
    assert {p.name for p in EXAMPLES.iterdir()} == {"README.md", "csv_to_pdf", "hello.py", "n8n.json"}


def expand(text, variables):
    """An expression of n8n, as far as the flow uses them."""
    def value(match):
        for name, found in variables.items():
            if match[1].strip().startswith(name):
                return found
        raise AssertionError(f"what is {match[0]}?")
    return re.sub(r"\{\{(.*?)\}\}", value, text[1:] if text.startswith("=") else text)


@pytest.mark.parametrize("has_public_url", [False, True])
def test_the_n8n_flow_calls_what_there_is(server, has_public_url):  # pylint: disable=redefined-outer-name
    """n8n itself is not here; its nodes are carried out one after the other."""
    if has_public_url:
        server.stop()
        server.settings["SANDBOX_PUBLIC_URL"] = server.url
        server.start()
    flow = json.loads((EXAMPLES / "n8n.json").read_text())
    nodes = {n["name"]: n["parameters"] for n in flow["nodes"]}
    order = ["Start"]
    while order[-1] in flow["connections"]:
        order.append(flow["connections"][order[-1]]["main"][0][0]["node"])
    assert order == list(nodes)
    variables = {"$env.BELLJAR_URL": server.url, "$env.BELLJAR_KEY": server.key}
    answer = None
    for name in order[1:]:
        node = nodes[name]
        headers = {h["name"]: expand(h["value"], variables)
                   for h in node["headerParameters"]["parameters"]}
        answer = server.client(key="").request(
            node["method"], expand(node["url"], variables), headers=headers,
            content=node.get("jsonBody"))
        assert answer.status_code == 200, answer.text
        if name == "run_python":
            made = answer.json()["result"]["structuredContent"]["artifacts"][0]
            variables["$json.result.structuredContent.artifacts[0].download_url"] = made["download_url"]
    assert answer.text.splitlines()[-1] == "9,81"
