/* Input: a users file. What is accepted has only good names, each once. */
#include <stdint.h>
#include <stdlib.h>

#include "base/str.h"
#include "core/users.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct user_list list = { 0 };

	if (users_parse((const char *)data, size, &list, NULL) == 0) {
		for (size_t i = 0; i < list.n; i++) {
			if (!users_is_name(list.users[i].name))
				abort();
			for (size_t j = 0; j < i; j++) {
				if (streq(list.users[i].name, list.users[j].name))
					abort();
			}
		}
	}
	users_list_fini(&list);
	return 0;
}
