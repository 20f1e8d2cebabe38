#include "box/profile.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/str.h"
#include "box/seccomp.h"
#include "box/shrink.h"
#include "lib/test.h"

#define EPERM_ANSWER (SECCOMP_RET_ERRNO | EPERM)

/* Fields around which a test writes its own. */
#define NEEDS                                                                                      \
	"{\"names\":[\"brk\",\"clone\",\"close\",\"execve\",\"exit_group\",\"ioctl\",\"mmap\","    \
	"\"openat2\",\"prctl\",\"read\",\"rt_sigreturn\",\"sendmsg\",\"wait4\",\"write\"],"        \
	"\"action\":\"SCMP_ACT_ALLOW\"}"
#define DEFAULT       "\"defaultAction\":\"SCMP_ACT_ERRNO\""
#define WITH(fields)  "{" DEFAULT "," fields ",\"syscalls\":[" NEEDS "]}"
#define RULE(rule)    "{" DEFAULT ",\"syscalls\":[" NEEDS "," rule "]}"
#define GETPID(more)  RULE("{\"names\":[\"getpid\"],\"action\":\"SCMP_ACT_ALLOW\"" more "}")
#define ARGS(args)    GETPID(",\"args\":[" args "]")
#define ARG(i, v, op) "{\"index\":" i ",\"value\":" v ",\"op\":\"SCMP_CMP_" op "\"}"

#ifdef __x86_64__
#define ARCH_NAME "amd64"
#else
#define ARCH_NAME "arm64"
#endif

static uint32_t ask(const struct seccomp_program *p, long nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	struct seccomp_data call = { .nr = (int)nr, .arch = seccomp_arch_native() };

	call.args[0] = a0;
	call.args[1] = a1;
	call.args[2] = a2;
	return seccomp_eval(p, &call, NULL);
}

static struct seccomp_program compile_text(const char *json)
{
	struct seccomp_program p = { 0 };
	struct err err = { 0 };

	if (profile_compile(json, strlen(json), &p, &err) < 0)
		fail_msg("%s", err.text);
	return p;
}

static struct seccomp_program compile_shipped(void)
{
	struct seccomp_program p = { 0 };
	struct err err = { 0 };

	if (profile_compile(profile_default, profile_default_size, &p, &err) < 0)
		fail_msg("%s", err.text);
	CHECK(shrink_program(&p)); /* as it is loaded */
	return p;
}

