"""Part B: /proc, /sys, devices, cgroups, and the network as they show it."""
import ctypes
import fcntl
import os
import socket
import stat
import struct
import time

from harness import FILE, SENTINEL, Nothing, attack, main, names, read, write

NULL = os.makedev(1, 3)


def poke(path, data=b"1"):
    """Write to a file of the kernel's. What is masked by /dev/null swallows it."""
    fd = os.open(path, os.O_WRONLY)
    if os.fstat(fd).st_rdev == NULL:
        raise Nothing
    os.write(fd, data)


def peek_secret(path):
    """Read what holds a token; a process that merely has the same number does not."""
    text = read(path, 1 << 16)
    if SENTINEL not in text:
        raise Nothing
    return text


def spy(pid, what):
    """Look into a process; -1 is a child of our own, which has a secret too."""
    if pid != -1:
        return peek_secret(f"/proc/{pid}/{what}")
    stdin, hold = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(stdin, 0)
        os.close(hold)
        os.execve("/usr/bin/sh", ["sh", "-c", "read x", SENTINEL + "mine"],
                  {"SECRET": SENTINEL + "mine"})
    for _ in range(200):  # until it is another program
        try:
            return peek_secret(f"/proc/{child}/{what}")
        except Nothing:
            time.sleep(0.01)
    raise Nothing


def make_node(kind, major, minor):
    """A device of one's own; kind 0 makes a fifo, which anybody may."""
    path = f"/workspace/node-{os.getpid()}"
    os.mknod(path, (kind or stat.S_IFIFO) | 0o666, os.makedev(major, minor))


def open_device(path):
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def raise_limit(path):
    write(path, b"-1")


def interfaces_by_ioctl():
    """Names from SIOCGIFCONF, which lists those that have an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        buffer = ctypes.create_string_buffer(4096)
        request = struct.pack("iP", 4096, ctypes.addressof(buffer))
        size, _ = struct.unpack("iP", fcntl.ioctl(s, 0x8912, request))
        return [buffer.raw[i:i + 16].split(b"\0")[0].decode() for i in range(0, size, 40)]


def other_than_lo(found):
    others = [n for n in found if n != "lo"]
    if not others:
        raise Nothing
    return others


def foreign_interface(how):
    """Any interface that is not lo."""
    ways = {
        "ioctl": interfaces_by_ioctl,
        "netlink": lambda: [n for _, n in socket.if_nameindex()],
        "proc": lambda: [line.split(":")[0].strip()
                         for line in read("/proc/net/dev").splitlines()[2:]],
    }
    found = ways[how]()
    assert "lo" in found, found  # the control of each way: it does see what is there
    return other_than_lo(found)


def foreign_route():
    """A route or a neighbour that leads out of here."""
    lines = [line for path in ("/proc/net/route", "/proc/net/arp")
             for line in read(path).splitlines()[1:]]
    return other_than_lo([line.split()[0] for line in lines])


def foreign_sockets():
    """Unix sockets of others: the list is that of a network namespace."""
    found = read("/proc/net/unix", 1 << 20).splitlines()
    assert found[0].startswith("Num"), found
    return other_than_lo([line for line in found[1:] if "/" in line or "@" in line])


def cgroup_mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        found = [line for line in f if " - cgroup" in line]
    if not found:
        raise Nothing
    return found


def parent_of(pid):
    """None when it ended while we looked."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def strange_processes():
    """Processes that are neither init nor descend from it."""
    pids = {int(n) for n in os.listdir("/proc") if n.isdigit()}
    assert os.getpid() in pids and 1 in pids, pids
    # In a namespace of one's own only init has a parent that is out of sight. The kernel also
    # shows none of who is just being reaped: that one is gone at the second look.
    strange = [p for p in pids if p != 1 and parent_of(p) == 0]
    time.sleep(0.1)
    strange = [p for p in strange if parent_of(p) == 0]
    if not strange and len(pids) < 64:
        raise Nothing
    return strange or sorted(pids)


READ_ONLY = ("EROFS", "EACCES", "ENOENT", "EPERM")
UNREADABLE = ("nothing", "ENOENT", "EACCES", "EPERM")

KNOBS = {
    "core_pattern": "/proc/sys/kernel/core_pattern",
    "modprobe": "/proc/sys/kernel/modprobe",
    "hotplug": "/proc/sys/kernel/hotplug",
    "hostname": "/proc/sys/kernel/hostname",
    "randomize_va_space": "/proc/sys/kernel/randomize_va_space",
    "drop_caches": "/proc/sys/vm/drop_caches",
    "overcommit": "/proc/sys/vm/overcommit_memory",
    "ip_forward": "/proc/sys/net/ipv4/ip_forward",
    "ping_group_range": "/proc/sys/net/ipv4/ping_group_range",
    "max_user_namespaces": "/proc/sys/user/max_user_namespaces",
    "binfmt_misc": "/proc/sys/fs/binfmt_misc/register",
    "sysrq_trigger": "/proc/sysrq-trigger",
    "irq_affinity": "/proc/irq/default_smp_affinity",
    "own_oom_score": "/proc/self/oom_score_adj",
    "init_oom_score": "/proc/1/oom_score_adj",
    "own_uid_map": "/proc/self/uid_map",
    "own_gid_map": "/proc/self/gid_map",
    "own_setgroups": "/proc/self/setgroups",
    "own_attr": "/proc/self/attr/current",
    "own_autogroup": "/proc/self/autogroup",
    "pci": "/proc/bus/pci/00/00.0",
    "mtrr": "/proc/mtrr",
    "sys_power": "/sys/power/state",
    "sys_uevent_helper": "/sys/kernel/uevent_helper",
    "sys_module_parameter": "/sys/module/kernel/parameters/panic",
}
MASKED = ("kcore", "keys", "key-users", "kallsyms", "kmsg", "timer_list", "sched_debug",
          "scsi/scsi", "acpi/wakeup", "asound/cards", "kpagecount", "kpageflags", "vmallocinfo",
          "slabinfo", "latency_stats", "sys/kernel/random/boot_id")
