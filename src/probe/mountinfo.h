/* /proc/self/mountinfo and /proc/self/cgroup: where things are mounted, and in
 * which control groups this process is. The texts come from the kernel, but the
 * names in them from anyone who may mount or make groups. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* A host with many containers has a few thousand mounts of some 200 bytes. */
#define MOUNTINFO_SIZE_MAX (4u << 20)

/* One line. The strings lie in the line that was parsed. */
struct mountinfo {
	const char *root;    /* which directory of the file system is mounted */
	const char *point;   /* where */
	const char *options; /* of this mount: "rw,nosuid" */
	const char *type;    /* "cgroup2" */
	const char *super;   /* options of the file system: "rw,memory" */
};

/* Parse one line in place, undoing the escapes of blanks in names; 0, or -EINVAL
 * for a line of another form, which may then be changed in part. */
int mountinfo_parse_line(char *line, struct mountinfo *ret);

/* Every mount of this process. */
struct mountinfo_table {
	char *text;
	struct mountinfo *rows;
	size_t n;
};

/* Parse a whole text, which the table takes over, skipping lines of another form;
 * 0 or -ENOMEM. */
int mountinfo_parse(char *text, struct mountinfo_table *ret);

/* Read and parse the file at `path`; 0 or a negative errno. */
int mountinfo_read(const char *path, struct mountinfo_table *ret);

void mountinfo_fini(struct mountinfo_table *t);

/* Where this process stands in one hierarchy, from the text of /proc/self/cgroup:
 * of the version 1 hierarchy that has `controller`, or of version 2 when it is
 * NULL. 0 with the path in `buf`, -ENOENT when the text does not say, or
 * -ENAMETOOLONG. */
int mountinfo_find_cgroup(const char *text, const char *controller, char *buf, size_t size);

/* The directory in which the control group `path` appears under the mount `m`;
 * when it is not below the mounted part, the mount point itself. 0 or
 * -ENAMETOOLONG. */
int mountinfo_cgroup_dir(const struct mountinfo *m, const char *path, char *buf, size_t size);
