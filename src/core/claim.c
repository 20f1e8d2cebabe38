#include "core/claim.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/service.h"
#include "store/record.h"

struct waiter {
	struct waiter *next;
	char fingerprint[65];
	claim_cb *done;
	void *ctx;
};

struct claim {
	struct claim *next;
	struct service *service;
	char *endpoint, *user, *key;
	char fingerprint[65];
	char object_id[UUID_SIZE + 1];
	uint64_t created_sec;
	claim_cb *done; /* of whoever came first, until the store has answered */
	void *ctx;
	struct waiter *waiters; /* whoever came after, in that order */
};

static struct claim *find(const struct service *s, const struct claim_request *r)
{
	for (struct claim *c = s->claims; c; c = c->next) {
		if (streq(c->endpoint, r->endpoint) && streq(c->user, r->user) &&
			streq(c->key, r->key))
			return c;
	}
	return NULL;
}

static void free_claim(struct claim *c)
{
	for (struct claim **at = &c->service->claims; *at; at = &(*at)->next) {
		if (*at == c) {
			*at = c->next;
			break;
		}
	}
	free(c->endpoint);
	free(c->user);
	free(c->key);
	free(c);
}

static struct waiter *take_waiter(struct claim *c)
{
	struct waiter *w = c->waiters;

	if (w)
		c->waiters = w->next;
	return w;
}

static void answer(struct waiter *w, const struct claim_answer *a)
{
	w->done(w->ctx, a);
	free(w);
}

/* Tell those who came after what the request with `fingerprint` made. */
static void answer_waiters(struct claim *c, const char *object_id, const char *fingerprint)
{
	for (struct waiter *w; (w = take_waiter(c));) {
		bool is_same = streq(w->fingerprint, fingerprint);
		struct claim_answer a = {
			.outcome = is_same ? CLAIM_REPLAY : CLAIM_CONFLICT,
			.object_id = object_id,
			.created_sec = c->created_sec,
		};

		answer(w, &a);
	}
}

static void fail_all(struct claim *c)
{
	const struct claim_answer failed = { .outcome = CLAIM_FAILED };

	for (struct waiter *w; (w = take_waiter(c));)
		answer(w, &failed);
	c->done(c->ctx, &failed);
	free_claim(c);
}

/* What the store knows of the key. */
static void on_row(void *ctx, int r, const void *data)
{
	struct claim *c = ctx;
	const struct idempotency_row *row = data;
	uint64_t ttl = c->service->settings->idempotency_ttl_sec;
	struct claim_answer a = { .outcome = CLAIM_NEW, .claim = c, .object_id = c->object_id };

	c->service->n_pending--;
	if (r == 0 && (uint64_t)row->created_at + ttl > c->created_sec) {
		a.outcome = streq(row->fingerprint, c->fingerprint) ? CLAIM_REPLAY : CLAIM_CONFLICT;
		a.claim = NULL;
		a.object_id = row->object_id;
		a.created_sec = c->created_sec = (uint64_t)row->created_at;
		answer_waiters(c, row->object_id, row->fingerprint);
		c->done(c->ctx, &a);
		free_claim(c);
		return;
	}
	if (r < 0 && r != -ENOENT) {
		fail_all(c);
		return;
	}
	claim_cb *done = TAKE(c->done);
	done(c->ctx, &a);
}

static void wait_for(struct claim *c, const struct claim_request *r, claim_cb *done, void *ctx)
{
	struct waiter *w = xnew(struct waiter);
	struct waiter **at = &c->waiters;

	(void)snprintf(w->fingerprint, sizeof(w->fingerprint), "%s", r->fingerprint);
	w->done = done;
	w->ctx = ctx;
	while (*at)
		at = &(*at)->next;
	*at = w;
}

void claim_begin(struct service *s, const struct claim_request *request, claim_cb *done, void *ctx)
{
	char fresh[UUID_SIZE + 1];

	if (!request->key) {
		uuid_make(fresh);
		done(ctx, &(struct claim_answer){ .outcome = CLAIM_NEW, .object_id = fresh });
		return;
	}
	struct claim *c = find(s, request);
	if (c) {
		wait_for(c, request, done, ctx);
		return;
	}
	c = xnew(struct claim);
	c->service = s;
	c->endpoint = xstrdup(request->endpoint);
	c->user = xstrdup(request->user);
	c->key = xstrdup(request->key);
	(void)snprintf(c->fingerprint, sizeof(c->fingerprint), "%s", request->fingerprint);
	uuid_make(c->object_id);
	c->created_sec = (uint64_t)time(NULL);
	c->done = done;
	c->ctx = ctx;
	c->next = s->claims;
	s->claims = c;
	struct idempotency_row key = {
		.endpoint = c->endpoint, .user_key = c->user, .key = c->key
	};
	s->n_pending++;
	store_get(s->store, &idempotency_table, &key, on_row, c);
}

void claim_conflict(const struct claim_answer *a, const char *key, struct problem *problem)
{
	char created[DATE_SIZE + 1];

	date_format(a->created_sec * UINT64_C(1000000000), created);
	(void)problem_set(
		problem, "idempotency_conflict", "Idempotency-Key replay with different body");
	problem_add(problem, "prior_id", json_string(a->object_id));
	problem_add(problem, "key", json_string(key));
	problem_add(problem, "prior_created_at", json_string(created));
}

void claim_store(const struct claim *c, struct store_batch *batch)
{
	if (!c)
		return;
	struct idempotency_row row = {
		.endpoint = c->endpoint,
		.user_key = c->user,
		.key = c->key,
		.fingerprint = (char *)c->fingerprint,
		.object_id = (char *)c->object_id,
		.created_at = (int64_t)c->created_sec,
	};
	store_batch_put(batch, &idempotency_table, &row);
}

/* The next one does what the first did not, under a name of its own. */
static void pass_on(struct claim *c)
{
	struct waiter *w = take_waiter(c);

	memcpy(c->fingerprint, w->fingerprint, sizeof(c->fingerprint));
	uuid_make(c->object_id);
	c->created_sec = (uint64_t)time(NULL);
	answer(w, &(struct claim_answer){
			  .outcome = CLAIM_NEW, .claim = c, .object_id = c->object_id });
}

void claim_end(struct claim *c, int r)
{
	if (!c)
		return;
	if (r < 0 && c->waiters) {
		pass_on(c);
		return;
	}
	answer_waiters(c, c->object_id, c->fingerprint);
	free_claim(c);
}

void claim_free_all(struct service *s)
{
	while (s->claims) {
		struct claim *c = s->claims;

		while (c->waiters) {
			struct waiter *w = c->waiters;

			c->waiters = w->next;
			free(w);
		}
		free_claim(c);
	}
}
