"""Part A: the file system of the box, its borders, and what lies behind them."""
import ctypes
import fcntl
import mmap
import os

from harness import (DIRECTORY, FILE, attack, check, create, libc, main, names, read, syscall,
                     write)

THROWAWAY = True  # outside, mounts are tried for real

MS_REMOUNT, MS_BIND, MS_MOVE = 32, 4096, 8192
MNT_DETACH = 2
WRITES = ("EROFS", "EACCES")  # read-only, or another's: which comes first, differs


def mount(source, target, kind=None, flags=0, data=None):
    """mount(2); names are text, as in a shell."""
    words = [w.encode() if w is not None else None for w in (source, target, kind)]
    check(libc.mount(*words, ctypes.c_ulong(flags), data))


def umount(path):
    syscall("umount2", path.encode(), MNT_DETACH)


def grow(path):
    """Lift the size cap. Outside, of a file system of our own, never of the host's."""
    if not os.path.isdir(path):
        path = "/tmp"
        mount("none", path, "tmpfs")
    mount(None, path, None, MS_REMOUNT, b"size=90%")


def copy_over(path):
    """The classic: a descriptor by name only, then the same file again for writing."""
    fd = os.open(path, os.O_PATH)
    write(f"/proc/self/fd/{fd}")


def change_mode(path):
    os.chmod(path, 0o777)


def lease(path):
    """Who opens it then has to wait. It is for the owner, and needs no right to write."""
    with open(path, "rb") as f:
        fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)


def execute(path):
    """Copy a program there, and run it. Without a path it stays in memory, which is
    not refused; SECURITY.md says so."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o755) if path else os.memfd_create("true")
    with open("/usr/bin/true", "rb") as source:
        os.write(fd, source.read())
    program = path or fd
    if path:
        os.close(fd)
    pid = os.fork()
    if pid == 0:
        try:
            os.execve(program, ["true"], {})
        except OSError as e:
            os._exit(e.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, "execve")


def map_executable(path):
    """Code from a file one wrote, as a library would be loaded."""
    if path.startswith("/workspace"):
        with open(path, "wb") as f:
            f.write(b"\xc3" * 4096)
    with open(path, "rb") as f:
        mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)


def link_out(target):
    """A second name for a file, here, where one may write."""
    os.link(target, f"/workspace/link-{os.getpid()}")


def climb(path):
    """Out by way of .. from a descriptor of the root."""
    fd = os.open("/", os.O_RDONLY)
    os.fchdir(fd)
    for _ in range(40):
        os.chdir("..")
    return read(path.lstrip("/"))


def list_behind(path):
    """What a directory holds beneath whatever is mounted on it."""
    umount(path)
    return names(path)


def rename(path):
    os.rename(path, f"{path}.{os.getpid()}")


def shadow(path):
    """Replace a directory on the way to what is denied by one of one's own."""
    rename(path)
    os.mkdir(path)


def follow(path):
    link = f"/workspace/follow-{os.getpid()}"
    os.symlink(path, link)
    return read(link)


WRITABLE = ("/workspace", "/tmp", "/dev/shm", "/mnt/data")
READ_ONLY = ("/", "/usr", "/usr/bin", "/usr/local", "/etc", "/dev", "/var", "/var/lib", "/run",
             "/home", "/root", "/mnt", "/proc", "/sys", "/etc/ssl")
SYSTEM_FILES = ("/usr/bin/python3", "/usr/bin/env", "/etc/passwd", "/etc/hosts",
                "/etc/ld.so.cache", "/usr/lib/os-release")


def slug(path):
    return path.strip("/").replace("/", "_").replace(".", "_") or "root"


