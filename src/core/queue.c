#include "core/queue.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"

struct queue_user {
	struct queue_user *next;
	char name[QUEUE_USER_MAX + 1];
	struct queue_entry *first;
	struct queue_entry **last;
	size_t n_waiting;
	size_t n_held;
	size_t n_active;
};

void queue_init(struct queue *q, size_t max_active, size_t max_active_per_user)
{
	*q = (struct queue){ .max_active = max_active, .max_active_per_user = max_active_per_user };
	q->users_end = &q->users;
}

void queue_fini(struct queue *q)
{
	while (q->users) {
		struct queue_user *u = q->users;

		q->users = u->next;
		free(u);
	}
	q->users_end = &q->users;
	q->served = NULL;
}

static struct queue_user *find(const struct queue *q, const char *user)
{
	for (struct queue_user *u = q->users; u; u = u->next) {
		if (streq(u->name, user))
			return u;
	}
	return NULL;
}

static void append(struct queue *q, struct queue_user *u)
{
	u->next = NULL;
	*q->users_end = u;
	q->users_end = &u->next;
}

static void unlink_user(struct queue *q, struct queue_user *u)
{
	for (struct queue_user **at = &q->users; *at; at = &(*at)->next) {
		if (*at != u)
			continue;
		*at = u->next;
		if (!*at)
			q->users_end = at;
		return;
	}
}

static struct queue_user *find_or_add(struct queue *q, const char *user)
{
	struct queue_user *u = find(q, user);

	if (u)
		return u;
	u = xnew(struct queue_user);
	(void)snprintf(u->name, sizeof(u->name), "%s", user);
	u->last = &u->first;
	append(q, u);
	return u;
}

/* Users who neither wait nor run nor have something held are forgotten. */
static void forget_if_idle(struct queue *q, struct queue_user *u)
{
	if (u->n_waiting > 0 || u->n_held > 0 || u->n_active > 0)
		return;
	if (q->served == u)
		q->served = NULL;
	unlink_user(q, u);
	free(u);
}

/* Whoever had a turn goes to the end of the line, but only when the next one is taken: users who
 * come in between have not had theirs, and stand before them. */
static void send_to_end(struct queue *q)
{
	if (!q->served)
		return;
	unlink_user(q, q->served);
	append(q, q->served);
	q->served = NULL;
}

static void serve(struct queue *q, struct queue_user *u)
{
	send_to_end(q);
	u->n_active++;
	q->n_active++;
	q->served = u;
}

size_t queue_waiting_of(const struct queue *q, const char *user)
{
	const struct queue_user *u = find(q, user);

	return u ? u->n_waiting + u->n_held : 0;
}

size_t queue_active_of(const struct queue *q, const char *user)
{
	const struct queue_user *u = find(q, user);

	return u ? u->n_active : 0;
}

static size_t count_waiting_users(const struct queue *q)
{
	size_t n = 0;

	for (const struct queue_user *u = q->users; u; u = u->next)
		n += u->n_waiting + u->n_held > 0;
	return n;
}

bool queue_has_place(const struct queue *q, const char *user, size_t n)
{
	size_t n_own = queue_waiting_of(q, user);
	size_t n_users = count_waiting_users(q) + (n_own == 0);

	size_t n_taken = q->n_waiting + q->n_held;

	return n_taken < n || (n_taken < 2 * n && n_users > 1 && n_own * n_users < n);
}

static bool user_has_room(const struct queue *q, const struct queue_user *u)
{
	return !u || q->max_active_per_user == 0 || u->n_active < q->max_active_per_user;
}

/* The first one of this user's that could begin, or NULL. */
static struct queue_entry *first_ready(const struct queue_user *u)
{
	struct queue_entry *e = u->first;

	while (e && e->is_parked)
		e = e->next;
	return e;
}

static bool anybody_could_start(const struct queue *q)
{
	for (const struct queue_user *u = q->users; u; u = u->next) {
		if (first_ready(u) && user_has_room(q, u))
			return true;
	}
	return false;
}

bool queue_has_room(const struct queue *q, const char *user)
{
	return q->n_active < q->max_active && user_has_room(q, find(q, user)) &&
	       !anybody_could_start(q);
}

