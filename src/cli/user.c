/* `belljar user`: who may use a server, when more than one. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/option.h"
#include "core/users.h"

struct values {
	const char *root;
	const char *file;
	bool admin;
};

static const struct option_row options[] = {
	{ "--admin", 0, OPTION_FLAG, offsetof(struct values, admin), NULL,
		"for add: the user is an admin" },
	{ "--file", 0, OPTION_STRING, offsetof(struct values, file), "FILE",
		"the users file, else $SANDBOX_USERS_FILE, else users in the state directory" },
	{ "--root", 0, OPTION_STRING, offsetof(struct values, root), "DIR",
		"the state directory, else $BELLJAR_ROOT" },
	{ 0 },
};

/* A key is shown this once; the file has only its hash. */
static int show_key(char key[KEYFILE_KEY_SIZE + 1])
{
	printf("%s\n", key);
	explicit_bzero(key, KEYFILE_KEY_SIZE);
	return fflush(stdout) != EOF ? 0 : -errno;
}

static int do_add(const struct values *v, const char *file, const char *name, struct err *err)
{
	char key[KEYFILE_KEY_SIZE + 1];
	int r = users_add(file, name, v->admin, key, err);

	if (r < 0 || show_key(key) == 0)
		return r;
	r = err_errno(err, "%s was not added, the key could not be shown", name);
	(void)users_remove(file, name, NULL);
	return r;
}

static int do_rotate(const struct values *v, const char *file, const char *name, struct err *err)
{
	char key[KEYFILE_KEY_SIZE + 1];
	int r = users_rotate(file, name, key, err);

	(void)v;
	if (r < 0 || show_key(key) == 0)
		return r;
	return err_errno(
		err, "the key could not be shown: %s has no known key now, rotate it again", name);
}

static int do_list(const struct values *v, const char *file, const char *name, struct err *err)
{
	CLEANUP(users_list_fini) struct user_list list = { 0 };
	int r = users_read(file, &list, err);

	(void)name;
	if (r == -ENOENT && !v->file)
		return 0; /* nobody was added yet */
	for (size_t i = 0; r == 0 && i < list.n; i++)
		printf("%-32s %s\n", list.users[i].name, list.users[i].admin ? "admin" : "user");
	return r;
}

static int do_remove(const struct values *v, const char *file, const char *name, struct err *err)
{
	(void)v;
	return users_remove(file, name, err);
}

static const struct verb {
	const char *name;
	bool takes_name;
	bool takes_admin;
	int (*act)(const struct values *v, const char *file, const char *name, struct err *err);
} verbs[] = {
	{ "add", true, true, do_add },
	{ "list", false, false, do_list },
	{ "rotate", true, false, do_rotate },
	{ "remove", true, false, do_remove },
};

static int refuse_verb(const char *word, struct err *err)
{
	const char *names[ARRAY_SIZE(verbs)];

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		names[i] = verbs[i].name;
	const char *near = str_nearest(word, names, ARRAY_SIZE(names));
	return near ? err_set(err, -EINVAL, "unknown verb '%.64s', did you mean '%s'?", word, near)
		    : err_set(err, -EINVAL, "unknown verb '%.64s', see belljar user --help", word);
}

static int find_verb(const char *word, const struct verb **ret, struct err *err)
{
	if (!word)
		return err_set(err, -EINVAL, "user needs a verb: add, list, rotate or remove");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (streq(verbs[i].name, word)) {
			*ret = &verbs[i];
			return 0;
		}
	}
	return refuse_verb(word, err);
}

/* Options may stand anywhere; the words between them are the verb and the name. Returns 1, 0
 * when help was printed, or a negative errno. */
static int parse(const struct command *self, int argc, char **argv, struct values *v,
	const char *words[2], struct err *err)
{
	size_t n_words = 0;

	for (int at = 0; at < argc - 1;) {
		int n = option_parse(self, argc - at, argv + at, v, err);
		if (n <= 0)
			return n;
		at += n;
		if (at >= argc)
			break;
		if (n_words == 2)
			return err_set(err, -EINVAL, "'%.64s' is one argument too many", argv[at]);
		words[n_words++] = argv[at];
	}
	return 1;
}

static int check_words(
	const struct verb *verb, const struct values *v, const char *name, struct err *err)
{
	if (verb->takes_name && !name)
		return err_set(err, -EINVAL, "user %s needs a name", verb->name);
	if (!verb->takes_name && name)
		return err_set(err, -EINVAL, "user %s takes no name", verb->name);
	if (v->admin && !verb->takes_admin)
		return err_set(err, -EINVAL, "user %s has no option --admin", verb->name);
	return 0;
}

/* The caller frees it. A state directory that is not there yet is made. */
static int choose_file(const struct values *v, char **ret, struct err *err)
{
	const char *named = getenv("SANDBOX_USERS_FILE");
	AUTO_FREE char *root = NULL;

	if (v->file || (named && *named && !v->root)) {
		*ret = xstrdup(v->file ? v->file : named);
		return 0;
	}
	int r = path_state_root(v->root, &root, err);
	if (r == 0)
		r = path_make_dirs(root, 0755, err);
	if (r == 0 && asprintf(ret, "%s/users", root) < 0)
		abort();
	return r;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct values v = { 0 };
	struct err err = { 0 };
	const char *words[2] = { NULL, NULL };
	const struct verb *verb = NULL;
	AUTO_FREE char *file = NULL;
	int r = parse(self, argc, argv, &v, words, &err);

	if (r == 0)
		return EXIT_SUCCESS;
	if (r > 0)
		r = find_verb(words[0], &verb, &err);
	if (r == 0)
		r = check_words(verb, &v, words[1], &err);
	if (r == 0)
		r = choose_file(&v, &file, &err);
	if (r == 0)
		r = verb->act(&v, file, words[1], &err);
	if (r == 0 && fflush(stdout) == EOF)
		r = err_errno(&err, "write");
	if (r < 0)
		complain("%s", err.text);
	return r < 0 ? EXIT_OURS : EXIT_SUCCESS;
}

const struct command command_user = {
	.name = "user",
	.arguments = "add|list|rotate|remove [NAME]",
	.summary = "add, list or remove users of a server, or give them new keys",
	.description =
		"  belljar user add NAME [--admin]   print a new key, which is shown this once\n"
		"  belljar user list                 list names and roles\n"
		"  belljar user rotate NAME          print a new key; the old one stops working at once\n"
		"  belljar user remove NAME          the key stops working at once\n\n"
		"A server uses the users of its state directory, and notices changes by itself, also\n"
		"the first user. A file elsewhere must be named to it by SANDBOX_USERS_FILE, it must\n"
		"be able to read the file, and others must not. A server that root starts gives the\n"
		"file to the user whom it becomes; for a file elsewhere, if SANDBOX_RUN_AS names that\n"
		"user, it must be set here as well.",
	.options = options,
	.run = run,
};
