#include "probe/languages.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "lang/lang.h"
#include "probe/host.h"

static void append(char *list, size_t size, const char *before, const char *word)
{
	size_t used = strlen(list);

	(void)snprintf(list + used, size - used, "%s%s", before, word);
}

static void add_name(char *list, size_t size, const char *name)
{
	append(list, size, list[0] ? ", " : "", name);
}

/* What a language that is not here needs; some of it may be there. */
static void add_packages(char *fix, size_t size, const struct lang *l)
{
	for (const struct lang_need *need = l->needs; need->name; need++) {
		if (!str_has_word(fix, need->package))
			append(fix, size, " ", need->package);
	}
}

void languages_report(languages_has_fn *has, struct finding *ret)
{
	static char fix[256]; /* the finding points to it */
	char here[PROBE_DETAIL_MAX / 2] = "";
	char missing[PROBE_DETAIL_MAX / 2] = "";

	(void)snprintf(fix, sizeof(fix), "sudo apt install");
	for (const struct lang *l = langs; l->name; l++) {
		bool is_here = has(l);

		add_name(is_here ? here : missing, sizeof(here), l->name);
		if (!is_here)
			add_packages(fix, sizeof(fix), l);
	}
	if (!missing[0]) {
		finding_set(ret, PROBE_OK, "%s", here);
		return;
	}
	ret->fix = fix;
	finding_set(ret, here[0] ? PROBE_PARTIAL : PROBE_MISSING, "%s%sthere is no %s", here,
		here[0] ? "; " : "", missing);
}

static bool is_on_disk(const struct lang *l)
{
	return lang_check(l, NULL) == 0;
}

void languages_probe(const struct probe *self, const struct host *host, struct finding *ret)
{
	(void)self;
	(void)host;
	languages_report(is_on_disk, ret);
}
