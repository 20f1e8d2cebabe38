#include "api/page.h"

#include "base/json.h"
#include "lib/test.h"

static void check_page(const struct page *page, uint64_t total, const char *expected)
{
	AUTO_JSON *o = page_json(page, total, json_array());
	AUTO_FREE char *text = json_canonical(json_object_get(o, "pagination"));

	CHECK_STR(text, expected);
	CHECK_EQ(json_object_size(o), 6);
}

TEST(the_next_page_is_named_while_there_is_one)
{
	struct page page = { .limit = 10, .offset = 20 };

	check_page(&page, 31,
		"{\"has_more\":true,\"limit\":10,\"next_offset\":30,\"offset\":20,\"total\":31}");
	check_page(&page, 30,
		"{\"has_more\":false,\"limit\":10,\"next_offset\":null,\"offset\":20,\"total\":30}");
}

TESTS(UNIT(the_next_page_is_named_while_there_is_one))
