/* belljar serve: the run service. As root it first sees to a keeper, which needs to be root,
 * and then becomes somebody who may do nothing else; as a plain user both are that user. The
 * keeper is found or started, never a child: it outlives the server, with what runs in it. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "api/api.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "box/profile.h"
#include "box/seccomp.h"
#include "cli/command.h"
#include "cli/greet.h"
#include "cli/option.h"
#include "cli/starter.h"
#include "core/auth.h"
#include "core/beacon.h"
#include "core/repository.h"
#include "core/run_as.h"
#include "core/service.h"
#include "core/session.h"
#include "core/settings.h"
#include "core/users.h"
#include "core/watchdog.h"

/* Of libuv's pool: twice as many as may be cloning repositories, which is the only work that
 * somebody outside can make last. */
#define POOL_THREADS REPOSITORY_FETCHES_MAX * 2
#define MAPPED_BYTES (256 << 10) /* a piece of memory that is large */

/* Of a file with a certificate and its chain, or a key. */
#define PEM_MAX (1u << 20)

#define IDLE_CHECK_MS  500
#define RELIEF_WAIT_MS 15000 /* for a server that was started on demand to end */

struct serve_values {
	const char *host, *port, *root, *socket, *tls_cert, *tls_key, *config;
	uint64_t idle_exit_ms;
	bool print_routes;
};

#define AT(f) offsetof(struct serve_values, f)

static const struct option_row options[] = {
	{ "--host", 0, OPTION_STRING, AT(host), "ADDRESS", "where to listen (default 127.0.0.1)" },
	{ "--port", 0, OPTION_STRING, AT(port), "N", "and on which port (default 8080; 0: any)" },
	{ "--socket", 0, OPTION_STRING, AT(socket), "PATH", "listen on a UNIX socket instead" },
	{ "--tls-cert", 0, OPTION_STRING, AT(tls_cert), "FILE", "certificate, PEM" },
	{ "--tls-key", 0, OPTION_STRING, AT(tls_key), "FILE", "and its key" },
	{ "--root", 0, OPTION_STRING, AT(root), "DIR",
		"state directory (default: $BELLJAR_ROOT or the usual place)" },
	{ "--config", 0, OPTION_STRING, AT(config), "FILE",
		"settings, one SANDBOX_X = value per line; see docs/config.md" },
	{ "--idle-exit", 0, OPTION_DURATION, AT(idle_exit_ms), "TIME",
		"end when for that long nobody was connected and no session or run was left" },
	{ "--print-routes", 0, OPTION_FLAG, AT(print_routes), NULL,
		"print every route of the interface and end" },
	{ 0 },
};

struct server {
	uv_loop_t loop;
	struct settings settings;
	struct service *service;
	struct api *api;
	uv_signal_t term;
	uv_signal_t interrupt;
	uv_timer_t ready;      /* until it can be said that it is; then looks whether it is idle */
	uint64_t idle_exit_ms; /* 0: stays */
	uint64_t idle_since_ns;
	struct starter starter; /* until the runtime has a connection of its own */
	uv_pipe_t keeper_log;
	struct watchdog *watchdog;
	bool is_ending;
	bool is_said;
};

/* --- before the loop --- */

/* An option that stands for a setting. */
struct given_setting {
	const char *name;
	const char *value;
	bool is_path;
};

/* Settings are absolute paths; on a command line somebody means what lies here. */
static int read_given(const struct given_setting *given, char **ret, struct err *err)
{
	if (given->is_path)
		return path_absolute(given->value, ret, err);
	*ret = xstrdup(given->value);
	return 0;
}

static int load_settings(const struct serve_values *v, struct settings *ret, struct err *err)
{
	const struct given_setting given[] = {
		{ "SANDBOX_HOST", v->host, false },
		{ "SANDBOX_PORT", v->port, false },
		{ "SANDBOX_SOCKET", v->socket, true },
		{ "SANDBOX_TLS_CERT", v->tls_cert, true },
		{ "SANDBOX_TLS_KEY", v->tls_key, true },
		{ "SANDBOX_ROOT_DIR", v->root, true },
	};
	struct setting_option list[ARRAY_SIZE(given)];
	char *texts[ARRAY_SIZE(given)];
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(given); i++) {
		if (!given[i].value)
			continue;
		r = read_given(&given[i], &texts[n], err);
		if (r == 0) {
			list[n] = (struct setting_option){ given[i].name, texts[n] };
			n++;
		}
	}
	if (r == 0)
		r = settings_load(ret, v->config, list, n, err);
	while (n > 0)
		free(texts[--n]);
	return r;
}

