/* Which field of a JSON text a place in it belongs to: for a refusal that names what is wrong
 * in a text that no parser accepts. Pure; its time is that of one look at the text, its memory
 * fixed. */
#pragma once
#include <stddef.h>

#define JSON_FIELD_SIZE 100u

/* Write the path to where the first `size` bytes of a text end, like "files[0].path": the value
 * that they end in or behind, or the key. "" for the whole. A text that is no JSON gives what
 * its brackets and strings suggest. What is not printable ASCII is '?', since it goes into
 * answers, and a path that is too long ends with "...". */
void json_field_at(const char *text, size_t size, char ret[JSON_FIELD_SIZE]);
