"""The official conformance suite of MCP against the door: what needs no fixture on the plain
server, and all of it on a program with the suite's fixtures (tests/conformance)."""
import os
import pathlib
import re
import subprocess

import pytest

import mcp
from jar import SLOWER
from server import make_server  # pylint: disable=unused-import

SUITE = mcp.NPM / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
RESULT = re.compile(r"^(✓|✗) ([\w-]+): \d+ passed", re.M)
PLAIN = ["server-initialize", "ping", "logging-set-level", "tools-list",
         "server-sse-multiple-streams", "server-sse-polling", "dns-rebinding-protection",
         "resources-list", "prompts-list", "completion-complete"]


@pytest.fixture
def proxied():
    """Servers behind something that knows their key: the suite has no way to say one."""
    started = []

    def start(server):
        it = subprocess.Popen([mcp.node(), mcp.TOP / "tests/npm/proxy.mjs", server.url, server.key],
                              stdout=subprocess.PIPE, text=True)
        started.append(it)
        return f"http://127.0.0.1:{int(it.stdout.readline())}/mcp"
    yield start
    for it in started:
        it.kill()
        it.wait()
        it.stdout.close()


def results(url):
    """{scenario: did it pass}, of the whole suite, and what it said. The same scenario may be in
    several lists."""
    done = subprocess.run([mcp.node(), SUITE, "server", "--url", url, "--suite", "all"],
                          cwd=mcp.NPM, capture_output=True, text=True, timeout=300 * SLOWER,
                          check=False)
    said = done.stdout + done.stderr
    return {name: mark == "✓" for mark, name in RESULT.findall(said)}, said


@pytest.mark.once
def test_the_plain_server(make_server, proxied):  # pylint: disable=redefined-outer-name
    passed, said = results(proxied(make_server()))
    assert all(passed[name] for name in PLAIN), said


@pytest.mark.once
def test_every_scenario_with_its_fixture(make_server, proxied, belljar):  # pylint: disable=redefined-outer-name
    source = pathlib.Path(os.environ.get("BELLJAR", mcp.TOP / "build/belljar"))
    belljar.path = str(source.with_name("belljar-conformance"))
    passed, said = results(proxied(make_server()))
    assert len(passed) >= 32 and all(passed.values()), said
    assert "server-sse-polling: 3 passed" in said, "it did not poll"
