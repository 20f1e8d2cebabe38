/* For tests: the other side of a pack stream. A thread reads the socket and unpacks into a
 * directory, as the init of a box does. */
#pragma once
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/pack_write.h"
#include "ipc/unpack.h"
#include "lib/scratch.h"

struct pack_room {
	struct scratch dir;
	struct pack_writer writer; /* write here */
	int fd;
	pthread_t thread;
	int r; /* how unpacking went */
	uint64_t n_bytes;
};

static void *pack_room_read(void *ctx)
{
	struct pack_room *room = ctx;
	static _Thread_local struct pack_reader reader;
	static _Thread_local struct unpack unpack;
	static _Thread_local uint8_t chunk[64 << 10];
	ssize_t n;

	unpack_init(&unpack, room->dir.fd, UINT64_MAX);
	pack_reader_init(&reader, &unpack.sink);
	while ((n = read(room->fd, chunk, sizeof(chunk))) > 0)
		(void)pack_feed(&reader, chunk, (size_t)n, NULL);
	room->r = reader.failed ? reader.failed : pack_end(&reader, NULL);
	room->n_bytes = unpack.n_bytes;
	unpack_fini(&unpack);
	return NULL;
}

static inline void pack_room_make(struct pack_room *room)
{
	int ends[2];

	scratch_make(&room->dir);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	room->writer = (struct pack_writer){ .fd = ends[0], .max_bytes = UINT64_MAX };
	room->fd = ends[1];
	if (pthread_create(&room->thread, NULL, pack_room_read, room) != 0)
		abort();
}

/* No more is written: wait until all is unpacked, and tell how it went. */
static inline int pack_room_close(struct pack_room *room)
{
	if (room->writer.fd < 0)
		return room->r;
	(void)close(room->writer.fd);
	room->writer.fd = -1;
	(void)pthread_join(room->thread, NULL);
	(void)close(room->fd);
	return room->r;
}

static inline void pack_room_remove(struct pack_room *room)
{
	(void)pack_room_close(room);
	scratch_remove(&room->dir);
}

#define PACK_ROOM(name)                                                                            \
	CLEANUP(pack_room_remove) struct pack_room name;                                           \
	pack_room_make(&name)