static int find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid, struct err *err)
{
	struct run_as user;
	int r = run_as_find(name, &user, err);

	if (r < 0)
		return r;
	if (user.is_shared)
		log_warn(
			"User 'belljar' does not exist: running as 'nobody'. Other services "
			"running as 'nobody' can read Belljar's files. Fix: adduser --system --group "
			"belljar");
	*ret_uid = user.uid;
	*ret_gid = user.gid;
	return 0;
}

/* For good: not even a bug can bring root back. */
static int become(uid_t uid, gid_t gid, struct err *err)
{
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return err_errno(err, "become uid %u", (unsigned)uid);
	return 0;
}

/* Nothing that is executed can be more than we are, and if we crash, keys and other people's
 * code stay in memory: of one byte, not even a helper is told. Not before the keeper is
 * started, which needs both. */
static int give_up_rest(struct err *err)
{
	const struct rlimit core = { .rlim_cur = 1, .rlim_max = 1 };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "give up privileges");
	(void)setrlimit(RLIMIT_CORE, &core); /* or it is 0 already, which is as good as we can */
	return 0;
}

/* The data directory is the server's own, the rest of the state directory the keeper's. */
static int make_data_dir(
	const struct settings *c, uid_t uid, gid_t gid, char **ret, struct err *err)
{
	AUTO_FREE char *dir = NULL;
	struct stat st;

	if (asprintf(&dir, "%s/data", c->root) < 0)
		abort();
	int r = path_make_dirs(dir, 0700, err);
	if (r < 0)
		return r;
	if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR, "%s is no directory", dir);
	if (geteuid() == 0 && st.st_uid != uid && st.st_uid != 0)
		return err_set(err, -EPERM, "%s belongs to uid %u, not to the server's", dir,
			(unsigned)st.st_uid);
	if (geteuid() == 0 && lchown(dir, uid, gid) < 0)
		return err_errno(err, "give %s to uid %u", dir, (unsigned)uid);
	*ret = TAKE(dir);
	return 0;
}

/* Made by root with `belljar user add`, it is root's, and for the server's eyes alone. */
static int give_users_file(const struct settings *c, uid_t uid, gid_t gid, struct err *err)
{
	AUTO_FREE char *path = c->users_file ? xstrdup(c->users_file) : users_default_path(c->root);
	struct stat st;

	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0)
		return 0;
	if (lchown(path, uid, gid) < 0)
		return err_errno(err, "give %s to uid %u", path, (unsigned)uid);
	return 0;
}

/* A key is usually for root's eyes alone. The server gets copies of its own, which are gone as
 * soon as it has read them. */
static int lend_file(
	char **path, const char *data_dir, const char *name, uid_t uid, struct err *err)
{
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *copy = NULL;
	size_t size = 0;
	AUTO_FD from = open(*path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	int r = from < 0 ? -errno : fd_read_all(from, PEM_MAX, &text, &size);

	if (r < 0 || !text)
		return err_set(err, r, "read %s: %s", *path, strerror(-r));
	if (asprintf(&copy, "%s/%s", data_dir, name) < 0)
		abort();
	(void)unlink(copy); /* of a server that was killed at this very point */
	AUTO_FD to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0 || fchown(to, uid, (gid_t)-1) < 0)
		return err_errno(err, "make %s", copy);
	r = fd_write_full(to, text, size);
	explicit_bzero(text, size);
	if (r < 0)
		return err_set(err, r, "write %s", copy);
	free(*path);
	*path = TAKE(copy);
	return 0;
}

