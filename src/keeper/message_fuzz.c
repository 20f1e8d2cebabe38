/* Input: what one client says, a message after the other: u8 type, u32 size and the
 * payload. The keeper is stopping, so that a good start is refused where it would
 * otherwise make a box; two runs are there to talk about. */
#include <endian.h>

#include "keeper/sample.h"

#define OWNER 1000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char ended_id[] = "feedfacefeedfacefeedfacefeedface";
static const char running_id[] = "0123456789abcdef0123456789abcdef";

static uint8_t buffer[FRAME_SIZE_MAX];

static struct ward *add_run(struct sample *s, const char *id, enum run_state state)
{
	struct ward *r = sample_run(s, id, state);

	r->owner = OWNER;
	r->limits.grace_ms = 100;
	r->fds[CHANNEL_STDIN] = dup(s->client_fd);
	return r;
}

/* In a box without a process. */
static void add_running(struct sample *s)
{
	struct ward *r = add_run(s, running_id, RUN_RUNNING);

	r->boxed = xnew(struct boxed);
	r->boxed->box = (struct box){ .pid_fd = -1, .control_fd = -1, .net_fd = -1 };
	r->boxed->next = s->k.busy;
	s->k.busy = r->boxed;
}

/* Every answer is a message for clients, and comes while the client is there. */
static void read_answers(struct sample *s)
{
	struct frame f;
	int r;

	while ((r = frame_recv(s->client_fd, buffer, &f)) == 1) {
		sample_insist(f.type >= MESSAGE_WELCOME && f.type <= MESSAGE_PONG);
		sample_insist(f.type == MESSAGE_STARTED || f.n_fds == 0);
		frame_close_fds(&f);
	}
	sample_insist(r == -EAGAIN || r == 0);
}

/* One message; how many bytes it took, or 0 at the end. */
static size_t take_message(const uint8_t *data, size_t size, struct frame *ret)
{
	uint32_t n;

	if (size < 5)
		return 0;
	memcpy(&n, data + 1, sizeof(n));
	n = le32toh(n);
	if (n > size - 5)
		n = (uint32_t)(size - 5);
	*ret = (struct frame){ .type = data[0], .data = data + 5, .size = n };
	return 5 + (size_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sample s;
	struct frame f;
	size_t taken;

	sample_open(&s, OWNER);
	s.k.stopping = true;
	(void)add_run(&s, ended_id, RUN_ENDED);
	add_running(&s);
	while ((taken = take_message(data, size, &f)) > 0) {
		int r = rules_dispatch(&s.k, s.peer, &f);

		sample_insist(r == 0 || r == -EBADMSG);
		sample_insist(s.k.n_runs <= 2 && s.k.ready.n == 0);
		read_answers(&s);
		if (r < 0 || s.peer->closed)
			break;
		data += taken;
		size -= taken;
	}
	sample_close(&s);
	return 0;
}
