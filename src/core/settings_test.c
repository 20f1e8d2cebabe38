/* docs/config.md must be what the rows say. To write it anew:
 *	BELLJAR_UPDATE=docs/config.md build/src/settings_test */
#include "core/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "core/settings_table.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* docs/config.md, see meson.build */
extern const char config_manual[];
extern const size_t config_manual_size;

#define PROFILE "{ \"b\" : 1, \"a\": [true, \"\\u00fc\"] }\n"

struct fixture {
	struct settings c;
	struct err err;
};

/* Nothing is set but where we are at home. */
static void start(struct fixture *f)
{
	*f = (struct fixture){ 0 };
	(void)clearenv();
	(void)setenv("BELLJAR_ROOT", "/tmp/belljar_nowhere", 1);
}

static void finish(struct fixture *f)
{
	settings_fini(&f->c);
}

#define FIXTURE(name)                                                                              \
	CLEANUP(finish) struct fixture name;                                                       \
	start(&name)

static int load(struct fixture *f, const char *file)
{
	settings_fini(&f->c);
	return settings_load(&f->c, file, NULL, 0, &f->err);
}

/* Loading fails, and the sentence holds these three. */
static void check_refused(struct fixture *f, const char *file, const char *const words[3])
{
	CHECK_EQ(load(f, file), -EINVAL);
	for (int i = 0; i < 3; i++) {
		if (words[i] && !strstr(f->err.text, words[i]))
			fail_msg("'%s' is not in: %s", words[i], f->err.text);
	}
}

#define REFUSED(f, file, ...) check_refused((f), (file), (const char *const[3]){ __VA_ARGS__ })

TEST(defaults_are_those_of_the_interface)
{
	FIXTURE(f);

	CHECK_EQ(load(&f, NULL), 0);
	CHECK_STR(f.c.host, "127.0.0.1");
	CHECK_EQ(f.c.port, 8080);
	CHECK_STR(f.c.root, "/tmp/belljar_nowhere");
	CHECK_STR(f.c.store_path, "/tmp/belljar_nowhere/data/meta/sandbox_store.db");
	CHECK_STR(f.c.audit_file, "/tmp/belljar_nowhere/data/audit/audit.jsonl");
	CHECK_EQ(f.c.store, STORE_KIND_SQLITE);
	CHECK_EQ(f.c.max_cpu_milli, 4000);
	CHECK_EQ(f.c.ws_heartbeat_ms, 10000);
	CHECK_EQ(f.c.log_level, 1);
	CHECK(f.c.enable_execution && f.c.background_execution && !f.c.ws_signed_urls);
	CHECK(!f.c.block_binaries && !f.c.store_sync_full);
	CHECK_STR(f.c.spec_versions[0], "1.0");
	CHECK_STR(f.c.spec_versions[1], "1.1");
	CHECK(!f.c.spec_versions[2]);
	CHECK(f.c.approval_for && !f.c.approval_for[0]);
	CHECK(!f.c.api_key && !f.c.socket);
	CHECK_EQ(f.c.auth_mode, AUTH_MODE_KEY);
	CHECK(settings_is_local(&f.c));
}

TEST(each_row_fits_its_field)
{
	static const size_t sizes[] = {
		[SETTING_BOOL] = sizeof(bool),
		[SETTING_NUMBER] = sizeof(uint64_t),
		[SETTING_BYTES] = sizeof(uint64_t),
		[SETTING_MB] = sizeof(uint64_t),
		[SETTING_MILLI] = sizeof(uint64_t),
		[SETTING_CHOICE] = 0, /* any of three */
		[SETTING_WORD] = sizeof(char *),
		[SETTING_TEXT] = sizeof(char *),
		[SETTING_PATH] = sizeof(char *),
		[SETTING_SECRET] = sizeof(char *),
		[SETTING_LIST] = sizeof(char **),
	};

	for (size_t i = 0; i < n_setting_rows; i++) {
		const struct setting_row *row = &setting_rows[i];

		CHECK(!sizes[row->kind] || row->size == sizes[row->kind]);
		CHECK(str_after(row->name, "SANDBOX_") && row->help);
		CHECK(!row->policy || row->kind != SETTING_SECRET);
		for (size_t j = 0; j < i; j++)
			CHECK(row->offset != setting_rows[j].offset &&
				!streq(row->name, setting_rows[j].name));
	}
	CHECK(n_setting_rows <= 128);
}

