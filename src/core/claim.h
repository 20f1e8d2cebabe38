/* Idempotency keys: which request was the first with a key, and what it made. A key that is
 * being used right now is known here, in memory, so that of two equal requests at once only
 * one is carried out; the other waits for it. If the first one comes to nothing, the second
 * takes its place. */
#pragma once
#include <stdint.h>

#include "base/uuid.h"

struct claim;
struct problem;
struct service;
struct store_batch;

enum claim_outcome {
	CLAIM_NEW,      /* carry it out, under `object_id`, and call claim_end() */
	CLAIM_REPLAY,   /* it was, and made `object_id` */
	CLAIM_CONFLICT, /* by another request, which made `object_id` at `created_sec` */
	CLAIM_FAILED,   /* the store can not tell */
};

struct claim_answer {
	enum claim_outcome outcome;
	struct claim *claim; /* of CLAIM_NEW; NULL without a key */
	const char *object_id;
	uint64_t created_sec;
};

/* May call back at once. */
typedef void claim_cb(void *ctx, const struct claim_answer *answer);

struct claim_request {
	const char *endpoint; /* "runs" */
	const char *user;
	const char *key;         /* NULL: every request is new */
	const char *fingerprint; /* 64 digits */
};
#define CLAIM_KEY_MAX 128u

void claim_begin(struct service *s, const struct claim_request *request, claim_cb *done, void *ctx);

/* What to say of CLAIM_CONFLICT. */
void claim_conflict(const struct claim_answer *a, const char *key, struct problem *problem);

/* Have the key stored together with what it made. NULL is allowed. */
void claim_store(const struct claim *c, struct store_batch *batch);

/* It is stored (0), or came to nothing (a negative errno). NULL is allowed. */
void claim_end(struct claim *c, int r);

/* When the service ends. */
void claim_free_all(struct service *s);
