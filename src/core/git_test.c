#include "core/git.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "core/git_sample.h"
#include "lib/git_host.h"

static char https[] = "https", http[] = "http", git_[] = "git", private[] = "private";
static char *const near[] = { http, https, git_, private, NULL };
static char *const far[] = { http, https, git_, NULL };

/* --- what comes --- */

static size_t count_files(int dir_fd)
{
	DIR *dir = fdopendir(fcntl(dir_fd, F_DUPFD_CLOEXEC, 3));
	size_t n = 0;

	rewinddir(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n - 2;
}

static void check_first(const struct scratch *into)
{
	struct stat st;
	char target[64] = "";

	CHECK(scratch_holds(into->fd, "src/main.c", "int main;\n"));
	CHECK(scratch_holds(into->fd, "text", "one\ntwo\nthree\n"));
	CHECK_EQ(fstatat(into->fd, "run.sh", &st, 0), 0);
	CHECK(st.st_mode & 0100);
	CHECK(readlinkat(into->fd, "src/up", target, sizeof(target) - 1) > 0);
	CHECK_STR(target, "../run.sh");
	CHECK(!scratch_has(into->fd, "src/out"));
	CHECK(!scratch_has(into->fd, "abs"));
	CHECK(!scratch_has(into->fd, ".git"));
	CHECK_EQ(count_files(into->fd), 3);
}

TEST(a_repository_comes_as_files)
{
	SAMPLE(s);
	SCRATCH(into);
	char commit[GIT_COMMIT_SIZE + 1] = "";
	struct err err = { 0 };
	size_t n_fds = scratch_count_fds();

	if (fetch(&s, NULL, NULL, &into, commit, &err) < 0)
		fail_msg("%s", err.text);
	CHECK_STR(commit, s.first);
	check_first(&into);
	CHECK_EQ(scratch_count_fds(), n_fds);
}

TEST(a_repository_may_be_another_users)
{
	SAMPLE(s);
	SCRATCH(into);
	char commit[GIT_COMMIT_SIZE + 1] = "";
	struct err err = { 0 };

	if (geteuid() != 0)
		SKIP("only root can give files away");
	CHECK_EQ(chown(s.scratch.path, 65534, 65534), 0);
	if (fetch(&s, NULL, NULL, &into, commit, &err) < 0)
		fail_msg("%s", err.text);
	check_first(&into);
}

TEST(refs_of_all_kinds_are_found)
{
	SAMPLE(s);
	const char *const refs[][2] = {
		{ "main", s.first },
		{ "topic/a", s.second },
		{ "v1", s.second },
		{ "refs/heads/topic/a", s.second },
		{ "heads/topic/a", s.second },
		{ "refs/tags/v1", s.second },
		{ s.first, s.first },
		{ s.second, s.second },
		{ "HEAD", s.first },
	};

	for (size_t i = 0; i < ARRAY_SIZE(refs); i++) {
		SCRATCH(into);
		char commit[GIT_COMMIT_SIZE + 1] = "";
		struct err err = { 0 };

		if (fetch(&s, refs[i][0], NULL, &into, commit, &err) < 0)
			fail_msg("'%s': %s", refs[i][0], err.text);
		CHECK_STR(commit, refs[i][1]);
	}
}

TEST(refs_that_are_not_there_are_errors)
{
	SAMPLE(s);
	char abbreviated[8];
	const struct {
		const char *ref;
		int code;
	} rows[] = {
		{ "nothing", -ENOENT },
		{ "1234567890123456789012345678901234567890", -ENOENT },
		{ abbreviated, -ENOENT },
		{ "", -EINVAL },
		{ "-x", -EINVAL },
		{ "a..b", -EINVAL },
		{ "a b", -EINVAL },
		{ "main:refs/heads/x", -EINVAL },
		{ "refs/heads/*", -EINVAL },
	};

	(void)snprintf(abbreviated, sizeof(abbreviated), "%.7s", s.first);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		SCRATCH(into);
		char commit[GIT_COMMIT_SIZE + 1] = "same";
		struct err err = { 0 };
		int r = fetch(&s, rows[i].ref, NULL, &into, commit, &err);

		if (r != rows[i].code)
			fail_msg("'%s' gave %d, %s", rows[i].ref, r, err.text);
		CHECK_STR(commit, "same");
	}
}

/* --- limits --- */

static void check_refused(
	const char *url, const char *ref, const struct git_limits *limits, int code)
{
	SCRATCH(into);
	struct git_request q = { .url = url, .ref = ref };
	char commit[GIT_COMMIT_SIZE + 1];
	struct err err = { 0 };
	int r = git_fetch(&q, limits, into.path, commit, &err);

	if (r != code)
		fail_msg("gave %d and not %d: %s", r, code, err.text);
	CHECK(err.text[0] && !strstr(err.text, "hunter2"));
}

