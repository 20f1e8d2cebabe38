#include "base/log.h"

#include <errno.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "lib/test.h"

/* What stderr got while `act` ran. */
struct caught {
	int saved_fd;
	int read_fd;
	char text[8192];
};

static void catch_begin(struct caught *c)
{
	int write_fd = -1;

	c->saved_fd = dup(STDERR_FILENO);
	CHECK_EQ(fd_pipe(&c->read_fd, &write_fd), 0);
	CHECK(dup2(write_fd, STDERR_FILENO) == STDERR_FILENO);
	(void)close(write_fd);
}

static void catch_end(struct caught *c)
{
	CHECK(dup2(c->saved_fd, STDERR_FILENO) == STDERR_FILENO);
	(void)close(c->saved_fd);
	ssize_t n = fd_read_full(c->read_fd, c->text, sizeof(c->text) - 1);
	CHECK(n >= 0);
	c->text[n] = '\0';
	(void)close(c->read_fd);
}

TEST(a_line_has_a_level_and_a_message)
{
	struct caught c;

	catch_begin(&c);
	log_warn("uid=%d", 7);
	catch_end(&c);
	CHECK_STR(c.text, "level=warn msg=\"uid=7\"\n");
}

TEST(lines_below_the_level_are_dropped)
{
	struct caught c;

	catch_begin(&c);
	log_info("not by default");
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("now");
	log_set_level(LOG_LEVEL_ERROR);
	log_warn("nor this");
	CHECK_EQ(log_error(-ENOENT, "always"), -ENOENT);
	log_set_level(LOG_LEVEL_WARN);
	catch_end(&c);
	CHECK_STR(c.text, "level=debug msg=\"now\"\nlevel=error msg=\"always\"\n");
}

TEST(nothing_in_a_message_can_forge_a_line)
{
	struct caught c;

	catch_begin(&c);
	log_warn("a\"\nlevel=error msg=\"b\\\x1b[2J\x7f\r\tä");
	catch_end(&c);
	CHECK_STR(c.text, "level=warn msg=\"a\\\"\\x0alevel=error msg=\\\"b\\\\\\x1b[2J\\x7f\\x0d"
			  "\\x09ä\"\n");
}

TEST(an_endless_message_is_one_line_still)
{
	struct caught c;
	char much[4096];

	memset(much, '\n', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	catch_begin(&c);
	log_warn("%s", much);
	catch_end(&c);
	CHECK(strlen(c.text) > 1024);
	CHECK(strchr(c.text, '\n') == c.text + strlen(c.text) - 1);
	CHECK_EQ(c.text[strlen(c.text) - 2], '"');
}

TEST(a_reader_that_stalls_does_not_stall_us)
{
	struct caught c;
	char padding[512];

	memset(padding, 'x', sizeof(padding) - 1);
	padding[sizeof(padding) - 1] = '\0';
	catch_begin(&c);
	for (int i = 0; i < 1000; i++) /* far more than a pipe holds */
		log_warn("%s", padding);
	catch_end(&c);
	CHECK(c.text[0] == 'l'); /* what there was room for is there */
}

TEST(a_line_of_a_server_is_json)
{
	struct caught c;
	json_error_t error;

	catch_begin(&c);
	log_set_json(true);
	log_warn("a\"\n\xff\x1b \\ b");
	log_set_json(false);
	catch_end(&c);
	AUTO_JSON *json = json_loads(c.text, 0, &error);
	CHECK(json != NULL);
	CHECK_STR(json_string_value(json_object_get(json, "level")), "warn");
	CHECK_STR(json_string_value(json_object_get(json, "msg")), "a\"\n\xc3\xbf\x1b \\ b");
	CHECK_EQ(json_string_length(json_object_get(json, "ts")), 27);
	CHECK(strchr(c.text, '\n') == c.text + strlen(c.text) - 1);
}

TEST(members_stand_beside_the_message)
{
	struct caught c;

	catch_begin(&c);
	log_set_json(true);
	log_members(LOG_LEVEL_WARN, "it", "{\"a\":1}");
	log_set_json(false);
	log_members(LOG_LEVEL_DEBUG, "it", "{\"a\":2}");
	catch_end(&c);
	AUTO_JSON *json = json_loads(c.text, 0, NULL);
	CHECK(json != NULL);
	CHECK_STR(json_string_value(json_object_get(json, "msg")), "it");
	CHECK_EQ(json_integer_value(json_object_get(json, "a")), 1);
}

TEST(levels_have_names)
{
	enum log_level level = LOG_LEVEL_INFO;

	CHECK_EQ(log_parse_level("debug", &level), 0);
	CHECK_EQ(level, LOG_LEVEL_DEBUG);
	CHECK_EQ(log_parse_level("error", &level), 0);
	CHECK_EQ(level, LOG_LEVEL_ERROR);
	CHECK_EQ(log_parse_level("DEBUG", &level), -EINVAL);
	CHECK_EQ(log_parse_level("", &level), -EINVAL);
	CHECK_EQ(level, LOG_LEVEL_ERROR);
}

TESTS(UNIT(a_line_has_a_level_and_a_message), UNIT(lines_below_the_level_are_dropped),
	UNIT(nothing_in_a_message_can_forge_a_line), UNIT(an_endless_message_is_one_line_still),
	UNIT(a_reader_that_stalls_does_not_stall_us), UNIT(a_line_of_a_server_is_json),
	UNIT(members_stand_beside_the_message), UNIT(levels_have_names))
