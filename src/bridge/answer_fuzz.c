/* An HTTP answer, whole and cut: read the same either way, and never beyond its end. */
#include "bridge/answer.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t read_all(const char *data, size_t size, size_t step)
{
	static struct answer a;
	uint64_t sum = 1;
	size_t at = 0;

	a = (struct answer){ 0 };
	while (at < size && !a.is_over) {
		const char *piece = NULL;
		size_t n_piece = 0;
		size_t n_data = size - at < step ? size - at : step;
		int n = answer_read(&a, data + at, n_data, &piece, &n_piece);

		if (n < 0)
			return 0;
		if (n == 0 || (size_t)n > n_data || n_piece > (size_t)n)
			abort();
		for (size_t i = 0; i < n_piece; i++)
			sum = sum * 31 + (unsigned char)piece[i];
		at += (size_t)n;
	}
	return sum * 31 + (uint64_t)a.status + at + a.is_over;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (read_all((const char *)data, size, size + 1) != read_all((const char *)data, size, 1))
		abort();
	return 0;
}
