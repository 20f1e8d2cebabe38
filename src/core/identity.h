/* Who somebody is, once their credentials were checked. */
#pragma once
#include <stdbool.h>

#define IDENTITY_USER_ID_MAX 64u

struct identity {
	char user_id[IDENTITY_USER_ID_MAX + 1];
	bool admin;
};

/* A user id names a directory below the state directory and appears in URLs and logs:
 * [A-Za-z0-9._@-]{1,64}, no dot first, and no name that is in use there already. */
bool identity_is_user_id(const char *text);

/* Fill `ret`; false, and nothing is changed, for what is no user id. */
bool identity_make(const char *user_id, bool admin, struct identity *ret);
