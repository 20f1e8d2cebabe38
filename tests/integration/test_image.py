"""`belljar image`: importing what others built, and refusing what they should not
have built. The images are made here, byte by byte, so that the hostile ones exist."""
import fcntl
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import signal
import stat
import struct
import subprocess
import tarfile
import time

import pytest

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "unknown")
OTHER_ARCH = "s390x"
OURS = 125  # the exit status of a refusal

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


# --- building images ---------------------------------------------------------------


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def entry(name, data=None, **fields):
    """One tar entry: a file when it has data, else what `type` says."""
    info = tarfile.TarInfo(name)
    info.mode = 0o644 if data is not None else 0o755
    info.type = tarfile.REGTYPE if data is not None else tarfile.DIRTYPE
    info.size = len(data or b"")
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def link(name, target):
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def hard(name, target):
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def tar(*entries, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


def gz(data):
    return gzip.compress(data, compresslevel=1, mtime=0)


def zstd(data):
    """A zstd frame of uncompressed blocks: valid, and needs no library."""
    out = struct.pack("<IB", 0xFD2FB528, 0xE0) + struct.pack("<Q", len(data))
    pieces = [data[i:i + 65536] for i in range(0, len(data), 65536)]
    for i, piece in enumerate(pieces):
        last = i + 1 == len(pieces)
        out += struct.pack("<I", len(piece) << 3 | last)[:3] + piece
    return out


def config_of(layers, arch=ARCH, run=None, **more):
    return json.dumps({
        "architecture": arch,
        "os": "linux",
        "config": run or {"Env": ["PATH=/usr/bin:/bin", "LANG=C.UTF-8"], "Cmd": ["sh"],
                          "Entrypoint": ["/entry"], "WorkingDir": "/srv"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha256(x) for x in layers]},
        **more,
    }).encode()


class Layout:
    """An OCI image layout in the making: a dict of path to bytes."""

    def __init__(self):
        self.files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
        self.entries = []

    def blob(self, data, media):
        self.files["blobs/sha256/" + sha256(data)] = data
        return {"mediaType": media, "digest": "sha256:" + sha256(data), "size": len(data)}

    def manifest(self, layers, pack=gz, arch=ARCH, config=None):
        config = config if config is not None else config_of(layers, arch)
        return self.blob(json.dumps({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.blob(config, CONFIG),
            "layers": [self.blob(pack(x), LAYER + "+gzip") for x in layers],
        }).encode(), MANIFEST)

    def add(self, descriptor, name=None, arch=None):
        if name:
            descriptor["annotations"] = {"org.opencontainers.image.ref.name": name}
        if arch:
            descriptor["platform"] = {"os": "linux", "architecture": arch}
        self.entries.append(descriptor)
        return self

    def index(self, entries):
        return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()

    def finish(self):
        self.files.setdefault("index.json", self.index(self.entries))
        return self.files


def oci(*layers, name="test:1", **kwargs):
    layout = Layout()
    return layout.add(layout.manifest(layers, **kwargs), name).finish()


def docker(*layers, names=("test:1",), config=None):
    """What `docker save` wrote before it wrote OCI layouts."""
    config = config if config is not None else config_of(layers)
    files = {f"{sha256(x)}/layer.tar": x for x in layers}
    files[sha256(config) + ".json"] = config
    files["manifest.json"] = json.dumps([{
        "Config": sha256(config) + ".json",
        "RepoTags": list(names) if names is not None else None,
        "Layers": [f"{sha256(x)}/layer.tar" for x in layers],
    }]).encode()
    return files


def write_dir(files, where):
    for name, data in files.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return where


def write_tar(files, where, pack=lambda x: x):
    where.write_bytes(pack(tar(*(entry(n, d) for n, d in files.items()))))
    return where


# --- what a test uses --------------------------------------------------------------


class Images:
    """The command with a state directory of its own."""

    def __init__(self, belljar):
        self.belljar = belljar
        self.root = belljar.home / "state"
        self.dir = self.root / "images"
        self.scratch = belljar.home / "source"
        self.scratch.mkdir(mode=0o755)

    def run(self, *argv, **options):
        return self.belljar.run("image", *argv, "--root", self.root, **options)

    def load(self, files, *argv):
        """Import from a directory; the result of the command."""
        count = len(list(self.scratch.iterdir()))
        return self.run("import", write_dir(files, self.scratch / f"dir{count}"), *argv)

    def take(self, files, *argv):
        """Import what must succeed; the image's rootfs."""
        done = self.load(files, *argv)
        assert done.returncode == 0, done.stderr
        return self.rootfs(done.stdout.split()[0])

    def inspect(self, name):
        done = self.run("inspect", name)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def rootfs(self, name):
        return self.dir / self.inspect(name)["digest"].removeprefix("sha256:") / "rootfs"

    def names(self):
        done = self.run("list", "--json")
        assert done.returncode == 0, done.stderr
        return [n for image in json.loads(done.stdout) for n in image["names"]]

    def left(self):
        """What lies in the images directory, hidden things too."""
        return sorted(os.listdir(self.dir)) if self.dir.exists() else []

    def refuses(self, files, *words, argv=()):
        """The import fails, says so with these words, and leaves nothing."""
        before = self.left()
        done = self.load(files, *argv)
        assert done.returncode == OURS, (done.returncode, done.stdout, done.stderr)
        assert done.stdout == ""
        assert done.stderr.startswith("belljar: ") and done.stderr.count("\n") == 1
        for word in words:
            assert word in done.stderr
        assert self.left() == before
        return done


