#include "core/boot.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/scratch.h"
#include "lib/test.h"

TEST(it_is_what_the_kernel_says)
{
	char text[9];

	CHECK(boot_tag() != 0);
	(void)snprintf(text, sizeof(text), "%08x", boot_tag());
	AUTO_FREE char *id = NULL;
	size_t size = 0;
	AUTO_FD fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(fd_read_all(fd, 100, &id, &size), 0);
	CHECK(size > 8 && memcmp(id, text, 8) == 0);
}

TEST(it_is_the_same_in_another_process)
{
	uint32_t tag = boot_tag();
	int status = -1;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(boot_tag() == tag ? 0 : 1);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

TESTS(UNIT(it_is_what_the_kernel_says), UNIT(it_is_the_same_in_another_process))
