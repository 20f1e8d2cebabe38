/* Names that nobody can guess: random UUIDs, version 4, in their usual text form. */
#pragma once
#include <stdbool.h>

#define UUID_SIZE 36

void uuid_make(char ret[UUID_SIZE + 1]);

/* True for 36 characters of lower-case hexadecimal digits and dashes in the right places. */
bool uuid_is_valid(const char *text);

/* The 32 hexadecimal digits without dashes, which is how the keeper names a run; and back. */
void uuid_to_hex(const char *uuid, char ret[33]);
void uuid_from_hex(const char *hex, char ret[UUID_SIZE + 1]);
