/* The SHA-256 of the files of a listing. It runs in the confined init with the guest's own rights,
 * when nothing of the guest is alive, so a guest has no say in it. In a workspace that others use
 * at the same time a digest is that of the bytes read just then. */
#pragma once

struct inventory;

/* However much a guest wrote, no more than this is read: what is over it has no digest. */
#define DIGESTS_FILE_MAX  (16u << 20) /* bytes of one file */
#define DIGESTS_TOTAL_MAX (64u << 20) /* of all files of a listing */
#define DIGESTS_MS        200u        /* spent on one listing */

/* Fill in those of the files below `dir_fd`, those that were changed last first. One that can not
 * be read, or is no longer as it was listed, has none. */
void digests_fill(int dir_fd, struct inventory *l);
