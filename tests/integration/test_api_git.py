"""Sessions and runs that begin with a repository: cloned on the server, perhaps patched."""
import concurrent.futures
import os
import shutil
import socket
import subprocess
import time

import httpx
import pytest

from jar import SLOWER, eventually
from server import make_server, server  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")

SECRET = "hunter2-of-a-url"
WHO = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
       "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
       "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
PLAIN_PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-v2\n+patched\n"
GIT_PATCH = "diff --git a/a.txt b/a.txt\n" + PLAIN_PATCH


class Repository:
    """Two commits on main, the first of which is also v1 and the branch old."""

    def __init__(self, path):
        self.path = path
        self.url = f"file://{path}"
        self.git("init", "-q", "-b", "main", path)
        self.first = self.commit("v1")
        self.git("-C", path, "tag", "v1")
        self.git("-C", path, "branch", "old")
        self.second = self.commit("v2")

    @staticmethod
    def git(*args):
        done = subprocess.run(["git", *args], env={**os.environ, **WHO}, check=True,
                              capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, text):
        (self.path / "a.txt").write_text(f"{text}\n")
        (self.path / "gone.txt").write_text("bye\n")
        self.git("-C", self.path, "add", ".")
        self.git("-C", self.path, "commit", "-qm", text)
        return self.git("-C", self.path, "rev-parse", "HEAD")


@pytest.fixture
def repository(belljar):
    """Readable by all; where pytest is root it is root's, and so never the server's own."""
    return Repository(belljar.home / "repository")


@pytest.fixture
def local(make_server):
    """A server that clones from its own disk."""
    return make_server(SANDBOX_GIT_ALLOW="file,https")


def clone(server, url, **fields):
    body = {"spec_version": "1.0", "base_image": "host", "git": {"url": url, **fields}}
    return server.post("/sessions", json=body)


def files_of(server, answer):
    """{name: content} of a session that was made."""
    assert answer.status_code == 200, answer.text
    run = server.sh("grep -r '' . | sort", session_id=answer.json()["id"])
    return dict(line.removeprefix("./").split(":", 1) for line in run["stdout"].splitlines())


# --- what comes ---

def test_a_repository_becomes_files(local, repository):
    files = files_of(local, clone(local, repository.url))
    assert files == {"a.txt": "v2", "gone.txt": "bye"}


def test_a_ref_is_a_branch_a_tag_or_a_commit(local, repository):
    for ref, text in (("main", "v2"), ("old", "v1"), ("v1", "v1"), ("refs/heads/old", "v1"),
                      (repository.first, "v1"), (repository.second, "v2")):
        assert files_of(local, clone(local, repository.url, ref=ref))["a.txt"] == text, ref
    answer = clone(local, repository.url, ref="nothing")
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "git_failed"
    assert "no branch or tag 'nothing'" in answer.json()["error"]["message"]


def test_a_depth_changes_no_file(local, repository):
    for depth in (1, 2, 100):
        answer = clone(local, repository.url, depth=depth)
        assert files_of(local, answer)["a.txt"] == "v2", depth


@pytest.mark.parametrize("patch", [PLAIN_PATCH, GIT_PATCH], ids=["plain", "git"])
def test_a_patch_is_applied(local, repository, patch):
    files = files_of(local, clone(local, repository.url, patch=patch))
    assert files == {"a.txt": "patched", "gone.txt": "bye"}


def test_a_plain_patch_makes_and_removes_files(local, repository):
    patch = (PLAIN_PATCH.replace("a/a.txt", "a/a.txt\t2023-11-14 22:13:20.000000000 +0000") +
             "--- /dev/null\n+++ b/new/one\n@@ -0,0 +1 @@\n+fresh\n"
             "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n")
    files = files_of(local, clone(local, repository.url, patch=patch))
    assert files == {"a.txt": "patched", "new/one": "fresh"}


@pytest.mark.parametrize("patch", [PLAIN_PATCH, GIT_PATCH], ids=["plain", "git"])
def test_a_patch_that_does_not_apply_makes_no_session(local, repository, patch):
    answer = clone(local, repository.url, ref="old", patch=patch)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "invalid_git"
    assert "file 'a.txt', hunk 1" in answer.json()["error"]["message"]


def test_a_patch_with_a_link_that_leads_out_makes_no_session(local, repository):
    patch = ("diff --git a/out b/out\nnew file mode 120000\n--- /dev/null\n+++ b/out\n"
             "@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n")
    answer = clone(local, repository.url, patch=patch)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_git")
    assert "'out' a link that leads out" in answer.json()["error"]["message"]


