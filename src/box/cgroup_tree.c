/* Limits and counters of one group in one hierarchy, as the tables of its version
 * say. Files are opened relative to the parent group, so that a group costs no
 * descriptor of its own, unless counters are read from it time and again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_backend.h"

/* "<group>/<file>", where no file of the kernel's has a longer name. */
#define FILE_NAME_MAX (CGROUP_NAME_MAX + 64)

/* The largest of them, memory.oom_control, has three short lines. */
#define GAUGE_TEXT_MAX 4096

static int write_knob(const struct cgroup_tree *t, const char *name, const struct cgroup_knob *k,
	const struct limits *limits)
{
	char path[FILE_NAME_MAX];
	char value[CGROUP_VALUE_MAX];

	k->format(limits, value);
	(void)snprintf(path, sizeof(path), "%s/%s", name, k->file);
	return fd_write_text(t->parent_fd, path, value);
}

static bool has_knob(const struct cgroup_tree *t, size_t i, uint32_t spared)
{
	return (t->knobs & UINT32_C(1) << i) &&
	       (t->controllers & ~spared & CONTROLLER_BIT(t->ops->knobs[i].controller));
}

static int write_knobs(const struct cgroup_tree *t, const char *name, const struct limits *limits,
	uint32_t spared, bool backwards, const struct cgroup_knob **ret_failed)
{
	for (size_t i = 0; i < t->ops->n_knobs; i++) {
		size_t row = backwards ? t->ops->n_knobs - 1 - i : i;

		if (!has_knob(t, row, spared))
			continue;
		int r = write_knob(t, name, &t->ops->knobs[row], limits);
		if (r < 0) {
			*ret_failed = &t->ops->knobs[row];
			return r;
		}
	}
	return 0;
}

int cgroup_tree_set_limits(const struct cgroup_tree *t, const char *name,
	const struct limits *limits, uint32_t spared, struct err *err)
{
	const struct cgroup_knob *failed = NULL;

	int r = write_knobs(t, name, limits, spared, false, &failed);
	/* v1 wants memory <= memory + swap at every moment, so that a limit can be
	 * lowered in one order only, and raised only in the other */
	if (r == -EINVAL)
		r = write_knobs(t, name, limits, spared, true, &failed);
	if (r < 0)
		return err_set(err, r, "write %s of control group '%s': %s", failed->file, name,
			strerror(-r));
	return 0;
}

void cgroup_tree_probe(struct cgroup_tree *t, const char *name, const struct limits *limits)
{
	for (size_t i = 0; i < t->ops->n_knobs; i++) {
		const struct cgroup_knob *k = &t->ops->knobs[i];

		if (!(t->controllers & CONTROLLER_BIT(k->controller)))
			continue;
		int r = write_knob(t, name, k, limits);
		if (r == 0)
			t->knobs |= UINT32_C(1) << i;
		else if (r != -ENOENT || !k->optional)
			t->controllers &= ~CONTROLLER_BIT(k->controller);
	}
}

int cgroup_parse_gauge(char *text, const char *key, uint64_t *ret)
{
	char *line = NULL;

	if (!key)
		return str_parse_u64(text, UINT64_MAX, ret);
	while ((line = strsep(&text, "\n"))) {
		const char *word = strsep(&line, " ");

		if (line && streq(word, key))
			return str_parse_u64(line, UINT64_MAX, ret);
	}
	return -ENOENT;
}

static void read_gauge(const struct cgroup_tree *t, const char *name, const struct cgroup_gauge *g,
	int *held_fd, struct cgroup_stats *ret)
{
	char path[FILE_NAME_MAX];
	char text[GAUGE_TEXT_MAX];
	uint64_t value = 0;
	AUTO_FD once_fd = -1;
	int *fd = held_fd ? held_fd : &once_fd;

	(void)snprintf(path, sizeof(path), "%s/%s", name, g->file);
	if (*fd < 0)
		*fd = openat(t->parent_fd, path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0 || fd_reread_text(*fd, text, sizeof(text)) < 0 ||
		cgroup_parse_gauge(text, g->key, &value) < 0)
		return;
	*(uint64_t *)((char *)ret + g->offset) = value / g->divisor;
}

void cgroup_tree_read_stats(const struct cgroup_tree *t, const char *name,
	int held_fds[CGROUP_GAUGES_MAX], struct cgroup_stats *ret)
{
	for (size_t i = 0; i < t->ops->n_gauges; i++) {
		const struct cgroup_gauge *g = &t->ops->gauges[i];

		if (g->controllers == 0 || (t->controllers & g->controllers))
			read_gauge(t, name, g, held_fds ? &held_fds[i] : NULL, ret);
	}
}
