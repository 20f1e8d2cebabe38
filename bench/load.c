/* A load that costs next to nothing itself, so that what is measured is the other side: programs
 * without a box by posix_spawn(), or one HTTP request again and again on a connection that stays.
 * Used by bench/load.py. Prints JSON, with times in milliseconds.
 *
 *	load turns ROUNDS PAUSE_MS WORK...  each once a round, in turns: [[time, ...], ...]
 *	load rate CLIENTS MS WORK           by so many at a time: how often per second
 *	load burst CLIENTS WORK             once by each, all at the same moment: [time, ...]
 *
 * WORK is {"spawn": [program, argument, ...]}, which must end with status 0, or
 * {"port": 8080, "send": "POST /...", "expect": "text"}, which must be answered with 200 and, where
 * "expect" is given, with that text: a server may answer a failed run with 200. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"

#define CLIENTS_MAX 1024
#define ANSWER_MAX  65536
#define ARGS_MAX    64

/* One client of one work. */
struct client {
	char *const *argv; /* NULL: by HTTP */
	const char *request;
	const char *expect; /* in the answer; NULL: anything */
	int fd;
	uint64_t until_ns; /* of a rate */
	uint64_t n_done;
	uint64_t begin_ns;          /* of the last */
	uint64_t end_ns;            /* of the last */
	pthread_barrier_t *barrier; /* of a burst */
};

static _Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "load: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

static uint64_t number(const char *text)
{
	uint64_t n;

	if (str_parse_u64(text, 1000000, &n) < 0)
		die(text, "is no number, or too large");
	return n;
}

/* --- one piece of work --- */

static void spawn(char *const *argv)
{
	posix_spawn_file_actions_t actions;
	int status = 0;
	pid_t pid;

	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	errno = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	if (errno)
		die(argv[0], strerror(errno));
	if (waitpid(pid, &status, 0) < 0 || status != 0)
		die(argv[0], "did not end with status 0");
}

/* The size of the answer in `buf`, head and body; 0 while the head is not whole. */
static size_t answer_size(const char *buf)
{
	const char *end = strstr(buf, "\r\n\r\n");
	const char *length = strcasestr(buf, "\r\ncontent-length:");

	if (!end)
		return 0;
	if (!str_after(buf, "HTTP/1.1 200 ") || !length || length > end)
		die("not the answer that was expected", buf);
	return (size_t)(end + 4 - buf) + strtoul(length + 17, NULL, 10);
}

static void ask(struct client *c)
{
	char buf[ANSWER_MAX];
	size_t size = strlen(c->request);
	size_t used = 0;
	size_t want = 0;

	if (send(c->fd, c->request, size, MSG_NOSIGNAL) != (ssize_t)size)
		die("send", strerror(errno));
	while (want == 0 || used < want) {
		ssize_t n = recv(c->fd, buf + used, sizeof(buf) - 1 - used, 0);

		if (n <= 0)
			die("recv",
				n < 0 ? strerror(errno) : "the server hung up, or said too much");
		used += (size_t)n;
		buf[used] = '\0';
		want = answer_size(buf);
	}
	if (c->expect && !strstr(buf, c->expect))
		die("not the answer that was expected", buf);
}

static void once(struct client *c)
{
	c->begin_ns = clock_monotonic_ns();
	if (c->argv)
		spawn(c->argv);
	else
		ask(c);
	c->end_ns = clock_monotonic_ns();
}

static json_t *ms_since(const struct client *c, uint64_t begin_ns)
{
	return json_real((double)(c->end_ns - begin_ns) / 1e6);
}

/* --- clients --- */

static int connect_to(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		die("connect", strerror(errno));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	return fd;
}

/* The text of `work` stays as long as the program does. */
static void client_init(struct client *c, const char *work)
{
	json_t *json = json_loads(work, 0, NULL);
	json_t *spawned = json_object_get(json, "spawn");
	size_t n = json_array_size(spawned);

	*c = (struct client){ .fd = -1 };
	if (n > 0 && n < ARGS_MAX) {
		char **argv = xcalloc(n + 1, sizeof(*argv));

		for (size_t i = 0; i < n; i++)
			argv[i] = xstrdup(json_string_value(json_array_get(spawned, i)));
		c->argv = argv;
		return;
	}
	c->request = json_string_value(json_object_get(json, "send"));
	if (!c->request)
		die(work, "is no work");
	c->expect = json_string_value(json_object_get(json, "expect"));
	c->fd = connect_to((uint16_t)json_integer_value(json_object_get(json, "port")));
}

