"""Corners of `belljar run` where a run could end wrongly, or its end be told wrongly."""
import json
import os
import pty
import signal
import subprocess
import time

import pytest

from jar import SLOWER

pytestmark = pytest.mark.once


def test_a_file_that_can_not_be_written_does_not_hide_the_end(belljar):
    (belljar.home / "out" / "sub").mkdir(parents=True)
    os.chmod(belljar.home, 0o777)
    for path in (belljar.home / "out", belljar.home / "out" / "sub"):
        os.chmod(path, 0o777)
    done = belljar.run("run", "-q", "--capture", "*", "--out", belljar.home / "out", "--",
                       "sh", "-c", "echo x >sub; exit 7")
    assert done.returncode == 7
    assert "not all files could be captured" in done.stderr


def test_a_second_signal_ends_us_though_nobody_reads(belljar):
    read_end, write_end = os.pipe()
    run = belljar.start("run", "-q", "--", "sh", "-c", "yes; sleep 60", stdout=write_end,
                        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    os.close(write_end)
    try:
        time.sleep(1 * SLOWER)  # the pipe is full by now, and we are stuck in it
        run.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=10 * SLOWER) == 128 + signal.SIGTERM
    finally:
        run.kill()
        run.wait()
        os.close(read_end)


def test_a_guest_may_leave_its_terminal(belljar):
    master, slave = pty.openpty()
    script = "exec >log 2>&1 </dev/null; sleep 0.5; exit 3"
    run = belljar.start("run", "-q", "--", "bash", "-c", script, stdin=slave, stdout=slave,
                        stderr=subprocess.PIPE)
    os.close(slave)
    try:
        assert run.wait(timeout=20 * SLOWER) == 3, run.stderr.read()
    finally:
        run.kill()
        run.wait()
        os.close(master)


def test_more_processes_than_usual_can_be_had(belljar):
    code = ("import threading, time\n"
            "t = [threading.Thread(target=time.sleep, args=(1,)) for _ in range(600)]\n"
            "[x.start() for x in t]; [x.join() for x in t]; print(len(t))")
    done = belljar.run("run", "-q", "--pids", "1000", "--", "python3", "-c", code)
    assert (done.returncode, done.stdout) == (0, "600\n"), done.stderr


def test_a_run_that_never_was_says_nothing_untrue(belljar):
    done = belljar.run("run", "--json", "--image", "nosuch", "--", "true")
    result = json.loads(done.stdout)
    assert result["reason_code"] == "image_pull_failed"
    assert result["image"] is None
    assert "mount" in result["enforced"]
    assert result["resource_usage"]["cpu_time_sec"] is None
    assert result["resource_usage"]["wall_time_sec"] is None


def test_no_directory_to_capture_into_is_refused(belljar):
    done = belljar.run("run", "-q", "--capture", "*", "--out", "", "--", "true")
    assert done.returncode == 125
    assert "directory" in done.stderr


def test_a_keeper_cleans_up_when_its_terminal_goes(belljar):
    root = belljar.home / "state"
    keeper = belljar.start("keeper", "--root", root)
    try:
        for _ in range(200 * SLOWER):
            if (root / "keeper.sock").exists():
                break
            time.sleep(0.05)
        keeper.send_signal(signal.SIGHUP)
        assert keeper.wait(timeout=20 * SLOWER) == 0
        assert not (root / "keeper.sock").exists()
        assert not list((root / "keepers").iterdir())
    finally:
        keeper.kill()
        keeper.wait()


@pytest.mark.root_only("takes a capability away from root")
def test_without_the_right_to_administer_networks(belljar):
    """As in some containers; each box is then made in a user namespace of the keeper's own."""
    done = belljar.command("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin",
                           belljar.path, "run", "--", "cat", "/proc/net/dev")
    assert done.returncode == 0 and "lo:" in done.stdout, done.stderr


@pytest.mark.root_only("changes a setting, in a pid namespace of its own")
def test_where_files_in_memory_are_not_executable(belljar):
    """Unless it is asked for, which we do."""
    if not os.path.exists("/proc/sys/vm/memfd_noexec"):
        pytest.skip("this kernel has no vm.memfd_noexec")
    script = 'echo 1 >/proc/sys/vm/memfd_noexec && exec "$0" run -- echo here'
    done = belljar.command(
        "unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script, belljar.path)
    assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr


IN_A_CHROOT = """
set -e
mount --make-rprivate /
cd "$1"
mkdir -p usr etc proc dev sys tmp
for name in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$name" ]; then ln -s "$(readlink "/$name")" "$name"
    elif [ -d "/$name" ]; then mkdir "$name"; mount --bind "/$name" "$name"
    fi
done
for name in usr etc proc dev sys; do mount --rbind "/$name" "$name"; done
cp "$2" belljar
chmod 1777 tmp
exec chroot . /belljar run --root /tmp/state -- sh -c 'echo "$(id -u) $(ls -d /tmp/* 2>&1)"'
"""


@pytest.mark.root_only("plain users can have no user namespace in a chroot")
def test_boxes_are_made_in_a_chroot(belljar, tmp_path):
    """As by debootstrap, or in a rescue system. Its directory is no mount."""
    done = subprocess.run(["unshare", "-m", "sh", "-c", IN_A_CHROOT, "sh", tmp_path, belljar.path],
                          capture_output=True, text=True, timeout=60 * SLOWER, check=False)
    assert (done.returncode, done.stdout) == (
        0, "1000 ls: cannot access '/tmp/*': No such file or directory\n"), done.stderr
