"""What the run service costs, measured through its sockets. Used by bench/run."""
import base64
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import time

import load

KEY = "bench-key-0123456789abcdef"
TRUE = {"base_image": "host", "command": ["/bin/true"]}
STREAM_MB = 200
UPLOAD_MB = 48
STORED_RUNS = 200_000


class Server:
    """`belljar serve` on a root of its own."""

    def __init__(self, program, root, **settings):
        self.program, self.root = program, pathlib.Path(root)
        self.settings = {f"SANDBOX_{name}": str(value) for name, value in settings.items()}
        self.start()

    def start(self):
        env = {**os.environ, **self.settings, "SANDBOX_API_KEY": KEY}
        self.process = subprocess.Popen(
            [self.program, "serve", "--root", self.root, "--port", "0"], env=env,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.port = int(re.search(r":(\d+)/", line)[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.process.stdout.close()

    def rss_mb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def end_keeper(self):
        """It would end by itself, in a while."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"keeper" in argv[1:2] and os.fsencode(self.root) in argv and b"--respawn" in argv:
                os.kill(int(entry.name), signal.SIGTERM)

    def store(self):
        return self.root / "data/meta/sandbox_store.db"


class Client:
    """One keep-alive connection."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def call(self, method, path, body=b"", kind="application/json"):
        self.socket.sendall(
            f"{method} /api/v1/sandbox{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {KEY}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        head = self._head()
        size = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
        while len(self.buffer) < size:
            self._more()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        assert b" 200 " in head.split(b"\r\n", 1)[0], (head, data)
        return data

    def _head(self):
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        return head

    def _more(self):
        chunk = self.socket.recv(1 << 16)
        assert chunk, "the server hung up"
        self.buffer += chunk

    def run(self, request, wait=5):
        return self.call("POST", f"/runs?wait={wait}", json.dumps(request).encode())


class WebSocket(Client):
    """One that became a WebSocket; `headers` end with a line break each."""

    def __init__(self, port, path, headers):
        super().__init__(port)
        nonce = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {nonce}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        head = self._head()
        assert b" 101 " in head.split(b"\r\n", 1)[0], head

    def _take(self, size):
        while len(self.buffer) < size:
            self._more()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def message(self):
        head = self._take(2)
        size = head[1] & 127
        if size == 126:
            size = int.from_bytes(self._take(2), "big")
        elif size == 127:
            size = int.from_bytes(self._take(8), "big")
        return self._take(size)


class Stream(WebSocket):
    """A subscriber that only counts."""

    def __init__(self, port, run):
        super().__init__(port, f"/api/v1/sandbox/runs/{run}/stream?from_seq=1",
                         f"X-API-KEY: {KEY}\r\n")


def run_work(port, argv=TRUE["command"]):
    """A run that is waited for."""
    return load.post(port, "/api/v1/sandbox/runs?wait=30", {"X-API-KEY": KEY},
                     {"base_image": "host", "command": list(argv)}, '"exit_code":0')


def bwrap_work():
    return load.spawn(
        "bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
        "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc",
        "--dev", "/dev", "--tmpfs", "/tmp", "--die-with-parent", "/bin/true")


def time_runs(port, rounds):
    return load.time_in_turns({"true": run_work(port)}, rounds)["true"]


def start_run(port, code, **more):
    client = Client(port)
    request = {"base_image": "host", "command": ["/usr/bin/python3", "-c", code],
               "timeout_sec": 120, **more}
    return json.loads(client.call("POST", "/runs", json.dumps(request).encode()))["id"]


def time_stream(port):
    """MB/s of a guest's output, from its first frame to its last."""
    code = (f"import os\nline=(b'x'*99+b'\\n')*655\n"
            f"for _ in range({STREAM_MB} * 16): os.write(1, line)")
    stream = Stream(port, start_run(port, code))
    size, begin = 0, None
    while True:
        text = stream.message()
        if text.startswith(b'{"type":"stdout"'):
            begin = begin or time.perf_counter()
            size += len(text)
        elif b'"event":"end"' in text:
            break
    assert size > STREAM_MB * 16 * 65500
    return STREAM_MB * 16 * 65500 / 1e6 / (time.perf_counter() - begin)


def time_first_byte(port, rounds):
    code = (f"import os,time\nfor _ in range({rounds}):\n time.sleep(0.01)\n"
            f" os.write(1, b'%d\\n' % time.clock_gettime_ns(time.CLOCK_MONOTONIC))")
    stream, times = Stream(port, start_run(port, code)), []
    while True:
        text = stream.message()
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        message = json.loads(text)
        if message["type"] == "stdout":
            times += [(now - int(line)) / 1e6 for line in message["data"].split()]
        elif message.get("event") == "end":
            return load.percentiles(times)


def time_upload(port):
    client = Client(port)
    body = json.dumps({"base_image": "host"}).encode()
    session = json.loads(client.call("POST", "/sessions", body))["id"]
    data = os.urandom(1 << 20) * UPLOAD_MB
    begin = time.perf_counter()
    client.call("POST", f"/sessions/{session}/files?path=data.bin", data,
                "application/octet-stream")
    took = time.perf_counter() - begin
    client.call("DELETE", f"/sessions/{session}")
    return UPLOAD_MB * (1 << 20) / 1e6 / took


def fill_store(path, n):
    """Many runs that are over, as copies of one that was made."""
    with sqlite3.connect(path) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(sandbox_runs)")]
        one = dict(zip(columns, db.execute("SELECT * FROM sandbox_runs LIMIT 1").fetchone()))
        one["artifact_bytes"], one["expires_sec"] = 0, int(time.time()) + 10**6
        places = ",".join("?" * len(columns))

        def rows():
            for i in range(n):
                yield tuple({**one, "id": f"00000000-0000-4000-8000-{i:012x}"}[c] for c in columns)
        db.executemany(f"INSERT INTO sandbox_runs VALUES ({places})", rows())
    db.close()


def measure(program, scratch, rounds, seconds=6):
    server = Server(program, scratch / "serve", MAX_LOG_BYTES=STREAM_MB << 21,
                    QUEUE_MAX_LENGTH=1000, MAX_UPLOAD_MB=UPLOAD_MB + 1)
    result = {}
    try:
        time.sleep(1)
        result["serve.rss_mb"] = {"idle": server.rss_mb()}
        time_runs(server.port, 20)
        result["serve.run_true_ms"] = time_runs(server.port, rounds)
        rates = {"serve": {}, "bwrap": {}}
        for clients in (1, 8, 64):
            rates["serve"][clients], rates["bwrap"][clients] = load.rates_in_turns(
                (run_work(server.port), bwrap_work()), clients, seconds)
        result["serve.runs_per_sec"] = rates["serve"]
        result["start.bwrap_runs_per_sec"] = rates["bwrap"]
        result["stream.mb_per_sec"] = {"value": max(time_stream(server.port) for _ in range(2))}
        result["stream.first_byte_ms"] = load.over_rounds(
            [time_first_byte(server.port, 300) for _ in range(load.ROUNDS)])
        result["upload.mb_per_sec"] = {"value": max(time_upload(server.port) for _ in range(2))}
        server.stop()
        result["serve.run_true_ms stored"] = compare_stores(server, rounds)
    finally:
        if server.process.poll() is None:
            server.stop()
        server.end_keeper()
    return result


def compare_stores(server, rounds):
    """The same server on a small store and on a large one, each twice, in turns."""
    small, large = server.store(), server.store().with_name("large.db")
    with sqlite3.connect(small) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    large.write_bytes(small.read_bytes())
    fill_store(large, STORED_RUNS)
    os.chown(large, small.stat().st_uid, small.stat().st_gid)
    times = {small: [], large: []}
    for path in (small, large) * 2:
        server.settings["SANDBOX_STORE_DB_PATH"] = str(path)
        server.start()
        time_runs(server.port, 20)
        times[path].append(time_runs(server.port, rounds)["p50"])
        server.stop()
    return {"small": min(times[small]), "large": min(times[large]), "rows": STORED_RUNS}
