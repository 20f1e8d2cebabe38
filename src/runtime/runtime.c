#include "runtime/runtime.h"

#include "base/str.h"

const struct runtime *const runtimes[] = {
	&runtime_native,
	&runtime_docker,
	&runtime_firecracker,
	NULL,
};

const struct runtime *runtime_find(const char *name)
{
	for (size_t i = 0; runtimes[i]; i++) {
		if (streq(runtimes[i]->name, name))
			return runtimes[i];
	}
	return NULL;
}

static const char *probe_docker(void)
{
	return "docker_not_supported";
}

const struct runtime runtime_docker = {
	.name = "docker",
	.summary = "containers of a Docker engine; not supported by this version",
	.probe = probe_docker,
};

static const char *probe_firecracker(void)
{
	return "firecracker_not_supported";
}

const struct runtime runtime_firecracker = {
	.name = "firecracker",
	.summary = "virtual machines of Firecracker; not supported by this version",
	.probe = probe_firecracker,
};
