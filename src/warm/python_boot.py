# What a template does in Python: once when it is loaded, and in each clone around the guest's
# code. It runs in a namespace of its own, leaves no module behind that it imported, and nothing
# of it is on the stack while the guest runs.
import sys
import os
import posix

_before = set(sys.modules)
_new = {name.partition(".")[0] for name in _before}  # what a new interpreter has
import gc
import io
import _warnings
import _weakref as weakref

_unbuffered = None
_held = []  # so that a clone does not free it, and copy its pages for that


class Made:
    pass


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
    _held.extend(sys.path_importer_cache.values())
    # Names that Python sets at its end: it would look for room among all that there are.
    _held.extend(map(sys.intern, ("_", "ps1", "ps2", "last_type", "last_value", "last_traceback",
                                  "last_exc", "__interactivehook__")))
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


def own_hook():
    """The function that finds modules in directories, as one that nothing but sys.path_hooks
    has: Python keeps the first one elsewhere, too."""
    hook = sys.path_hooks[-1]
    own = type(hook)(hook.__code__, hook.__globals__, hook.__name__, hook.__defaults__,
                     hook.__closure__)
    own.__qualname__ = hook.__qualname__
    sys.path_hooks = [*sys.path_hooks[:-1], own]
    return own


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
    global _unbuffered
    _held.extend((sys.stdin, sys.stdout, sys.stderr))
    sys.stdin, sys.stdout, sys.stderr = _unbuffered
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = _unbuffered
    _unbuffered = None  # these are the guest's alone


def renew():
    """What draws random numbers, or knows its process, and does not notice a fork by itself."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    threading = sys.modules.get("threading")
    if threading is not None:
        threading.main_thread()._set_native_id()  # of this process, not the template
    ssl = sys.modules.get("_ssl")
    if ssl is not None:
        ssl.RAND_add(posix.urandom(32), 32.0)


def keep_lines(code, text):
    import linecache
    linecache._register_code(code, text, "<string>")
