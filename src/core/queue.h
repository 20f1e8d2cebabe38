/* The queue of runs that wait for their turn: one line per user, and the users take turns,
 * so that one user's burst never starves another. It holds entries that are part of what
 * waits; only the users, while they wait or run, are allocated. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUEUE_USER_MAX 64

struct queue_user;

/* Embed this in what waits. */
struct queue_entry {
	struct queue_entry *next;
	struct queue_user *user;   /* NULL when it does not wait */
	struct queue_user *holder; /* NULL unless it is held */
	uint64_t since_ns;         /* CLOCK_MONOTONIC */
	bool is_parked;            /* it waits, but could not begin if it had a turn */
};

struct queue {
	struct queue_user *users; /* everybody who waits or runs, in the order of their turns */
	struct queue_user **users_end;
	struct queue_user *served; /* who had the last turn, and is not yet at the end; or NULL */
	size_t n_waiting;
	size_t n_held;
	size_t n_active;
	size_t max_active;
	size_t max_active_per_user; /* 0: no limit */
};

void queue_init(struct queue *q, size_t max_active, size_t max_active_per_user);
void queue_fini(struct queue *q);

/* How many of this user's wait, held ones included, and how many are active. */
size_t queue_waiting_of(const struct queue *q, const char *user);
size_t queue_active_of(const struct queue *q, const char *user);

/* Is there a place to wait in for this user, if there are `n`? One that is held takes a place,
 * too. When they are taken, there are as many again for those who have less than an equal share: a
 * burst of one user does not turn others away. */
bool queue_has_place(const struct queue *q, const char *user, size_t n);

/* Could one of this user's start at once, without passing anybody who waits longer? */
bool queue_has_room(const struct queue *q, const char *user);

void queue_push(struct queue *q, struct queue_entry *e, const char *user, uint64_t now_ns);

/* Take the next one whose turn it is, and count it as active; NULL when there is no room or
 * nobody waits who could begin. */
struct queue_entry *queue_pop(struct queue *q);

/* The same for one that could not begin yet: it has its place in the line, by the time since when
 * it waits, and takes one, but those behind it have their turns until it is woken. */
void queue_park(struct queue *q, struct queue_entry *e, const char *user, uint64_t since_ns);
void queue_wake(struct queue_entry *e);

/* Somebody has to allow it before it waits for a turn: it only takes a place. */
void queue_hold(struct queue *q, struct queue_entry *e, const char *user);

/* It will not wait, or be held, any longer. Nothing happens when it does not wait. */
void queue_remove(struct queue *q, struct queue_entry *e);

/* One that is not in the queue becomes active, or one that was is over. */
void queue_begin(struct queue *q, const char *user);
void queue_end(struct queue *q, const char *user);

/* The one that waits longest of all, or NULL. */
struct queue_entry *queue_oldest(const struct queue *q);

/* How many would be started before this one, if nothing ended out of turn. */
size_t queue_position(const struct queue *q, const struct queue_entry *e);