/* clang-format off */
static const struct {
	const char *json;
	const char *says;
} bad[] = {
	{ "", "profile: line 1" },
	{ "{", "profile: line 1" },
	{ "[]", "profile: it is not an object" },
	{ "{}", "defaultAction is missing" },
	{ "{" DEFAULT "}", "syscalls is missing" },
	{ "{" DEFAULT ",\"syscalls\":null}", "syscalls is not an array" },
	{ "{" DEFAULT ",\"syscalls\":[]}", "no rule allows 'brk'" },
	{ "{" DEFAULT "," DEFAULT ",\"syscalls\":[]}", "duplicate object key" },
	{ "{" DEFAULT ",\"syscalls\":[7]}", "syscalls[0] is not an object" },
	{ "{\"defaultAction\":7,\"syscalls\":[]}", "defaultAction is not a string" },
	{ "{\"defaultAction\":\"ALLOW\",\"syscalls\":[]}", "defaultAction: 'ALLOW' is not" },
	{ WITH("\"defaultErrnoRet\":\"EPERM\""), "defaultErrnoRet is not an integer" },
	{ WITH("\"defaultErrnoRet\":4096"), "defaultErrnoRet is not between 0 and 4095" },
	{ WITH("\"defaultErrnoRet\":-1"), "defaultErrnoRet is not between" },
	{ WITH("\"listenerPath\":\"/x\""), "listenerPath is not a known field" },
	{ WITH("\"flags\":[\"SECCOMP_FILTER_FLAG_LOG\"]"), "flags[0]" },
	{ WITH("\"flags\":[1]"), "flags[0] is not a string" },
	{ WITH("\"architectures\":[\"SCMP_ARCH_S390X\"]"), "other machines" },
	{ WITH("\"architectures\":[1]"), "architectures[0] is not a string" },
	{ WITH("\"archMap\":[{}]"), "archMap[0].architecture is missing" },
	{ WITH("\"archMap\":[{\"architecture\":\"SCMP_ARCH_ARM\"}]"), "other machines" },
	{ WITH("\"archMap\":[{\"architecture\":\"x\",\"subArchitectures\":[1]}]"),
		"archMap[0].subArchitectures[0] is not a string" },
	{ RULE("{\"action\":\"SCMP_ACT_ALLOW\"}"), "syscalls[1].names is missing" },
	{ RULE("{\"names\":[\"getpid\"]}"), "syscalls[1].action is missing" },
	{ RULE("{\"names\":[1],\"action\":\"SCMP_ACT_ALLOW\"}"), "syscalls[1].names[0]" },
	{ RULE("{\"names\":[],\"action\":\"SCMP_ACT_NOTIFY\"}"), "syscalls[1].action: " },
	{ RULE("{\"names\":[],\"action\":\"SCMP_ACT_TRACE\"}"), "SCMP_ACT_TRACE" },
	{ RULE("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_TRAP\"}"), "syscalls[1]: 'read'" },
	{ GETPID(",\"arg\":[]"), "syscalls[1].arg is not a known field" },
	{ GETPID(",\"errnoRet\":1"), "syscalls[1].errnoRet is given" },
	{ GETPID(",\"args\":{}"), "syscalls[1].args is not an array" },
	{ GETPID(",\"includes\":[]"), "syscalls[1].includes is not an object" },
	{ GETPID(",\"includes\":{\"cap\":[]}"), "syscalls[1].includes.cap is not" },
	{ GETPID(",\"includes\":{\"caps\":[1]}"), "syscalls[1].includes.caps[0]" },
	{ GETPID(",\"excludes\":{\"arches\":[1]}"), "syscalls[1].excludes.arches[0]" },
	{ GETPID(",\"includes\":{\"minKernel\":\"4\"}"), "includes.minKernel: '4'" },
	{ GETPID(",\"includes\":{\"minKernel\":\"4.8x\"}"), "'4.8x'" },
	{ GETPID(",\"includes\":{\"minKernel\":4.8}"), "minKernel is not a string" },
	{ ARGS("1"), "syscalls[1].args[0] is not an object" },
	{ ARGS("{}"), "syscalls[1].args[0].index is missing" },
	{ ARGS(ARG("6", "0", "EQ")), "syscalls[1].args[0].index is not between 0 and 5" },
	{ ARGS(ARG("0", "-1", "EQ")), "syscalls[1].args[0].value is not between" },
	{ ARGS(ARG("0", "1.5", "EQ")), "syscalls[1].args[0].value is not an integer" },
	{ ARGS(ARG("0", "0", "LIKE")), "syscalls[1].args[0].op: 'SCMP_CMP_LIKE'" },
	{ ARGS(ARG("0", "0", "NE") "," ARG("0", "1", "NE")), "about argument 0 again" },
	{ ARGS("1,1,1,1,1,1,1"), "syscalls[1].args has more than 6 conditions" },
};
/* clang-format on */

TEST(bad_profiles_are_refused_and_the_field_is_named)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct seccomp_program p = { 0 };
		struct err err = { 0 };

		CHECK_EQ(profile_compile(bad[i].json, strlen(bad[i].json), &p, &err), -EINVAL);
		if (!strstr(err.text, bad[i].says))
			fail_msg("%s\n  says \"%s\", not \"%s\"", bad[i].json, err.text,
				bad[i].says);
		CHECK(p.code == NULL);
	}
}

TEST(too_long_a_profile_is_refused_unread)
{
	AUTO_FREE char *json = xcalloc(1, PROFILE_SIZE_MAX + 1);
	struct seccomp_program p = { 0 };
	struct err err = { 0 };

	CHECK_EQ(profile_compile(json, PROFILE_SIZE_MAX + 1, &p, &err), -E2BIG);
}

TEST(a_wrong_text_of_any_length_is_only_an_error)
{
	struct err err = { 0 };

	for (size_t size = 0; size < profile_default_size; size += 41) {
		struct seccomp_program p = { 0 };
		AUTO_FREE char *part = malloc(size + 1);

		memcpy(part, profile_default, size);
		CHECK_EQ(profile_compile(part, size, &p, &err), -EINVAL);
	}
}

