#!/usr/bin/python3
"""From a table to a report: CSV in, chart and PDF made in a sandbox, PDF out.

    examples/csv_to_pdf/csv_to_pdf.py [CSV [PDF]]

Speaks MCP with `belljar mcp` as any client would, by one JSON message per line; nothing but
Python's own library is needed here. What the sandbox needs is on the host: `belljar doctor` says
what is missing (python3-pandas, python3-matplotlib, python3-reportlab). $BELLJAR names the
program, if it is not in the PATH.
"""
import base64
import json
import os
import pathlib
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
SESSION = "csv-to-pdf"

# Runs in the sandbox: without a network, and with these files only.
REPORT = """
import matplotlib
matplotlib.use("Agg")
import pandas
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

table = pandas.read_csv("/mnt/data/table.csv")
sums = table.pivot_table(index="month", columns="region", values="amount", aggfunc="sum")
sums.plot.bar(rot=0, title="Amount by month").figure.savefig("/mnt/data/chart.png", dpi=150)

page = Canvas("/mnt/data/report.pdf", pagesize=A4)
page.setFont("Helvetica-Bold", 18)
page.drawString(60, 780, "Sales")
page.setFont("Helvetica", 11)
page.drawString(60, 755, f"{len(table)} rows, {table.amount.sum()} in all")
page.drawImage("/mnt/data/chart.png", 60, 400, 470, 340, preserveAspectRatio=True)
page.save()
print(table.amount.sum())
"""


class Tools:
    """The tools of `belljar mcp`."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.count = 0
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={},
                 clientInfo={"name": "csv_to_pdf", "version": "1"})
        self.send(method="notifications/initialized")

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        self.count += 1
        self.send(id=self.count, method=method, params=params)
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") != self.count:
                continue  # something that the server says by itself
            if "error" in answer:
                sys.exit(f"{method}: {answer['error']['message']}")
            return answer["result"]
        sys.exit("belljar mcp ended")

    def call(self, name, **arguments):
        result = self.ask("tools/call", name=name, arguments={"session_id": SESSION, **arguments})
        if result.get("isError"):
            sys.exit(f"{name}: {result['content'][0]['text']}")
        return result["structuredContent"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    table = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "sales.csv")
    report = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "report.pdf")
    tools = Tools(os.environ.get("BELLJAR", "belljar"), "mcp")
    tools.call("upload_file", filename="table.csv", overwrite=True,
               content_base64=base64.b64encode(table.read_bytes()).decode())
    ran = tools.call("run_python", code=REPORT)
    if ran["exit_code"] != 0:
        sys.exit(ran["traceback"] or ran["stderr"])
    made = next(a for a in ran["artifacts"] if a["filename"] == "report.pdf")
    with urllib.request.urlopen(made["download_url"]) as answer:
        report.write_bytes(answer.read())
    tools.call("close_session")
    tools.close()
    print(f"{report}: {made['size_bytes']} bytes, sum {ran['stdout'].strip()}")


if __name__ == "__main__":
    main()
