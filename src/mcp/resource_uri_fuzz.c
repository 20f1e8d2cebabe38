/* URIs of strangers: whatever is accepted names a file within a session. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/artifact.h"
#include "mcp/resource_uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *uri = xcalloc(1, size + 1);
	struct resource_uri u;

	memcpy(uri, data, size);
	if (resource_uri_parse(uri, &u) < 0)
		return 0;
	assert(u.session[0] && strlen(u.session) <= RESOURCE_NAME_MAX);
	assert(strlen(u.path) <= RESOURCE_PATH_MAX && artifact_path_is_safe(u.path));
	return 0;
}
