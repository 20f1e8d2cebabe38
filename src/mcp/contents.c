#include "mcp/contents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/mime.h"
#include "core/session.h"
#include "core/utf8.h"

int contents_read(const struct session_file *file, struct contents *ret)
{
	AUTO_FREE char *data = malloc((size_t)file->size + 1);

	if (!data)
		return -ENOMEM;
	ssize_t n = fd_pread_full(file->fd, data, (size_t)file->size, (off_t)file->offset);
	if (n < 0)
		return (int)n;
	if ((uint64_t)n != file->size)
		return -EIO;
	data[file->size] = '\0';
	*ret = (struct contents){ TAKE(data), (size_t)file->size, file->mime, file->sha256 };
	return 0;
}

void contents_fini(struct contents *c)
{
	free(c->data);
}

bool contents_is_image(const struct contents *c)
{
	static const char *const types[] = { "image/png", "image/jpeg", "image/gif", "image/webp" };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (streq(types[i], c->mime))
			return true;
	}
	return false;
}

bool contents_is_text(const struct contents *c)
{
	size_t tail;

	return mime_is_text(c->mime) && utf8_span(c->data, c->size, &tail) == c->size &&
	       !memchr(c->data, '\0', c->size);
}

json_t *contents_base64(const struct contents *c)
{
	AUTO_FREE char *text = xcalloc(1, BASE64_TEXT_SIZE(c->size));

	return json_stringn_nocheck(text, base64_encode(c->data, c->size, text));
}
