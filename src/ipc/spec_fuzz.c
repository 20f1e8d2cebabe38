/* Input: a specification as the keeper gets it. One that is well-formed must go
 * back onto the wire as the same bytes. */
#include "ipc/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ipc/cur.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_back(const struct spec *s, const uint8_t *data, size_t size)
{
	struct put p;

	put_init(&p, size);
	spec_put(s, &p);
	if (put_end(&p) < 0 || p.size != size || memcmp(p.data, data, size) != 0)
		abort();
	put_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { 0 };
	struct spec s;
	struct cur c;

	cur_init(&c, data, size);
	spec_get(&s, &c);
	if (cur_end(&c) == 0) {
		check_back(&s, data, size);
		int r = spec_check(&s, &err);
		if (r < 0 ? !err.text[0] || err.code != r : err.text[0])
			abort();
	}
	spec_fini(&s);
	return 0;
}
