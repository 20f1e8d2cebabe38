/* Whether the keeper's loop goes round. A keeper that stands still, or was stopped, keeps its
 * socket, so nothing breaks: it is asked for a sign of life once a second, and what it is late
 * with is told. Nothing that runs there is given up; it may go on at any moment.
 *
 *	more than 2 s late    it is silent: no longer well
 *	more than 30 s late   it is taken for lost: down, until it answers
 */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/native_private.h"

#define PULSE_MS  1000
#define NS_PER_MS UINT64_C(1000000)

/* The answer may be in the socket, unread, when we did not go round ourselves. */
static bool stood_still(struct runtime_host *h, uint64_t now_ns)
{
	uint64_t before = h->pulsed_ns;

	h->pulsed_ns = now_ns;
	return before && now_ns - before > 2 * PULSE_MS * NS_PER_MS;
}

static void fall_silent(struct runtime_host *h, uint64_t since_ns)
{
	h->silent_ns = since_ns;
	log_warn("event=stall loop=keeper: it has not answered for %llu ms; waiting for it",
		(unsigned long long)((h->pulsed_ns - since_ns) / NS_PER_MS));
	if (h->listener.silent)
		h->listener.silent(h->listener.ctx, since_ns);
}

static void lose(struct runtime_host *h)
{
	log_warn(
		"the keeper has not answered for %llu s and is taken for lost; what runs there goes "
		"on if it answers again",
		(unsigned long long)(RUNTIME_LOST_NS / (1000 * NS_PER_MS)));
	h->state = STATE_SILENT;
	h->listener.down(h->listener.ctx);
	native_give_up_wishes(h, "the keeper does not answer");
}

static void look(struct runtime_host *h, uint64_t now_ns)
{
	uint64_t late = now_ns - h->asked_ns;

	if (!h->silent_ns && late > RUNTIME_SILENT_NS)
		fall_silent(h, h->asked_ns);
	if (h->state == STATE_UP && late > RUNTIME_LOST_NS)
		lose(h);
}

static void on_pulse(uv_timer_t *timer)
{
	struct runtime_host *h = timer->data;
	uint64_t now = clock_monotonic_ns();

	if (stood_still(h, now) && h->asked_ns && !h->silent_ns)
		h->asked_ns = now;
	if (h->asked_ns)
		look(h, now);
	else if (h->fd >= 0 && native_say_nothing(h, MESSAGE_PING) == 0)
		h->asked_ns = now;
}

void native_pulse_start(struct runtime_host *h)
{
	h->asked_ns = clock_monotonic_ns();
	h->n_stalls = UINT64_MAX;
	if (!uv_is_active((uv_handle_t *)&h->pulse))
		(void)uv_timer_start(&h->pulse, on_pulse, PULSE_MS, PULSE_MS);
}

void native_pulse_stop(struct runtime_host *h)
{
	uint64_t since = h->silent_ns;

	h->asked_ns = h->silent_ns = h->pulsed_ns = 0;
	(void)uv_timer_stop(&h->pulse);
	if (since && h->state != STATE_CLOSED && h->listener.heard)
		h->listener.heard(
			h->listener.ctx, (clock_monotonic_ns() - since) / NS_PER_MS, "its end");
}

/* How long others had to wait: by our clock, or by the keeper's if only that one noticed. */
void native_pulse_heard(struct runtime_host *h, uint64_t n_stalls, uint64_t ms, const char *step)
{
	bool knows = h->n_stalls != UINT64_MAX && n_stalls != h->n_stalls;
	bool was_silent = h->silent_ns != 0;

	if (!knows)
		step = "unknown: it was stopped, or got no processor";
	if (was_silent) {
		ms = (clock_monotonic_ns() - h->silent_ns) / NS_PER_MS;
		log_warn("the keeper answers again after %llu ms; it was at: %s",
			(unsigned long long)ms, step);
	}
	h->n_stalls = n_stalls;
	h->asked_ns = h->silent_ns = 0;
	if ((was_silent || knows) && h->listener.heard)
		h->listener.heard(h->listener.ctx, ms, step);
}
