#include "http/multipart.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fd.h"
#include "lib/test.h"

static int spool(const char *data, size_t size)
{
	int fd = memfd_create("body", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, data, size), 0);
	return fd;
}

/* Collects "name|filename|type|content;" of each part. */
struct told {
	int fd;
	char text[4096];
	unsigned n;
	struct multipart_part last;
};

static int collect(void *ctx, const struct multipart_part *p)
{
	struct told *t = ctx;
	char content[256] = "";

	t->n++;
	t->last = *p;
	if (p->size < sizeof(content))
		CHECK_EQ(pread(t->fd, content, p->size, (off_t)p->offset), p->size);
	size_t n = strlen(t->text);
	if (n + 1000 < sizeof(t->text))
		(void)snprintf(t->text + n, sizeof(t->text) - n, "%s|%s|%s|%s;", p->name,
			p->has_filename ? p->filename : "-", p->type, content);
	return 0;
}

static int scan(const char *data, size_t size, struct told *ret)
{
	struct err err = { 0 };
	AUTO_FD fd = spool(data, size);

	*ret = (struct told){ .fd = fd };
	int r = multipart_scan(fd, size, "XX", collect, ret, &err);
	CHECK((r == 0) == (err.text[0] == '\0'));
	return r;
}

#define NAMED(name) "Content-Disposition: form-data; name=\"" name "\"\r\n"

TEST(parts_are_found)
{
	static const char body[] = "--XX\r\n" NAMED(
		"a") "\r\nvalue\r\n--XX\r\n"
		     "content-disposition: form-data; name=b; filename=\"x \\\"y\\\".txt\"\r\n"
		     "Content-Type: text/plain\r\nX-Other: z\r\n\r\nline\r\n--X not yet\r\n\r\n--XX\r\n" NAMED(
			     "empty") "\r\n\r\n--XX--\r\n";
	struct told t;

	CHECK_EQ(scan(body, sizeof(body) - 1, &t), 0);
	CHECK_STR(t.text, "a|-||value;b|x \"y\".txt|text/plain|line\r\n--X not yet\r\n;empty|-||;");
	CHECK_EQ(scan("--XX--", 6, &t), 0);
	CHECK_EQ(t.n, 0);
}

TEST(a_large_part_is_found_wherever_its_end_falls)
{
	static const char head[] = "--XX\r\n" NAMED("f") "\r\n";
	static const char tail[] = "\r\n--XX--\r\n";
	AUTO_FREE char *body = malloc(300000);
	struct told t;

	/* So that the end is cut by the window in every way. */
	for (size_t size = 131072 - 120; size < 131072 + 20; size++) {
		char *at = stpcpy(body, head);
		memset(at, '\r', size);
		memcpy(at + size, tail, sizeof(tail));
		CHECK_EQ(scan(body, sizeof(head) - 1 + size + sizeof(tail) - 1, &t), 0);
		CHECK_EQ(t.last.offset, sizeof(head) - 1);
		CHECK_EQ(t.last.size, size);
	}
}

static const struct {
	const char *body;
	int want;
} malformed[] = {
	{ "", -EBADMSG },
	{ "preamble\r\n--XX--", -EBADMSG },
	{ "--XY\r\n", -EBADMSG },
	{ "--XX", -EBADMSG },
	{ "--XX\r\n", -EBADMSG },
	{ "--XXmore\r\n" NAMED("a") "\r\nv\r\n--XX--", -EBADMSG },
	{ "--XX\r\n" NAMED("a"), -EBADMSG },
	{ "--XX\r\n" NAMED("a") "\r\nvalue", -EBADMSG },
	{ "--XX\r\n" NAMED("a") "\r\nvalue\r\n--XX", -EBADMSG },
	{ "--XX\r\n" NAMED("a") "\r\nvalue\r\n--XX--\r\nepilogue", -EBADMSG },
	{ "--XX\r\n\r\nvalue\r\n--XX--", -EBADMSG },
	{ "--XX\r\nX: y\r\n\r\nvalue\r\n--XX--", -EBADMSG },
	{ "--XX\r\n" NAMED("") "\r\nvalue\r\n--XX--", -EBADMSG },
	{ "--XX\r\n" NAMED("a") NAMED("b") "\r\nvalue\r\n--XX--", -EBADMSG },
	{ "--XX\r\nContent-Disposition: form-data\r\n\r\nvalue\r\n--XX--", -EBADMSG },
	{ "--XX\r\nContent-Disposition: attachment; name=a\r\n\r\nvalue\r\n--XX--", -EBADMSG },
	{ "--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\nvalue\r\n--XX--", -EBADMSG },
	{ "--XX\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\nv\r\n--XX--", -EBADMSG },
	{ "--XX\r\nContent-Disposition: form-data; name=a x\r\n\r\nv\r\n--XX--", -EBADMSG },
	{ "--XX\r\nno colon\r\n\r\nvalue\r\n--XX--", -EBADMSG },
	{ "--XX\r\n" NAMED("a") "X: a\nb\r\n\r\nvalue\r\n--XX--", -EBADMSG },
	{ "--XX\r\n" NAMED("a") "Content-Type: a\r\nContent-Type: b\r\n\r\nv\r\n--XX--", -EBADMSG },
};

