"""Agents that others wrote (tests/npm/agents), with a model of ours: Claude Code and Codex.

    shown = agents.CLAUDE_CODE.show(belljar, [("run_python", {"session_id": "s", "code": "1"})])

`shown` has for each call what the agent sent to its model as the result, as a list of blocks:
{"text": ...} and {"image": base64}. The model is an HTTP server on loopback that speaks as much of
its API as they need, and calls one tool after the other.
"""
import http.server
import json
import pathlib
import subprocess
import threading

import pytest

import mcp
from jar import SLOWER

AGENTS = mcp.NPM / "agents"
PATIENCE = 120 * SLOWER


class Model:
    """Makes `calls`, and keeps what comes of them."""

    def __init__(self, calls):
        self.calls = calls
        self.results = {}  # of each call, by its number
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.reply(b"", "text/plain")

            def do_GET(self):
                self.reply(b"{}", "application/json")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answer = {"/v1/messages": model.message, "/v1/responses": model.response}.get(
                    self.path.split("?")[0], lambda body: [])(body)
                self.reply("".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n"
                                   for e in answer).encode(), "text/event-stream")

            def reply(self, data, mime):
                self.send_response(200)
                self.send_header("content-type", mime)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def next(self):
        """(number, tool, arguments) of the next call; None when all were made."""
        n = len(self.results)
        return (n, *self.calls[n]) if n < len(self.calls) else None

    # --- the Messages API ---

    def message(self, body):
        """Events in answer to a request, which has all that was said before."""
        for said in body["messages"]:
            for block in said["content"] if isinstance(said["content"], list) else []:
                if block["type"] == "tool_result":
                    self.results[block["tool_use_id"]] = message_blocks(block["content"])
        call = self.next()
        if call:
            block = {"type": "tool_use", "id": f"toolu_{call[0]}", "input": {},
                     "name": f"mcp__belljar__{call[1]}"}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[2])}
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": "done"}
        return [
            {"type": "message_start", "message": {
                "id": "msg_1", "type": "message", "role": "assistant", "content": [],
                "model": body["model"], "stop_reason": None, "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "usage": {"output_tokens": 1}, "delta": {
                "stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}},
            {"type": "message_stop"}]

    # --- the Responses API ---

    def response(self, body):
        for said in body["input"]:
            if said["type"] == "function_call_output":
                self.results[said["call_id"]] = response_blocks(said["output"])
        call = self.next()
        if call:
            spaces = [t["name"] for t in body["tools"]
                      if t["type"] == "namespace" and "belljar" in t["name"]]
            item = {"type": "function_call", "id": f"fc_{call[0]}", "call_id": f"call_{call[0]}",
                    "namespace": spaces[0], "name": call[1], "arguments": json.dumps(call[2]),
                    "status": "completed"}
        else:
            item = {"type": "message", "id": "m", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "done", "annotations": []}]}
        whole = {"id": "r", "object": "response", "status": "completed", "output": [item],
                 "usage": {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1,
                           "output_tokens_details": None, "total_tokens": 2}}
        return [{"type": "response.created",
                 "response": {**whole, "status": "in_progress", "output": []}},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": whole}]


def message_blocks(content):
    if isinstance(content, str):
        return [{"text": content}]
    return [{"image": b["source"]["data"]} if b["type"] == "image" else {"text": b["text"]}
            for b in content]


def response_blocks(output):
    if isinstance(output, str):
        return [{"text": output}]
    return [{"image": b["image_url"].partition("base64,")[2]} if b["type"] == "input_image"
            else {"text": b["text"]} for b in output]


class Agent:
    def __init__(self, script, prepare):
        self.script, self.prepare = script, prepare

    def show(self, belljar, calls):
        if not (AGENTS / "stamp").exists():
            why = AGENTS / "why"
            pytest.skip(why.read_text().strip() if why.exists() else "tools/npm was not run")
        home = belljar.home
        model = Model(calls)
        try:
            arguments, env = self.prepare(home, model.url, [belljar.path, "mcp"])
            done = subprocess.run(
                [mcp.node(), AGENTS / "node_modules" / self.script, *arguments], cwd=home,
                env={**belljar.env, "HOME": str(home), "BELLJAR_ROOT": str(home / "state"), **env},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
                check=False)
        finally:
            model.close()
        assert done.returncode == 0 and len(model.results) == len(calls), done
        return list(model.results.values())


def claude_code(_home, url, argv):
    server = {"command": argv[0], "args": argv[1:]}
    return (["-p", "go", "--mcp-config", json.dumps({"mcpServers": {"belljar": server}}),
             "--strict-mcp-config", "--allowedTools", "mcp__belljar"],
            {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "DISABLE_AUTOUPDATER": "1",
             "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"})


def codex(home, url, argv):
    folder = pathlib.Path(home) / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(f"""
model = "none"
model_provider = "ours"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.ours]
name = "ours"
base_url = "{url}/v1"
env_key = "KEY"
wire_api = "responses"
[mcp_servers.belljar]
command = "{argv[0]}"
args = {json.dumps(argv[1:])}
env = {{ BELLJAR_ROOT = "{home}/state" }}
default_tools_approval_mode = "approve"
""")
    return ["exec", "--skip-git-repo-check", "go"], {"KEY": "none"}


CLAUDE_CODE = Agent("@anthropic-ai/claude-code/cli-wrapper.cjs", claude_code)
CODEX = Agent("@openai/codex/bin/codex.js", codex)