@pytest.fixture
def images(belljar):
    return Images(belljar)


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


BASE = tar(entry("bin/"), entry("bin/tool", b"#!/bin/sh\n", mode=0o755), entry("etc/"),
           entry("etc/motd", b"hello\n"))


# --- the ways in -------------------------------------------------------------------


@pytest.mark.parametrize("pack", [lambda x: x, gz, zstd], ids=["plain", "gzip", "zstd"])
def test_oci_directory(images, pack):
    rootfs = images.take(oci(BASE, pack=pack))
    assert (rootfs / "etc/motd").read_text() == "hello\n"
    assert os.access(rootfs / "bin/tool", os.X_OK)


@pytest.mark.parametrize("pack", [lambda x: x, gz, zstd], ids=["plain", "gzip", "zstd"])
def test_oci_archive(images, pack):
    done = images.run("import", write_tar(oci(BASE), images.scratch / "a.tar", pack))
    assert done.returncode == 0, done.stderr
    assert (images.rootfs("test:1") / "etc/motd").read_text() == "hello\n"


def test_old_docker_archive(images):
    top = tar(entry("etc/motd", b"newer\n"))
    done = images.run("import", write_tar(docker(BASE, top), images.scratch / "a.tar"))
    assert done.returncode == 0, done.stderr
    assert (images.rootfs("test:1") / "etc/motd").read_text() == "newer\n"
    assert images.inspect("test:1")["format"] == "docker"


def test_old_docker_archive_with_a_layer_that_is_a_link(images):
    """Docker wrote a layer that two images share once, and a link for the second."""
    files = docker(BASE)
    path = f"{sha256(BASE)}/layer.tar"
    data = files.pop(path)
    entries = [entry(n, d) for n, d in files.items()]
    entries += [entry("shared/layer.tar", data), link(path, "../shared/layer.tar")]
    (images.scratch / "a.tar").write_bytes(tar(*entries))
    done = images.run("import", images.scratch / "a.tar")
    assert done.returncode == 0, done.stderr


def test_new_docker_archive_is_a_layout_and_has_docker_names(images):
    layout = Layout()
    descriptor = layout.manifest([BASE], pack=lambda x: x)
    files = layout.add(descriptor, "latest").finish()
    config = config_of([BASE])
    files["manifest.json"] = json.dumps([{
        "Config": "blobs/sha256/" + sha256(config),
        "RepoTags": ["team/thing:latest"],
        "Layers": ["blobs/sha256/" + sha256(BASE)],
    }]).encode()
    done = images.run("import", write_tar(files, images.scratch / "a.tar"))
    assert done.returncode == 0, done.stderr
    assert images.names() == ["host", "team/thing:latest"]
    assert images.inspect("team/thing")["format"] == "oci"


def test_both_formats_are_the_same_image(images):
    images.take(oci(BASE), "--name", "a")
    images.take(docker(BASE), "--name", "b")
    assert images.left() == [sha256(config_of([BASE]))]
    assert images.names() == ["host", "a:latest", "b:latest"]


def test_archive_from_stdin(images):
    write_tar(oci(BASE), images.scratch / "a.tar")
    with open(images.scratch / "a.tar", "rb") as source:
        done = images.run("import", "-", stdin=source)
    assert done.returncode == 0, done.stderr
    assert images.names() == ["host", "test:1"]


def test_what_is_recorded(images):
    images.take(oci(BASE))
    image = images.inspect("test:1")
    assert image["digest"] == "sha256:" + sha256(config_of([BASE]))
    assert image["layers"] == ["sha256:" + sha256(BASE)]
    assert image["architecture"] == ARCH
    assert image["size"] == len(b"#!/bin/sh\n") + len(b"hello\n")
    assert image["config"] == {"Env": ["PATH=/usr/bin:/bin", "LANG=C.UTF-8"], "Cmd": ["sh"],
                               "Entrypoint": ["/entry"], "WorkingDir": "/srv", "User": ""}
    assert image["imported_at"].endswith("Z")


@pytest.mark.once
@pytest.mark.parametrize("make", [
    lambda d: d / "absent",
    lambda d: write_dir({"x": b""}, d / "empty"),
    lambda d: write_tar({"x": b""}, d / "other.tar"),
    lambda d: write_dir({"f": b"no archive at all\n"}, d / "text") / "f",
    lambda d: write_dir({"f": b""}, d / "nothing") / "f",
    lambda d: pathlib.Path("/dev/zero"),
], ids=["absent", "empty-dir", "other-tar", "text", "empty-file", "device"])
def test_what_is_no_image_is_refused(images, make):
    source = make(images.scratch)
    done = images.run("import", source)
    assert done.returncode == OURS
    assert str(source)[-20:] in done.stderr
    assert images.left() == []


# --- layers ------------------------------------------------------------------------


