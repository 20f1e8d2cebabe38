/* Input: the value of an Authorization header, for a server that takes tokens. Who gets in
 * without knowing the secret has a name we would give to a directory. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "core/auth.h"
#include "core/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char alg[] = "HS256";
	static char secret[] = "0123456789abcdef0123456789abcdef";
	static struct settings c = {
		.auth_mode = AUTH_MODE_USERS, .jwt_alg = alg, .jwt_secret = secret
	};
	static struct auth *a;
	struct identity id = { 0 };

	if (!a && auth_open(&c, &a, NULL) < 0)
		abort();
	AUTO_FREE char *text = xcalloc(1, size + 1);
	if (size)
		memcpy(text, data, size);
	int r = auth_check(a, NULL, text, &id);
	if (r == 0 ? !identity_is_user_id(id.user_id) : r != -ENOENT && r != -EACCES)
		abort();
	return 0;
}
