"""Part D: processes, descriptors, sockets and memory of others."""
import ctypes
import os
import signal
import socket
import struct
import time

from harness import SENTINEL, Nothing, attack, check, libc, main, read, syscall

PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
KEY_SPEC_SESSION_KEYRING, KEY_SPEC_USER_KEYRING = -3, -4
KEYCTL_SEARCH, KEYCTL_READ = 10, 11
RLIMIT_NOFILE = 7
IOPRIO_SET = 251 if os.uname().machine == "x86_64" else 30


def child():
    """A process of our own, as the friendly counterpart; it ends by itself."""
    pid = os.fork()
    if pid == 0:
        time.sleep(5)
        os._exit(0)
    return pid


def target(pid):
    """-1 stands for a child that is made for the purpose."""
    return child() if pid == -1 else pid


def state_of(pid):
    """The letter of /proc; "X" for who is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "X"


def kill(pid, number):
    """Send a signal, and see whether it did anything, soon or (to a child) ever."""
    victim = target(pid)
    os.kill(victim, number)
    end = time.monotonic() + (5 if pid == -1 else 0.05)
    while time.monotonic() < end:
        if state_of(victim) in "TtZX":
            return state_of(victim)
        time.sleep(0.005)
    raise Nothing


def kill_by_pidfd(pid):
    fd = syscall("pidfd_open", target(pid), 0)
    syscall("pidfd_send_signal", fd, signal.SIGKILL, 0, 0)


def tkill(pid):
    syscall("tkill", target(pid), signal.SIGKILL)


def queue_signal(pid):
    libc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    check(libc.sigqueue(target(pid), signal.SIGTERM, None))


def trace(pid, request):
    syscall("ptrace", request, target(pid), 0, 0)


def read_memory(pid):
    """process_vm_readv() of a page that is there in every fork of ours."""
    here = ctypes.create_string_buffer(b"x" * 64)
    vector = struct.pack("PN", ctypes.addressof(here), 64)
    syscall("process_vm_readv", target(pid), vector, 1, vector, 1, 0)


def write_memory(pid):
    here = ctypes.create_string_buffer(b"x" * 64)
    vector = struct.pack("PN", ctypes.addressof(here), 64)
    syscall("process_vm_writev", target(pid), vector, 1, vector, 1, 0)


def set_limit(pid):
    """Starve another process of descriptors."""
    syscall("prlimit64", pid, RLIMIT_NOFILE, struct.pack("QQ", 4, 4), 0)


def slow_policy(pid):
    os.sched_setscheduler(target(pid), os.SCHED_IDLE, os.sched_param(0))


def slow_parameter(pid):
    os.sched_setparam(target(pid), os.sched_param(0))


def slow_attributes(pid):
    """struct sched_attr with SCHED_IDLE"""
    syscall("sched_setattr", target(pid), struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0), 0)


def slow_priority(which, who):
    os.setpriority(which, target(who), 19)


def slow_io(which, who):
    """ioprio_set: 3 << 13 is the idle class."""
    syscall(IOPRIO_SET, which, target(who), 3 << 13)


def pin(pid):
    os.sched_setaffinity(target(pid), {min(os.sched_getaffinity(0))})


def reopen_descriptor(pid, number):
    os.dup2(os.open("/dev/null", os.O_RDONLY), 100)
    os.close(os.open(f"/proc/{target(pid)}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK))


def ask(address, family=socket.AF_UNIX):
    """Connect, and read the secret that is told to everybody. An address "inside" is a
    server of our own."""
    if address == "inside":
        server = socket.socket(family)
        server.bind("\0mine-%d" % os.getpid() if family == socket.AF_UNIX else ("127.0.0.1", 0))
        server.listen()
        if os.fork() == 0:
            server.accept()[0].send(SENTINEL.encode() + b"mine")
            os._exit(0)
        address = server.getsockname()
    with socket.socket(family) as s:
        s.settimeout(3)
        s.connect(address)
        text = s.recv(100).decode()
    if SENTINEL not in text:
        raise Nothing
    return text


def ask_tcp(host, port):
    return ask("inside" if port == "inside" else (host, port), socket.AF_INET)


def reach(address, port, kind=socket.SOCK_STREAM):
    """Get a packet on its way to somebody. Outside it may or may not be answered; here
    there must be no way at all."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as s:
        s.settimeout(0.2)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        try:
            s.connect((address, port))
            s.send(b"x")
        except (TimeoutError, ConnectionRefusedError):
            pass  # it had a way to go