def test_whiteouts_and_opaque_directories(images):
    lower = tar(entry("d/"), entry("d/gone", b"1"), entry("d/kept", b"2"), entry("o/"),
                entry("o/old", b"3"), entry("o/sub/"), entry("o/sub/old", b"4"),
                entry("tree/"), entry("tree/a/"), entry("tree/a/b", b"5"), entry("back", b"old"))
    upper = tar(entry("d/.wh.gone", b""), entry("o/new", b"6"), entry("o/sub/new", b"7"),
                entry("o/.wh..wh..opq", b""), entry(".wh.tree", b""), entry("back", b"new"),
                entry(".wh.back", b""), entry("nowhere/.wh.x", b""))
    rootfs = images.take(oci(lower, upper))
    assert sorted(os.listdir(rootfs / "d")) == ["kept"]
    assert sorted(os.listdir(rootfs / "o")) == ["new", "sub"]
    assert os.listdir(rootfs / "o/sub") == ["new"]
    assert not (rootfs / "tree").exists()
    # A whiteout hides what is below its layer, not what the layer itself brings.
    assert (rootfs / "back").read_text() == "new"
    assert not (rootfs / "nowhere").exists()


def test_things_replace_each_other(images):
    lower = tar(entry("a", b"file"), entry("b/"), entry("b/x", b"1"), link("c", "b"),
                entry("keep/"), entry("keep/x", b"2"))
    upper = tar(entry("a/"), entry("a/y", b"3"), entry("b", b"file"), entry("c/"),
                entry("c/z", b"4"), entry("keep/"))
    rootfs = images.take(oci(lower, upper))
    assert (rootfs / "a/y").exists()
    assert (rootfs / "b").read_text() == "file"
    assert (rootfs / "c").is_dir() and not (rootfs / "c").is_symlink()
    assert (rootfs / "keep/x").exists()


def test_a_write_through_a_link_stays_inside(images):
    """/lib -> usr/lib, as merged-usr images have it, also with an absolute target."""
    lower = tar(entry("usr/"), entry("usr/lib/"), link("lib", "usr/lib"),
                link("abs", "/usr/lib"), link("up", "../../../../usr/lib"))
    upper = tar(entry("lib/a", b"1"), entry("abs/b", b"2"), entry("up/c", b"3"))
    rootfs = images.take(oci(lower, upper))
    assert sorted(os.listdir(rootfs / "usr/lib")) == ["a", "b", "c"]
    assert os.readlink(rootfs / "abs") == "/usr/lib"


def test_hard_links(images):
    lower = tar(entry("bin/"), entry("bin/a", b"same", mode=0o755), hard("bin/b", "bin/a"))
    upper = tar(hard("bin/c", "./bin/a"), entry("bin/a", b"other"), hard("bin/b", "bin/b"))
    rootfs = images.take(oci(lower, upper))
    assert (rootfs / "bin/a").read_text() == "other"
    assert (rootfs / "bin/b").read_text() == (rootfs / "bin/c").read_text() == "same"


def test_modes_owners_and_times(images):
    rootfs = images.take(oci(tar(
        entry("suid", b"", mode=0o6755, uid=1234), entry("secret", b"", mode=0o600),
        entry("none", b"", mode=0o000), entry("wide", b"", mode=0o777, mtime=1234567890),
        entry("dir/", mode=0o700), entry("dir/sticky/", mode=0o1777))))
    wanted = {"suid": 0o755, "secret": 0o644, "none": 0o444, "wide": 0o755, "dir": 0o755,
              "dir/sticky": 0o755, ".": 0o755}
    assert {name: mode_of(rootfs / name) for name in wanted} == wanted
    assert (rootfs / "wide").stat().st_mtime == 1234567890
    assert (rootfs / "suid").stat().st_uid == images.dir.stat().st_uid


def test_names_of_all_kinds(images):
    """Long, not ASCII, decomposed, and not UTF-8 at all."""
    long = "/".join(["n" * 200] * 5)
    names = ["grün.txt", "e\u0301", "日本", long]
    rootfs = images.take(oci(tar(*(entry(n, b"x") for n in names), hard("hard-ü", "e\u0301"),
                                 link("soft-ü", "e\u0301"))))
    for name in [*names, "hard-ü"]:
        assert (rootfs / name).exists(), name
    assert os.readlink(rootfs / "soft-ü") == "e\u0301"
    raw = tar(entry("raw-\udcff", b"x"), form=tarfile.GNU_FORMAT)
    rootfs = images.take(oci(raw, name="raw"))
    assert b"raw-\xff" in os.listdir(os.fsencode(rootfs))


def test_a_sparse_file_stays_sparse(images):
    info, _ = entry("sparse", b"", pax_headers={
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "sparse",
        "GNU.sparse.realsize": str(64 << 20)})
    data = b"1\n0\n4\n".ljust(512, b"\0") + b"DATA"
    info.size = len(data)
    rootfs = images.take(oci(tar((info, data))))
    st = (rootfs / "sparse").stat()
    assert st.st_size == 64 << 20 and st.st_blocks < 100
    with open(rootfs / "sparse", "rb") as f:
        assert f.read(6) == b"DATA\0\0"


def test_many_layers(images):
    layers = [tar(entry(f"f{i}", b"%d" % i), entry("last", b"%d" % i)) for i in range(40)]
    rootfs = images.take(oci(*layers))
    assert (rootfs / "last").read_text() == "39"
    assert len(list(rootfs.glob("f*"))) == 40


