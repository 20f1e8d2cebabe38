/* Every message between a client and the keeper, and between the keeper and the
 * init process of a box. Numbers are never reused; any change to a payload bumps
 * MESSAGE_VERSION, and a peer of another version is turned away. */
#pragma once

#define MESSAGE_VERSION 14

/* The name of a keeper, new with each: 64 random bits in hexadecimal. */
#define KEEPER_ID_SIZE 16

enum message {
	/* client -> keeper */
	MESSAGE_HELLO = 1,            /* - */
	MESSAGE_START = 2,            /* spec */
	MESSAGE_SIGNAL = 3,           /* id, u32 signal */
	MESSAGE_CANCEL = 4,           /* id */
	MESSAGE_ATTACH = 5,           /* id */
	MESSAGE_LIST = 6,             /* - */
	MESSAGE_ACK = 7,              /* id */
	MESSAGE_CLOSE_STDIN = 8,      /* id */
	MESSAGE_MAKE_WORKSPACE = 9,   /* workspace id, u64 bytes */
	MESSAGE_DROP_WORKSPACE = 10,  /* workspace id */
	MESSAGE_LIST_WORKSPACES = 11, /* - */
	MESSAGE_WARM = 12,            /* warm: what to make ahead from now on */
	MESSAGE_FREEZE = 13,          /* id: nothing of it executes any more; answered by USED */
	MESSAGE_THAW = 14,            /* id: it goes on */
	MESSAGE_PING = 15,            /* -: answered by PONG when the loop comes to it */
	MESSAGE_USAGE = 16,           /* id; answered by USED */

	/* keeper -> client */
	MESSAGE_WELCOME = 20,    /* u64 facets, text: which keeper this is */
	MESSAGE_STARTED = 21,    /* id, u32 mask of channels, with their descriptors */
	MESSAGE_REFUSED = 22,    /* id, u32 errno, u32 reason, text */
	MESSAGE_RUNNING = 23,    /* id, u64 started_ns */
	MESSAGE_ENDED = 24,      /* result */
	MESSAGE_RUNS = 25,       /* u32 n, then n times: id, u32 state */
	MESSAGE_WORKSPACE = 26,  /* workspace id: it is there now */
	MESSAGE_WORKSPACES = 27, /* u32 n, then n times: workspace id */
	MESSAGE_WARMTH = 28,     /* warm_state: to who sent WARM, now and then */
	MESSAGE_PONG = 29,       /* u64 how often the keeper's loop stood still, u64 ms of the last
				    time, text: at what */
	MESSAGE_USED = 30,       /* id, u64 cpu_us, or USAGE_UNKNOWN, u8: it is frozen */

	/* keeper -> init of a box */
	MESSAGE_BOX_SPEC = 40,      /* spec, u32 mask of channels, with the box's ends of them and,
				       for a run in a workspace, last its mount, or not yet */
	MESSAGE_BOX_SIGNAL = 41,    /* u32 signal */
	MESSAGE_BOX_KILL = 42,      /* - */
	MESSAGE_BOX_WORKSPACE = 43, /* -, with the mount that was asked for; none: it failed */

	/* init of a box -> keeper */
	MESSAGE_BOX_TTY = 60,      /* -, with the master of the terminal */
	MESSAGE_BOX_RUNNING = 61,  /* u64 when, CLOCK_MONOTONIC, u8: a clone of a template */
	MESSAGE_BOX_EXITED = 62,   /* u64 when, u32 wait status, u64 cpu_us, peak, files, pids */
	MESSAGE_BOX_FAILED = 63,   /* u32 reason, u32 errno, text */
	MESSAGE_BOX_CAPTURED = 64, /* u64 bytes, u32 errno unless a guest was executed, text: what
				      went wrong; all was sent */
	MESSAGE_BOX_ASKS = 65,     /* -: the mount of its workspace did not come along */

	/* keeper -> template */
	MESSAGE_TEMPLATE_SETUP = 80, /* u8 privileged, u32 Landlock's version, text: imports,
					u64 n, then n times u64: the filter; with the
					mounts that its boxes begin with */
	MESSAGE_TEMPLATE_MAKE = 81,  /* u32 uid, u8 what it is sealed for, with the entrances of its
					cgroup */
	MESSAGE_TEMPLATE_NET = 82,   /* -, with a network nobody is in any more */

	/* template -> keeper */
	MESSAGE_TEMPLATE_READY = 90,  /* text: what could not be imported */
	MESSAGE_TEMPLATE_BOX = 91,    /* text: nothing, with its control socket, pidfd, network */
	MESSAGE_TEMPLATE_FAILED = 92, /* text: why there is no box, or no template */

	/* keeper -> maker */
	MESSAGE_MAKER_MAKE = 100, /* u32 uid, u8 what it is sealed for, u8 whether there is a cgroup
				     to be cloned into; with mounts, network, init's socket, that
				     cgroup, then the entrances of others */

	/* maker -> keeper, in the order in which it was asked */
	MESSAGE_MAKER_BOX = 110,    /* u32 pid, with its pidfd */
	MESSAGE_MAKER_FAILED = 111, /* text: why there is none */
};

/* The channels of a run. A STARTED message carries one descriptor for each bit
 * that is set, in this order. */
enum channel {
	CHANNEL_STDIN,   /* written by the client */
	CHANNEL_STDOUT,  /* read by the client */
	CHANNEL_STDERR,  /* read by the client */
	CHANNEL_TTY,     /* instead of the three above */
	CHANNEL_FILES,   /* a pack stream into the box, before the guest starts */
	CHANNEL_CAPTURE, /* a pack stream out of it, after the guest ended */
	CHANNEL_LISTING, /* what is in the workspace then, as inventory.h has it */
	CHANNEL_REPLY,   /* read by the client: what a run that talks answers */
	CHANNEL_COUNT,
};

/* What a RUNS message says of each run. */
enum run_state {
	RUN_STARTING,
	RUN_RUNNING,
	RUN_ENDING,
	RUN_ENDED,
};
