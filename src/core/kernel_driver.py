"""The interpreter of a session that keeps its variables: what runs in the box (core/kernel.h).

Pieces of code come on descriptor 0, and what became of each goes back on 3 (core/kernel_wire.h has
the form). Before the first of them both are moved away, and 0 is /dev/null. 1 and 2 are the user's
alone. Nothing here can be trusted once a user's code has run: the server
does not.
"""
import sys

_path = sys.path.pop(0)  # modules of the user's must not take the place of ours


def _main():
    import ast
    import builtins
    import fcntl
    import hashlib
    import io
    import linecache
    import os
    import re
    import resource
    import select
    import signal
    import struct
    import time
    import traceback
    import types
    import warnings
    from importlib.machinery import PathFinder

    NAMES_MAX, PATHS_MAX, DEPTH_MAX, SECONDS_MAX = 2000, 256 << 10, 16, 0.02
    PATH_MAX, NAME_MAX = 4000, 1000
    FILE_MAX, TOTAL_MAX, DIGESTS_SECONDS = 16 << 20, 64 << 20, 0.2  # as src/box/digests.h has it
    HIDDEN = re.compile(r"\.(incoming|outgoing|arriving)-[0-9a-f]{16}")
    RESULT_MAX, TRACEBACK_MAX = 256 << 10, 1 << 20  # then its beginning and its end
    IMAGES_MAX, IMAGES_BYTES = 8, 4 << 20  # of one execution
    WHYS_MAX, WHY_MAX = 8, 200
    CO_COROUTINE = 0x80  # as inspect has it
    PRESS = 0xffffffff
    CELLS_MAX = 200  # whose lines a traceback can show

    def move_away(fd):
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)  # out of the user's way
        except OSError:  # there may be no more than a few
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)

    code_fd, reply_fd = move_away(0), move_away(3)
    os.close(3)
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
            piece = os.read(code_fd, size - len(data))
            if not piece:
                os._exit(0)
            data = data + piece if data else piece
        return data

    def send(kind, data):
        data = memoryview(kind + struct.pack("<I", len(data)) + data)
        while data:
            data = data[os.write(reply_fd, data):]

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
                    if not prefix and HIDDEN.fullmatch(path):
                        continue  # files on their way in or out
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

    def digest_of(path, size, stamp, until):
        """None for what can not be read, or is no longer as it was found."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with open(os.open(os.path.join(top, path), flags), "rb", buffering=0) as file:
                st, it = os.fstat(file.fileno()), hashlib.sha256()
                if (st.st_ino, st.st_ctime_ns) != stamp:
                    return None
                while size > 0 and time.monotonic() < until:
                    piece = file.read(min(size, 1 << 20))
                    if not piece:
                        return None
                    it.update(piece)
                    size -= len(piece)
        except OSError:
            return None
        return it.digest() if size == 0 else None

    def digests_of(found, before):
        """{path: SHA-256} of what was changed first and then what is newer, within limits."""
        files = [(path in before and before[path][3] == stamp, -mtime, path)
                 for path, (kind, _size, mtime, stamp) in found.items()
                 if kind == b"F" and not path.startswith(".cache/")]
        until, total, digests = time.monotonic() + DIGESTS_SECONDS, 0, {}
        for _old, _mtime, path in sorted(files):
            size = found[path][1]
            if time.monotonic() > until:
                break
            if size <= FILE_MAX and total + size <= TOTAL_MAX:
                total += size
                digests[path] = digest_of(path, size, found[path][3], until)
        return digests

    def inventory(before):
        """As src/ipc/inventory.h has it."""
        found, is_cut = walk()
        digests = digests_of(found, before)
        rows = []
        for path in sorted(found):
            kind, size, mtime, stamp = found[path]
            name = os.fsencode(path)
            changed = path not in before or before[path][3] != stamp
            digest = digests.get(path)
            rows.append(kind + struct.pack("<BQQI", changed, size, mtime, len(name)) + name
                        + (b"\1" + digest if digest else b"\0"))
        return b"".join(rows) + struct.pack("<cBI", b"E", is_cut, len(rows))

    class Clock:
        """Is a piece of code being executed, which an interrupt may end? One that comes when it
        is about to be is kept for it."""
        is_begun = is_busy = was_pressed = False

    def on_interrupt(_signal, _frame):
        if Clock.is_busy and os.getpid() == me:
            raise KeyboardInterrupt
        Clock.was_pressed = Clock.is_begun

    incoming = select.poll()
    incoming.register(code_fd, select.POLLIN)

    def take_press():
        """The server writes an interrupt behind the code before it sends the signal, which may
        have come before the code was read."""
        while any(events & select.POLLIN for _fd, events in incoming.poll(0)):
            read(12)
            Clock.was_pressed = True

    signal.signal(signal.SIGINT, on_interrupt)
    module = types.ModuleType("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    space = module.__dict__

    def ends_with_semicolon(code, last):
        """Behind the last expression there are parentheses and comments, but no texts."""
        first, *others = code.encode().splitlines()[last.end_lineno - 1:]
        lines = [first[last.end_col_offset:], *others]
        return any(b";" in line.partition(b"#")[0] for line in lines)

    def compile_cell(code, name):
        """What to execute, and the last expression, whose value is shown."""
        tree = ast.parse(code, name)
        last, flags = None, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        if (tree.body and isinstance(tree.body[-1], ast.Expr)
                and not ends_with_semicolon(code, tree.body[-1])):
            last = compile(ast.Expression(tree.body.pop().value), name, "eval", flags)
        return compile(tree, name, "exec", flags), last

    class Waiting:
        """The loop in which a cell awaits, from its first use on."""
        loop = None

    def wait_for(coroutine):
        import asyncio
        if Waiting.loop is None or Waiting.loop.is_closed():
            Waiting.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(Waiting.loop)
        task = Waiting.loop.create_task(coroutine)
        try:
            return Waiting.loop.run_until_complete(task)
        finally:
            if not task.done():  # it was interrupted, and must not go on in the next cell
                task.cancel()
                try:
                    Waiting.loop.run_until_complete(task)
                except BaseException:
                    pass

    def run_code(code):
        value = eval(code, space)
        return wait_for(value) if code.co_flags & CO_COROUTINE else value

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

    def width(c):
        if c < "\x80":
            return 1
        import unicodedata
        if unicodedata.combining(c):
            return 0
        return 2 if unicodedata.east_asian_width(c) in "WF" else 1

    def align(text):
        """Marks below what they mark: versions before 3.13 count characters, not columns."""
        rows = text.split("\n")
        for i in range(2, len(rows)):
            line, marks = rows[i - 1], rows[i]
            if rows[i - 2].lstrip(" |").startswith("File ") and not marks.strip(" |~^\t"):
                rows[i] = "".join(c if c == "\t" else "\t" if (c, above) == (" ", "\t")
                                  else c * width(above) for c, above in zip(marks, line))
                rows[i] += marks[len(line):]
        return "\n".join(rows)

    def place(error, name):
        """Versions before 3.13 may count bytes. Of the same code in ASCII they are characters."""
        code = "".join(linecache.cache[name][2])
        if code.isascii() or error.text is None:
            return
        try:
            ast.parse("".join(c if c < "\x80" else "x" for c in code), name)
        except SyntaxError as same:
            if (same.msg, same.lineno) == (error.msg, error.lineno):
                error.offset, error.end_offset = same.offset, same.end_offset

    def format_error(error, trace):
        """As traceback does, but for the marks of versions before 3.13, where it takes bytes of
        an operator's place for characters."""
        anchors = getattr(traceback, "_extract_caret_anchors_from_line_segment", None)
        if sys.version_info >= (3, 13):
            return "".join(traceback.format_exception(type(error), error, trace))
        if anchors:
            traceback._extract_caret_anchors_from_line_segment = lambda line: anchors(
                "".join(c if c < "\x80" else "x" for c in line))
        try:
            return align("".join(traceback.format_exception(type(error), error, trace)))
        finally:
            if anchors:
                traceback._extract_caret_anchors_from_line_segment = anchors

    def lines_of(code):
        """As traceback wants them: it takes what a line ends with for one line feed."""
        text = code.replace("\r\n", "\n").replace("\r", "\n")
        return [line.rstrip() + "\n" for line in text.split("\n")]

    def show(error, name):
        hide_interrupt(error)
        trace = error.__traceback__
        if isinstance(error, SyntaxError) and error.filename == name:
            trace = None  # it is about the code, which did not begin
            if sys.version_info < (3, 13):
                place(error, name)
        while trace and (trace.tb_frame.f_code.co_filename == "<string>" or
                         str(trace.tb_frame.f_globals.get("__name__")).startswith("asyncio.")):
            trace = trace.tb_next  # frames of ours, and of what awaits for us
        return format_error(error, trace)

    def show_safely(error, name):
        try:
            return show(error, name)
        except BaseException:
            return "%s, which can not be shown\n" % type(error).__name__

    def run_cell(code, name):
        """(outcome, value, result or None, name of the error, traceback)"""
        value = result = None
        try:
            Clock.is_busy, Clock.is_begun = True, False
            if Clock.was_pressed:
                raise KeyboardInterrupt
            body, last = compile_cell(code, name)
            run_code(body)
            if last:
                value = run_code(last)
                if value is not None:
                    space["_"] = value
                    result = repr(value)
            flush()
            Clock.is_busy = False
            return "ok", value, result, "", ""
        except KeyboardInterrupt as error:
            Clock.is_busy = False
            return "interrupted", None, None, "KeyboardInterrupt", show_safely(error, name)
        except BaseException as error:  # SystemExit too: the interpreter stays
            Clock.is_busy = False
            return "error", None, None, type(error).__name__, show_safely(error, name)
        finally:
            Clock.is_busy = False

    class Pictures:
        """What is shown with the execution under way, and why something is not."""
        kept, n_bytes = [], 0
        whys, n_cut = {}, 0

    def leave_out(why, is_cut=False):
        if why not in Pictures.whys and len(Pictures.whys) >= WHYS_MAX:
            why = "other reasons"
        Pictures.whys[why] = Pictures.whys.get(why, 0) + 1
        Pictures.n_cut += is_cut

    def has_room():
        if len(Pictures.kept) < IMAGES_MAX:
            return True
        leave_out("an execution has at most %d" % IMAGES_MAX, True)
        return False

    def keep(data):
        if Pictures.n_bytes + len(data) > IMAGES_BYTES:
            leave_out("it has %d bytes, and those of an execution have at most %d together"
                      % (len(data), IMAGES_BYTES), True)
        else:
            Pictures.kept.append(data)
            Pictures.n_bytes += len(data)

    def explain(error):
        try:
            line = (str(error).strip().splitlines() or [""])[0]
        except Exception:
            line = "it can not be shown"
        return ("%s: %s" % (type(error).__name__, line))[:WHY_MAX]

    def draw(figure):
        if not has_room():
            return
        file = io.BytesIO()
        try:
            figure.savefig(file, format="png", bbox_inches="tight")
        except Exception as error:
            leave_out(explain(error))
        else:
            keep(file.getvalue())

    def draw_open():
        """Figures of pyplot are closed, whatever becomes of them; returns them."""
        plt = sys.modules.get("matplotlib.pyplot")
        figures = [plt.figure(n) for n in plt.get_fignums()] if plt else []
        todo = list(figures)
        try:
            while todo:
                draw(todo[0])
                plt.close(todo.pop(0))
        finally:
            for figure in todo:  # interrupted
                leave_out("it was not drawn to the end")
                plt.close(figure)
        return figures

    def show_figures(*_args, **_more):
        """Instead of matplotlib.pyplot.show, which has no window to show them in."""
        if os.getpid() == me:
            draw_open()

    class Watch:
        """Pyplot is imported by the user, some time."""

        @classmethod
        def find_spec(cls, name, path=None, target=None):
            if name != "matplotlib.pyplot":
                return None
            spec = PathFinder.find_spec(name, path, target)
            if spec and spec.loader:
                fill = spec.loader.exec_module

                def exec_module(it):
                    fill(it)
                    it.show = show_figures
                spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, Watch)
    if "matplotlib.pyplot" in sys.modules:  # imported ahead
        sys.modules["matplotlib.pyplot"].show = show_figures

    def draw_value(value, drawn):
        """The last expression, if it is a picture."""
        figures = sys.modules.get("matplotlib.figure")
        if figures and isinstance(value, figures.Figure):
            if not any(value is figure for figure in drawn):
                draw(value)
            return
        for name, start in ("_repr_png_", b"\x89PNG\r\n\x1a\n"), ("_repr_jpeg_", b"\xff\xd8\xff"):
            method = getattr(type(value), name, None)
            data = method(value) if callable(method) else None
            data = data[0] if isinstance(data, tuple) and data else data
            if data is None:
                continue
            if not isinstance(data, bytes) or not data.startswith(start):
                leave_out("%s did not return one" % name)
            elif has_room():
                keep(data)
            return

    def draw_rest(value):
        """False when it was interrupted: to draw is to execute what is the user's."""
        try:
            Clock.is_busy = True
            draw_value(value, draw_open())
        except KeyboardInterrupt:
            return False
        except BaseException as error:
            leave_out(explain(error))
        finally:
            Clock.is_busy = False
        return True

    def send_pictures():
        """Returns why some are not there, and how many are too many or too large."""
        kept, whys, n_cut = Pictures.kept, Pictures.whys, Pictures.n_cut
        Pictures.kept, Pictures.n_bytes, Pictures.whys, Pictures.n_cut = [], 0, {}, 0
        for data in kept:
            send(b"I", data)
        return "; ".join("%d image%s not shown: %s" % (n, " is" if n == 1 else "s are", why)
                         for why, n in whys.items()), n_cut

    def used():
        """Microseconds of processor time, those of children included that have ended."""
        both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return int(sum(it.ru_utime + it.ru_stime for it in both) * 1000000)

    def execute(number, env, code):
        name = "<cell %d>" % number
        linecache.cache[name] = (len(code), None, lines_of(code), name)
        linecache.cache.pop("<cell %d>" % (number - CELLS_MAX), None)
        before, _ = walk()
        saved = {key: os.environ.get(key) for key in env}
        os.environ.update(env)
        try:
            outcome, value, result, error, trace = run_cell(code, name)
            if os.getpid() == me and not draw_rest(value) and outcome == "ok":
                outcome, error = "interrupted", "KeyboardInterrupt"
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
        note, n_cut = send_pictures()
        os.chdir(top)
        parts = [field(b"o", outcome), field(b"n", str(number))]
        parts += [field(b"r", result)] if result is not None else []
        parts += [field(b"e", error[:NAME_MAX]), field(b"t", trace, TRACEBACK_MAX)] if error else []
        parts += [field(b"w", note)] if note else []
        parts += [field(b"i", str(n_cut))] if n_cut else []
        parts.append(field(b"u", str(used())))
        listing = inventory(before)
        parts.append(pack(b"L", listing))
        send(b"D", b"".join(parts))

    sys.path.insert(0, _path)
    send(b"R", sys.version.split()[0].encode())
    while True:
        number, n_env, size = struct.unpack("<III", read(12))
        if n_env == PRESS:
            continue  # of an execution that was over by then
        Clock.is_begun, Clock.was_pressed = True, False
        pairs = read(n_env).decode().split("\0") if n_env else []
        env = dict(zip(pairs[::2], pairs[1::2]))
        code = read(size).decode()
        take_press()
        execute(number, env, code)


_main()