def test_the_places_a_box_needs(images):
    rootfs = images.take(oci(BASE))
    for name in ["proc", "dev", "tmp", "workspace", "mnt/data", "etc"]:
        assert (rootfs / name).is_dir() and not (rootfs / name).is_symlink()
    assert "box:x:1000:1000:" in (rootfs / "etc/passwd").read_text()
    assert "box:x:1000:" in (rootfs / "etc/group").read_text()
    for name in ["hosts", "hostname", "resolv.conf"]:
        assert (rootfs / "etc" / name).is_file()


def test_links_at_the_places_a_box_needs_are_replaced(images):
    away = images.belljar.home / "away"
    away.mkdir(mode=0o777)
    os.chmod(away, 0o777)
    layer = tar(*(link(n, str(away)) for n in ["proc", "dev", "tmp", "workspace", "mnt", "etc"]))
    rootfs = images.take(oci(layer))
    for name in ["proc", "dev", "tmp", "workspace", "mnt", "mnt/data", "etc"]:
        assert (rootfs / name).is_dir() and not (rootfs / name).is_symlink()
    layer = tar(entry("etc/"), link("etc/passwd", str(away / "p")),
                link("etc/resolv.conf", "../run/resolv.conf"), entry("etc/hosts/"))
    rootfs = images.take(oci(layer, name="files"))
    for name in ["passwd", "group", "hosts", "hostname", "resolv.conf"]:
        assert (rootfs / "etc" / name).is_file() and not (rootfs / "etc" / name).is_symlink()
    assert os.listdir(away) == []


def test_accounts_of_the_image_are_kept_behind_ours(images):
    theirs = b"root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n"
    rootfs = images.take(oci(tar(entry("etc/"), entry("etc/passwd", theirs))))
    lines = (rootfs / "etc/passwd").read_text().splitlines()
    assert lines[0].startswith("box:x:1000:1000:")
    assert lines[1:] == theirs.decode().splitlines()


# --- hostile layers ----------------------------------------------------------------


def special(name, kind):
    return entry(name, type=kind, devmajor=1, devminor=3)


HOSTILE_ENTRIES = {
    "absolute": ([entry("/etc/evil", b"x")], "absolute"),
    "dotdot": ([entry("../evil", b"x")], "'..'"),
    "dotdot-inside": ([entry("a/../../evil", b"x")], "'..'"),
    "dotdot-dir": ([entry("a/../")], "'..'"),
    "hardlink-absolute": ([hard("evil", "/etc/passwd")], "absolute"),
    "hardlink-dotdot": ([hard("evil", "../../../etc/passwd")], "'..'"),
    "hardlink-absent": ([hard("evil", "nothing")], "does not exist"),
    "hardlink-directory": ([entry("d/"), hard("evil", "d")], "not a file"),
    "hardlink-through-link": ([link("l", "/etc"), hard("evil", "l/hostname")], "does not exist"),
    "char-device": ([special("evil", tarfile.CHRTYPE)], "character device"),
    "block-device": ([special("evil", tarfile.BLKTYPE)], "block device"),
    "fifo": ([special("evil", tarfile.FIFOTYPE)], "named pipe"),
    "link-to-nothing": ([link("l", "/nowhere/x"), entry("l/evil", b"x")], "link to nothing"),
    "link-circle": ([link("a", "b"), link("b", "a"), entry("a/evil", b"x")], "circles"),
    "below-a-file": ([entry("f", b"x"), entry("f/evil", b"x")], "something else"),
    "whiteout-dotdot": ([entry("d/.wh...", b"")], "whiteout"),
    "whiteout-dot": ([entry("d/.wh..", b"")], "whiteout"),
    "whiteout-nothing": ([entry(".wh.", b"")], "whiteout"),
    "inside-whiteout": ([entry(".wh.d/evil", b"x")], "inside of a whiteout"),
    "root-is-a-file": ([entry(".", b"x")], "root"),
    "root-is-a-link": ([link("./", "/")], "root"),
    "long-word": ([entry("evil" + "x" * 300, b"x")], "too long"),
    "long-path": ([entry("/".join(["evil" + "x" * 200] * 25), b"x")], "too long"),
    "deep-path": ([entry("d/" * 200 + "evil", b"x")], "deeper"),
    "empty-link": ([link("evil", "")], "target"),
}


@pytest.mark.parametrize("case", HOSTILE_ENTRIES)
def test_hostile_entries_are_refused(images, case):
    entries, word = HOSTILE_ENTRIES[case]
    done = images.refuses(oci(BASE, tar(*entries)), "layer 2 of 2: entry '", word)
    assert done.stderr.isprintable() or done.stderr[:-1].isprintable()


@pytest.mark.parametrize("case", ["absolute", "dotdot", "char-device", "hardlink-dotdot"])
def test_hostile_source_archives_are_refused(images, case):
    entries, word = HOSTILE_ENTRIES[case]
    path = images.scratch / "a.tar"
    path.write_bytes(tar(*entries, *(entry(n, d) for n, d in oci(BASE).items())))
    done = images.run("import", path)
    assert done.returncode == OURS and word in done.stderr
    assert images.left() == []


