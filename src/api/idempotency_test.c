#include "api/idempotency.h"

#include <string.h>

#include "core/claim.h"
#include "lib/test.h"

TEST(a_key_is_printable_and_not_too_long)
{
	char key[CLAIM_KEY_MAX + 2];

	memset(key, 'k', sizeof(key));
	key[CLAIM_KEY_MAX] = '\0';
	CHECK(idempotency_is_key(key));
	key[CLAIM_KEY_MAX] = 'k';
	key[CLAIM_KEY_MAX + 1] = '\0';
	CHECK(!idempotency_is_key(key));
	CHECK(idempotency_is_key("11111111-2222-3333-4444-555555555555"));
	CHECK(!idempotency_is_key(""));
	CHECK(!idempotency_is_key("a\tb"));
	CHECK(!idempotency_is_key("\xc3\xa4"));
}

TESTS(UNIT(a_key_is_printable_and_not_too_long))
