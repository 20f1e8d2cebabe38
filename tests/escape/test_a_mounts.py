"""Part A: what is mounted, what can be reached, and what is taken in and out."""
import hashlib
import os
import pathlib
import platform
import subprocess

import mounts
import pytest
from outside import HOSTILE, check_row, make_image

WRITABLE = {"/workspace", "/mnt/data", "/tmp", "/dev/shm", "/dev/pts"}


@pytest.mark.parametrize("name", mounts.ATTACKS)
def test_mount_attack_fails(fails, name):
    fails("mounts", name)


# What is the point of --exec; /dev/shm is not among it.
OWN_PROGRAMS = {"execute_in_workspace", "execute_in_mnt_data", "execute_in_tmp",
                "map_code_from_workspace"}


@pytest.mark.parametrize("name", sorted(mounts.ATTACKS))
def test_mount_attack_with_exec_fails(box, cache, outside, compiled, name):
    """In a box whose own files can be executed, nothing else is different."""
    row = mounts.ATTACKS[name]
    for needed in row.needs:
        if needed not in box.sentinels.places:
            pytest.skip("not planted: " + box.sentinels.why_not.get(needed, needed))
    key = ("mounts with exec", box.who)
    if key not in cache:
        cache[key] = box.run_table("mounts", compiled, options=["--exec"])
        assert cache[key]["workspace_exec"]
    got = cache[key].json()[name]
    if name in OWN_PROGRAMS:
        assert got["attack"][0] == "ok", got
    else:
        check_row(row, got, outside("mounts").get(name) if row.outside else None)


def test_mounts_with_exec(box):
    """/workspace, under both of its names, and /tmp can be executed from; they stay nosuid
    and nodev, and every other mount is as it was."""
    plain, own = (mounts_of(box.run("cat", "/proc/self/mountinfo", options=options).out)
                  for options in ([], ["--exec"]))
    assert plain.keys() == own.keys()
    for path in plain:
        lost = {"noexec"} if path in {"/workspace", "/mnt/data", "/tmp"} else set()
        assert plain[path] - own[path] == lost and not own[path] - plain[path], path


def mounts_of(text):
    """{mount point: set of options}, what covers others last and alone."""
    rows = (line.split() for line in text.splitlines())
    return {row[4]: set(row[5].split(",")) for row in rows}


@pytest.fixture
def seen(box, cache):
    """The mounts as the guest sees them."""
    key = "mountinfo", box.who
    if key not in cache:
        cache[key] = mounts_of(box.run("cat", "/proc/self/mountinfo").out)
    assert "/usr" in cache[key] and "/workspace" in cache[key]
    return cache[key]


