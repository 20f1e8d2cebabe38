/* Lets one call fail, for tests of what happens then: nothing of it is done, and it is
 * answered in its turn like any other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "store/store_backend.h"

#define FAULT_CALLS_MAX 1000000000u

struct fault {
	struct store store;
	uint64_t countdown; /* calls until the one that fails; 0 when that is over */
};

static void fault_submit(struct store *s, struct operation *op)
{
	struct fault *f = (struct fault *)s;

	if (f->countdown > 0 && --f->countdown == 0)
		op->r = -EIO;
	s->inner->ops->submit(s->inner, op);
}

/* Take the "N:" from the front of `*rest`. */
static int parse_number(const char **rest, uint64_t *ret)
{
	size_t size = strcspn(*rest, ":");
	char number[24];

	if (!(*rest)[size] || size >= sizeof(number))
		return -EINVAL;
	memcpy(number, *rest, size);
	number[size] = '\0';
	*rest += size + 1;
	return str_parse_u64(number, FAULT_CALLS_MAX, ret);
}

static int fault_open(
	uv_loop_t *loop, const char *rest, bool full_sync, struct store **ret, struct err *err)
{
	struct store *inner = NULL;
	uint64_t n = 0;

	if (parse_number(&rest, &n) < 0 || n == 0)
		return err_set(err, -EINVAL, "'fault:' wants the number of a call and a store");
	int r = store_open(loop, rest, full_sync, &inner, err);
	if (r < 0)
		return r;
	struct fault *f = xnew(struct fault);
	f->store = (struct store){ .ops = &store_fault, .inner = inner };
	f->countdown = n;
	*ret = &f->store;
	return 0;
}

static void fault_free(struct store *s)
{
	store_free(s->inner);
	free(s);
}

const struct store_ops store_fault = {
	.name = "fault",
	.open = fault_open,
	.free = fault_free,
	.submit = fault_submit,
};
