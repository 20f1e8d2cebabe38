#include "core/users.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "core/run_as.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* The hash was computed in Python: sha256(bytes(range(16)) + key). */
#define KEY    "bj_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define SALT   "000102030405060708090a0b0c0d0e0f"
#define HASH   "797fffce1c115de865a563e7be638707a6130dcc3d0d4e97e91012e3817545bb"
#define HASHED "sha256$" SALT "$" HASH

struct fixture {
	struct scratch dir;
	char path[96];
	struct err err;
};

static void start(struct fixture *f)
{
	*f = (struct fixture){ 0 };
	scratch_make(&f->dir);
	(void)snprintf(f->path, sizeof(f->path), "%s/users", f->dir.path);
}

static void finish(struct fixture *f)
{
	scratch_remove(&f->dir);
}

#define FIXTURE(name)                                                                              \
	CLEANUP(finish) struct fixture name;                                                       \
	start(&name)

static void write_users(struct fixture *f, const char *text)
{
	scratch_write(f->dir.fd, "users", text);
	CHECK_EQ(chmod(f->path, 0600), 0);
}

/* Who has this key, as far as a server that runs already knows; "" for nobody. */
static const char *name_of(struct users *u, const char *key)
{
	const struct user *user = users_find_key(u, key);

	return user ? user->name : "";
}

TEST(a_file_is_read)
{
	FIXTURE(f);
	CLEANUP(users_freep) struct users *u = NULL;

	write_users(&f, "# who\n\n  alice\tadmin  " HASHED "  \r\nbob user " HASHED);
	CHECK_EQ(users_open(f.path, &u, &f.err), 0);
	CHECK_STR(name_of(u, KEY), "bob");
	write_users(&f, "alice admin " HASHED "\n");
	CHECK_STR(name_of(u, KEY), "alice");
	CHECK(users_find_key(u, KEY)->admin);
	CHECK(!users_find_key(u, "bj_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB"));
	CHECK(!users_find_key(u, ""));
	CHECK(!users_find_key(u, KEY "A"));
}

