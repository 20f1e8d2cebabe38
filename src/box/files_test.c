#include "box/files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "ipc/pack_write.h"
#include "ipc/unpack.h"
#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

/* Writes a few files into the socket `*arg` as a client would, then hangs up. */
static void *send_some(void *arg)
{
	struct pack_writer w = { .fd = *(int *)arg, .max_bytes = UINT64_MAX };

	(void)pack_write_bytes(&w, "dir/one.txt", 0644, "1", 1, NULL);
	(void)pack_write_bytes(&w, "two.png", 0600, "22", 2, NULL);
	(void)pack_write_end(&w, NULL);
	(void)close(w.fd);
	return NULL;
}

static void in_and_out(void *ctx)
{
	static struct pack_reader reader;
	static struct unpack sink;
	static char *globs[] = { (char *)"*.png", NULL };
	struct stage s = { 0 };
	struct err err = { 0 };
	pthread_t thread;
	uint8_t chunk[4096];
	uint64_t n_bytes = 0;
	int in[2], out[2];

	stage_early(&s, ctx);
	CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0);
	CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) == 0);
	CHILD_CHECK(pthread_create(&thread, NULL, send_some, &in[0]) == 0);
	CHILD_CHECK(files_take_in(&s.spec, in[1], &err) == 0);
	(void)pthread_join(thread, NULL);
	CHILD_CHECK(scratch_holds(AT_FDCWD, "/workspace/dir/one.txt", "1"));
	CHILD_CHECK(scratch_holds(AT_FDCWD, "/workspace/two.png", "22"));

	s.spec.globs = globs;
	CHILD_CHECK(files_send_out(&s.spec, out[0], &n_bytes, &err) == 0);
	CHILD_CHECK(n_bytes == 2);
	(void)close(out[0]);
	CHILD_CHECK(mkdir("/tmp/captured", 0755) == 0);
	unpack_init(&sink, open("/tmp/captured", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 100);
	pack_reader_init(&reader, &sink.sink);
	for (ssize_t n; (n = read(out[1], chunk, sizeof(chunk))) > 0;)
		CHILD_CHECK(pack_feed(&reader, chunk, (size_t)n, &err) == 0);
	CHILD_CHECK(pack_end(&reader, &err) == 0);
	CHILD_CHECK(scratch_holds(AT_FDCWD, "/tmp/captured/two.png", "22"));
	CHILD_CHECK(!scratch_has(AT_FDCWD, "/tmp/captured/dir"));
}

TEST(files_go_in_and_come_out)
{
	SCRATCH(d);

	IN_CHILD(in_and_out, d.path);
}

/* How many bytes of content come out when `path` is asked for. */
static uint64_t fetch(struct spec *spec, const char *path)
{
	static char *globs[2];
	uint64_t n_bytes = 0;
	int out[2];

	globs[0] = (char *)path;
	CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) == 0);
	spec->deed = DEED_FETCH;
	spec->globs = globs;
	CHILD_CHECK(files_send_out(spec, out[0], &n_bytes, NULL) == 0);
	(void)close(out[0]);
	(void)close(out[1]);
	return n_bytes;
}

static void one_file(void *ctx)
{
	struct stage s = { 0 };

	stage_early(&s, ctx);
	CHILD_CHECK(mkdir("/workspace/dir", 0755) == 0);
	scratch_write(AT_FDCWD, "/workspace/dir/a*b", "four");
	scratch_write(AT_FDCWD, "/workspace/dir/axb", "another");
	scratch_write(AT_FDCWD, "/tmp/secret", "secret");
	CHILD_CHECK(symlink("/tmp/secret", "/workspace/link") == 0);
	CHILD_CHECK(symlink("/tmp", "/workspace/tmp") == 0);
	CHILD_CHECK(mkfifo("/workspace/fifo", 0644) == 0);
	CHILD_CHECK(fetch(&s.spec, "dir/a*b") == 4);
	CHILD_CHECK(fetch(&s.spec, "dir/a?b") == 0);
	CHILD_CHECK(fetch(&s.spec, "dir") == 0);
	CHILD_CHECK(fetch(&s.spec, "link") == 0);
	CHILD_CHECK(fetch(&s.spec, "tmp/secret") == 0);
	CHILD_CHECK(fetch(&s.spec, "fifo") == 0);
	s.spec.limits.capture_bytes = 3;
	CHILD_CHECK(fetch(&s.spec, "dir/a*b") == 0);
}

TEST(one_file_is_that_and_no_other)
{
	SCRATCH(d);

	IN_CHILD(one_file, d.path);
}

