#include "box/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"

void seccomp_fini(struct seccomp_program *p)
{
	free(p->code);
	*p = (struct seccomp_program){ 0 };
}

int seccomp_install(const struct seccomp_program *p, struct err *err)
{
	if (p->n_code == 0 || p->n_code > BPF_MAXINSNS)
		return err_set(err, -EINVAL, "system call filter of %zu instructions", p->n_code);

	struct sock_fprog program = { .len = (unsigned short)p->n_code, .filter = p->code };
	/* TSYNC: there should be one thread only, but a thread without the filter
	 * would be a way around it. The answer is then the thread that can not follow. */
	long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
	if (r > 0)
		return err_set(err, -EBUSY, "thread %ld can not take the system call filter", r);
	if (r < 0) {
		int code = errno;

		return err_set(err, -code, "load system call filter: %s", strerrordesc_np(code));
	}
	return 0;
}

/* The one register of the machine, and what it runs on. */
struct machine {
	const struct seccomp_program *program;
	const struct seccomp_data *call;
	size_t pc;
	uint32_t a;
	bool by_args;
};

static bool load(struct machine *m, uint32_t at)
{
	if (at % sizeof(m->a) != 0 || at > sizeof(*m->call) - sizeof(m->a))
		return false;
	if (at >= offsetof(struct seccomp_data, args))
		m->by_args = true;
	memcpy(&m->a, (const char *)m->call + at, sizeof(m->a));
	return true;
}

static bool jump(struct machine *m, const struct sock_filter *f, bool taken)
{
	m->pc += taken ? f->jt : f->jf;
	return true;
}

/* One instruction but RET; false when it is none that a filter is made of. */
static bool step(struct machine *m, const struct sock_filter *f)
{
	switch (f->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		return load(m, f->k);
	case BPF_ALU | BPF_AND | BPF_K:
		m->a &= f->k;
		return true;
	case BPF_JMP | BPF_JA:
		m->pc += f->k;
		return true;
	case BPF_JMP | BPF_JEQ | BPF_K:
		return jump(m, f, m->a == f->k);
	case BPF_JMP | BPF_JGT | BPF_K:
		return jump(m, f, m->a > f->k);
	case BPF_JMP | BPF_JGE | BPF_K:
		return jump(m, f, m->a >= f->k);
	case BPF_JMP | BPF_JSET | BPF_K:
		return jump(m, f, (m->a & f->k) != 0);
	default:
		return false;
	}
}

uint32_t seccomp_eval(
	const struct seccomp_program *p, const struct seccomp_data *call, bool *ret_by_args)
{
	struct machine m = { .program = p, .call = call };
	uint32_t answer = SECCOMP_RET_KILL_PROCESS;

	/* Jumps only go forward, so this ends. */
	while (m.pc < p->n_code) {
		const struct sock_filter *f = &p->code[m.pc++];

		if (f->code == (BPF_RET | BPF_K)) {
			answer = f->k;
			break;
		}
		if (!step(&m, f))
			break;
	}
	if (ret_by_args)
		*ret_by_args = m.by_args;
	return answer;
}
