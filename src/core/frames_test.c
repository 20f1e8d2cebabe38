#include "core/frames.h"

#include "lib/random.h"
#include "lib/stream_sample.h"

static struct shared *encode(enum frame_kind kind, bool is_text, const void *data, size_t size)
{
	struct frames_source f = {
		.kind = kind,
		.is_text = is_text,
		.data = data,
		.size = size,
		.seq = 7,
	};

	return frames_encode(&f);
}

static void check_message(struct shared *message, const char *text)
{
	CHECK(message != NULL);
	if (!message)
		return; /* not reached, but for the analyzer */
	CHECK_EQ(message->size, strlen(text));
	CHECK_MEM(shared_data(message), text, message->size);
	shared_unref(message);
}

TEST(each_kind_has_its_message)
{
	struct frames_source beat = {
		.kind = FRAME_HEARTBEAT,
		.time_ns = UINT64_C(1700000000123456789),
		.seq = UINT64_MAX,
	};

	check_message(encode(FRAME_STDOUT, true, "hi \"you\"\n", 9),
		"{\"type\":\"stdout\",\"encoding\":\"utf8\",\"data\":\"hi \\\"you\\\"\\n\",\"seq\":7}");
	check_message(encode(FRAME_STDERR, false, "\xff\xfe", 2),
		"{\"type\":\"stderr\",\"encoding\":\"base64\",\"data\":\"//4=\",\"seq\":7}");
	check_message(encode(FRAME_EVENT, false, "{\"event\":\"end\",\"data\":{}}", 25),
		"{\"type\":\"event\",\"event\":\"end\",\"data\":{},\"seq\":7}");
	check_message(encode(FRAME_TRUNCATED, false, "log_cap", 7),
		"{\"type\":\"truncated\",\"reason\":\"log_cap\",\"seq\":7}");
	check_message(frames_encode(&beat),
		"{\"type\":\"heartbeat\",\"ts\":\"2023-11-14T22:13:20.123456Z\","
		"\"seq\":18446744073709551615}");
	check_message(frames_encode_resume(10, 3),
		"{\"type\":\"event\",\"event\":\"resume\",\"data\":{\"requested_from_seq\":10,"
		"\"delivered_from_seq\":3,\"lost_count\":0},\"seq\":3}");
	check_message(frames_encode_resume(3, 10),
		"{\"type\":\"event\",\"event\":\"resume\",\"data\":{\"requested_from_seq\":3,"
		"\"delivered_from_seq\":10,\"lost_count\":7},\"seq\":10}");
}

TEST(damaged_events_and_reasons_have_none)
{
	CHECK(!encode(FRAME_EVENT, false, "{\"event\":\"end\"", 14));
	CHECK(!encode(FRAME_EVENT, false, "{}", 2));
	CHECK(!encode(FRAME_EVENT, false, "[\"event\"]", 9));
	CHECK(!encode(FRAME_EVENT, false, "\0\0\0\0", 4));
	CHECK(!encode(FRAME_TRUNCATED, false, "log\"cap", 7));
	CHECK(!encode(FRAME_TRUNCATED, false, "log\0cap", 7));
	CHECK(!encode(FRAME_TRUNCATED, false, "", 0));
}

TEST(every_byte_comes_back_at_every_place_in_a_word)
{
	for (unsigned byte = 0; byte < 256; byte++) {
		for (size_t size = 1; size < 20; size++) {
			SAMPLE_VIEW(view);
			char data[20];

			memset(data, 'a', sizeof(data));
			data[size / 2] = (char)byte;
			data[size - 1] = (char)byte;
			struct shared *message = encode(FRAME_STDOUT, true, data, size);
			sample_view_add(&view, message);
			shared_unref(message);
			CHECK_EQ(view.output[0].size, size);
			CHECK_MEM(view.output[0].data, data, size);
			CHECK_EQ(view.n_base64, byte < 0x80 ? 0 : 1);
		}
	}
}

/* What is called text and would not fit was damaged: still it is sent. */
TEST(text_that_does_not_fit_is_sent_in_base64)
{
	SAMPLE_VIEW(view);
	char data[FRAMES_CHUNK_MAX] = { 0 };

	struct shared *message = encode(FRAME_STDOUT, true, data, sizeof(data));
	sample_view_add(&view, message);
	shared_unref(message);
	CHECK_EQ(view.output[0].size, sizeof(data));
	CHECK_EQ(view.n_base64, 1);
}

/* --- cutting --- */

static void check_cut(const char *data, size_t size, bool is_last, size_t expected, bool is_text)
{
	bool got_text = false;

	CHECK_EQ(frames_cut(data, size, is_last, &got_text), expected);
	if (expected > 0)
		CHECK_EQ(got_text, is_text);
}

TEST(short_output_is_one_chunk)
{
	check_cut("hello", 5, false, 5, true);
	check_cut("a\0b", 3, false, 3, true);
	check_cut("\xff\xfe", 2, false, 2, false);
	check_cut("ab\xff\xfe", 4, false, 4, false);
	check_cut("\xe2\x82\xac", 3, false, 3, true);
}

