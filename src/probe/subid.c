#include "probe/subid.h"

#include <stdbool.h>
#include <string.h>

#include "base/str.h"

#define LINE_MAX_SIZE 256
#define ID_MAX        UINT32_MAX

/* Copy the line at `*at` and move on behind it; false at the end of the text. A
 * line too long to be meant seriously is taken as empty. */
static bool take_line(const char **at, char line[LINE_MAX_SIZE])
{
	if (!**at)
		return false;
	size_t n = strcspn(*at, "\n");
	size_t kept = n < LINE_MAX_SIZE ? n : 0;
	memcpy(line, *at, kept);
	line[kept] = '\0';
	*at += n + ((*at)[n] == '\n');
	return true;
}

/* "alice:100000:65536" -> 65536 when it is about this user, else 0. */
static uint64_t count_of_line(char *line, const char *user, uid_t uid)
{
	uint64_t start = 0;
	uint64_t count = 0;
	uint64_t number = 0;
	char *first = strchr(line, ':');
	char *second = first ? strchr(first + 1, ':') : NULL;

	if (!second)
		return 0;
	*first = '\0';
	*second = '\0';
	bool is_number = str_parse_u64(line, ID_MAX, &number) == 0 && number == uid;
	if (!streq(line, user) && !is_number)
		return 0;
	if (str_parse_u64(first + 1, ID_MAX, &start) < 0 ||
		str_parse_u64(second + 1, ID_MAX, &count) < 0)
		return 0;
	return start + count <= ID_MAX ? count : 0;
}

uint64_t subid_count(const char *text, const char *user, uid_t uid)
{
	char line[LINE_MAX_SIZE];
	uint64_t total = 0;

	while (take_line(&text, line))
		total += count_of_line(line, user, uid);
	return total;
}
