#include "core/auth.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "core/keyfile.h"
#include "core/settings.h"
#include "core/users.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* Of token_test.c: user alice, admin, until the year 2100. */
#define TOKEN                                                                                      \
	"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."                                                    \
	"eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMCwicm9sZSI6ImFkbWluIn0."                         \
	"l7mNDBXzIEi7-PA4vNykPDaOPLaD8gNwaPjI_9xpG1g"

static char jwt_alg[] = "HS256";
static char jwt_secret[] = "0123456789abcdef0123456789abcdef";

static struct auth *open_auth(const struct settings *c)
{
	struct auth *a = NULL;
	struct err err = { 0 };

	if (auth_open(c, &a, &err) < 0)
		fail_msg("%s", err.text);
	return a;
}

/* "Bearer <text>" and the like. */
static int check_scheme(struct auth *a, const char *scheme, const char *text, struct identity *ret)
{
	char value[1024];

	(void)snprintf(value, sizeof(value), "%s%s", scheme, text);
	return auth_check(a, NULL, value, ret);
}

TEST(one_user_has_one_key)
{
	char key[] = "my.secret.key";
	struct settings c = { .api_key = key };
	CLEANUP(auth_freep) struct auth *a = open_auth(&c);
	struct identity id = { 0 };

	CHECK_EQ(auth_check(a, key, NULL, &id), 0);
	CHECK_STR(id.user_id, "single_user");
	CHECK(id.admin);
	CHECK_EQ(check_scheme(a, "Bearer ", key, &id), 0);
	CHECK_EQ(check_scheme(a, "bEARER \t ", key, &id), 0);
	CHECK_EQ(check_scheme(a, "X-API-KEY ", key, &id), 0);
	CHECK_EQ(check_scheme(a, "Basic ", key, &id), -EACCES);
	CHECK_EQ(check_scheme(a, "Bearer", key, &id), -EACCES);
	CHECK_EQ(check_scheme(a, "", key, &id), -EACCES);
	id = (struct identity){ 0 };
	CHECK_EQ(auth_local(a, &id), 0);
	CHECK_STR(id.user_id, "single_user");
	CHECK_EQ(auth_check(a, "my.secret.kez", NULL, &id), -EACCES);
	CHECK_EQ(auth_check(a, "my.secret.key ", NULL, &id), -EACCES);
	CHECK_EQ(auth_check(a, "my.secret.ke", NULL, &id), -EACCES);
}

TEST(nothing_is_not_the_same_as_something_wrong)
{
	char key[] = "my-secret-key";
	struct settings c = { .api_key = key };
	CLEANUP(auth_freep) struct auth *a = open_auth(&c);
	struct identity id = { .user_id = "before" };

	CHECK_EQ(auth_check(a, NULL, NULL, &id), -ENOENT);
	CHECK_EQ(auth_check(a, "", " ", &id), -ENOENT);
	CHECK_EQ(auth_check(a, NULL, "Bearer ", &id), -EACCES);
	CHECK_EQ(auth_check(a, "wrong", "Bearer my-secret-key", &id), -EACCES);
	CHECK_STR(id.user_id, "before");
	CHECK_EQ(auth_check(a, key, "Bearer wrong", &id), 0);
}

TEST(a_key_is_made_at_the_first_start)
{
	SCRATCH(dir);
	struct settings c = { .root = dir.path };
	CLEANUP(auth_freep) struct auth *a = open_auth(&c);
	struct identity id;
	char key[128];

	CHECK(fd_read_text(dir.fd, "api_key", key, sizeof(key)) == KEYFILE_KEY_SIZE);
	CHECK_EQ(auth_check(a, key, NULL, &id), 0);
	CLEANUP(auth_freep) struct auth *again = open_auth(&c);
	CHECK_EQ(auth_check(again, key, NULL, &id), 0);
}

