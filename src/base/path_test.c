#include "base/path.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "lib/test.h"

static void forget_environment(void)
{
	(void)unsetenv("BELLJAR_ROOT");
	(void)unsetenv("XDG_DATA_HOME");
}

TEST(the_option_wins_over_the_environment)
{
	AUTO_FREE char *path = NULL;

	CHECK_EQ(setenv("BELLJAR_ROOT", "/nowhere/env", 1), 0);
	CHECK_EQ(path_state_root("/nowhere/option", &path, NULL), 0);
	CHECK_STR(path, "/nowhere/option");
	free(TAKE(path));
	CHECK_EQ(path_state_root(NULL, &path, NULL), 0);
	CHECK_STR(path, "/nowhere/env");
}

TEST(the_default_depends_on_who_we_are)
{
	AUTO_FREE char *path = NULL;

	forget_environment();
	CHECK_EQ(setenv("HOME", "/nowhere/home", 1), 0);
	CHECK_EQ(path_state_root(NULL, &path, NULL), 0);
	CHECK_STR(path, geteuid() == 0 ? "/var/lib/belljar" : "/nowhere/home/.local/share/belljar");
}

TEST(slashes_are_squeezed)
{
	AUTO_FREE char *path = NULL;

	CHECK_EQ(path_state_root("//nowhere///a/b//", &path, NULL), 0);
	CHECK_STR(path, "/nowhere/a/b");
}

TEST(relative_paths_are_seen_from_the_current_directory)
{
	static const struct {
		const char *path;
		const char *want;
	} table[] = {
		{ "", "" },
		{ "/a/../b", "/a/../b" },
		{ "a", "/usr/lib/a" },
		{ "a/b/", "/usr/lib/a/b/" },
		{ ".", "/usr/lib" },
		{ "./a", "/usr/lib/a" },
		{ ".//./a", "/usr/lib/a" },
		{ "..", "/usr" },
		{ "../a", "/usr/a" },
		{ "../../a", "/a" },
		{ "../../../a", "/a" },
		{ "../..", "/" },
		{ "a/../b", "/usr/lib/a/../b" },
		{ ".a", "/usr/lib/.a" },
		{ "..a", "/usr/lib/..a" },
	};
	AUTO_FREE char *here = getcwd(NULL, 0);

	CHECK_EQ(chdir("/usr/lib"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_FREE char *path = NULL;

		CHECK_EQ(path_absolute(table[i].path, &path, NULL), 0);
		CHECK_STR(path, table[i].want);
	}
	AUTO_FREE char *root = NULL;
	CHECK_EQ(path_state_root("./state/", &root, NULL), 0);
	CHECK_STR(root, "/usr/lib/state");
	CHECK_EQ(setenv("BELLJAR_ROOT", "state", 1), 0);
	CHECK_EQ(path_state_root(NULL, &root, NULL), -EINVAL);
	forget_environment();
	CHECK_EQ(chdir(here), 0);
}

TEST(bad_roots_are_refused_with_a_sentence)
{
	static const struct {
		const char *path;
		const char *says;
	} bad[] = {
		{ "", "not an absolute path" },
		{ "a/../b", "'..'" },
		{ "/", "can not be the state directory" },
		{ "///", "can not be the state directory" },
		{ "/a/../b", "'..'" },
		{ "/a/./b", "'.'" },
		{ "/a/..", "'..'" },
		{ "/a\nb", "control character" },
		{ "/dev/null", "not a directory" },
		{ "/tmp", "others can write" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char *path = NULL;
		struct err err = { 0 };

		CHECK(path_state_root(bad[i].path, &path, &err) < 0);
		CHECK(path == NULL);
		CHECK(strstr(err.text, bad[i].says) != NULL);
	}
}

TEST(a_root_that_is_too_long_is_refused)
{
	char path[PATH_ROOT_MAX + 3];
	char *ret = NULL;

	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	CHECK_EQ(path_state_root(path, &ret, NULL), -ENAMETOOLONG);
}

TEST(a_root_that_others_can_change_is_refused)
{
	char dir[] = "/tmp/path_test.XXXXXX";
	AUTO_FREE char *path = NULL;

	CHECK(mkdtemp(dir) != NULL);
	CHECK_EQ(path_state_root(dir, &path, NULL), 0);
	free(TAKE(path));
	CHECK_EQ(chmod(dir, 0770), 0);
	CHECK_EQ(path_state_root(dir, &path, NULL), -EPERM);
	CHECK_EQ(chmod(dir, 0700), 0);
	if (geteuid() == 0) {
		CHECK_EQ(chown(dir, 65534, 65534), 0);
		CHECK_EQ(path_state_root(dir, &path, NULL), -EPERM);
	}
	CHECK(path == NULL);
	CHECK_EQ(rmdir(dir), 0);
}

TEST(directories_are_made_with_their_mode_whatever_the_umask)
{
	char dir[] = "/tmp/path_test.XXXXXX";
	char deep[64];
	struct stat st;

	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(deep, sizeof(deep), "%s/a/b", dir);
	mode_t old = umask(077);
	CHECK_EQ(path_make_dirs(deep, 0755, NULL), 0);
	CHECK_EQ(path_make_dirs(deep, 0755, NULL), 0);
	(void)umask(old);
	CHECK_EQ(stat(deep, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0755);
	CHECK_EQ(path_make_dirs("/dev/null/x", 0755, NULL), -ENOTDIR);
	CHECK_EQ(fd_remove_tree(-1, dir), 0);
}

TESTS(UNIT(the_option_wins_over_the_environment), UNIT(the_default_depends_on_who_we_are),
	UNIT(slashes_are_squeezed), UNIT(relative_paths_are_seen_from_the_current_directory),
	UNIT(bad_roots_are_refused_with_a_sentence), UNIT(a_root_that_is_too_long_is_refused),
	UNIT(a_root_that_others_can_change_is_refused),
	UNIT(directories_are_made_with_their_mode_whatever_the_umask))
