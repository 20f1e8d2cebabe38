#include "probe/probe.h"

#include <sched.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "ipc/spec.h"
#include "probe/control.h"
#include "probe/host.h"
#include "probe/kernel.h"
#include "probe/languages.h"
#include "probe/science.h"
#include "probe/tool.h"
#include "probe/trial.h"

static const struct kernel_trial try_mount = { CLONE_NEWNS, true, trial_mount,
	"mounted a tmpfs in one" };
static const struct kernel_trial try_pid = { CLONE_NEWPID, true, trial_pid,
	"was process 1 in one" };
static const struct kernel_trial try_net = { CLONE_NEWNET, true, trial_net,
	"brought up lo, alone in one" };
static const struct kernel_trial try_ipc = { CLONE_NEWIPC, true, NULL, "made one" };
static const struct kernel_trial try_uts = { CLONE_NEWUTS, true, trial_uts,
	"set the host name in one" };
static const struct kernel_trial try_cgroup = { CLONE_NEWCGROUP, true, NULL, "made one" };
static const struct kernel_trial try_time = { 0, true, trial_time, "made one" };
static const struct kernel_trial try_proc = { CLONE_NEWNS | CLONE_NEWPID, true, trial_proc,
	"mounted one in a pid namespace" };
static const struct kernel_trial try_mount_api = { CLONE_NEWNS, true, trial_mount_api,
	"fsopen, fsmount, open_tree, move_mount, mount_setattr" };
static const struct kernel_trial try_overlay = { CLONE_NEWNS, true, trial_overlay,
	"mounted one over a tmpfs" };
static const struct kernel_trial try_workspace = { CLONE_NEWNS, true, trial_workspace,
	"a full tmpfs refused to take more" };
static const struct kernel_trial try_rlimits = { 0, false, trial_rlimits,
	"lowered one, and it held" };
static const struct kernel_trial try_capabilities = { 0, true, trial_capabilities,
	"dropped all of them for good" };
static const struct kernel_trial try_seccomp = { 0, false, trial_seccomp,
	"loaded a filter, and it held" };

static const char fix_kernel[] = "run a kernel of 5.12 or newer with CONFIG_NAMESPACES and all "
				 "CONFIG_*_NS";
static const char fix_seccomp[] = "in a container: docker run --security-opt seccomp=unconfined;\n"
				  "else a kernel with CONFIG_SECCOMP_FILTER";
static const char fix_userns[] =
	"sudo sysctl -w user.max_user_namespaces=65536, and see the rows of 'users';\n"
	"in a chroot the kernel lets only root have them: start Belljar as root;\n"
	"in a container: docker run --privileged, or give it\n"
	"--security-opt seccomp=unconfined --security-opt apparmor=unconfined";
static const char fix_inside[] =
	"in a container: docker run --privileged, or give it\n"
	"--security-opt seccomp=unconfined --security-opt apparmor=unconfined\n"
	"--security-opt systempaths=unconfined";
static const char fix_apparmor[] =
	"write these two lines into /etc/apparmor.d/belljar\n"
	"abi <abi/4.0>,\n"
	"profile belljar /usr/local/bin/belljar flags=(unconfined) { userns, }\n"
	"and load them: sudo apparmor_parser -r /etc/apparmor.d/belljar\n"
	"or let every program make them:\n"
	"sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";

/* As a macro, for clang-format would tear rows of this length apart. */
#define ROW(name_, group_, severity_, facets_, run_, with_, means_, fix_)                          \
	{                                                                                          \
		.name = (name_), .group = (group_), .severity = (severity_), .facets = (facets_),  \
		.run = (run_), .with = (with_), .means = (means_), .fix = (fix_)                   \
	}

#define NONE 0

