"""Leaves open files to the kernel's collector of AF_UNIX cycles. "plug SECONDS": a TCP
connection with unsent data that lingers for SECONDS. "fill MEGABYTES": memory. Prints
what refused the lingering, or "lingers"."""
import array
import os
import socket
import struct
import sys

MB = 1 << 20


def leave_in_a_cycle(fds):
    """Queue the descriptors, and both ends of the pair itself, in the pair."""
    a, b = socket.socketpair()
    rights = array.array("i", [*fds, a.fileno(), b.fileno()])
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    a.close()
    b.close()


def lingering(seconds):
    """Both ends of a connection on loopback; one direction is full."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    try:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
        outcome = "lingers"
    except OSError as e:
        outcome = e.strerror
    client.setblocking(False)
    try:
        while True:
            client.send(b"x" * 65536)
    except BlockingIOError:
        pass
    return outcome, client, other


def plug(seconds):
    outcome, client, other = lingering(seconds)
    print(outcome, flush=True)
    leave_in_a_cycle([client.fileno(), other.fileno()])  # the kernel closes the first first
    client.close()
    other.close()


def fill(megabytes):
    fd = os.memfd_create("x")
    for _ in range(megabytes):
        os.write(fd, b"x" * MB)
    leave_in_a_cycle([fd])
    os.close(fd)


{"plug": plug, "fill": fill}[sys.argv[1]](int(sys.argv[2]))
