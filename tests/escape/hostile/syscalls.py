"""Part C: what the kernel may be asked. Arguments are such that nothing happens outside,
where each call must fail in another way, or succeed."""
import ctypes
import fcntl
import os
import socket
import struct

from harness import Nothing, attack, libc, main, read, run_c, syscall

THROWAWAY = True

BAD = 1  # no address of anything
CLONE = {"newns": 0x00020000, "newcgroup": 0x02000000, "newuts": 0x04000000,
         "newipc": 0x08000000, "newuser": 0x10000000, "newpid": 0x20000000,
         "newnet": 0x40000000}
CLONE_FS = 0x200  # makes clone() with some of the others invalid, so that it starts nobody
TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541C, 0x5423
UPPER = 1 << 32  # bits of a register that the kernel drops

FAMILIES = {"key": 15, "packet": 17, "rds": 21, "ppp": 24, "llc": 26, "can": 29, "tipc": 30,
            "bluetooth": 31, "rxrpc": 33, "phonet": 35, "ieee802154": 36, "alg": 38, "nfc": 39,
            "vsock": 40, "qipcrtr": 42, "smc": 43, "xdp": 44, "mctp": 45, "x25": 9, "ax25": 3,
            "appletalk": 5}
NETLINKS = {"xfrm": 6, "audit": 9, "netfilter": 12, "generic": 16, "crypto": 21, "uevent": 15,
            "sock_diag": 4, "connector": 11, "scsitransport": 18, "rdma": 20, "selinux": 7}

ARGUMENTS = {
    # name: (arguments, errno in the box)
    "umount2": ((BAD, 0), "EPERM"),
    "pivot_root": ((BAD, BAD), "EPERM"),
    "chroot": ((BAD,), "EPERM"),
    "open_tree": ((-1, BAD, 0), "EPERM"),
    "move_mount": ((-1, BAD, -1, BAD, 0), "EPERM"),
    "fsopen": ((BAD, 0), "EPERM"),
    "fsconfig": ((-1, 0, 0, 0, 0), "EPERM"),
    "fsmount": ((-1, 0, 0), "EPERM"),
    "fspick": ((-1, BAD, 0), "EPERM"),
    "mount_setattr": ((-1, BAD, 0, 0, 0), "EPERM"),
    "setns": ((-1, 0), "EPERM"),
    "clone3": ((BAD, 64), "ENOSYS"),
    "io_uring_setup": ((0, BAD), "ENOSYS"),
    "io_uring_enter": ((-1, 0, 0, 0, 0, 0), "ENOSYS"),
    "io_uring_register": ((-1, 0, 0, 0), "ENOSYS"),
    "io_setup": ((0, BAD), "ENOSYS"),
    "keyctl": ((-1, 0, 0, 0, 0), "EPERM"),
    "add_key": ((BAD, 0, 0, 0, 0), "EPERM"),
    "request_key": ((BAD, 0, 0, 0), "EPERM"),
    "kexec_load": ((0, -1, 0, -1), "EPERM"),
    "kexec_file_load": ((-1, -1, 0, 0, 0x7fffffff), "EPERM"),
    "init_module": ((BAD, 0, 0), "EPERM"),
    "finit_module": ((-1, 0, 0), "EPERM"),
    "delete_module": ((BAD, 0), "EPERM"),
    "reboot": ((0, 0, 0, 0), "EPERM"),
    "swapon": ((BAD, 0), "EPERM"),
    "swapoff": ((BAD,), "EPERM"),
    "acct": ((BAD,), "EPERM"),
    "settimeofday": ((BAD, 0), "EPERM"),
    "clock_settime": ((1, BAD), "EPERM"),
    "clock_adjtime": ((0, BAD), "EPERM"),
    "adjtimex": ((BAD,), "EPERM"),
    "open_by_handle_at": ((-1, BAD, 0), "EPERM"),
    "name_to_handle_at": ((-1, BAD, 0, 0, 0), "EPERM"),
    "bpf": ((-1, 0, 0), "EPERM"),
    "perf_event_open": ((BAD, 0, -1, -1, 0), "EPERM"),
    "userfaultfd": ((-1,), "EPERM"),
    "kcmp": ((0, 0, 99, 0, 0), "EPERM"),
    "pidfd_getfd": ((-1, 0, 0), "EPERM"),
    "quotactl": ((-1, BAD, 0, 0), "EPERM"),
    "fanotify_init": ((-1, 0), "EPERM"),
    "syslog": ((99, 0, 0), "EPERM"),
    "sethostname": ((0, -1), "EPERM"),
    "setdomainname": ((0, -1), "EPERM"),
    "move_pages": ((0, 0, 0, 0, 0), "EPERM"),
    "migrate_pages": ((-1, 0, 0, 0), "EPERM"),
    "memfd_secret": ((0x7fffffff,), "EPERM"),
    "splice": ((-1, 0, -1, 0, 1, 0), "EINVAL"),
    "tee": ((-1, -1, 1, 0), "EINVAL"),
    "vmsplice": ((-1, 0, 0, 0), "EINVAL"),
    "personality": ((0x0400000,), "EPERM"),
}


