#include "probe/tool.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "probe/engine.h"
#include "probe/host.h"
#include "probe/spawn.h"

static const char usual_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/* Programs asked for their version. Languages are looked for where the host image
 * has them and nowhere else: what is in somebody's PATH is not in a box. */
static const struct tool {
	const char *name;
	const char *path; /* NULL: search */
} tools[] = {
	{ "podman", NULL },
	{ "runc", NULL },
	{ "runsc", NULL },
	{ "bwrap", NULL },
	{ "python3", "/usr/bin/python3" },
	{ "node", "/usr/bin/node" },
	{ "bash", "/usr/bin/bash" },
};

struct tool_run {
	char path[256]; /* "" when it is not installed */
	int error;      /* why it could not be started, or 0 */
	struct spawn spawn;
};

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Only absolute directories: the current one is no place to take programs from. */
static bool find_in(const char *dirs, const char *name, char *buf, size_t size)
{
	while (*dirs) {
		size_t n = strcspn(dirs, ":");

		if (dirs[0] == '/') {
			int w = snprintf(buf, size, "%.*s/%s", (int)n, dirs, name);
			if (w > 0 && (size_t)w < size && is_program(buf))
				return true;
		}
		dirs += n + (dirs[n] == ':');
	}
	return false;
}

bool tool_find(const char *name, char *buf, size_t size)
{
	const char *path = getenv("PATH");

	return (path && find_in(path, name, buf, size)) || find_in(usual_path, name, buf, size);
}

struct tool_run *tool_start_all(void)
{
	struct tool_run *runs = xcalloc(ARRAY_SIZE(tools), sizeof(*runs));

	for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
		struct tool_run *r = &runs[i];

		if (tools[i].path && is_program(tools[i].path))
			(void)snprintf(r->path, sizeof(r->path), "%s", tools[i].path);
		else if (tools[i].path || !tool_find(tools[i].name, r->path, sizeof(r->path)))
			r->path[0] = '\0';
		if (!r->path[0])
			continue;
		const char *const argv[] = { r->path, "--version", NULL };
		r->error = spawn_start(&r->spawn, argv, TOOL_TIMEOUT_MS);
	}
	return runs;
}

void tool_free_all(struct tool_run *runs)
{
	for (size_t i = 0; runs && i < ARRAY_SIZE(tools); i++) {
		/* past its deadline if it was never asked for: killed at once */
		runs[i].spawn.deadline = 0;
		(void)spawn_finish(&runs[i].spawn);
	}
	free(runs);
}

static struct tool_run *find_run(const struct host *host, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
		if (streq(tools[i].name, name))
			return &host->tools[i];
	}
	return NULL;
}

/* The version in a first line such as "runc version 1.1.5+ds1" or "v20.20.2": the
 * first word with a digit followed by a dot. "" when there is none. */
static void find_version(const char *output, char *buf, size_t size)
{
	buf[0] = '\0';
	for (const char *p = output; *p && *p != '\n'; p++) {
		if (!isdigit((unsigned char)p[0]))
			continue;
		size_t digits = strspn(p, "0123456789");
		if (p[digits] == '.' && isdigit((unsigned char)p[digits + 1])) {
			size_t n = strcspn(p, " \t\n,()");
			(void)snprintf(buf, size, "%.*s", (int)n, p);
			return;
		}
		p += digits - 1;
	}
}

void tool_probe_program(const struct probe *self, const struct host *host, struct finding *ret)
{
	struct tool_run *r = find_run(host, self->name);
	char version[48];

	if (!r || !r->path[0]) {
		finding_set(ret, PROBE_MISSING, "not installed");
		return;
	}
	if (r->error < 0) {
		finding_set(ret, PROBE_UNKNOWN, "%s: %s", r->path, strerror(-r->error));
		return;
	}
	int status = spawn_finish(&r->spawn);
	find_version(r->spawn.output, version, sizeof(version));
	if (status == -ETIMEDOUT)
		finding_set(ret, PROBE_UNKNOWN, "%s did not tell its version in time", r->path);
	else if (status != 0)
		finding_set(ret, PROBE_PARTIAL, "%s is there but does not run", r->path);
	else
		finding_set(ret, PROBE_OK, "%s at %s", version[0] ? version : "version unknown,",
			r->path);
}

void tool_probe_docker(const struct probe *self, const struct host *host, struct finding *ret)
{
	char client[256];
	char version[64];
	char where[128];

	(void)self;
	(void)host;
	bool has_client = tool_find("docker", client, sizeof(client));
	int r = engine_ask(version, sizeof(version), where, sizeof(where));
	const char *client_text = has_client ? client : "no client";

	if (r == 0)
		finding_set(ret, PROBE_OK, "engine %s at %s, %s", version, where, client_text);
	else if (r == -EPROTONOSUPPORT)
		finding_set(ret, PROBE_UNKNOWN, "%s is not a local socket: not asked", where);
	else if (r == -ETIMEDOUT)
		finding_set(ret, PROBE_UNKNOWN, "engine at %s does not answer", where);
	else if (r == -EACCES)
		finding_set(ret, PROBE_MISSING, "%s is not open to this user", where);
	else if (r == -EBADMSG)
		finding_set(ret, PROBE_UNKNOWN, "what listens at %s is no engine", where);
	else if (has_client)
		finding_set(ret, PROBE_MISSING, "%s is there, but no engine runs", client);
	else
		finding_set(ret, PROBE_MISSING, "not installed");
	if (r == -ENOENT && has_client)
		ret->fix = "sudo systemctl start docker, or dockerd";
	if (r == -EACCES)
		ret->fix = "sudo usermod -aG docker $USER (which gives root), and log in again";
}

void tool_probe_kvm(const struct probe *self, const struct host *host, struct finding *ret)
{
	AUTO_FD fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	(void)self;
	(void)host;
	if (fd < 0 && errno == ENOENT) {
		finding_set(ret, PROBE_MISSING, "/dev/kvm does not exist");
		return;
	}
	if (fd < 0 && errno == EACCES)
		ret->fix = "sudo usermod -aG kvm $USER, and log in again";
	if (fd < 0) {
		finding_set(ret, PROBE_MISSING, "open /dev/kvm: %s", strerror(errno));
		return;
	}
	int version = ioctl(fd, KVM_GET_API_VERSION, 0);
	if (version < 0)
		finding_set(ret, PROBE_MISSING, "/dev/kvm opens but is not KVM");
	else
		finding_set(ret, PROBE_OK, "/dev/kvm opens, API %d", version);
}
