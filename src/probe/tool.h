/* Other programs and services of the host: container engines and runtimes, the
 * languages that boxes use, KVM. */
#pragma once
#include "probe/probe.h"

struct tool_run;

/* Longest that all the programs together may take to tell their versions. */
#define TOOL_TIMEOUT_MS 900

/* Start every program of the table that is installed, asking for its version.
 * The caller must tool_free_all() the result. */
struct tool_run *tool_start_all(void);

/* Kill and reap what still runs. NULL is allowed. */
void tool_free_all(struct tool_run *runs);

/* The absolute path of a program in `buf`, looked for in PATH and then in the
 * usual places, which a user's PATH may lack; false when there is none. */
bool tool_find(const char *name, char *buf, size_t size);

/* Is a program of the table installed and does it run? `self->name` names it. */
probe_fn tool_probe_program;

/* The Docker client, and whether an engine answers. */
probe_fn tool_probe_docker;

/* /dev/kvm */
probe_fn tool_probe_kvm;