def unshare(flags):
    syscall("unshare", flags)


def clone(flags):
    """clone() into a namespace; the child is gone at once."""
    if syscall("clone", flags | CLONE_FS if flags & CLONE["newns"] else flags | 17,
               0, 0, 0, 0) == 0:
        os._exit(0)


def open_socket(family, kind=socket.SOCK_RAW, protocol=0):
    os.close(syscall("socket", family, kind, protocol))


def open_pair(family):
    syscall("socketpair", family, socket.SOCK_STREAM, 0, ctypes.create_string_buffer(8))


def set_option(level, option):
    with socket.socket() as s:
        value = ctypes.create_string_buffer(struct.pack("ii", 1, 1))
        syscall("setsockopt", s.fileno(), level, option, value, 8)


def take_lease(command):
    """To write, on a file of one's own that nobody else has open."""
    path = f"/tmp/belljar-lease-{os.getpid()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        syscall("fcntl", fd, command, fcntl.F_WRLCK)
    finally:
        os.close(fd)
        os.unlink(path)


def ioctl(request):
    syscall("ioctl", -1, request, 0)


def write_map():
    """A user namespace of one's own, in which one is root."""
    syscall("unshare", CLONE["newuser"])
    return read("/proc/self/uid_map")


def lower(resource):
    """Set a limit to 0. What does not change gives nothing."""
    number = resource & 0xffffffff
    syscall("prlimit64", 0, resource, struct.pack("QQ", 0, 0), 0)
    buffer = ctypes.create_string_buffer(16)
    syscall("prlimit64", 0, number, 0, buffer)
    if struct.unpack("QQ", buffer.raw) != (0, 0):
        raise Nothing


def status_of(field, wanted):
    """What /proc says of us; the wanted value gives nothing to an attacker."""
    value = next(line.split()[1] for line in read("/proc/self/status", 1 << 14).splitlines()
                 if line.startswith(field + ":"))
    if value == wanted:
        raise Nothing
    return value


def become(uid):
    os.setresuid(uid, uid, uid)


def become_group(gid):
    os.setresgid(gid, gid, gid)


def add_groups(group):
    os.setgroups([group])


def raise_capability(bit):
    head = struct.pack("Ii", 0x20080522, 0)
    data = struct.pack("IIIIII", 1 << bit, 1 << bit, 0, 0, 0, 0) if bit >= 0 else bytes(24)
    if libc.capset(head, data) < 0:
        raise OSError(ctypes.get_errno(), "capset")


def give_away(uid):
    path = f"/workspace/owned-{os.getpid()}"
    with open(path, "wb"):
        os.chown(path, uid, uid)


def ambient(operation, capability):
    syscall("prctl", 47, operation, capability, 0, 0)  # PR_CAP_AMBIENT: 2 raises, 4 clears


def keep_capabilities():
    """SECBIT_KEEP_CAPS is harmless; SECBIT_NOROOT and its like need a capability."""
    syscall("prctl", 28, 1, 0, 0, 0)  # PR_SET_SECUREBITS


