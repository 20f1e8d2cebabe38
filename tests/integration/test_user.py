"""`belljar user`: who may use a server, when more than one."""
import os
import re
import stat

import pytest

from server import make_server  # noqa: F401 (fixtures)

OURS = 125  # the exit status of a refusal
KEY = re.compile(r"bj_[A-Za-z0-9_-]{43}\n")


@pytest.fixture
def user(belljar):
    def run(*argv, env=None, **options):
        env = {"BELLJAR_ROOT": str(belljar.home / "state"), **(env or {})}
        return belljar.run("user", *argv, env=env, **options)

    return run


def test_who_is_added_is_listed_until_removed(user):
    alice = user("add", "alice", "--admin")
    bob = user("add", "bob")
    assert KEY.fullmatch(alice.stdout) and KEY.fullmatch(bob.stdout)
    assert alice.stdout != bob.stdout
    assert [line.split() for line in user("list").stdout.splitlines()] == [
        ["alice", "admin"], ["bob", "user"]]
    assert user("remove", "alice").returncode == 0
    assert user("list").stdout.split() == ["bob", "user"]


def test_the_file_holds_no_key_and_is_closed(user, belljar):
    path = belljar.home / "own"
    key = user("add", "alice", "--file", path).stdout.strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key not in path.read_text()
    assert path.read_text().startswith("alice user sha256$")
    assert user("list", env={"SANDBOX_USERS_FILE": str(path)}).stdout.startswith("alice ")


@pytest.mark.parametrize("argv, why", [
    ((), "needs a verb"),
    (("ad", "x"), "did you mean 'add'?"),
    (("add",), "needs a name"),
    (("add", "Alice"), "'Alice' can not be a user's name"),
    (("add", "../x"), "can not be a user's name"),
    (("add", "images"), "can not be a user's name"),
    (("add", "a", "b"), "one argument too many"),
    (("list", "a"), "takes no name"),
    (("list", "--admin"), "no option --admin"),
    (("remove", "nobody"), "no user 'nobody'"),
    (("list", "--file", "/nowhere/users"), "/nowhere/users"),
])
def test_what_makes_no_sense_is_refused(user, argv, why):
    done = user(*argv)
    assert done.returncode == OURS
    assert why in done.stderr
    assert not done.stdout


def test_a_second_user_of_that_name_is_refused(user):
    assert user("add", "alice").returncode == 0
    again = user("add", "alice", "--admin")
    assert again.returncode == OURS and "there already" in again.stderr
    assert user("list").stdout.split() == ["alice", "user"]


def test_a_file_that_others_can_read_is_refused(user, belljar):
    path = belljar.file("users", mode=0o644)
    done = user("add", "alice", "--file", path)
    assert done.returncode == OURS and "chmod 600" in done.stderr
    assert path.read_text() == ""


def test_a_key_that_nobody_saw_is_not_added(user):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = user("add", "alice", stdout=full)
    assert done.returncode == OURS
    assert user("list").stdout == ""


# --- while a server runs ---

def test_a_server_notices_who_is_added_and_who_is_removed(user, belljar, make_server):
    file = belljar.home / "people"
    assert user("add", "boss", "--admin", "--file", file).returncode == 0
    server = make_server(SANDBOX_USERS_FILE=file)
    owner = file.stat().st_uid

    def ask(key):
        return server.client(key).get("/runs").status_code

    for name in ("ann", "bob"):  # the second one finds what the first one left
        added = user("add", name, "--file", file)
        assert added.returncode == 0, added.stderr
        key = added.stdout.strip()
        assert ask(key) == 200
        listed = user("list", "--file", file)
        assert [line.split()[0] for line in listed.stdout.splitlines()] == ["boss", name]
        removed = user("remove", name, "--file", file)
        assert removed.returncode == 0, removed.stderr
        assert ask(key) == 401
    assert (file.stat().st_uid, stat.S_IMODE(file.stat().st_mode)) == (owner, 0o600)


def test_who_is_added_may_use_a_server_at_once(user, make_server):
    """Without a setting, and whether the server was there before or not."""
    server = make_server()

    def ask(key):
        return server.client(key).get("/runs").status_code

    ann = user("add", "ann").stdout.strip()
    assert (ask(ann), ask(server.key)) == (200, 200)
    fresh = user("rotate", "ann").stdout.strip()
    assert KEY.fullmatch(fresh + "\n") and (ask(ann), ask(fresh)) == (401, 200)
    assert server.client(fresh).get("/admin/runs").status_code == 403
    server.restart()
    assert (ask(fresh), ask(server.key)) == (200, 200)
    assert [line.split() for line in user("list").stdout.splitlines()] == [["ann", "user"]]
    assert user("remove", "ann").returncode == 0
    assert (ask(fresh), ask(server.key)) == (401, 200)


def test_who_is_added_before_the_first_start_may_use_the_server(user, make_server):
    boss = user("add", "boss", "--admin").stdout.strip()
    server = make_server()
    assert server.client(boss).get("/admin/runs").status_code == 200


@pytest.mark.once
def test_without_users_the_list_is_empty(user):
    done = user("list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.once
def test_a_new_key_keeps_the_role_and_the_others(user):
    for name, *options in (("ann", "--admin"), ("bob",)):
        user("add", name, *options)
    before = user("list").stdout
    assert user("rotate", "ann").returncode == 0
    assert user("list").stdout == before
    done = user("rotate", "eve")
    assert done.returncode == OURS and "no user 'eve'" in done.stderr


@pytest.mark.root_only("only root can give files away")
def test_root_refuses_a_file_of_somebody_who_is_not_the_server(user, belljar):
    path = belljar.file("users", mode=0o600)
    os.chown(path, 65533, -1)
    for argv in (("add", "alice"), ("list",), ("remove", "alice")):
        done = user(*argv, "--file", path)
        assert done.returncode == OURS
        assert "belongs to uid 65533" in done.stderr and "SANDBOX_RUN_AS" in done.stderr
