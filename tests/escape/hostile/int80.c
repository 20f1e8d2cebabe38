/* getpid by another door: "i386" by the gate of 32-bit programs, "x32" by the numbers
 * of x32. Either must be death in a box. Prints what came back. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define X32 0x40000000L

static long by_i386(void)
{
#ifdef __x86_64__
	long r = 20;

	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "cc", "r8", "r9", "r10", "r11");
	return r;
#else
	return -1;
#endif
}

int main(int argc, char **argv)
{
	int is_i386 = argc > 1 && strcmp(argv[1], "i386") == 0;
	int is_x32 = argc > 1 && strcmp(argv[1], "x32") == 0;
	long r = is_i386 ? by_i386() : syscall(39 | (is_x32 ? X32 : 0));

	printf("%ld\n", r);
	return 0;
}
