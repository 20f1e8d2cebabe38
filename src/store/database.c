#include "store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "store/migrate.h"
#include "store/sql.h"

/* Of tables and what they are used for; an update is one per set of columns. */
#define STATEMENTS_MAX 64

/* For somebody who looks into the file by hand, which may lock it for a moment. */
#define BUSY_TIMEOUT_MS 5000

struct statement {
	const struct table *table;
	enum statement_kind kind;
	uint64_t columns;
	sqlite3_stmt *prepared;
	uint64_t used; /* when, in uses of all */
};

struct database {
	sqlite3 *db;
	int lock_fd;
	size_t log_pages;
	size_t log_pages_kept; /* that the last checkpoint could not move */
	bool log_is_used;
	uint64_t n_uses;
	struct statement statements[STATEMENTS_MAX];
	size_t n_statements;
	sqlite3_stmt *steps[DATABASE_STEPS];
};

int database_errno(int code)
{
	static const struct {
		int code;
		int r;
	} codes[] = {
		{ SQLITE_FULL, -ENOSPC },
		{ SQLITE_NOMEM, -ENOMEM },
		{ SQLITE_BUSY, -EBUSY },
		{ SQLITE_LOCKED, -EBUSY },
		{ SQLITE_READONLY, -EROFS },
		{ SQLITE_PERM, -EACCES },
		{ SQLITE_AUTH, -EACCES },
		{ SQLITE_TOOBIG, -E2BIG },
		{ SQLITE_CONSTRAINT_PRIMARYKEY, -EEXIST },
		{ SQLITE_CONSTRAINT, -EINVAL },
		{ SQLITE_CORRUPT, -EUCLEAN },
		{ SQLITE_NOTADB, -EUCLEAN },
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		if (code == codes[i].code || (code & 0xff) == codes[i].code)
			return codes[i].r;
	}
	return -EIO;
}

int database_failed(struct database *d, int code)
{
	log_debug("store: sqlite says %d, %s", code, sqlite3_errmsg(d->db));
	return database_errno(code);
}

/* Who holds the lock has left its number in the file. */
static int fail_locked(int fd, const char *path, struct err *err)
{
	char pid[16] = "";
	ssize_t size = pread(fd, pid, sizeof(pid) - 1, 0);

	pid[size > 0 ? strspn(pid, "0123456789") : 0] = '\0';
	return err_set(err, -EBUSY, "%.128s is in use by %s %s", path,
		*pid ? "process" : "another process", pid);
}

/* SQLite's own locks would let two servers take turns, and each would miss what the other
 * writes; a lock beside the file keeps it open for people who want to look. */
static int lock_file(const char *path, int *ret_fd, struct err *err)
{
	AUTO_FREE char *name = NULL;
	char pid[16];

	if (asprintf(&name, "%s-lock", path) < 0)
		abort();
	AUTO_FD fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "open %.128s", name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? fail_locked(fd, path, err)
					    : err_errno(err, "lock %.128s", name);
	int size = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || fd_write_full(fd, pid, (size_t)size) < 0)
		return err_errno(err, "write %.128s", name);
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Rows hold code and environments, so the file is not for others; its log takes over the
 * mode. Only under our lock: closing the file drops all of this process's locks on it. */
static int make_file(const char *path, struct err *err)
{
	AUTO_FD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? err_errno(err, "open %.128s", path) : 0;
}

static int on_log_grown(void *ctx, sqlite3 *db, const char *name, int n_pages)
{
	struct database *d = ctx;

	(void)db;
	(void)name;
	d->log_pages = (size_t)n_pages;
	d->log_is_used = true;
	return SQLITE_OK;
}

/* NORMAL: a commit is written, but not forced to the disk; the death of a process loses
 * nothing, a loss of power the last commits at most. Small pages, since a commit writes a
 * page of each index that it touches, and mostly for one entry: 2 KiB take a quarter less time
 * than 4. What is deleted is overwritten: the code and environment of runs that are over. */