const struct probe probes[] = {
	ROW("user", "namespaces", PROBE_REQUIRED, FACET_BIT(FACET_USER), kernel_probe_user, NULL,
		"no box can be made: each is built on a user namespace", fix_userns),
	ROW("mount", "namespaces", PROBE_REQUIRED, FACET_BIT(FACET_MOUNT), kernel_probe_trial,
		&try_mount, "a box can not have a file system of its own", fix_inside),
	ROW("pid", "namespaces", PROBE_REQUIRED, FACET_BIT(FACET_PID), kernel_probe_trial, &try_pid,
		"a guest could see and signal processes of the host", fix_kernel),
	ROW("net", "namespaces", PROBE_REQUIRED, FACET_BIT(FACET_NET), kernel_probe_trial, &try_net,
		"a guest could not be kept from the network", fix_kernel),
	ROW("ipc", "namespaces", PROBE_REQUIRED, FACET_BIT(FACET_IPC), kernel_probe_trial, &try_ipc,
		"a guest could reach shared memory of the host", fix_kernel),
	ROW("uts", "namespaces", PROBE_REQUIRED, FACET_BIT(FACET_UTS), kernel_probe_trial, &try_uts,
		"a guest could see the host's name", fix_kernel),
	ROW("cgroup", "namespaces", PROBE_REQUIRED, FACET_BIT(FACET_CGROUP), kernel_probe_trial,
		&try_cgroup, "a guest could see the host's control groups", fix_kernel),
	ROW("time", "namespaces", PROBE_OPTIONAL, NONE, kernel_probe_trial, &try_time,
		"a guest sees how long the host has been up", "a kernel with CONFIG_TIME_NS"),
	ROW("proc", "namespaces", PROBE_REQUIRED, NONE, kernel_probe_trial, &try_proc,
		"a box can not have a /proc of its own: something hides parts of the host's",
		fix_inside),
	ROW("box", "namespaces", PROBE_REQUIRED, NONE, kernel_probe_box, NULL, "no box can be made",
		fix_inside),

	ROW("max_user_namespaces", "users", PROBE_REQUIRED, NONE, kernel_probe_max_user_namespaces,
		NULL, "no user namespace can be made",
		"sudo sysctl -w user.max_user_namespaces=65536"),
	ROW("unprivileged_userns_clone", "users", PROBE_REQUIRED, NONE, kernel_probe_userns_clone,
		NULL, "plain users can make no user namespace",
		"sudo sysctl -w kernel.unprivileged_userns_clone=1"),
	ROW("apparmor_userns", "users", PROBE_REQUIRED, NONE, kernel_probe_apparmor, NULL,
		"AppArmor takes the privilege in user namespaces away from plain users",
		fix_apparmor),
	ROW("uid", "users", PROBE_LIMIT, FACET_BIT(FACET_UID), kernel_probe_uid, NULL,
		"boxes of one user share one uid, and with it that user's process limits and keys",
		FIX_ROOT_KEEPER),
	ROW("subids", "users", PROBE_OPTIONAL, NONE, kernel_probe_subids, NULL,
		"images with files of several owners can not be kept as they are without root",
		"sudo apt install uidmap\n"
		"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER"),

	ROW("cgroups", "limits", PROBE_LIMIT, NONE, control_probe_version, NULL,
		"without v2 a run is killed process by process, and only root can limit it",
		"boot with systemd.unified_cgroup_hierarchy=1"),
	ROW("memory", "limits", PROBE_LIMIT, FACET_BIT(FACET_MEMORY), control_probe_limit, "memory",
		"a run can use all of the host's memory", "mount -t cgroup2 none /sys/fs/cgroup"),
	ROW("swap", "limits", PROBE_LIMIT, FACET_BIT(FACET_MEMORY), control_probe_swap, NULL,
		"a run goes on in swap when its memory is used up",
		"boot with swapaccount=1, or: sudo swapoff -a"),
	ROW("cpu", "limits", PROBE_LIMIT, FACET_BIT(FACET_CPU), control_probe_limit, "cpu",
		"a run can use all of the host's processors until its time is over",
		"mount -t cgroup2 none /sys/fs/cgroup"),
	ROW("pids", "limits", PROBE_LIMIT, FACET_BIT(FACET_PIDS), control_probe_pids, "pids",
		"only RLIMIT_NPROC holds a fork bomb, and that counts all runs of a uid together",
		"mount -t cgroup2 none /sys/fs/cgroup"),
	ROW("workspace", "limits", PROBE_REQUIRED, FACET_BIT(FACET_WORKSPACE), kernel_probe_trial,
		&try_workspace, "a run could fill memory with files", fix_inside),
	ROW("rlimits", "limits", PROBE_REQUIRED, FACET_BIT(FACET_RLIMITS), kernel_probe_trial,
		&try_rlimits, "open files, stacks and file sizes are not limited", fix_kernel),

	ROW("capabilities", "filters", PROBE_REQUIRED, FACET_BIT(FACET_CAPABILITIES),
		kernel_probe_trial, &try_capabilities, "a guest could keep privilege", fix_inside),
	ROW("seccomp", "filters", PROBE_REQUIRED, FACET_BIT(FACET_SECCOMP), kernel_probe_trial,
		&try_seccomp, "a guest could make any system call", fix_seccomp),
	ROW("seccomp_actions", "filters", PROBE_OPTIONAL, NONE, kernel_probe_seccomp_actions, NULL,
		"refused calls are told of less exactly", "a kernel of 5.0 or newer"),
	ROW("landlock", "filters", PROBE_LIMIT, FACET_BIT(FACET_LANDLOCK), kernel_probe_landlock,
		NULL, "mounts alone keep a guest from writing, without a second line behind them",
		"a kernel of 6.2 or newer with CONFIG_SECURITY_LANDLOCK, landlock among its lsm="),

	ROW("version", "kernel", PROBE_OPTIONAL, NONE, kernel_probe_version, NULL,
		"some call that boxes need is missing", "upgrade the kernel: Debian 12 has 6.1"),
	ROW("page_cache", "kernel", PROBE_OPTIONAL, NONE, kernel_probe_page_cache, NULL,
		"a guest that gets past the filter could change cached pages of files it may only "
		"read, /usr among them, and so the host",
		"install the latest kernel of the distribution, which may have fixed it under this "
		"number: see its security tracker"),
	ROW("clone3", "kernel", PROBE_REQUIRED, NONE, kernel_probe_clone3, NULL,
		"no box can be started", fix_seccomp),
	ROW("pidfd", "kernel", PROBE_REQUIRED, NONE, kernel_probe_pidfd, NULL,
		"a box could not be told from a later process of the same number", fix_seccomp),
	ROW("mount_api", "kernel", PROBE_REQUIRED, NONE, kernel_probe_trial, &try_mount_api,
		"the root of a box can not be put together", fix_inside),
	ROW("overlayfs", "kernel", PROBE_OPTIONAL, NONE, kernel_probe_trial, &try_overlay,
		"a box can not have a writable layer over an image",
		"a kernel of 5.11 or newer; sudo modprobe overlay"),
	ROW("core_pattern", "kernel", PROBE_OPTIONAL, NONE, kernel_probe_core_pattern, NULL,
		"a guest that crashes has that program started on the host, as root",
		"sudo sysctl -w kernel.core_pattern=core"),
	ROW("ptrace_scope", "kernel", PROBE_OPTIONAL, NONE, kernel_probe_ptrace_scope, NULL,
		"processes of one user outside of boxes can trace each other",
		"sudo sysctl -w kernel.yama.ptrace_scope=1 (a kernel with CONFIG_SECURITY_YAMA)"),

	ROW("kvm", "runtimes", PROBE_OPTIONAL, NONE, tool_probe_kvm, NULL,
		"the microvm runtime is absent",
		"sudo modprobe kvm_intel or kvm_amd; in a virtual machine, let it nest"),
	ROW("docker", "runtimes", PROBE_OPTIONAL, NONE, tool_probe_docker, NULL,
		"the docker runtime is absent", "sudo apt install docker.io"),
	ROW("podman", "runtimes", PROBE_OPTIONAL, NONE, tool_probe_program, NULL,
		"the podman runtime is absent", "sudo apt install podman"),
	ROW("runc", "runtimes", PROBE_OPTIONAL, NONE, tool_probe_program, NULL,
		"the oci runtime has no runc", "sudo apt install runc"),
	ROW("runsc", "runtimes", PROBE_OPTIONAL, NONE, tool_probe_program, NULL,
		"the gVisor runtime is absent", "install runsc from gvisor.dev"),
	ROW("bwrap", "runtimes", PROBE_OPTIONAL, NONE, tool_probe_program, NULL,
		"benchmarks have no bubblewrap to compare with", "sudo apt install bubblewrap"),

	ROW("python3", "languages", PROBE_OPTIONAL, NONE, tool_probe_program, NULL,
		"Python does not run in the host image", "sudo apt install python3"),
	ROW("science", "languages", PROBE_OPTIONAL, NONE, science_probe, NULL,
		"a Python program in the host image that imports it fails",
		"sudo apt install python3 python3-pandas python3-numpy python3-matplotlib "
		"python3-seaborn python3-openpyxl python3-reportlab"),
	ROW("languages", "languages", PROBE_OPTIONAL, NONE, languages_probe, NULL,
		"programs in a language that is not there do not run in the host image",
		"sudo apt install the packages that they need"),
	ROW("node", "languages", PROBE_OPTIONAL, NONE, tool_probe_program, NULL,
		"JavaScript does not run in the host image", "sudo apt install nodejs"),
	ROW("bash", "languages", PROBE_OPTIONAL, NONE, tool_probe_program, NULL,
		"shell scripts do not run in the host image", "sudo apt install bash"),
};

