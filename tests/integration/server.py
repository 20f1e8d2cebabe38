"""`belljar serve` on a state directory and a port of its own, and how tests talk to it.

    from server import make_server, server  # fixtures

    def test_hello(server):
        run = server.run("echo", "hi")
        assert (run["phase"], run["stdout"]) == ("completed", "hi\\n")

`make_server(SANDBOX_QUEUE_MAX_LENGTH=0)` starts one with other settings. When the test is over
the server and the keeper it started are ended, and nothing of them may be left.
"""
import contextlib
import inspect
import os
import pathlib
import pwd
import re
import select
import signal
import subprocess
import time

import httpx
import pytest
import websockets

from jar import ENDING_SECONDS, SLOWER, eventually, processes_with

BASE = "/api/v1/sandbox"
READY_SECONDS = 20 * SLOWER
# A client without certificates, which take longer to load than a server to start.
PLAIN = {"trust_env": False, "verify": False}
READY = re.compile(r"^Belljar is ready at (?P<url>\S+)$")
KEY_FILE = re.compile(r"^Key: in (?P<path>.+)$")
OVER = ("completed", "failed", "timed_out", "killed")
# Version 14 of websockets has other names for things, and 15 looks for proxies.
WS_OPTIONS = inspect.signature(websockets.connect).parameters
IS_OLD_WS = "extra_headers" in WS_OPTIONS
WsRefused = websockets.InvalidStatusCode if IS_OLD_WS else websockets.InvalidStatus


def ws_status(refused):
    """The HTTP status of an upgrade that ended in a WsRefused."""
    return refused.status_code if IS_OLD_WS else refused.response.status_code