TEST(a_bad_line_is_named)
{
	static const struct {
		const char *text;
		const char *why;
	} bad[] = {
		{ "alice", "line 1: it is not NAME ROLE" },
		{ "alice admin", "line 1" },
		{ "\nalice root " HASHED, "line 2: the role" },
		{ "alice administrator " HASHED, "the role" },
		{ "Alice user " HASHED, "the name" },
		{ "images user " HASHED, "the name" },
		{ "../x user " HASHED, "the name" },
		{ "alice user md5$" SALT "$" HASH, "sha256" },
		{ "alice user sha256$" SALT "$" HASH "0", "hexadecimal" },
		{ "alice user sha256$" SALT "$" HASH " x", "hexadecimal" },
		{ "alice user sha256$" SALT "$abc", "hexadecimal" },
		{ "alice user sha256$" SALT, "hexadecimal" },
		{ "alice user sha256$" SALT "$" SALT SALT "\n"
		  "alice user " HASHED,
			"line 2: alice is there already" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		FIXTURE(f);
		struct users *u = NULL;

		write_users(&f, bad[i].text);
		CHECK_EQ(users_open(f.path, &u, &f.err), -EINVAL);
		if (!strstr(f.err.text, bad[i].why) || !strstr(f.err.text, f.path))
			fail_msg("'%s' is not in: %s", bad[i].why, f.err.text);
		CHECK(!strstr(f.err.text, HASH));
	}
}

TEST(a_file_that_is_open_to_others_is_refused)
{
	FIXTURE(f);
	struct users *u = NULL;

	write_users(&f, "alice admin " HASHED "\n");
	CHECK_EQ(chmod(f.path, 0640), 0);
	CHECK_EQ(users_open(f.path, &u, &f.err), -EPERM);
	CHECK(strstr(f.err.text, "chmod 600") != NULL);
	CHECK_EQ(users_open(f.dir.path, &u, &f.err), -EPERM);
	CHECK_EQ(unlink(f.path), 0);
	CHECK_EQ(users_open(f.path, &u, &f.err), -ENOENT);
	CHECK(strstr(f.err.text, "belljar user add") != NULL);
}

/* 65533 is nobody's number, and nobody a server becomes. */
TEST(root_accepts_a_file_of_the_servers_user_and_of_no_other)
{
	FIXTURE(f);
	CLEANUP(users_list_fini) struct user_list list = { 0 };
	CLEANUP(users_list_fini) struct user_list none = { 0 };
	char key[KEYFILE_KEY_SIZE + 1];
	struct run_as server = { 0 };
	struct stat st;

	if (geteuid() != 0)
		SKIP("only root can give files away");
	CHECK_EQ(run_as_find(NULL, &server, NULL), 0);
	write_users(&f, "alice user " HASHED "\n");
	CHECK_EQ(chown(f.path, server.uid, server.gid), 0);
	CHECK_EQ(users_read(f.path, &list, &f.err), 0);
	CHECK_EQ(users_add(f.path, "bob", false, key, &f.err), 0);
	CHECK_EQ(users_remove(f.path, "alice", &f.err), 0);
	CHECK_EQ(stat(f.path, &st), 0);
	CHECK_EQ(st.st_uid, server.uid);
	CHECK_EQ(st.st_mode & 0777, 0600);
	CHECK_EQ(chown(f.path, 65533, 0), 0);
	CHECK_EQ(users_read(f.path, &none, &f.err), -EPERM);
	CHECK(strstr(f.err.text, "belongs to uid 65533, ") != NULL);
	CHECK_EQ(users_remove(f.path, "bob", &f.err), -EPERM);
}

TEST(who_is_added_gets_in_and_who_is_removed_does_not)
{
	FIXTURE(f);
	CLEANUP(users_freep) struct users *u = NULL;
	char alice[KEYFILE_KEY_SIZE + 1];
	char bob[KEYFILE_KEY_SIZE + 1];
	struct stat st;

	CHECK_EQ(users_add(f.path, "alice", true, alice, &f.err), 0);
	CHECK_EQ(stat(f.path, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	CHECK_EQ(users_open(f.path, &u, &f.err), 0);
	CHECK_STR(name_of(u, alice), "alice");
	CHECK_EQ(users_add(f.path, "bob", false, bob, &f.err), 0);
	CHECK_STR(name_of(u, bob), "bob");
	CHECK(!users_find_key(u, bob)->admin);
	CHECK_STR(name_of(u, alice), "alice");
	CHECK_EQ(users_remove(f.path, "alice", &f.err), 0);
	CHECK_STR(name_of(u, alice), "");
	CHECK_STR(name_of(u, bob), "bob");
	CHECK(!scratch_has(f.dir.fd, "users.new"));
}

TEST(while_the_file_is_bad_nobody_gets_in)
{
	FIXTURE(f);
	CLEANUP(users_freep) struct users *u = NULL;

	write_users(&f, "alice admin " HASHED "\n");
	CHECK_EQ(users_open(f.path, &u, &f.err), 0);
	CHECK_STR(name_of(u, KEY), "alice");
	CHECK_EQ(chmod(f.path, 0644), 0);
	CHECK_STR(name_of(u, KEY), "");
	CHECK_EQ(chmod(f.path, 0600), 0);
	CHECK_STR(name_of(u, KEY), "alice");
	CHECK_EQ(unlink(f.path), 0);
	CHECK_STR(name_of(u, KEY), "");
	CHECK_STR(name_of(u, KEY), "");
	write_users(&f, "alice admin " HASHED "\n");
	CHECK_STR(name_of(u, KEY), "alice");
}

TEST(what_else_is_in_the_file_is_kept)
{
	FIXTURE(f);
	char key[KEYFILE_KEY_SIZE + 1];

	write_users(&f, "# alice is in charge\nalice admin " HASHED "\nalice2 user " HASHED
			"\n\n# the end");
	CHECK_EQ(users_add(f.path, "bob", false, key, &f.err), 0);
	CHECK_EQ(users_remove(f.path, "alice", &f.err), 0);
	CHECK_EQ(users_remove(f.path, "bob", &f.err), 0);
	CHECK(scratch_holds(
		f.dir.fd, "users", "# alice is in charge\nalice2 user " HASHED "\n\n# the end\n"));
}

TEST(what_can_not_be_done_changes_nothing)
{
	FIXTURE(f);
	char key[KEYFILE_KEY_SIZE + 1] = "before";

	write_users(&f, "alice admin " HASHED "\n");
	CHECK_EQ(users_add(f.path, "alice", false, key, &f.err), -EEXIST);
	CHECK_EQ(users_add(f.path, "Bob", false, key, &f.err), -EINVAL);
	CHECK_EQ(users_add(f.path, "meta", false, key, &f.err), -EINVAL);
	CHECK_EQ(users_remove(f.path, "bob", &f.err), -ENOENT);
	CHECK_EQ(users_remove(f.path, "alic", &f.err), -ENOENT);
	CHECK(scratch_holds(f.dir.fd, "users", "alice admin " HASHED "\n"));
	write_users(&f, "nonsense\n");
	CHECK_EQ(users_add(f.path, "bob", false, key, &f.err), -EINVAL);
	CHECK(scratch_holds(f.dir.fd, "users", "nonsense\n"));
	CHECK_STR(key, "before");
}

TEST(many_who_add_at_once_are_all_added)
{
	FIXTURE(f);
	CLEANUP(users_list_fini) struct user_list list = { 0 };
	pid_t pids[8];

	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char key[KEYFILE_KEY_SIZE + 1];
			char name[16];

			(void)snprintf(name, sizeof(name), "user%zu", i);
			_exit(users_add(f.path, name, false, key, NULL) < 0);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		int status = -1;
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
	}
	CHECK_EQ(users_read(f.path, &list, &f.err), 0);
	CHECK_EQ(list.n, ARRAY_SIZE(pids));
}

TEST(there_is_an_end_to_users)
{
	struct user_list list = { 0 };
	struct err err = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	for (unsigned i = 0; i <= USERS_MAX; i++)
		(void)fprintf(out, "u%u user " HASHED "\n", i);
	CHECK_EQ(fclose(out), 0);
	CHECK_EQ(users_parse(text, size, &list, &err), -EINVAL);
	CHECK(strstr(err.text, "more than 4096 users") != NULL);
	CHECK_EQ(list.n, USERS_MAX);
	users_list_fini(&list);
	free(text);
}

TESTS(UNIT(a_file_is_read), UNIT(a_bad_line_is_named),
	UNIT(a_file_that_is_open_to_others_is_refused),
	UNIT(root_accepts_a_file_of_the_servers_user_and_of_no_other),
	UNIT(who_is_added_gets_in_and_who_is_removed_does_not),
	UNIT(while_the_file_is_bad_nobody_gets_in), UNIT(what_else_is_in_the_file_is_kept),
	UNIT(what_can_not_be_done_changes_nothing), UNIT(many_who_add_at_once_are_all_added),
	UNIT(there_is_an_end_to_users))
