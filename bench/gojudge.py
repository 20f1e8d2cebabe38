"""go-judge beside us, where it is installed: the same programs through its REST, by the same load
generator, in turns. Used by bench/run; HACKING.md says how to install go-judge.

The program is $GO_JUDGE, or `go-judge` of the PATH. It runs with its own defaults, without logs.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

import load
import serve

CLIENTS = (1, 8, 16)
PROGRAMS = {"true": ["/bin/true"], "python": ["/usr/bin/python3", "-c", "print(1)"]}
# What a guest can see of its own isolation: flags, then one line for each namespace.
PROBE = ("grep -E '^(NoNewPrivs|Seccomp|CapEff):' /proc/self/status;"
         "cd /proc/self/ns; for n in *; do echo ns $n $(readlink $n); done")
START_SECONDS = 10
STOP_SECONDS = 30


def find():
    """Its path, or None."""
    return shutil.which(os.environ.get("GO_JUDGE") or "go-judge")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def request(argv):
    pipes = [{"content": ""}, {"name": "stdout", "max": 65536}, {"name": "stderr", "max": 65536}]
    return {"cmd": [{"args": argv, "env": ["PATH=/usr/bin:/bin"], "files": pipes,
                     "cpuLimit": 30 * 10**9, "memoryLimit": 256 << 20, "procLimit": 50}]}


def run_work(port, argv):
    return load.post(port, "/run", {}, request(argv), '"status":"Accepted"')


class Server:
    """go-judge with a directory and a cgroup of its own."""

    def __init__(self, program, scratch):
        self.port, self.cgroup = free_port(), f"belljar-bench-{os.getpid()}"
        store = scratch / "go-judge"
        store.mkdir()
        self.process = subprocess.Popen(
            [program, "-silent", "-http-addr", f"127.0.0.1:{self.port}", "-dir", store,
             "-cgroup-prefix", self.cgroup], cwd=store, env={**os.environ, "GIN_MODE": "release"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.version = self._await_version()

    def ask(self, path, value=None):
        body = None if value is None else json.dumps(value).encode()
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body,
                                       {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=START_SECONDS) as answer:
            return json.load(answer)

    def _await_version(self):
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError):
                return self.ask("/version")["buildVersion"]
            time.sleep(0.05)
        self.stop()
        raise RuntimeError("go-judge does not start")

    def stop(self):
        """It ends by SIGINT only, and leaves its cgroups."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for top in pathlib.Path("/sys/fs/cgroup").glob(f"**/{self.cgroup}"):
            for path, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)


def isolation(said, cgroup_type, ours):
    """One sentence of what the guest `said` by PROBE; `ours` are the namespaces of this host."""
    lines = [line.split() for line in said.splitlines()]
    flags = {row[0].rstrip(":"): row[1] for row in lines if row[0] != "ns"}
    spaces = [row[1] for row in lines if row[0] == "ns" and "_for_" not in row[1]
              and ours.get(row[1]) not in (None, row[2])]
    caps = "none" if int(flags["CapEff"], 16) == 0 else flags["CapEff"]
    return "; ".join([
        f"namespaces {' '.join(spaces) or 'none'}",
        f"cgroup {f'v{cgroup_type}' if cgroup_type else 'none'}",
        f"seccomp {'no' if flags['Seccomp'] == '0' else 'yes'}",
        f"no_new_privs {'yes' if flags['NoNewPrivs'] == '1' else 'no'}",
        f"capabilities {caps}",
    ])


def probe(server):
    ours = {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}
    answer = server.ask("/run", request(["/bin/sh", "-c", PROBE]))[0]
    return isolation(answer["files"]["stdout"],
                     server.ask("/config")["runnerConfig"].get("cgroupType"), ours)


def measure(program, scratch, seconds=6):
    """{"gojudge": {"installed": ..., "rates": {program: {clients: {"ours", "theirs"}}}}}"""
    theirs = find()
    if not theirs:
        return {"gojudge": {"installed": False}}
    us = serve.Server(program, scratch / "beside-go-judge", QUEUE_MAX_LENGTH=1000)
    try:
        them = Server(theirs, scratch)
        try:
            rates = {name: {n: rates_of(us, them, argv, n, seconds) for n in CLIENTS}
                     for name, argv in PROGRAMS.items()}
            return {"gojudge": {"installed": True, "version": them.version,
                                "isolation": probe(them), "rates": rates}}
        finally:
            them.stop()
    finally:
        us.stop()
        us.end_keeper()


def rates_of(us, them, argv, clients, seconds):
    works = (serve.run_work(us.port, argv), run_work(them.port, argv))
    load.rates_in_turns(works, clients, 0.2, 1)  # warm
    ours, theirs = load.rates_in_turns(works, clients, seconds)
    return {"ours": ours, "theirs": theirs}


def each(m):
    """(program, clients, rates or None)"""
    rates = m["gojudge"].get("rates")
    return [(name, n, rates and rates[name][n]) for name in PROGRAMS for n in CLIENTS]


def goals(m):
    return [(f"go-judge / serve {name} runs per second, {n} clients",
             row and row["theirs"] / row["ours"], 1 / 2) for name, n, row in each(m)]


def show(m):
    for name, n, row in each(m):
        said = f"serve {row['ours']:.0f}, go-judge {row['theirs']:.0f}" if row else "not installed"
        print(f"go-judge {name}, runs per second, {n:2} clients: {said}")
    if m["gojudge"]["installed"]:
        print(f"go-judge {m['gojudge']['version']} isolates here: {m['gojudge']['isolation']}; "
              f"boxes are used again by later runs")
