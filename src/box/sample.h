/* What no kernel counter keeps: the most descriptors any process of the box had
 * open. Init looks now and then, so a run shorter than the first look has none. */
#pragma once
#include <stdint.h>

struct sample {
	int wait_ms;         /* from the last look to the next ... */
	uint64_t due_ns;     /* ... which is then */
	uint64_t open_files; /* USAGE_UNKNOWN before the first */
	uint64_t processes;  /* most processes seen at once; USAGE_UNKNOWN likewise */
};

void sample_init(struct sample *s);

/* How long to wait for the next look; 0 when it is time. */
int sample_wait_ms(const struct sample *s);

/* Look at /proc, with the rights of the guest. */
void sample_take(struct sample *s);
