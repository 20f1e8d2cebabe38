"""The official MCP client (tests/npm), as Python sees it.

    client = mcp.over_http(server)      # or mcp.over_stdio(belljar, root)
    result = client.tool("run_python", code="print(1)", session_id="a")
"""
import itertools
import json
import pathlib
import platform
import queue
import shutil
import subprocess
import threading

import pytest

from jar import SLOWER

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
NPM = TOP / "build-npm"
MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
PATIENCE = 120 * SLOWER


def node():
    """Node 22, which the conformance suite needs; skips when the packages are not there."""
    if not (NPM / "stamp").exists():
        why = NPM / "why"
        pytest.skip(why.read_text().strip() if why.exists() else "tools/npm was not run")
    ours = NPM / f"node_modules/node-linux-{MACHINES.get(platform.machine())}/bin/node"
    found = str(ours) if ours.exists() else shutil.which("node")
    if not found:
        pytest.skip("there is no node for this machine")
    return found


class ToolError(Exception):
    """A JSON-RPC error, or one that the client itself found."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


class Client:
    """One connection. Calls may overlap: `begin` and `end`."""

    def __init__(self, how):
        self.process = subprocess.Popen(
            [node(), TOP / "tests/npm/client.mjs", json.dumps(how)], cwd=NPM, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.numbers = itertools.count()
        self.answers, self.first = {}, queue.Queue()
        self.lock = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()
        hello = self.first.get(timeout=PATIENCE)
        if "error" in hello:
            self.process.wait(10)
            raise ToolError(hello["error"])

    def _listen(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            if "n" not in answer:
                self.first.put(answer)
                continue
            with self.lock:
                self.answers[answer["n"]] = answer
                self.lock.notify_all()
        with self.lock:
            self.answers[None] = True
            self.lock.notify_all()

    def begin(self, op, *args, **more):
        n = next(self.numbers)
        self.process.stdin.write(json.dumps({"n": n, "op": op, "args": args, **more}) + "\n")
        self.process.stdin.flush()
        return n

    def end(self, n):
        """What came of it: {"value": ..., "progress": [...]}"""
        with self.lock:
            done = self.lock.wait_for(lambda: n in self.answers or None in self.answers, PATIENCE)
            assert done and n in self.answers, "the client did not answer"
            answer = self.answers.pop(n)
        if "error" in answer:
            raise ToolError(answer["error"])
        return answer

    def do(self, op, *args, **more):
        return self.end(self.begin(op, *args, **more))["value"]

    def tool(self, name, **arguments):
        """The result of a tool, with isError if it failed."""
        return self.do("callTool", {"name": name, "arguments": arguments})

    def close(self):
        self.process.stdin.close()
        status = self.process.wait(30 * SLOWER)
        self.process.stdout.close()
        return status


def over_http(server, **headers):
    return Client({"url": f"{server.url}/mcp", "headers": {"X-API-KEY": server.key, **headers}})


def over_stdio(belljar, root, **env):
    argv = [belljar.path, "mcp", "--root", str(root)]
    if belljar.becomes_user:
        owner = belljar.home.stat().st_uid
        argv = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", *argv]
    return Client({"stdio": argv, "env": {**belljar.env, **env}})