class Server:
    """A running `belljar serve`."""

    def __init__(self, belljar, settings=None, options=()):
        self.belljar = belljar
        self.home = belljar.home
        self.root = belljar.home / "state"
        self.settings = {name: str(value) for name, value in (settings or {}).items()}
        self.options = list(options)
        self.log_path = pathlib.Path(f"{belljar.home}.log")
        self.process = self.url = self.key = self._http = None
        self.port = 0
        self.clients = []
        os.chmod(self.home, 0o755)  # a server of root's becomes somebody else

    # --- its life ---

    def start(self):
        """Returns when it says that it is ready."""
        with open(self.log_path, "ab") as log:
            self.process = self.belljar.start(
                "serve", "--root", self.root, "--port", self.port, *self.options,
                env=self.settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        said = READY.match(self._first_line())
        assert said, f"the server is not ready:\n{self.log()}"
        self.url, self.key = said["url"], self._read_key(self.process.stdout.readline())
        if not self.url.startswith("unix:"):
            self.port = httpx.URL(self.url).port
        return self

    def _read_key(self, line):
        """The key, from where the server says it is; None when every user has one."""
        file = KEY_FILE.match(line.rstrip("\n"))
        return pathlib.Path(file["path"]).read_text().strip() if file \
            else self.settings.get("SANDBOX_API_KEY")

    def _first_line(self):
        until = time.monotonic() + READY_SECONDS
        line = ""
        while not line and self.process.poll() is None and time.monotonic() < until:
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                line = self.process.stdout.readline()
        return line.rstrip("\n")

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _close_clients(self):
        for client in self.clients:
            client.close()
        self.clients, self._http = [], None

    def _reap(self, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        is_late = self.process.poll() is None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        return not is_late

    def stop(self, seconds=30 * SLOWER):
        """SIGTERM; returns its exit status. What runs is left to the keeper."""
        self._close_clients()
        self.process.terminate()
        assert self._reap(seconds), f"the server does not end:\n{self.log()}"
        return self.process.returncode

    def kill(self):
        """SIGKILL, without a word to anybody."""
        self._close_clients()
        self.process.kill()
        self._reap(ENDING_SECONDS)

    def restart(self):
        self.stop()
        return self.start()

    def processes(self):
        """{pid: command line} of the server, the keepers of its root, and what they started."""
        return processes_with(f"--root\0{self.root}\0")

    def end_keepers(self):
        """SIGTERM to what is left, guardians first; a box ends with its keeper."""
        def tell(number):
            for pid, line in sorted(self.processes().items()):
                if f"--root {self.root} " in line:
                    with contextlib.suppress(OSError):
                        os.kill(pid, number)
        tell(signal.SIGTERM)
        if not eventually(lambda: not self.processes(), ENDING_SECONDS):
            tell(signal.SIGKILL)

    def close(self):
        """End everything; whatever has to be killed is a fault."""
        is_running = self.process and self.process.poll() is None
        self._close_clients()
        if is_running:
            self.process.terminate()
            is_running = not self._reap(30 * SLOWER)
        self.end_keepers()
        left = eventually(lambda: not self.processes()) is not True and self.processes()
        for pid in left or ():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.log_path.unlink()
        assert not is_running, "the server did not end by itself"
        assert not left, f"left behind: {left}"

    # --- talking to it ---

    def client(self, key=None, **options):
        """A client that carries `key` (None: the server's own, "": none at all)."""
        key = self.key if key is None else key
        headers = {**({"X-API-KEY": key} if key else {}), **options.pop("headers", {})}
        options = {**PLAIN, "timeout": 60 * SLOWER, **options}
        it = httpx.Client(base_url=self.url + BASE, headers=headers, **options)
        self.clients.append(it)
        return it

    @property
    def http(self):
        """The client of whoever owns the server's key."""
        if not self._http:
            self._http = self.client()
        return self._http

    def get(self, path, **options):
        return self.http.get(path, **options)

    def post(self, path, **options):
        return self.http.post(path, **options)

    def delete(self, path, **options):
        return self.http.delete(path, **options)

    def connect(self, path, key=None, **options):
        """A WebSocket, for `async with` in a coroutine: `path` is a run's id or what
        log_stream_url says."""
        if not path.startswith("/"):
            path = f"{BASE}/runs/{path}/stream"
        key = self.key if key is None else key
        headers = {**({"X-API-KEY": key} if key else {}), **options.pop("headers", {})}
        options["extra_headers" if IS_OLD_WS else "additional_headers"] = headers
        if "proxy" in WS_OPTIONS:
            options.setdefault("proxy", None)
        return websockets.connect("ws" + self.url[4:] + path, max_size=None, **options)

    # --- what most tests do ---

    def start_run(self, *command, client=None, params=None, headers=None, **fields):
        """POST /runs with a command in the host's image, or in a session; the answer."""
        if "session_id" not in fields:
            fields.setdefault("base_image", "host")
        body = {"spec_version": "1.0", "command": list(command), "timeout_sec": 30, **fields}
        return (client or self.http).post("/runs", json=body, params=params, headers=headers)

    def run(self, *command, wait=60, **fields):
        """The same, waited for; the run as JSON."""
        answer = self.start_run(*command, params={"wait": wait}, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def sh(self, script, **fields):
        return self.run("sh", "-c", script, **fields)

    def status(self, run_id, client=None):
        answer = (client or self.http).get(f"/runs/{run_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait_for(self, run_id, *phases, seconds=30 * SLOWER):
        """The run, once it is in one of the phases; by default, once it is over."""
        phases = phases or OVER

        def probe():
            run = self.status(run_id)
            return run if run["phase"] in phases else None
        got = eventually(probe, seconds, pause=0.02)
        assert got, f"still {self.status(run_id)}"
        return got

    def session(self, client=None, **fields):
        """A new session with the host's image; as JSON."""
        fields.setdefault("base_image", "host")
        answer = (client or self.http).post("/sessions", json={"spec_version": "1.0", **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def upload(self, session_id, *files, client=None):
        """(name, content) each, as a form; the answer."""
        parts = [("files", (name, content)) for name, content in files]
        return (client or self.http).post(f"/sessions/{session_id}/files", files=parts)


@pytest.fixture
def make_server(belljar):
    """Starts servers, with settings by their names; all share one state directory."""
    made = []

    def make(*options, **settings):
        made.append(Server(belljar, settings, options))
        return made[-1].start()
    yield make
    for it in reversed(made):
        it.close()


@pytest.fixture
def server(make_server):
    return make_server()


def _own_uid(belljar):
    """Whom the server is: root's becomes somebody else."""
    if not belljar.is_root:
        return belljar.home.stat().st_uid
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("belljar").pw_uid
    return pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def users(belljar):
    """The setting that names a users file, and the keys of an admin and two others."""
    file = belljar.home / "users"
    keys = {}
    for name, *options in (("boss", "--admin"), ("ann",), ("bob",)):
        done = belljar.run("user", "add", name, *options, "--file", file)
        assert done.returncode == 0, done.stderr
        keys[name] = done.stdout.strip()
    os.chown(file, _own_uid(belljar), -1)
    return {"SANDBOX_USERS_FILE": file}, keys


@pytest.fixture
def server_of_users(make_server, users):
    """A server that has them, and their keys."""
    settings, keys = users
    return make_server(**settings), keys