TEST(options_win_over_the_environment_and_that_over_the_file)
{
	SCRATCH(dir);
	FIXTURE(f);
	const struct setting_option option = { "SANDBOX_PORT", "3" };
	char path[128];

	scratch_write(dir.fd, "conf",
		"# a comment\n\n SANDBOX_PORT = 1\r\nSANDBOX_HOST=\"::1\"\n"
		"SANDBOX_MAX_MEM_MB = 2G\n");
	(void)snprintf(path, sizeof(path), "%s/conf", dir.path);
	CHECK_EQ(load(&f, path), 0);
	CHECK_EQ(f.c.port, 1);
	CHECK_STR(f.c.host, "::1");
	CHECK_EQ(f.c.max_mem_mb, 2048);
	(void)setenv("SANDBOX_CONFIG", path, 1);
	(void)setenv("SANDBOX_PORT", "2", 1);
	(void)setenv("SANDBOX_MAX_MEM_MB", "", 1);
	CHECK_EQ(load(&f, NULL), 0);
	CHECK_EQ(f.c.port, 2);
	CHECK_EQ(f.c.max_mem_mb, 2048);
	settings_fini(&f.c);
	CHECK_EQ(settings_load(&f.c, NULL, &option, 1, &f.err), 0);
	CHECK_EQ(f.c.port, 3);
}

