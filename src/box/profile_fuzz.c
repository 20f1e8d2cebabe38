/* Any text as a profile: it is refused, or its program ends for every call, keeps
 * other machines' calls out and is one the kernel would take. */
#include "box/profile.h"

#include <assert.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "box/seccomp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_program(const struct seccomp_program *p)
{
	assert(p->n_code > 0 && p->n_code <= BPF_MAXINSNS);
	for (int nr = -1; nr < 600; nr++) {
		struct seccomp_data call = { .nr = nr, .arch = seccomp_arch_native() };

		(void)seccomp_eval(p, &call, NULL);
		memset(call.args, 0xff, sizeof(call.args));
		(void)seccomp_eval(p, &call, NULL);
		call.arch = AUDIT_ARCH_I386;
		assert(seccomp_eval(p, &call, NULL) == SECCOMP_RET_KILL_PROCESS);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seccomp_program p = { 0 };
	struct err err = { 0 };

	if (profile_compile((const char *)data, size, &p, &err) < 0) {
		assert(err.code < 0 && err.text[0]);
		assert(!p.code);
		return 0;
	}
	check_program(&p);
	seccomp_fini(&p);
	return 0;
}
