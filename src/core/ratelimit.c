#include "core/ratelimit.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/str.h"

#define WAYS    8u
#define SETS    (RATELIMIT_KEYS / WAYS)
#define SEED    16u
#define KEY_MAX 256u /* of a longer one, this much counts */
#define MINUTE  UINT64_C(60000000000)

/* The level is kept as a moment: that at which the bucket would have been empty, at most a
 * minute ago. One request moves it on by MINUTE / per_minute. */
struct bucket {
	unsigned char tag[16]; /* of seed and key */
	uint64_t empty_at_ns;
	bool used;
};

struct ratelimit {
	uint64_t cost_ns;
	unsigned char seed[SEED]; /* nobody can choose keys that meet in one set */
	struct bucket sets[SETS][WAYS];
};

struct ratelimit *ratelimit_new(uint64_t per_minute)
{
	struct ratelimit *l = xnew(struct ratelimit);

	l->cost_ns = per_minute ? MINUTE / per_minute : 0;
	if (getrandom(l->seed, SEED, 0) != (ssize_t)SEED)
		abort();
	return l;
}

void ratelimit_free(struct ratelimit *l)
{
	free(l);
}

static void make_tag(const struct ratelimit *l, const char *key, unsigned char ret[32])
{
	unsigned char input[SEED + KEY_MAX];
	size_t size = strnlen(key, KEY_MAX);

	memcpy(input, l->seed, SEED);
	memcpy(input + SEED, key, size);
	if (EVP_Digest(input, SEED + size, ret, NULL, EVP_sha256(), NULL) != 1)
		abort();
}

/* The earlier a bucket would have been empty, the fuller it is now. */
static struct bucket *choose_victim(struct bucket *set)
{
	struct bucket *victim = &set[0];

	for (size_t i = 0; i < WAYS; i++) {
		if (!set[i].used)
			return &set[i];
		if (set[i].empty_at_ns < victim->empty_at_ns)
			victim = &set[i];
	}
	return victim;
}

static uint64_t full_since(uint64_t now_ns)
{
	return now_ns - MINUTE;
}

static struct bucket *find_bucket(struct ratelimit *l, const char *key, uint64_t now_ns)
{
	unsigned char digest[32];
	make_tag(l, key, digest);
	struct bucket *set = l->sets[(digest[30] << 8 | digest[31]) % SETS];

	for (size_t i = 0; i < WAYS; i++) {
		if (set[i].used && memcmp(set[i].tag, digest, sizeof(set[i].tag)) == 0)
			return &set[i];
	}
	struct bucket *b = choose_victim(set);
	b->used = true;
	b->empty_at_ns = full_since(now_ns);
	memcpy(b->tag, digest, sizeof(b->tag));
	return b;
}

uint64_t ratelimit_take(struct ratelimit *l, const char *key, uint64_t now_ns)
{
	if (!l->cost_ns)
		return 0;
	now_ns += MINUTE; /* soon after boot there is no minute before now */
	struct bucket *b = find_bucket(l, key, now_ns);
	if (b->empty_at_ns < full_since(now_ns))
		b->empty_at_ns = full_since(now_ns);
	if (b->empty_at_ns + l->cost_ns <= now_ns) {
		b->empty_at_ns += l->cost_ns;
		return 0;
	}
	uint64_t wait_ns = b->empty_at_ns + l->cost_ns - now_ns;
	return (wait_ns + 999999999) / 1000000000;
}
