/* What a guest finds when it begins, and what is taken from it: its workspace, and files. */
#include <errno.h>
#include <signal.h>

#include "box/init_sample.h"
#include "box/workspace.h"
#include "ipc/inventory.h"
#include "ipc/pack_write.h"
#include "ipc/unpack.h"

#define WORKSPACE "00112233445566778899aabbccddeeff"

/* A run in a workspace whose mount did not come along: init asks for it. */
static void open_asking(struct play *p, struct workspace_home *home, const char *dir)
{
	struct err err = { 0 };
	struct cur c;

	open_box(p, dir);
	workspace_home_init(home, &p->stage.host, dir);
	(void)snprintf(p->stage.spec.workspace, sizeof(p->stage.spec.workspace), "%s", WORKSPACE);
	CHILD_CHECK(workspace_make(home, WORKSPACE, p->box.uid, 1 << 20, &err) == 0);
	send_script(p, "echo 1 >/workspace/a; echo up; while :; do sleep 0.01; done");
	CHILD_CHECK(hear(p, &c) == MESSAGE_BOX_ASKS && cur_end(&c) == 0);
}

static void give_workspace(struct play *p, struct workspace_home *home, int *ret_kept)
{
	struct err err = { 0 };
	AUTO_FD fd = -1;

	CHILD_CHECK(workspace_clone(home, WORKSPACE, &fd, &err) == 0);
	CHILD_CHECK(workspace_clone(home, WORKSPACE, ret_kept, &err) == 0);
	CHILD_CHECK(frame_send(p->box.control_fd, MESSAGE_BOX_WORKSPACE, NULL, &fd, 1) == 0);
}

static void send_workspace(void *ctx)
{
	struct play p;
	struct workspace_home home;
	struct cur c;
	AUTO_FD kept = -1;
	char up[3];

	open_asking(&p, &home, ctx);
	give_workspace(&p, &home, &kept);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(fd_read_full(p.out_fd, up, 3) == 3);
	CHILD_CHECK(frame_send(p.box.control_fd, MESSAGE_BOX_KILL, NULL, NULL, 0) == 0);
	CHILD_CHECK(hear_exited(&p) == SIGKILL);
	expect_gone(&p);
	CHILD_CHECK(scratch_holds(kept, "a", "1\n"));
	workspace_home_fini(&home);
}

TEST(a_workspace_that_did_not_come_along_is_asked_for)
{
	SCRATCH(d);

	IN_CHILD(send_workspace, d.path);
}

static void signal_early(void *ctx)
{
	struct play p;
	struct workspace_home home;
	struct cur c;
	struct put out;
	AUTO_FD kept = -1;

	open_asking(&p, &home, ctx);
	put_init(&out, 64);
	put_u32(&out, SIGTERM);
	CHILD_CHECK(frame_send(p.box.control_fd, MESSAGE_BOX_SIGNAL, &out, NULL, 0) == 0);
	put_fini(&out);
	give_workspace(&p, &home, &kept);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(hear_exited(&p) == SIGTERM);
	expect_gone(&p);
	workspace_home_fini(&home);
}

TEST(a_signal_that_comes_before_the_workspace_waits_for_the_guest)
{
	SCRATCH(d);

	IN_CHILD(signal_early, d.path);
}

static void send_no_workspace(void *ctx)
{
	struct play p;
	struct workspace_home home;
	struct cur c;

	open_asking(&p, &home, ctx);
	CHILD_CHECK(frame_send(p.box.control_fd, MESSAGE_BOX_WORKSPACE, NULL, NULL, 0) == 0);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_FAILED);
	CHILD_CHECK(cur_u32(&c) == REASON_PROVISION_FAILED);
	CHILD_CHECK(printed(&p, ""));
	expect_gone(&p);
	/* Nor does it wait for a keeper that is gone. */
	workspace_home_fini(&home);
	open_asking(&p, &home, ctx);
	close_fdp(&p.box.control_fd);
	CHILD_CHECK(printed(&p, ""));
	expect_gone(&p);
	workspace_home_fini(&home);
}

TEST(without_its_workspace_a_guest_is_not_started)
{
	SCRATCH(d);

	IN_CHILD(send_no_workspace, d.path);
}

