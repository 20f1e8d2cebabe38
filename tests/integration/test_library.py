"""libbelljar as it is installed: small C programs (library/*.c) are built against it by
its pkg-config file, once with the shared and once with the static library."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

HERE = pathlib.Path(__file__).parent / "library"
BUILD = pathlib.Path(os.environ.get("BELLJAR", HERE.parents[2] / "build/belljar")).resolve().parent
CC = shutil.which("cc") or shutil.which("gcc")
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
PROGRAMS = ("hello", "stop", "files", "outcomes", "errors", "threads", "clash")
KINDS = ("shared", "static")

pytestmark = [
    pytest.mark.skipif(not CC, reason="there is no C compiler"),
    pytest.mark.skipif(not shutil.which("pkg-config"), reason="pkg-config is not installed"),
    pytest.mark.skipif(not os.access(BUILD / "meson-logs", os.W_OK),
                       reason=f"{BUILD} is not a build directory of ours to install from"),
]


def output_of(*argv, **options):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Library:
    """An installation below a directory of its own, and programs built against it."""

    def __init__(self, where):
        self.where = where
        output_of("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", where / "root")
        self.pc = next((where / "root").rglob("belljar.pc"))
        self.dir = self.pc.parent.parent
        self.shared = self.dir / "libbelljar.so"
        self.static = self.dir / "libbelljar.a"
        # What a sanitizer was built into asks for the same of who links it.
        undefined = output_of("nm", "-D", "--undefined-only", self.shared)
        self.sanitizers = ["-fsanitize=address,undefined"] if "__asan" in undefined else []
        self.built = {}

    def flags(self, *options):
        env = {**os.environ, "PKG_CONFIG_LIBDIR": os.pathsep.join(
            [str(self.pc.parent), *self._usual_dirs()]),
            "PKG_CONFIG_SYSROOT_DIR": str(self.where / "root")}
        return output_of("pkg-config", *options, "belljar", env=env).split()

    @staticmethod
    def _usual_dirs():
        return output_of("pkg-config", "--variable", "pc_path", "pkg-config").strip().split(":")

    def build(self, name, kind):
        """The path of the program, built at most once."""
        if (name, kind) in self.built:
            return self.built[name, kind]
        program = self.where / f"{name}-{kind}"
        libs = self.flags("--libs")
        if kind == "static":
            libs = [x for x in self.flags("--static", "--libs") if x != "-lbelljar"]
            libs.insert(0, str(self.static))
        output_of(CC, "-std=gnu17", "-g", *WARNINGS, *self.sanitizers, *self.flags("--cflags"),
                  HERE / f"{name}.c", "-o", program, *libs, "-lpthread")
        self.built[name, kind] = program
        return program


@pytest.fixture(scope="module")
def library():
    with tempfile.TemporaryDirectory(prefix="belljar-library-", dir="/tmp") as where:
        os.chmod(where, 0o755)
        yield Library(pathlib.Path(where))


def run(jar, library, name, kind, *arguments):
    env = {"BELLJAR_PROGRAM": jar.path}
    if kind == "shared":
        env["LD_LIBRARY_PATH"] = str(library.dir)
    done = jar.command(library.build(name, kind), *arguments, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    jar.assert_nothing_left(0)
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["hello", "stop", "threads"])
def test_a_program(jar, library, name, kind):
    out = run(jar, library, name, kind)
    if name == "hello":
        assert re.fullmatch(r"hello \d+\.\d+\.\d+\n", out)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.once
def test_a_program_with_names_of_ours(jar, library, kind):
    run(jar, library, "clash", kind)


def test_files(jar, library):
    run(jar, library, "files", "shared", jar.home)


def test_every_outcome(jar, library):
    lacking = set(re.findall(r"not here: (\w+)", run(jar, library, "outcomes", "shared")))
    # Either limits that need a control group are there, or a refusal can be had.
    assert lacking <= {"policy_denied"} or lacking <= {"out_of_memory", "pids_limit"}


def test_errors(jar, library):
    done = jar.command(library.build("errors", "shared"),
                       env={"BELLJAR_PROGRAM": jar.path, "LD_LIBRARY_PATH": str(library.dir)})
    assert done.returncode == 0, done.stdout + done.stderr
    # A keeper that can not start says why, there where the program's own log goes.
    assert {line.split(":")[0] for line in done.stderr.splitlines()} <= {"belljar"}
    assert jar.run("--", "true").returncode == 0  # sweeps after the keeper that was killed
    jar.assert_nothing_left(0)


def test_a_program_with_a_running_keeper(jar, library):
    keeper = jar.start_keeper()
    (registered,) = jar.registered()
    env = {"BELLJAR_PROGRAM": "/no/belljar", "LD_LIBRARY_PATH": str(library.dir)}
    done = jar.command(library.build("threads", "shared"), env=env)
    assert done.returncode == 0, done.stderr
    assert jar.registered() == [registered]
    keeper.terminate()
    assert keeper.wait(10) == 0


# --- what is installed


def test_only_public_names_are_exported(library):
    names = {line.split()[-1] for line in
             output_of("nm", "-D", "--defined-only", library.shared).splitlines()}
    public = set(re.findall(r"\b(belljar_\w+)\(", (HERE.parents[2] / "include/belljar.h").read_text()))
    assert names == public
    names = {line.split()[-1] for line in
             output_of("nm", "-g", "--defined-only", library.static).splitlines()
             if len(line.split()) == 3}
    assert names == public


def test_pkg_config_tells_what_is_needed(library):
    assert "-lbelljar" in library.flags("--libs")
    assert {"-lbelljar", "-ljansson", "-lpthread"} <= set(library.flags("--static", "--libs"))
    (version,) = library.flags("--modversion")
    assert re.search(r'version: *\'([^\']*)\'', (HERE.parents[2] / "meson.build").read_text())[1] \
        == version


@pytest.mark.parametrize("compiler, standard", [
    ("gcc", "c99"), ("gcc", "c17"), ("clang", "c11"), ("g++", "c++11"), ("g++", "c++20"),
])
def test_the_header_stands_alone(library, compiler, standard):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    source = library.where / ("header.cc" if "+" in compiler else "header.c")
    source.write_text("#include <belljar.h>\nint main(void) { return !belljar_version(); }\n")
    output_of(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
              "-fsyntax-only", *library.flags("--cflags"), source)


def test_the_soname_is_there(library):
    names = {p.name for p in library.dir.glob("libbelljar.so*")}
    assert "libbelljar.so" in names and "libbelljar.so.0" in names
    assert "libbelljar.so.0" in output_of("readelf", "-d", library.shared)
