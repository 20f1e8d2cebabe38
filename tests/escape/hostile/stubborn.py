"""Does not want to end. The argument says how."""
import contextlib
import os
import signal
import sys
import time


def ignore():
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def starve_init():
    """Init does what the keeper asks for, when it gets to it: it may be killed, but it does
    not die before it runs."""
    ignore()
    for attempt in (lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
                    lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
                    lambda: os.setpriority(os.PRIO_USER, 0, 19),
                    lambda: os.sched_setaffinity(1, {min(os.sched_getaffinity(0))})):
        with contextlib.suppress(PermissionError):
            attempt()
    for _ in range(60):
        if os.fork() == 0:
            break


def trace():
    """Be traced by a child that does nothing."""
    pid = os.fork()
    if pid:
        return
    import ctypes
    ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)
    time.sleep(600)


def vfork():
    """A parent that waits, uninterruptibly but for death, for a child."""
    import ctypes
    libc = ctypes.CDLL(None)
    libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x4000 | 17, 0, 0, 0, 0)


print("started", flush=True)
{"ignore": ignore, "stop": stop, "starve_init": starve_init, "trace": trace,
 "vfork": vfork}[sys.argv[1]]()
while True:
    pass
