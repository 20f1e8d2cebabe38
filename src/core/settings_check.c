/* What values must be beyond their type, and what they must be together. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/path.h"
#include "base/str.h"
#include "core/policy.h"
#include "core/settings.h"
#include "core/settings_table.h"
#include "ipc/spec.h"
#include "ipc/warm.h"

/* The shipped profile, carried by the program (see meson.build). */
extern const char settings_profile[];
extern const size_t settings_profile_size;

#define PROFILE_MAX     ((size_t)256 << 10)
#define KEY_SIZE_MIN    8u
#define JWT_SECRET_MIN  32u /* RFC 7518: no shorter than the hash */
#define SECRET_SIZE_MAX 4096u

/* Of the machine, for a run and for all of them, when nobody says. */
#define DEFAULT_MEM_MB   UINT64_C(1024)
#define DEFAULT_MEM_PART 4u
#define MEM_MB_MIN       UINT64_C(64)
#define RUNS_PER_CPU     4u
#define RUNS_MAX         UINT64_C(4096)

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool is_graphic(const char *text)
{
	for (; *text; text++) {
		if (!isgraph((unsigned char)*text))
			return false;
	}
	return true;
}

static int check_secret(const char *text, size_t min, struct err *err)
{
	size_t size = strlen(text);

	if (size < min || size > SECRET_SIZE_MAX)
		return err_set(
			err, -EINVAL, "it is not %zu to %u characters long", min, SECRET_SIZE_MAX);
	if (!is_graphic(text))
		return err_set(err, -EINVAL, "it holds blanks, or characters that are not ASCII");
	return 0;
}

int setting_check_key(const char *text, struct err *err)
{
	return check_secret(text, KEY_SIZE_MIN, err);
}

int setting_check_jwt_secret(const char *text, struct err *err)
{
	return check_secret(text, JWT_SECRET_MIN, err);
}

int setting_check_url(const char *text, struct err *err)
{
	const char *rest = str_after(text, "https://");

	if (!rest)
		rest = str_after(text, "http://");
	size_t size = strlen(text);
	if (!rest || !*rest || *rest == '/' || text[size - 1] == '/' || !is_graphic(text) ||
		strpbrk(text, "?#\"\\<>"))
		return err_set(err, -EINVAL,
			"it should be like https://box.example.org, without a slash at the end");
	return 0;
}

int setting_check_version(const char *text, struct err *err)
{
	size_t major = strspn(text, "0123456789");
	size_t minor = text[major] == '.' ? strspn(text + major + 1, "0123456789") : 0;

	if (!major || !minor || text[major + 1 + minor] || strlen(text) > 15)
		return err_set(err, -EINVAL, "a version is like 1.0");
	return 0;
}

int setting_check_facet(const char *text, struct err *err)
{
	uint64_t mask;

	return facet_parse_list(text, &mask, err);
}

int setting_check_scheme(const char *text, struct err *err)
{
	if (str_has_word("https,http,git,file,private", text))
		return 0;
	return err_set(err, -EINVAL,
		"schemes are https, http, git and file, and private for hosts "
		"of private networks");
}

int setting_check_imports(const char *text, struct err *err)
{
	return warm_check_imports(text, err);
}

/* Names of hosts, users and profiles: nothing that could end a header or an option. */
int setting_check_name(const char *text, struct err *err)
{
	if (!is_graphic(text) || strpbrk(text, "/\"'\\,;<>") || *text == '-' || strlen(text) > 255)
		return err_set(err, -EINVAL, "it is not a plain name");
	return 0;
}

