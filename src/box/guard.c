#include "box/guard.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/ioprio.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "box/dispatch.h"
#include "box/seccomp.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of an argument is first");

#define INIT 1u

/* What is refused: this call with this value in the low half of this argument, which is
 * all that the kernel looks at. All processes of a user are init too. */
static const struct row {
	const char *name;
	uint32_t arg;
	uint32_t value;
} rows[] = {
	{ "sched_setscheduler", 0, INIT },
	{ "sched_setparam", 0, INIT },
	{ "sched_setattr", 0, INIT },
	{ "sched_setaffinity", 0, INIT },
	{ "setpriority", 1, INIT },
	{ "setpriority", 0, PRIO_USER },
	{ "ioprio_set", 1, INIT },
	{ "ioprio_set", 0, IOPRIO_WHO_USER },
};

/* The check of the architecture, and at most this much for each row. */
#define CODE_PER_ROW 8
#define CODE_MAX     (2 + CODE_PER_ROW * ARRAY_SIZE(rows))

_Static_assert(CODE_MAX < UINT8_MAX, "one jump must reach over all of it");

struct code {
	struct sock_filter at[CODE_MAX];
	size_t n;
};

static void put(struct code *c, struct sock_filter f)
{
	c->at[c->n++] = f;
}

static void put_load(struct code *c, size_t offset)
{
	put(c, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* Go on with the next instruction if what was loaded is `k`, else skip this many. */
static void put_unless(struct code *c, uint32_t k, uint8_t skip)
{
	put(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, skip));
}

static void put_return(struct code *c, uint32_t answer)
{
	put(c, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer));
}

static void put_row(struct code *c, const struct row *row, uint32_t nr)
{
	put_load(c, offsetof(struct seccomp_data, nr));
	put_unless(c, nr, 3);
	put_load(c, offsetof(struct seccomp_data, args) + row->arg * sizeof(uint64_t));
	put_unless(c, row->value, 1);
	put_return(c, SECCOMP_RET_ERRNO | EPERM);
}

/* What the number alone decided before. */
static void put_answer(struct code *c, uint32_t nr, uint32_t answer)
{
	put_load(c, offsetof(struct seccomp_data, nr));
	put_unless(c, nr, 1);
	put_return(c, answer);
}

/* A call that is refused anyway needs no guard. */
static bool may_pass(uint32_t answer)
{
	uint32_t action = answer & SECCOMP_RET_ACTION_FULL;

	return answer == DISPATCH_REST || action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

static void put_rows(struct code *c, uint32_t *answers, size_t n_answers)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int nr = seccomp_syscall_resolve_name(rows[i].name);

		if (nr < 0 || (size_t)nr >= n_answers || !may_pass(answers[nr]))
			continue;
		put_row(c, &rows[i], (uint32_t)nr);
		bool is_last = i + 1 == ARRAY_SIZE(rows) || !streq(rows[i].name, rows[i + 1].name);
		if (!is_last || answers[nr] == DISPATCH_REST)
			continue;
		put_answer(c, (uint32_t)nr, answers[nr]);
		answers[nr] = DISPATCH_REST;
	}
}

int guard_prepend(struct seccomp_program *p, uint32_t arch, uint32_t *answers, size_t n_answers,
	struct err *err)
{
	struct code c = { .n = 0 };

	if (p->n_code + CODE_MAX > BPF_MAXINSNS)
		return err_set(
			err, -E2BIG, "the rules make more than %d instructions", BPF_MAXINSNS);
	struct sock_filter *code = calloc(p->n_code + CODE_MAX, sizeof(*code));
	if (!code)
		return err_set(err, -ENOMEM, "out of memory");
	put_load(&c, offsetof(struct seccomp_data, arch));
	put_unless(&c, arch, 0); /* the distance is known at the end */
	put_rows(&c, answers, n_answers);
	c.at[1].jf = (uint8_t)(c.n - 2);
	memcpy(code, c.at, c.n * sizeof(*code));
	if (p->n_code > 0)
		memcpy(code + c.n, p->code, p->n_code * sizeof(*code));
	free(p->code);
	p->code = code;
	p->n_code += c.n;
	return 0;
}
