#include "base/quote.h"

#include <stdio.h>
#include <string.h>

/* How much of the end of a long name is shown: it says more than the middle. */
#define TAIL 30

static size_t put_char(char *at, size_t room, unsigned char c)
{
	char form[8];
	size_t n = 1;

	form[0] = (char)c;
	if (c < 0x20 || c >= 0x7f || c == '\\')
		n = (size_t)snprintf(form, sizeof(form), "\\x%02x", c);
	if (n > room)
		return 0;
	memcpy(at, form, n);
	return n;
}

static size_t put_text(char *at, size_t room, const char *text, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < size; i++) {
		size_t n = put_char(at + used, room - used, (unsigned char)text[i]);
		if (n == 0)
			break;
		used += n;
	}
	return used;
}

struct quoted quote(const char *text)
{
	struct quoted q;
	size_t size = strlen(text);
	size_t head = size;
	size_t used = 0;

	if (size > QUOTE_SIZE - 3)
		head = QUOTE_SIZE - TAIL - 6;
	q.text[used++] = '\'';
	used += put_text(q.text + used, QUOTE_SIZE - used - 2, text, head);
	if (head < size && used + 5 < QUOTE_SIZE) {
		memcpy(q.text + used, "...", 3);
		used += 3;
		used += put_text(q.text + used, QUOTE_SIZE - used - 2, text + size - TAIL, TAIL);
	}
	q.text[used++] = '\'';
	q.text[used] = '\0';
	return q;
}
