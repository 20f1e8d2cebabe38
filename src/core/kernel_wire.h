/* What the interpreter of a session says to the server (kernel_driver.py), and nothing of it is
 * trusted: it comes from a box in which a user's code runs. Frames: u8 kind, u32 size, payload.
 *
 *	R  it is ready; the version of Python
 *	I  an image, a PNG or a JPEG
 *	D  a piece of code was executed: fields of u8 kind, u32 size and bytes
 *		o  "ok", "error" or "interrupted"     n  which piece it was
 *		r  the last expression's text         e  the error's name
 *		t  the traceback                      w  which images are not shown, and why
 *		u  microseconds of processor time that the interpreter has used until now
 *		i  how many of these for their number or size
 *		c  how many bytes the last expression's text or the traceback had, if it was cut
 *		L  what is in the workspace now, as inventory.h has it
 *
 * To it: u32 number, u32 size of variables, u32 size of code; variables as NAME NUL VALUE joined
 * by NUL; code. Numbers are little-endian. An interrupt is u32 number of what it interrupts,
 * u32 KERNEL_PRESS, u32 0, behind the code; a SIGINT follows it. The interpreter looks for it only
 * before the code begins, and skips it afterwards. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/inventory.h"

#define KERNEL_PRESS UINT32_MAX

/* What one piece of code may make us hold; more is the end of the interpreter. */
#define KERNEL_READY_MAX  64u
#define KERNEL_DONE_MAX   (2u << 20)
#define KERNEL_IMAGE_MAX  (4u << 20)
#define KERNEL_IMAGES_MAX 8u /* and no more than KERNEL_IMAGE_MAX bytes together */

enum kernel_outcome {
	KERNEL_OK,
	KERNEL_ERROR,       /* it raised; variables are kept */
	KERNEL_INTERRUPTED, /* on demand or after its time; variables are kept */
	KERNEL_DIED,        /* and so did every variable */
};

/* "ok", "error", "interrupted", "died" */
const char *kernel_outcome_name(enum kernel_outcome o);

struct kernel_text {
	char *data; /* valid UTF-8 and terminated, or NULL */
	size_t size;
};

struct kernel_image {
	const char *mime;
	uint8_t *data;
	size_t size;
};

/* What became of a piece of code. */
struct kernel_reply {
	enum kernel_outcome outcome;
	uint32_t number;
	struct kernel_text result, error, traceback, warning;
	uint64_t uncut_size;   /* of the result or the traceback, of which a part is here; else 0 */
	uint64_t cpu_us;       /* of the interpreter until now, as it says; 0: it does not */
	uint64_t n_images_cut; /* that were too many or too large */
	struct kernel_image images[KERNEL_IMAGES_MAX];
	size_t n_images;
	struct inventory listing;
	bool has_listing;
};

void kernel_reply_fini(struct kernel_reply *r);

enum kernel_word {
	KERNEL_WORD_NONE, /* more bytes are needed */
	KERNEL_WORD_READY,
	KERNEL_WORD_DONE, /* the reply is whole */
};

struct kernel_reader {
	uint8_t head[5];
	size_t n_head;
	uint8_t *body;
	size_t n_body, size, room;
	bool is_broken;
	struct kernel_reply reply; /* taken by whoever hears DONE */
};

/* Take some of `data`, up to the end of a frame: how much goes to `*ret_taken`. What the frame
 * was, or -EBADMSG from then on. */
int kernel_reader_feed(
	struct kernel_reader *r, const uint8_t *data, size_t size, size_t *ret_taken);
void kernel_reader_fini(struct kernel_reader *r);