@pytest.mark.parametrize("how", ["symlink", "symlink-chain", "hardlink", "later-layer"])
def test_no_link_leads_a_write_outside(images, how):
    """The classic: make a link to somewhere, then write through it."""
    home = images.belljar.home
    away = home / "away"
    away.mkdir()
    os.chmod(away, 0o777)
    (away / "victim").write_text("intact")
    os.chmod(away / "victim", 0o666)
    up = "../" * 30 + str(away)[1:]
    attacks = {
        "symlink": [tar(link("x", str(away)), entry("x/evil", b"x"), entry("x/victim", b"x"))],
        "symlink-chain": [tar(link("a", up), link("b", "a"), entry("b/evil", b"x"))],
        "hardlink": [tar(link("x", str(away / "victim")), hard("y", "x"), entry("y", b"evil"))],
        "later-layer": [tar(link("x", up)), tar(entry("x/evil", b"x"))],
    }
    images.load(oci(*attacks[how]))
    assert os.listdir(away) == ["victim"]
    assert (away / "victim").read_text() == "intact"
    assert all(not n.startswith(".") for n in images.left())


def test_links_can_not_build_a_tree_too_deep_to_remove(images):
    """Each layer starts at a link to the end of the last, so no path is long."""
    deep = "/".join(["d"] * 100)
    entries = [entry(deep + "/"), link("l0", deep)]
    for i in range(5):
        entries += [entry(f"l{i}/{deep}/"), link(f"l{i + 1}", f"l{i}/{deep}")]
    images.refuses(oci(tar(*entries)), "too deep")


def test_a_name_can_not_write_to_the_terminal(images):
    done = images.refuses(oci(tar(entry("/\x1b[31mevil\n", b"x"))), "\\x1b", "absolute")
    assert "\x1b" not in done.stderr


def bomb(size):
    """A file of zeros, without the memory for it."""
    info, _ = entry("bomb", b"")
    info.size = size
    head = info.tobuf(format=tarfile.GNU_FORMAT)
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as f:
        f.write(head)
        for _ in range(size >> 20):
            f.write(bytes(1 << 20))
        f.write(bytes(1024))
    return out.getvalue()


def packed(blob, plain_hex="0" * 64):
    """An image with one layer that is given as it is."""
    layout = Layout()
    config = json.dumps({"architecture": ARCH, "os": "linux", "config": {},
                         "rootfs": {"diff_ids": ["sha256:" + plain_hex]}}).encode()
    descriptor = layout.blob(json.dumps({
        "config": layout.blob(config, CONFIG), "layers": [layout.blob(blob, LAYER)],
    }).encode(), MANIFEST)
    return layout.add(descriptor, "test:1").finish()


@pytest.mark.once
def test_size_bombs(images):
    blob = bomb(64 << 20)
    assert len(blob) < 1 << 20
    images.refuses(packed(blob), "'bomb'", "larger than 33554432", argv=("--max-size", "32M"))
    # Many small ones, each below the limit.
    layers = [tar(entry(f"f{i}", bytes(1 << 20))) for i in range(8)]
    images.refuses(oci(*layers), "larger than 4194304", argv=("--max-size", "4M"))
    # What is not in any entry counts too.
    images.refuses(packed(gz(tar(entry("f", b"")) + bytes(8 << 20))), "larger than",
                   argv=("--max-size", "4M"))
    images.take(oci(*layers), "--max-size", "16M")


@pytest.mark.once
def test_a_sparse_bomb(images):
    info, _ = entry("bomb", b"", pax_headers={
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "bomb",
        "GNU.sparse.realsize": str(1 << 40)})
    info.size = 512
    images.refuses(oci(tar((info, b"0\n".ljust(512, b"\0")))), "'bomb'", "larger than")


@pytest.mark.once
def test_a_sparse_map_without_end(images):
    info, _ = entry("bomb", b"", pax_headers={
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "bomb",
        "GNU.sparse.realsize": "1"})
    data = b"9999999\n" + b"0\n0\n" * (2 << 20)
    info.size = len(data)
    images.refuses(oci(tar((info, data))), "header")


@pytest.mark.once
def test_a_header_without_end(images):
    images.refuses(oci(tar(entry("f", b"", pax_headers={"comment": "x" * (3 << 20)}))), "layer 1")
    # The same in many pieces: extended headers (4608 bytes each) with no file behind.
    one = tar(entry("f", b"", pax_headers={"comment": "x" * 4000}))
    images.refuses(oci(one[:4608] * 2000 + one[4608:]), "layer 1")


@pytest.mark.once
def test_more_entries_than_allowed(images):
    """A million and one files would take long; the same directory again does not."""
    one = entry("./")[0].tobuf(format=tarfile.USTAR_FORMAT)
    data = one * 1_000_001 + bytes(1024)
    images.refuses(oci(data), "more than 1000000 entries")


