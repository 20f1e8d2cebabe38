/* What kind of content a file has: by the end of its name, which is what people expect, else
 * by its first bytes. Answers carry nosniff and come as attachments, so a wrong guess is only
 * a nuisance. May be called from any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Bytes of a file that mime_of() has use for. */
#define MIME_HEAD_SIZE 4096u
#define MIME_SIZE      128u

/* By the name alone; NULL when that says nothing. */
const char *mime_of_name(const char *name);

/* By the name, else by the first `size` bytes, else "application/octet-stream". */
void mime_of(const char *name, const void *head, size_t size, char ret[MIME_SIZE]);

/* True for what is worth compressing on its way: text in the wide sense. */
bool mime_is_text(const char *type);
