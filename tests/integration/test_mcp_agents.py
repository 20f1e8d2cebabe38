"""What agents that others wrote show to their model of what the tools answer. Codex sends only
structuredContent where there is one; Claude Code sends it in the place of all texts."""
import base64
import json

import pytest

import agents
from test_mcp import PNG
from test_mcp_stdio import host  # pylint: disable=unused-import

SHOWN = base64.b64encode(PNG).decode()
FIGURE = f"""
import base64
class Figure:
    def _repr_png_(self):
        return base64.b64decode("{SHOWN}")
print("drawn")
Figure()
"""
pytestmark = pytest.mark.once
each_agent = pytest.mark.parametrize("agent", [
    pytest.param(agents.CLAUDE_CODE, id="claude-code"), pytest.param(agents.CODEX, id="codex")])


def images(blocks):
    return [b["image"] for b in blocks if "image" in b]


def text(blocks):
    return "\n".join(b["text"] for b in blocks if "text" in b)


@each_agent
def test_a_model_sees_pictures_and_texts(host, agent):  # pylint: disable=redefined-outer-name
    """A picture is an image, and is not sent a second time as base64; a text is that text."""
    *_, picture, figure, note, plain = agent.show(host.belljar, [
        ("upload_file", {"session_id": "s", "filename": "p.png", "content_base64": SHOWN}),
        ("upload_file", {"session_id": "s", "filename": "n.txt", "content_base64": "aGUsbGxvCg=="}),
        ("read_artifact", {"session_id": "s", "path": "p.png"}),
        ("run_python", {"session_id": "s", "kernel": True, "code": FIGURE}),
        ("read_artifact", {"session_id": "s", "path": "n.txt"}),
        ("run_python", {"session_id": "s", "code": "print(6 * 7)"})])
    assert images(picture) == [SHOWN] and SHOWN not in text(picture), picture
    assert "image/png" in text(picture)
    assert images(figure) == [SHOWN] and SHOWN not in text(figure), figure
    assert '"stdout":"drawn\\n"' in text(figure)
    assert "he,llo\n" in text(note) and "aGUsbGxvCg" not in text(note), note
    assert not images(plain)
    printed = next(line for line in text(plain).splitlines() if line.startswith("{"))
    assert json.loads(printed)["stdout"] == "42\n"
