"""Uses up one thing until it is refused or we are dead. Prints how far it came and what
refused it, as JSON."""
import array
import ctypes
import errno
import json
import mmap
import os
import select
import socket
import sys
import threading
import time

MB = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
kept = []


def pairs_of_sockets():
    """One pair, filled with as much as it takes."""
    a, b = socket.socketpair()
    kept.extend((a, b))
    a.setblocking(False)
    try:
        while True:
            a.send(b"x" * 32768)
    except BlockingIOError:
        pass


def fill(s, to):
    try:
        for _ in range(300):
            s.sendto(b"x" * 30000, to) if to else s.send(b"x" * 30000)
    except (BlockingIOError, OSError):
        pass


def tcp():
    """One connection with as much unread data as it takes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends = socket.create_connection(server.getsockname()), server.accept()[0]
    kept.extend(ends)
    for s in ends:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
        s.setblocking(False)
    fill(ends[0], None)


def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    kept.append(s)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
    s.bind(("127.0.0.1", 0))
    s.setblocking(False)
    fill(s, s.getsockname())


def pipes():
    """One pipe, filled; larger ones are asked for, and refused at some point."""
    r, w = os.pipe()
    kept.extend((r, w))
    os.set_blocking(w, False)
    try:
        libc.fcntl(w, 1031, MB)  # F_SETPIPE_SZ
        while True:
            os.write(w, b"x" * 65536)
    except BlockingIOError:
        pass


def anonymous():
    kept.append(bytearray(os.urandom(1024)) * 1024)


def shared():
    memory = mmap.mmap(-1, MB, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    memory.write(b"x" * MB)
    kept.append(memory)


def memfd():
    fd = os.memfd_create("x")
    kept.append(fd)
    os.write(fd, b"x" * MB)


def system_v():
    libc.shmat.restype = ctypes.c_void_p
    segment = libc.shmget(0, MB, 0o1600)
    if segment < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    ctypes.memset(libc.shmat(segment, None, 0), 1, MB)


def file_in(directory):
    def write():
        with open(f"{directory}/file{len(kept)}", "wb") as f:
            kept.append(f.name)
            for _ in range(8):
                f.write(b"x" * (MB >> 3))
    return write


def preallocate():
    with open(f"/workspace/{len(kept)}", "wb") as f:
        kept.append(f.name)
        os.posix_fallocate(f.fileno(), 0, MB)


def inodes():
    """A thousand empty files."""
    for _ in range(1000):
        os.close(os.open(f"/workspace/{len(kept)}", os.O_CREAT | os.O_WRONLY))
        kept.append(None)


def attributes():
    """A file with as many attributes as it takes; a thousand files at most."""
    path = f"/workspace/{len(kept)}"
    kept.append(path)
    with open(path, "wb"):
        pass
    for i in range(32):
        os.setxattr(path, f"user.{i}", b"x" * 32768)
    if len(kept) == 1000:
        raise TimeoutError(errno.ETIMEDOUT, "no end of it")


def descriptors():
    kept.append(os.open("/dev/null", os.O_RDONLY))


def in_flight():
    """Descriptors that wait on a socket to be received."""
    ends = socket.socketpair()
    kept.extend(ends)
    ends[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))])


def terminals():
    kept.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))


def epolls():
    kept.append(select.epoll())


def inotify():
    fd = libc.inotify_init()
    if fd < 0:
        raise OSError(ctypes.get_errno(), "inotify_init")
    kept.append(fd)


def watches():
    """On one inotify, a watch for every file below /usr, and /proc besides."""
    fd = libc.inotify_init()
    for top, _, files in os.walk("/usr/lib"):
        for name in files:
            if libc.inotify_add_watch(fd, os.path.join(top, name).encode(), 0xFFF) < 0:
                code = ctypes.get_errno()
                if code not in (errno.EACCES, errno.ENOENT):
                    raise OSError(code, "inotify_add_watch")
            kept.append(None)
            if len(kept) > 200000:
                return
    raise OSError(errno.ENOSPC, "there are no more files to watch")


def timers():
    timer = ctypes.c_void_p()
    if libc.timer_create(1, None, ctypes.byref(timer)) < 0:
        raise OSError(ctypes.get_errno(), "timer_create")
    kept.append(timer)


def queued_signals():
    """Blocked, so that they pile up."""
    import signal
    if not kept:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
        libc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    if libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) < 0:
        raise OSError(ctypes.get_errno(), "sigqueue")
    kept.append(None)


def locked_memory():
    memory = mmap.mmap(-1, MB)
    kept.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if libc.mlock(ctypes.c_void_p(address), MB) < 0:
        raise OSError(ctypes.get_errno(), "mlock")


def processes():
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    kept.append(pid)


def threads():
    thread = threading.Thread(target=time.sleep, args=(600,), daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, "thread") from None
    kept.append(thread)


WAYS = {
    "anonymous": anonymous, "shared": shared, "memfd": memfd, "system_v": system_v,
    "workspace": file_in("/workspace"), "tmp": file_in("/tmp"), "shm": file_in("/dev/shm"),
    "data": file_in("/mnt/data"), "pipes": pipes, "sockets": pairs_of_sockets,
    "tcp": tcp, "udp": udp,
    "preallocate": preallocate, "inodes": inodes, "attributes": attributes,
    "descriptors": descriptors, "in_flight": in_flight, "terminals": terminals, "epolls": epolls, "inotify": inotify, "watches": watches,
    "timers": timers, "queued_signals": queued_signals, "locked_memory": locked_memory,
    "processes": processes, "threads": threads,
}


def exhaust(way, most):
    n = 0
    try:
        while n < most:
            way()
            n += 1
    except OSError as e:
        return n, errno.errorcode.get(e.errno, "?")
    except MemoryError:
        return n, "ENOMEM"
    return n, "unlimited"


if __name__ == "__main__":
    n, why = exhaust(WAYS[sys.argv[1]], int(sys.argv[2]))
    print(json.dumps({"n": n, "why": why}), flush=True)
    if "hold" in sys.argv:
        time.sleep(float(sys.argv[-1]))
    os._exit(0)