TEST(many_users_have_keys_or_tokens)
{
	SCRATCH(dir);
	char path[96];
	char key[KEYFILE_KEY_SIZE + 1];
	struct identity id;

	(void)snprintf(path, sizeof(path), "%s/users", dir.path);
	CHECK_EQ(users_add(path, "bob", false, key, NULL), 0);
	struct settings c = { .root = dir.path,
		.auth_mode = AUTH_MODE_USERS,
		.users_file = path,
		.jwt_alg = jwt_alg,
		.jwt_secret = jwt_secret };
	CLEANUP(auth_freep) struct auth *a = open_auth(&c);
	CHECK_EQ(auth_check(a, key, NULL, &id), 0);
	CHECK_STR(id.user_id, "bob");
	CHECK(!id.admin);
	CHECK_EQ(check_scheme(a, "Bearer ", key, &id), 0);
	CHECK_STR(id.user_id, "bob");
	CHECK_EQ(check_scheme(a, "Bearer ", TOKEN, &id), 0);
	CHECK_STR(id.user_id, "alice");
	CHECK(id.admin);
	CHECK_EQ(check_scheme(a, "Bearer ", TOKEN "x", &id), -EACCES);
	CHECK_EQ(auth_check(a, TOKEN, NULL, &id), -EACCES);
	CHECK_EQ(users_remove(path, "bob", NULL), 0);
	CHECK_EQ(auth_check(a, key, NULL, &id), -EACCES);
	CHECK(!scratch_has(dir.fd, "api_key"));
	CHECK_EQ(auth_local(a, &id), -ENOENT);
}

/* Who is added while the server runs, without any setting. */
TEST(users_of_the_state_directory_come_beside_the_key)
{
	SCRATCH(dir);
	struct settings c = { .root = dir.path };
	CLEANUP(auth_freep) struct auth *a = open_auth(&c);
	AUTO_FREE char *path = users_default_path(dir.path);
	char key[KEYFILE_KEY_SIZE + 1];
	char fresh[KEYFILE_KEY_SIZE + 1];
	struct identity id = { 0 };

	CHECK_EQ(auth_check(a, "bj_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", NULL, &id),
		-EACCES);
	CHECK_EQ(users_add(path, "bob", false, key, NULL), 0);
	CHECK_EQ(auth_check(a, key, NULL, &id), 0);
	CHECK_STR(id.user_id, "bob");
	CHECK(!id.admin);
	CHECK_EQ(auth_check(a, auth_single_key(a), NULL, &id), 0);
	CHECK(id.admin);
	CHECK_EQ(users_rotate(path, "bob", fresh, NULL), 0);
	CHECK_EQ(auth_check(a, key, NULL, &id), -EACCES);
	CHECK_EQ(auth_check(a, fresh, NULL, &id), 0);
	CHECK_EQ(users_remove(path, "bob", NULL), 0);
	CHECK_EQ(auth_check(a, fresh, NULL, &id), -EACCES);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(auth_check(a, fresh, NULL, &id), -EACCES);
	CHECK_EQ(auth_check(a, auth_single_key(a), NULL, &id), 0);
}

/* A file that may not be used is no reason to begin without its users. */
TEST(a_bad_users_file_of_the_state_directory_stops_the_start)
{
	SCRATCH(dir);
	struct settings c = { .root = dir.path };
	struct auth *a = NULL;
	struct err err = { 0 };

	scratch_write(dir.fd, "users", "nonsense\n");
	CHECK_EQ(fchmodat(dir.fd, "users", 0600, 0), 0);
	CHECK_EQ(auth_open(&c, &a, &err), -EINVAL);
	CHECK(strstr(err.text, "line 1") != NULL);
}

TEST(tokens_alone_let_no_key_in)
{
	struct settings c = {
		.auth_mode = AUTH_MODE_USERS, .jwt_alg = jwt_alg, .jwt_secret = jwt_secret
	};
	CLEANUP(auth_freep) struct auth *a = open_auth(&c);
	struct identity id;

	CHECK_EQ(check_scheme(a, "Bearer ", TOKEN, &id), 0);
	CHECK_EQ(check_scheme(a, "Bearer ", jwt_secret, &id), -EACCES);
	CHECK_EQ(auth_check(a, "", NULL, &id), -ENOENT);
	CHECK_EQ(auth_check(a, "x", NULL, &id), -EACCES);
}

TEST(without_its_file_nothing_is_opened)
{
	char path[] = "/nowhere/users";
	struct settings c = { .auth_mode = AUTH_MODE_USERS, .users_file = path };
	struct auth *a = NULL;
	struct err err = { 0 };

	CHECK_EQ(auth_open(&c, &a, &err), -ENOENT);
	CHECK(strstr(err.text, path) != NULL);
	CHECK(!a);
}

TESTS(UNIT(one_user_has_one_key), UNIT(nothing_is_not_the_same_as_something_wrong),
	UNIT(a_key_is_made_at_the_first_start), UNIT(many_users_have_keys_or_tokens),
	UNIT(users_of_the_state_directory_come_beside_the_key),
	UNIT(a_bad_users_file_of_the_state_directory_stops_the_start),
	UNIT(tokens_alone_let_no_key_in), UNIT(without_its_file_nothing_is_opened))
