"""Two boxes side by side: one serves whatever can be served ("serve") until its input
ends, the other visits ("visit"), and whoever serves visits itself as the control."""
import ctypes
import json
import os
import socket
import sys

KEY, PORT = 0x0C0C0C0C, 7777
libc = ctypes.CDLL(None)
kept = []


def serve():
    for family, address in ((socket.AF_UNIX, "\0neighbour"), (socket.AF_UNIX, "/tmp/neighbour"),
                            (socket.AF_INET, ("0.0.0.0", PORT)), (socket.AF_INET6, ("::", PORT + 1))):
        server = socket.socket(family)
        server.bind(address)
        server.listen()
        kept.append(server)
    libc.shmget(KEY, 4096, 0o1666)
    libc.msgget(KEY, 0o1666)
    with open("/dev/shm/neighbour", "w", encoding="utf-8") as f:
        f.write("here")


def connects(family, address):
    with socket.socket(family) as s:
        s.settimeout(2)
        return s.connect_ex(address) == 0


def visit():
    return {
        "abstract": connects(socket.AF_UNIX, "\0neighbour"),
        "path": connects(socket.AF_UNIX, "/tmp/neighbour"),
        "tcp": connects(socket.AF_INET, ("127.0.0.1", PORT)),
        "tcp6": connects(socket.AF_INET6, ("::1", PORT + 1)),
        "sysv_shm": libc.shmget(KEY, 0, 0) >= 0,
        "sysv_msg": libc.msgget(KEY, 0) >= 0,
        "posix_shm": os.path.exists("/dev/shm/neighbour"),
        "process": any(b"neighbour.py\0serve" in _arguments(n) for n in os.listdir("/proc")),
    }


def _arguments(name):
    try:
        with open(f"/proc/{name}/cmdline", "rb") as f:
            return f.read() if name.isdigit() else b""
    except OSError:
        return b""


if sys.argv[1] == "serve":
    serve()
print(json.dumps(visit()), flush=True)
if sys.argv[1] == "serve":
    sys.stdin.read()