static void carry_files(void *ctx)
{
	static char *globs[] = { (char *)"out/*", NULL };
	static struct pack_reader reader;
	static struct unpack sink;
	struct play p;
	struct cur c;
	uint8_t chunk[4096];
	struct scratch *to = ctx;

	open_box(&p, to->path);
	p.stage.spec.takes_files = true;
	p.stage.spec.globs = globs;
	send_script(&p, "mkdir out; tr a-z A-Z <in >out/up");
	struct pack_writer w = { .fd = p.files_fd, .max_bytes = UINT64_MAX };
	CHILD_CHECK(pack_write_bytes(&w, "in", 0644, "text", 4, NULL) == 0);
	CHILD_CHECK(pack_write_end(&w, NULL) == 0);
	(void)close(p.files_fd);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(hear_exited(&p) == 0);
	unpack_init(&sink, to->fd, 1000);
	pack_reader_init(&reader, &sink.sink);
	for (ssize_t n; (n = read(p.capture_fd, chunk, sizeof(chunk))) > 0;)
		CHILD_CHECK(pack_feed(&reader, chunk, (size_t)n, NULL) == 0);
	CHILD_CHECK(pack_end(&reader, NULL) == 0);
	CHILD_CHECK(scratch_holds(to->fd, "out/up", "TEXT"));
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_CAPTURED);
	CHILD_CHECK(cur_u64(&c) == 4);
	expect_gone(&p);
}

TEST(files_go_in_before_and_out_after)
{
	SCRATCH(d);

	IN_CHILD(carry_files, &d);
}

/* What was there before, and what the guest made of it. */
static void name_files(void *ctx)
{
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	struct play p;
	struct cur c;
	uint8_t data[4096];

	open_box(&p, ctx);
	p.stage.spec.takes_files = p.stage.spec.lists = true;
	send_script(&p, "echo >new; echo x >>changed; ln -s /etc link; mkfifo fifo");
	struct pack_writer w = { .fd = p.files_fd, .max_bytes = UINT64_MAX };
	CHILD_CHECK(pack_write_bytes(&w, "old", 0644, "text", 4, NULL) == 0);
	CHILD_CHECK(pack_write_bytes(&w, "changed", 0644, "text", 4, NULL) == 0);
	CHILD_CHECK(pack_write_end(&w, NULL) == 0);
	(void)close(p.files_fd);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(hear_exited(&p) == 0);
	ssize_t n = fd_read_full(p.listing_fd, data, sizeof(data));
	CHILD_CHECK(n > 0);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_CAPTURED);
	cur_init(&c, data, (size_t)n);
	CHILD_CHECK(inventory_get(&l, &c) == 0);
	CHILD_CHECK(l.n == 5 && !l.is_cut);
	CHILD_CHECK(streq(l.at[0].path, "changed") && l.at[0].is_changed && l.at[0].size == 6);
	CHILD_CHECK(streq(l.at[1].path, "fifo") && l.at[1].kind == INVENTORY_OTHER);
	CHILD_CHECK(streq(l.at[2].path, "link") && l.at[2].kind == INVENTORY_LINK);
	CHILD_CHECK(streq(l.at[3].path, "new") && l.at[3].is_changed);
	CHILD_CHECK(streq(l.at[4].path, "old") && !l.at[4].is_changed);
	expect_gone(&p);
}

TEST(names_of_files_are_told_after_the_guest)
{
	SCRATCH(d);

	IN_CHILD(name_files, d.path);
}

static void refuse_files(void *ctx)
{
	struct play p;
	struct cur c;
	char text[256];

	open_box(&p, ctx);
	p.stage.spec.takes_files = true;
	send_script(&p, "echo never");
	(void)close(p.files_fd); /* without an end mark */
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_FAILED);
	CHILD_CHECK(cur_u32(&c) == REASON_PROVISION_FAILED);
	CHILD_CHECK(cur_u32(&c) == EBADMSG);
	cur_str_into(&c, text, sizeof(text));
	CHILD_CHECK(strstr(text, "cut short") != NULL);
	CHILD_CHECK(printed(&p, ""));
	expect_gone(&p);
}

TEST(without_its_files_a_guest_is_not_started)
{
	SCRATCH(d);

	IN_CHILD(refuse_files, d.path);
}

TESTS(UNIT(a_workspace_that_did_not_come_along_is_asked_for),
	UNIT(a_signal_that_comes_before_the_workspace_waits_for_the_guest),
	UNIT(without_its_workspace_a_guest_is_not_started), UNIT(files_go_in_before_and_out_after),
	UNIT(names_of_files_are_told_after_the_guest),
	UNIT(without_its_files_a_guest_is_not_started))