const size_t probe_count = ARRAY_SIZE(probes);
_Static_assert(ARRAY_SIZE(probes) <= PROBES_MAX, "struct checkup has room for every probe");

static const char *const state_names[] = {
	[PROBE_OK] = "ok",
	[PROBE_PARTIAL] = "partial",
	[PROBE_MISSING] = "missing",
	[PROBE_UNKNOWN] = "unknown",
};

static const char *const severity_names[] = {
	[PROBE_REQUIRED] = "required",
	[PROBE_LIMIT] = "limit",
	[PROBE_OPTIONAL] = "optional",
};

const char *probe_state_name(enum probe_state s)
{
	return state_names[s];
}

const char *probe_severity_name(enum probe_severity s)
{
	return severity_names[s];
}

/* What is not known to be there counts as absent: nothing is promised on a guess. */
static bool is_there(const struct finding *f)
{
	return f->state == PROBE_OK || f->state == PROBE_PARTIAL;
}

static void describe(const struct host *host, struct checkup *ret)
{
	struct finding clean = { 0 };

	finding_set(&clean, PROBE_OK, "%s", host->uts.release);
	(void)snprintf(ret->kernel, sizeof(ret->kernel), "%.*s", (int)sizeof(ret->kernel) - 1,
		clean.detail);
	finding_set(&clean, PROBE_OK, "%s", host->user);
	if (!host->user[0])
		finding_set(&clean, PROBE_OK, "uid %u", (unsigned)host->uid);
	(void)snprintf(
		ret->user, sizeof(ret->user), "%.*s", (int)sizeof(ret->user) - 1, clean.detail);
	ret->uid = host->uid;
}

void probe_all(struct checkup *ret)
{
	struct host host;

	*ret = (struct checkup){ .can_run = true };
	host_open(&host);
	describe(&host, ret);
	for (const struct probe *p = probes; p < probes + probe_count; p++) {
		struct finding *f = &ret->findings[ret->n++];

		finding_set(f, PROBE_UNKNOWN, "not found out");
		p->run(p, &host, f);
		if (is_there(f))
			continue;
		ret->not_enforced |= p->facets;
		if (p->severity == PROBE_REQUIRED)
			ret->can_run = false;
	}
	host_fini(&host);
}