TEST(bytes_are_limited)
{
	SAMPLE(s);
	struct git_limits limits = wide;
	git_treebuilder *top = NULL;
	git_oid oid;
	AUTO_FREE char *text = malloc(200001);

	/* It packs to nothing, so it is the files that are too large. */
	memset(text, 'a', 200000);
	text[200000] = '\0';
	must(git_treebuilder_new(&top, s.repo, NULL));
	add_file(s.repo, top, "large", text, 0100644);
	must(git_treebuilder_write(&oid, top));
	git_treebuilder_free(top);
	commit_tree(s.repo, &oid, "refs/heads/large", NULL);
	limits.max_bytes = 100000;
	check_refused(s.url, "large", &limits, -EFBIG);
	limits.max_bytes = 100;
	check_refused(s.url, "main", &limits, -EFBIG);
	limits.max_bytes = 200000;
	SCRATCH(into);
	struct git_request q = { .url = s.url, .ref = "large" };
	char commit[GIT_COMMIT_SIZE + 1];
	CHECK_EQ(git_fetch(&q, &limits, into.path, commit, NULL), 0);
}

/* `levels` trees, each with `width` times the one below. */
static void make_bomb(struct sample *s, unsigned levels, unsigned width, const char *branch)
{
	git_oid oid;
	char name[16];

	must(git_blob_create_from_buffer(&oid, s->repo, "x", 1));
	for (unsigned i = 0; i < levels; i++) {
		git_treebuilder *tree = NULL;

		must(git_treebuilder_new(&tree, s->repo, NULL));
		for (unsigned j = 0; j < width; j++) {
			(void)snprintf(name, sizeof(name), "%u", j);
			must(git_treebuilder_insert(NULL, tree, name, &oid,
				i == 0 ? GIT_FILEMODE_BLOB : GIT_FILEMODE_TREE));
		}
		must(git_treebuilder_write(&oid, tree));
		git_treebuilder_free(tree);
	}
	commit_tree(s->repo, &oid, branch, NULL);
}

TEST(bombs_are_defused)
{
	SAMPLE(s);

	make_bomb(&s, 10, 10, "refs/heads/wide");
	make_bomb(&s, 1000, 1, "refs/heads/deep");
	check_refused(s.url, "wide", &wide, -E2BIG);
	check_refused(s.url, "deep", &wide, -E2BIG);
}

/* --- hosts --- */

static struct git_limits over_http(char *const *allow)
{
	return (struct git_limits){
		.allow = allow, .max_bytes = 1 << 20, .timeout_sec = PATIENCE_SEC
	};
}

TEST(a_repository_comes_by_http)
{
	SAMPLE(s);
	GIT_HOST(host, s.scratch.path, GIT_HOST_GOOD);
	SCRATCH(into);
	struct git_limits limits = over_http(near);
	char url[64];
	char commit[GIT_COMMIT_SIZE + 1] = "";
	struct err err = { 0 };

	if (!git_host_has_git())
		SKIP("git is not installed");
	(void)snprintf(url, sizeof(url), "http://user:hunter2@127.0.0.1:%u/r", host.port);
	struct git_request q = { .url = url, .ref = "main" };
	if (git_fetch(&q, &limits, into.path, commit, &err) < 0)
		fail_msg("%s", err.text);
	CHECK_STR(commit, s.first);
	check_first(&into);
	CHECK(host.n_requests >= 2);
}

/* Two commits, of which the host has to send but the second. */
TEST(a_part_of_the_history_is_enough)
{
	SAMPLE(s);
	GIT_HOST(host, s.scratch.path, GIT_HOST_GOOD);
	SCRATCH(into);
	struct git_limits limits = over_http(near);
	char url[64];
	char commit[GIT_COMMIT_SIZE + 1] = "", second[GIT_COMMIT_SIZE + 1];
	struct err err = { 0 };

	if (!git_host_has_git())
		SKIP("git is not installed");
	commit_child(s.repo, s.first, "refs/heads/long", second);
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/r", host.port);
	struct git_request q = { .url = url, .ref = "long", .depth = 1 };
	if (git_fetch(&q, &limits, into.path, commit, &err) < 0)
		fail_msg("%s", err.text);
	CHECK_STR(commit, second);
	check_first(&into);
}

static bool is_known(const char *name)
{
	struct addrinfo *found = NULL;
	bool known = getaddrinfo(name, NULL, NULL, &found) == 0;

	if (known)
		freeaddrinfo(found);
	return known;
}

