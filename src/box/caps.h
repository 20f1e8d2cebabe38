/* Capabilities and keys: what is taken from a process for good. */
#pragma once

struct err;

/* Enter a new, empty session keyring, so that the caller's is out of reach. */
int caps_leave_keyring(struct err *err);
