"""Attacks on the MCP door: clients that ask and do not read, messages that cost more than they
weigh, and interpreters that lie. The server stays small, goes on, and says what happened."""
import json
import os
import pathlib
import socket
import time

import pytest

from jar import SLOWER, eventually
from server import make_server, server, users  # noqa: F401 (fixtures)
from test_mcp import BOTH, Client

once = pytest.mark.once
# A server under a sanitizer has a memory of its own kind.
PROGRAM = pathlib.Path(os.environ.get("BELLJAR", "build/belljar"))
IS_PLAIN = SLOWER == 1 and b"__asan_init" not in PROGRAM.read_bytes()
bounded = pytest.mark.skipif(not IS_PLAIN, reason="memory is only counted in a plain build")
MEMORY_MAX = 80 << 20  # 15 MB, a large answer in the making, and all events that are kept


def memory(server, kind="VmRSS"):
    """Bytes of the process that serves."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split(f"{kind}:")[1].split()[0]) << 10


def send(server, client, method, params, n):
    """A request whose answer nobody reads; the socket."""
    it = socket.create_connection(("127.0.0.1", server.port))
    it.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    body = json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}).encode()
    head = {"Host": f"127.0.0.1:{server.port}", "X-API-KEY": server.key, "Accept": BOTH,
            "Content-Type": "application/json", "Content-Length": len(body), **client.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    it.sendall(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
    return it


@once
@bounded
@pytest.mark.parametrize("token", [None, 1], ids=["plain", "progress"])
def test_answers_that_nobody_reads_are_not_kept_in_memory(server, token):
    clients = [Client(server) for _ in range(6)]
    clients[0].put("a.bin", os.urandom(4 << 20))
    asked = {"name": "read_artifact", "arguments": {"session_id": "s", "path": "a.bin"}}
    if token:
        asked["_meta"] = {"progressToken": token}
    before = memory(server)
    stuck = [send(server, client, "tools/call", asked, 1000 + n)
             for n in range(5) for client in clients]
    time.sleep(6)  # for all of them to be answered
    assert memory(server, "VmHWM") < before + MEMORY_MAX
    assert Client(server).ask("ping")["result"] == {}
    for it in stuck:
        it.close()
    assert eventually(lambda: memory(server) < before + (24 << 20), 10)


@once
@bounded
@pytest.mark.parametrize("one", ["1", '"k%d":1'], ids=["numbers", "keys"])
def test_a_message_of_millions_of_values_is_refused_at_once(server, one):
    client = Client(server)
    values = ",".join(one % n if "%" in one else one for n in range(400_000))
    params = f'{{"a":[{values}]}}' if one == "1" else f"{{{values}}}"
    body = f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}'
    before = memory(server)
    answer = client.http.post(client.url, content=body,
                              headers={**client.headers, "Content-Type": "application/json"})
    assert answer.status_code == 400 and "values" in answer.text
    assert memory(server, "VmHWM") < before + (40 << 20)


LYING = """
import fcntl, os, struct

def is_for_answers(fd):
    try:
        return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
    except OSError:
        return False

ANSWERS = next(filter(is_for_answers, range(3, 200)))
image = b"\\x89PNG\\r\\n\\x1a\\n" + b"a" * ((4 << 20) - 8)
for i in range(8):
    data = memoryview(b"I" + struct.pack("<I", len(image)) + image)
    while data:
        data = data[os.write(ANSWERS, data):]
"""


@once
@bounded
def test_images_of_an_interpreter_that_lies_are_limited(server):
    client = Client(server)
    before = memory(server)
    result = client.call("run_python", session_id="s", code=LYING, kernel=True)
    assert result["isError"]
    assert result["structuredContent"]["reason_code"] == "protocol_error"
    assert memory(server, "VmHWM") < before + (40 << 20)
    assert client.good("run_python", session_id="s", code="1", kernel=True)["result"] == "1"


@once
def test_an_interpreter_that_is_never_ready_is_ended(make_server):
    server = make_server(SANDBOX_DEFAULT_STARTUP_TIMEOUT_SEC=2)
    client = Client(server)
    code = ("import os, site\n"
            "os.makedirs(site.getusersitepackages())\n"
            "with open(site.getusersitepackages() + '/usercustomize.py', 'w') as f:\n"
            "    f.write('import time; time.sleep(1000)')")
    client.good("run_python", session_id="s", code=code)
    result = client.call("run_python", session_id="s", code="1", kernel=True)
    assert result["isError"]
    assert result["structuredContent"]["reason_code"] == "execution_timeout"
    assert client.good("run_code", session_id="s", language="shell", code="rm -r .local")
    assert client.good("run_python", session_id="s", code="1", kernel=True)["result"] == "1"


@once
def test_an_interpreter_needs_few_descriptors(make_server):
    client = Client(make_server(SANDBOX_ULIMIT_NOFILE=64))
    assert client.good("run_python", session_id="s", code="1", kernel=True)["result"] == "1"
