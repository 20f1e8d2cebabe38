#include "api/page.h"

#include <errno.h>
#include <stdbool.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/json.h"
#include "base/str.h"
#include "http/http.h"

static int read_number(
	struct exchange *x, const char *name, uint64_t min, uint64_t max, uint64_t *ret)
{
	const char *text = exchange_query(x, name);
	uint64_t value;

	if (!text)
		return 0;
	if (str_parse_u64(text, max, &value) < 0 || value < min) {
		reply_field(x, PROBLEM_IN_QUERY, name, "must be a whole number from %llu to %llu",
			(unsigned long long)min, (unsigned long long)max);
		return -EINVAL;
	}
	*ret = value;
	return 0;
}

static void lower(struct exchange *x, struct page *page)
{
	AUTO_JSON *warnings = json_array();

	if (page->limit <= PAGE_LIMIT_MAX)
		return;
	page->limit = PAGE_LIMIT_MAX;
	(void)json_array_append_new(warnings,
		json_sprintf("limit was lowered to %u, the most that a page has", PAGE_LIMIT_MAX));
	api_warn(x, warnings);
}

int page_read(struct exchange *x, struct page *ret)
{
	*ret = (struct page){ .limit = PAGE_LIMIT_STANDARD };
	int r = read_number(x, "limit", 1, PAGE_LIMIT_ASKED, &ret->limit);
	if (r < 0)
		return r;
	lower(x, ret);
	return read_number(x, "offset", 0, INT64_MAX - PAGE_LIMIT_MAX, &ret->offset);
}

json_t *page_json(const struct page *page, uint64_t total, json_t *items)
{
	json_int_t limit = (json_int_t)page->limit;
	json_int_t offset = (json_int_t)page->offset;
	bool has_more = page->offset + page->limit < total;
	json_t *o = json_pack("{s:I,s:I,s:I,s:b,s:o}", "total", (json_int_t)total, "limit", limit,
		"offset", offset, "has_more", has_more, "items", items);
	json_t *next = has_more ? json_integer(offset + limit) : json_null();

	(void)json_object_set_new(o, "pagination",
		json_pack("{s:I,s:I,s:I,s:b,s:o}", "limit", limit, "offset", offset, "total",
			(json_int_t)total, "has_more", has_more, "next_offset", next));
	return o;
}
