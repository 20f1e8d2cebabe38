#include "probe/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "lib/test.h"
#include "probe/deadline.h"

TEST(the_version_is_read_out_of_an_answer)
{
	char version[32];

	CHECK_EQ(engine_parse("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"Version\":\"28.2.2\"}", version,
			 sizeof(version)),
		0);
	CHECK_STR(version, "28.2.2");
	CHECK_EQ(engine_parse("HTTP/1.1 200 OK\r\n\r\n16\r\n{\"Version\":\"1\"}\r\n0\r\n\r\n",
			 version, sizeof(version)),
		0);
	CHECK_STR(version, "1");
}

TEST(what_is_no_answer_of_an_engine_is_refused)
{
	static const char *const bad[] = { "", "HTTP/1.", "HTTP/1.0 200 OK\r\n\r\n",
		"HTTP/1.0 404 Not Found\r\n\r\n{\"Version\":\"1\"}", "SSH-2.0-x\r\n",
		"HTTP/1.0 200 OK\r\n\r\n{\"Version\":", "HTTP/1.0 200 OK\r\n\r\n{\"Version\":1}",
		"HTTP/1.0 200 OK\r\n\r\n{}" };
	char version[32];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(engine_parse(bad[i], version, sizeof(version)), -EBADMSG);
}

static char dir[] = "/tmp/engine-test-XXXXXX";
static char path[64];

static int listen_there(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	(void)unlink(path);
	CHECK_EQ(bind(fd, (const struct sockaddr *)&sun, sizeof(sun)), 0);
	CHECK_EQ(listen(fd, 1), 0);
	return fd;
}

static int ask(char *version, size_t size)
{
	char where[128];
	char url[80];

	(void)snprintf(url, sizeof(url), "unix://%s", path);
	(void)setenv("DOCKER_HOST", url, 1);
	int r = engine_ask(version, size, where, sizeof(where));
	CHECK_STR(where, path);
	return r;
}

static void make_dir(void)
{
	if (!path[0]) {
		CHECK(mkdtemp(dir) != NULL);
		(void)snprintf(path, sizeof(path), "%s/sock", dir);
	}
	(void)unlink(path);
}

static void remove_dir(void)
{
	(void)unlink(path);
	(void)rmdir(dir);
}

TEST(an_engine_that_answers_tells_its_version)
{
	static const char answer[] = "HTTP/1.0 200 OK\r\n\r\n{\"Version\":\"9.8.7\"}";
	char version[32] = "";

	make_dir();
	AUTO_FD fd = listen_there();
	pid_t pid = fork();
	if (pid == 0) {
		int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		char request[256];
		ssize_t n = read(peer, request, sizeof(request));
		_exit(n <= 0 || fd_write_full(peer, answer, strlen(answer)) < 0);
	}
	CHECK_EQ(ask(version, sizeof(version)), 0);
	CHECK_STR(version, "9.8.7");
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(a_silent_engine_is_given_up_in_time)
{
	char version[32] = "";

	make_dir();
	AUTO_FD fd = listen_there();
	uint64_t start = deadline_now();
	CHECK_EQ(ask(version, sizeof(version)), -ETIMEDOUT);
	CHECK(deadline_now() - start < ENGINE_TIMEOUT_MS + 500);
}

TEST(no_engine_is_told_from_a_strange_address)
{
	char version[32] = "";
	char where[128];

	make_dir();
	CHECK_EQ(ask(version, sizeof(version)), -ENOENT);
	int fd = listen_there();
	(void)close(fd); /* the name stays, and nobody listens */
	CHECK_EQ(ask(version, sizeof(version)), -ENOENT);
	(void)setenv("DOCKER_HOST", "tcp://127.0.0.1:1", 1);
	CHECK_EQ(engine_ask(version, sizeof(version), where, sizeof(where)), -EPROTONOSUPPORT);
	remove_dir();
}

TESTS(UNIT(the_version_is_read_out_of_an_answer), UNIT(what_is_no_answer_of_an_engine_is_refused),
	UNIT(an_engine_that_answers_tells_its_version), UNIT(a_silent_engine_is_given_up_in_time),
	UNIT(no_engine_is_told_from_a_strange_address))