TEST(what_is_malformed_is_refused)
{
	struct told t;

	for (size_t i = 0; i < ARRAY_SIZE(malformed); i++) {
		print_message("%s\n", malformed[i].body);
		CHECK_EQ(scan(malformed[i].body, strlen(malformed[i].body), &t), malformed[i].want);
	}
}

TEST(there_are_limits)
{
	static const char part[] = "--XX\r\n" NAMED("a") "\r\n\r\n";
	AUTO_FREE char *body = malloc((MULTIPART_PARTS_MAX + 2) * sizeof(part));
	AUTO_FREE char *wide = calloc(1, MULTIPART_HEAD_MAX + 100);
	struct told t;

	char *at = body;
	for (unsigned i = 0; i < MULTIPART_PARTS_MAX; i++)
		at = stpcpy(at, part);
	(void)stpcpy(at, "--XX--");
	CHECK_EQ(scan(body, strlen(body), &t), 0);
	CHECK_EQ(t.n, MULTIPART_PARTS_MAX);
	(void)stpcpy(stpcpy(at, part), "--XX--");
	CHECK_EQ(scan(body, strlen(body), &t), -E2BIG);
	at = stpcpy(wide, "--XX\r\nX: ");
	memset(at, 'x', MULTIPART_HEAD_MAX);
	CHECK_EQ(scan(wide, strlen(wide), &t), -E2BIG);
	(void)stpcpy(wide, "--XX\r\nContent-Disposition: form-data; name=\"");
	memset(wide + strlen(wide), 'x', 1);
	CHECK_EQ(scan(wide, strlen(wide), &t), -E2BIG);
}

static int refuse(void *ctx, const struct multipart_part *p)
{
	(void)ctx;
	(void)p;
	return -EDQUOT;
}

TEST(who_is_told_may_end_it)
{
	static const char body[] = "--XX\r\n" NAMED("a") "\r\nvalue\r\n--XX--";
	AUTO_FD fd = spool(body, sizeof(body) - 1);
	struct err err = { 0 };

	CHECK_EQ(multipart_scan(fd, sizeof(body) - 1, "XX", refuse, NULL, &err), -EDQUOT);
	/* A file that is shorter than it was said to be. */
	CHECK_EQ(multipart_scan(fd, sizeof(body) + 9, "XX", refuse, NULL, &err), -EIO);
}

TEST(the_boundary_is_found_in_the_header)
{
	static const struct {
		const char *header;
		const char *boundary;
	} cases[] = {
		{ "multipart/form-data; boundary=abc", "abc" },
		{ "Multipart/Form-Data; charset=utf-8; BOUNDARY=\"a b\"", "a b" },
		{ "multipart/form-data;boundary=----WebKitFormBoundary7MA4YWxk",
			"----WebKitFormBoundary7MA4YWxk" },
		{ "multipart/form-data; boundary=abc;", "abc" },
		{ NULL, NULL },
		{ "", NULL },
		{ "text/plain; boundary=abc", NULL },
		{ "multipart/form-data", NULL },
		{ "multipart/form-data; boundary=", NULL },
		{ "multipart/form-data; boundary=\"abc", NULL },
		{ "multipart/form-data; boundary=\"abc \"", NULL },
		{ "multipart/form-data; boundary=a@b", NULL },
		{ "multipart/form-data; boundary=a; boundary=b", NULL },
		{ "multipart/form-data; boundary=12345678901234567890123456789012345678901234567890"
		  "123456789012345678901",
			NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char boundary[MULTIPART_BOUNDARY_MAX + 1] = "";
		struct err err = { 0 };
		int r = multipart_boundary(cases[i].header, boundary, &err);

		print_message("%s\n", cases[i].header ? cases[i].header : "none");
		CHECK_EQ(r, cases[i].boundary ? 0 : -EINVAL);
		CHECK_STR(boundary, cases[i].boundary ? cases[i].boundary : "");
	}
}

TESTS(UNIT(parts_are_found), UNIT(a_large_part_is_found_wherever_its_end_falls),
	UNIT(what_is_malformed_is_refused), UNIT(there_are_limits), UNIT(who_is_told_may_end_it),
	UNIT(the_boundary_is_found_in_the_header))
