/* Moments as people and JSON write them: ISO 8601 in UTC. */
#pragma once
#include <stdint.h>

/* "2026-01-31T12:00:00.123456Z" */
#define DATE_SIZE 27

/* From nanoseconds since 1970. Such texts sort as the moments do. */
void date_format(uint64_t ns, char ret[DATE_SIZE + 1]);

/* "2026-01-31" */
#define DATE_DAY_SIZE 10
void date_format_day(uint64_t ns, char ret[DATE_DAY_SIZE + 1]);

/* Read "2026-01-31", "2026-01-31T12:00", seconds and a fraction if given, and then nothing
 * (it is UTC), "Z", or an offset like "+01:00" ("+" may have become a blank on its way through
 * a URL). -EINVAL for anything else, and for days that no calendar has. */
int date_parse(const char *text, uint64_t *ret_ns);
