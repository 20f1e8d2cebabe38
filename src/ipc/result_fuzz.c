/* Input: a result as a client gets it. One that is well-formed must go back onto
 * the wire as the same bytes. */
#include "ipc/result.h"

#include <stdlib.h>
#include <string.h>

#include "ipc/cur.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct result r;
	struct cur c;
	struct put p;

	cur_init(&c, data, size);
	result_get(&r, &c);
	if (!reason_name(r.reason) || strlen(r.id) > RUN_ID_SIZE ||
		strlen(r.message) >= sizeof(r.message))
		abort();
	if (cur_end(&c) < 0)
		return 0;
	put_init(&p, size);
	result_put(&r, &p);
	if (put_end(&p) < 0 || p.size != size || memcmp(p.data, data, size) != 0)
		abort();
	put_fini(&p);
	return 0;
}
