"""What the hostile programs share. It runs on both sides of the border: in a box,
where every attack must fail, and outside, where the same code must get further.

A program is a table of attacks. Each is a function with its arguments, the ways in
which it may fail, and a control, which proves that the code would notice a success:

    ATTACKS = {
        "write_core_pattern": attack(write, "/proc/sys/kernel/core_pattern",
                                     fails="EROFS", control=[FILE]),
        "mount_tmpfs": attack(mount_tmpfs, fails="EPERM", outside=True),
    }

    control=[...]   the same function with these arguments succeeds in the same box
    outside=True    the same call outside of any box does not fail in these ways

An argument "@name" stands for what the test planted outside under that name: a port,
a path, a process id. Each attack runs in a process of its own, since some are deadly.
The outcome is "ok", the name of an errno or of a signal, or "error: ..." for code
that is broken, which is never what a test expects.
"""
import contextlib
import ctypes
import errno
import json
import os
import pathlib
import platform
import signal
import sys
import traceback

HERE = pathlib.Path(__file__).resolve().parent
FILE, DIRECTORY = "/workspace/file", "/workspace/directory"
SENTINEL = "BELLJAR-SENTINEL-"  # what is planted outside begins so; 16 hex digits follow

libc = ctypes.CDLL(None, use_errno=True)

# System calls by their number: on x86-64, and on machines that came after it.
NUMBERS = {
    "accept": (43, 202), "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171),
    "bpf": (321, 280), "chroot": (161, 51), "clock_adjtime": (305, 266),
    "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "fcntl": (72, 25),
    "finit_module": (313, 273),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430),
    "fspick": (433, 433), "init_module": (175, 105), "io_setup": (206, 0),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioctl": (16, 29), "kcmp": (312, 272),
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "lookup_dcookie": (212, 18), "memfd_secret": (447, 447), "migrate_pages": (256, 238),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429),
    "move_pages": (279, 239), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "perf_event_open": (298, 241), "personality": (135, 92),
    "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41), "prctl": (157, 167), "prlimit64": (302, 261),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117),
    "quotactl": (179, 60), "reboot": (169, 142), "request_key": (249, 218),
    "sched_setattr": (314, 274), "setdomainname": (171, 162), "sethostname": (170, 161),
    "setns": (308, 268), "setsockopt": (54, 208), "settimeofday": (164, 170), "setuid": (105, 146),
    "socket": (41, 198), "socketpair": (53, 199), "splice": (275, 76), "swapoff": (168, 225),
    "swapon": (167, 224), "syslog": (103, 116), "tee": (276, 77), "tkill": (200, 130),
    "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282),
    "vhangup": (153, 58), "vmsplice": (278, 75),
}


class Nothing(Exception):
    """It worked, but there was nothing to be had."""


class Attack:
    def __init__(self, function, args, fails, control, outside):
        self.function = function
        self.args = args
        self.fails = {fails} if isinstance(fails, str) else set(fails)
        self.control = control
        self.outside = outside

    @property
    def needs(self):
        """Names of the planted things without which it makes no sense."""
        return [a[1:] for a in self.args if isinstance(a, str) and a.startswith("@")]


def attack(function, *args, fails, control=None, outside=False):
    assert control is not None or outside, "an attack needs a control"
    return Attack(function, args, fails, control, outside)


def check(result):
    """The result of a C function; OSError when it is -1."""
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def syscall(name, *args):
    """A system call by its name or number, past any library."""
    number = name if isinstance(name, int) else NUMBERS[name][platform.machine() != "x86_64"]
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    ctypes.set_errno(0)
    libc.syscall.restype = ctypes.c_long
    return check(libc.syscall(ctypes.c_long(number), *words))


def outcome_of(function, args):
    """What calling it came to, as [outcome, value]. For the child."""
    try:
        return ["ok", str(function(*args))[:4096]]
    except OSError as e:
        return [errno.errorcode.get(e.errno, str(e)), ""]
    except Nothing:
        return ["nothing", ""]
    except BaseException:  # whatever it is, the parent must hear of it
        return ["error: " + traceback.format_exc(limit=-3), ""]


def attempt(function, args):
    """Call it in a process of its own. Returns [outcome, value]. Whoever it started is
    gone afterwards."""
    from_child, to_parent = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.write(to_parent, json.dumps(outcome_of(function, args)).encode())
        os._exit(0)
    os.close(to_parent)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with open(from_child, encoding="utf-8", errors="replace") as f:
        text = f.read()
    if os.WIFSIGNALED(status):
        return [signal.Signals(os.WTERMSIG(status)).name, ""]
    return json.loads(text) if text else ["error: it left without a word", ""]


def resolve(args, places):
    return [places[a[1:]] if isinstance(a, str) and a.startswith("@") else a for a in args]


def make_friendly():
    """What controls may do as they like with."""
    pathlib.Path(FILE).write_bytes(b"friendly")
    pathlib.Path(DIRECTORY).mkdir(exist_ok=True)


def run(attacks, only_outside):
    """Every attack of the table: {name: {"attack": ..., "control": ...}}."""
    where = HERE / "places.json"
    places = json.loads(where.read_text()) if where.exists() else {}
    results = {}
    for name, a in attacks.items():
        if any(n not in places for n in a.needs) or (only_outside and not a.outside):
            continue
        row = {"attack": attempt(a.function, resolve(a.args, places))}
        if a.control is not None and not only_outside:
            make_friendly()
            row["control"] = attempt(a.function, resolve(a.control, places))
        results[name] = row
    return results


def main(attacks):
    print(json.dumps(run(attacks, "--outside" in sys.argv)))


# --- what attacks are made of ------------------------------------------------------


def write(path, data=b"x", flags=os.O_WRONLY):
    """Open what is there for writing, and write."""
    fd = os.open(path, flags)
    os.write(fd, data)
    os.close(fd)


def create(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    os.unlink(path)


def read(path, size=4096):
    """The beginning of a file. A file without a byte in it is nothing."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    data = os.read(fd, size)
    os.close(fd)
    if not data:
        raise Nothing
    return data.decode("utf-8", "replace")


def names(path):
    found = sorted(os.listdir(path))
    if not found:
        raise Nothing
    return found


def run_c(name, *args):
    """Run a compiled program from memory, since nothing here is executable. Returns
    what it printed; a signal becomes ours."""
    fd = os.memfd_create(name)
    os.write(fd, (HERE / (name + ".bin")).read_bytes())
    out, to_us = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(to_us, 1)
        os.execve(fd, [name, *args], {})
    os.close(to_us)
    with open(out, encoding="utf-8", errors="replace") as f:
        text = f.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    if os.WEXITSTATUS(status):
        raise OSError(os.WEXITSTATUS(status), text)
    return text