static void insert(struct queue *q, struct queue_entry *e, struct queue_entry **at)
{
	struct queue_user *u = e->user;

	e->next = *at;
	*at = e;
	if (!e->next)
		u->last = &e->next;
	u->n_waiting++;
	q->n_waiting++;
}

void queue_push(struct queue *q, struct queue_entry *e, const char *user, uint64_t now_ns)
{
	struct queue_user *u = find_or_add(q, user);

	*e = (struct queue_entry){ .user = u, .since_ns = now_ns };
	insert(q, e, u->last);
}

void queue_park(struct queue *q, struct queue_entry *e, const char *user, uint64_t since_ns)
{
	struct queue_user *u = find_or_add(q, user);
	struct queue_entry **at = &u->first;

	while (*at && (*at)->since_ns <= since_ns)
		at = &(*at)->next;
	*e = (struct queue_entry){ .user = u, .since_ns = since_ns, .is_parked = true };
	insert(q, e, at);
}

void queue_wake(struct queue_entry *e)
{
	e->is_parked = false;
}

static void unlink_entry(struct queue *q, struct queue_entry *e)
{
	struct queue_user *u = e->user;

	for (struct queue_entry **at = &u->first; *at; at = &(*at)->next) {
		if (*at != e)
			continue;
		*at = e->next;
		if (!*at)
			u->last = at;
		break;
	}
	e->user = NULL;
	e->next = NULL;
	u->n_waiting--;
	q->n_waiting--;
}

struct queue_entry *queue_pop(struct queue *q)
{
	if (q->n_active >= q->max_active)
		return NULL;
	send_to_end(q);
	for (struct queue_user *u = q->users; u; u = u->next) {
		struct queue_entry *e = first_ready(u);

		if (!e || !user_has_room(q, u))
			continue;
		unlink_entry(q, e);
		serve(q, u);
		return e;
	}
	return NULL;
}

void queue_hold(struct queue *q, struct queue_entry *e, const char *user)
{
	*e = (struct queue_entry){ .holder = find_or_add(q, user) };
	e->holder->n_held++;
	q->n_held++;
}

void queue_remove(struct queue *q, struct queue_entry *e)
{
	struct queue_user *u = e->user ? e->user : e->holder;

	if (!u)
		return;
	if (e->user) {
		unlink_entry(q, e);
	} else {
		e->holder = NULL;
		u->n_held--;
		q->n_held--;
	}
	forget_if_idle(q, u);
}

void queue_begin(struct queue *q, const char *user)
{
	serve(q, find_or_add(q, user));
}

void queue_end(struct queue *q, const char *user)
{
	struct queue_user *u = find(q, user);

	if (!u || u->n_active == 0)
		return;
	u->n_active--;
	q->n_active--;
	forget_if_idle(q, u);
}

struct queue_entry *queue_oldest(const struct queue *q)
{
	struct queue_entry *oldest = NULL;

	for (const struct queue_user *u = q->users; u; u = u->next) {
		if (u->first && (!oldest || u->first->since_ns < oldest->since_ns))
			oldest = u->first;
	}
	return oldest;
}

/* How many of this user's could have one of that many turns. */
static size_t count_ready(const struct queue_user *u, size_t turns)
{
	size_t n = 0;

	for (const struct queue_entry *e = u->first; e && n < turns; e = e->next)
		n += !e->is_parked;
	return n;
}

/* Its place in its user's line is the round in which it comes; those who stand before its user
 * have had one turn more by then. */
size_t queue_position(const struct queue *q, const struct queue_entry *e)
{
	bool is_before = true;
	size_t round = 0;
	size_t n = 0;

	if (!e->user)
		return 0;
	for (const struct queue_entry *i = e->user->first; i && i != e; i = i->next)
		round += !i->is_parked;
	for (const struct queue_user *u = q->users; u; u = u->next) {
		if (u == e->user) {
			is_before = u == q->served;
			continue;
		}
		size_t turns = round + (is_before && u != q->served);
		n += count_ready(u, turns);
	}
	return n + round;
}
