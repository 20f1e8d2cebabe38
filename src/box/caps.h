/* Capabilities and keys: what is taken from a process for good. */
#pragma once

struct err;

/* Enter an empty session keyring, so that the caller's is out of reach: the one of
 * that name which our user has, or makes with this; a new one when `name` is NULL. */
int caps_leave_keyring(const char *name, struct err *err);
