"""Workspaces that outlive their runs, as the keeper offers them to a server: raw protocol."""
import contextlib
import ctypes
import errno
import hashlib
import os
import pathlib
import socket
import struct
import time

import pytest

import wire
from jar import SLOWER, eventually, processes_with
from test_keeper import Keeper, read_all


@pytest.fixture
def keeper(jar):
    it = Keeper(jar)
    yield it
    it.close()


def entry(kind, name, data=b"", mode=0o644):
    """One entry of a pack stream; src/ipc/pack.c is the reference."""
    return (struct.pack("<cIIQ", kind, mode, len(name), len(data)) + name.encode() + data)


def pack(*entries):
    return b"".join(entries) + struct.pack("<cIIQ", b"E", 0, 0, len(entries))


def make(peer, size=1 << 20):
    name = wire.new_id()
    peer.send(wire.MAKE_WORKSPACE, wire.text(name) + wire.u64(size))
    assert peer.expect(wire.WORKSPACE).id == name
    return name


def put(peer, workspace, stream, size=1 << 20, clears=0):
    run = wire.new_id()
    peer.send(wire.START, wire.spec(id=run, workspace=workspace, deed=1, takes_files=1,
                                    clears=clears, workspace_bytes=size))
    started = peer.expect(wire.STARTED)
    with socket.socket(fileno=os.dup(started.channels["files"])) as files:
        try:
            files.sendall(stream)
            files.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it refused what came first
    ended = peer.result()
    peer.about(wire.ACK, run)
    return ended


def shell(peer, workspace, script, size=1 << 20):
    run = wire.new_id()
    peer.send(wire.START, wire.spec("sh", "-c", script, id=run, workspace=workspace,
                                    workspace_bytes=size))
    started = peer.expect(wire.STARTED)
    os.close(started.channels["stdin"])
    out = read_all(started.channels["stdout"])
    ended = peer.result()
    peer.about(wire.ACK, run)
    return out.decode(), ended


