/* What a run tells the client who hears of it, and the descriptors that go with it. */
#include "base/cleanup.h"
#include "box/cgroup.h"
#include "ipc/cur.h"
#include "keeper/keeper_private.h"

static void tell(struct keeper *k, struct ward *r, uint32_t type, const struct put *payload)
{
	if (r->peer)
		peer_send(k, r->peer, type, payload, NULL, 0);
}

/* STARTED, with a descriptor for every channel the client has an end of. */
void ward_tell_started(struct keeper *k, struct ward *r)
{
	struct put out;
	int fds[CHANNEL_COUNT];
	uint32_t mask = 0;
	size_t n = 0;

	for (int i = 0; i < CHANNEL_COUNT; i++) {
		if (r->fds[i] < 0)
			continue;
		mask |= 1u << i;
		fds[n++] = r->fds[i];
	}
	put_init(&out, 256);
	put_str(&out, r->id);
	put_u32(&out, mask);
	if (r->peer)
		peer_send(k, r->peer, MESSAGE_STARTED, &out, fds, n);
	put_fini(&out);
}

void ward_tell_running(struct keeper *k, struct ward *r)
{
	struct put out;

	put_init(&out, 256);
	put_str(&out, r->id);
	put_u64(&out, r->result.started_ns);
	tell(k, r, MESSAGE_RUNNING, &out);
	put_fini(&out);
}

void ward_tell_ended(struct keeper *k, struct ward *r)
{
	struct put out;

	put_init(&out, 1024);
	result_put(&r->result, &out);
	tell(k, r, MESSAGE_ENDED, &out);
	put_fini(&out);
}

void ward_tell_used(struct keeper *k, struct ward *r)
{
	struct cgroup_stats stats = { .cpu_us = USAGE_UNKNOWN };
	struct put out;

	if (r->boxed && r->boxed->cgroup)
		cgroup_read_stats(r->boxed->cgroup, &stats);
	put_init(&out, 256);
	put_str(&out, r->id);
	put_u64(&out, stats.cpu_us);
	put_u8(&out, r->boxed && r->boxed->is_frozen);
	tell(k, r, MESSAGE_USED, &out);
	put_fini(&out);
}

void ward_drop_duplicates(struct ward *r)
{
	close_fdp(&r->fds[CHANNEL_FILES]);
	if (r->lingers)
		return;
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&r->fds[i]);
}
