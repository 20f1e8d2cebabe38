/* What to run, and within which limits: a plain value. It is made by a client,
 * travels to the keeper, is re-checked there field by field, and travels on to
 * the init process of the box, which obeys it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cur;
struct err;
struct put;

/* A run's name: 128 random bits in hexadecimal, chosen by the client, so that it
 * knows the name before anything has happened under it. */
#define RUN_ID_SIZE 32

/* A workspace that outlives the run has a name of the same kind. */
#define WORKSPACE_ID_SIZE 32
#define SPEC_CHANGE_SIZE  16

/* On which descriptor a guest that is talked to answers. */
#define SPEC_REPLY_FD 3

/* What is to be done in the box. */
enum deed {
	DEED_EXECUTE, /* run the guest */
	DEED_FILES,   /* only take files in, all of them or none, and send files out */
	DEED_FETCH,   /* only send out one file, whose path is the one glob, taken literally */
	DEED_LIST,    /* only say what is in the workspace */
	DEED_COUNT,
};

/* Limits of a specification itself. The size is what fits into one message. */
#define SPEC_SIZE_MAX    (192u << 10)
#define SPEC_STRINGS_MAX 4096u        /* arguments, and again variables */
#define SPEC_STRING_MAX  (128u << 10) /* what execve takes for one string */
#define SPEC_GLOBS_MAX   64u
#define SPEC_CWD_MAX     4095u
#define SPEC_PIDS_MAX    65536u
#define SPEC_CPU_MIN     10u /* thousandths of a processor: less can not be granted */

/* What a run may use. Zero is not "no limit": every field is set. */
struct limits {
	uint64_t timeout_ms; /* from the guest's first instruction */
	uint64_t startup_ms; /* until then */
	uint64_t grace_ms;   /* between TERM and KILL when canceled */
	uint64_t memory_bytes;
	uint64_t cpu_milli; /* thousandths of one core */
	uint64_t pids;
	uint64_t workspace_bytes; /* /workspace */
	uint64_t tmp_bytes;       /* /tmp, and again /dev/shm */
	uint64_t files;           /* descriptors a process may open */
	uint64_t processes;       /* RLIMIT_NPROC */
	uint64_t capture_bytes;   /* all captured files together */
};

/* Things a host may or may not be able to enforce. Each is a bit in the masks
 * `require` of a specification and `enforced` of a result. */
enum facet {
	FACET_USER,
	FACET_MOUNT,
	FACET_PID,
	FACET_NET,
	FACET_IPC,
	FACET_UTS,
	FACET_CGROUP,
	FACET_TIMEOUT,
	FACET_MEMORY,
	FACET_CPU,
	FACET_PIDS,
	FACET_WORKSPACE,
	FACET_RLIMITS,
	FACET_CAPABILITIES,
	FACET_SECCOMP,
	FACET_LANDLOCK,
	FACET_UID,
	FACET_COUNT,
};

#define FACET_BIT(f) (UINT64_C(1) << (f))
#define FACET_ALL    (FACET_BIT(FACET_COUNT) - 1)

/* "memory, cpu" of a mask; what does not fit is left out. */
void facet_format(uint64_t mask, char *buf, size_t size);

/* The word for a facet in options, JSON and messages: "memory". */
const char *facet_name(enum facet f);

/* Parse a comma-separated list of facet names, or "all"; -EINVAL names the first
 * unknown word and the nearest known one in `err`. */
int facet_parse_list(const char *text, uint64_t *ret_mask, struct err *err);

/* For who tries it where `exec` is false. */
#define SPEC_NOEXEC_HINT                                                                           \
	"files in /workspace and /tmp cannot be executed (noexec): "                               \
	"use `sh s.sh`, or workspace_exec"

struct spec {
	char id[RUN_ID_SIZE + 1];
	char image[65]; /* "host" or the 64 hex digits of an imported image */
	char **argv;    /* ends with NULL, never empty */
	char **env;     /* ends with NULL, "NAME=value" */
	char **globs;   /* ends with NULL: files to capture */
	char *cwd;
	struct limits limits;
	uint64_t require; /* facets without which the run is refused */
	bool tty;         /* stdin, stdout and stderr are one terminal */
	uint16_t rows;
	uint16_t columns;
	bool takes_files; /* a stream of files arrives before the guest starts */
	bool lingers;     /* goes on when the client that started it is gone */
	char workspace[WORKSPACE_ID_SIZE + 1]; /* one made before; empty: of its own */
	enum deed deed;
	bool clears;  /* DEED_FILES: what was in the workspace goes, once all files are there */
	bool lists;   /* says what is in the workspace, after the guest ended */
	bool digests; /* ... with the SHA-256 of files, as far as box/digests.h has it */
	bool talks;   /* has a pipe of its own to answer on, as descriptor SPEC_REPLY_FD */
	bool deaf;    /* its stdin is empty; the client has no end of it */
	bool exec;    /* files in /workspace and /tmp can be executed */
	/* The digits of a restore that is under way: what one with these left half done is made
	 * good before anything else, and the files of this one come with them. Empty: none is. */
	char change[SPEC_CHANGE_SIZE + 1];
};

/* Defaults for everything but id, argv and env. */
void spec_init(struct spec *s);

/* Whether it is content with a box as it is made: without a terminal, with a workspace of its own,
 * and with the standard sizes of file systems. */
bool spec_is_plain(const struct spec *s);

/* Release what `s` holds, wiping arguments and environment. */
void spec_fini(struct spec *s);

/* Choose a fresh random id. */
void spec_make_id(char id[RUN_ID_SIZE + 1]);

void spec_put(const struct spec *s, struct put *p);

/* Read a specification. On a bad one the cursor is poisoned; `s` must then still
 * be given to spec_fini(). */
void spec_get(struct spec *s, struct cur *c);

/* Check what a specification asks for: ids, names, ranges, and the limits of a
 * specification itself but its size. Returns 0, or -EINVAL with a sentence that
 * names the field. */
int spec_check(const struct spec *s, struct err *err);
