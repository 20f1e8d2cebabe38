"""Files of sessions as MCP shows them: how many there are, what they hold, who hears of them."""
import base64
import hashlib
import json

import pytest

from jar import eventually
from server import make_server, server  # noqa: F401 (fixtures)
from test_mcp import PNG, Client, client, listen, once  # noqa: F401 (fixtures)

MANY = "import os; os.mkdir('a'); [open(f'a/f{i:05}', 'w').close() for i in range(%d)]"


# --- which bytes they have ---

def digest_of(client, file):
    """Of what is downloaded from where the answer says that the file is."""
    content = client.http.get(file["download_url"]).content
    assert len(content) == file["size_bytes"]
    return hashlib.sha256(content).hexdigest()


@once
@pytest.mark.parametrize("options", [{}, {"kernel": True}])
def test_every_file_of_an_answer_has_its_digest(client, options):
    code = "import os; os.mkdir('d'); open('d/x', 'wb').write(os.urandom(100000)); open('y', 'w')"
    result = client.call("run_python", session_id="s", code=code, **options)
    got = result["structuredContent"]["artifacts"]
    assert {file["filename"] for file in got} == {"x", "y"}
    for file in got:
        assert file["sha256"] == digest_of(client, file)
    links = {link["uri"]: link for link in result["content"] if link["type"] == "resource_link"}
    assert {uri: link["_meta"] for uri, link in links.items()} == {
        file["path"].replace("/mnt/data", "belljar://s"): {"belljar/sha256": file["sha256"]}
        for file in got}
    # What was changed has another, and what was not the same.
    again = client.good("run_python", session_id="s", code="open('y', 'w').write('2')", **options)
    assert [file["filename"] for file in again["artifacts"]] == ["y", "x"]
    for file in again["artifacts"]:
        assert file["sha256"] == digest_of(client, file)
    assert client.good("list_artifacts", session_id="s")["artifacts"] == again["artifacts"]
    listed = {file["path"]: file.get("sha256") for file in
              client.good("list_files", session_id="s")["files"]}
    assert listed == {"/mnt/data/d": None, **{f["path"]: f["sha256"] for f in again["artifacts"]}}


@once
def test_an_uploaded_file_has_the_digest_of_what_came(client):
    data = bytes(range(256))
    got = client.good("upload_file", session_id="s", filename="u",
                      content_base64=base64.b64encode(data).decode())
    assert got["sha256"] == hashlib.sha256(data).hexdigest() == digest_of(client, got)


@once
@pytest.mark.parametrize("options", [{}, {"kernel": True}])
def test_a_file_that_is_too_large_has_no_digest(client, options):
    code = "open('large', 'wb').truncate((16 << 20) + 1); open('most', 'wb').truncate(16 << 20)"
    got = client.good("run_python", session_id="s", code=code, **options)["artifacts"]
    large, most = sorted(got, key=lambda file: file["filename"])
    assert "sha256" not in large
    if "sha256" in most:  # a machine that is busy has no time for it
        assert most["sha256"] == hashlib.sha256(bytes(16 << 20)).hexdigest()


# --- how many there are ---

@once
def test_files_over_every_limit_are_counted_and_changed_ones_come_first(client):
    got = client.good("run_python", session_id="s", code=MANY % 2600)
    assert len(got["artifacts"]) == 100
    if "artifacts_incomplete" not in got:  # a machine that is busy has no time for all
        assert got["artifacts_omitted"] == 2500
    got = client.good("run_python", session_id="s", code="".join(
        f"open('a/f{i:05}', 'w').write('1')\n" for i in (0, 1300, 2599)))
    if "artifacts_incomplete" not in got:
        assert got["artifacts_omitted"] == 2500
        assert {a["filename"] for a in got["artifacts"][:3]} == {"f00000", "f01300", "f02599"}
    got = client.good("list_files", session_id="s")
    assert got["truncated"] and len(got["files"]) <= 2000
    got = client.good("list_artifacts", session_id="s")
    assert got["artifacts_omitted"] == 2500 or got["artifacts_incomplete"]