ATTACKS = {
    **{name: attack(syscall, name, *args, fails=code, outside=True)
       for name, (args, code) in ARGUMENTS.items()},
    "mount": attack(syscall, "mount", 0, BAD, 0, 0, 0, fails="EPERM", outside=True),
    "a_call_of_the_future": attack(syscall, 1000, fails="ENOSYS", control=["tkill", 1, 0]),
    **{f"unshare_{name}": attack(unshare, flag, fails="EPERM", outside=True)
       for name, flag in CLONE.items()},
    **{f"clone_{name}": attack(clone, flag, fails="EPERM", outside=True)
       for name, flag in CLONE.items()},
    "clone_newuser_with_upper_bits": attack(clone, CLONE["newuser"] | UPPER, fails="EPERM",
                                            outside=True),
    "nested_user_namespace": attack(write_map, fails="EPERM", outside=True),

    **{f"socket_{name}": attack(open_socket, number, fails="EAFNOSUPPORT",
                                control=[socket.AF_UNIX, socket.SOCK_STREAM])
       for name, number in FAMILIES.items()},
    **{f"socketpair_{name}": attack(open_pair, FAMILIES[name], fails="EAFNOSUPPORT",
                                    control=[socket.AF_UNIX])
       for name in ("tipc", "alg", "vsock", "rxrpc", "key", "packet")},
    "socketpair_inet": attack(open_pair, socket.AF_INET, fails="EAFNOSUPPORT", outside=True),
    **{f"netlink_{name}": attack(open_socket, socket.AF_NETLINK, socket.SOCK_RAW, number,
                                 fails="EPROTONOSUPPORT",
                                 control=[socket.AF_NETLINK, socket.SOCK_RAW, 0])
       for name, number in NETLINKS.items()},
    **{f"linger{name}": attack(set_option, socket.SOL_SOCKET | level, socket.SO_LINGER | option,
                               fails="ENOPROTOOPT",
                               control=[socket.SOL_SOCKET, socket.SO_REUSEADDR], outside=True)
       for name, level, option in (("", 0, 0), ("_upper_bits_of_level", UPPER, 0),
                                   ("_upper_bits_of_option", 0, UPPER))},
    **{f"socket_filter_{name}": attack(set_option, socket.SOL_SOCKET, option, fails="ENOPROTOOPT",
                                       control=[socket.SOL_SOCKET, socket.SO_REUSEADDR],
                                       outside=True)
       for name, option in (("classic", 26), ("ebpf", 50), ("reuseport_classic", 51),
                            ("reuseport_ebpf", 52), ("with_upper_bits", 26 | UPPER))},
    "socket_alg_with_upper_bits": attack(open_socket, 38 | UPPER, socket.SOCK_SEQPACKET,
                                         fails="EAFNOSUPPORT",
                                         control=[socket.AF_INET, socket.SOCK_STREAM]),
    "socket_raw_ip": attack(open_socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP,
                            fails="EPERM", outside=True),
    "socket_raw_ip6": attack(open_socket, socket.AF_INET6, socket.SOCK_RAW, 58, fails="EPERM",
                             outside=True),
    "socket_sctp": attack(open_socket, socket.AF_INET, socket.SOCK_STREAM, 132, fails="EPERM",
                          outside=True),

    "lease": attack(take_lease, fcntl.F_SETLEASE, fails="EINVAL", outside=True),
    "lease_with_upper_bits": attack(take_lease, fcntl.F_SETLEASE | UPPER, fails="EINVAL",
                                    outside=True),

    "ioctl_tiocsti": attack(ioctl, TIOCSTI, fails="EPERM", outside=True),
    "ioctl_tiocsti_with_upper_bits": attack(ioctl, TIOCSTI | UPPER, fails="EPERM",
                                            outside=True),
    "ioctl_tioclinux": attack(ioctl, TIOCLINUX, fails="EPERM", outside=True),
    "ioctl_tiocsetd": attack(ioctl, TIOCSETD, fails="EPERM", outside=True),

    "int_0x80": attack(run_c, "int80", "i386", fails="SIGSYS", control=["int80", "native"],
                       outside=True),
    "x32": attack(run_c, "int80", "x32", fails="SIGSYS", control=["int80", "native"],
                  outside=True),

    "core_limit": attack(lower, 4, fails="nothing", control=[5]),
    "core_limit_with_upper_bits": attack(lower, 4 | UPPER, fails="nothing",
                                         control=[5 | UPPER]),
    "no_new_privs_off": attack(status_of, "NoNewPrivs", "1", fails="nothing",
                               control=["NoNewPrivs", "0"]),
    "seccomp_off": attack(status_of, "Seccomp", "2", fails="nothing", control=["Seccomp", "0"]),
    **{f"capabilities_{name}": attack(status_of, name, "0" * 16, fails="nothing",
                                      control=["Seccomp", "0"])
       for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
    "raise_sys_admin": attack(raise_capability, 21, fails="EPERM", control=[-1]),
    "ambient_sys_admin": attack(ambient, 2, 21, fails="EPERM", control=[4, 0]),
    "securebits": attack(keep_capabilities, fails="EPERM", outside=True),
    "setuid_root": attack(become, 0, fails=("EINVAL", "EPERM"), control=[1000]),
    "setuid_keeper": attack(become, 64242, fails=("EINVAL", "EPERM"), control=[1000]),
    "setgid_root": attack(become_group, 0, fails=("EINVAL", "EPERM"), control=[1000]),
    "setgroups": attack(add_groups, 0, fails="EPERM", outside=True),
    "chown_to_root": attack(give_away, 0, fails=("EINVAL", "EPERM"), control=[1000]),
}

if __name__ == "__main__":
    main(ATTACKS)