@pytest.mark.once
@pytest.mark.root_only("mounts a small disk")
def test_a_full_disk(images):
    images.root.mkdir(mode=0o755)
    # Its own mount namespace, so that nothing is left mounted whatever happens.
    source = write_dir(oci(tar(entry("f", bytes(40 << 20)))), images.scratch / "dir")
    script = ('mount -t tmpfs -o size=100m,mode=755 x "$1" || exit 77; '
              '"$0" image import "$2" --root "$1"; r=$?; ls -A "$1/images"; exit $r')
    done = images.belljar.command("unshare", "-m", "sh", "-c", script, images.belljar.path,
                                  images.root, source)
    if done.returncode == 77:
        pytest.skip("cannot mount a tmpfs here: " + done.stderr)
    assert done.returncode == OURS, done.stderr
    assert "do not fit" in done.stderr
    assert done.stdout == ""


# --- damage ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["index", "manifest", "config", "layer"])
def test_every_blob_is_checked(images, kind):
    layout = Layout()
    manifest = layout.manifest([BASE])
    nested = layout.blob(layout.index([dict(manifest)]), INDEX)
    files = layout.add(nested, "test:1").finish()
    config = sha256(config_of([BASE]))
    victim = {"index": nested["digest"], "manifest": manifest["digest"],
              "config": "sha256:" + config, "layer": "sha256:" + sha256(gz(BASE))}[kind]
    path = "blobs/sha256/" + victim.removeprefix("sha256:")
    good = files[path]
    images.take(files)
    images.run("remove", "test:1")
    # The same size, one bit changed where the content still parses.
    at = good.rindex(b"a") if kind != "layer" else 9
    files[path] = good[:at] + bytes([good[at] ^ 2]) + good[at + 1:]
    images.refuses(files, "digest")
    files[path] = good + b" "
    images.refuses(files, "bytes")
    del files[path]
    images.refuses(files, path[:20])


def test_the_uncompressed_layer_is_checked_too(images):
    images.refuses(packed(gz(BASE)), "uncompressed layer", "digest")
    images.take(packed(gz(BASE), sha256(BASE)))


def test_a_damaged_old_archive(images):
    files = docker(BASE)
    files[f"{sha256(BASE)}/layer.tar"] = BASE.replace(b"hello", b"jello")
    images.refuses(files, "digest")
    files = docker(BASE)
    files[sha256(config_of([BASE])) + ".json"] += b" "
    images.refuses(files, "digest")
    files = docker(BASE)
    files["manifest.json"] = files["manifest.json"].replace(b"/layer.tar", b"/../../x")
    images.refuses(files, "'..'")


@pytest.mark.parametrize("cut", [1, 100, 600, 5000])
def test_a_truncated_layer(images, cut):
    images.refuses(packed(gz(BASE)[:-cut] if cut < 300 else BASE[:-cut], sha256(BASE)), "layer 1")


def test_compressed_twice(images):
    images.refuses(packed(gz(gz(BASE)), sha256(BASE)), "more than once")


BAD_JSON = {
    "huge": b'{"manifests": [' + b" " * (5 << 20) + b"]}",
    "deep": b'{"manifests":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "twice": b'{"manifests": [], "manifests": []}',
    "cut": b'{"manifests": [',
    "text": b"hello",
    "empty": b"",
    "none": b"{}",
    "array": b"[]",
    "no-image": b'{"manifests": []}',
    "nulls": b'{"manifests": [null, 7, "x", {}]}',
    "path": b'{"manifests": [{"mediaType": "' + MANIFEST.encode()
            + b'", "size": 1, "digest": "sha256:../../../../../../etc/passwd"}]}',
    "sha512": b'{"manifests": [{"mediaType": "' + MANIFEST.encode()
              + b'", "size": 1, "digest": "sha512:' + b"0" * 128 + b'"}]}',
    "negative": b'{"manifests": [{"mediaType": "' + MANIFEST.encode()
                + b'", "size": -1, "digest": "sha256:' + b"0" * 64 + b'"}]}',
}


@pytest.mark.parametrize("case", BAD_JSON)
@pytest.mark.parametrize("path", ["index.json", "manifest.json"])
def test_bad_documents(images, case, path):
    files = oci(BASE) if path == "index.json" else docker(BASE)
    files[path] = BAD_JSON[case]
    images.refuses(files)


@pytest.mark.parametrize("change", [
    {"architecture": None}, {"architecture": "a\x1bb"}, {"os": "windows"}, {"rootfs": None},
    {"rootfs": {"diff_ids": []}}, {"rootfs": {"diff_ids": [7]}}, {"config": {"Env": "x"}},
    {"config": {"Env": ["x"]}}, {"config": {"Cmd": [1]}}, {"config": {"WorkingDir": []}},
    {"config": {"Env": ["A=b"] * 5000}},
], ids=str)
def test_bad_configurations(images, change):
    config = {**json.loads(config_of([BASE])), **change}
    images.refuses(oci(BASE, config=json.dumps(config).encode()))


def test_indexes_that_nest_without_end(images):
    layout = Layout()
    descriptor = layout.manifest([BASE])
    for _ in range(6):
        descriptor = layout.blob(layout.index([descriptor]), INDEX)
    images.refuses(layout.add(descriptor, "test:1").finish(), "nest")


