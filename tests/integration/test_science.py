"""The libraries that people expect of a Python for data work in a box, each of them to a file."""
import json

import pytest

PROGRAM = """
import json, os
import numpy, pandas
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import seaborn
from openpyxl import load_workbook
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

frame = pandas.DataFrame({"x": numpy.arange(10), "y": numpy.arange(10) ** 2})
frame.to_csv("t.csv", index=False)
frame.to_excel("t.xlsx", index=False)
frame.plot(x="x", y="y")
plt.savefig("plot.png")
seaborn.scatterplot(data=frame, x="x", y="y").figure.savefig("sea.jpg")
page = Canvas("t.pdf", pagesize=A4)
page.drawImage("plot.png", 50, 500, 300, 200)
page.save()
print(json.dumps({
    "sum": int(pandas.read_csv("t.csv").y.sum()),
    "cell": load_workbook("t.xlsx").active["B4"].value,
    "png": open("plot.png", "rb").read(8).hex(),
    "jpg": open("sea.jpg", "rb").read(3).hex(),
    "pdf": open("t.pdf", "rb").read(5).decode(),
}))
"""


@pytest.mark.heavy
def test_every_library_makes_its_file(belljar):
    done = belljar.run("run", "--lang", "python", "--timeout", "120s", "--memory", "1G",
                       input=PROGRAM, timeout=180)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "sum": 285, "cell": 4, "png": "89504e470d0a1a0a", "jpg": "ffd8ff", "pdf": "%PDF-"}