static int lend_tls(struct settings *c, const char *data_dir, uid_t uid, struct err *err)
{
	if (!c->tls_cert)
		return 0;
	int r = lend_file(&c->tls_cert, data_dir, "tls-cert.pem", uid, err);
	return r < 0 ? r : lend_file(&c->tls_key, data_dir, "tls-key.pem", uid, err);
}

/* Only what lend_tls() made: the names are those of the data directory. */
static void take_back_tls(const struct settings *c, const char *data_dir)
{
	const char *const lent[] = { c->tls_cert, c->tls_key };

	for (size_t i = 0; i < ARRAY_SIZE(lent); i++) {
		if (lent[i] && str_after(lent[i], data_dir))
			(void)unlink(lent[i]);
	}
}

/* Whom we became must make the file of the socket, and remove it in the end. */
static int check_socket_dir(const struct settings *c, struct err *err)
{
	AUTO_FREE char *copy = xstrdup(c->socket);
	const char *dir = dirname(copy);

	if (access(dir, W_OK | X_OK) == 0 || errno == ENOENT)
		return 0;
	int code = -errno;
	return err_set(err, code,
		"listen on '%.60s': uid %u, as whom the server runs, can not make files in its "
		"directory: %s; give it one that is its own, made by 'install -d -o %u DIR'",
		c->socket, (unsigned)geteuid(), strerror(-code), (unsigned)geteuid());
}

