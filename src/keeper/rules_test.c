#include <endian.h>
#include <errno.h>

#include "keeper/sample.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define OWNER 1000u
#define OTHER 1001u

static const char some_id[] = "0123456789abcdef0123456789abcdef";

static uint8_t buffer[FRAME_SIZE_MAX];

static void sample_closep(struct sample *s)
{
	sample_close(s);
}

#define SAMPLE(name)                                                                               \
	CLEANUP(sample_closep) struct sample name;                                                 \
	sample_open(&name, OWNER)

/* Say it, let the keeper hear it, and return what it answers: the type, 0 when it
 * hung up, or -EAGAIN for silence. */
static int say(struct sample *s, int fd, uint32_t type, const struct put *payload)
{
	struct frame f;

	CHECK_EQ(frame_send(fd, type, payload, NULL, 0), 0);
	sample_turn(s, 0);
	int r = frame_recv(fd, buffer, &f);
	if (r != 1)
		return r;
	frame_close_fds(&f);
	return (int)f.type;
}

static int say_id(struct sample *s, int fd, uint32_t type, const char *id)
{
	struct put p;

	put_init(&p, 256);
	put_str(&p, id);
	if (type == MESSAGE_SIGNAL)
		put_u32(&p, SIGTERM);
	int r = say(s, fd, type, &p);
	put_fini(&p);
	return r;
}

/* A run that is over, or still goes on in a box that only seems to be one. */
static struct ward *add_run(struct sample *s, const char *id, enum run_state state)
{
	struct ward *r = sample_run(s, id, state);

	r->owner = OWNER;
	return r;
}

TEST(a_greeting_is_answered_once)
{
	SAMPLE(s);
	struct cur c;
	struct frame f;

	CHECK_EQ(frame_send(s.client_fd, MESSAGE_HELLO, NULL, NULL, 0), 0);
	sample_turn(&s, 0);
	CHECK_EQ(frame_recv(s.client_fd, buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_WELCOME);
	cur_init(&c, f.data, f.size);
	char id[KEEPER_ID_SIZE + 1];
	CHECK(cur_u64(&c) == s.k.facets);
	cur_str_into(&c, id, sizeof(id));
	CHECK_EQ(cur_end(&c), 0);
	CHECK_STR(id, s.k.id);
	CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), 0);
	CHECK_EQ(s.k.n_peers, 0);
}

TEST(a_ping_is_answered_with_what_stood_still)
{
	SAMPLE(s);
	struct cur c;
	struct frame f;
	char step[64];

	CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
	CHECK_EQ(say(&s, s.client_fd, MESSAGE_PING, NULL), MESSAGE_PONG);
	pace_step(&s.k.pace, "drop_workspace", 1000000000);
	pace_sleep(&s.k.pace, UINT64_C(4000000000));
	CHECK_EQ(frame_send(s.client_fd, MESSAGE_PING, NULL, NULL, 0), 0);
	sample_turn(&s, 0);
	CHECK_EQ(frame_recv(s.client_fd, buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_PONG);
	cur_init(&c, f.data, f.size);
	CHECK_EQ(cur_u64(&c), 1);
	CHECK_EQ(cur_u64(&c), 3000);
	cur_str_into(&c, step, sizeof(step));
	CHECK_EQ(cur_end(&c), 0);
	CHECK_STR(step, "drop_workspace");
	CHECK_EQ(say_id(&s, s.client_fd, MESSAGE_PING, some_id), 0);
}

TEST(whoever_does_not_greet_first_is_dropped)
{
	static const uint32_t types[] = { MESSAGE_START, MESSAGE_SIGNAL, MESSAGE_CANCEL,
		MESSAGE_ATTACH, MESSAGE_LIST, MESSAGE_ACK, MESSAGE_CLOSE_STDIN,
		MESSAGE_MAKE_WORKSPACE, MESSAGE_DROP_WORKSPACE, MESSAGE_LIST_WORKSPACES,
		MESSAGE_PING };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		SAMPLE(s);

		CHECK_EQ(say_id(&s, s.client_fd, types[i], some_id), 0);
		CHECK_EQ(s.k.n_peers, 0);
	}
}

