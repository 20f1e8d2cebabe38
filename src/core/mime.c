#include "core/mime.h"

#include <magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"

#define UNKNOWN "application/octet-stream"

/* Sorted, for bsearch(). */
static const struct kind {
	const char *suffix;
	const char *type;
} kinds[] = {
	{ "7z", "application/x-7z-compressed" },
	{ "aac", "audio/aac" },
	{ "avi", "video/x-msvideo" },
	{ "bash", "text/x-shellscript" },
	{ "bin", UNKNOWN },
	{ "bmp", "image/bmp" },
	{ "bz2", "application/x-bzip2" },
	{ "c", "text/x-c" },
	{ "cc", "text/x-c++" },
	{ "cfg", "text/plain" },
	{ "conf", "text/plain" },
	{ "cpp", "text/x-c++" },
	{ "css", "text/css" },
	{ "csv", "text/csv" },
	{ "diff", "text/x-diff" },
	{ "doc", "application/msword" },
	{ "docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document" },
	{ "epub", "application/epub+zip" },
	{ "flac", "audio/flac" },
	{ "gif", "image/gif" },
	{ "go", "text/x-go" },
	{ "gz", "application/gzip" },
	{ "h", "text/x-c" },
	{ "h5", "application/x-hdf5" },
	{ "htm", "text/html" },
	{ "html", "text/html" },
	{ "ico", "image/vnd.microsoft.icon" },
	{ "ics", "text/calendar" },
	{ "ini", "text/plain" },
	{ "ipynb", "application/x-ipynb+json" },
	{ "java", "text/x-java" },
	{ "jpeg", "image/jpeg" },
	{ "jpg", "image/jpeg" },
	{ "js", "text/javascript" },
	{ "json", "application/json" },
	{ "jsonl", "application/x-ndjson" },
	{ "log", "text/plain" },
	{ "md", "text/markdown" },
	{ "mjs", "text/javascript" },
	{ "mkv", "video/x-matroska" },
	{ "mov", "video/quicktime" },
	{ "mp3", "audio/mpeg" },
	{ "mp4", "video/mp4" },
	{ "ndjson", "application/x-ndjson" },
	{ "npy", UNKNOWN },
	{ "npz", UNKNOWN },
	{ "odt", "application/vnd.oasis.opendocument.text" },
	{ "ogg", "audio/ogg" },
	{ "parquet", "application/vnd.apache.parquet" },
	{ "patch", "text/x-diff" },
	{ "pdf", "application/pdf" },
	{ "pkl", UNKNOWN },
	{ "png", "image/png" },
	{ "pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation" },
	{ "ps", "application/postscript" },
	{ "py", "text/x-python" },
	{ "rb", "text/x-ruby" },
	{ "rs", "text/x-rust" },
	{ "rst", "text/x-rst" },
	{ "rtf", "application/rtf" },
	{ "sh", "text/x-shellscript" },
	{ "sql", "application/sql" },
	{ "svg", "image/svg+xml" },
	{ "tar", "application/x-tar" },
	{ "tex", "application/x-tex" },
	{ "tgz", "application/gzip" },
	{ "tif", "image/tiff" },
	{ "tiff", "image/tiff" },
	{ "toml", "application/toml" },
	{ "ts", "text/x-typescript" },
	{ "tsv", "text/tab-separated-values" },
	{ "txt", "text/plain" },
	{ "wasm", "application/wasm" },
	{ "wav", "audio/x-wav" },
	{ "webm", "video/webm" },
	{ "webp", "image/webp" },
	{ "whl", "application/zip" },
	{ "woff", "font/woff" },
	{ "woff2", "font/woff2" },
	{ "xls", "application/vnd.ms-excel" },
	{ "xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" },
	{ "xml", "text/xml" },
	{ "xz", "application/x-xz" },
	{ "yaml", "application/yaml" },
	{ "yml", "application/yaml" },
	{ "zip", "application/zip" },
	{ "zst", "application/zstd" },
};

static int compare(const void *suffix, const void *kind)
{
	return strcasecmp(suffix, ((const struct kind *)kind)->suffix);
}

const char *mime_of_name(const char *name)
{
	const char *slash = strrchr(name, '/');
	const char *leaf = slash ? slash + 1 : name;
	const char *dot = strrchr(leaf, '.');

	if (!dot || dot == leaf)
		return NULL; /* ".bashrc" has no suffix */
	const struct kind *k =
		bsearch(dot + 1, kinds, ARRAY_SIZE(kinds), sizeof(kinds[0]), compare);
	return k ? k->type : NULL;
}

/* --- by content --- */

/* libmagic's handle must not be shared between threads, and its rules take a while to load:
 * each thread that needs one keeps it. */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void close_magic(void *cookie)
{
	magic_close(cookie);
}

static void make_key(void)
{
	if (pthread_key_create(&key, close_magic) != 0)
		abort();
}

/* The parts of libmagic that take a file apart, rather than look at its first bytes, are off:
 * the files come from strangers. */
#define FLAGS                                                                                      \
	(MAGIC_MIME_TYPE | MAGIC_NO_CHECK_COMPRESS | MAGIC_NO_CHECK_ELF | MAGIC_NO_CHECK_CDF |     \
		MAGIC_NO_CHECK_TAR)

static magic_t open_magic(void)
{
	(void)pthread_once(&key_once, make_key);
	magic_t cookie = pthread_getspecific(key);
	if (cookie)
		return cookie;
	cookie = magic_open(FLAGS);
	if (!cookie)
		return NULL;
	if (magic_load(cookie, NULL) != 0 || pthread_setspecific(key, cookie) != 0) {
		magic_close(cookie);
		return NULL;
	}
	return cookie;
}

/* What libmagic says is about a stranger's file: only what looks like a type is used. */
static bool is_type(const char *text)
{
	static const char good[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/.+-_";

	return text && strchr(text, '/') && strlen(text) < MIME_SIZE &&
	       text[strspn(text, good)] == '\0';
}

void mime_of(const char *name, const void *head, size_t size, char ret[MIME_SIZE])
{
	const char *type = mime_of_name(name);

	/* An empty file is nothing special: "inode/x-empty" helps nobody. */
	if (!type && size > 0) {
		magic_t cookie = open_magic();

		size = size < MIME_HEAD_SIZE ? size : MIME_HEAD_SIZE;
		type = cookie ? magic_buffer(cookie, head, size) : NULL;
	}
	(void)snprintf(ret, MIME_SIZE, "%s", is_type(type) ? type : UNKNOWN);
}

bool mime_is_text(const char *type)
{
	static const char *const more[] = { "application/json", "application/x-ndjson",
		"application/x-ipynb+json", "application/javascript", "application/xml",
		"application/yaml", "application/toml", "application/sql", "application/x-tex",
		"application/postscript", "application/rtf", "image/svg+xml", "image/bmp" };

	if (str_after(type, "text/"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		if (streq(type, more[i]))
			return true;
	return false;
}