/* What Docker's own profile looks like, in all its parts. */
TEST(includes_and_excludes_are_asked_without_capabilities_here_and_now)
{
	/* clang-format off */
	static const struct {
		const char *json;
		uint32_t answer;
	} rows[] = {
		{ GETPID(""), SECCOMP_RET_ALLOW },
		{ GETPID(",\"includes\":{},\"excludes\":null,\"args\":null"), SECCOMP_RET_ALLOW },
		{ GETPID(",\"includes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}"), EPERM_ANSWER },
		{ GETPID(",\"excludes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}"), SECCOMP_RET_ALLOW },
		{ GETPID(",\"includes\":{\"arches\":[\"s390x\"]}"), EPERM_ANSWER },
		{ GETPID(",\"includes\":{\"arches\":[\"x\",\"" ARCH_NAME "\"]}"),
			SECCOMP_RET_ALLOW },
		{ GETPID(",\"excludes\":{\"arches\":[\"s390x\"]}"), SECCOMP_RET_ALLOW },
		{ GETPID(",\"excludes\":{\"arches\":[\"" ARCH_NAME "\"]}"), EPERM_ANSWER },
		{ GETPID(",\"includes\":{\"minKernel\":\"4.8\"}"), SECCOMP_RET_ALLOW },
		{ GETPID(",\"includes\":{\"minKernel\":\"99.0\"}"), EPERM_ANSWER },
		{ GETPID(",\"excludes\":{\"minKernel\":\"4.8\"}"), EPERM_ANSWER },
		{ GETPID(",\"excludes\":{\"minKernel\":\"99.0\"}"), SECCOMP_RET_ALLOW },
		{ GETPID(",\"includes\":{\"minKernel\":\"4.8\",\"caps\":[\"CAP_X\"]}"),
			EPERM_ANSWER },
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct seccomp_program p = compile_text(rows[i].json);

		CHECK_EQ(ask(&p, SYS_getpid, 0, 0, 0), rows[i].answer);
		seccomp_fini(&p);
	}
}