TEST(unknown_and_foreign_messages_drop_the_client)
{
	static const uint32_t types[] = { 0, 12, MESSAGE_WELCOME, MESSAGE_ENDED, MESSAGE_BOX_SPEC,
		MESSAGE_BOX_KILL, MESSAGE_BOX_EXITED, 65, 1000, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		SAMPLE(s);

		CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
		CHECK_EQ(say(&s, s.client_fd, types[i], NULL), 0);
		CHECK_EQ(s.k.n_peers, 0);
	}
}

TEST(no_message_may_carry_descriptors)
{
	SAMPLE(s);
	struct frame f;
	size_t n_before = scratch_count_fds();

	CHECK_EQ(frame_send(s.client_fd, MESSAGE_HELLO, NULL, &s.client_fd, 1), 0);
	sample_turn(&s, 0);
	CHECK_EQ(frame_recv(s.client_fd, buffer, &f), 0);
	CHECK_EQ(scratch_count_fds(), n_before - 1); /* less the dropped peer's */
}

TEST(bytes_left_over_or_missing_drop_the_client)
{
	static const uint32_t types[] = { MESSAGE_START, MESSAGE_SIGNAL, MESSAGE_CANCEL,
		MESSAGE_ATTACH, MESSAGE_LIST, MESSAGE_ACK, MESSAGE_CLOSE_STDIN };

	for (size_t i = 0; i < 2 * ARRAY_SIZE(types); i++) {
		SAMPLE(s);
		struct put p;
		uint32_t type = types[i / 2];

		CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
		put_init(&p, 256);
		if (type != MESSAGE_LIST)
			put_str(&p, some_id);
		if (type == MESSAGE_SIGNAL)
			put_u32(&p, SIGTERM);
		if (i % 2 || type == MESSAGE_LIST)
			put_u8(&p, 0);
		else
			p.size--;
		CHECK_EQ(say(&s, s.client_fd, type, &p), 0);
		put_fini(&p);
		CHECK_EQ(s.k.n_peers, 0);
	}
}

TEST(signals_out_of_range_drop_the_client)
{
	static const uint32_t signals[] = { 0, 65, 1000, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		SAMPLE(s);
		struct put p;

		CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
		put_init(&p, 256);
		put_str(&p, some_id);
		put_u32(&p, signals[i]);
		CHECK_EQ(say(&s, s.client_fd, MESSAGE_SIGNAL, &p), 0);
		put_fini(&p);
	}
}

static const uint32_t about_a_run[] = { MESSAGE_SIGNAL, MESSAGE_CANCEL, MESSAGE_ATTACH, MESSAGE_ACK,
	MESSAGE_CLOSE_STDIN };

TEST(a_run_that_is_not_there_is_refused_politely)
{
	SAMPLE(s);

	CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
	for (size_t i = 0; i < ARRAY_SIZE(about_a_run); i++)
		CHECK_EQ(say_id(&s, s.client_fd, about_a_run[i], some_id), MESSAGE_REFUSED);
	CHECK_EQ(s.k.n_peers, 1);
}