def reach_udp(address, port):
    reach(address, port, socket.SOCK_DGRAM)


def shared_memory(key):
    """System V: attach what has this key. 0 is a segment of our own."""
    libc.shmat.restype = ctypes.c_void_p
    segment = check(libc.shmget(key, 4096, 0o1600 if key == 0 else 0))
    address = libc.shmat(segment, None, 0)
    if key == 0:
        check(libc.shmctl(segment, 0, None))
        return address
    return ctypes.string_at(address, 64)


def message_queue(key):
    queue = check(libc.msgget(key, 0o1600 if key == 0 else 0))
    if key == 0:
        return check(libc.msgctl(queue, 0, None))
    buffer = ctypes.create_string_buffer(200)
    check(libc.msgrcv(queue, buffer, 150, 0, 0o4000 | 0o20000))  # IPC_NOWAIT, MSG_COPY
    return buffer.raw


def posix_queue(name):
    """Landlock lets nobody here make one, so the control is outside."""
    os.close(check(libc.mq_open(name.encode(), os.O_RDWR)))


def key_by_name(name, ring):
    """Find a key and read it."""
    key = syscall("keyctl", KEYCTL_SEARCH, ring, b"user", name.encode(), 0)
    buffer = ctypes.create_string_buffer(100)
    syscall("keyctl", KEYCTL_READ, key, buffer, 100, 0)
    return buffer.raw


def variable(name):
    """Of the client's environment, in ours."""
    if name not in os.environ:
        raise Nothing
    return os.environ[name]


def scheduler(policy, priority):
    os.sched_setscheduler(0, policy, os.sched_param(priority))


def hurry(increment):
    os.nice(increment)


def io_class(value):
    """ioprio_set: 1 << 13 is the real-time class, 2 << 13 the usual one."""
    syscall(IOPRIO_SET, 1, 0, value)


GONE = ("ESRCH", "EINVAL")  # no such process, and a number no process can have here
NO_WAY = ("ENETUNREACH", "EADDRNOTAVAIL", "EHOSTUNREACH")