static struct client *clients_new(const char *work, size_t n)
{
	struct client *clients = xcalloc(n, sizeof(*clients));

	for (size_t i = 0; i < n; i++)
		client_init(&clients[i], work);
	return clients;
}

static void run_threads(struct client *clients, size_t n, void *(*routine)(void *))
{
	pthread_t threads[CLIENTS_MAX];

	if (n > CLIENTS_MAX)
		die("clients", "too many");
	for (size_t i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, routine, &clients[i]) != 0)
			die("thread", "could not be made");
	for (size_t i = 0; i < n; i++)
		(void)pthread_join(threads[i], NULL);
}

/* --- what is measured --- */

static json_t *turns(char **args, int n)
{
	uint64_t rounds = number(args[0]);
	const struct timespec pause = { .tv_nsec = (long)(number(args[1]) * 1000000) };
	struct client *clients = xcalloc((size_t)n, sizeof(*clients));
	json_t *result = json_array();

	for (int i = 2; i < n; i++) {
		client_init(&clients[i], args[i]);
		(void)json_array_append_new(result, json_array());
	}
	for (uint64_t round = 0; round < rounds; round++) {
		for (int i = 2; i < n; i++) {
			(void)nanosleep(&pause, NULL);
			once(&clients[i]);
			(void)json_array_append_new(json_array_get(result, (size_t)i - 2),
				ms_since(&clients[i], clients[i].begin_ns));
		}
	}
	return result;
}

static void *repeat(void *ctx)
{
	struct client *c = ctx;

	for (; clock_monotonic_ns() < c->until_ns; c->n_done++)
		once(c);
	return NULL;
}

static json_t *rate(char **args, int n)
{
	size_t n_clients = number(args[0]);
	struct client *clients = clients_new(args[2], n_clients);
	uint64_t begin = clock_monotonic_ns();
	uint64_t done = 0;

	(void)n;
	for (size_t i = 0; i < n_clients; i++)
		clients[i].until_ns = begin + number(args[1]) * 1000000;
	run_threads(clients, n_clients, repeat);
	for (size_t i = 0; i < n_clients; i++)
		done += clients[i].n_done;
	return json_real((double)done * 1e9 / (double)(clock_monotonic_ns() - begin));
}

static void *wait_and_go(void *ctx)
{
	struct client *c = ctx;

	(void)pthread_barrier_wait(c->barrier);
	once(c);
	return NULL;
}

/* The moment of a burst: a client that has to wait for a processor began with the others. */
static uint64_t first_begin(const struct client *clients, size_t n)
{
	uint64_t first = clients[0].begin_ns;

	for (size_t i = 1; i < n; i++)
		if (clients[i].begin_ns < first)
			first = clients[i].begin_ns;
	return first;
}

static json_t *burst(char **args, int n)
{
	size_t n_clients = number(args[0]);
	struct client *clients = clients_new(args[1], n_clients);
	json_t *result = json_array();
	pthread_barrier_t barrier;

	(void)n;
	(void)pthread_barrier_init(&barrier, NULL, (unsigned)n_clients);
	for (size_t i = 0; i < n_clients; i++)
		clients[i].barrier = &barrier;
	run_threads(clients, n_clients, wait_and_go);
	uint64_t begin = first_begin(clients, n_clients);

	for (size_t i = 0; i < n_clients; i++)
		(void)json_array_append_new(result, ms_since(&clients[i], begin));
	return result;
}

static const struct {
	const char *name;
	int n_args; /* at least */
	json_t *(*measure)(char **args, int n);
} kinds[] = {
	{ "turns", 3, turns },
	{ "rate", 3, rate },
	{ "burst", 2, burst },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (argc < 2 + kinds[i].n_args || !streq(argv[1], kinds[i].name))
			continue;
		json_t *result = kinds[i].measure(argv + 2, argc - 2);
		(void)json_dumpf(result, stdout, JSON_ENCODE_ANY);
		return EXIT_SUCCESS;
	}
	(void)fprintf(stderr, "usage: load turns|rate|burst ...; see bench/load.c\n");
	return EXIT_FAILURE;
}
