/* Input: what a place of the journal holds, and then the row in it alone: few inputs have the right
 * check. */
#include "core/journal.h"

#include <errno.h>
#include <stdlib.h>

#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run_row row = { 0 };

	int r = journal_parse(data, size, &row);
	if (r != 0 && r != -ENOENT && r != -EBADMSG && r != -ENOTSUP)
		abort();
	if (r == 0 && !row.id)
		abort();
	row_fini(&run_table, &row);
	if (journal_parse_row(data, size, &row) == 0 && !row.id)
		abort();
	row_fini(&run_table, &row);
	return 0;
}
