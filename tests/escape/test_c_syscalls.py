"""Part C: system calls, privileges, and the kernel's other doors."""
import os
import shutil
import stat
import subprocess

import pytest
import syscalls
from outside import USER_ID

OURS = 125  # the exit status of a refusal
NONE = ["0" * 16]


@pytest.mark.parametrize("name", syscalls.ATTACKS)
def test_syscall_attack_fails(fails, name):
    fails("syscalls", name)


# --- privileges --------------------------------------------------------------------


@pytest.fixture
def confined(box, cache):
    key = "confined", box.who
    if key not in cache:
        cache[key] = box.run("confined.py").json()
    assert len(cache[key]) == 9  # five threads here, four programs executed
    return cache[key]


@pytest.mark.parametrize("field, value", [
    ("NoNewPrivs", ["1"]), ("Seccomp", ["2"]), ("CapInh", NONE), ("CapPrm", NONE),
    ("CapEff", NONE), ("CapBnd", NONE), ("CapAmb", NONE), ("Uid", ["1000"] * 4),
    ("Gid", ["1000"] * 4)])
def test_every_thread_and_program_is_confined(confined, field, value):
    assert [row[field] for row in confined] == [value] * len(confined)


@pytest.mark.parametrize("name", ["su", "mount", "umount", "passwd", "newgrp", "chsh", "gpasswd"])
def test_setuid_program_gains_nothing(box, name):
    """The loader tells what it was started with, unless the program gains privilege."""
    path = shutil.which(name)
    if not path or not os.stat(path).st_mode & stat.S_ISUID:
        pytest.skip(f"the host has no setuid {name}")
    command = ["env", "LD_SHOW_AUXV=1", path, "--version"]
    lines = dict(line.split(":", 1) for line in box.run(*command).out.splitlines()
                 if line.startswith("AT_"))
    assert lines["AT_SECURE"].strip() == "0"
    assert lines["AT_UID"].strip() == lines["AT_EUID"].strip() == "1000"
    user = {"user": USER_ID, "group": USER_ID, "extra_groups": []} if os.geteuid() == 0 else {}
    outside = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **user)
    assert "AT_EUID" not in outside.stdout  # it did gain some


# --- fail closed -------------------------------------------------------------------


@pytest.mark.parametrize("profile, word", [
    ("{", "line 1"),
    ('{"defaultAction": "SCMP_ACT_ALLOW"}', "syscalls"),
    ('{"defaultAction": "SCMP_ACT_NOTIFY", "syscalls": []}', "SCMP_ACT_NOTIFY"),
    ('{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []}', "every box needs"),
    (None, "No such file")], ids=["broken", "half", "unknown", "useless", "missing"])
def test_keeper_without_its_filter_does_not_start(box, profile, word):
    path = box.home / "profile.json"
    if profile:
        path = box.belljar.file("profile.json", profile)
    done = box.belljar.run("keeper", "--root", box.home / "keeper", "--seccomp", path)
    assert done.returncode == OURS and word in done.stderr
    assert not (box.home / "keeper/keeper.sock").exists()


def test_what_can_not_be_enforced_can_be_required(box):
    usual = box.run("echo", "ran")
    assert usual["reason_code"] == "exit_code_0" and usual.out == "ran\n"
    result = box.run("echo", "ran", options=["--require", "all"])
    if usual["not_enforced"]:
        assert result["reason_code"] == "policy_denied" and result.out == ""
        assert all(facet in result["message"] for facet in usual["not_enforced"])
    else:
        assert result.out == "ran\n"


@pytest.mark.parametrize("forbid, outcome", [(False, "ran\n"), (True, "")],
                         ids=["control", "forbidden"])
def test_without_user_namespaces_nothing_runs(box, forbid, outcome):
    """A step that fails refuses the run: here the very first."""
    script = "echo 0 >/proc/sys/user/max_user_namespaces; " if forbid else ""
    done = box.belljar.command("unshare", "--user", "--map-root-user", "sh", "-c",
                               script + '"$@"', "sh", box.belljar.path, "run", "-q", "--", "echo",
                               "ran", env=box.env())
    assert done.stdout == outcome
    assert done.returncode == (OURS if forbid else 0)
