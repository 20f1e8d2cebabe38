/* Input: a users file. What is accepted has only good names, each once. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/str.h"
#include "core/users.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_new(const struct user_list *list, size_t i)
{
	for (size_t j = 0; j < i; j++) {
		if (streq(list->users[i].name, list->users[j].name))
			return false;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct user_list list = { 0 };

	int r = users_parse((const char *)data, size, &list, NULL);
	for (size_t i = 0; r == 0 && i < list.n; i++) {
		if (!users_is_name(list.users[i].name) || !is_new(&list, i))
			abort();
	}
	users_list_fini(&list);
	return 0;
}