TEST(the_machine_may_be_named_in_both_ways_and_others_beside_it)
{
	static const char *const good[] = {
		WITH("\"architectures\":[]"),
		WITH("\"architectures\":[\"SCMP_ARCH_X86_64\",\"SCMP_ARCH_AARCH64\","
		     "\"SCMP_ARCH_RISCV64\",\"SCMP_ARCH_NEXT\"]"),
		WITH("\"archMap\":[{\"architecture\":\"SCMP_ARCH_X86_64\","
		     "\"subArchitectures\":[\"SCMP_ARCH_X86\",\"SCMP_ARCH_X32\"]},"
		     "{\"architecture\":\"SCMP_ARCH_AARCH64\",\"subArchitectures\":null},"
		     "{\"architecture\":\"SCMP_ARCH_RISCV64\"}]"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct seccomp_program p = compile_text(good[i]);
		struct seccomp_data call = { .nr = 3, .arch = AUDIT_ARCH_I386 };

		CHECK_EQ(seccomp_eval(&p, &call, NULL), SECCOMP_RET_KILL_PROCESS);
		seccomp_fini(&p);
	}
}

TEST(actions_and_comparisons_mean_what_they_say)
{
	/* clang-format off */
	static const struct {
		const char *json;
		uint64_t value; /* of the second argument */
		uint32_t answer;
	} rows[] = {
		{ ARGS(ARG("1", "5", "EQ")), 5, SECCOMP_RET_ALLOW },
		{ ARGS(ARG("1", "5", "EQ")), 4, EPERM_ANSWER },
		{ ARGS(ARG("1", "5", "NE")), 4, SECCOMP_RET_ALLOW },
		{ ARGS(ARG("1", "5", "NE")), 5, EPERM_ANSWER },
		{ ARGS(ARG("1", "5", "LT")), 4, SECCOMP_RET_ALLOW },
		{ ARGS(ARG("1", "5", "LT")), 5, EPERM_ANSWER },
		{ ARGS(ARG("1", "5", "LE")), 5, SECCOMP_RET_ALLOW },
		{ ARGS(ARG("1", "5", "LE")), 6, EPERM_ANSWER },
		{ ARGS(ARG("1", "5", "GE")), 5, SECCOMP_RET_ALLOW },
		{ ARGS(ARG("1", "5", "GE")), 4, EPERM_ANSWER },
		{ ARGS(ARG("1", "5", "GT")), 1ULL << 40, SECCOMP_RET_ALLOW },
		{ ARGS(ARG("1", "5", "GT")), 5, EPERM_ANSWER },
		{ ARGS("{\"index\":1,\"value\":240,\"valueTwo\":32,\"op\":\"SCMP_CMP_MASKED_EQ\"}"),
			0xf2f, SECCOMP_RET_ALLOW },
		{ ARGS("{\"index\":1,\"value\":240,\"valueTwo\":32,\"op\":\"SCMP_CMP_MASKED_EQ\"}"),
			0xf3f, EPERM_ANSWER },
		{ RULE("{\"names\":[\"getpid\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":38}"), 0,
			SECCOMP_RET_ERRNO | ENOSYS },
		{ RULE("{\"names\":[\"getpid\"],\"action\":\"SCMP_ACT_KILL_PROCESS\"}"), 0,
			SECCOMP_RET_KILL_PROCESS },
		{ RULE("{\"names\":[\"getpid\"],\"action\":\"SCMP_ACT_KILL\"}"), 0,
			SECCOMP_RET_KILL_THREAD },
		{ RULE("{\"names\":[\"getpid\"],\"action\":\"SCMP_ACT_TRAP\"}"), 0,
			SECCOMP_RET_TRAP },
		{ RULE("{\"names\":[\"getpid\"],\"action\":\"SCMP_ACT_LOG\"}"), 0,
			SECCOMP_RET_LOG },
		{ WITH("\"defaultErrnoRet\":33"), 0, SECCOMP_RET_ERRNO | EDOM },
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct seccomp_program p = compile_text(rows[i].json);

		CHECK_EQ(ask(&p, SYS_getpid, 0, rows[i].value, 0), rows[i].answer);
		seccomp_fini(&p);
	}
}

/* A neighbour of the shipped rules that they must not let through, or must. */
TEST(shipped_ioctl_refuses_six_requests_whatever_the_upper_bits_are)
{
	static const uint64_t uppers[] = { 0, 1ULL << 32, 0xffffffffULL << 32, 0xdeadULL << 48 };
	struct seccomp_program p = compile_shipped();

	for (uint64_t low = 0; low <= 0xffff; low++) {
		bool refused = low == 0x5412 || low == 0x5423 || (low >= 0x541c && low <= 0x541f);

		for (size_t i = 0; i < ARRAY_SIZE(uppers); i++)
			CHECK_EQ(ask(&p, SYS_ioctl, 0, low | uppers[i], 0),
				refused ? EPERM_ANSWER : SECCOMP_RET_ALLOW);
	}
	seccomp_fini(&p);
}

static uint32_t expect_socket(int family, int protocol)
{
	if (family == AF_UNIX)
		return SECCOMP_RET_ALLOW;
	if (family == AF_NETLINK)
		return protocol == 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPROTONOSUPPORT;
	if (family != AF_INET && family != AF_INET6)
		return SECCOMP_RET_ERRNO | EAFNOSUPPORT;
	int icmp = family == AF_INET ? 1 : 58;
	bool known = protocol == 0 || protocol == 6 || protocol == 17 || protocol == icmp;
	return known ? SECCOMP_RET_ALLOW : EPERM_ANSWER;
}

TEST(shipped_sockets_are_of_four_families)
{
	struct seccomp_program p = compile_shipped();

	for (int family = 0; family < 64; family++) {
		uint64_t hidden = (uint64_t)family | (1ULL << 32);

		for (int protocol = 0; protocol < 300; protocol++)
			CHECK_EQ(ask(&p, SYS_socket, (uint64_t)family, SOCK_STREAM,
					 (uint64_t)protocol),
				expect_socket(family, protocol));
		CHECK_EQ(ask(&p, SYS_socket, hidden, SOCK_STREAM, 0),
			SECCOMP_RET_ERRNO | EAFNOSUPPORT);
		CHECK_EQ(ask(&p, SYS_socketpair, (uint64_t)family, SOCK_STREAM, 0),
			family == AF_UNIX ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	}
	seccomp_fini(&p);
}

TEST(shipped_clone_makes_no_namespace)
{
	struct seccomp_program p = compile_shipped();

	for (unsigned bit = 0; bit < 32; bit++) {
		bool refused = (0x7e020000u >> bit) & 1;
		uint32_t answer = refused ? EPERM_ANSWER : SECCOMP_RET_ALLOW;

		CHECK_EQ(ask(&p, SYS_clone, 1ULL << bit, 0, 0), answer);
		CHECK_EQ(ask(&p, SYS_clone, (1ULL << bit) | (1ULL << 40), 0, 0), answer);
	}
	CHECK_EQ(ask(&p, SYS_clone, 0x3d0f00, 0, 0), SECCOMP_RET_ALLOW); /* pthread_create */
	CHECK_EQ(ask(&p, SYS_clone3, 0, 0, 0), SECCOMP_RET_ERRNO | ENOSYS);
	seccomp_fini(&p);
}

TEST(shipped_personality_and_limits_are_ones_own)
{
	struct seccomp_program p = compile_shipped();

	CHECK_EQ(ask(&p, SYS_personality, 0xffffffff, 0, 0), SECCOMP_RET_ALLOW);
	CHECK_EQ(ask(&p, SYS_personality, 0x0040000, 0, 0), SECCOMP_RET_ALLOW);
	CHECK_EQ(ask(&p, SYS_personality, 0x0400000, 0, 0), EPERM_ANSWER); /* READ_IMPLIES_EXEC */
	CHECK_EQ(ask(&p, SYS_personality, 0x0100000, 0, 0), EPERM_ANSWER); /* MMAP_PAGE_ZERO */
	CHECK_EQ(ask(&p, SYS_prlimit64, 0, 7, 0x1000), SECCOMP_RET_ALLOW);
	CHECK_EQ(ask(&p, SYS_prlimit64, 1, 7, 0), SECCOMP_RET_ALLOW);
	CHECK_EQ(ask(&p, SYS_prlimit64, 1, 7, 0x1000), EPERM_ANSWER);
	CHECK_EQ(ask(&p, SYS_prlimit64, 1 | (1ULL << 32), 7, 1ULL << 32), EPERM_ANSWER);
	seccomp_fini(&p);
}

#ifdef __x86_64__
extern const char golden_syscalls[];
extern const size_t golden_syscalls_size;

/* The second word of the line that begins with `name`, or NULL. */
static const char *find_golden(const char *text, const char *name, size_t *ret_size)
{
	size_t n = strlen(name);

	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		if (strncmp(line, name, n) != 0 || line[n] != ' ')
			continue;
		*ret_size = strcspn(line + n + 1, "\n");
		return line + n + 1;
	}
	return NULL;
}

static const char *verdict_on(const struct seccomp_program *p, int nr)
{
	struct seccomp_data call = { .nr = nr, .arch = seccomp_arch_native() };
	bool by_args = false;
	uint32_t answer = seccomp_eval(p, &call, &by_args);

	if (by_args)
		return "args";
	if (answer == SECCOMP_RET_ALLOW)
		return "allow";
	CHECK_EQ(answer & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
	return strerrorname_np((int)(answer & SECCOMP_RET_DATA));
}

/* tests/escape/golden/syscalls.x86_64 is what reviewers agreed on. A call that a
 * newer libseccomp knows and the list does not must at least be refused. */
TEST(what_is_allowed_is_what_was_agreed)
{
	AUTO_FREE char *golden = xcalloc(1, golden_syscalls_size + 1);
	struct seccomp_program p = compile_shipped();
	int n_checked = 0;
	int n_bad = 0;

	memcpy(golden, golden_syscalls, golden_syscalls_size);
	for (int nr = 0; nr < 1024; nr++) {
		AUTO_FREE char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
		const char *verdict = verdict_on(&p, nr);
		size_t size = 0;
		const char *agreed = name ? find_golden(golden, name, &size) : NULL;
		bool same = agreed ? strlen(verdict) == size && !memcmp(agreed, verdict, size)
				   : verdict[0] == 'E';

		if (!same)
			print_message("%s (%d): %s, but agreed was %.*s\n", name ? name : "?", nr,
				verdict, agreed ? (int)size : 7, agreed ? agreed : "nothing");
		n_bad += !same;
		n_checked += agreed != NULL;
	}
	CHECK_EQ(n_bad, 0);
	CHECK(n_checked > 350);
	seccomp_fini(&p);
}
#else
TEST(what_is_allowed_is_what_was_agreed)
{
	SKIP("the golden list is for x86-64");
}
#endif

TESTS(UNIT(bad_profiles_are_refused_and_the_field_is_named),
	UNIT(too_long_a_profile_is_refused_unread),
	UNIT(a_wrong_text_of_any_length_is_only_an_error),
	UNIT(includes_and_excludes_are_asked_without_capabilities_here_and_now),
	UNIT(the_machine_may_be_named_in_both_ways_and_others_beside_it),
	UNIT(actions_and_comparisons_mean_what_they_say),
	UNIT(shipped_ioctl_refuses_six_requests_whatever_the_upper_bits_are),
	UNIT(shipped_sockets_are_of_four_families), UNIT(shipped_clone_makes_no_namespace),
	UNIT(shipped_personality_and_limits_are_ones_own), UNIT(what_is_allowed_is_what_was_agreed))
