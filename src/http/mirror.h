/* Texts of a message that are said again in a header of the request which carries it, as MCP has
 * them: as they are where a header can hold them, else "=?base64?...?=" of their bytes. Pure. */
#pragma once
#include <stdbool.h>

/* What a header has to say for `text`; the caller frees it. */
char *mirror_encode(const char *text);

/* Does the value of a header say this text? */
bool mirror_equals(const char *header, const char *text);