static int configure(struct database *d, bool full_sync)
{
	static const char *const settings = "PRAGMA page_size = 2048;"
					    "PRAGMA journal_mode = WAL;"
					    "PRAGMA temp_store = MEMORY;"
					    "PRAGMA cache_size = -32768;"
					    "PRAGMA journal_size_limit = 67108864;"
					    "PRAGMA secure_delete = ON;"
					    "PRAGMA trusted_schema = OFF;";
	int code = sqlite3_busy_timeout(d->db, BUSY_TIMEOUT_MS);

	if (code == SQLITE_OK)
		code = sqlite3_db_config(d->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_exec(d->db, settings, NULL, NULL, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_exec(d->db,
			full_sync ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
			NULL, NULL, NULL);
	/* Replaces SQLite's own checkpoints, which would happen within somebody's commit. */
	(void)sqlite3_wal_hook(d->db, on_log_grown, d);
	return code;
}

static int prepare_steps(struct database *d)
{
	static const char *const texts[DATABASE_STEPS] = {
		[DATABASE_BEGIN] = "BEGIN IMMEDIATE",
		[DATABASE_COMMIT] = "COMMIT",
		[DATABASE_ROLLBACK] = "ROLLBACK",
		[DATABASE_SAVE] = "SAVEPOINT batch",
		[DATABASE_RELEASE] = "RELEASE batch",
		[DATABASE_UNDO] = "ROLLBACK TO batch",
	};
	int code = SQLITE_OK;

	for (size_t i = 0; i < DATABASE_STEPS && code == SQLITE_OK; i++)
		code = sqlite3_prepare_v3(
			d->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &d->steps[i], NULL);
	return code;
}

static int connect_file(struct database *d, const char *path, bool full_sync, struct err *err)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;

	/* Nobody asks how much memory it has, and to count it takes a lock with each allocation.
	 * Refused, without harm, when there was another store before. */
	(void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	int code = sqlite3_open_v2(path, &d->db, flags, NULL);

	if (code == SQLITE_OK)
		code = configure(d, full_sync);
	if (code != SQLITE_OK)
		return err_set(err, database_errno(code), "%s",
			d->db ? sqlite3_errmsg(d->db) : sqlite3_errstr(code));
	int r = migrate_run(d->db, migrate_steps, migrate_n_steps, err);
	if (r == 0)
		r = migrate_check(d->db, err);
	if (r == 0 && (code = prepare_steps(d)) != SQLITE_OK)
		r = err_set(err, database_errno(code), "%s", sqlite3_errmsg(d->db));
	return r;
}

int database_open(const char *path, bool full_sync, struct database **ret, struct err *err)
{
	CLEANUP(database_closep) struct database *d = xnew(struct database);

	d->lock_fd = -1;
	int r = lock_file(path, &d->lock_fd, err);
	if (r == 0)
		r = make_file(path, err);
	if (r < 0)
		return r;
	r = connect_file(d, path, full_sync, err);
	if (r < 0)
		return err_wrap(err, r, path);
	*ret = TAKE(d);
	return 0;
}

void database_close(struct database *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n_statements; i++)
		(void)sqlite3_finalize(d->statements[i].prepared);
	for (size_t i = 0; i < DATABASE_STEPS; i++)
		(void)sqlite3_finalize(d->steps[i]);
	(void)sqlite3_close(d->db);
	/* Last, since closing moves what is left in the log. */
	if (d->lock_fd >= 0)
		(void)close(d->lock_fd);
	free(d);
}

sqlite3 *database_handle(struct database *d)
{
	return d->db;
}

static char *make_sql(const struct table *t, enum statement_kind kind, uint64_t columns)
{
	switch (kind) {
	case STATEMENT_GET:
		return sql_get(t);
	case STATEMENT_INSERT:
		return sql_insert(t);
	case STATEMENT_UPDATE:
		return sql_update(t, columns);
	case STATEMENT_DELETE:
		return sql_delete(t);
	case STATEMENT_ADD:
		return sql_add(t, &t->columns[__builtin_ctzll(columns)]);
	}
	return NULL;
}

/* A free place, or that of the one that was not used for longest. */
static struct statement *make_room(struct database *d)
{
	struct statement *oldest = &d->statements[0];

	if (d->n_statements < STATEMENTS_MAX)
		return &d->statements[d->n_statements++];
	for (size_t i = 1; i < STATEMENTS_MAX; i++) {
		if (d->statements[i].used < oldest->used)
			oldest = &d->statements[i];
	}
	(void)sqlite3_finalize(oldest->prepared);
	return oldest;
}

static sqlite3_stmt *prepare(
	struct database *d, const struct table *t, enum statement_kind kind, uint64_t columns)
{
	AUTO_FREE char *sql = make_sql(t, kind, columns);
	sqlite3_stmt *prepared = NULL;
	int code = sqlite3_prepare_v3(d->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &prepared, NULL);

	if (code != SQLITE_OK) {
		(void)database_failed(d, code);
		return NULL;
	}
	*make_room(d) = (struct statement){ t, kind, columns, prepared, ++d->n_uses };
	return prepared;
}

sqlite3_stmt *database_find(
	struct database *d, const struct table *t, enum statement_kind kind, uint64_t columns)
{
	for (size_t i = 0; i < d->n_statements; i++) {
		struct statement *s = &d->statements[i];
		if (s->table != t || s->kind != kind || s->columns != columns)
			continue;
		s->used = ++d->n_uses;
		return s->prepared;
	}
	return prepare(d, t, kind, columns);
}

int database_step(struct database *d, enum database_step step)
{
	int code = sqlite3_step(d->steps[step]);
	int r = code == SQLITE_DONE ? 0 : database_failed(d, code);

	(void)sqlite3_reset(d->steps[step]);
	if (r == 0 && step == DATABASE_UNDO)
		r = database_step(d, DATABASE_RELEASE);
	return r;
}

bool database_is_in_transaction(const struct database *d)
{
	return !sqlite3_get_autocommit(d->db);
}

size_t database_log_pages(const struct database *d)
{
	return d->log_pages > d->log_pages_kept ? d->log_pages - d->log_pages_kept : 0;
}

static void checkpoint(struct database *d, int mode)
{
	int n_pages = 0;
	int n_moved = 0;
	int code = sqlite3_wal_checkpoint_v2(d->db, NULL, mode, &n_pages, &n_moved);

	if (code != SQLITE_OK)
		(void)database_failed(d, code);
	bool is_whole = code == SQLITE_OK && n_moved == n_pages;
	d->log_pages_kept = is_whole ? 0 : d->log_pages;
	if (is_whole)
		d->log_pages = 0;
}

void database_checkpoint(struct database *d)
{
	checkpoint(d, SQLITE_CHECKPOINT_PASSIVE);
}

bool database_log_is_used(const struct database *d)
{
	return d->log_is_used;
}

void database_empty_log(struct database *d)
{
	/* Nobody is waited for: whoever comes next to the store would have to wait as well. */
	(void)sqlite3_busy_timeout(d->db, 0);
	checkpoint(d, SQLITE_CHECKPOINT_TRUNCATE);
	(void)sqlite3_busy_timeout(d->db, BUSY_TIMEOUT_MS);
	d->log_is_used = false;
}