bool settings_is_local(const struct settings *c)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (c->socket || strcasecmp(c->host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, c->host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, c->host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static int check_tls(const struct settings *c, struct err *err)
{
	if (!c->tls_cert == !c->tls_key)
		return 0;
	return err_set(err, -EINVAL, "%s is set without %s: TLS needs both",
		c->tls_cert ? "SANDBOX_TLS_CERT" : "SANDBOX_TLS_KEY",
		c->tls_cert ? "SANDBOX_TLS_KEY" : "SANDBOX_TLS_CERT");
}

/* The first of the settings that only a JWT user would set, or NULL. */
static const char *find_jwt_setting(const struct settings *c)
{
	const struct {
		const char *value;
		const char *name;
	} rows[] = {
		{ c->jwt_secret, "SANDBOX_JWT_SECRET" },
		{ c->jwt_public_key_file, "SANDBOX_JWT_PUBLIC_KEY_FILE" },
		{ c->jwt_issuer, "SANDBOX_JWT_ISSUER" },
		{ c->jwt_audience, "SANDBOX_JWT_AUDIENCE" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].value)
			return rows[i].name;
	}
	return NULL;
}

/* One algorithm has one kind of key. Both at once invite the old trick of a token signed by
 * HMAC with the public key as its secret. */
static int check_jwt(const struct settings *c, struct err *err)
{
	const char *given = find_jwt_setting(c);

	if (!c->jwt_alg)
		return given ? err_set(err, -EINVAL, "%s is set without SANDBOX_JWT_ALG", given)
			     : 0;
	bool shared = streq(c->jwt_alg, "HS256");
	const char *needed = shared ? "SANDBOX_JWT_SECRET" : "SANDBOX_JWT_PUBLIC_KEY_FILE";
	const char *wrong = shared ? "SANDBOX_JWT_PUBLIC_KEY_FILE" : "SANDBOX_JWT_SECRET";
	if (!(shared ? c->jwt_secret : c->jwt_public_key_file))
		return err_set(err, -EINVAL, "SANDBOX_JWT_ALG=%s needs %s", c->jwt_alg, needed);
	if (shared ? c->jwt_public_key_file : c->jwt_secret)
		return err_set(err, -EINVAL, "SANDBOX_JWT_ALG=%s has no use for %s, remove it",
			c->jwt_alg, wrong);
	return 0;
}

/* There is no mode without credentials: where none are set, a key is made. */
static int check_auth(struct settings *c, struct err *err)
{
	int r = check_jwt(c, err);

	if (r < 0)
		return r;
	c->auth_mode = c->users_file || c->jwt_alg ? AUTH_MODE_USERS : AUTH_MODE_KEY;
	if (c->auth_mode == AUTH_MODE_USERS && c->api_key)
		return err_set(err, -EINVAL,
			"SANDBOX_API_KEY is for one user and can not be combined with %s",
			c->users_file ? "SANDBOX_USERS_FILE" : "SANDBOX_JWT_ALG");
	return 0;
}

static int check_honesty(const struct settings *c, struct err *err)
{
	if (c->ws_synthetic_frames)
		return err_set(err, -EINVAL,
			"SANDBOX_WS_SYNTHETIC_FRAMES_FOR_TESTS can not be true: a stream here "
			"carries what a run really did");
	if (streq(c->network_default, "allowlist"))
		return err_set(err, -EINVAL,
			"SANDBOX_NETWORK_DEFAULT=allowlist can not be enforced yet, "
			"use deny_all");
	if (!policy_has_runtime(c->default_runtime))
		return err_set(err, -EINVAL,
			"SANDBOX_DEFAULT_RUNTIME=%s is not available on this server, use native",
			c->default_runtime);
	if (!c->spec_versions[0])
		return err_set(err, -EINVAL, "SANDBOX_SUPPORTED_SPEC_VERSIONS names no version");
	return 0;
}

/* path.c speaks of --root; here it may have come from anywhere. */
static int settle_root(struct settings *c, struct err *err)
{
	char *root = NULL;
	struct err why = { 0 };
	int r = path_state_root(c->root, &root, &why);

	if (r < 0) {
		const char *rest = str_after(why.text, "--root: ");
		return rest ? err_set(err, -EINVAL, "SANDBOX_ROOT_DIR: %s", rest)
			    : err_set(err, -EINVAL, "%s", why.text);
	}
	free(c->root);
	c->root = root;
	return 0;
}

/* What is not set follows from the machine: a run that asks for nothing gets a part of it. */
static void settle_shares(struct settings *c)
{
	uint64_t memory_mb = machine_memory_bytes() >> 20;
	uint64_t n = machine_cpu_milli() * RUNS_PER_CPU / 1000;

	if (c->default_mem_mb == 0)
		c->default_mem_mb = least(DEFAULT_MEM_MB, memory_mb / DEFAULT_MEM_PART);
	if (c->default_mem_mb < MEM_MB_MIN)
		c->default_mem_mb = MEM_MB_MIN;
	if (c->max_concurrent_runs > 0)
		return;
	n = least(least(n, memory_mb / c->default_mem_mb), RUNS_MAX);
	c->max_concurrent_runs = n > 0 ? n : 1;
}

static void settle_path(const struct settings *c, char **path, const char *name)
{
	if (!*path && asprintf(path, "%s/%s", c->root, name) < 0)
		abort();
}

static int digest_profile(const char *text, size_t size, char ret[65], struct err *err)
{
	AUTO_JSON *json = NULL;
	int r = json_read(text, size, &json, err);

	if (r < 0)
		return r;
	AUTO_FREE char *canonical = json_canonical(json);
	digest_of(canonical, strlen(canonical), ret);
	return 0;
}

/* Here and not when it is hashed: that can not fail, and says what is loaded at this start. */
static int settle_profile(struct settings *c, struct err *err)
{
	AUTO_FREE char *text = NULL;
	size_t size = 0;

	if (!c->seccomp)
		return digest_profile(
			settings_profile, settings_profile_size, c->seccomp_digest, err);
	AUTO_FD fd = open(c->seccomp, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_read_all(fd, PROFILE_MAX, &text, &size);
	if (r < 0)
		return err_set(err, -EINVAL, "SANDBOX_DOCKER_SECCOMP: %.128s: %s", c->seccomp,
			strerror(-r));
	r = digest_profile(text, size, c->seccomp_digest, err);
	return r < 0 ? err_wrap(err, -EINVAL, "SANDBOX_DOCKER_SECCOMP") : 0;
}

int setting_check_all(struct settings *c, struct err *err)
{
	int r = check_tls(c, err);

	if (r == 0)
		r = check_auth(c, err);
	if (r == 0)
		r = check_honesty(c, err);
	if (r == 0)
		r = settle_root(c, err);
	if (r == 0)
		r = settle_profile(c, err);
	if (r < 0)
		return r;
	settle_shares(c);
	settle_path(c, &c->store_path, "data/meta/sandbox_store.db");
	settle_path(c, &c->audit_file, "data/audit/audit.jsonl");
	return 0;
}