TEST(a_bad_value_is_named_with_its_source_and_what_is_right)
{
	static const struct {
		const char *name;
		const char *value;
		const char *right;
	} bad[] = {
		{ "SANDBOX_PORT", "65536", "a whole number from 0 to 65535" },
		{ "SANDBOX_PORT", "-1", "a whole number" },
		{ "SANDBOX_PORT", "80x", "a whole number" },
		{ "SANDBOX_MAX_CPU", "0", "from 0.01 to 1024" },
		{ "SANDBOX_MAX_CPU", "1.0005", "a number such as 1.5" },
		{ "SANDBOX_MAX_MEM_MB", "100K", "whole megabytes" },
		{ "SANDBOX_MAX_LOG_BYTES", "ten", "bytes" },
		{ "SANDBOX_ENABLE_EXECUTION", "maybe", "true or false" },
		{ "SANDBOX_DEFAULT_RUNTIME", "podman", "native, docker, firecracker" },
		{ "SANDBOX_STORE_BACKEND", "mysql", "memory, sqlite" },
		{ "SANDBOX_SOCKET", "relative", "an absolute path" },
		{ "SANDBOX_SUPPORTED_SPEC_VERSIONS", "1.0,two", "a version is like 1.0" },
		{ "SANDBOX_SUPPORTED_SPEC_VERSIONS", "1.0,,1.1", "item 2 is empty" },
		{ "SANDBOX_SUPPORTED_SPEC_VERSIONS", "[1.0]", "item 1 is not a string" },
		{ "SANDBOX_REQUIRE", "memori", "did you mean 'memory'" },
		{ "SANDBOX_APPROVAL_REQUIRED", "cpu>", "a rule is all" },
		{ "SANDBOX_GIT_ALLOW", "ftp", "schemes are" },
		{ "SANDBOX_PUBLIC_URL", "box.example.org", "https://" },
		{ "SANDBOX_HOST", "a\nb", "control characters" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		FIXTURE(f);
		(void)setenv(bad[i].name, bad[i].value, 1);
		REFUSED(&f, NULL, bad[i].name, "(environment)", bad[i].right);
		if (!strchr(bad[i].value, '\n'))
			CHECK(strstr(f.err.text, bad[i].value) != NULL);
	}
}

TEST(a_secret_is_never_repeated)
{
	FIXTURE(f);
	const struct setting_option option = { "SANDBOX_API_KEY", "hunter2-hunter2" };

	(void)setenv("SANDBOX_API_KEY", "hunter2", 1);
	REFUSED(&f, NULL, "SANDBOX_API_KEY (environment)", "8 to 4096 characters");
	CHECK(!strstr(f.err.text, "hunter2"));
	(void)setenv("SANDBOX_API_KEY", "hunter2 hunter2", 1);
	REFUSED(&f, NULL, "SANDBOX_API_KEY (environment)", "blanks");
	CHECK(!strstr(f.err.text, "hunter2"));
	settings_fini(&f.c);
	CHECK_EQ(settings_load(&f.c, NULL, &option, 1, &f.err), -EINVAL);
	CHECK(strstr(f.err.text, "command line") && !strstr(f.err.text, "hunter2"));
}

TEST(a_file_with_secrets_is_not_for_everyone)
{
	SCRATCH(dir);
	FIXTURE(f);
	char path[128];

	scratch_write(dir.fd, "conf", "SANDBOX_API_KEY = 0123456789abcdef\n");
	(void)snprintf(path, sizeof(path), "%s/conf", dir.path);
	REFUSED(&f, path, "conf:1", "SANDBOX_API_KEY", "chmod o-r");
	CHECK_EQ(chmod(path, 0640), 0);
	CHECK_EQ(load(&f, path), 0);
	CHECK_STR(f.c.api_key, "0123456789abcdef");
}

TEST(the_file_is_named_with_the_line)
{
	SCRATCH(dir);
	FIXTURE(f);
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/conf", dir.path);
	scratch_write(dir.fd, "conf", "\nSANDBOX_PORT = x\n");
	REFUSED(&f, path, "SANDBOX_PORT", "/conf:2)", "'x'");
	scratch_write(dir.fd, "conf", "SANDBOX_PORT = 1\nSANDBOX_PORT = 2\n");
	REFUSED(&f, path, "/conf:2", "line 1 already");
	scratch_write(dir.fd, "conf", "swordfish\n");
	REFUSED(&f, path, "/conf:1", "NAME = value");
	CHECK(!strstr(f.err.text, "swordfish"));
	scratch_write(dir.fd, "conf", "PORT = 1\n");
	REFUSED(&f, path, "/conf:1", "'PORT'");
	CHECK_EQ(load(&f, "/nowhere/conf"), -ENOENT);
	CHECK(strstr(f.err.text, "/nowhere/conf") != NULL);
	REFUSED(&f, dir.path, "is not a file");
}

TEST(an_unknown_name_is_refused_with_the_nearest)
{
	FIXTURE(f);

	(void)setenv("SANDBOX_MAX_MEN_MB", "1", 1);
	REFUSED(&f, NULL, "environment", "SANDBOX_MAX_MEN_MB", "did you mean SANDBOX_MAX_MEM_MB?");
	(void)unsetenv("SANDBOX_MAX_MEN_MB");
	(void)setenv("SANDBOX_SYNTHESIZER", "", 1);
	REFUSED(&f, NULL, "environment", "SANDBOX_SYNTHESIZER");
}

struct pair {
	const char *name;
	const char *value;
};

TEST(settings_that_do_not_go_together_are_refused)
{
	static const char secret[] = "0123456789abcdef0123456789abcdef";
	static const struct {
		struct pair set[3];
		const char *why;
	} bad[] = {
		{ { { "TLS_CERT", "/c" } }, "needs both" },
		{ { { "TLS_KEY", "/k" } }, "needs both" },
		{ { { "JWT_ALG", "HS256" } }, "needs SANDBOX_JWT_SECRET" },
		{ { { "JWT_ALG", "RS256" } }, "needs SANDBOX_JWT_PUBLIC_KEY_FILE" },
		{ { { "JWT_ALG", "none" } }, "HS256, RS256, ES256" },
		{ { { "JWT_ALG", "HS256" }, { "JWT_SECRET", "short" } }, "32 to" },
		{ { { "JWT_ALG", "HS256" }, { "JWT_SECRET", secret },
			  { "JWT_PUBLIC_KEY_FILE", "/k" } },
			"no use for SANDBOX_JWT_PUBLIC_KEY_FILE" },
		{ { { "JWT_ALG", "ES256" }, { "JWT_SECRET", secret },
			  { "JWT_PUBLIC_KEY_FILE", "/k" } },
			"no use for SANDBOX_JWT_SECRET" },
		{ { { "JWT_ISSUER", "me" } }, "without SANDBOX_JWT_ALG" },
		{ { { "API_KEY", secret }, { "USERS_FILE", "/u" } }, "SANDBOX_USERS_FILE" },
		{ { { "WS_SYNTHETIC_FRAMES_FOR_TESTS", "true" } }, "really did" },
		{ { { "NETWORK_DEFAULT", "allowlist" } }, "use deny_all" },
		{ { { "DEFAULT_RUNTIME", "docker" } }, "SANDBOX_DEFAULT_RUNTIME=docker is not" },
		{ { { "SUPPORTED_SPEC_VERSIONS", "[]" } }, "names no version" },
		{ { { "ROOT_DIR", "relative" } }, "'relative' is not an absolute path" },
		{ { { "DOCKER_SECCOMP", "/nowhere/p.json" } }, "/nowhere/p.json" },
		{ { { "DOCKER_SECCOMP", "/etc/passwd" } }, "SANDBOX_DOCKER_SECCOMP" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		FIXTURE(f);
		for (size_t j = 0; j < 3 && bad[i].set[j].name; j++) {
			char name[64];
			(void)snprintf(name, sizeof(name), "SANDBOX_%s", bad[i].set[j].name);
			(void)setenv(name, bad[i].set[j].value, 1);
		}
		REFUSED(&f, NULL, bad[i].why);
	}
}

TEST(only_loopback_is_local)
{
	static const struct {
		const char *host;
		bool local;
	} rows[] = {
		{ "127.0.0.1", true },
		{ "127.8.8.8", true },
		{ "::1", true },
		{ "localhost", true },
		{ "0.0.0.0", false },
		{ "::", false },
		{ "10.0.0.1", false },
		{ "box.example.org", false },
		{ "127.0.0.1.example.org", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		FIXTURE(f);
		(void)setenv("SANDBOX_HOST", rows[i].host, 1);
		CHECK_EQ(load(&f, NULL), 0);
		CHECK_EQ(settings_is_local(&f.c), rows[i].local);
	}
}

TEST(users_or_tokens_make_it_a_server_for_many)
{
	FIXTURE(f);

	(void)setenv("SANDBOX_USERS_FILE", "/u", 1);
	CHECK_EQ(load(&f, NULL), 0);
	CHECK_EQ(f.c.auth_mode, AUTH_MODE_USERS);
	(void)unsetenv("SANDBOX_USERS_FILE");
	(void)setenv("SANDBOX_JWT_ALG", "ES256", 1);
	(void)setenv("SANDBOX_JWT_PUBLIC_KEY_FILE", "/k", 1);
	CHECK_EQ(load(&f, NULL), 0);
	CHECK_EQ(f.c.auth_mode, AUTH_MODE_USERS);
}

TEST(a_list_may_be_json)
{
	FIXTURE(f);

	(void)setenv("SANDBOX_UPLOAD_IGNORE", "[\"a,b\", \"*.pyc\"]", 1);
	(void)setenv("SANDBOX_APPROVAL_REQUIRED", " trusted , cpu>2", 1);
	CHECK_EQ(load(&f, NULL), 0);
	CHECK_STR(f.c.upload_ignore[0], "a,b");
	CHECK_STR(f.c.upload_ignore[1], "*.pyc");
	CHECK(!f.c.upload_ignore[2]);
	CHECK_STR(f.c.approval_for[0], "trusted");
	CHECK_STR(f.c.approval_for[1], "cpu>2");
}

TEST(a_list_has_an_end)
{
	FIXTURE(f);
	char many[2 * SETTING_ITEMS_MAX + 2] = "";

	for (size_t i = 0; i < sizeof(many) - 1; i++)
		many[i] = i % 2 ? ',' : 'x';
	(void)setenv("SANDBOX_UPLOAD_IGNORE", many, 1);
	REFUSED(&f, NULL, "more than 256 items");
}

/* The expected values were computed in Python: json.dumps with sorted keys, without blanks
 * and with ensure_ascii=False, hashlib.sha256. */
TEST(the_policy_hash_is_that_of_the_interface)
{
	SCRATCH(dir);
	FIXTURE(f);
	char path[128];
	char hash[65];

	scratch_write(dir.fd, "profile", PROFILE);
	(void)snprintf(path, sizeof(path), "%s/profile", dir.path);
	(void)setenv("SANDBOX_DOCKER_SECCOMP", path, 1);
	CHECK_EQ(load(&f, NULL), 0);
	settings_policy_hash(&f.c, hash);
	CHECK_STR(hash, "4c7b4656558b106bbb0f91f2fcafd6194b2be5b1224c04ba1697e9c669e261e9");
	(void)setenv("SANDBOX_MAX_CPU", "0.1", 1);
	(void)setenv("SANDBOX_ENABLE_EXECUTION", "no", 1);
	(void)setenv("SANDBOX_DOCKER_APPARMOR_PROFILE", "tldw-sandbox", 1);
	(void)setenv("SANDBOX_SUPPORTED_SPEC_VERSIONS", "1.0", 1);
	CHECK_EQ(load(&f, NULL), 0);
	settings_policy_hash(&f.c, hash);
	CHECK_STR(hash, "2c48a4461e41e39d21636d00a68614a1a34397271b3d30e6e9d5dda912b616ba");
}

TEST(the_policy_hash_knows_policy_and_nothing_else)
{
	FIXTURE(f);
	char before[65];
	char after[65];

	CHECK_EQ(load(&f, NULL), 0);
	settings_policy_hash(&f.c, before);
	(void)setenv("SANDBOX_WS_SIGNING_SECRET", "0123456789abcdef", 1);
	(void)setenv("SANDBOX_QUEUE_MAX_LENGTH", "7", 1);
	CHECK_EQ(load(&f, NULL), 0);
	settings_policy_hash(&f.c, after);
	CHECK_STR(before, after);
	(void)setenv("SANDBOX_PIDS_LIMIT", "255", 1);
	CHECK_EQ(load(&f, NULL), 0);
	settings_policy_hash(&f.c, after);
	CHECK(!streq(before, after));
}

TEST(the_policy_hash_has_what_came_later_only_where_it_is_not_the_default)
{
	FIXTURE(f);
	char before[65];
	char after[65];

	CHECK_EQ(load(&f, NULL), 0);
	settings_policy_hash(&f.c, before);
	(void)setenv("SANDBOX_WORKSPACE_EXEC", "off", 1);
	CHECK_EQ(load(&f, NULL), 0);
	settings_policy_hash(&f.c, after);
	CHECK_STR(before, after);
	(void)setenv("SANDBOX_WORKSPACE_EXEC", "ask", 1);
	CHECK_EQ(load(&f, NULL), 0);
	settings_policy_hash(&f.c, after);
	CHECK(!streq(before, after));
}

TEST(the_manual_is_what_the_rows_say)
{
	const char *update = getenv("BELLJAR_UPDATE");
	char *text = NULL;
	size_t size = 0;
	FILE *out = update ? fopen(update, "we") : open_memstream(&text, &size);

	CHECK(out != NULL);
	settings_write_manual(out);
	CHECK_EQ(fclose(out), 0);
	if (update)
		return;
	CHECK_EQ(size, config_manual_size);
	CHECK_MEM(text, config_manual, size);
	free(text);
}

TESTS(UNIT(the_manual_is_what_the_rows_say), UNIT(defaults_are_those_of_the_interface),
	UNIT(each_row_fits_its_field),
	UNIT(options_win_over_the_environment_and_that_over_the_file),
	UNIT(a_bad_value_is_named_with_its_source_and_what_is_right),
	UNIT(a_secret_is_never_repeated), UNIT(a_file_with_secrets_is_not_for_everyone),
	UNIT(the_file_is_named_with_the_line), UNIT(an_unknown_name_is_refused_with_the_nearest),
	UNIT(settings_that_do_not_go_together_are_refused), UNIT(only_loopback_is_local),
	UNIT(users_or_tokens_make_it_a_server_for_many), UNIT(a_list_may_be_json),
	UNIT(a_list_has_an_end), UNIT(the_policy_hash_is_that_of_the_interface),
	UNIT(the_policy_hash_knows_policy_and_nothing_else),
	UNIT(the_policy_hash_has_what_came_later_only_where_it_is_not_the_default))
