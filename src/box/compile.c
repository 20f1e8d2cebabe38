#include "box/compile.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/dispatch.h"
#include "box/guard.h"
#include "box/seccomp.h"

/* Numbers of system calls end far below this on every architecture we run on. */
#define NUMBERS_MAX 1024

struct compile {
	scmp_filter_ctx filter; /* only the rules with conditions */
	uint32_t default_action;
	unsigned n_rules;
	struct call {
		uint32_t action; /* of its first rule */
		bool has_rule;
		bool has_plain_rule;    /* one without conditions */
		bool has_mixed_actions; /* only with conditions */
		bool is_in_filter;
	} calls[NUMBERS_MAX];
};

int compile_new(uint32_t default_action, struct compile **ret, struct err *err)
{
	CLEANUP(compile_freep) struct compile *c = xnew(struct compile);

	c->default_action = default_action;
	c->filter = seccomp_init(default_action);
	if (!c->filter)
		return err_set(
			err, -EINVAL, "libseccomp refuses default action %#x", default_action);
	int r = seccomp_attr_set(c->filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r < 0)
		return err_set(err, r, "libseccomp: %s", strerror(-r));
	*ret = TAKE(c);
	return 0;
}

void compile_free(struct compile *c)
{
	if (c && c->filter)
		seccomp_release(c->filter);
	free(c);
}

/* A rule without conditions leaves no room for another answer. */
static bool contradicts(const struct call *call, uint32_t action, bool plain)
{
	if (!call->has_rule || (!plain && !call->has_plain_rule))
		return false;
	return call->has_mixed_actions || call->action != action;
}

static void remember(struct call *call, uint32_t action, bool plain)
{
	if (!call->has_rule)
		call->action = action;
	call->has_mixed_actions |= call->action != action;
	call->has_plain_rule |= plain;
	call->has_rule = true;
}

static int add_conditions(struct compile *c, int nr, uint32_t action,
	const struct scmp_arg_cmp *args, unsigned n_args, struct err *err)
{
	int r = seccomp_rule_add_array(c->filter, action, nr, n_args, args);

	if (r == -EEXIST)
		return err_set(err, -EINVAL, "another rule has the same conditions");
	if (r < 0)
		return err_set(err, r, "libseccomp refuses it: %s", strerror(-r));
	c->calls[nr].is_in_filter = true;
	return 0;
}

int compile_add(struct compile *c, const char *name, uint32_t action,
	const struct scmp_arg_cmp *args, unsigned n_args, struct err *err)
{
	if (++c->n_rules > COMPILE_RULES_MAX)
		return err_set(err, -E2BIG, "more than %u rules", COMPILE_RULES_MAX);
	int nr = seccomp_syscall_resolve_name(name);
	if (nr < 0 || nr >= NUMBERS_MAX)
		return 0;

	struct call *call = &c->calls[nr];
	bool plain = n_args == 0;
	if (contradicts(call, action, plain))
		return err_set(err, -EINVAL, "'%s' has another rule that says otherwise", name);
	remember(call, action, plain);
	/* libseccomp wants no rule that says what the default does anyway */
	if (plain || action == c->default_action)
		return 0;
	int r = add_conditions(c, nr, action, args, n_args, err);
	return r < 0 ? err_wrap(err, r, name) : 0;
}

/* What libseccomp makes of the rules; up to version 2.5 it only writes to files. */
static int export_code(struct compile *c, struct seccomp_program *ret, struct err *err)
{
	AUTO_FD fd = memfd_create("filter", MFD_CLOEXEC);
	AUTO_FREE char *code = NULL;
	size_t size = 0;

	if (fd < 0)
		return err_errno(err, "memfd");
	int r = seccomp_export_bpf(c->filter, fd);
	if (r < 0)
		return err_set(err, r, "libseccomp can not compile the rules: %s", strerror(-r));
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, "lseek");
	r = fd_read_all(fd, BPF_MAXINSNS * sizeof(struct sock_filter), &code, &size);
	if (r == -EFBIG || (r == 0 && size % sizeof(struct sock_filter) != 0))
		return err_set(
			err, -E2BIG, "the rules make more than %d instructions", BPF_MAXINSNS);
	if (r < 0)
		return err_set(err, r, "read filter: %s", strerror(-r));
	ret->code = (struct sock_filter *)TAKE(code);
	ret->n_code = size / sizeof(struct sock_filter);
	return 0;
}

static size_t highest_number(void)
{
	for (int nr = NUMBERS_MAX - 1; nr > 0; nr--) {
		AUTO_FREE char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);

		if (name)
			return (size_t)nr;
	}
	return 0;
}

static uint32_t answer_to(const struct compile *c, size_t nr)
{
	const struct call *call = &c->calls[nr];

	if (call->has_plain_rule)
		return call->action;
	return call->is_in_filter ? DISPATCH_REST : c->default_action;
}

/* Calls younger than libseccomp get ENOSYS where others get an errno: nobody who
 * wrote the rules thought of them, and programs that do know them take ENOSYS for
 * "use the old one", but anything else for a failure. */
static int prepend_numbers(const struct compile *c, struct seccomp_program *p, struct err *err)
{
	uint32_t answers[NUMBERS_MAX];
	size_t n = highest_number() + 1;
	bool by_errno = (c->default_action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;

	for (size_t nr = 0; nr < n && nr < NUMBERS_MAX; nr++)
		answers[nr] = answer_to(c, nr);
	if (n < NUMBERS_MAX)
		answers[n++] = by_errno ? SCMP_ACT_ERRNO(ENOSYS) : c->default_action;
	int r = guard_prepend(p, seccomp_arch_native(), answers, n, err);
	return r < 0 ? r : dispatch_prepend(p, seccomp_arch_native(), answers, n, err);
}

/* A program that starves our own init would make every run fail in a way that says
 * nothing about the cause. */
static int check_needs(const struct seccomp_program *p, struct err *err)
{
	static const char *const needs[] = { "brk", "clone", "close", "execve", "exit_group",
		"ioctl", "mmap", "openat2", "prctl", "read", "rt_sigreturn", "sendmsg", "wait4",
		"write" };

	for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
		struct seccomp_data call = {
			.nr = seccomp_syscall_resolve_name(needs[i]),
			.arch = seccomp_arch_native(),
		};
		uint32_t answer = seccomp_eval(p, &call, NULL);

		if (answer != SECCOMP_RET_ALLOW && answer != SECCOMP_RET_LOG)
			return err_set(err, -EINVAL, "no rule allows '%s', which every box needs",
				needs[i]);
	}
	return 0;
}

static void fini_programp(struct seccomp_program *p)
{
	seccomp_fini(p);
}

int compile_finish(struct compile *c, struct seccomp_program *ret, struct err *err)
{
	CLEANUP(fini_programp) struct seccomp_program p = { 0 };
	int r = export_code(c, &p, err);

	if (r < 0)
		return r;
	r = prepend_numbers(c, &p, err);
	if (r == 0)
		r = check_needs(&p, err);
	if (r < 0)
		return r;
	*ret = p;
	p = (struct seccomp_program){ 0 };
	return 0;
}
