/* The keeper's stock of boxes: ready ones, those that serve a run, and retired
 * ones that are being reaped. */
#pragma once
#include <stdbool.h>

#include "box/box.h"
#include "ipc/spec.h"
#include "ipc/warm.h"
#include "keeper/stock.h"

struct cgroup;
struct err;
struct keeper;
struct root;

/* What one that waits may take of the memory for these, by a generous measure. */
#define BOX_WAITING_BYTES   (UINT64_C(1) << 20)
#define CLONE_WAITING_BYTES (UINT64_C(6) << 20)

/* More retired boxes than this are not left for a quiet moment. */
#define RETIRED_BOXES_MAX 32u

/* A box with its cgroup. Owned by one of the keeper's three lists. */
struct boxed {
	struct boxed *next;
	struct box box;
	struct cgroup *cgroup;
	struct limits limits; /* those its cgroup was made with */
	const struct root *root;
	uint64_t template_id; /* it is a clone of that one; 0 for none */
	bool is_ahead;        /* it was there before its run */
	enum seal seal;       /* and for which runs it is */
	uint64_t asked_ns;    /* when a template or the maker was asked for it */
	uint64_t taken_ns;    /* when its run came */
	bool is_frozen;
};

/* A box on `root` for `spec`, of the host user `uid`, or of a fresh one if that is
 * BOX_ANY_UID; give it to boxes_retire() afterwards. */
#define BOX_ANY_UID ((uid_t)-1)
int boxes_take(struct keeper *k, const struct root *root, const struct spec *spec, uid_t uid,
	struct boxed **ret, struct err *err);

/* Whose boxes are counted together. */
enum stock_image boxes_image_of(const struct root *root);

/* Whether it asks for Python, of which there is a template. */
bool boxes_is_python(const struct spec *s);

/* What to make ahead from now on. */
void boxes_set_warm(struct keeper *k, const struct warm *warm);

/* Those of a template that wait: they go when it does. */
void boxes_forget_clones(struct keeper *k);

/* The maker made this one; or could not, if there is a reason `why`. */
void boxes_add_ready(struct keeper *k, struct boxed *b, const char *why);

/* A template made this one. */
void boxes_add_warm(struct keeper *k, struct boxed *b);

/* A host user for boxes whom no other box has; ourselves when we can not choose. */
uid_t boxes_choose_uid(const struct keeper *k);

/* Kill what lives in it, one by one where there is a cgroup: an init that did not do it
 * when asked may be too slow to take the others along soon. */
void boxes_kill(struct boxed *b);

/* Nothing in it executes, until it is thawed, killed or retired. */
int boxes_freeze(struct boxed *b);
void boxes_thaw(struct boxed *b);

/* Kill what lives in it, and get rid of it when nobody waits. NULL is allowed. */
void boxes_retire(struct keeper *k, struct boxed *b);

/* Do a little of the pending work, when nothing else is to be done; `quiet` when
 * that has been so for a moment. Tells whether something is left for later. */
bool boxes_tend(struct keeper *k, bool quiet);

/* The part of it that must not wait for ever, when there is no quiet moment. */
void boxes_relieve(struct keeper *k);

/* Milliseconds until boxes_tend() has too many waiting to take one away; -1: never. */
int boxes_surplus_ms(const struct keeper *k);

/* True while a run goes on in a clone of this template. */
bool boxes_run_on_template(const struct keeper *k, uint64_t id);

/* True while a run goes on there. */
bool boxes_use_root(const struct keeper *k, const struct root *root);

/* Whether this is the process of a box that is somebody's. */
bool boxes_have(const struct keeper *k, pid_t pid);

/* No box of this image is to be made ahead any more. */
void boxes_forget_root(struct keeper *k, const struct root *root);

/* Retire all and wait for their end. */
void boxes_fini(struct keeper *k);
