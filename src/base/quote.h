/* Names that came out of an image, made safe to show: an entry of a layer may be
 * called anything, also an escape sequence for the terminal it is printed on. */
#pragma once

#define QUOTE_SIZE 100

struct quoted {
	char text[QUOTE_SIZE];
};

/* `text` in single quotes, what is not printable ASCII as \xNN, and the middle of
 * a long one as "..."; use it as quote(name).text within one expression. */
struct quoted quote(const char *text);
