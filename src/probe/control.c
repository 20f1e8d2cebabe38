#include "probe/control.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "probe/host.h"
#include "probe/trial.h"

/* How far up from our own group a place is looked for. */
#define CLIMB_MAX 16

/* A limit, where each version keeps it, and a value that is harmless to try. */
static const struct limit {
	const char *name;
	const char *controller;
	const char *v1_file;
	const char *v1_value;
	const char *v2_file;
	const char *v2_value;
} limits[] = {
	{ "memory", "memory", "memory.limit_in_bytes", "67108864", "memory.max", "67108864" },
	{ "cpu", "cpu", "cpu.cfs_quota_us", "50000", "cpu.max", "50000 100000" },
	{ "pids", "pids", "pids.max", "16", "pids.max", "16" },
	{ "swap", "memory", "memory.memsw.limit_in_bytes", "-1", "memory.swap.max", "0" },
};

static const char fix_v1_user[] =
	FIX_ROOT_KEEPER "\nor boot with systemd.unified_cgroup_hierarchy=1";
static const char fix_delegate[] =
	"systemd-run --user --scope -p Delegate=yes belljar ...\n"
	"or, for good, put \"[Service]\" and \"Delegate=cpu memory pids\" on two lines into\n"
	"/etc/systemd/system/user@.service.d/delegate.conf, and log in again";
static const char fix_read_only[] = "in a container: mount /sys/fs/cgroup writable "
				    "(docker run --privileged --cgroupns=private)";
static const char fix_absent[] =
	"boot with cgroup_enable=memory, without cgroup_disable=, on a "
	"kernel with CONFIG_MEMCG, CONFIG_CFS_BANDWIDTH, CONFIG_CGROUP_PIDS";

static const struct limit *find_limit(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		if (streq(limits[i].name, name))
			return &limits[i];
	}
	return NULL;
}

static bool is_v2(const struct mountinfo *m)
{
	return streq(m->type, "cgroup2");
}

/* The hierarchy that has this controller: a version 1 one takes it away from
 * version 2. With NULL, the version 2 hierarchy. */
static const struct mountinfo *find_mount(const struct host *host, const char *controller)
{
	const struct mountinfo *unified = NULL;

	for (size_t i = 0; i < host->mounts.n; i++) {
		const struct mountinfo *m = &host->mounts.rows[i];

		if (is_v2(m) && !unified)
			unified = m;
		if (controller && streq(m->type, "cgroup") && str_has_word(m->super, controller))
			return m;
	}
	return unified;
}

/* True when it could be read where things are mounted; else the finding says so. */
static bool can_see_mounts(const struct host *host, struct finding *ret)
{
	if (host->mounts_error == 0)
		return true;
	finding_set(ret, PROBE_UNKNOWN, "/proc/self/mountinfo: %s", strerror(-host->mounts_error));
	ret->fix = FIX_PROC;
	return false;
}

void control_probe_version(const struct probe *self, const struct host *host, struct finding *ret)
{
	const struct mountinfo *unified = find_mount(host, NULL);
	const struct mountinfo *memory = find_mount(host, "memory");

	(void)self;
	if (!can_see_mounts(host, ret))
		return;
	if (!memory)
		finding_set(ret, PROBE_MISSING, "none is mounted");
	else if (memory == unified)
		finding_set(ret, PROBE_OK, "v2 at %s", unified->point);
	else
		finding_set(ret, PROBE_PARTIAL, "%s, memory at %s", unified ? "hybrid" : "v1",
			memory->point);
}

/* The group goes when its last process has; a killed one takes a moment. */
static void remove_group(const char *path)
{
	static const struct timespec nap = { .tv_nsec = 1000000 };

	for (int i = 0; i < 100 && rmdir(path) < 0 && errno == EBUSY; i++)
		(void)nanosleep(&nap, NULL);
}

/* Is `word` among the words that a file such as cgroup.controllers holds? */
static bool file_has_word(const char *dir, const char *file, const char *word)
{
	char path[PATH_MAX];
	char text[1024];

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
		return false;
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	return str_has_word(text, word);
}

/* In the new group at `path`: write the limit, and let a child enter. */
static int use_group(const char *path, const struct limit *l, bool v2, struct err *err)
{
	char file[PATH_MAX];

	if (v2 && !file_has_word(path, "cgroup.controllers", l->controller))
		return err_set(err, -EOPNOTSUPP, "%s is not switched on", l->controller);
	if (snprintf(file, sizeof(file), "%s/%s", path, v2 ? l->v2_file : l->v1_file) >=
		(int)sizeof(file))
		return -ENAMETOOLONG;
	int r = fd_write_text(AT_FDCWD, file, v2 ? l->v2_value : l->v1_value);
	if (r < 0)
		return err_set(err, r, "write %s: %s", v2 ? l->v2_file : l->v1_file, strerror(-r));
	if (snprintf(file, sizeof(file), "%s/cgroup.procs", path) >= (int)sizeof(file))
		return -ENAMETOOLONG;
	return trial_run(0, trial_cgroup, file, err);
}