def test_only_what_is_meant_is_writable(seen):
    assert {path for path, options in seen.items() if "rw" in options} <= WRITABLE
    outside = mounts_of(pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    assert {path for path, options in outside.items() if "rw" in options} - WRITABLE


def test_every_mount_is_nosuid(seen):
    assert not [path for path, options in seen.items() if "nosuid" not in options]
    outside = mounts_of(pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    assert [path for path, options in outside.items() if "nosuid" not in options]


@pytest.mark.parametrize("option", ["noexec", "nodev"])
def test_writable_mounts_have(seen, option):
    assert {path for path, options in seen.items()
            if "rw" in options and option not in options} <= {"/dev/pts"}
    assert "noexec" in seen["/dev/pts"] and option not in seen["/"]


def test_only_devices_and_masks_may_have_devices(seen):
    """Device nodes work below /dev, and where /dev/null hides a file of /proc."""
    assert not [path for path, options in seen.items() if "nodev" not in options
                and path != "/" and not path.startswith(("/dev", "/proc/"))]


@pytest.mark.root_only("needs root to mount on the host")
def test_mounts_of_the_host_do_not_come_in(box):
    """A mount made on the host while the box runs, below what both see."""
    prefix = ["unshare", "--mount", "--propagation", "shared"]
    script = "echo ready; read x; ls -A /usr/games; echo done"
    child = subprocess.Popen([*prefix, box.belljar.path, "run", "-q", "--", "sh", "-c", script],
                             text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env={**box.belljar.env, **box.env()})
    box.started.append(child)
    assert child.stdout.readline() == "ready\n"
    enter = ["nsenter", "-t", str(child.pid), "-m", "sh", "-c"]
    made = subprocess.run([*enter, "mount -t tmpfs none /usr/games && touch /usr/games/new && "
                                   "ls /usr/games"], capture_output=True, text=True, check=True)
    assert made.stdout == "new\n"
    out, _ = child.communicate("\n", timeout=30)
    assert out.endswith("done\n") and "new" not in out


# --- our own program ---------------------------------------------------------------


def fingerprint(path):
    info = os.stat(path)
    return (hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest(), info.st_mode,
            info.st_uid, info.st_mtime_ns)


@pytest.fixture
def own_program(box):
    """A copy of belljar that belongs to the user that the guest is on the host, as far as
    that is possible: what a user has who built it."""
    copy = box.belljar.file("belljar", pathlib.Path(box.belljar.path).read_bytes(), mode=0o755)
    box.belljar.path = str(copy)
    return copy


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the loader is written for x86-64")
def test_image_whose_shell_is_our_own_program(box, own_program, compiled):
    make_image(box.belljar, "hostile", {
        "bin/sh": b"#!/proc/self/exe\n",
        "lib64/ld-linux-x86-64.so.2": (compiled / "loader.bin").read_bytes(),
    })
    before = fingerprint(own_program)
    result = box.run("/bin/sh", options=["--image", "hostile"])
    if not result.out:  # linked without a loader: then nobody but us runs in it
        assert result["exit_code"] == 125 and result["stderr"].startswith("belljar: keeper: ")
        assert fingerprint(own_program) == before
        return
    said = dict(line.split() for line in result.out.splitlines())
    assert said.pop("made") == said["own_write"] == said["own_chmod"] == said["own_utime"] == "000"
    assert said["exe_write"] != "000"
    assert fingerprint(own_program) == before


def test_our_own_program_as_the_command(box, own_program):
    before = fingerprint(own_program)
    result = box.run("/proc/self/exe", "run", "--", "true")
    assert result["exit_code"] == 125  # it runs, and can make no box in a box
    assert fingerprint(own_program) == before


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program is for x86-64")
@pytest.mark.parametrize("entry", ["dev", "proc", "dev/null", "tmp", "workspace"])
def test_image_with_links_in_place_of_mount_points(box, compiled, entry):
    """CVE-2025-31133: a rootfs whose /dev/null, or /proc, leads elsewhere."""
    make_image(box.belljar, "hostile", {entry: "-> /etc",
                                        "etc/keep": b"me",
                                        "bin/native": (compiled / "int80.bin").read_bytes()})
    result = box.run("/bin/native", options=["--image", "hostile"])
    # It works as if the link were not there.
    assert result["reason_code"] == "exit_code_0", result
    assert result.out.strip().isdigit()


def test_system_files_are_the_same_afterwards(box, compiled):
    """The page cache is shared: every table runs, and what it attacked is compared."""
    paths = [os.path.realpath(p) for p in ("/usr/bin/python3", "/bin/sh", "/usr/bin/true",
                                            "/usr/bin/env", "/usr/bin/su", "/etc/ld.so.cache")]
    before = [fingerprint(p) for p in paths]
    for table in ("mounts", "syscalls"):
        assert len(box.run_table(table, compiled).json()) > 50
    assert [fingerprint(p) for p in paths] == before


# --- files in and out --------------------------------------------------------------


@pytest.fixture
def captured(box):
    """What was captured of a workspace full of debris: {name: bytes}."""
    out = box.home / "out"
    places = [box.sentinels.places[n] for n in ("file_tmp", "file_root") if n in
              box.sentinels.places]
    result = box.run("debris.py", *places, options=["--capture", "**", "--out", out])
    assert result["reason_code"] == "exit_code_0", result
    found = {}
    for top, dirs, files in os.walk(os.fsencode(out)):
        for name in (*dirs, *files):
            path = os.path.join(top, name)
            assert not os.path.islink(path), f"{path} is a link"
            assert os.path.isdir(path) or os.path.isfile(path)
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    found[os.path.relpath(path, os.fsencode(out))] = f.read()
    return result, found


@pytest.mark.warm
def test_capture_takes_files_and_follows_no_link(box, captured):
    _, found = captured
    assert found[b"plain"] == found[b"inner/plain-too"] == b"friendly"
    assert not [name for name in found if name.startswith(b"link")]
    assert b"fifo" not in found and b"socket" not in found and b"bottom" not in found
    for content in found.values():
        box.sentinels.assert_absent(content.decode("utf-8", "replace"))


@pytest.mark.parametrize("name", [b"new\nline", b"not-\xff\xfe-utf8", b"n" * 255, b"-rf",
                                  b"back\\slash", b"$(id)", b"\x1b[2J", b"..."],
                         ids=["newline", "not_utf8", "255_bytes", "option", "backslash",
                              "shell", "escape", "dots"])
def test_capture_of_odd_names(captured, name):
    assert captured[1][name] == b"odd"


def test_capture_of_a_sparse_file_is_refused_and_said(captured):
    result, found = captured
    assert b"sparse" not in found
    assert result["skipped_files"] >= 1
    assert result["resource_usage"]["artifact_bytes"] < 1 << 20


def test_capture_into_a_directory_with_links(box):
    """What lies where files are to go may lead elsewhere: a link to a file is replaced,
    one to a directory is not entered, and that is said."""
    victim = box.belljar.file("victim", "mine")
    out = box.belljar.file("out/other", "x").parent
    (out / "a").symlink_to(victim)
    result = box.run("sh", "-c", "echo theirs >a", options=["--capture", "a", "--out", out])
    assert result["reason_code"] == "exit_code_0"
    assert (out / "a").read_text() == "theirs\n" and not (out / "a").is_symlink()
    (out / "dir").symlink_to(box.home)
    result = box.run("sh", "-c", "mkdir dir; echo theirs >dir/victim",
                     options=["--capture", "dir/*", "--out", out])
    assert result["capture_incomplete"] and "dir/victim" in result["message"]
    assert victim.read_text() == "mine"


def test_links_that_are_copied_in_stay_links(box):
    inside = box.belljar.file("tree/plain", "friendly").parent
    (inside / "link").symlink_to(box.sentinels.places["file_tmp"])
    result = box.run("sh", "-c", "cat tree/plain; cat tree/link", options=["--copy-in", inside])
    assert result.out == "friendly" and "No such file" in result["stderr"]


@pytest.mark.warm
def test_teardown_leaves_what_links_lead_to(box):
    """The workspace goes, links to / and to files of the host included."""
    kept = [pathlib.Path(p) for n, p in box.sentinels.places.items() if n.startswith("file_")]
    before = [p.read_text() for p in kept]
    result = box.run("debris.py", *map(str, kept))
    assert result["reason_code"] == "exit_code_0", result
    assert [p.read_text() for p in kept] == before
    state = box.home / "state"
    left = [p for p in state.rglob("*") if p.is_file() or p.is_symlink()] if state.exists() else []
    assert not [p for p in left if "link" in p.name or p.name in ("plain", "sparse")]


def test_the_hostile_programs_are_all_used():
    """A file that no test names proves nothing."""
    text = "".join(p.read_text() for p in pathlib.Path(__file__).parent.glob("*.py"))
    assert not [p.name for p in HOSTILE.iterdir()
                if p.suffix in (".py", ".c") and p.stem not in text]
