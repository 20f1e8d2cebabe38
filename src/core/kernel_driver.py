"""The interpreter of a session that keeps its variables: what runs in the box (core/kernel.h).

Descriptor 0 is a socket to the server: pieces of code come, and what became of each goes back
(core/kernel_wire.h has the form). Before the first of them it is moved away, and 0 is /dev/null.
1 and 2 are the user's alone. Nothing here can be trusted once a user's code has run: the server
does not.
"""
import sys

_path = sys.path.pop(0)  # modules of the user's must not take the place of ours


def _main():
    import ast
    import builtins
    import fcntl
    import linecache
    import os
    import re
    import signal
    import struct
    import time
    import traceback
    import types
    import warnings

    NAMES_MAX, PATHS_MAX, DEPTH_MAX, SECONDS_MAX = 2000, 256 << 10, 16, 0.02
    PATH_MAX, NAME_MAX = 4000, 1000
    INCOMING = re.compile(r"\.incoming-[0-9a-f]{16}")
    RESULT_MAX, TRACEBACK_MAX = 256 << 10, 1 << 20  # then its beginning and its end
    IMAGES_MAX, IMAGES_BYTES = 8, 4 << 20
    CELLS_MAX = 200  # whose lines a traceback can show

    try:
        talk = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 100)  # out of the user's way
    except OSError:  # there may be no more than a few
        talk = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    top, me = os.getcwd(), os.getpid()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ.setdefault("MPLCONFIGDIR", "/tmp/.matplotlib")  # not among the user's files
    os.environ.setdefault("XDG_CACHE_HOME", "/tmp/.cache")
    warnings.filterwarnings("ignore", message=".*non-interactive.*cannot be shown")

    def read(size):
        data = b""
        while len(data) < size:
            piece = os.read(talk, size - len(data))
            if not piece:
                os._exit(0)
            data = data + piece if data else piece
        return data

    def send(kind, data):
        data = memoryview(kind + struct.pack("<I", len(data)) + data)
        while data:
            data = data[os.write(talk, data):]

    def pack(kind, data):
        return kind + struct.pack("<I", len(data)) + data

    def field(kind, value, most=RESULT_MAX):
        """Also, if it has to be cut, how long it was."""
        data = value.replace("\0", "\ufffd").encode("utf-8", "replace")
        if len(data) <= most:
            return pack(kind, data)
        head = data[:most // 2].decode("utf-8", "ignore").encode()
        tail = data[-most // 2:].decode("utf-8", "ignore").encode()
        line = b"\n[%d bytes left out]\n" % (len(data) - len(head) - len(tail))
        return pack(kind, head + line + tail) + pack(b"c", b"%d" % len(data))

    def walk():
        """{path: (kind, size, mtime, what changes with it)}, and whether there is more."""
        found, is_cut, n_bytes = {}, False, 0
        until, todo = time.monotonic() + SECONDS_MAX, [("", 0)]
        for prefix, depth in todo:
            try:
                entries = os.scandir(os.path.join(top, prefix))
            except OSError:
                is_cut = True
                continue
            with entries:
                for entry in entries:
                    path = prefix + entry.name
                    if not prefix and INCOMING.fullmatch(path):
                        continue  # files on their way in
                    if len(os.fsencode(path)) > PATH_MAX:
                        is_cut = True
                        continue
                    n_bytes += len(path)
                    if (len(found) >= NAMES_MAX or n_bytes > PATHS_MAX // 4
                            or time.monotonic() > until):
                        return found, True
                    try:
                        st = entry.stat(follow_symlinks=False)
                        is_dir = entry.is_dir(follow_symlinks=False)
                        kind = (b"L" if entry.is_symlink() else b"D" if is_dir else
                                b"F" if entry.is_file(follow_symlinks=False) else b"O")
                    except OSError:
                        continue
                    found[path] = (kind, st.st_size if kind == b"F" else 0,
                                   max(st.st_mtime_ns, 0), (st.st_ino, st.st_ctime_ns))
                    if is_dir and depth + 1 < DEPTH_MAX:
                        todo.append((path + "/", depth + 1))
                    is_cut = is_cut or (is_dir and depth + 1 >= DEPTH_MAX)
        return found, is_cut

    def inventory(before):
        """As src/ipc/inventory.h has it."""
        found, is_cut = walk()
        rows = []
        for path in sorted(found):
            kind, size, mtime, stamp = found[path]
            name = os.fsencode(path)
            changed = path not in before or before[path][3] != stamp
            rows.append(kind + struct.pack("<BQQI", changed, size, mtime, len(name)) + name)
        return b"".join(rows) + struct.pack("<cBI", b"E", is_cut, len(rows))

    class Clock:
        """Is a piece of code being executed, which an interrupt may end?"""
        is_busy = False

    def on_interrupt(_signal, _frame):
        if Clock.is_busy and os.getpid() == me:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)
    module = types.ModuleType("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    space = module.__dict__

    def compile_cell(code, name):
        """What to execute, and the last expression, whose value is shown."""
        tree = ast.parse(code, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
            last = compile(ast.Expression(tree.body.pop().value), name, "eval")
        return compile(tree, name, "exec"), last

    def flush():
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass

    def hide_interrupt(error):
        """Our frame that raises is the last of an interrupt's, which may have led to others."""
        todo, seen = [error], set()
        while todo:
            error = todo.pop()
            if error is None or id(error) in seen:
                continue
            seen.add(id(error))
            trace = error.__traceback__
            while trace:
                if trace.tb_next and trace.tb_next.tb_frame.f_code is on_interrupt.__code__:
                    trace.tb_next = None
                trace = trace.tb_next
            todo += [error.__cause__, error.__context__]
            if isinstance(error, getattr(builtins, "BaseExceptionGroup", ())):
                todo += error.exceptions

    def show(error, name):
        hide_interrupt(error)
        trace = error.__traceback__
        if isinstance(error, SyntaxError) and error.filename == name:
            trace = None  # it is about the code, which did not begin
        while trace and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next  # frames of ours
        return "".join(traceback.format_exception(type(error), error, trace))

    def run_cell(code, name):
        """(outcome, result or None, name of the error, traceback)"""
        result = None
        try:
            Clock.is_busy = True
            body, last = compile_cell(code, name)
            exec(body, space)
            if last:
                value = eval(last, space)
                if value is not None:
                    space["_"] = value
                    result = repr(value)
            flush()
            Clock.is_busy = False
            return "ok", result, "", ""
        except KeyboardInterrupt as error:
            Clock.is_busy = False
            return "interrupted", None, "KeyboardInterrupt", show(error, name)
        except BaseException as error:  # SystemExit too: the interpreter stays
            Clock.is_busy = False
            try:
                text = show(error, name)
            except BaseException:
                text = "%s, which can not be shown\n" % type(error).__name__
            return "error", None, type(error).__name__, text
        finally:
            Clock.is_busy = False

    def send_images():
        plt = sys.modules.get("matplotlib.pyplot")
        if not plt:
            return ""
        try:
            import io
            left = IMAGES_BYTES
            for number in plt.get_fignums()[:IMAGES_MAX]:
                file = io.BytesIO()
                plt.figure(number).savefig(file, format="png", bbox_inches="tight")
                left -= len(file.getvalue())
                if left < 0:
                    return "figures are too large to be shown"
                send(b"I", file.getvalue())
            plt.close("all")
        except Exception as error:
            return "a figure can not be shown: %s" % type(error).__name__
        return ""

    def execute(number, env, code):
        name = "<cell %d>" % number
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        linecache.cache.pop("<cell %d>" % (number - CELLS_MAX), None)
        before, _ = walk()
        saved = {key: os.environ.get(key) for key in env}
        os.environ.update(env)
        try:
            outcome, result, error, trace = run_cell(code, name)
        except KeyboardInterrupt as again:  # the second, while the first was being told
            Clock.is_busy = False
            outcome, result, error, trace = "interrupted", None, "KeyboardInterrupt", str(again)
        if os.getpid() != me:
            os._exit(0)  # a fork of the user's that came to the end of its code
        for key, value in saved.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
        flush()
        note = send_images()
        os.chdir(top)
        parts = [field(b"o", outcome), field(b"n", str(number))]
        parts += [field(b"r", result)] if result is not None else []
        parts += [field(b"e", error[:NAME_MAX]), field(b"t", trace, TRACEBACK_MAX)] if error else []
        parts += [field(b"w", note)] if note else []
        listing = inventory(before)
        parts.append(pack(b"L", listing))
        send(b"D", b"".join(parts))

    sys.path.insert(0, _path)
    send(b"R", sys.version.split()[0].encode())
    while True:
        number, n_env, size = struct.unpack("<III", read(12))
        pairs = read(n_env).decode().split("\0") if n_env else []
        env = dict(zip(pairs[::2], pairs[1::2]))
        execute(number, env, read(size).decode())


_main()
