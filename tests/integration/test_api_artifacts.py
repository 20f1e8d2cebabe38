"""/runs/{id}/artifacts: what is listed, what can be downloaded, and how."""
import gzip
import hashlib
import socket
import time

import httpx
import pytest

from server import BASE, make_server, server, server_of_users, users  # noqa: F401 (fixtures)

TEN = b"0123456789"


@pytest.fixture
def run(server):
    """A run that left out.txt with ten bytes."""
    return server.sh("printf 0123456789 >out.txt", capture_patterns=["out.txt"])


def url_of(run, path="out.txt"):
    return f"/runs/{run['id']}/artifacts/{path}"


def raw(server, target, headers=""):
    """An answer to a target that no client library would send: status, head, body."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as s:
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {server.key}\r\n"
                  f"Connection: close\r\n{headers}\r\n".encode())
        data = b""
        while more := s.recv(65536):
            data += more
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body


# --- the list ---

def test_what_is_left_is_listed(server, run):
    answer = server.get(f"/runs/{run['id']}/artifacts")
    assert answer.status_code == 200
    assert answer.json() == {"items": [{
        "path": "out.txt", "size": 10, "mime": "text/plain",
        "sha256": hashlib.sha256(TEN).hexdigest(),
        "download_url": f"{BASE}{url_of(run)}"}]}
    assert server.client().get(server.url + answer.json()["items"][0]["download_url"]
                               ).content == TEN


@pytest.mark.once
def test_only_what_was_asked_for_is_kept(server):
    run = server.sh("mkdir -p d/e; echo 1 >d/e/a.csv; echo 2 >b.csv; echo 3 >c.log; "
                    "ln -s b.csv l.csv", capture_patterns=["*.csv"])
    items = server.get(f"/runs/{run['id']}/artifacts").json()["items"]
    assert [i["path"] for i in items] == ["b.csv", "d/e/a.csv"]
    assert server.get(url_of(run, "d/e/a.csv")).text == "1\n"
    assert server.get(url_of(run, "c.log")).status_code == 404
    assert server.get(url_of(run, "l.csv")).status_code == 404
    assert server.get(url_of(run, "d")).status_code == 404


@pytest.mark.once
def test_a_run_without_any_has_an_empty_list(server):
    run = server.sh("true")
    assert server.get(f"/runs/{run['id']}/artifacts").json() == {"items": []}
    live = server.start_run("sleep", "5", capture_patterns=["*"]).json()
    assert server.get(f"/runs/{live['id']}/artifacts").json() == {"items": []}
    server.post(f"/runs/{live['id']}/cancel")


@pytest.mark.once
@pytest.mark.delegated
def test_a_run_that_is_out_of_memory_leaves_what_it_wrote(server):
    if "memory" in server.sh("true")["resource_usage"]["not_enforced"]:
        pytest.skip("memory is not enforced for this user on this host")
    hog = "echo x >o; python3 -c 'x = bytearray(300 << 20)'"
    over = server.sh(hog, capture_patterns=["o"], resources={"memory_mb": 64})
    assert over["reason_code"] == "oom_killed", over
    kept = [item["path"] for item in over["artifacts"]]
    # Where the kernel ends the whole box, its files are gone, and that is said.
    assert kept == ([] if "went with it" in over["message"] else ["o"]), over


def test_every_name_can_be_downloaded_by_its_url(server):
    names = ["a b.txt", "100%.txt", "\u00e4\u20ac.txt", "q?#&+=.txt", "semi;colon,.txt", "'q'.txt",
             "d/x y/z.txt", "\"dq\".txt"]
    script = ("import os, sys\nfor n in sys.argv[1:]:\n"
              "    os.makedirs(os.path.dirname(n) or '.', exist_ok=True)\n"
              "    open(n, 'w').write(n)")
    run = server.run("python3", "-c", script, *names, capture_patterns=["*.txt"])
    items = server.get(f"/runs/{run['id']}/artifacts").json()["items"]
    assert {i["path"] for i in items} == set(names)
    for item in items:
        answer = server.http.get(server.url + item["download_url"])
        assert (answer.status_code, answer.text) == (200, item["path"])
        name = item["path"].rsplit("/", 1)[-1]
        said = answer.headers["content-disposition"]
        assert said.startswith('attachment; filename="')
        assert httpx.URL("http://x/" + said.split("filename*=UTF-8''")[1]).path == "/" + name


# --- downloads ---

def test_a_download_has_its_headers(server, run):
    answer = server.get(url_of(run))
    assert (answer.status_code, answer.content) == (200, TEN)
    tag = f'"{hashlib.sha256(TEN).hexdigest()}"'
    expected = {
        "content-type": "text/plain", "content-length": "10", "accept-ranges": "bytes",
        "etag": tag, "x-content-type-options": "nosniff", "cache-control": "private",
        "content-security-policy": "sandbox; default-src 'none'",
        "content-disposition": "attachment; filename=\"out.txt\"; filename*=UTF-8''out.txt",
    }
    assert {name: answer.headers.get(name) for name in expected} == expected
    head = server.http.head(url_of(run))
    assert (head.status_code, head.content) == (200, b"")
    assert {name: head.headers.get(name) for name in expected} == expected


@pytest.mark.once
@pytest.mark.parametrize("value, part", [
    ("bytes=0-0", (0, 0)), ("bytes=2-5", (2, 5)), ("bytes=5-", (5, 9)), ("bytes=-3", (7, 9)),
    ("bytes=0-999", (0, 9)), ("bytes=-99", (0, 9)), ("bytes=9-9", (9, 9)),
])
def test_one_range_is_a_part(server, run, value, part):
    answer = server.get(url_of(run), headers={"Range": value})
    first, last = part
    assert (answer.status_code, answer.content) == (206, TEN[first:last + 1])
    assert answer.headers["content-range"] == f"bytes {first}-{last}/10"
    assert answer.headers["content-length"] == str(last - first + 1)
    assert "etag" in answer.headers


@pytest.mark.once
def test_any_other_range_can_not_be_satisfied(server, run):
    for value in ("bytes=5-2", "bytes=0-1,", "bytes=10-", "bytes=99-100", "items=0-1", "bytes",
                  "bytes=", "bytes=-", "bytes=-0", "bytes=a-b", "bytes=1-2x", "bytes= 1-2",
                  "bytes=-1-2", "bytes=0x1-2", "bytes=99999999999999999999-", "lines=1"):
        answer = server.get(url_of(run), headers={"Range": value})
        assert answer.status_code == 416, value
        assert answer.headers["content-range"] == "bytes */10"
        assert answer.json()["error"]["code"] == "invalid_range"


@pytest.mark.once
def test_several_ranges_are_not_supported(server, run):
    answer = server.get(url_of(run), headers={"Range": "bytes=0-1,3-4"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */10")
    assert answer.json()["error"] == {"code": "invalid_request", "details": {"ranges": 2},
                                      "message": "Multi-range not supported"}


@pytest.mark.once
def test_links_are_not_listed(server):
    run = server.sh("echo a >out.txt; ln -s out.txt link.txt; ln -s /etc/passwd far.txt",
                    capture_patterns=["*"])
    assert [item["path"] for item in run["artifacts"]] == ["out.txt"]
    assert server.get(url_of(run, "link.txt")).status_code == 404


@pytest.mark.once
def test_an_empty_file_has_no_part(server):
    run = server.sh(": >empty", capture_patterns=["empty"])
    answer = server.get(url_of(run, "empty"))
    assert (answer.status_code, answer.content) == (200, b"")
    for value in ("bytes=0-", "bytes=-1", "bytes=0-0"):
        answer = server.get(url_of(run, "empty"), headers={"Range": value})
        assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */0")


@pytest.mark.once
def test_a_client_that_has_it_need_not_load_it(server, run):
    tag = server.get(url_of(run)).headers["etag"]
    for value in (tag, f'"x", {tag}', f"W/{tag}", "*"):
        answer = server.get(url_of(run), headers={"If-None-Match": value, "Range": "bytes=0-1"})
        assert (answer.status_code, answer.content) == (304, b""), value
        assert answer.headers["etag"] == tag
    assert server.get(url_of(run), headers={"If-None-Match": '"x"'}).status_code == 200
    for value, status in ((tag, 206), ('"x"', 200), (f"W/{tag}", 200),
                          ("Sat, 31 Jan 2026 12:00:00 GMT", 200)):
        answer = server.get(url_of(run), headers={"If-Range": value, "Range": "bytes=0-1"})
        assert answer.status_code == status, value


@pytest.mark.once
def test_text_is_compressed_for_who_accepts_it(server):
    run = server.sh("seq 1 20000 >n.csv; seq 1 20000 >n.png; seq 1 100 >small.csv",
                    capture_patterns=["n.*", "small.csv"])
    content = "".join(f"{n}\n" for n in range(1, 20001)).encode()

    def get(name, accept, **headers):
        target = f"{BASE}{url_of(run, name)}"
        lines = "".join(f"{k}: {v}\r\n" for k, v in {"Accept-Encoding": accept, **headers}.items())
        return raw(server, target, lines)

    answer = server.get(url_of(run, "n.csv"), headers={"Accept-Encoding": "gzip"})
    assert answer.content == content  # as the library unpacked it
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["etag"].startswith('W/"')
    assert answer.headers["vary"] == "Accept-Encoding"
    # HTTP/1.0 has no chunks: the end of the connection is the end of the file
    with socket.create_connection(("127.0.0.1", server.port), 10) as s:
        s.sendall(f"GET {BASE}{url_of(run, 'n.csv')} HTTP/1.0\r\nHost: localhost\r\n"
                  f"X-API-KEY: {server.key}\r\nAccept-Encoding: gzip\r\n\r\n".encode())
        data = b""
        while more := s.recv(65536):
            data += more
    assert gzip.decompress(data.partition(b"\r\n\r\n")[2]) == content

    for name, accept, more in (("n.csv", "identity", {}), ("n.csv", "gzip;q=0", {}),
                               ("n.png", "gzip", {}), ("small.csv", "gzip", {}),
                               ("n.csv", "gzip", {"Range": "bytes=0-1"})):
        status, head, _ = get(name, accept, **more)
        assert "content-encoding" not in head.lower(), (name, accept, more)
        assert status == (206 if more else 200)
        assert ("vary: accept-encoding" in head.lower()) == name.endswith(".csv")
    weak = answer.headers["etag"]
    assert get("n.csv", "gzip", **{"If-None-Match": weak})[0] == 304
    assert get("n.csv", "identity", **{"If-None-Match": weak})[0] == 304
    head = server.http.head(url_of(run, "n.csv"), headers={"Accept-Encoding": "gzip"})
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-encoding"] == "gzip"


@pytest.mark.once
def test_a_large_file_arrives_whole_and_in_parts(server):
    run = server.run("python3", "-c",
                     "import hashlib\nd=b''.join(hashlib.sha256(b'%d' % i).digest()"
                     " for i in range(300000))\nopen('big.bin', 'wb').write(d)",
                     capture_patterns=["big.bin"])
    content = b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(300000))
    assert server.get(url_of(run, "big.bin")).content == content
    got = b""
    while len(got) < len(content):
        end = len(got) + (3 << 20) + 7
        part = server.get(url_of(run, "big.bin"), headers={"Range": f"bytes={len(got)}-{end}"})
        assert part.status_code == 206
        got += part.content
    assert got == content


# --- what can not be asked for ---

@pytest.mark.once
def test_a_path_that_leads_elsewhere_is_refused(server, run):
    for path in ("../out.txt", "..", "a/../out.txt", "%2E%2E/x", "%2e%2e%2fx", "%252E%252E/x",
                 "..%5cx", "a%5c..%5cb", "a\\b", "/etc/passwd", "a//b", "./out.txt", "a/./b",
                 "out.txt/", "%2Fetc/passwd", "a%00b", "a%01b", "a%0ab", "x..y",
                 "%25252525252e%25252525252e/x", "a" * 5000):
        status, _, body = raw(server, f"{BASE}{url_of(run, path)}")
        assert status == 400, path
        assert b"invalid_path" in body or b"bad_request" in body, path


@pytest.mark.once
def test_what_is_not_there_is_not_found(server, run):
    for path in ("missing.txt", "out.txt.", "OUT.TXT", "artifacts.json", "out.txt/x", "a" * 200):
        answer = server.get(url_of(run, path))
        assert (answer.status_code, answer.json()["detail"]) == (404, "artifact_not_found"), path
    for path in ("/runs/nonsense/artifacts", "/runs/nonsense/artifacts/out.txt",
                 "/runs/00000000-0000-4000-8000-000000000000/artifacts/out.txt"):
        answer = server.get(path)
        assert (answer.status_code, answer.json()["detail"]) == (404, "run_not_found"), path
    answer = server.get(f"/runs/{run['id']}/elsewhere")
    assert (answer.status_code, answer.json()["detail"]) == (404, "Not Found")
    assert server.post(url_of(run)).status_code == 405


def test_others_find_nothing_and_admins_may_read(server_of_users):
    server, keys = server_of_users
    clients = {name: server.client(keys[name]) for name in keys}
    run = server.start_run("sh", "-c", "printf 0123456789 >out.txt", client=clients["ann"],
                           capture_patterns=["*"], params={"wait": 30}).json()
    for path in (f"/runs/{run['id']}/artifacts", url_of(run)):
        assert clients["ann"].get(path).status_code == 200
        assert clients["boss"].get(path).status_code == 200
        answer = clients["bob"].get(path)
        assert (answer.status_code, answer.json()["detail"]) == (404, "run_not_found")
        assert server.client("").get(path).status_code == 401


@pytest.mark.once
def test_artifacts_survive_a_restart(server, run):
    server.restart()
    assert server.get(url_of(run)).content == TEN


@pytest.mark.once
def test_runs_at_once_do_not_evade_the_quota(make_server):
    """Eight runs of 3 MB end together; their user may keep 8 MB: two runs keep theirs."""
    server = make_server(SANDBOX_MAX_ARTIFACT_BYTES_PER_USER_MB=8)
    begin = "while [ $(date +%s%N) -lt $BEGIN ]; do sleep 0.01; done; "
    at = str(time.time_ns() + 3_000_000_000)
    runs = [server.start_run("sh", "-c", begin + "head -c 3145728 /dev/zero >out.bin",
                             env={"BEGIN": at}, capture_patterns=["out.bin"]).json()
            for _ in range(8)]
    over = [server.wait_for(run["id"]) for run in runs]
    assert {run["phase"] for run in over} == {"completed"}
    kept = [server.get(f"/runs/{run['id']}/artifacts").json()["items"] for run in runs]
    assert sum(i["size"] for items in kept for i in items) == 2 * 3145728


@pytest.mark.once
def test_a_day_has_its_share_of_artifacts(make_server):
    server = make_server(SANDBOX_MAX_ARTIFACT_MB_PER_USER_PER_DAY=1)
    script = "head -c 700000 /dev/zero >a.bin; head -c 700000 /dev/zero >b.bin"
    run = server.sh(script, capture_patterns=["*.bin"])
    assert [a["size"] for a in run["artifacts"]] == [700000]
    assert run["resource_usage"]["artifact_files_skipped"] == 1
    assert server.sh("head -c 700000 /dev/zero >c.bin", capture_patterns=["*.bin"])["artifacts"] == []
    assert server.sh("true")["phase"] == "completed"