def test_files_stay_from_one_run_to_the_next(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        assert shell(peer, workspace, "echo 1 >a; mkdir d; echo 2 >d/b; id -u")[0] == "1000\n"
        assert shell(peer, workspace, "cat a d/b /mnt/data/a; rm a")[0] == "1\n2\n1\n"
        assert shell(peer, workspace, "ls")[0] == "d\n"
        other = make(peer)
        assert shell(peer, other, "ls")[0] == ""
        assert shell(peer, "", "ls")[0] == ""


def test_they_outlive_the_client_and_are_listed(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        shell(peer, workspace, "echo kept >a")
    with keeper.greet() as peer:
        peer.send(wire.LIST_WORKSPACES)
        assert peer.expect(wire.WORKSPACES).ids == [workspace]
        assert shell(peer, workspace, "cat a")[0] == "kept\n"
        peer.send(wire.DROP_WORKSPACE, wire.text(workspace))
        peer.send(wire.LIST_WORKSPACES)
        assert peer.expect(wire.WORKSPACES).ids == []
        peer.send(wire.START, wire.spec("true", workspace=workspace))
        assert "no workspace" in peer.expect(wire.REFUSED).text


def test_files_go_in_as_a_whole(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        good = pack(entry(b"F", "a", b"one"), entry(b"D", "dir", mode=0o755),
                    entry(b"F", "dir/b", b"two"))
        assert put(peer, workspace, good).reason == "exit_code_0"
        assert shell(peer, workspace, "cat a dir/b; ls -A")[0] == "onetwoa\ndir\n"
        cut = entry(b"F", "a", b"changed") + entry(b"F", "c", b"new")
        assert put(peer, workspace, cut).reason == "provision_failed"
        assert shell(peer, workspace, "cat a; ls -A")[0] == "onea\ndir\n"


def test_what_is_too_large_changes_nothing(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        put(peer, workspace, pack(entry(b"F", "a", b"x" * 600000)))
        assert put(peer, workspace, pack(entry(b"F", "b", b"y" * 600000))).reason == \
            "provision_failed"
        assert shell(peer, workspace, "ls -A; wc -c <a")[0] == "a\n600000\n"


def test_a_replaced_file_does_not_count(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        put(peer, workspace, pack(entry(b"F", "a", b"x" * 600000)))
        assert put(peer, workspace, pack(entry(b"F", "a", b"y" * 800000))).reason == "exit_code_0"
        assert shell(peer, workspace, "head -c 1 a; ls -A")[0] == "ya\n"


def test_clearing_replaces_all(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        shell(peer, workspace, "echo old >old; ln -s /etc/passwd link; mkdir -p x/y")
        assert put(peer, workspace, pack(entry(b"F", "new", b"n")), clears=1).reason == \
            "exit_code_0"
        assert shell(peer, workspace, "ls -A")[0] == "new\n"


TORN = "mkdir .outgoing-{0} .incoming-{0}; echo 1 >.outgoing-{0}/old; echo 2 >.incoming-{0}/new"


def take_out(peer, workspace, change):
    run = wire.new_id()
    peer.send(wire.START, wire.spec(id=run, workspace=workspace, deed=1, globs=("**",),
                                    change=change))
    data = read_all(peer.expect(wire.STARTED).channels["capture"])
    ended = peer.result()
    peer.about(wire.ACK, run)
    return data, ended


def test_what_a_restore_left_half_done_is_made_good_before_files_come_out(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        shell(peer, workspace, TORN.format("0123456789abcdef"))
        data, ended = take_out(peer, workspace, "0123456789abcdef")
        assert ended.reason == "exit_code_0" and b"old1\n" in data
        assert shell(peer, workspace, "ls -A")[0] == "old\n"


def test_nothing_comes_out_of_what_can_not_be_made_good(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        shell(peer, workspace, TORN.format("0123456789abcdef") + "; echo 3 >old")
        data, ended = take_out(peer, workspace, "0123456789abcdef")
        assert data == b"" and ended.errno == errno.ENOTRECOVERABLE
        assert "'old'" in ended.text and "aside" in ended.text
        assert shell(peer, workspace, "cat old .outgoing-*/old")[0] == "3\n1\n"


def test_all_of_it_comes_out(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        shell(peer, workspace, "echo 1 >a; ln -s a link; mkdir -p empty; echo 2 >.hidden")
        run = wire.new_id()
        peer.send(wire.START, wire.spec(id=run, workspace=workspace, deed=1, globs=("**",)))
        started = peer.expect(wire.STARTED)
        data = read_all(started.channels["capture"])
        assert peer.result().reason == "exit_code_0"
        for name in (b"a1\n", b"linka", b"empty", b".hidden2\n"):
            assert name in data
        peer.about(wire.ACK, run)


def test_one_file_comes_out_and_no_other(keeper):
    def fetch(name):
        run = wire.new_id()
        peer.send(wire.START, wire.spec(id=run, workspace=workspace, deed=2, globs=(name,)))
        started = peer.expect(wire.STARTED)
        data = read_all(started.channels["capture"])
        assert peer.result().reason == "exit_code_0"
        peer.about(wire.ACK, run)
        return data
    with keeper.greet() as peer:
        workspace = make(peer)
        shell(peer, workspace, "echo 1 >'a*'; echo 2 >ab; ln -s ab link; ln -s / root; mkdir d")
        assert fetch("a*") == pack(entry(b"F", "a*", b"1\n"))
        for name in ("a?", "link", "root/etc/passwd", "d", "missing"):
            assert fetch(name) == pack(), name


def listed(data):
    """{path: (kind, is changed, size)}, with the digest if there is one, and whether it was cut;
    src/ipc/inventory.c."""
    entries, n_more = {}, 0
    while data[:1] != b"E":
        if data[:1] == b"M":  # so many more, and whether that is not all
            n_more, _partial = struct.unpack("<xIB", data[:6])
            data = data[6:]
            continue
        kind, changed, size, _mtime, length = struct.unpack("<cBQQI", data[:22])
        name, data = data[22:22 + length], data[22 + length:]
        entries[name] = (kind, bool(changed), size)
        has_digest, data = data[0], data[1:]
        if has_digest:
            entries[name] += (data[:32].hex(),)
            data = data[32:]
    cut, n = struct.unpack("<xBI", data)
    assert n == len(entries) and (cut or n_more == 0)
    return entries, bool(cut)


def look(peer, workspace, script=None, digests=0):
    """What is in there: at any time, or when a script has ended."""
    run = wire.new_id()
    argv = ("sh", "-c", script) if script else ()
    peer.send(wire.START, wire.spec(*argv, id=run, workspace=workspace, lists=1, lingers=1,
                                    digests=digests, deed=0 if script else 3, workspace_bytes=64 << 20))
    started = peer.expect(wire.STARTED)
    data = read_all(started.channels["listing"])
    assert peer.result().reason == "exit_code_0"
    peer.about(wire.ACK, run)
    return listed(data)


def test_what_is_in_it_is_told_after_a_run_and_at_any_time(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        shell(peer, workspace, "echo 1 >old; echo 1 >grows")
        entries, cut = look(peer, workspace, "echo 2 >>grows; mkdir d; echo 3 >d/new; "
                                             "ln -s /etc link; mkfifo fifo; touch -d @1 d/new")
        assert not cut and entries == {
            b"old": (b"F", False, 2), b"grows": (b"F", True, 4), b"d": (b"D", True, 0),
            b"d/new": (b"F", True, 2), b"link": (b"L", True, 0), b"fifo": (b"O", True, 0)}
        entries, cut = look(peer, workspace)
        assert not cut and set(entries) == {b"old", b"grows", b"d", b"d/new", b"link", b"fifo"}
        assert not any(changed for _, changed, _ in entries.values())


def test_a_file_has_its_digest_when_that_is_wanted(keeper):
    """Of its content when the guest is gone: what the guest left behind can not change it."""
    script = "(trap '' TERM; while :; do echo later >>f; done) & echo 1 >f; printf '' >none; mkdir d"
    with keeper.greet() as peer:
        workspace = make(peer)
        for arguments in ((script,), ()):
            entries, cut = look(peer, workspace, *arguments, digests=1)
            content = shell(peer, workspace, "cat f")[0].encode()
            assert not cut and set(entries) == {b"f", b"none", b"d"} and len(entries[b"d"]) == 3
            assert entries[b"f"][2:] == (len(content), hashlib.sha256(content).hexdigest())
            assert entries[b"none"][2:] == (0, hashlib.sha256(b"").hexdigest())
        assert all(len(entry) == 3 for entry in look(peer, workspace)[0].values())


def test_a_huge_and_hostile_tree_is_told_in_part(keeper):
    script = r"""exec 2>/dev/null
        touch "$(printf 'x\ny')" "$(printf '\377')" "$(printf 'n%.0s' $(seq 255))"
        mkdir shut; chmod 0 shut
        for i in $(seq 100); do mkdir deep; cd deep; done; cd /workspace
        mkdir a; cd a; seq 30000 | xargs touch; true"""
    with keeper.greet() as peer:
        workspace = make(peer, 64 << 20)
        entries, cut = look(peer, workspace, script)
        assert cut and len(entries) <= 2000
        assert {b"x\ny", b"\377", b"n" * 255, b"shut", b"a"} <= set(entries)
        assert look(peer, workspace)[1]


def test_a_listing_waits_for_who_comes_back(keeper):
    peer = keeper.greet()
    run = keeper.sh(peer, "echo content >file", lingers=1, lists=1).id
    peer.close()
    time.sleep(0.2 * SLOWER)
    with keeper.greet() as peer:
        data = read_all(peer.attach(run).channels["listing"])
        assert listed(data) == ({b"file": (b"F", True, 8)}, False)
        assert peer.result().reason == "exit_code_0"
        peer.about(wire.ACK, run)


def test_a_run_that_talks_has_a_pipe_for_its_answers(keeper):
    """Apart from what it prints; who comes back has the pipes again. None of them is a socket, on
    which it could send descriptors."""
    peer = keeper.greet()
    run = keeper.sh(peer, "while read line; do echo said $line >&3; echo printed; done\n"
                    "readlink /proc/self/fd/[0-3] | cut -d: -f1",
                    talks=1, lingers=1).id
    peer.close()
    with keeper.greet() as peer:
        started = peer.attach(run)
        for word in (b"one", b"two"):
            os.write(started.channels["stdin"], word + b"\n")
            assert os.read(started.channels["reply"], 100) == b"said " + word + b"\n"
        peer.about(wire.CLOSE_STDIN, run)
        os.close(started.channels["stdin"])
        peer.fds.remove(started.channels["stdin"])
        assert read_all(started.channels["stdout"]) == (
            b"printed\nprinted\n" + 4 * b"pipe\n")
        assert peer.result().reason == "exit_code_0"
        peer.about(wire.ACK, run)


COUNTS = ("python3", "-c", "import time, signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n"
          "while True:\n print('.', end='', flush=True)\n time.sleep(0.005)")


def freeze(peer, run, kind=wire.FREEZE):
    peer.about(kind, run)
    while (message := peer.receive()).kind != wire.USED:
        assert message.kind == wire.RUNNING
    if kind == wire.FREEZE and not message.is_frozen:
        pytest.skip("there is no cgroup v2 in which boxes can be frozen")
    return message.cpu_us


def counts(started, seconds=0.3):
    """Whether it writes anything in this time."""
    fd = started.channels["stdout"]
    time.sleep(0.1)  # what it was at
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 1 << 16):
            pass
    time.sleep(seconds)
    try:
        return bool(os.read(fd, 1 << 16))
    except BlockingIOError:
        return False


@pytest.mark.parametrize("end", ["cancel", "deadline", "gone"])
def test_what_is_frozen_goes_on_or_ends_when_it_is_asked_to(keeper, end):
    limits = {"timeout_ms": 3000} if end == "deadline" else {"grace_ms": 200}
    with keeper.greet() as peer:
        started = keeper.start(peer, *COUNTS, **limits)
        assert os.read(started.channels["stdout"], 1)
        freeze(peer, started.id)
        assert not counts(started)
        used = freeze(peer, started.id, wire.USAGE)
        if end != "deadline":
            assert freeze(peer, started.id) == used
            peer.about(wire.THAW, started.id)
            assert counts(started)
            freeze(peer, started.id)
            peer.about(wire.SIGNAL, started.id, wire.u32(10))  # SIGUSR1
            assert counts(started)
            freeze(peer, started.id)
        if end == "gone":
            with open(os.dup(started.channels["stdout"]), "rb", buffering=0) as out:
                os.set_blocking(out.fileno(), True)
                peer.close()
                out.readall()  # ends when all of them are dead
            return
        if end == "cancel":
            peer.about(wire.CANCEL, started.id)
        reason = "canceled_by_user" if end == "cancel" else "execution_timeout"
        assert peer.result().reason == reason
        os.set_blocking(started.channels["stdout"], True)
        read_all(started.channels["stdout"])
        # Whoever has its group next is not frozen.
        for _ in range(3):
            again = keeper.sh(peer, "echo alive")
            assert read_all(again.channels["stdout"]) == b"alive\n"
            assert peer.result().reason == "exit_code_0"


def test_what_is_frozen_dies_with_its_keeper(keeper):
    with keeper.greet() as peer:
        started = keeper.start(peer, *COUNTS, lingers=1)
        assert os.read(started.channels["stdout"], 1)
        freeze(peer, started.id)
        keeper.process.kill()
        assert keeper.process.wait(10) != 0
        read_all(started.channels["stdout"])  # ends when all of them are dead
    Keeper(keeper.jar).close()  # which sweeps up after the dead one


def read_terminal(fd):
    data = b""
    with contextlib.suppress(OSError):  # it ends with the last who has it open
        while chunk := os.read(fd, 1 << 16):
            data += chunk
    return data


DESCRIPTORS = """import os
for fd in range(1024):
    try:
        print(fd, os.readlink(f"/proc/self/fd/{fd}").split(":")[0])
    except FileNotFoundError:
        pass
"""


@pytest.mark.parametrize("options", [
    {}, {"deaf": 1}, {"talks": 1}, {"tty": 1}, {"takes_files": 1}, {"globs": ("*",)}, {"lists": 1},
    {"lingers": 1}, {"talks": 1, "takes_files": 1, "globs": ("*",), "lists": 1, "lingers": 1}],
    ids=lambda options: "_".join(options) or "plain")
def test_a_guest_starts_with_pipes_or_a_terminal_and_nothing_else(keeper, options):
    """A socket, of which we hold the other end, would take descriptors that we had to close. A
    directory of the host's, or a file without a name, would be a way out."""
    with keeper.greet() as peer:
        run = wire.new_id()
        peer.send(wire.START, wire.spec("python3", "-c", DESCRIPTORS, id=run,
                                        workspace=make(peer), workspace_bytes=1 << 20, **options))
        started = peer.expect(wire.STARTED)
        if "files" in started.channels:
            with socket.socket(fileno=os.dup(started.channels["files"])) as files:
                files.sendall(pack())
                files.shutdown(socket.SHUT_WR)
        if options.get("tty"):
            out, kind = read_terminal(started.channels["tty"]), b"/dev/pts/0"
        else:
            out, kind = read_all(started.channels["stdout"]), b"pipe"
        n = 4 if options.get("talks") else 3
        assert out.split() == [word for fd in range(n) for word in (b"%d" % fd, kind)]
        assert peer.result().reason == "exit_code_0"
        peer.about(wire.ACK, run)


def test_a_run_that_is_deaf_has_an_empty_stdin(keeper):
    """From its start on, also while its client is gone."""
    peer = keeper.greet()
    run = keeper.sh(peer, "wc -c; sleep 0.2; wc -c", deaf=1, lingers=1).id
    peer.close()
    with keeper.greet() as peer:
        started = peer.attach(run)
        assert "stdin" not in started.channels
        assert read_all(started.channels["stdout"]) == b"0\n0\n"
        assert peer.result().reason == "exit_code_0"
        peer.about(wire.ACK, run)


def test_its_size_is_a_limit(keeper):
    with keeper.greet() as peer:
        workspace = make(peer)
        for _ in range(2):  # also after there was more room for a moment
            out, _ = shell(peer, workspace, "head -c 2000000 /dev/zero >big; wc -c <big")
            assert 900000 < int(out) <= 1 << 20
            assert put(peer, workspace, pack(entry(b"F", "big", b"small"))).reason == "exit_code_0"


def test_exec_is_of_one_run_alone(keeper):
    """While one run executes what is in a workspace, another run there does not, nor the next."""
    with keeper.greet() as one, keeper.greet() as other:
        workspace = make(one)
        run = wire.new_id()
        one.send(wire.START, wire.spec(
            "sh", "-c", "cp /usr/bin/env t && ./t true && /mnt/data/t true && echo ran; read x",
            id=run, workspace=workspace, workspace_bytes=1 << 20, exec=1))
        started = one.expect(wire.STARTED)
        assert os.read(started.channels["stdout"], 100) == b"ran\n"
        out, ended = shell(other, workspace, "./t true; /mnt/data/t true; echo tried")
        assert (out, ended.reason) == ("tried\n", "exit_code_0")
        assert shell(other, workspace, "./t true")[1].exit_code == 126
        os.close(started.channels["stdin"])
        assert one.result().exit_code == 1  # of read, at the end of its input
        one.about(wire.ACK, run)
        assert shell(other, workspace, "./t true")[1].exit_code == 126


@pytest.mark.parametrize("options, words", [
    ({"workspace": "xyz"}, "workspace id"), ({"deed": 1}, "command where only files"),
    ({"clears": 1}, "cleared"), ({"deed": 7}, "no deed"),
    ({"deed": 2, "globs": ("../x",)}, "more than one file"),
    ({"deed": 2, "globs": ("a", "b")}, "more than one file"),
    ({"deed": 2, "globs": ("a",), "takes_files": 1}, "more than one file"),
    ({"deed": 3, "lists": 1, "globs": ("a",)}, "only their names"),
    ({"deed": 3, "lists": 1, "exec": 1}, "nothing is executed"),
    ({"deed": 3}, "or none"), ({"deed": 3, "lists": 1, "talks": 1}, "no stdin"),
    ({"change": "0123456789abcdef", "workspace": 32 * "a"}, "a change where no files"),
    ({"deed": 3, "lists": 1, "change": "0123456789abcdef"}, "a change where no files"),
    ({"deed": 3, "lists": 1, "change": "x", "workspace": 32 * "a"}, "the change is not"),
    ({"talks": 1, "deaf": 1}, "no stdin"), ({"tty": 1, "deaf": 1}, "no stdin")])
def test_nonsense_is_refused(keeper, options, words):
    with keeper.greet() as peer:
        argv = () if options.get("deed") in (2, 3) else ("true",)
        peer.send(wire.START, wire.spec(*argv, **options))
        assert words in peer.expect(wire.REFUSED).text


# --- who the boxes are on the host

MAPS_USERS = tuple(int(n) for n in os.uname().release.split(".")[:2]) >= (6, 3)


def blind():
    """Before a keeper starts: one that may not look into boxes gives all of a workspace the same
    user, as one of an older kernel does."""
    pr_capbset_drop, cap_sys_ptrace = 24, 19
    assert ctypes.CDLL(None).prctl(pr_capbset_drop, cap_sys_ptrace, 0, 0, 0) == 0


@pytest.fixture(params=[False, True], ids=["mapped", "same"])
def either(jar, request):
    it = Keeper(jar, preexec_fn=blind if request.param else None)
    it.maps_users = MAPS_USERS and not request.param
    yield it
    it.close()


@pytest.mark.root_only("a plain user has no users to give to boxes")
@pytest.mark.parametrize("test", [
    test_files_stay_from_one_run_to_the_next, test_they_outlive_the_client_and_are_listed,
    test_files_go_in_as_a_whole, test_what_is_too_large_changes_nothing,
    test_clearing_replaces_all, test_all_of_it_comes_out, test_one_file_comes_out_and_no_other,
    test_what_is_in_it_is_told_after_a_run_and_at_any_time, test_its_size_is_a_limit])
def test_it_is_the_same_where_users_can_not_be_mapped(jar, test):
    keeper = Keeper(jar, preexec_fn=blind)
    test(keeper)
    keeper.close()


def waiting(keeper, workspace, name):
    """Start a run that makes a file and stays; returns its client, its channels and its pids on
    the host."""
    peer = keeper.greet()
    before = set(processes_with(keeper.jar.mark))
    script = f"umask 077; echo {name} >{name}; echo up; read x; cat *; stat -c %u:%g . *"
    started = keeper.sh(peer, script, workspace=workspace)
    assert os.read(started.channels["stdout"], 3) == b"up\n"
    return peer, started.channels, set(processes_with(keeper.jar.mark)) - before


def host_uid(pid):
    return pathlib.Path(f"/proc/{pid}").stat().st_uid


@pytest.mark.root_only("a plain user has no users to give to boxes")
def test_boxes_of_a_workspace_share_its_files_and_nothing_else(either):
    with either.greet() as peer:
        workspace = make(peer)
    runs = [waiting(either, workspace, name) for name in ("a", "b")]
    uids = {host_uid(pid) for _, _, pids in runs for pid in pids}
    assert min(uids) >= 0x70000000 and len(uids) == (2 if either.maps_users else 1)
    for client, channels, _ in runs:
        os.write(channels["stdin"], b"\n")
        assert read_all(channels["stdout"]) == b"a\nb\n" + b"1000:1000\n" * 3
        assert client.result().reason == "exit_code_0"


@pytest.mark.root_only("a plain user has no users to give to boxes")
def test_a_run_in_a_workspace_takes_a_box_that_was_ready(either):
    with either.greet() as peer:
        workspace = make(peer)
    assert eventually(lambda: len(either.boxes()) == 2)
    ready = either.boxes()
    _, _, pids = waiting(either, workspace, "a")
    parents = {int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
               for pid in pids}
    assert bool(parents & ready) == either.maps_users


def test_many_at_once_and_what_becomes_of_those_whose_workspace_goes(keeper):
    """More than there are boxes ready, so most of them ask for it."""
    with keeper.greet() as peer:
        workspace = make(peer)
        ids = [wire.new_id() for _ in range(24)]
        for n, run in enumerate(ids):
            peer.send(wire.START, keeper.spec("sh", "-c", f"echo {n} >f{n}; stat -c %u f{n}",
                                              id=run, workspace=workspace, lingers=1))
        peer.send(wire.DROP_WORKSPACE, wire.text(workspace))
        outs, results = [], []
        while len(results) < len(ids):
            got = peer.receive()
            if got.kind == wire.STARTED:
                outs.append(got.channels["stdout"])
            elif got.kind == wire.ENDED:
                results.append((got.id, got.reason))
        assert sorted(results) == sorted((run, "exit_code_0") for run in ids)
        assert [read_all(fd) for fd in outs] == [b"1000\n"] * len(ids)
        for run in ids:
            peer.about(wire.ACK, run)
