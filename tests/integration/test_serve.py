"""belljar serve itself: how it starts, what it becomes, how it ends."""
import contextlib
import json
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import time

import httpx
import pytest

from jar import SLOWER, eventually, processes_with
from server import make_server, server  # noqa: F401 (fixtures)


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def make_certificate(cert, key):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "1", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)


def test_what_it_prints_can_be_tried(server):
    line = server.process.stdout.readline()
    assert line.startswith("Try: curl -s '")
    done = subprocess.run(["sh", "-c", line[len("Try: "):]], capture_output=True, text=True,
                          timeout=30 * SLOWER, check=True)
    assert '"stdout":"42\\n"' in done.stdout


def read_terminal(fd, until, seconds=30 * SLOWER):
    """What is written to a terminal until a line begins so, as text."""
    text = ""
    end = time.monotonic() + seconds
    while f"\n{until}" not in text and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            text += os.read(fd, 65536).decode()
    return text


@pytest.mark.once
@pytest.mark.parametrize("given", [None, "a-key-that-is-long-enough-to-be-one"])
def test_a_key_of_its_own_is_shown_on_a_terminal_apart_from_the_url(make_server, belljar, given):
    server = make_server(**({"SANDBOX_API_KEY": given} if given else {}))
    key = server.key
    server.stop()
    master, slave = pty.openpty()
    env = {"SANDBOX_API_KEY": given} if given else {}
    process = belljar.start("serve", "--root", server.root, "--port", 0, env=env, stdout=slave,
                            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(slave)
    try:
        text = read_terminal(master, "Try: ")
    finally:
        process.terminate()
        process.wait(20 * SLOWER)
        os.close(master)
    assert (text.count(key), "key=" in text) == (0 if given else 1, False), text
    assert given or f"Key: {key} (in " in text


@pytest.mark.once
def test_a_key_is_not_in_what_is_logged(make_server):
    server = make_server("--port", "0")
    server.run("true")
    said = server.process.stdout.readline()  # the rest: what to try
    assert "api_key" in said and server.key not in said
    assert server.key not in server.log()


def test_limits_that_do_not_hold_here_are_said_when_it_is_ready(server):
    lacking = server.get("/runtimes").json()["runtimes"][0]["facets"]["not_enforced"]
    said = re.findall(r"Not enforced on this host: (.*?)\. 'belljar doctor' says", server.log())
    assert [sorted(line.split(", ")) for line in said] == ([sorted(lacking)] if lacking else [])


def test_the_key_stays_the_same(server):
    before = server.key
    server.restart()
    assert server.key == before


def test_it_holds_no_privilege(server):
    status = status_of(server.process.pid)
    assert "0" not in status["Uid"].split()
    assert all(int(status[name], 16) == 0 for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"))
    if os.geteuid() == 0 and not server.belljar.who:
        assert status["NoNewPrivs"] == "1"


@pytest.mark.parametrize("settings, words", [
    ({"SANDBOX_QUEUE_TTL_SEC": "x"}, "SANDBOX_QUEUE_TTL_SEC"),
    ({"SANDBOX_MAX_MEM_MB": "-1"}, "SANDBOX_MAX_MEM_MB"),
    ({"SANDBOX_MAX_MEN_MB": "1"}, "SANDBOX_MAX_MEM_MB"),
    ({"SANDBOX_STORE_BACKEND": "redis"}, "SANDBOX_STORE_BACKEND"),
    ({"SANDBOX_TLS_CERT": "/nowhere"}, "SANDBOX_TLS_KEY"),
])
@pytest.mark.once
def test_a_bad_setting_stops_it_with_its_name(belljar, settings, words):
    done = belljar.run("serve", "--root", belljar.home / "state", "--port", "0", env=settings)
    assert done.returncode == 125 and words in done.stderr


@pytest.mark.parametrize("text, words", [
    ('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": 5}]}', "names"),
    ('{"defaultAction": ', "JSON"),
    ("{}", "defaultAction"),
])
@pytest.mark.once
def test_a_bad_seccomp_profile_names_its_setting(belljar, text, words):
    root = belljar.home / "state"
    path = belljar.file("profile.json", text)
    done = belljar.run("serve", "--root", root, "--port", "0",
                       env={"SANDBOX_DOCKER_SECCOMP": str(path)})
    assert done.returncode == 125
    [line] = [line for line in done.stderr.splitlines() if line.startswith("belljar: ")]
    assert "SANDBOX_DOCKER_SECCOMP" in line and words in line
    assert not processes_with(f"--root\0{root}\0")


@pytest.mark.user_only
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_the_directory_of_somebody_else_is_refused_in_one_line(belljar, tmp_path, mode):
    os.chmod(tmp_path, 0o755)
    if os.geteuid() == 0:
        root = tmp_path / "theirs"
        root.mkdir()
        os.chmod(root, mode)
    else:
        root = pathlib.Path("/etc" if mode == 0o755 else "/root")
    for parent in root.parents:
        if not parent.stat().st_mode & 1:
            os.chmod(parent, parent.stat().st_mode | 0o011)
    done = belljar.run("serve", "--root", root, "--port", "0")
    assert done.returncode == 125
    [line] = done.stderr.splitlines()
    assert "no permission" in line and str(root) in line and "belongs to uid 0" in line
    assert not processes_with(f"--root\0{root}\0")


@pytest.mark.once
def test_a_start_that_fails_late_leaves_no_keeper(server, belljar):
    root = belljar.home / "other"
    done = belljar.run("serve", "--root", root, "--port", server.port)
    assert done.returncode == 125
    # As one without clients it would stay for ten seconds.
    assert eventually(lambda: not processes_with(f"--root\0{root}\0"), 3 * SLOWER)


@pytest.mark.once
def test_a_keeper_that_can_not_start_says_why(belljar):
    root = belljar.home / "state"
    root.mkdir()
    (root / "keepers").write_text("in its way")
    os.chown(root, belljar.home.stat().st_uid, -1)
    done = belljar.run("serve", "--root", root, "--port", "0")
    assert done.returncode == 125
    assert "open the directory keepers: Not a directory" in done.stderr
    assert not processes_with(f"--root\0{root}\0")


@pytest.mark.once
def test_a_pipe_it_logs_to_is_closed_when_it_has_ended(belljar):
    root = belljar.home / "state"
    os.chmod(belljar.home, 0o755)
    process = belljar.start("serve", "--root", root, "--port", 0, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while not process.stdout.readline().startswith("Try: "):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    process.stdout.read()
    assert process.wait(20 * SLOWER) == 0
    assert time.monotonic() - begin < 5 * SLOWER
    end_of_keeper(root)


@pytest.mark.once
def test_what_its_keeper_logs_is_in_its_log(belljar):
    root = belljar.home / "state"
    os.chmod(belljar.home, 0o755)
    process = belljar.start("serve", "--root", root, "--port", 0, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not process.stdout.readline().startswith("Try: "):
        assert process.poll() is None
    [keeper] = [pid for pid in processes_with(f"--root\0{root}\0")
                if status_of(pid)["Name"] == "belljar-keeper"]
    os.kill(keeper, signal.SIGKILL)
    lines = iter(process.stderr.readline, "")
    assert any("the keeper died; starting another" in line for line in lines)
    process.terminate()
    process.communicate(timeout=20 * SLOWER)
    end_of_keeper(root)


def end_of_keeper(root):
    """Of one that has nothing to hold."""
    assert eventually(lambda: not processes_with(f"--root\0{root}\0"), 20 * SLOWER)


@pytest.mark.once
def test_a_config_file_is_read(make_server, belljar):
    path = belljar.file("belljar.conf", "# comment\nSANDBOX_MAX_CPU = 1.5\n")
    server = make_server("--config", path)
    assert server.get("/runtimes").json()["runtimes"][0]["max_cpu"] == 1.5


@pytest.mark.once
def test_a_port_in_use_is_said(server, belljar):
    done = belljar.run("serve", "--root", belljar.home / "other", "--port", server.port)
    assert done.returncode == 125 and str(server.port) in done.stderr


@pytest.mark.once
def test_one_server_per_root(server):
    done = server.belljar.run("serve", "--root", server.root, "--port", "0")
    assert done.returncode == 125 and "another" in done.stderr or "in use" in done.stderr


@pytest.mark.once
def test_a_unix_socket(make_server, belljar):
    path = belljar.home / "run" / "socket"
    path.parent.mkdir()
    os.chmod(path.parent, 0o777)  # a server of root's is somebody else by then
    server = make_server("--socket", path)
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        answer = client.get("/api/v1/sandbox/runtimes", headers={"X-API-KEY": server.key})
    assert answer.status_code == 200
    tried = server.process.stdout.readline().removeprefix("Try: ")
    assert shlex.split(tried)[:4] == ["curl", "-s", "--unix-socket", str(path)]
    done = subprocess.run(["sh", "-c", tried], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["stdout"] == "42\n"
    assert server.stop() == 0
    assert not path.exists()


@pytest.mark.root_only("only a server of root's becomes somebody else")
def test_a_directory_that_is_not_for_the_socket(belljar):
    os.chmod(belljar.home, 0o755)
    done = belljar.run("serve", "--root", belljar.home / "state", "--socket",
                       belljar.home / "socket")
    assert done.returncode == 125
    assert re.search(r"uid \d+, as whom the server runs, can not make files in its directory: "
                     r"Permission denied; give it one .* 'install -d -o \d+ DIR'", done.stderr)


@pytest.mark.once
def test_paths_on_the_command_line_are_relative_to_where_one_is(make_server, belljar):
    home = belljar.home
    (home / "run").mkdir()
    os.chmod(home / "run", 0o777)
    make_certificate(home / "cert.pem", home / "key.pem")
    server = make_server("--root", "./state", "--socket", "run/x", "--tls-cert", "cert.pem",
                         "--tls-key", "../" + home.name + "/key.pem")
    assert server.url == f"unix:{home}/run/x"
    assert (home / "state/data").is_dir()


@pytest.mark.once
def test_tls(make_server, belljar, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(cert, key)
    server = make_server("--tls-cert", cert, "--tls-key", key)
    assert server.url.startswith("https://")
    with httpx.Client(verify=ssl.create_default_context(cafile=str(cert))) as client:
        answer = client.get(f"{server.url}/healthz")
    assert answer.status_code == 200
    assert not [path for path in (server.root / "data").iterdir() if path.suffix == ".pem"]


@pytest.mark.once
def test_tls_to_a_port_without_it_is_answered_at_once(server):
    begin = time.monotonic()
    done = subprocess.run(["curl", "-sk", server.url.replace("http://", "https://")],
                          timeout=30 * SLOWER, check=False)
    assert done.returncode == 35  # no TLS
    with socket.create_connection(("127.0.0.1", server.port), timeout=20 * SLOWER) as client:
        client.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)))
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ") and b"use http://" in answer
    assert time.monotonic() - begin < 5 * SLOWER
    assert "speaks TLS (https://) to a port that is for http://" in server.log()


@pytest.mark.once
def test_http_to_a_port_with_tls_is_closed_at_once(make_server, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(cert, key)
    server = make_server("--tls-cert", cert, "--tls-key", key)
    begin = time.monotonic()
    with pytest.raises(httpx.TransportError):
        httpx.get(server.url.replace("https://", "http://"), timeout=20 * SLOWER)
    assert time.monotonic() - begin < 5 * SLOWER
    assert eventually(lambda: "it may have meant http://" in server.log())


def test_sigterm_ends_it_and_the_keeper_follows(server):
    server.run("true")
    assert server.stop() == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0
    # With nobody to serve and nothing to hold, the keeper ends by itself.
    assert eventually(lambda: not server.processes(), 20 * SLOWER)


@pytest.mark.once
def test_the_keeper_follows_when_its_sessions_have_expired(make_server):
    server = make_server(SANDBOX_SESSION_TTL_SEC=1)
    server.session()
    assert server.stop() == 0
    end_of_keeper(server.root)


@pytest.mark.once
def test_the_keeper_of_a_directory_that_is_gone_ends(server):
    server.session()
    assert server.stop() == 0
    shutil.rmtree(server.root)
    end_of_keeper(server.root)


@pytest.mark.once
def test_the_keeper_stays_for_sessions_that_have_not_expired(server):
    session = server.session()
    assert server.upload(session["id"], ("a.txt", b"kept")).status_code == 200
    assert server.stop() == 0
    time.sleep(12 * SLOWER)  # longer than one that has nothing to hold
    assert server.processes()
    server.start()
    assert server.sh("cat a.txt", session_id=session["id"])["stdout"] == "kept"


@pytest.mark.once
def test_healthz_says_not_yet_until_sessions_can_be_made(server, belljar):
    [keeper] = [pid for pid in server.processes() if status_of(pid)["Name"] == "belljar-keeper"]
    server.stop()
    os.kill(keeper, signal.SIGSTOP)
    process = belljar.start("serve", "--root", server.root, "--port", server.port,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=server.url, headers={"X-API-KEY": server.key}) as client:
            def make_session():
                body = {"spec_version": "1.0", "base_image": "host"}
                return client.post("/api/v1/sandbox/sessions", json=body).status_code

            def is_listening():
                with contextlib.suppress(httpx.TransportError):
                    return client.get("/healthz")
                return None
            answer = eventually(is_listening, 20 * SLOWER)
            assert (answer.status_code, answer.json()) == (503, {"status": "starting"})
            assert (client.get("/readyz").status_code, make_session()) == (503, 503)
            os.kill(keeper, signal.SIGCONT)
            assert eventually(lambda: client.get("/healthz").status_code == 200, 20 * SLOWER)
            assert make_session() == 200
    finally:
        os.kill(keeper, signal.SIGCONT)
        process.terminate()
        process.wait(20 * SLOWER)


@pytest.mark.once
def test_a_killed_keeper_is_replaced(server):
    children = [pid for pid, line in server.processes().items()
                if "keeper" in line and status_of(pid)["Name"] == "belljar-keeper"]
    assert len(children) == 1
    os.kill(children[0], signal.SIGKILL)
    assert eventually(lambda: server.get("/runtimes").json()["runtimes"][0]["available"]
                      and children[0] not in server.processes(), 10 * SLOWER)
    assert server.run("echo", "again")["stdout"] == "again\n"


@pytest.mark.once
def test_an_interrupt_ends_it_as_well(server):
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(20 * SLOWER) == 0


@pytest.mark.once
def test_routes_can_be_printed(belljar):
    done = belljar.run("serve", "--print-routes")
    assert done.returncode == 0
    assert "POST /api/v1/sandbox/runs" in done.stdout.splitlines()
    assert all(re.match(r"[A-Z]+ /", line) for line in done.stdout.splitlines())


@pytest.mark.once
def test_it_says_that_it_is_draining(make_server):
    server = make_server(SANDBOX_DRAIN_TIMEOUT_SEC="5")
    with httpx.Client(base_url=server.url) as client:
        headers = {"X-API-KEY": server.key}
        body = {"base_image": "host", "command": ["sleep", "2"]}
        path = "/api/v1/sandbox/runs"
        run = client.post(path, json=body, headers=headers).json()["id"]
        assert eventually(lambda: client.get(f"{path}/{run}", headers=headers).json()["phase"]
                          == "running", 5 * SLOWER)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        answer = client.post(path, json=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
        assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/readyz").status_code == 503
    assert server.process.wait(20 * SLOWER) == 0


# --- belljar stop ---

def stop(server, *options, **more):
    return server.belljar.run("stop", "--root", server.root, *options, **more)


def test_stop_ends_the_server_and_its_keeper_and_says_what_is_lost(make_server):
    server = make_server(SANDBOX_DRAIN_TIMEOUT_SEC=0)
    session = server.session()["id"]
    run = server.start_run("sleep", "60").json()["id"]
    server.wait_for(run, "running")
    done = stop(server)
    assert done.returncode == 0, done.stderr
    assert not server.processes()
    assert server.process.wait(5 * SLOWER) == 0
    said = done.stdout.splitlines()
    assert said[0] == f"ended the server (pid {server.process.pid})"
    assert re.fullmatch(r"ended the keeper \(pid \d+\)", said[1])
    assert said[2:] == [f"lost 1 run: {run}", f"lost the files of 1 session: {session}"]
    again = stop(server)
    assert (again.returncode, again.stdout) == (0, f"nothing runs on {server.root}\n")


def test_stop_lets_runs_finish(make_server):
    server = make_server(SANDBOX_DRAIN_TIMEOUT_SEC=20)
    run = server.start_run("sleep", "2").json()["id"]
    server.wait_for(run, "running")
    done = stop(server)
    assert done.returncode == 0 and "lost" not in done.stdout
    server.process.wait(5 * SLOWER)
    server.start()
    assert server.status(run)["phase"] == "completed"


@pytest.mark.once
def test_stop_ends_a_keeper_whose_server_has_ended(server):
    server.session()
    server.stop()
    assert server.processes()
    done = stop(server)
    assert (done.returncode, "server" in done.stdout) == (0, False)
    assert "ended the keeper" in done.stdout and "lost the files of 1 session" in done.stdout
    assert not server.processes()


@pytest.mark.once
def test_stop_kills_what_does_not_end(server):
    for pid in (server.process.pid, *server.processes()):
        os.kill(pid, signal.SIGSTOP)
    done = stop(server, "--timeout", "1s", timeout=60 * SLOWER)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("^killed the ", done.stdout, re.M)) == 2
    assert "did not say what it held" in done.stdout
    assert eventually(lambda: not server.processes(), 5 * SLOWER)


@pytest.mark.root_only("only another user's server can be refused")
def test_stop_of_somebody_elses_server_is_refused(server, belljar):
    argv = ["setpriv", "--reuid=64243", "--regid=64243", "--clear-groups", "--", belljar.path]
    done = belljar.command(*argv, "stop", "--root", server.root)
    assert done.returncode == 125 and "sudo belljar stop" in done.stderr
    assert server.run("echo", "still")["stdout"] == "still\n"


@pytest.mark.once
def test_stop_without_a_server_has_nothing_to_do(belljar):
    done = belljar.run("stop", "--root", belljar.home / "nowhere")
    assert done.returncode == 0 and "nothing runs on" in done.stdout
    assert not (belljar.home / "nowhere").exists()


@pytest.mark.alone
@pytest.mark.once
def test_a_body_that_comes_after_its_head_is_not_waited_for(server):
    """As many clients send it: the kernel holds the body back until the head is acknowledged."""
    times = []
    body = b'{"base_image":"host","command":["true"]}'
    head = (f"POST /api/v1/sandbox/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {server.key}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        for _ in range(15):
            begin = time.monotonic()
            client.sendall(head)
            client.sendall(body)
            assert b" 200 " in client.recv(1 << 16).split(b"\r\n", 1)[0]
            times.append(time.monotonic() - begin)
    assert sorted(times)[7] < 0.03 * SLOWER
