/* Ranges of user and group ids that /etc/subuid and /etc/subgid give to a user. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

/* No such file is larger on a sane host. */
#define SUBID_SIZE_MAX (1u << 20)

/* How many ids the text of a subuid or subgid file gives to a user, named by name
 * or by number. Lines of another form are skipped, as newuidmap skips them. */
uint64_t subid_count(const char *text, const char *user, uid_t uid);
