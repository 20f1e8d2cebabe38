/* Input: a listing as a server gets it from a box. One that is well-formed must go back onto the
 * wire as the same bytes, within its limits. */
#include "ipc/inventory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/cur.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct inventory l = { 0 };
	struct cur c;
	struct put p;

	cur_init(&c, data, size);
	int r = inventory_get(&l, &c);
	if (r < 0) {
		if (r != -EBADMSG || l.at || l.n)
			abort();
		return 0;
	}
	if (l.n > INVENTORY_ENTRIES_MAX || l.n_bytes > INVENTORY_BYTES_MAX ||
		size > INVENTORY_SIZE_MAX)
		abort();
	for (size_t i = 0; i < l.n; i++) {
		if (!pack_name_is_clean(l.at[i].path))
			abort();
	}
	put_init(&p, size);
	inventory_put(&l, &p);
	if (put_end(&p) < 0 || p.size != size || memcmp(p.data, data, size) != 0)
		abort();
	put_fini(&p);
	inventory_fini(&l);
	return 0;
}