TEST(the_beginning_of_a_character_waits)
{
	check_cut("\xe2\x82", 2, false, 0, false);
	check_cut("\xe2\x82", 2, true, 2, false);
	check_cut("ab\xe2\x82", 4, false, 2, true);
	check_cut("ab\xe2\x82", 4, true, 2, true);
	check_cut("\xff\xe2", 2, false, 1, false);
}

TEST(a_full_chunk_ends_with_a_line_when_one_is_near)
{
	static char data[2 * FRAMES_CHUNK_MAX];

	memset(data, 'a', sizeof(data));
	check_cut(data, sizeof(data), false, FRAMES_CHUNK_MAX, true);
	data[100] = '\n'; /* far from it */
	check_cut(data, sizeof(data), false, FRAMES_CHUNK_MAX, true);
	data[FRAMES_CHUNK_MAX - 1000] = '\n';
	check_cut(data, sizeof(data), false, FRAMES_CHUNK_MAX - 999, true);
	/* all there is: no line is waited for */
	check_cut(data, FRAMES_CHUNK_MAX, false, FRAMES_CHUNK_MAX, true);
}

TEST(a_full_chunk_does_not_end_in_a_character)
{
	static char data[2 * FRAMES_CHUNK_MAX];

	for (size_t shift = 0; shift < 4; shift++) {
		memset(data, 'a', shift);
		for (size_t at = shift; at + 4 <= sizeof(data); at += 4)
			memcpy(data + at, "\xf0\x9f\x98\x80", 4);
		check_cut(data, sizeof(data) - 4, false, FRAMES_CHUNK_MAX - (4 - shift) % 4, true);
		data[0] = '\xff';
		size_t kept = FRAMES_CHUNK_MAX - (shift ? 4 - shift : 0);
		check_cut(data, sizeof(data) - 4, false, kept, false);
	}
}

TEST(a_bad_line_does_not_spoil_the_text_around_it)
{
	static char data[FRAMES_CHUNK_MAX];

	memset(data, 'a', sizeof(data));
	for (size_t at = 63; at < sizeof(data); at += 64)
		data[at] = '\n';
	data[6400] = '\xe4'; /* Latin-1, in the first column */
	check_cut(data, sizeof(data), false, 6400, true);
	check_cut(data + 6400, sizeof(data) - 6400, false, 64, false);
	check_cut(data + 6464, sizeof(data) - 6464, false, sizeof(data) - 6464, true);
}

TEST(binary_output_is_not_cut_to_pieces)
{
	static char data[1 << 20];
	uint64_t seed = 1;
	size_t n = 0;
	bool is_text;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)random_next(&seed);
	for (size_t at = 0; at < sizeof(data); n++)
		at += frames_cut(data + at, sizeof(data) - at, true, &is_text);
	CHECK(n <= sizeof(data) / FRAMES_CHUNK_MAX + 2);
}

TEST(control_characters_are_cut_so_that_they_fit)
{
	static char data[FRAMES_CHUNK_MAX];
	bool is_text = false;

	memset(data, 1, sizeof(data));
	size_t n = frames_cut(data, sizeof(data), true, &is_text);
	CHECK(is_text && n > 10000);
	CLEANUP(shared_unrefp) struct shared *message = encode(FRAME_STDERR, true, data, n);
	CHECK(message->size <= STREAM_MESSAGE_MAX && message->size > STREAM_MESSAGE_MAX - 200);
}

TEST(events_are_checked)
{
	static char large[FRAMES_DATA_MAX + 2];
	AUTO_FREE char *text = NULL;

	CHECK_EQ(frames_format_event("a b", "{}", &text), -EINVAL);
	CHECK_EQ(frames_format_event("", "{}", &text), -EINVAL);
	CHECK_EQ(frames_format_event("start", "{", &text), -EINVAL);
	CHECK_EQ(frames_format_event("start", "{} {}", &text), -EINVAL);
	memset(large, '1', sizeof(large) - 1);
	CHECK_EQ(frames_format_event("start", large, &text), -E2BIG);
	CHECK(text == NULL);
	CHECK_EQ(frames_format_event("start", "null", &text), 0);
	CHECK_STR(text, "{\"event\":\"start\",\"data\":null}");
}

TESTS(UNIT(each_kind_has_its_message), UNIT(damaged_events_and_reasons_have_none),
	UNIT(every_byte_comes_back_at_every_place_in_a_word),
	UNIT(text_that_does_not_fit_is_sent_in_base64), UNIT(short_output_is_one_chunk),
	UNIT(the_beginning_of_a_character_waits),
	UNIT(a_full_chunk_ends_with_a_line_when_one_is_near),
	UNIT(a_full_chunk_does_not_end_in_a_character),
	UNIT(a_bad_line_does_not_spoil_the_text_around_it),
	UNIT(binary_output_is_not_cut_to_pieces), UNIT(control_characters_are_cut_so_that_they_fit),
	UNIT(events_are_checked))
