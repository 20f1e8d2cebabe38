#include "core/beacon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* A state directory with a name too long for a socket's address. */
static int open_deep(const char *top, char *root, size_t size)
{
	char data[400];
	int fd = -1;

	(void)snprintf(root, size, "%s/%0120d", top, 0);
	(void)snprintf(data, sizeof(data), "%s/data", root);
	CHECK_EQ(mkdir(root, 0755), 0);
	CHECK_EQ(mkdir(data, 0700), 0);
	CHECK_EQ(beacon_open(root, &fd, NULL), 0);
	return fd;
}

static int listen_at(int data_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	beacon_path(data_fd, address.sun_path);
	CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(fd, 4), 0);
	return fd;
}

TEST(what_was_lit_is_found_and_put_out)
{
	SCRATCH(dir);
	char root[300];
	AUTO_FD data = open_deep(dir.path, root, sizeof(root));
	struct beacon b = { .url = "http://127.0.0.1:8080", .is_on_demand = true };
	struct beacon got = { 0 };
	struct err err = { 0 };

	CHECK_EQ(beacon_connect(data), -ENOENT);
	CHECK_EQ(beacon_read(data, &got), -ENOENT);
	CHECK_EQ(beacon_light(data, &b, &err), 0);
	CHECK_EQ(beacon_light(data, &b, &err), 0); /* of a killed one it is replaced */
	CHECK_EQ(beacon_read(data, &got), 0);
	CHECK_STR(got.url, b.url);
	CHECK(got.is_on_demand);
	AUTO_FD server = listen_at(data);
	AUTO_FD client = beacon_connect(data);
	CHECK(client >= 0);
	close_fdp(&server);
	CHECK_EQ(beacon_connect(data), -ECONNREFUSED);
	beacon_put_out(data);
	CHECK_EQ(beacon_connect(data), -ENOENT);
	CHECK_EQ(beacon_read(data, &got), -ENOENT);
}

TEST(without_a_server_there_is_no_directory)
{
	SCRATCH(dir);
	struct err err = { 0 };
	int fd = -1;

	CHECK_EQ(beacon_open(dir.path, &fd, &err), -ENOENT);
	CHECK(strstr(err.text, "/data"));
	CHECK_EQ(fd, -1);
}

TEST(what_is_not_ours_is_not_read)
{
	SCRATCH(dir);
	char root[300];
	AUTO_FD data = open_deep(dir.path, root, sizeof(root));
	struct beacon got = { 0 };
	static const char *const bad[] = { "http://x other\n", "http://x on-demand more\n" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_FD fd = openat(data, BEACON_FILE, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		CHECK_EQ(write(fd, bad[i], strlen(bad[i])), (ssize_t)strlen(bad[i]));
		CHECK_EQ(beacon_read(data, &got), -EBADMSG);
	}
}

TESTS(UNIT(what_was_lit_is_found_and_put_out), UNIT(without_a_server_there_is_no_directory),
	UNIT(what_is_not_ours_is_not_read))