def test_a_source_that_is_not_a_file(images):
    files = oci(BASE)
    where = write_dir(files, images.scratch / "dir")
    blob = next((where / "blobs/sha256").iterdir())
    blob.unlink()
    os.mkfifo(blob)
    done = images.run("import", where, timeout=20)
    assert done.returncode == OURS
    blob.unlink()
    blob.symlink_to("/etc/hostname")
    done = images.run("import", where)
    assert done.returncode == OURS and "out of the source" in done.stderr
    assert images.left() == []


# --- architectures and several images ----------------------------------------------


def test_this_machine_is_chosen(images):
    layout = Layout()
    other = layout.manifest([tar(entry("other", b""))], arch=OTHER_ARCH)
    files = layout.add(other, "multi:1", OTHER_ARCH).add(
        layout.manifest([BASE]), "multi:1", ARCH).finish()
    rootfs = images.take(files)
    assert (rootfs / "etc/motd").exists() and not (rootfs / "other").exists()


def test_this_machine_is_chosen_in_a_nested_index(images):
    layout = Layout()
    inner = Layout.add(Layout(), layout.manifest([tar()], arch=OTHER_ARCH), arch=OTHER_ARCH)
    inner.add(layout.manifest([BASE]), arch=ARCH)
    attestation = layout.blob(b"{}", MANIFEST)
    attestation["platform"] = {"os": "unknown", "architecture": "unknown"}
    nested = layout.blob(layout.index(inner.entries + [attestation]), INDEX)
    assert (images.take(layout.add(nested, "multi:1").finish()) / "etc/motd").exists()


def test_another_machine_is_refused_with_what_there_is(images):
    layout = Layout()
    files = layout.add(layout.manifest([BASE], arch="s390x"), "m:1", "s390x").add(
        layout.manifest([BASE], arch="mips"), "m:1", "mips").finish()
    images.refuses(files, f"linux/{ARCH}", "linux/s390x", "linux/mips")
    images.refuses(oci(BASE, arch="s390x"), "linux/s390x", f"linux/{ARCH}")


def test_one_of_several(images):
    layout = Layout()
    for name in ["one:1", "two:2"]:
        layout.add(layout.manifest([tar(entry(name[:3], b""))]), name)
    files = layout.finish()
    images.refuses(files, "several", "one:1", "two:2", "--ref")
    images.refuses(files, "'three'", "one:1", argv=("--ref", "three"))
    assert (images.take(files, "--ref", "two:2") / "two").exists()
    assert images.names() == ["host", "two:2"]
    a, b = docker(tar(entry("a", b"")), names=["a:1"]), docker(tar(entry("b", b"")), names=["b:1"])
    both = json.loads(a["manifest.json"]) + json.loads(b["manifest.json"])
    files = {**a, **b, "manifest.json": json.dumps(both).encode()}
    images.refuses(files, "several", "a:1", "b:1")
    assert (images.take(files, "--ref", "b:1") / "b").exists()


# --- names -------------------------------------------------------------------------


def test_a_name_is_needed(images):
    images.refuses(oci(BASE, name=None), "--name")
    images.refuses(oci(BASE, name="latest"), "--name")
    images.refuses(docker(BASE, names=None), "--name")
    images.take(oci(BASE, name=None), "--name", "given")
    assert images.names() == ["host", "given:latest"]


@pytest.mark.parametrize("name", ["", "UPPER", "a b", "a:", ":b", "a/", "/a", "-a", "a:-b", "a//b",
                                  "../a", "host", "host:1", "sha256:abcd", "a\nb", "x" * 300,
                                  "a:" + "t" * 129])
def test_bad_names(images, name):
    images.refuses(oci(BASE), "name" if "host" not in name else "'host'", argv=("--name", name))


@pytest.mark.parametrize("name", ["a", "python:3.11-slim", "team/thing:V1.0_x",
                                  "localhost:5000/a/b", "r.example/x-y/z_w.v:1"])
def test_good_names(images, name):
    images.take(oci(BASE), "--name", name)
    assert images.run("inspect", name).returncode == 0


def test_the_same_image_twice(images):
    images.take(oci(BASE), "--name", "a")
    images.take(oci(BASE), "--name", "b:2")
    images.take(oci(BASE), "--name", "b:2")
    assert images.names() == ["host", "a:latest", "b:2"]
    assert len(images.left()) == 1


def test_a_name_moves_to_the_newer_image(images):
    images.take(oci(BASE), "--name", "a")
    newer = images.take(oci(tar(entry("new", b""))), "--name", "a")
    assert images.rootfs("a") == newer
    assert images.names() == ["host", "a:latest"]
    assert len(images.left()) == 2


def test_finding_one(images):
    images.take(oci(BASE), "--name", "python:3.11-slim")
    images.take(oci(tar(entry("x", b""))), "--name", "thing")
    digest = images.inspect("thing")["digest"]
    for name in ["thing", "thing:latest", digest, digest[7:], digest[7:17], digest[:17]]:
        assert images.inspect(name)["digest"] == digest, name
    done = images.run("inspect", "pyzhon:3.11-slim")
    assert done.returncode == OURS
    assert "'python:3.11-slim'" in done.stderr and "belljar image list" in done.stderr
    done = images.run("inspect", "completely-different")
    assert "belljar image list" in done.stderr and "import" in done.stderr


