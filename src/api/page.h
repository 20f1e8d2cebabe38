/* Pages of long lists: the parameters limit and offset, and the frame of the answer. */
#pragma once
#include <jansson.h>
#include <stdint.h>

struct exchange;

struct page {
	uint64_t limit;
	uint64_t offset;
};

#define PAGE_LIMIT_MAX      200u  /* items of a page */
#define PAGE_LIMIT_ASKED    1000u /* that may be asked for: lowered, with a warning */
#define PAGE_LIMIT_STANDARD 50u

/* From the query; on failure it has answered 422 that names the parameter. */
int page_read(struct exchange *x, struct page *ret);

/* {"total","limit","offset","has_more","pagination","items"}; takes the items. */
json_t *page_json(const struct page *page, uint64_t total, json_t *items);