def test_a_part_of_a_commit_id_is_told_to_be_one(local, repository):
    answer = clone(local, repository.url, ref="71b736bf")
    assert answer.status_code == 422
    assert "a commit needs its full id" in answer.json()["error"]["message"]


# --- what does not ---

@pytest.mark.parametrize("url", [
    "file:///etc", "ext::sh -c true", "ext::sh%20-c%20true", "/etc", "http://example.org/x",
    "ssh://git@example.org/x", "git://example.org/x", "--upload-pack=true"])
def test_only_https_is_allowed_by_default(server, url):
    answer = clone(server, url)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] == "invalid_git"


def test_a_command_is_never_a_repository(local):
    for url in ("ext::sh -c true", "ext://sh", "fd::3"):
        assert clone(local, url).json()["error"]["code"] == "invalid_git", url


def test_a_repository_is_refused_by_default_even_if_it_is_there(server, repository):
    answer = clone(server, repository.url)
    assert answer.status_code == 422
    assert "file:// repositories are not allowed here" in answer.json()["error"]["message"]


# --- secrets ---

def told(server):
    """All that the server wrote anywhere: its log, and every file of its state."""
    files = (path for path in server.root.rglob("*") if path.is_file())
    return server.log().encode() + b"".join(path.read_bytes() for path in files)


