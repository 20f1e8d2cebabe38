# What a template does in Python: once when it is loaded, and in each clone around the guest's
# code. It runs in a namespace of its own, leaves no module behind that it imported, and nothing
# of it is on the stack while the guest runs.
import sys
import os
import posix

_before = set(sys.modules)
_new = {name.partition(".")[0] for name in _before}  # what a new interpreter has
import atexit
import gc
import io
import _weakref as weakref

_QUIET = {dict, list, set, frozenset, tuple, type(sys), type(len), type(lambda: 0)}
_unbuffered = None
_held = []
_witness = None


def _stream(fd, mode, old):
    """A standard stream as Python makes it with PYTHONUNBUFFERED."""
    raw = io.open(fd, mode + "b", 0 if mode == "w" else -1, closefd=False)
    (raw.raw if mode == "r" else raw).name = old.name
    text = io.TextIOWrapper(raw, encoding=old.encoding, errors=old.errors, newline="\n",
                            line_buffering=False, write_through=True)
    text.mode = mode
    return text


def prepare(imports):
    """Import, and make ready whatever the clones share. Returns what could not be imported."""
    global _unbuffered
    failed = []
    for name in imports:
        try:
            __import__(name)
            _before.update(sys.modules)
        except BaseException as e:
            failed.append(f"{name}: {type(e).__name__}: {e}")
    _unbuffered = (_stream(0, "r", sys.stdin), _stream(1, "w", sys.stdout),
                   _stream(2, "w", sys.stderr))
    for name in [name for name in sys.modules if name not in _before]:
        del sys.modules[name]
    _held.extend(module for name, module in sys.modules.items() if name != "__main__")
    _held.extend((sys.stdin, sys.stdout, sys.stderr))
    compile("", "<string>", "exec")  # the first one makes more than a hundred types
    posix.environ.clear()
    # Nothing of this is ever freed in a clone: so that no page of it is written, and copied, to
    # find out that it need not be.
    gc.collect()
    gc.freeze()
    # Not this one, which the guest's objects refer to: what is frozen keeps them alive.
    main = type(sys)("__main__")
    main.__dict__.clear()
    main.__dict__.update(sys.modules["__main__"].__dict__)
    sys.modules["__main__"] = main
    return failed


def imported():
    """Packages that are there for the imports alone."""
    return sorted({name.partition(".")[0] for name in sys.modules} - _new)


def adopt_file(path, file):
    """Be what runs this file, which has this name in tracebacks."""
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    from _frozen_importlib_external import SourceFileLoader
    main = sys.modules["__main__"].__dict__
    main["__file__"] = file
    main["__cached__"] = None
    main["__loader__"] = SourceFileLoader("__main__", file)


def unbuffer():
    """Streams as PYTHONUNBUFFERED asks for them."""
    sys.stdin, sys.stdout, sys.stderr = _unbuffered
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = _unbuffered


def reseed():
    """What draws random numbers and does not notice a fork by itself."""
    global _witness
    _witness = []  # see _is_quiet()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    ssl = sys.modules.get("_ssl")
    if ssl is not None:
        ssl.RAND_add(posix.urandom(32), 32.0)


def _flush():
    """Whether all output is out."""
    done = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            done = False
    return done


def keep_lines(code, text):
    import linecache
    linecache._register_code(code, text, "<string>")


def exit_code(error):
    """What Python makes of SystemExit."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    stream = sys.stderr
    if stream is not None:
        stream.write(str(code))
        stream.write("\n")
    return 1


def finish():
    """End the guest's part of the interpreter as Python would, in its order: threads, functions
    registered for the end, output, then its modules with all they hold. What was there before is
    left as it is: the kernel is faster at that. False when this is not for us to do."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    if threading is not None and threading.active_count() > 1 or not _flush():
        return False
    if _is_quiet():
        _restore_streams()
    else:
        _clear()
    return _flush()


def _is_quiet():
    """Is there nothing of the guest whose end could be noticed? Few things at all, none of them
    with a class of the guest's, a file, a weak reference or a generator. Who has frozen what is
    his has frozen our witness, too."""
    if gc.get_count()[1:] != (0, 0):
        return False
    seen = False
    for it in gc.get_objects():
        if type(it) not in _QUIET:
            return False
        seen = seen or it is _witness
    return seen


def _restore_streams():
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__", None))


def _clear():
    for name in ("path", "argv", "ps1", "ps2", "last_type", "last_value", "last_traceback",
                 "last_exc", "path_hooks", "path_importer_cache", "meta_path",
                 "__interactivehook__"):
        if hasattr(sys, name):
            setattr(sys, name, None)
    _restore_streams()
    guests = [_ref(module) for name, module in sys.modules.items()
              if name not in _before or name == "__main__"]
    sys.modules.clear()
    gc.collect()
    for ref in reversed(guests):
        module = ref()
        if isinstance(module, type(sys)):
            _clear_module(module.__dict__)
        module = None
    gc.collect()


def _ref(module):
    """A way to find it again as long as somebody else keeps it."""
    try:
        return weakref.ref(module)
    except TypeError:
        return lambda: module


def _clear_module(names):
    """In Python's order: what begins with one underscore first, and never __builtins__."""
    for private in (True, False):
        for name in list(names):
            if not isinstance(name, str) or name == "__builtins__":
                continue
            is_private = name[:1] == "_" and name[1:2] != "_"
            if is_private == private and names[name] is not None:
                names[name] = None