TEST(a_run_of_somebody_else_is_as_if_it_were_not_there)
{
	SAMPLE(s);
	AUTO_FD other = sample_connect(&s, OTHER);
	struct ward *r = add_run(&s, some_id, RUN_ENDED);
	uint8_t of_none[256];
	struct frame f;

	CHECK_EQ(say(&s, other, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
	for (size_t i = 0; i < ARRAY_SIZE(about_a_run); i++)
		CHECK_EQ(say_id(&s, other, about_a_run[i], some_id), MESSAGE_REFUSED);
	CHECK(s.k.runs == r && !r->peer && r->cause == CAUSE_NONE);
	/* Nor does the answer tell the two cases apart. */
	memcpy(of_none, buffer, sizeof(of_none));
	s.k.runs->id[0] = 'f';
	CHECK_EQ(say_id(&s, other, MESSAGE_CLOSE_STDIN, some_id), MESSAGE_REFUSED);
	CHECK_MEM(of_none, buffer, sizeof(of_none));
	CHECK_EQ(frame_send(other, MESSAGE_LIST, NULL, NULL, 0), 0);
	sample_turn(&s, 0);
	CHECK_EQ(frame_recv(other, buffer, &f), 1);
	CHECK_EQ(f.size, 4);
	CHECK_EQ(le32toh(*(const uint32_t *)f.data), 0);
}

TEST(root_may_command_every_run)
{
	SAMPLE(s);
	AUTO_FD root = sample_connect(&s, 0);

	(void)add_run(&s, some_id, RUN_ENDED);
	CHECK_EQ(say(&s, root, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
	CHECK_EQ(say_id(&s, root, MESSAGE_ACK, some_id), -EAGAIN);
	CHECK_EQ(s.k.n_runs, 0);
}

TEST(runs_are_listed_with_their_states)
{
	SAMPLE(s);
	struct frame f;
	struct cur c;

	CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
	(void)add_run(&s, some_id, RUN_ENDED);
	add_run(&s, "ffffffffffffffffffffffffffffffff", RUN_ENDED)->owner = OTHER;
	CHECK_EQ(frame_send(s.client_fd, MESSAGE_LIST, NULL, NULL, 0), 0);
	sample_turn(&s, 0);
	CHECK_EQ(frame_recv(s.client_fd, buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_RUNS);
	cur_init(&c, f.data, f.size);
	CHECK_EQ(cur_u32(&c), 1);
	AUTO_FREE char *id = cur_str(&c, RUN_ID_SIZE);
	CHECK_STR(id, some_id);
	CHECK_EQ(cur_u32(&c), RUN_ENDED);
	CHECK_EQ(cur_end(&c), 0);
}

/* As many as there may ever be: the list must still fit into one message. */
TEST(the_longest_list_fits)
{
	SAMPLE(s);

	CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
	for (unsigned i = 0; i < RUNS_MAX; i++)
		(void)add_run(&s, some_id, RUN_ENDED);
	CHECK_EQ(say(&s, s.client_fd, MESSAGE_LIST, NULL), MESSAGE_RUNS);
	CHECK_EQ(s.k.n_peers, 1);
}

TEST(only_what_was_reported_can_be_acknowledged)
{
	SAMPLE(s);
	struct ward *r = add_run(&s, some_id, RUN_ENDED);

	CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
	r->state = RUN_STARTING;
	CHECK_EQ(say_id(&s, s.client_fd, MESSAGE_ACK, some_id), 0);
	CHECK_EQ(s.k.n_runs, 1);
	r->state = RUN_ENDED;
}

TEST(closing_stdin_closes_the_duplicate)
{
	SAMPLE(s);
	struct ward *r = add_run(&s, some_id, RUN_ENDED);

	CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
	r->fds[CHANNEL_STDIN] = dup(s.client_fd);
	CHECK_EQ(say_id(&s, s.client_fd, MESSAGE_CLOSE_STDIN, some_id), -EAGAIN);
	CHECK_EQ(r->fds[CHANNEL_STDIN], -1);
	CHECK_EQ(say_id(&s, s.client_fd, MESSAGE_CLOSE_STDIN, some_id), -EAGAIN);
}

TEST(who_comes_back_is_told_again)
{
	SAMPLE(s);
	struct ward *r = add_run(&s, some_id, RUN_ENDED);
	struct frame f;

	CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
	r->fds[CHANNEL_STDOUT] = dup(s.client_fd);
	r->result.started_ns = 5;
	CHECK_EQ(say_id(&s, s.client_fd, MESSAGE_ATTACH, some_id), MESSAGE_STARTED);
	CHECK_EQ(frame_recv(s.client_fd, buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_RUNNING);
	CHECK_EQ(frame_recv(s.client_fd, buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_ENDED);
	CHECK(r->peer == s.peer);
}

/* What the keeper makes of a start: the reason in its refusal. */
static int refused_start(struct sample *s, struct spec *spec)
{
	struct put p;
	struct frame f;
	struct cur c;
	char text[256];

	put_init(&p, SPEC_SIZE_MAX);
	spec_put(spec, &p);
	CHECK_EQ(frame_send(s->client_fd, MESSAGE_START, &p, NULL, 0), 0);
	put_fini(&p);
	sample_turn(s, 0);
	CHECK_EQ(frame_recv(s->client_fd, buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_REFUSED);
	cur_init(&c, f.data, f.size);
	AUTO_FREE char *id = cur_str(&c, RUN_ID_SIZE);
	CHECK(cur_u32(&c) > 0);
	uint32_t reason = cur_u32(&c);
	cur_str_into(&c, text, sizeof(text));
	CHECK_EQ(cur_end(&c), 0);
	CHECK_STR(id, spec->id);
	CHECK(text[0] != '\0');
	return (int)reason;
}

TEST(what_can_not_be_started_is_refused_with_a_reason)
{
	SCRATCH(images);
	SAMPLE(s);
	CLEANUP(spec_fini) struct spec spec;

	spec_init(&spec);
	spec_make_id(spec.id);
	spec.argv = xcalloc(2, sizeof(*spec.argv));
	CHECK_EQ(say(&s, s.client_fd, MESSAGE_HELLO, NULL), MESSAGE_WELCOME);
	CHECK_EQ(refused_start(&s, &spec), REASON_POLICY_DENIED); /* no command */
	spec.argv[0] = xstrdup("true");
	spec.require = FACET_BIT(FACET_LANDLOCK);
	CHECK_EQ(refused_start(&s, &spec), REASON_POLICY_DENIED);
	spec.require = FACET_BIT(FACET_MEMORY);
	s.k.stopping = true;
	CHECK_EQ(refused_start(&s, &spec), REASON_INFRASTRUCTURE_ERROR);
	s.k.stopping = false;
	s.k.n_runs = RUNS_MAX;
	CHECK_EQ(refused_start(&s, &spec), REASON_INFRASTRUCTURE_ERROR);
	s.k.n_runs = 0;
	memset(spec.image, 'a', 64);
	CHECK_EQ(refused_start(&s, &spec), REASON_PROVISION_FAILED); /* nowhere to look */
	s.k.images_fd = dup(images.fd);
	CHECK_EQ(refused_start(&s, &spec), REASON_IMAGE_PULL_FAILED);
	(void)add_run(&s, spec.id, RUN_ENDED);
	CHECK_EQ(refused_start(&s, &spec), REASON_POLICY_DENIED); /* the id is taken */
	CHECK_EQ(s.k.n_peers, 1);
}

TESTS(UNIT(a_greeting_is_answered_once), UNIT(a_ping_is_answered_with_what_stood_still),
	UNIT(whoever_does_not_greet_first_is_dropped),
	UNIT(unknown_and_foreign_messages_drop_the_client), UNIT(no_message_may_carry_descriptors),
	UNIT(bytes_left_over_or_missing_drop_the_client),
	UNIT(signals_out_of_range_drop_the_client),
	UNIT(a_run_that_is_not_there_is_refused_politely),
	UNIT(a_run_of_somebody_else_is_as_if_it_were_not_there), UNIT(root_may_command_every_run),
	UNIT(runs_are_listed_with_their_states), UNIT(the_longest_list_fits),
	UNIT(only_what_was_reported_can_be_acknowledged), UNIT(closing_stdin_closes_the_duplicate),
	UNIT(who_comes_back_is_told_again), UNIT(what_can_not_be_started_is_refused_with_a_reason))
