"""Every language of the one table, through `belljar run --lang`: output, arguments, stdin,
exit status, and what is wrong with a program, as its author wants to be told."""
import pathlib
import re
import subprocess

import pytest

from test_run import said

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
once = pytest.mark.once

# language: a program that greets, shows its arguments and the first line of stdin, and exits
# with 7; one that fails while it runs; what stderr then says; one that can not be compiled or
# parsed; what stderr then says.
PROGRAMS = {
    "python": (
        "import sys\nprint('héllo', sys.argv[1:], input())\nsys.exit(7)\n",
        "héllo ['a', 'b c'] líne\n",
        "def f():\n    return 1 / 0\nf()\n", r'main\.py", line 2, in f[\s\S]*ZeroDivisionError',
        "print('no'\n", r"main\.py[\s\S]*SyntaxError"),
    "javascript": (
        "const line = require('fs').readFileSync(0, 'utf8').split('\\n')[0];\n"
        "console.log('héllo', process.argv.slice(2).join('|'), line);\nprocess.exit(7);\n",
        "héllo a|b c líne\n",
        "\nthrow new Error('no')\n", r"main\.js:2[\s\S]*Error: no",
        "let = = 1\n", r"main\.js:1[\s\S]*SyntaxError"),
    "shell": (
        'read line\necho "héllo" "$1|$2" "$line"\nexit 7\n', "héllo a|b c líne\n",
        "\nnosuchcommand\n", r"main\.sh: line 2: nosuchcommand: command not found",
        "if true\n", r"main\.sh: line 2: syntax error"),
    "elixir": (
        'line = IO.gets("") |> String.trim()\n'
        'IO.puts("héllo #{Enum.join(System.argv(), "|")} #{line}")\nSystem.halt(7)\n',
        "héllo a|b c líne\n",
        'defmodule M do\n  def f, do: raise("no")\nend\nM.f()\n',
        r"\(RuntimeError\) no[\s\S]*main\.exs:2: M\.f/0",
        "IO.puts(\n", r"TokenMissingError.*main\.exs:"),
    "ruby": (
        "puts \"héllo #{ARGV.join('|')} #{STDIN.gets}\"\nexit 7\n", "héllo a|b c líne\n",
        "def f\n  raise 'no'\nend\nf\n", r"main\.rb:2:in .*f'.*no \(RuntimeError\)",
        "def f(\n", r"main\.rb:\d+: syntax error"),
    "perl": (
        'my $line = <STDIN>; print "héllo ", join("|", @ARGV), " $line"; exit 7;\n',
        "héllo a|b c líne\n",
        "\ndie 'no';\n", r"no at /workspace/main\.pl line 2",
        "my $x = (1;\n", r"syntax error at /workspace/main\.pl line 1"),
    "lua": (
        "print('héllo', arg[1] .. '|' .. arg[2], io.read())\nos.exit(7)\n",
        "héllo\ta|b c\tlíne\n",
        "\nerror('no')\n", r"main\.lua:2: no[\s\S]*stack traceback",
        "x = = 1\n", r"main\.lua:1: unexpected symbol"),
    "c": (
        "#include <math.h>\n#include <stdio.h>\nint main(int argc, char **argv)\n{\n"
        "\tchar line[80];\n"
        "\tif (!fgets(line, sizeof(line), stdin))\n\t\treturn 1;\n"
        '\tprintf("héllo %d %s|%s %.0f %s", argc, argv[1], argv[2], sqrt(argc * 3), line);\n'
        "\treturn 7;\n}\n",
        "héllo 3 a|b c 3 líne\n",
        '#include <assert.h>\nint main(void)\n{\n\tassert(!"no");\n}\n', r"main\.c:4: main: .*no",
        "int main(void)\n{\n\treturn x;\n}\n", r"main\.c:3:.*error: .*x.* undeclared"),
    "go": (
        'package main\n\nimport (\n\t"bufio"\n\t"fmt"\n\t"os"\n\t"strings"\n)\n\n'
        "func main() {\n\tline, _ := bufio.NewReader(os.Stdin).ReadString('\\n')\n"
        '\tfmt.Print("héllo ", strings.Join(os.Args[1:], "|"), " ", line)\n\tos.Exit(7)\n}\n',
        "héllo a|b c líne\n",
        'package main\n\nfunc main() {\n\tpanic("no")\n}\n', r"panic: no[\s\S]*main\.go:4",
        "package main\n\nfunc main() {\n\tx\n}\n", r"main\.go:4:2: undefined: x"),
    "java": (
        "import java.io.*;\n\npublic class Main {\n"
        "\tpublic static void main(String[] a) throws IOException {\n"
        '\t\tvar in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));\n'
        '\t\tnew PrintStream(System.out, true, "UTF-8")\n'
        '\t\t\t.println("héllo " + String.join("|", a) + " " + in.readLine());\n'
        "\t\tSystem.exit(7);\n\t}\n}\n",
        "héllo a|b c líne\n",
        "class Any {\n\tpublic static void main(String[] a) {\n"
        '\t\tthrow new RuntimeException("no");\n\t}\n}\n',
        r'Exception in thread "main" java\.lang\.RuntimeException: no\s+at Any\.main\(Main\.java:3',
        "class Main {\n\tint x = ;\n}\n", r"Main\.java:2: error: illegal start of expression"),
}
LANGUAGES = list(PROGRAMS)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_output_arguments_stdin_and_status(jar, lang):
    source, output, *_ = PROGRAMS[lang]
    done = jar.run("--lang", lang, jar.file("program", source), "a", "b c", input="líne\n")
    assert (done.stderr, done.stdout, done.returncode) == ("", output, 7)