TEST(our_own_network_is_out_of_reach)
{
	GIT_HOST(host, "/nonexistent", GIT_HOST_GOOD);
	struct git_limits limits = over_http(far);
	static const char *const names[] = { "http://127.0.0.1", "https://127.0.0.1",
		"git://127.0.0.1", "http://localhost", "http://2130706433", "http://0x7f.1",
		"http://[::ffff:7f00:1]", "http://0", "http://user:hunter2@10.0.0.1",
		"http://169.254.169.254" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char url[64];

		if (strstr(names[i], "localhost") && !is_known("localhost"))
			continue; /* a machine without /etc/hosts */
		(void)snprintf(url, sizeof(url), "%s:%u/r", names[i], host.port);
		check_refused(url, NULL, &limits, -EPERM);
	}
	CHECK_EQ(host.n_requests, 0);
}

/* libgit2 1.9 does not take it for an address any more, older ones do. */
TEST(an_address_of_both_kinds_is_out_of_reach)
{
	GIT_HOST(host, "/nonexistent", GIT_HOST_GOOD);
	struct git_limits limits = over_http(far);
	SCRATCH(into);
	char url[64];
	struct git_request q = { .url = url };
	char commit[GIT_COMMIT_SIZE + 1];

	(void)snprintf(url, sizeof(url), "http://[::ffff:127.0.0.1]:%u/r", host.port);
	int r = git_fetch(&q, &limits, into.path, commit, NULL);
	CHECK(r == -EPERM || r == -EINVAL);
	CHECK_EQ(host.n_requests, 0);
}

TEST(schemes_must_be_allowed)
{
	struct git_limits limits = over_http(far);

	check_refused("file:///etc", NULL, &limits, -EPERM);
	limits.allow = local;
	check_refused("http://example.org/a", NULL, &limits, -EPERM);
	check_refused("user:hunter2@example.org:a", NULL, &limits, -EINVAL);
	check_refused("file:///nonexistent/hunter", NULL, &limits, -EIO);
}

TEST(a_silent_host_is_given_up)
{
	GIT_HOST(host, "/nonexistent", GIT_HOST_SILENT);
	struct git_limits limits = over_http(near);
	char url[64];
	uint64_t start = clock_monotonic_ns();

	limits.timeout_sec = 1;
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/r", host.port);
	check_refused(url, NULL, &limits, -ETIMEDOUT);
	(void)snprintf(url, sizeof(url), "https://127.0.0.1:%u/r", host.port);
	check_refused(url, NULL, &limits, -ETIMEDOUT);
	CHECK(clock_monotonic_ns() - start < UINT64_C(10000000000));
}

TEST(an_endless_host_is_cut)
{
	GIT_HOST(host, "/nonexistent", GIT_HOST_ENDLESS);
	struct git_limits limits = over_http(near);
	char url[64];

	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/r", host.port);
	check_refused(url, NULL, &limits, -EFBIG);
}

TEST(a_password_is_never_repeated)
{
	GIT_HOST(host, "/nonexistent", GIT_HOST_LOCKED);
	struct git_limits limits = over_http(near);
	char url[64];

	(void)snprintf(url, sizeof(url), "http://user:hunter2@127.0.0.1:%u/r", host.port);
	check_refused(url, NULL, &limits, -EACCES);
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/r", host.port);
	check_refused(url, NULL, &limits, -EACCES);
	(void)snprintf(url, sizeof(url), "http://user:hunter2@127.0.0.1:1/hunter");
	check_refused(url, NULL, &limits, -ECONNREFUSED);
}

TEST(a_redirect_to_another_host_is_not_followed)
{
	GIT_HOST(host, "/nonexistent", GIT_HOST_AWAY);
	struct git_limits limits = over_http(near);
	char url[64];

	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/r", host.port);
	check_refused(url, NULL, &limits, -EIO);
}

TESTS(UNIT(a_repository_comes_as_files), UNIT(a_repository_may_be_another_users),
	UNIT(refs_of_all_kinds_are_found), UNIT(refs_that_are_not_there_are_errors),
	UNIT(bytes_are_limited), UNIT(bombs_are_defused), UNIT(a_repository_comes_by_http),
	UNIT(a_part_of_the_history_is_enough), UNIT(our_own_network_is_out_of_reach),
	UNIT(an_address_of_both_kinds_is_out_of_reach), UNIT(schemes_must_be_allowed),
	UNIT(a_silent_host_is_given_up), UNIT(an_endless_host_is_cut),
	UNIT(a_password_is_never_repeated), UNIT(a_redirect_to_another_host_is_not_followed))