ATTACKS = {
    # The launcher and the interpreters (CVE-2019-5736).
    "overwrite_self_exe": attack(copy_over, "/proc/self/exe", fails=(*WRITES, "ETXTBSY"),
                                 control=[FILE]),
    "open_init_exe": attack(read, "/proc/1/exe", fails="EACCES", control=["/proc/self/exe"]),
    "overwrite_init_exe": attack(copy_over, "/proc/1/exe", fails="EACCES",
                                 control=[FILE]),
    **{f"overwrite_{slug(p)}": attack(write, p, fails=WRITES,
                                      control=[FILE])
       for p in SYSTEM_FILES},
    **{f"chmod_{slug(p)}": attack(change_mode, p, fails=("EROFS", "EPERM"),
                                  control=[FILE])
       for p in ("/usr/bin/python3", "/", "/dev/null", "/proc/self/exe", "/etc/ld.so.cache")},
    **{f"lease_{slug(p)}": attack(lease, p, fails="EINVAL", outside=True)
       for p in ("/etc/ld.so.cache", "/usr/bin/env")},

    # Nothing new where nothing belongs.
    **{f"create_in_{slug(p)}": attack(create, f"{p.rstrip('/')}/belljar-x",
                                      fails=(*WRITES, "ENOENT"), control=["/workspace/created"])
       for p in READ_ONLY},
    "rename_proc": attack(rename, "/proc", fails=(*WRITES, "EBUSY", "EPERM"),
                          control=[DIRECTORY]),
    "rename_passwd": attack(rename, "/etc/passwd", fails=(*WRITES, "EPERM"), control=[FILE]),
    "shadow_an_ancestor": attack(shadow, "/etc", fails=(*WRITES, "EBUSY"), control=[DIRECTORY]),
    "hard_link_to_passwd": attack(link_out, "/etc/passwd", fails=("EXDEV", "EPERM"),
                                  control=[FILE]),

    # Out of the root.
    "climb_out_to_file": attack(climb, "@file_root", fails="ENOENT", control=["/etc/passwd"]),
    "climb_out_to_shadow": attack(climb, "/etc/shadow", fails="ENOENT",
                                  control=["/etc/passwd"]),
    **{f"read_{name}": attack(read, f"@{name}", fails="ENOENT", control=["/etc/passwd"],
                              outside=True)
       for name in ("file_root", "file_home", "file_tmp", "file_var", "file_run", "file_shm")},
    **{f"follow_link_to_{name}": attack(follow, f"@{name}", fails="ENOENT",
                                        control=["/etc/passwd"])
       for name in ("file_root", "file_tmp")},
    **{f"init_{what}": attack(names, f"/proc/1/{what}", fails="EACCES",
                              control=[f"/proc/self/{what}"])
       for what in ("root", "cwd")},

    # Mounts: none can be made, changed or taken away.
    "mount_tmpfs": attack(mount, "none", "/tmp", "tmpfs", fails="EPERM", outside=True),
    "mount_proc": attack(mount, "none", "/tmp", "proc", fails="EPERM", outside=True),
    "mount_sysfs": attack(mount, "none", "/tmp", "sysfs", fails="EPERM", outside=True),
    "mount_cgroup2": attack(mount, "none", "/tmp", "cgroup2", fails="EPERM", outside=True),
    "mount_overlay": attack(mount, "none", "/tmp", "overlay", fails="EPERM", outside=True),
    "bind_root": attack(mount, "/", "/tmp", None, MS_BIND, fails="EPERM", outside=True),
    "move_usr": attack(mount, "/usr", "/tmp", None, MS_MOVE, fails="EPERM", outside=True),
    **{f"remount_{slug(p)}_writable": attack(mount, None, p, None, MS_REMOUNT | MS_BIND,
                                             fails="EPERM", outside=True)
       for p in ("/", "/usr", "/proc", "/dev")},
    "remount_tmp_executable": attack(mount, None, "/tmp", None, MS_REMOUNT | MS_BIND,
                                     fails="EPERM", outside=True),
    "remount_workspace_larger": attack(grow, "/workspace", fails="EPERM", outside=True),
    **{f"unmount_{slug(p)}": attack(umount, p, fails="EPERM", outside=True)
       for p in ("/proc", "/proc/keys", "/proc/kallsyms", "/usr", "/dev", "/")},
    "see_what_is_behind_proc": attack(list_behind, "/proc", fails="EPERM", outside=True),

    # What is written is not executed from where it lies.
    **{f"execute_in_{slug(p)}": attack(execute, p + "/true", fails="EACCES", control=[None])
       for p in WRITABLE},
    "map_code_from_workspace": attack(map_executable, "/workspace/code", fails="EPERM",
                                      control=["/usr/bin/true"]),
}

if __name__ == "__main__":
    main(ATTACKS)
