/* Runs that were answered for and are not in the store yet: whoever waited for a short run hears of
 * its end when its row is here, and others that it was accepted. That is one write to a file,
 * where the store takes a transaction and another thread. It is stored a moment later, with
 * others, and leaves here. Should the server die in between, its successor finds it and stores
 * it.
 *
 * The file, meta/journal, has places of one size. What a server that is killed has written is
 * there for the next one; after a power loss it need not be, and what is half there is noticed.
 * So with SANDBOX_STORE_SYNC=full it is only read, when a server starts.
 *
 * One per service, used on its loop. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct journal;
struct run_row;

/* Rows that wait for the store at a time; who finds no place waits for the store itself. */
#define JOURNAL_PLACES     256
#define JOURNAL_PLACE_SIZE 8192u

/* Open the one in `dir_fd`, or make it. Places with rows of a predecessor's are taken. */
int journal_open(int dir_fd, struct journal **ret, struct err *err);
void journal_free(struct journal *j); /* NULL is allowed */

/* Keep a row; the place that it has, or -E2BIG when it is too large, -ENOSPC when there is no
 * place, or what writing failed with. */
int journal_add(struct journal *j, const struct run_row *row);

/* It is stored: nothing of it stays. -1 is no place. */
void journal_remove(struct journal *j, int place);

/* The row at the first place from `from` on that is taken; its place, -ENOENT, or what reading
 * failed with. Places with nonsense become free; rows of another version stay, for that one. */
int journal_next(struct journal *j, int from, struct run_row *ret);

/* What a place holds. 0, -ENOENT for nothing, -EBADMSG for nonsense, -ENOTSUP for a row with other
 * columns. */
int journal_parse(const uint8_t *data, size_t size, struct run_row *ret);

/* ... after its head was found good. 0 or -EBADMSG. */
int journal_parse_row(const uint8_t *data, size_t size, struct run_row *ret);

DEFINE_CLEANUP(struct journal, journal_free)