@pytest.fixture
def daemon(repository):
    """The repository's URL at a server of git on this host."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen(
        ["git", "daemon", "--listen=127.0.0.1", f"--port={port}", "--export-all", "--reuseaddr",
         f"--base-path={repository.path.parent}", str(repository.path.parent)],
        env={**os.environ, **WHO, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
             "GIT_CONFIG_VALUE_0": "*"}, stderr=subprocess.DEVNULL)
    while process.poll() is None and not is_open(port):
        time.sleep(0.01)
    yield f"git://127.0.0.1:{port}/{repository.path.name}"
    process.terminate()
    process.wait()


def is_open(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def test_hosts_of_this_network_are_cloned_from_only_if_allowed(make_server, daemon):
    public = make_server(SANDBOX_GIT_ALLOW="git")
    refused = clone(public, daemon)
    assert refused.status_code == 422, refused.text
    assert "not public" in refused.json()["error"]["message"]
    public.stop()
    near = make_server(SANDBOX_GIT_ALLOW="git,private")
    assert files_of(near, clone(near, daemon)) == {"a.txt": "v2", "gone.txt": "bye"}
    assert clone(near, "private://127.0.0.1/r").status_code == 422


# Nobody answers at these; git_test.c has a host that does.
@pytest.mark.parametrize("url", [
    "http://user:{}@127.0.0.1:1/r", "http://{}@127.0.0.1:1/r", "http://127.0.0.1:1/r?token={}",
    "https://user:{}@host.invalid/r", "ftp://user:{}@127.0.0.1/r", "file://user:{}@/r",
    "user:{}@example.org:r"])
def test_credentials_of_a_url_are_told_to_nobody(make_server, url):
    server = make_server(SANDBOX_GIT_ALLOW="http,https,file", SANDBOX_LOG_LEVEL="debug")
    answer = clone(server, url.format(SECRET))
    assert answer.status_code == 422, answer.text
    assert SECRET not in answer.text + str(answer.headers)
    server.stop()
    assert server.log() and SECRET.encode() not in told(server)


# --- a run without a session ---

def run_of(server, url, *command, files=(), wait=60, **fields):
    body = {"spec_version": "1.0", "base_image": "host", "command": list(command),
            "files": list(files), "git": {"url": url, **fields}}
    return server.post("/runs", json=body, params={"wait": wait})


def kept(server):
    return list((server.root / "data/meta/git").glob("*"))


def test_a_run_begins_with_a_repository(local, repository):
    run = run_of(local, repository.url, "sh", "-c", "grep -r '' . | sort").json()
    assert run["stdout"] == "./a.txt:v2\n./gone.txt:bye\n"
    run = run_of(local, repository.url, "cat", "a.txt", ref="v1").json()
    assert run["stdout"] == "v1\n"
    run = run_of(local, repository.url, "cat", "a.txt", patch=PLAIN_PATCH).json()
    assert run["stdout"] == "patched\n"
    assert eventually(lambda: not kept(local))


def test_files_of_a_run_are_written_over_its_repository(local, repository):
    files = [{"path": "a.txt", "content_b64": "bWluZQo="},
             {"path": "b.txt", "content_b64": "Ygo="}]
    run = run_of(local, repository.url, "sh", "-c", "cat a.txt b.txt gone.txt", files=files)
    assert run.json()["stdout"] == "mine\nb\nbye\n"


def test_a_repository_that_can_not_be_had_makes_no_run(local, repository):
    answer = run_of(local, repository.url, "true", ref="nothing")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "git_failed")
    answer = run_of(local, repository.url, "true", patch=PLAIN_PATCH, ref="v1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_git")
    answer = run_of(local, "ext::sh -c true", "true")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_git")
    assert not local.get("/admin/runs").json()["items"]
    assert eventually(lambda: not kept(local))


def test_a_run_in_a_session_takes_no_repository(local, repository):
    session = local.session()["id"]
    body = {"session_id": session, "command": ["true"], "git": {"url": repository.url}}
    answer = local.post("/runs", json=body)
    assert answer.status_code == 422, answer.text
    assert "git" in answer.text and "session is made with its own" in answer.text


def test_a_run_that_waits_has_its_repository_after_a_restart(make_server, repository):
    server = make_server(SANDBOX_GIT_ALLOW="file", SANDBOX_MAX_CONCURRENT_RUNS=1,
                         SANDBOX_STORE_BACKEND="sqlite")
    first = server.start_run("sleep", "60").json()["id"]
    url = repository.url.replace("file://", "file:///.")
    run = run_of(server, url, "cat", "a.txt", wait=0).json()
    assert run["phase"] == "queued" and len(kept(server)) == 1
    server.restart()
    assert server.post(f"/runs/{first}/cancel").json()["cancelled"]
    done = server.get(f"/runs/{run['id']}").json()
    assert eventually(lambda: server.get(f"/runs/{run['id']}").json()["phase"] == "completed"), done
    assert eventually(lambda: not kept(server))


def test_a_user_has_few_runs_with_a_repository(make_server, repository):
    server = make_server(SANDBOX_GIT_ALLOW="file", SANDBOX_MAX_CONCURRENT_RUNS=1)
    server.start_run("sleep", "60")
    for _ in range(16):
        assert run_of(server, repository.url, "true", wait=0).json()["phase"] == "queued"
    answer = run_of(server, repository.url, "true", wait=0)
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "quota_exceeded")
    assert answer.json()["error"]["details"]["quota"] == "runs_with_git"


@pytest.mark.parametrize("url", ["http://user:{}@127.0.0.1:1/r", "file://user:{}@/r"])
def test_credentials_of_a_runs_url_are_told_to_nobody(make_server, url):
    server = make_server(SANDBOX_GIT_ALLOW="http,https,file", SANDBOX_LOG_LEVEL="debug")
    answer = run_of(server, url.format(SECRET), "true")
    assert answer.status_code == 422 and SECRET not in answer.text
    server.stop()
    assert SECRET.encode() not in told(server)


def test_the_same_key_clones_once(local, repository):
    body = {"base_image": "host", "command": ["cat", "a.txt"], "git": {"url": repository.url}}
    key = {"Idempotency-Key": "k"}
    first = local.post("/runs", params={"wait": 30}, json=body, headers=key).json()
    repository.commit("v3")
    again = local.post("/runs", params={"wait": 30}, json=body, headers=key).json()
    assert (again["id"], again["stdout"]) == (first["id"], "v2\n")
    body["git"]["ref"] = "v1"
    assert local.post("/runs", json=body, headers=key).status_code == 409


def test_a_run_that_is_canceled_while_it_waits_leaves_no_repository(make_server, repository):
    server = make_server(SANDBOX_GIT_ALLOW="file", SANDBOX_MAX_CONCURRENT_RUNS=1)
    server.start_run("sleep", "60")
    run = run_of(server, repository.url, "true", wait=0).json()
    assert len(kept(server)) == 1
    server.post(f"/runs/{run['id']}/cancel")
    assert eventually(lambda: not kept(server))


@pytest.mark.parametrize("of", ["runs", "sessions"])
def test_a_clone_does_not_hold_up_the_end_of_the_server(make_server, of):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        server = make_server(SANDBOX_GIT_ALLOW="http,private", SANDBOX_GIT_TIMEOUT_SEC=300)
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/x"
        body = {"base_image": "host", "git": {"url": url}}
        if of == "runs":
            body["command"] = ["true"]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(server.post, f"/{of}", json=body, timeout=60 * SLOWER)
            peer, _ = mute.accept()
            with peer:
                begun = time.monotonic()
                assert server.stop() == 0
                assert time.monotonic() - begun < 15 * SLOWER
            try:
                answer = waiting.result()
            except httpx.TransportError:
                return  # it went before it could say so
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