def test_host_is_always_there(images):
    listed = json.loads(images.run("list", "--json").stdout)
    assert [i["digest"] for i in listed] == ["host"]
    assert listed[0]["description"]
    assert images.inspect("host")["names"] == ["host"]
    done = images.run("remove", "host")
    assert done.returncode == OURS and "this machine itself" in done.stderr
    table = images.run("list").stdout.splitlines()
    assert table[0].split()[0] == "NAME" and table[1].split()[0] == "host"


def test_remove(images):
    images.take(oci(BASE), "--name", "a")
    images.take(oci(BASE), "--name", "b")
    assert "others" in images.run("remove", "a").stdout
    assert images.names() == ["host", "b:latest"]
    done = images.run("remove", "b")
    assert (done.returncode, done.stdout) == (0, "removed b\n")
    assert images.names() == ["host"] and images.left() == []
    assert images.run("remove", "b").returncode == OURS


def test_remove_by_digest_takes_all_names(images):
    images.take(oci(BASE), "--name", "a")
    images.take(oci(BASE), "--name", "b")
    assert images.run("remove", images.inspect("a")["digest"]).returncode == 0
    assert images.left() == []


def test_an_image_in_use_is_not_removed(images):
    rootfs = images.take(oci(BASE))
    fd = os.open(rootfs, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    done = images.run("remove", "test:1")
    assert done.returncode == OURS and "in use" in done.stderr
    os.close(fd)
    assert images.run("remove", "test:1").returncode == 0


def test_a_broken_image_is_shown_and_replaced(images):
    images.take(oci(BASE))
    record = next(images.dir.iterdir()) / "image.json"
    record.write_text("{")
    listed = json.loads(images.run("list", "--json").stdout)
    assert "image.json" in listed[1]["problem"]
    images.take(oci(BASE))
    assert images.names() == ["host", "test:1"]


# --- life and death ----------------------------------------------------------------


def wait_for(condition):
    for _ in range(400):
        if condition():
            return True
        time.sleep(0.025)
    return False


def test_a_killed_import_is_swept_and_a_living_one_is_not(images):
    def start():
        """An import that waits for its archive on a pipe."""
        known = set(images.left())
        process = images.belljar.start("image", "import", "-", "--root", images.root,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=False)
        assert wait_for(lambda: set(images.left()) - known)
        process.stdin.write(write_tar(oci(BASE), images.scratch / "x.tar").read_bytes()[:4096])
        process.stdin.flush()
        return process

    dead, living = start(), start()
    dead.send_signal(signal.SIGKILL)
    dead.communicate()
    assert len(images.left()) == 2
    images.take(oci(tar(entry("third", b"")), name="third"))
    assert len([n for n in images.left() if n.startswith(".import-")]) == 1
    rest = (images.scratch / "x.tar").read_bytes()[4096:]
    _, stderr = living.communicate(rest, timeout=30)
    assert living.returncode == 0, stderr
    assert images.names() == ["host", "test:1", "third:latest"]
    assert all(not n.startswith(".") for n in images.left())


def test_imports_at_the_same_time(images):
    where = write_dir(oci(BASE), images.scratch / "dir")
    running = [images.belljar.start("image", "import", where, "--name", f"n{i}", "--root",
                                    images.root, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE) for i in range(8)]
    for process in running:
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
    assert sorted(images.names()) == ["host"] + [f"n{i}:latest" for i in range(8)]
    assert len(images.left()) == 1


@pytest.mark.parametrize("root", ["a/../b", "/", "/tmp/../tmp/x", "/dev/null", "/tmp"])
def test_bad_state_directories(belljar, root):
    done = belljar.run("image", "list", "--root", root)
    assert done.returncode == OURS and done.stderr.startswith("belljar: --root: ")


def test_images_that_others_can_change_are_refused(images):
    images.take(oci(BASE))
    os.chmod(images.dir, 0o777)
    for verb in [("list",), ("inspect", "test:1"), ("remove", "test:1")]:
        done = images.run(*verb)
        assert done.returncode == OURS and "others can write" in done.stderr


def test_the_umask_does_not_matter(images):
    where = write_dir(oci(BASE), images.scratch / "dir")
    done = images.belljar.command("sh", "-c", 'umask 077; exec "$@"', "sh", images.belljar.path,
                                  "image", "import", where, "--root", images.root)
    assert done.returncode == 0, done.stderr
    rootfs = images.rootfs("test:1")
    assert mode_of(rootfs / "etc") == mode_of(rootfs) == mode_of(rootfs.parent) == 0o755
    assert mode_of(rootfs / "etc/motd") == 0o644


@pytest.mark.once
@pytest.mark.parametrize("argv, word", [
    ([], "verb"), (["lst"], "'list'"), (["import"], "SOURCE"), (["inspect"], "NAME"),
    (["list", "x"], "too many"), (["import", "a", "b"], "too many"),
    (["import", "a", "--nmae", "b"], "--name"), (["import", "a", "--max-size", "x"], "--max-size"),
])
def test_mistakes_on_the_command_line(images, argv, word):
    done = images.belljar.run("image", *argv)
    assert done.returncode == OURS and word in done.stderr


@pytest.mark.once
@pytest.mark.parametrize("verb", ["import", "list", "inspect", "remove"])
def test_help(images, verb):
    done = images.belljar.run("image", verb, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"Usage: belljar image {verb}")
