#include "base/cleanup.h"
#include "core/upload.h"
#include "lib/test.h"

TEST(suffixes_decide)
{
	static const struct {
		const char *name;
		enum upload_kind kind;
	} rows[] = {
		{ "a.tar", UPLOAD_TAR },
		{ "a.tar.gz", UPLOAD_TAR },
		{ "A.TGZ", UPLOAD_TAR },
		{ "a.tar.bz2", UPLOAD_TAR },
		{ "a.tbz2", UPLOAD_TAR },
		{ "a.tar.xz", UPLOAD_TAR },
		{ "a.tar.zst", UPLOAD_TAR },
		{ "a.zip", UPLOAD_ZIP },
		{ "a.gz", UPLOAD_PLAIN },
		{ "tar", UPLOAD_PLAIN },
		{ "a.zip.txt", UPLOAD_PLAIN },
		{ "", UPLOAD_PLAIN },
		{ NULL, UPLOAD_PLAIN },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_EQ(upload_kind_of(rows[i].name), rows[i].kind);
}

TESTS(UNIT(suffixes_decide))
