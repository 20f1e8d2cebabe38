#include "image/document.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/quote.h"

/* How deeply brackets nest. Those inside strings are skipped; what is not JSON at
 * all the parser will refuse, here it only must not be misjudged as shallower. */
static unsigned nesting(const char *text, size_t size)
{
	unsigned depth = 0;
	unsigned deepest = 0;
	int in_string = 0;

	for (size_t i = 0; i < size; i++) {
		char c = text[i];

		if (in_string && c == '\\')
			i++;
		else if (c == '"')
			in_string = !in_string;
		else if (!in_string && (c == '{' || c == '['))
			deepest = ++depth > deepest ? depth : deepest;
		else if (!in_string && (c == '}' || c == ']') && depth > 0)
			depth--;
	}
	return deepest;
}

int document_parse(const char *text, size_t size, const char *what, json_t **ret, struct err *err)
{
	json_error_t where;

	if (size > DOCUMENT_SIZE_MAX)
		return err_set(err, -EFBIG, "%s is larger than %u bytes", what, DOCUMENT_SIZE_MAX);
	if (nesting(text, size) > DOCUMENT_DEPTH_MAX)
		return err_set(
			err, -EFBIG, "%s nests deeper than %u levels", what, DOCUMENT_DEPTH_MAX);
	json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
	if (!json)
		return err_set(err, -EBADMSG, "%s is not good JSON: line %d: %s", what, where.line,
			quote(where.text).text);
	*ret = json;
	return 0;
}

int document_read(int fd, const char *what, json_t **ret, struct err *err)
{
	AUTO_FREE char *text = NULL;
	size_t size = 0;

	int r = fd_read_all(fd, DOCUMENT_SIZE_MAX, &text, &size);
	if (r == -EFBIG)
		return err_set(err, r, "%s is larger than %u bytes", what, DOCUMENT_SIZE_MAX);
	if (r < 0)
		return err_set(err, r, "read %s: %s", what, strerror(-r));
	return document_parse(text, size, what, ret, err);
}
