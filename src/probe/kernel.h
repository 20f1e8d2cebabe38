/* Probes of the kernel: its version, its calls, its settings. */
#pragma once
#include "probe/probe.h"

struct err;

/* What kernel_probe_trial() is to try: the `with` of its rows. */
struct kernel_trial {
	uint64_t namespaces; /* CLONE_NEW* flags, without the user namespace */
	bool needs_user;     /* in a user namespace, where there is one */
	int (*run)(const void *with, struct err *err);
	const char *proof; /* what worked, for the detail */
};

probe_fn kernel_probe_trial;
probe_fn kernel_probe_box;                 /* all that a box needs, together */
probe_fn kernel_probe_user;                /* user namespaces */
probe_fn kernel_probe_max_user_namespaces; /* user.max_user_namespaces */
probe_fn kernel_probe_userns_clone;        /* kernel.unprivileged_userns_clone */
probe_fn kernel_probe_apparmor;            /* kernel.apparmor_restrict_unprivileged_userns */
probe_fn kernel_probe_uid;                 /* a host uid for each box */
probe_fn kernel_probe_subids;              /* /etc/subuid, newuidmap */
probe_fn kernel_probe_version;
probe_fn kernel_probe_page_cache; /* known flaws of this version */
probe_fn kernel_probe_clone3;
probe_fn kernel_probe_pidfd;
probe_fn kernel_probe_seccomp_actions;
probe_fn kernel_probe_landlock;
probe_fn kernel_probe_core_pattern;
probe_fn kernel_probe_ptrace_scope;
