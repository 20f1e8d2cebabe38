#include "box/witness.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

/* Younger than some headers: a signal does not interrupt who waits for our answer. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))

/* Where the number is this one, go to the last instruction but `skip`. */
#define ASKS(number, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), (skip), 0)

/* Of other conventions the box's own filter lets nothing pass, and where two filters
 * differ the kernel does what refuses more: so what this one notices may still be refused. */
static struct sock_filter code[] = {
	LOAD_NUMBER,
	ASKS(SYS_socket, 3),
	ASKS(SYS_socketpair, 2),
	ASKS(SYS_io_uring_setup, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
};

static long load(unsigned long flags)
{
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		SECCOMP_FILTER_FLAG_NEW_LISTENER | flags, &program);
}

int witness_install(int *ret_fd, struct err *err)
{
	long fd = load(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);

	if (fd < 0 && errno == EINVAL)
		fd = load(0);
	if (fd < 0 && errno != EINVAL && errno != EBUSY)
		return err_errno(err, "watch for sockets");
	*ret_fd = (int)(fd < 0 ? -1 : fd);
	return 0;
}

void witness_answer(int fd)
{
	/* The kernel's may be larger than ours, and wants zeroes. */
	union {
		struct seccomp_notif notif;
		char room[1024];
	} asked;
	union {
		struct seccomp_notif_resp resp;
		char room[1024];
	} answer;

	memset(&asked, 0, sizeof(asked));
	memset(&answer, 0, sizeof(answer));
	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
		return; /* who asked is gone */
	answer.resp.id = asked.notif.id;
	answer.resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	(void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}
