"""What an interpreter shows as images: figures and other pictures, in real boxes."""
import base64
import subprocess

import pytest

from jar import SLOWER
from server import make_server, server, users  # noqa: F401 (fixtures)
from test_kernel import Kernel, told

HAS_MATPLOTLIB = subprocess.run(["/usr/bin/python3", "-c", "import matplotlib, PIL"], check=False,
                                capture_output=True).returncode == 0
pytestmark = [pytest.mark.once, pytest.mark.skipif(
    not HAS_MATPLOTLIB, reason="the host has no python3-matplotlib and python3-pil")]
START = "import matplotlib.pyplot as plt\n"


class Figures(Kernel):
    def show(self, code):
        """(what is told of it, images)"""
        result = self.ask(code, limits={"seconds": 100 * SLOWER})
        images = [c for c in result["content"] if c["type"] == "image"]
        for image in images:
            start = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff"}[image["mimeType"]]
            assert base64.b64decode(image["data"]).startswith(start)
        return told(result), images


@pytest.fixture
def kernel(server):  # noqa: F811
    return Figures(server)


def test_each_show_is_a_picture_of_its_own(kernel):
    it, images = kernel.show(START + "plt.plot([1, 2, 3]); plt.show()\n"
                             "plt.bar([1, 2], [3, 4]); plt.show(block=True)\n"
                             "plt.plot([4]);")
    assert it["exit_code"] == 0 and it["message"] is None and it["stderr"] == "", it
    assert len({image["data"] for image in images}) == 3
    it, images = kernel.show("plt.get_fignums()")
    assert it["result"] == "[]" and not images  # they are closed


def test_a_figure_that_can_not_be_drawn_is_told_of_and_keeps_no_other(kernel):
    it, images = kernel.show(START + "plt.title(r'$\\foo$'); plt.figure(); plt.plot([1])")
    assert len(images) == 1 and it["exit_code"] == 0 and not it["truncated"]
    assert "1 image is not shown: ValueError" in it["message"]
    it, images = kernel.show("plt.plot([1]);")
    assert len(images) == 1 and it["message"] is None


def test_what_is_too_large_or_too_much_is_told_of(kernel):
    it, images = kernel.show(START + "import numpy as np\nplt.figure(figsize=(20, 20))\n"
                             "plt.imshow(np.random.rand(1400, 1400, 3)); plt.figure(); plt.plot([1]);")
    assert len(images) == 1 and it["truncated"]
    assert "1 image is not shown: it has " in it["message"] and "4194304" in it["message"]
    it, images = kernel.show("for i in range(10): plt.figure(); plt.plot([i])")
    assert len(images) == 8 and it["truncated"]
    assert it["message"] == "2 images are not shown: an execution has at most 8"
    it, images = kernel.show("plt.get_fignums()")
    assert it["result"] == "[]" and not images and not it["truncated"]


def test_the_last_expression_is_shown_if_it_is_a_picture(kernel):
    _, images = kernel.show(START + "fig, ax = plt.subplots()\nfig")
    assert len(images) == 1  # not twice
    it, images = kernel.show("ax.plot([5, 6]); fig")
    assert len(images) == 1 and it["result"].startswith("<Figure size")
    _, images = kernel.show("from matplotlib.figure import Figure\nf = Figure(); f.subplots(); f")
    assert len(images) == 1
    _, images = kernel.show("from PIL import Image\nImage.new('RGB', (9, 9))")
    assert len(images) == 1
    _, images = kernel.show("class J:\n    def _repr_jpeg_(self):\n        import io\n"
                            "        f = io.BytesIO(); Image.new('RGB', (9, 9)).save(f, 'JPEG')\n"
                            "        return f.getvalue()\nJ()")
    assert [image["mimeType"] for image in images] == ["image/jpeg"]