@once
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_program_that_fails_says_where(jar, lang):
    _, _, source, words, *_ = PROGRAMS[lang]
    done = jar.run("--lang", lang, input=source)
    assert done.returncode not in (0, 125, 126), done.stderr
    assert done.stdout == ""
    assert re.search(words, done.stderr), done.stderr


@once
@pytest.mark.parametrize("lang", LANGUAGES)
def test_source_that_is_wrong_is_said_to_be(jar, lang):
    *_, source, words = PROGRAMS[lang]
    done = jar.run("--lang", lang, input=source)
    assert done.returncode in (1, 2, 255), done.stderr
    assert done.stdout == ""
    assert re.search(words, done.stderr), done.stderr


@once
@pytest.mark.parametrize("lang", LANGUAGES)
def test_nothing_is_left_among_the_files(jar, lang):
    """Caches, dumps and programs are no artifacts."""
    source, *_ = PROGRAMS[lang]
    out = jar.home / "out"
    jar.run("--lang", lang, "--capture", "**", "--out", out, jar.file("program", source), "a", "b",
            input="x\n")
    assert len([path for path in out.rglob("*") if path.is_file()]) == 1


@once
@pytest.mark.parametrize("lang", LANGUAGES)
def test_little_memory_is_enough_to_start(jar, lang):
    """Far below the defaults, so that a machine with many processors is fine with those."""
    source, output, *_ = PROGRAMS[lang]
    memory = {"go": "512M"}.get(lang, "160M")
    done = jar.run("--lang", lang, "--memory", memory, "--pids", "64",
                   jar.file("program", source), "a", "b c", input="líne\n")
    assert (done.stdout, done.returncode) == (output, 7), done.stderr


@once
@pytest.mark.parametrize("lang, code", [
    ("python", "import os; print(os.environ['PATH'])"), ("shell", "echo $PATH"),
    ("perl", "print $ENV{PATH}, qq(\\n)")])
def test_an_interpreter_is_found_whatever_path_the_program_has(jar, lang, code):
    done = jar.run("--lang", lang, "--env", "PATH=/x", input=code)
    assert (done.stderr, done.stdout, done.returncode) == ("", "/x\n", 0)


@once
def test_a_compiled_program_has_no_file_open_but_its_own(jar):
    source = ('#include <dirent.h>\n#include <stdio.h>\nint main(void)\n{\n'
              '\tDIR *d = opendir("/proc/self/fd");\n'
              '\tfor (struct dirent *e; (e = readdir(d));)\n'
              '\t\tif (e->d_name[0] != \'.\')\n\t\t\tputs(e->d_name);\n'
              '\td = opendir("/tmp");\n'
              '\tfor (struct dirent *e; (e = readdir(d));)\n'
              '\t\tif (e->d_name[0] != \'.\')\n\t\t\tputs(e->d_name);\n}\n')
    done = jar.run("--lang", "c", input=source)
    assert (done.stdout.split(), done.returncode) == (["0", "1", "2", "3"], 0), done.stderr


@once
def test_a_signal_that_ends_a_compiled_program_is_its_end(jar):
    done = jar.run("--lang", "c", input="int main(void)\n{\n\t*(volatile int *)0 = 1;\n}\n")
    assert done.returncode == 128 + 11, done.stderr


@once
def test_headers_beside_the_source_are_found(jar):
    header = jar.file("seven.h", "#define SEVEN 7\n")
    done = jar.run("--lang", "c", "--copy-in", header,
                   input='#include "seven.h"\nint main(void)\n{\n\treturn SEVEN;\n}\n')
    assert done.returncode == 7, done.stderr


@once
@pytest.mark.heavy
def test_go_has_room_to_compile_its_libraries(jar):
    """As versions do that bring none ready; -a has this one do so too."""
    source = ('package main\n\nimport (\n\t"fmt"\n\t"net/http"\n)\n\n'
              "func main() {\n\tfmt.Println(http.StatusText(200))\n}\n")
    done = jar.run("--timeout", "300s", "--lang", "go", "-e", "GOFLAGS=-a", input=source,
                   timeout=330)
    assert (done.stderr, done.stdout) == ("", "OK\n")


@once
def test_help_and_manual_list_the_languages(jar):
    known = said(jar.run("--lang", "cobol", "x")).split("known are ")[1]
    assert re.split(", | and ", known) == LANGUAGES
    for text in (jar.cli("run", "--help").stdout, (TOP / "docs/belljar.1").read_text(),
                 (TOP / "README.md").read_text()):
        assert known in re.sub(r"\s+", " ", text)


HIDE = 'mount --bind "$0" /usr/bin/lua5.4 && exec "$@"'


@pytest.mark.root_only("needs root to hide a program")
def test_a_language_that_is_not_here_says_what_to_install(jar):
    """Known and not installed is another thing than unknown."""
    nothing = jar.file("nothing", mode=0o644)
    done = jar.command("unshare", "--mount", "--propagation", "private", "sh", "-c", HIDE, nothing,
                       jar.path, *jar.arguments("--lang", "lua", "x"))
    assert done.returncode == 125
    assert said(done) == ("lua is known but not on this machine: no 'lua' in /usr; "
                          "install the Debian package lua5.4")


@once
def test_every_language_is_among_the_packages_of_the_tests():
    """Then a test above fails, and does not skip, where one is missing."""
    done = subprocess.run([TOP / "tools/setup", "--list", "test"], check=True, text=True,
                          capture_output=True)
    assert {"python3", "nodejs", "elixir", "ruby", "perl", "lua5.4", "gcc", "libc6-dev",
            "golang-go", "default-jdk-headless"} <= set(done.stdout.split())
