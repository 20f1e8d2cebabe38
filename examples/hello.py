"""Says hello from inside a box, then tries what a box must not allow.

    belljar run --lang python examples/hello.py

Ends with status 1 if anything was reached; try it with plain python3 to see that
the attempts are real.
"""
import os
import platform
import socket
import sys


def connect_out():
    with socket.create_connection(("192.0.2.1", 443), timeout=3) as peer:
        return f"connected to {peer.getpeername()[0]}"


def read_passwords():
    with open("/etc/shadow", encoding="utf-8") as f:
        return f"read {len(f.readlines())} lines"


def write_system():
    path = "/usr/belljar-was-here"
    with open(path, "w", encoding="utf-8"):
        os.unlink(path)
    return f"wrote {path}"


def see_processes():
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    strangers = [pid for pid in pids if pid > 1 and pid != os.getpid()]
    if not strangers:
        raise PermissionError(f"{len(pids)} to see, this program among them")
    return f"saw {len(strangers)} others"


ATTEMPTS = (
    ("reach the network", connect_out),
    ("read /etc/shadow", read_passwords),
    ("write below /usr", write_system),
    ("see the host's processes", see_processes),
)


def main():
    print(f"Hello from Python {platform.python_version()}, "
          f"process {os.getpid()}, user {os.getuid()}, in {os.getcwd()}.")
    print(f"6 * 7 = {6 * 7}")
    n_reached = 0
    for what, attempt in ATTEMPTS:
        try:
            print(f"  {what:26} REACHED: {attempt()}")
            n_reached += 1
        except OSError as e:
            print(f"  {what:26} no: {e.strerror or e}")
    return 1 if n_reached else 0


if __name__ == "__main__":
    sys.exit(main())