static void cut_short(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct pack_writer w = { .max_bytes = UINT64_MAX };
	int in[2];

	stage_early(&s, ctx);
	CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0);
	w.fd = in[0];
	CHILD_CHECK(pack_write_bytes(&w, "a", 0644, "1", 1, NULL) == 0);
	(void)close(in[0]);
	CHILD_CHECK(files_take_in(&s.spec, in[1], &err) == -EBADMSG);
	CHILD_CHECK(strstr(err.text, "cut short") != NULL);
}

TEST(a_stream_that_ends_early_is_an_error)
{
	SCRATCH(d);

	IN_CHILD(cut_short, d.path);
}

static void too_much(void *ctx)
{
	static char much[1 << 17];
	struct stage s = { 0 };
	struct err err = { 0 };
	struct pack_writer w = { .max_bytes = UINT64_MAX };
	int in[2];

	stage_early(&s, ctx);
	s.spec.limits.workspace_bytes = 1 << 16;
	CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0);
	w.fd = in[0];
	CHILD_CHECK(pack_write_bytes(&w, "big", 0644, much, 1000, NULL) == 0);
	CHILD_CHECK(fd_set_nonblock(in[0], true) == 0);
	(void)pack_write_bytes(&w, "bigger", 0644, much, sizeof(much), NULL);
	CHILD_CHECK(files_take_in(&s.spec, in[1], &err) == -EFBIG);
	CHILD_CHECK(strstr(err.text, "'bigger'") && strstr(err.text, "65536"));
}

TEST(more_than_the_workspace_holds_is_named)
{
	SCRATCH(d);

	IN_CHILD(too_much, d.path);
}

#define SESSION "00112233445566778899aabbccddeeff"
#define CHANGE  "0123456789abcdef"

static void shut(mode_t mode)
{
	CHILD_CHECK(chmod("/workspace", mode) == 0);
}

static void take_in_shut(struct spec *spec, mode_t mode)
{
	struct err err = { 0 };
	pthread_t thread;
	int in[2];

	CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0);
	CHILD_CHECK(pthread_create(&thread, NULL, send_some, &in[0]) == 0);
	shut(mode);
	CHILD_CHECK(files_take_in(spec, in[1], &err) == 0);
	(void)pthread_join(thread, NULL);
	(void)close(in[1]);
	CHILD_CHECK(scratch_holds(AT_FDCWD, "/workspace/two.png", "22"));
}

static void make_good_shut(struct spec *spec, mode_t mode)
{
	struct err err = { 0 };

	CHILD_CHECK(mkdir("/workspace/.outgoing-" CHANGE, 0700) == 0);
	scratch_write(AT_FDCWD, "/workspace/.outgoing-" CHANGE "/old", "o");
	shut(mode);
	CHILD_CHECK(files_make_good(spec, &err) == 0);
	CHILD_CHECK(scratch_holds(AT_FDCWD, "/workspace/old", "o"));
	CHILD_CHECK(unlink("/workspace/old") == 0);
}

static void change_shut(void *ctx)
{
	static const mode_t modes[] = { 0, 0100, 0300, 0444, 0555, 0600 };
	struct stage s = { 0 };

	stage_early(&s, ctx);
	stage_step(&s, caps_enter); /* or nothing is shut to us */
	(void)snprintf(s.spec.workspace, sizeof(s.spec.workspace), "%s", SESSION);
	(void)snprintf(s.spec.change, sizeof(s.spec.change), "%s", CHANGE);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		make_good_shut(&s.spec, modes[i]);
		take_in_shut(&s.spec, modes[i]);
	}
}

TEST(a_workspace_that_is_shut_is_opened_to_be_changed)
{
	SCRATCH(d);

	IN_CHILD(change_shut, d.path);
}

static void run_out(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct rlimit none = { 0, 0 };

	stage_early(&s, ctx);
	(void)snprintf(s.spec.workspace, sizeof(s.spec.workspace), "%s", SESSION);
	(void)snprintf(s.spec.change, sizeof(s.spec.change), "%s", CHANGE);
	CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHILD_CHECK(files_make_good(&s.spec, &err) == -ENOTRECOVERABLE);
	CHILD_CHECK(strstr(err.text, "open the workspace") != NULL);
}

TEST(a_workspace_that_can_not_be_opened_is_not_made_good)
{
	SCRATCH(d);

	IN_CHILD(run_out, d.path);
}

TESTS(UNIT(files_go_in_and_come_out), UNIT(one_file_is_that_and_no_other),
	UNIT(a_stream_that_ends_early_is_an_error), UNIT(more_than_the_workspace_holds_is_named),
	UNIT(a_workspace_that_is_shut_is_opened_to_be_changed),
	UNIT(a_workspace_that_can_not_be_opened_is_not_made_good))
