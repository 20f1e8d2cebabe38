/* What the files about sessions share. */
#pragma once

struct exchange;
struct problem;
struct session;

/* The session of the parameter {id}, if it belongs to who is asking; else it has answered 404
 * and returns NULL. */
struct session *sessions_find(struct exchange *x);