# What init has and we may not see. It shares our user, so only its being undumpable helps.
OF_INIT = ("environ", "maps", "auxv", "stack", "syscall", "pagemap", "mem", "io", "smaps",
           "personality", "numa_maps")
OWN_TWIN = {"mem": "stat", "stack": "stat"}  # our own begins with a hole; is for root only
DEVICES = ("mem", "kmem", "port", "kmsg", "kvm", "fuse", "net/tun", "vda", "sda", "nvme0n1",
           "loop0", "loop-control", "mapper/control", "console", "tty0", "ttyS0", "vsock",
           "vhost-net", "vhost-vsock", "userfaultfd", "bus/usb", "dri", "input", "snd", "rtc0",
           "hpet", "watchdog", "uinput", "autofs", "btrfs-control", "cpu_dma_latency")
NODES = {
    "mem": (stat.S_IFCHR, 1, 1), "kmsg": (stat.S_IFCHR, 1, 11), "sda": (stat.S_IFBLK, 8, 0),
    "vda": (stat.S_IFBLK, 254, 0), "loop": (stat.S_IFBLK, 7, 0), "tun": (stat.S_IFCHR, 10, 200),
    "kvm": (stat.S_IFCHR, 10, 232), "fuse": (stat.S_IFCHR, 10, 229),
    "console": (stat.S_IFCHR, 5, 1), "ptmx": (stat.S_IFCHR, 5, 2),
    "null": (stat.S_IFCHR, 1, 3),
}

ATTACKS = {
    **{f"write_{name}": attack(poke, path, fails=("nothing", *READ_ONLY), control=[FILE])
       for name, path in KNOBS.items()},
    **{f"read_{name.replace('/', '_')}": attack(read, f"/proc/{name}", fails=UNREADABLE,
                                                control=["/proc/uptime"])
       for name in MASKED},
    **{f"init_{name}": attack(read, f"/proc/1/{name}", fails=("EACCES", "EPERM"),
                              control=["/proc/self/" + OWN_TWIN.get(name, name)])
       for name in OF_INIT},
    **{f"init_{name}": attack(names, f"/proc/1/{name}", fails=("EACCES", "EPERM"),
                              control=[f"/proc/self/{name}"])
       for name in ("fd", "fdinfo", "map_files")},
    **{f"init_ns_{name}": attack(os.readlink, f"/proc/1/ns/{name}", fails=("EACCES", "EPERM"),
                                 control=[f"/proc/self/ns/{name}"])
       for name in ("user", "mnt", "net", "pid")},
    **{f"environ_of_{name}": attack(spy, f"@{name}", "environ", fails=("ENOENT", "nothing"),
                                    control=[-1, "environ"], outside=True)
       for name in ("process", "user_process")},
    **{f"arguments_of_{name}": attack(spy, f"@{name}", "cmdline", fails=("ENOENT", "nothing"),
                                      control=[-1, "cmdline"], outside=True)
       for name in ("process", "user_process")},
    "strange_processes": attack(strange_processes, fails="nothing", outside=True),

    **{f"device_{name.replace('/', '_')}": attack(open_device, f"/dev/{name}", fails="ENOENT",
                                                  control=["/dev/null"])
       for name in DEVICES},
    **{f"mknod_{name}": attack(make_node, *node, fails=("EPERM", "EACCES"), control=[0, 0, 0])
       for name, node in NODES.items()},

    "cgroup_mounts": attack(cgroup_mounts, fails="nothing", outside=True),
    **{f"join_cgroup_{i}": attack(write, path + "/cgroup.procs", b"0", fails=READ_ONLY,
                                   control=[FILE])
       for i, path in enumerate(("/sys/fs/cgroup", "/sys/fs/cgroup/unified",
                                 "/sys/fs/cgroup/memory", "/proc/1/root/sys/fs/cgroup"))},
    **{f"raise_{name}": attack(raise_limit, f"/sys/fs/cgroup/{path}", fails=READ_ONLY,
                               control=[FILE])
       for name, path in (("memory_max", "memory.max"), ("pids_max", "pids.max"),
                          ("memory_limit", "memory/memory.limit_in_bytes"),
                          ("release_agent", "memory/release_agent"))},

    **{f"interfaces_by_{way}": attack(foreign_interface, way, fails="nothing", outside=True)
       for way in ("ioctl", "netlink", "proc")},
    "routes": attack(foreign_route, fails="nothing", outside=True),
    "unix_sockets": attack(foreign_sockets, fails="nothing", outside=True),
    "sys_class_net": attack(names, "/sys/class/net", fails="ENOENT", outside=True),
    "sys": attack(names, "/sys", fails="nothing", outside=True),
}

if __name__ == "__main__":
    main(ATTACKS)
