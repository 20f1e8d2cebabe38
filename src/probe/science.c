#include "probe/science.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "probe/host.h"
#include "probe/spawn.h"
#include "probe/tool.h"

/* Debian names the packages after the modules. */
static const char *const modules[] = { "pandas", "numpy", "matplotlib", "seaborn", "openpyxl",
	"reportlab" };

/* Finding is enough, as importing pandas takes a second; but a directory of that name with nothing
 * in it is found as well, and has no file that it comes from. */
const char science_script[] =
	"import importlib.util as u, sys; "
	"print(*[m for m in sys.argv[1:] if not getattr(u.find_spec(m), 'origin', None)])";

bool science_format_fix(const char *missing, char *buf, size_t size)
{
	size_t used = (size_t)snprintf(buf, size, "sudo apt install");
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(modules) && used < size; i++) {
		if (!str_has_word(missing, modules[i]))
			continue;
		any = true;
		used += (size_t)snprintf(buf + used, size - used, " python3-%s", modules[i]);
	}
	return any;
}

void science_probe(const struct probe *self, const struct host *host, struct finding *ret)
{
	static char fix[256]; /* the finding points to it */
	const char *argv[4 + ARRAY_SIZE(modules) + 1] = { "/usr/bin/python3", "-I", "-c",
		science_script };
	struct spawn s = { 0 };

	(void)self;
	(void)host;
	memcpy(argv + 4, modules, sizeof(modules));
	if (access(argv[0], X_OK) < 0) {
		finding_set(ret, PROBE_MISSING, "there is no %s", argv[0]);
		return;
	}
	if (spawn_start(&s, argv, TOOL_TIMEOUT_MS) < 0 || spawn_finish(&s) != 0) {
		finding_set(ret, PROBE_UNKNOWN, "%s does not say what it has", argv[0]);
		return;
	}
	s.output[strcspn(s.output, "\n")] = '\0';
	if (!science_format_fix(s.output, fix, sizeof(fix))) {
		finding_set(
			ret, PROBE_OK, "pandas, numpy, matplotlib, seaborn, openpyxl, reportlab");
		return;
	}
	ret->fix = fix;
	finding_set(ret, PROBE_PARTIAL, "%s lacks %s", argv[0], s.output);
}
