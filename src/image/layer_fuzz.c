/* Any bytes as a layer, twice, onto a tree full of links that point outside. Beside
 * the tree lies a directory that must never change. */
#include <dirent.h>
#include <stdint.h>

#include "image/budget.h"
#include "image/layer.h"
#include "image/sample.h"
#include "image/tree.h"

static struct sample_dir base;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void remove_base(void)
{
	sample_remove(&base);
}

static void make_base(void)
{
	(void)snprintf(base.path, sizeof(base.path), "/dev/shm/layer_fuzz.XXXXXX");
	base.fd = mkdtemp(base.path) ? open(base.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (base.fd < 0)
		sample_make(&base); /* no tmpfs here */
	if (mkdirat(base.fd, "away", 0777) < 0)
		abort();
	sample_write(base.fd, "away/victim", "intact", 6);
	if (atexit(remove_base) != 0)
		abort();
}

static void check_away(void)
{
	int fd = openat(base.fd, "away", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fdopendir(fd);
	int n = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		n++;
	if (n != 3 || strcmp(sample_read(fd, "victim"), "intact") != 0)
		abort();
	(void)closedir(dir);
}

static int make_root(void)
{
	if (mkdirat(base.fd, "root", 0755) < 0 || symlinkat("../away", base.fd, "root/a") < 0 ||
		symlinkat(base.path, base.fd, "root/b") < 0 ||
		symlinkat("../away/victim", base.fd, "root/c") < 0 ||
		symlinkat("a", base.fd, "root/d") < 0 || mkdirat(base.fd, "root/e", 0755) < 0)
		abort();
	return openat(base.fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Give every tar header its checksum, so that a change to one is not all that a
 * run gets to see. */
static void mend(uint8_t *data, size_t size)
{
	for (size_t at = 0; at + 512 <= size; at += 512) {
		unsigned sum = 8 * ' ';

		if (memcmp(data + at + 257, "ustar", 5) != 0)
			continue;
		for (size_t i = 0; i < 512; i++)
			sum += i >= 148 && i < 156 ? 0 : data[at + i];
		(void)snprintf((char *)data + at + 148, 8, "%06o", sum & 0777777);
		data[at + 155] = ' ';
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct layer_digests any;
	struct budget budget;
	struct tree tree;

	if (!*base.path)
		make_base();
	uint8_t *mended = malloc(size + 1);
	if (!mended)
		abort();
	memcpy(mended, data, size);
	mend(mended, size);
	int root_fd = make_root();
	budget_init(&budget, 1 << 20, root_fd);
	tree_init(&tree, root_fd);
	for (int i = 0; i < 2; i++) {
		int fd = sample_open(mended, size);
		(void)layer_apply(&tree, fd, &any, &budget, NULL);
		(void)close(fd);
	}
	tree_fini(&tree);
	(void)close(root_fd);
	free(mended);
	check_away();
	if (fd_remove_tree(base.fd, "root") < 0)
		abort();
	return 0;
}
