"""What the doors for agents cost beside REST: the same small program, one door after the other in
the same loop. Used by bench/run.
"""
import json
import os
import subprocess
import time

import load
import serve

CODE = "print(1)"
RUN = {"base_image": "host", "command": ["/usr/bin/python3", "-c", CODE]}


class Stdio:
    """`belljar mcp` on the server's root, with a session that is warm."""

    def __init__(self, program, root):
        env = {**os.environ, "SANDBOX_API_KEY": serve.KEY}
        self.process = subprocess.Popen([program, "mcp", "--root", root], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.n = 0
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                "clientInfo": {"name": "bench", "version": "1"}})
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def say(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.n += 1
        self.say({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.n:
                return answer["result"]

    def tool(self, **arguments):
        result = self.ask("tools/call", {"name": "run_python", "arguments": arguments})
        assert not result.get("isError"), result
        return result["structuredContent"]

    def has_kernel(self):
        tools = {t["name"]: t for t in self.ask("tools/list", {})["tools"]}
        return "kernel" in tools["run_python"]["inputSchema"]["properties"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


class Fathom(serve.WebSocket):
    """One socket of the Fathom door."""

    def __init__(self, port):
        super().__init__(port, "/ws", f"Authorization: Bearer {serve.KEY}\r\n"
                                      f"X-Protocol-Version: 1\r\n")
        self.n = 0

    def send(self, message):
        data = json.dumps(message).encode()
        size = bytes([0x80 | len(data)]) if len(data) < 126 else \
            b"\xfe" + len(data).to_bytes(2, "big")
        self.socket.sendall(b"\x81" + size + b"\0\0\0\0" + data)

    def execute(self, make):
        """From the message to the result that follows the terminal status."""
        self.n += 1
        self.send(make(f"bench-{self.n}"))
        while True:
            message = json.loads(self.message())
            assert message["type"] != "error", message
            if message["type"] == "result":
                return message


def execution(name):
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    return {"v": 1, "type": "execute", "id": name, "ts": now, "language": "python", "code": CODE,
            "limits": {"timeout_ms": 20000, "memory_mb": 256}}


def contestants(server, stdio):
    """{row: what is timed}; each is one whole exchange over a connection that stays."""
    client, fathom = serve.Client(server.port), Fathom(server.port)
    made = client.call("POST", "/sessions", json.dumps({"base_image": "host"}).encode())
    in_session = {"session_id": json.loads(made)["id"], "command": RUN["command"]}
    once, again = json.dumps(RUN).encode(), json.dumps(in_session).encode()
    rows = {
        "rest.python_ms": lambda: client.call("POST", "/runs?wait=20", once),
        "rest.python_in_session_ms": lambda: client.call("POST", "/runs?wait=20", again),
        "mcp.run_python_ms": lambda: stdio.tool(session_id="bench", code=CODE),
        "fathom.execute_ms": lambda: fathom.execute(execution),
    }
    if stdio.has_kernel():
        rows["kernel.exec_ms"] = lambda: stdio.tool(session_id="kernel", code="1+1", kernel=True)
    return rows


def measure(program, scratch, rounds):
    server = serve.Server(program, scratch / "doors", QUEUE_MAX_LENGTH=1000,
                          RATE_LIMIT_PER_USER=0, RATE_LIMIT_PER_IP=0)
    times = {}
    try:
        stdio = Stdio(program, scratch / "doors")
        works = contestants(server, stdio)
        for i in range(rounds + 10):
            for name, work in works.items():
                begin = time.perf_counter()
                work()
                if i >= 10:  # warm
                    times.setdefault(name, []).append((time.perf_counter() - begin) * 1000)
        stdio.close()
    finally:
        server.stop()
        server.end_keeper()
    return {name: load.percentiles(row) for name, row in times.items()}


def goals(m):
    if "mcp.run_python_ms" not in m:
        return []
    p50 = {name: row["p50"] for name, row in m.items() if "p50" in row}
    return [
        ("MCP above REST in a session, p50 ms",
         p50["mcp.run_python_ms"] - p50["rest.python_in_session_ms"], 1.0),
        ("Fathom above REST, p50 ms", p50["fathom.execute_ms"] - p50["rest.python_ms"], 1.0),
        *([("kernel, 1+1, p50 ms", p50["kernel.exec_ms"], 3.0)] if "kernel.exec_ms" in p50 else []),
    ]
