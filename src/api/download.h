/* Headers around the download of a file: which representation a client can take, whether it
 * has it already, and what the file is called when it is saved. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/digest.h"

/* Quotes, "W/" and the terminator included. */
#define DOWNLOAD_ETAG_SIZE (DIGEST_HEX_SIZE + 5)

/* The tag of a file's content; a weak one for the same content compressed on its way. */
void download_etag(const char *sha256, bool is_weak, char ret[DOWNLOAD_ETAG_SIZE]);

/* True when `header`, the value of Accept-Encoding (NULL: none), admits gzip: by its name or
 * by "*", unless its weight is zero. */
bool download_takes_gzip(const char *header);

/* True when the If-None-Match `header` (NULL: none) names this content: "*", or a list of tags
 * of which one is equal, whether weak or not. */
bool download_is_known(const char *header, const char *sha256);

/* True when the If-Range `header` (NULL: none) lets a Range count: there is none, or it is the
 * strong tag of this content. A date never is: there is none to compare it with. */
bool download_may_resume(const char *header, const char *sha256);

/* Room for what is made of a name of `n` bytes. */
#define DOWNLOAD_DISPOSITION_SIZE(n) (4 * (n) + 64)

/* Content-Disposition for the last part of `path`: an attachment, by its name in UTF-8 and by
 * a plain one for clients that do not know that form. */
void download_disposition(const char *path, char *ret);
