#include "base/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/err.h"
#include "base/quote.h"
#include "base/str.h"

struct digest {
	EVP_MD_CTX *ctx;
};

/* The library fails here only without memory or without SHA-256; neither leaves
 * anything sensible to do, and going on unchecked is not one of the options. */
static void must(int ok)
{
	if (ok != 1)
		abort();
}

struct digest *digest_new(void)
{
	struct digest *d = xnew(struct digest);

	d->ctx = EVP_MD_CTX_new();
	must(d->ctx != NULL);
	must(EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL));
	return d;
}

void digest_free(struct digest *d)
{
	if (d)
		EVP_MD_CTX_free(d->ctx);
	free(d);
}

void digest_add(struct digest *d, const void *data, size_t size)
{
	must(EVP_DigestUpdate(d->ctx, data, size));
}

void digest_end(struct digest *d, char hex[DIGEST_HEX_SIZE + 1])
{
	unsigned char raw[EVP_MAX_MD_SIZE];

	must(EVP_DigestFinal_ex(d->ctx, raw, NULL));
	str_hex(raw, DIGEST_HEX_SIZE / 2, hex);
}

void digest_of(const void *data, size_t size, char hex[DIGEST_HEX_SIZE + 1])
{
	CLEANUP(digest_freep) struct digest *d = digest_new();

	digest_add(d, data, size);
	digest_end(d, hex);
}

int digest_parse(const char *text, const char *what, char hex[DIGEST_HEX_SIZE + 1], struct err *err)
{
	const char *rest = str_after(text, "sha256:");

	if (!rest && strchr(text, ':'))
		return err_set(
			err, -ENOTSUP, "%s: digest %s is not a sha256 one", what, quote(text).text);
	if (!rest || !str_is_hex(rest, DIGEST_HEX_SIZE))
		return err_set(err, -EINVAL, "%s: %s is not a digest", what, quote(text).text);
	memcpy(hex, rest, DIGEST_HEX_SIZE + 1);
	return 0;
}
