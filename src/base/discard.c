#include "base/discard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* In blocks of 512 bytes: one MB is freed in no time. */
#define SMALL_BLOCKS 2048

/* So many wait for the thread; whoever brings one more closes it himself. */
#define WAITING_MAX 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static int waiting[WAITING_MAX]; /* under the lock, as the next two */
static size_t n_waiting;
static bool has_thread;

static int take_last(void)
{
	(void)pthread_mutex_lock(&lock);
	while (n_waiting == 0)
		(void)pthread_cond_wait(&wake, &lock);
	int fd = waiting[--n_waiting];
	(void)pthread_mutex_unlock(&lock);
	return fd;
}

static void *close_all(void *arg)
{
	(void)arg;
	for (;;)
		(void)close(take_last());
	return NULL;
}

/* The thread stays until the process ends. It blocks all signals: other threads handle them. */
static bool start_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all;
	sigset_t before;

	(void)sigfillset(&all);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&thread, &attr, close_all, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	return r == 0;
}

/* False when the thread can not take it. */
static bool give(int fd)
{
	(void)pthread_mutex_lock(&lock);
	has_thread = has_thread || start_thread();
	bool is_taken = has_thread && n_waiting < WAITING_MAX;
	if (is_taken) {
		waiting[n_waiting++] = fd;
		(void)pthread_cond_signal(&wake);
	}
	(void)pthread_mutex_unlock(&lock);
	return is_taken;
}

/* Closing a file that still has a name frees nothing. */
static bool is_quick(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink > 0 ||
	       st.st_blocks <= SMALL_BLOCKS;
}

void discard_fd(int *fd)
{
	int given = take_fd(fd);

	if (given >= 0 && (is_quick(given) || !give(given)))
		(void)close(given);
}

/* While it is open, removing the name frees nothing. */
int discard_file(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int r = unlinkat(dir_fd, path, 0) < 0 ? -errno : 0;

	discard_fd(&fd);
	return r;
}
