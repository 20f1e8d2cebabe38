"""Fills the workspace with what a careless collector, or remover, would trip over.
Arguments are paths of the host to lead it to."""
import os
import socket
import sys

os.chdir("/workspace")
os.makedirs("inner", exist_ok=True)
for i, target in enumerate(("/", "/etc", "/etc/passwd", "/proc/1/environ", "/proc/self/environ",
                            "../../../../../../etc/passwd", "/dev/zero", ".", "inner",
                            *sys.argv[1:])):
    os.symlink(target, f"link{i}")
os.symlink("link-to-itself", "link-to-itself")
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
with open("unreadable", "w", encoding="utf-8") as f:
    f.write("x")
os.chmod("unreadable", 0)
os.makedirs("shut/inside")
os.chmod("shut", 0)
with open("sparse", "wb") as f:
    f.truncate(200 << 20)

for name in (b"new\nline", b"not-\xff\xfe-utf8", b"n" * 255, b"-rf", b"back\\slash", b" ",
             b"$(id)", b"\x1b[2J", b"..."):
    with open(name, "wb") as f:
        f.write(b"odd")

# Hard links within the workspace are files like any other.
with open("plain", "w", encoding="utf-8") as f:
    f.write("friendly")
os.link("plain", "inner/plain-too")

for _ in range(500):
    os.mkdir("deep")
    os.chdir("deep")
with open("bottom", "w", encoding="utf-8") as f:
    f.write("x")
