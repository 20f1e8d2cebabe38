"""Files of sessions as MCP shows them: how many there are, what they hold, who hears of them."""
from server import make_server, server  # noqa: F401 (fixtures)
from test_mcp import Client, client, once  # noqa: F401 (fixtures)

MANY = "import os; os.mkdir('a'); [open(f'a/f{i:05}', 'w').close() for i in range(%d)]"


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