ATTACKS = {
    # Init: one's own user, and still out of reach.
    **{f"kill_init_{name}": attack(kill, 1, number, fails="nothing",
                                   control=[-1, signal.SIGKILL])
       for name, number in (("kill", signal.SIGKILL), ("stop", signal.SIGSTOP),
                            ("term", signal.SIGTERM), ("segv", signal.SIGSEGV),
                            ("hup", signal.SIGHUP))},
    "ptrace_attach_init": attack(trace, 1, PTRACE_ATTACH, fails="EPERM",
                                 control=[-1, PTRACE_ATTACH]),
    "ptrace_seize_init": attack(trace, 1, PTRACE_SEIZE, fails="EPERM",
                                control=[-1, PTRACE_SEIZE]),
    "read_memory_of_init": attack(read_memory, 1, fails="EPERM", control=[-1]),
    "write_memory_of_init": attack(write_memory, 1, fails="EPERM", control=[-1]),
    "limits_of_init": attack(set_limit, 1, fails="EPERM", control=[0]),
    "policy_of_init": attack(slow_policy, 1, fails="EPERM", control=[-1]),
    "parameter_of_init": attack(slow_parameter, 1, fails="EPERM", control=[-1]),
    "attributes_of_init": attack(slow_attributes, 1, fails="EPERM", control=[-1]),
    "processors_of_init": attack(pin, 1, fails="EPERM", control=[-1]),
    "priority_of_init": attack(slow_priority, os.PRIO_PROCESS, 1, fails="EPERM",
                               control=[os.PRIO_PROCESS, -1]),
    "priority_of_all_and_of_init": attack(slow_priority, os.PRIO_USER, 0, fails="EPERM",
                                          control=[os.PRIO_PGRP, 0]),
    "io_priority_of_init": attack(slow_io, 1, 1, fails="EPERM", control=[1, -1]),
    "io_priority_of_all_and_of_init": attack(slow_io, 3, 0, fails="EPERM", control=[2, 0]),
    "descriptors_of_init": attack(reopen_descriptor, 1, 3, fails="EACCES", control=[-1, 100]),

    # Processes of the host.
    **{f"kill_{name}": attack(kill, f"@{name}", 0, fails="ESRCH", control=[-1, signal.SIGKILL])
       for name in ("process", "user_process")},
    **{f"tkill_{name}": attack(tkill, f"@{name}", fails="ESRCH", control=[-1])
       for name in ("process", "user_process")},
    **{f"pidfd_{name}": attack(kill_by_pidfd, f"@{name}", fails=GONE, control=[-1])
       for name in ("process", "user_process")},
    **{f"sigqueue_{name}": attack(queue_signal, f"@{name}", fails="ESRCH", control=[-1])
       for name in ("process", "user_process")},
    **{f"ptrace_{name}": attack(trace, f"@{name}", PTRACE_SEIZE, fails="ESRCH",
                                control=[-1, PTRACE_SEIZE])
       for name in ("process", "user_process")},
    **{f"read_memory_of_{name}": attack(read_memory, f"@{name}", fails="ESRCH", control=[-1])
       for name in ("process", "user_process")},

    # Sockets of the host.
    "abstract_socket": attack(ask, "@abstract", fails="ECONNREFUSED", control=["inside"],
                              outside=True),
    "unix_socket": attack(ask, "@unix", fails="ENOENT", control=["inside"], outside=True),
    "tcp_loopback": attack(ask_tcp, "127.0.0.1", "@tcp", fails="ECONNREFUSED",
                           control=["127.0.0.1", "inside"], outside=True),
    "tcp_any": attack(ask_tcp, "0.0.0.0", "@tcp", fails="ECONNREFUSED",
                      control=["127.0.0.1", "inside"], outside=True),
    "tcp_host_address": attack(ask_tcp, "@host_address", "@tcp", fails=NO_WAY,
                               control=["127.0.0.1", "inside"], outside=True),

    # The network: no way to anywhere.
    **{f"reach_{name}": attack(reach, address, 80, fails=NO_WAY, control=["127.0.0.1", 80])
       for name, address in (("internet", "192.0.2.1"), ("internet6", "2001:db8::1"),
                             ("mapped", "::ffff:192.0.2.1"), ("metadata", "169.254.169.254"),
                             ("metadata6", "fd00:ec2::254"), ("alibaba", "100.100.100.200"),
                             ("gateway", "172.17.0.1"), ("lan", "192.168.0.1"))},
    **{f"reach_udp_{name}": attack(reach_udp, address, 53, fails=NO_WAY,
                                   control=["127.0.0.1", 53])
       for name, address in (("dns", "192.0.2.53"), ("dns6", "2001:db8::53"),
                             ("multicast", "224.0.0.251"), ("broadcast", "255.255.255.255"))},

    # Shared memory, queues and keys of the host.
    "sysv_shm": attack(shared_memory, "@sysv_shm", fails="ENOENT", control=[0], outside=True),
    "sysv_msg": attack(message_queue, "@sysv_msg", fails="ENOENT", control=[0], outside=True),
    "mqueue": attack(posix_queue, "@mqueue", fails="ENOENT", outside=True),
    "posix_shm": attack(read, "@file_shm", fails="ENOENT", control=["/proc/uptime"],
                        outside=True),
    "session_key": attack(key_by_name, "@key", KEY_SPEC_SESSION_KEYRING, fails="EPERM",
                          outside=True),
    "user_key": attack(key_by_name, "@key", KEY_SPEC_USER_KEYRING, fails="EPERM",
                       outside=True),
    "client_environment": attack(variable, "BELLJAR_TEST_SECRET", fails="nothing",
                                 control=["PATH"]),

    # No more of the processor than others.
    "sched_fifo": attack(scheduler, os.SCHED_FIFO, 1, fails="EPERM",
                         control=[os.SCHED_BATCH, 0]),
    "sched_rr": attack(scheduler, os.SCHED_RR, 1, fails="EPERM", control=[os.SCHED_BATCH, 0]),
    "nice": attack(hurry, -5, fails="EPERM", control=[5]),
    "io_realtime": attack(io_class, 1 << 13, fails="EPERM", control=[2 << 13 | 4]),
}

if __name__ == "__main__":
    main(ATTACKS)