static int try_in(const char *dir, const struct limit *l, bool v2, struct err *err)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/belljar-doctor-%d", dir, (int)getpid()) >=
		(int)sizeof(path))
		return err_set(err, -ENAMETOOLONG, "the path of our group is too long");
	if (mkdir(path, 0700) < 0)
		return err_errno(err, "make a group in %s", dir);
	int r = use_group(path, l, v2, err);
	remove_group(path);
	return r;
}

/* Can the controller be switched on for groups in `dir`? Not tried: that would
 * change more than our own. */
static bool can_switch_on(const char *dir, const struct limit *l)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/cgroup.subtree_control", dir) < (int)sizeof(path) &&
	       file_has_word(dir, "cgroup.controllers", l->controller) && access(path, W_OK) == 0;
}

/* What the search for a place came to. */
struct search {
	char dir[PATH_MAX]; /* where it works, or can be made to */
	bool is_off;        /* it must be switched on first */
	int code;           /* else: why not in our own group */
	struct err err;
};

/* From our own group up to the root of what is mounted. */
static void search_upwards(const struct mountinfo *m, const struct limit *l, struct search *s)
{
	size_t top = strlen(m->point);

	for (int i = 0; i < CLIMB_MAX; i++) {
		struct err err = { 0 };
		int r = try_in(s->dir, l, is_v2(m), &err);

		s->is_off = r == -EOPNOTSUPP && can_switch_on(s->dir, l);
		if (r == 0 || s->is_off) {
			s->code = 0;
			return;
		}
		if (s->code == 0) {
			s->code = r;
			s->err = err;
		}
		char *slash = strrchr(s->dir, '/');
		if (strlen(s->dir) <= top || !slash)
			return;
		*slash = '\0';
	}
}

static int search(const struct host *host, const struct mountinfo *m, const struct limit *l,
	struct search *ret)
{
	char own[PATH_MAX];

	int r = mountinfo_find_cgroup(
		host->cgroups, is_v2(m) ? NULL : l->controller, own, sizeof(own));
	if (r < 0)
		return err_set(&ret->err, r, "/proc/self/cgroup does not tell our group");
	r = mountinfo_cgroup_dir(m, own, ret->dir, sizeof(ret->dir));
	if (r < 0)
		return err_set(&ret->err, r, "the path of our group is too long");
	search_upwards(m, l, ret);
	return ret->code;
}

static const char *choose_fix(const struct mountinfo *m, int code)
{
	if (code == -EROFS || str_has_word(m->options, "ro"))
		return fix_read_only;
	if (code == -ENOENT || code == -EOPNOTSUPP)
		return is_v2(m) && geteuid() != 0 ? fix_delegate : fix_absent;
	return is_v2(m) ? fix_delegate : fix_v1_user;
}

static void probe_limit(const struct host *host, const struct limit *l, struct finding *ret)
{
	const struct mountinfo *m = find_mount(host, l->controller);
	struct search s = { 0 };

	if (!can_see_mounts(host, ret))
		return;
	if (!m) {
		finding_set(
			ret, PROBE_MISSING, "no hierarchy has the %s controller", l->controller);
		ret->fix = fix_absent;
		return;
	}
	if (access(m->point, F_OK) < 0) {
		finding_set(ret, PROBE_MISSING, "%s is hidden by another mount", m->point);
		return;
	}
	int r = search(host, m, l, &s);
	if (r < 0) {
		finding_set(ret, r == -ETIMEDOUT ? PROBE_UNKNOWN : PROBE_MISSING, "%s", s.err.text);
		ret->fix = choose_fix(m, r);
		return;
	}
	finding_set(ret, PROBE_OK, "%s, %s %s", is_v2(m) ? "v2" : "v1",
		s.is_off ? "can be switched on in" : "tried in", s.dir);
}

void control_probe_limit(const struct probe *self, const struct host *host, struct finding *ret)
{
	probe_limit(host, find_limit(self->with), ret);
}

/* Without a group RLIMIT_NPROC holds, but not for the host's root. */
void control_probe_pids(const struct probe *self, const struct host *host, struct finding *ret)
{
	control_probe_limit(self, host, ret);
	if (ret->state == PROBE_MISSING && (host->uid != 0 || host->has_uids))
		ret->state = PROBE_PARTIAL;
}

void control_probe_swap(const struct probe *self, const struct host *host, struct finding *ret)
{
	char text[256];
	ssize_t n = fd_read_text(AT_FDCWD, "/proc/swaps", text, sizeof(text));

	(void)self;
	/* the file has one line of headings */
	if (n >= 0 && !strchr(text, '\n')) {
		finding_set(ret, PROBE_OK, "this host has no swap");
		return;
	}
	probe_limit(host, find_limit("swap"), ret);
	if (ret->fix == fix_absent)
		ret->fix = NULL; /* the row knows better: memory is there, swap is not counted */
}
