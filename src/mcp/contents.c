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

/* What images that a model can look at begin with; a dot is any byte. */
static const struct {
	const char *mime;
	const char *head;
	size_t size;
} images[] = {
	{ "image/png", "\x89PNG\r\n\x1a\n", 8 },
	{ "image/jpeg", "\xff\xd8\xff", 3 },
	{ "image/gif", "GIF8", 4 },
	{ "image/webp", "RIFF....WEBP", 12 },
};

static bool begins_with(const struct contents *c, const char *head, size_t size)
{
	if (c->size < size)
		return false;
	for (size_t i = 0; i < size; i++) {
		if (head[i] != '.' && head[i] != c->data[i])
			return false;
	}
	return true;
}

/* A name may say anything: who gets an image of another type than is said may refuse it all. */
static void look_for_image(struct contents *c)
{
	const char *said = c->mime;

	for (size_t i = 0; i < ARRAY_SIZE(images); i++) {
		if (streq(images[i].mime, said))
			c->mime = "application/octet-stream";
	}
	for (size_t i = 0; i < ARRAY_SIZE(images) && !c->is_image; i++) {
		c->is_image = begins_with(c, images[i].head, images[i].size);
		if (c->is_image)
			c->mime = images[i].mime;
	}
}

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
	*ret = (struct contents){ TAKE(data), (size_t)file->size, file->mime, file->sha256, false };
	look_for_image(ret);
	return 0;
}

void contents_fini(struct contents *c)
{
	free(c->data);
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
