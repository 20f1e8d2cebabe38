/* From bytes to messages: where a guest's output is cut, and the JSON text of each kind
 * of frame. Nothing here has state or touches a file.
 *
 * A chunk never splits a character: it is either whole UTF-8, sent as text, or it is not,
 * and sent in base64. Binary output is not cut wherever it happens to look like text, which
 * would make thousands of tiny frames of it; a line that is not UTF-8 in the midst of long
 * text, however, does not turn its neighbours into base64. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/stream.h"

/* The most bytes of output in a frame, so that a connection which is stuck with one holds
 * little. In base64 that always fits into a message; as text it is cut until it does. */
#define FRAMES_CHUNK_MAX (16u << 10)

/* The most bytes of an event's data, and of the name of an event or a reason. */
#define FRAMES_DATA_MAX (16u << 10)
#define FRAMES_NAME_MAX 64u

/* What the spool of events holds for one of them, at most. */
#define FRAMES_EVENT_MAX (FRAMES_DATA_MAX + FRAMES_NAME_MAX + 32u)

/* How many of the `size` bytes, which is more than none, become the next frame, and whether
 * as text. 0: they begin a character, wait for the rest of it; never so when `is_last`,
 * which says that nothing follows. */
size_t frames_cut(const void *data, size_t size, bool is_last, bool *ret_is_text);

/* The text that is kept of an event: {"event":NAME,"data":DATA}. Returns 0 with a string the
 * caller must free(); -EINVAL for a name with anything but letters, digits and "_.-", or
 * data that is not JSON; -E2BIG for more than the maximum above. */
int frames_format_event(const char *name, const char *data, char **ret);

/* True for what may be a reason, or an event's name. */
bool frames_name_is_valid(const char *name);

/* A frame, as its spool has it. */
struct frames_source {
	enum frame_kind kind;
	bool is_text;     /* of output: as frames_cut() said */
	const char *data; /* of a heartbeat: none */
	size_t size;
	uint64_t time_ns; /* since 1970 */
	uint64_t seq;
};

/* The message of a frame, at most STREAM_MESSAGE_MAX bytes, with a reference for the
 * caller. Output that is called text and is not, or does not fit, is sent in base64. NULL
 * when data that should be an event or a reason is none: a file was damaged. */
struct shared *frames_encode(const struct frames_source *f);

/* The note for who asked for frame `wanted` and gets `seq`, which is the oldest there is. */
struct shared *frames_encode_resume(uint64_t wanted, uint64_t seq);
