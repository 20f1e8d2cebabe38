/* What a client of the Fathom protocol says, and the run that would be asked for. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/shared.h"
#include "core/problem.h"
#include "core/request.h"
#include "fathom/envelope.h"
#include "fathom/fathom_message.h"
#include "fathom/wish.h"
#include "lang/lang.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever is accepted here, core takes or refuses in words. */
static void ask(const struct fathom_message *m)
{
	AUTO_JSON *body = wish_make(m, &langs[0], "host");
	struct problem problem = { 0 };
	struct request request;

	assert(body);
	if (request_parse(body, REQUEST_RUN, &request, &problem) == 0) {
		assert(request.timeout_ms >= 1 && request.memory_mb >= 64);
		request_fini(&request);
	}
	problem_fini(&problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { 0 };
	struct fathom_message m;

	if (size > FATHOM_MESSAGE_MAX)
		return 0; /* the socket closes */
	int r = fathom_message_parse((const char *)data, size, &m, &err);
	assert(!m.id || (strlen(m.id) >= 1 && strlen(m.id) <= FATHOM_ID_MAX));
	if (r < 0) {
		assert(err.text[0]);
		shared_unref(envelope_error(m.id, FAULT_INVALID_REQUEST, err.text));
	} else if (m.type == FATHOM_EXECUTE) {
		assert(m.id && m.language && m.code);
		ask(&m);
	}
	fathom_message_fini(&m);
	return 0;
}
