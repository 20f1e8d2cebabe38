#include "probe/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "probe/trial.h"

void finding_set(struct finding *f, enum probe_state state, const char *fmt, ...)
{
	va_list ap;

	f->state = state;
	va_start(ap, fmt);
	(void)vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
	for (char *p = f->detail; *p; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
}

/* Only the file is asked: a name service may take seconds. */
static void find_user(uid_t uid, char *buf, size_t size)
{
	FILE *file = fopen("/etc/passwd", "re");

	buf[0] = '\0';
	if (!file)
		return;
	for (const struct passwd *p = fgetpwent(file); p; p = fgetpwent(file)) {
		if (p->pw_uid != uid)
			continue;
		(void)snprintf(buf, size, "%s", p->pw_name);
		break;
	}
	(void)fclose(file);
}

static bool has_capability(unsigned cap)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	return data[cap / 32].effective & (1u << (cap % 32));
}

void host_open(struct host *h)
{
	struct err err = { 0 };

	*h = (struct host){ .uid = geteuid() };
	(void)uname(&h->uts);
	h->tools = tool_start_all();
	find_user(h->uid, h->user, sizeof(h->user));
	h->is_privileged = has_capability(CAP_SYS_ADMIN);
	h->has_uids = h->is_privileged && trial_run(0, trial_switch, NULL, NULL) == 0;
	h->user_error = trial_run(CLONE_NEWUSER, trial_user, NULL, &err);
	if (h->user_error == 0)
		h->namespaces = CLONE_NEWUSER;
	memcpy(h->user_text, err.text, sizeof(h->user_text));
	h->mounts_error = mountinfo_read("/proc/self/mountinfo", &h->mounts);
	ssize_t n = fd_read_text(AT_FDCWD, "/proc/self/cgroup", h->cgroups, sizeof(h->cgroups));
	if (n < 0)
		h->cgroups[0] = '\0';
}

void host_fini(struct host *h)
{
	tool_free_all(h->tools);
	mountinfo_fini(&h->mounts);
}
