"""Leaves something everywhere ("plant"), or looks for what somebody left ("look").
Prints what it finds as JSON; who planted finds it all."""
import ctypes
import json
import os
import sys

KEY = 0x0B0B0B0B
FILES = {"tmp": "/tmp/left", "shm": "/dev/shm/left", "workspace": "/workspace/left",
         "var_tmp": "/var/tmp/left-too", "data": "/mnt/data/left-too"}
libc = ctypes.CDLL(None)


def plant():
    for path in FILES.values():
        with open(path, "w", encoding="utf-8") as f:
            f.write("left")
    os.chmod("/tmp/left", 0o777)
    libc.shmget(KEY, 4096, 0o1666)
    libc.msgget(KEY, 0o1666)
    libc.semget(KEY, 1, 0o1666)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/usr/bin/sleep", ["left-behind", "600"])
        os._exit(0)
    os.wait()
    while not look()["process"]:  # until it is what it will be
        pass


def processes():
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as f:
                    yield f.read()
            except OSError:
                continue


def look():
    found = {name: os.path.exists(path) for name, path in FILES.items()}
    found["sysv_shm"] = libc.shmget(KEY, 0, 0) >= 0
    found["sysv_msg"] = libc.msgget(KEY, 0) >= 0
    found["sysv_sem"] = libc.semget(KEY, 0, 0) >= 0
    found["process"] = any(b"left-behind" in line or b"sleep" in line for line in processes())
    return found


if sys.argv[1] == "plant":
    plant()
print(json.dumps(look()))