@once
def test_a_list_of_resources_that_is_cut_says_so(client):
    client.put("x", b"", session_id="small")
    assert "_meta" not in client.ask("resources/list")["result"]
    client.good("run_python", session_id="large", code=MANY % 2100)
    cut = []
    cursor = {}
    while cursor is not None:
        result = client.ask("resources/list", cursor)["result"]
        cut += result.get("_meta", {}).get("belljar/incompleteSessions", [])
        cursor = {"cursor": result["nextCursor"]} if "nextCursor" in result else None
    assert cut == ["large"]


# --- what they hold ---

@once
def test_an_image_is_known_by_its_content(client):
    client.put("x.jpeg", PNG)
    client.put("fake.png", b"just text")
    client.put("e.png", b"")
    client.put("real.png", PNG)

    def read(name):
        result = client.call("read_artifact", session_id="s", path=name)
        assert not result["isError"]
        return result["content"]
    for name in ("x.jpeg", "real.png"):
        content, about = read(name)
        assert (content["type"], content["mimeType"]) == ("image", "image/png")
        assert base64.b64decode(content["data"]) == PNG
        assert json.loads(about["text"])["mime_type"] == "image/png"
    for name in ("fake.png", "e.png"):
        (content,) = read(name)
        assert content["type"] == "text"
        assert json.loads(content["text"])["mime_type"] == "application/octet-stream"


# --- who hears of them ---

@once
def test_who_subscribed_hears_of_a_command(client):
    client.put("a.txt", b"1", session_id="sub")
    client.ask("resources/subscribe", {"uri": "belljar://sub/a.txt"})
    got = []
    listen(client, got)
    client.good("sandbox.run", session_id="sub", command=["sh", "-c", "echo q >> a.txt"])
    assert eventually(lambda: any(m.get("params") == {"uri": "belljar://sub/a.txt"} for m in got[1:]))


# --- what is taken ---

@once
@pytest.mark.parametrize("content", ["YWJjZA==", "YWJjZA", "YWJjZA==\n", "YWJj\r\nZA ==", "YWJjZA="])
def test_base64_is_taken_as_it_is_written(client, content):
    client.good("upload_file", session_id="s", filename="./c.txt", content_base64=content,
                overwrite=None, encoding=None)
    got = client.good("run_python", session_id="s", code="print(open('c.txt').read())",
                      limits=None, env=None, kernel=None)
    assert got["stdout"] == "abcd\n"
    assert client.call("read_artifact", session_id="s", path="./c.txt")["content"] == [
        {"type": "text", "text": "abcd"}]


@once
@pytest.mark.parametrize("content", ["Y", "YWJjZ", "YWJj*A==", "====", "YW=jZA=="])
def test_what_is_no_base64_is_refused(client, content):
    assert "content_base64" in client.bad("upload_file", session_id="s", filename="c.txt",
                                          content_base64=content)


@once
def test_null_is_no_value_for_what_is_required(client):
    assert "must have code" in client.bad("run_python", session_id="s", code=None)
    client.good("run_python", session_id="s", code="1", limits={"cpu": None, "seconds": 5})
    assert client.tools["upload_file"]["annotations"]["destructiveHint"]


@once
@pytest.mark.parametrize("name", ["../s1", "a b", "é", "00000000-0000-4000-8000-000000000000"])
def test_nobody_is_told_to_create_what_can_not_be(client, name):
    said = client.bad("list_files", session_id=name)
    assert said.startswith("session_not_found") and "create" not in said and "\\x" not in said


@once
def test_a_binary_file_that_is_refused_is_said_to_be_one(make_server):
    client = Client(make_server(SANDBOX_UPLOAD_BINARIES="block"))
    assert client.bad("upload_file", session_id="s", filename="a.png",
                      content_base64=base64.b64encode(PNG).decode()).startswith("binary_refused")
