#include "core/run_as.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>

#include "base/err.h"

int run_as_find(const char *name, struct run_as *ret, struct err *err)
{
	const struct passwd *pw = getpwnam(name ? name : "belljar");
	bool is_shared = !pw && !name;

	if (is_shared)
		pw = getpwnam("nobody");
	if (!pw)
		return err_set(
			err, -ENOENT, "there is no user '%s' to become", name ? name : "nobody");
	*ret = (struct run_as){ pw->pw_uid, pw->pw_gid, is_shared };
	return 0;
}

bool run_as_is_server(uid_t uid)
{
	const char *name = getenv("SANDBOX_RUN_AS");
	struct run_as user;

	return run_as_find(name && *name ? name : NULL, &user, NULL) == 0 && user.uid == uid;
}
