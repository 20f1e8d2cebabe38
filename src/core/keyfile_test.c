#include "core/keyfile.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/scratch.h"
#include "lib/test.h"

static void wipep(char **secret)
{
	keyfile_wipe(*secret);
}

#define AUTO_SECRET CLEANUP(wipep) char

TEST(a_key_has_its_form_and_no_twin)
{
	char a[KEYFILE_KEY_SIZE + 1];
	char b[KEYFILE_KEY_SIZE + 1];

	keyfile_make_key(a);
	keyfile_make_key(b);
	CHECK_EQ(strlen(a), KEYFILE_KEY_SIZE);
	CHECK(str_after(a, "bj_") != NULL);
	CHECK_EQ(strspn(a, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
		KEYFILE_KEY_SIZE);
	CHECK(!streq(a, b));
}

TEST(the_first_start_makes_it_and_the_next_reads_it)
{
	SCRATCH(dir);
	AUTO_SECRET *first = NULL;
	AUTO_SECRET *second = NULL;
	struct err err = { 0 };
	char path[96];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/a/b", dir.path);
	CHECK_EQ(keyfile_load(path, "api_key", &first, &err), 0);
	CHECK_EQ(keyfile_load(path, "api_key", &second, &err), 0);
	CHECK_STR(first, second);
	CHECK_EQ(strlen(first), KEYFILE_KEY_SIZE);
	CHECK_EQ(fstatat(dir.fd, "a/b/api_key", &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	CHECK_EQ(st.st_nlink, 1);
}

TEST(one_that_a_person_wrote_is_taken)
{
	SCRATCH(dir);
	AUTO_SECRET *secret = NULL;
	struct err err = { 0 };

	scratch_write(dir.fd, "key", "my-own-secret\r\n");
	CHECK_EQ(fchmodat(dir.fd, "key", 0400, 0), 0);
	CHECK_EQ(keyfile_load(dir.path, "key", &secret, &err), 0);
	CHECK_STR(secret, "my-own-secret");
}

TEST(what_is_no_secret_is_refused)
{
	static const struct {
		const char *text;
		mode_t mode;
		int r;
	} bad[] = {
		{ "swordfish", 0640, -EPERM },
		{ "swordfish", 0604, -EPERM },
		{ "", 0600, -EINVAL },
		{ "fish", 0600, -EINVAL },
		{ "sword fish", 0600, -EINVAL },
		{ "swordfish\nswordfish\n", 0600, -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		SCRATCH(dir);
		char *secret = NULL;
		struct err err = { 0 };

		scratch_write(dir.fd, "key", bad[i].text);
		CHECK_EQ(fchmodat(dir.fd, "key", bad[i].mode, 0), 0);
		CHECK_EQ(keyfile_load(dir.path, "key", &secret, &err), bad[i].r);
		CHECK(!secret);
		CHECK(strstr(err.text, dir.path) && !strstr(err.text, "swordfish"));
		CHECK(scratch_holds(dir.fd, "key", bad[i].text));
	}
}

TEST(a_link_is_not_followed)
{
	SCRATCH(dir);
	char *secret = NULL;
	struct err err = { 0 };

	scratch_write(dir.fd, "elsewhere", "swordfish");
	CHECK_EQ(fchmodat(dir.fd, "elsewhere", 0600, 0), 0);
	CHECK_EQ(symlinkat("elsewhere", dir.fd, "key"), 0);
	CHECK_EQ(keyfile_load(dir.path, "key", &secret, &err), -ELOOP);
}

/* All of them start at once; each tells whether it read what is there at the end. */
TEST(many_who_start_at_once_agree)
{
	SCRATCH(dir);
	pid_t pids[8];
	int n_agree = 0;
	int read_fd = -1;
	int write_fd = -1;
	char keys[ARRAY_SIZE(pids)][KEYFILE_KEY_SIZE];

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char *secret = NULL;
			if (keyfile_load(dir.path, "key", &secret, NULL) < 0 ||
				fd_write_full(write_fd, secret, KEYFILE_KEY_SIZE) < 0)
				_exit(1);
			_exit(0);
		}
	}
	(void)close(write_fd);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		int status = -1;
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
	}
	CHECK_EQ(fd_read_full(read_fd, keys, sizeof(keys)), sizeof(keys));
	(void)close(read_fd);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		n_agree += memcmp(keys[i], keys[0], KEYFILE_KEY_SIZE) == 0;
	CHECK_EQ(n_agree, ARRAY_SIZE(pids));
}

TESTS(UNIT(a_key_has_its_form_and_no_twin), UNIT(the_first_start_makes_it_and_the_next_reads_it),
	UNIT(one_that_a_person_wrote_is_taken), UNIT(what_is_no_secret_is_refused),
	UNIT(a_link_is_not_followed), UNIT(many_who_start_at_once_agree))