/* The profile is the keeper's to load; what is wrong with it is a setting's matter. */
static int check_profile(const struct settings *c, struct err *err)
{
	AUTO_FREE char *text = NULL;
	struct seccomp_program program = { 0 };
	size_t size = 0;

	if (!c->seccomp)
		return 0;
	AUTO_FD fd = open(c->seccomp, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_read_all(fd, PROFILE_SIZE_MAX, &text, &size);
	if (r < 0)
		return err_set(
			err, r, "SANDBOX_DOCKER_SECCOMP: %.128s: %s", c->seccomp, strerror(-r));
	r = profile_compile(text, size, &program, err);
	seccomp_fini(&program);
	return r < 0 ? err_wrap(err, r, "SANDBOX_DOCKER_SECCOMP") : 0;
}

static int find_keeper(const struct settings *c, uid_t uid, struct starter *s, struct err *err)
{
	s->root = c->root;
	s->uid = uid;
	s->profile = c->seccomp;
	s->workspaces_ms = c->session_ttl_sec * 1000;
	int r = check_profile(c, err);
	return r < 0 ? r : starter_open(s, err);
}

static int prepare(
	struct settings *c, char **ret_data_dir, struct starter *starter, struct err *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	bool is_root = uid == 0;
	int r = is_root ? find_user(c->run_as, &uid, &gid, err) : 0;

	if (r == 0)
		r = find_keeper(c, uid, starter, err);
	if (r == 0)
		r = make_data_dir(c, uid, gid, ret_data_dir, err);
	if (r == 0 && is_root)
		r = give_users_file(c, uid, gid, err);
	if (r == 0 && is_root)
		r = lend_tls(c, *ret_data_dir, uid, err);
	if (r == 0 && is_root)
		r = become(uid, gid, err);
	if (r == 0 && is_root && c->socket)
		r = check_socket_dir(c, err);
	if (r == 0)
		r = give_up_rest(err);
	if (r == 0)
		c->keys_dir = xstrdup(*ret_data_dir);
	return r;
}

/* --- the loop --- */

static void close_rest(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static void on_api_closed(void *ctx)
{
	struct server *s = ctx;

	s->api = NULL;
	watchdog_close(TAKE(s->watchdog));
	service_close(TAKE(s->service));
	uv_close((uv_handle_t *)&s->term, NULL);
	uv_close((uv_handle_t *)&s->interrupt, NULL);
	uv_close((uv_handle_t *)&s->ready, NULL);
	uv_close((uv_handle_t *)&s->keeper_log, NULL);
}

static void on_drained(void *ctx)
{
	struct server *s = ctx;

	if (s->api)
		api_close(s->api, on_api_closed, s);
	else
		on_api_closed(s);
}

static void begin_end(struct server *s)
{
	s->is_ending = true;
	beacon_put_out(s->service->data_fd);
	if (s->api)
		http_stop_listening(s->api->http);
	service_drain(s->service, on_drained, s);
}

static void on_end(uv_signal_t *handle, int sig)
{
	struct server *s = handle->data;

	if (s->is_ending) {
		log_warn("signal %d again: not waiting for runs any longer", sig);
		s->service->drain_until_ns = 1;
		return;
	}
	log_info("ending on signal %d", sig);
	begin_end(s);
}

/* Whoever needs it again starts another; files of sessions would be gone by then, so it stays
 * as long as there are some. */
static void on_idle_check(uv_timer_t *timer)
{
	struct server *s = timer->data;
	uint64_t now = clock_monotonic_ns();

	if (s->is_ending)
		return;
	if (http_count_connections(s->api->http) > 0 || s->service->n_runs > 0 ||
		s->service->n_sessions > 0)
		s->idle_since_ns = now;
	if (now - s->idle_since_ns < s->idle_exit_ms * 1000000)
		return;
	log_info("ending, since nobody is there");
	begin_end(s);
}

/* A limit that does not hold is no limit: whoever relies on it must know. */
static void tell_unenforced(const struct service *s)
{
	uint64_t lacking = s->host ? FACET_ALL & ~s->runtime->facets(s->host) : 0;
	char names[256];

	facet_format(lacking, names, sizeof(names));
	if (s->is_up && lacking)
		log_warn("Not enforced on this host: %s. 'belljar doctor' says how to change that.",
			names);
}

static void say_ready(const struct server *s)
{
	const struct settings *c = &s->settings;
	AUTO_FREE char *text = greet_text(
		c, http_port(s->api->http), auth_single_key(s->api->auth), isatty(STDOUT_FILENO));

	(void)fputs(text, stdout);
	(void)fflush(stdout);
	if (!settings_is_local(c) && !c->tls_cert)
		log_warn("listening beyond this machine without TLS");
	tell_unenforced(s->service);
}

/* For programs of the same user, such as `belljar mcp`; the rest works without. */
static void light_beacon(struct server *s)
{
	struct beacon b = { .is_on_demand = s->idle_exit_ms > 0 };
	int data_fd = s->service->data_fd;
	char path[BEACON_PATH_MAX];
	struct err err = { 0 };

	greet_where(&s->settings, http_port(s->api->http), b.url, sizeof(b.url));
	beacon_path(data_fd, path);
	int r = beacon_light(data_fd, &b, &err);
	if (r == 0)
		r = http_listen_local(s->api->http, path, &err);
	if (r < 0)
		log_warn("can not be found by 'belljar mcp': %s, ignoring", err.text);
}

/* Requests are answered before that, with 503 where a keeper is needed. */
static void on_ready(uv_timer_t *timer)
{
	struct server *s = timer->data;

	if (!s->service->is_recovered || s->is_said)
		return;
	s->is_said = true;
	(void)uv_timer_stop(timer);
	starter_commit(&s->starter);
	close_fdp(&s->starter.keeper_fd);
	if (!s->is_ending)
		light_beacon(s);
	if (s->idle_exit_ms > 0) {
		s->idle_since_ns = clock_monotonic_ns();
		(void)uv_timer_start(timer, on_idle_check, IDLE_CHECK_MS, IDLE_CHECK_MS);
	}
	say_ready(s);
}

static void give_room(uv_handle_t *handle, size_t wanted, uv_buf_t *ret)
{
	static char room[4096];

	(void)handle;
	(void)wanted;
	*ret = uv_buf_init(room, sizeof(room));
}

/* What the keeper says goes where our own log does; if that stalls, it is lost, like ours. */
static void on_keeper_log(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	if (n > 0)
		log_raw(buf->base, (size_t)n);
	else if (n < 0)
		(void)uv_read_stop(stream);
}

static void carry_keeper_log(struct server *s)
{
	uv_stream_t *stream = (uv_stream_t *)&s->keeper_log;

	if (s->starter.log_fd >= 0 && uv_pipe_open(&s->keeper_log, s->starter.log_fd) == 0) {
		s->starter.log_fd = -1; /* the handle's */
		(void)uv_read_start(stream, give_room, on_keeper_log);
	}
}

static void on_stalled(void *ctx, uint64_t ms, const char *step)
{
	struct server *s = ctx;

	stall_end(&s->service->server_stall, s->service->metrics, ms, step);
}

static int open_all(struct server *s, const char *data_dir, struct err *err)
{
	struct service_options how = {
		.loop = &s->loop,
		.settings = &s->settings,
		.root = s->settings.root,
		.data_dir = data_dir,
	};
	int r = service_open(&how, &s->service, err);

	if (r == 0)
		r = watchdog_start(&s->loop, on_stalled, s, &s->watchdog, err);
	if (r == 0)
		r = api_start(s->service, &s->api, err);
	take_back_tls(&s->settings, data_dir);
	return r;
}

/* The only way to tell libuv, and only before it has a first thread. */
static void set_pool_size(void)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%u", POOL_THREADS);
	(void)setenv("UV_THREADPOOL_SIZE", number, 0);
}

/* What is large goes back to the system when it is freed. As malloc has it by itself, one that was
 * freed makes the next ones stay: a burst of large answers would be paid for forever. */
static void set_memory(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
}

static int serve(struct server *s, const char *data_dir, struct err *err)
{
	set_pool_size();
	set_memory();
	(void)uv_loop_init(&s->loop);
	(void)uv_signal_init(&s->loop, &s->term);
	(void)uv_signal_init(&s->loop, &s->interrupt);
	(void)uv_timer_init(&s->loop, &s->ready);
	(void)uv_pipe_init(&s->loop, &s->keeper_log, 0);
	s->term.data = s->interrupt.data = s->ready.data = s;
	int r = open_all(s, data_dir, err);
	if (r == 0) {
		(void)uv_signal_start(&s->term, on_end, SIGTERM);
		(void)uv_signal_start(&s->interrupt, on_end, SIGINT);
		(void)uv_timer_start(&s->ready, on_ready, 0, 10);
		carry_keeper_log(s);
	} else {
		watchdog_close(TAKE(s->watchdog));
		service_close(TAKE(s->service));
		uv_walk(&s->loop, close_rest, NULL);
	}
	(void)uv_run(&s->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&s->loop);
	return r;
}

static void print_routes(void)
{
	for (const struct route *const *table = api_routes(); *table; table++) {
		for (const struct route *r = *table; r->method; r++)
			(void)printf("%s %s\n", r->method, r->pattern);
	}
}

static int run(const struct command *self, int argc, char **argv)
{
	struct serve_values v = { 0 };
	struct err err = { 0 };
	AUTO_FREE char *data_dir = NULL;
	static struct server server = { .starter = { STARTER_FRESH } };
	int r = option_parse_only(self, argc, argv, &v, &err);

	if (r == 0)
		return 0;
	if (r > 0 && v.print_routes) {
		print_routes();
		return 0;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (r > 0)
		r = load_settings(&v, &server.settings, &err);
	server.idle_exit_ms = v.idle_exit_ms;
	log_set_level((enum log_level)server.settings.log_level);
	log_set_json(true);
	fd_raise_limit();
	if (r >= 0 && !v.idle_exit_ms)
		beacon_relieve(server.settings.root, RELIEF_WAIT_MS);
	if (r >= 0)
		r = prepare(&server.settings, &data_dir, &server.starter, &err);
	if (r >= 0)
		r = serve(&server, data_dir, &err);
	starter_fini(&server.starter);
	free(TAKE(server.settings.keys_dir));
	settings_fini(&server.settings);
	if (r >= 0)
		return 0;
	complain("serve: %s", err.text);
	return EXIT_OURS;
}

const struct command command_serve = {
	.name = "serve",
	.summary = "Serve runs over HTTP and WebSocket",
	.description =
		"Listens on 127.0.0.1:8080, and says where it is and where its key is; on a terminal it\n"
		"shows the key. Every setting is a SANDBOX_* variable or a line of a config file;\n"
		"docs/config.md lists them. SIGTERM lets running runs finish, or leaves them to the\n"
		"next server.",
	.options = options,
	.run = run,
};
