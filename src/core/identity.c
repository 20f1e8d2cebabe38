#include "core/identity.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

/* What lies beside the users' directories. */
static const char *const taken[] = {
	"api_key",
	"audit",
	"data",
	"images",
	"keeper.lock",
	"keeper.sock",
	"keepers",
	"meta",
	"runs",
	"sessions",
	"signing_secret",
	"tmp",
	"users",
	"users.lock",
	"users.new",
};

bool identity_is_user_id(const char *text)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@-";
	size_t size = strlen(text);

	if (size == 0 || size > IDENTITY_USER_ID_MAX || *text == '.' ||
		strspn(text, allowed) != size)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
		if (streq(taken[i], text))
			return false;
	}
	return true;
}

bool identity_make(const char *user_id, bool admin, struct identity *ret)
{
	if (!identity_is_user_id(user_id))
		return false;
	*ret = (struct identity){ .admin = admin };
	memcpy(ret->user_id, user_id, strlen(user_id) + 1);
	return true;
}
