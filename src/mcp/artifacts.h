/* The files of a session as tools list them. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct call;
struct inventory;
struct inventory_entry;
struct session;

/* Files of ours in a workspace begin so; no list shows them. */
#define ARTIFACTS_OURS ".belljar-"

/* Part of schemas. */
#define ARTIFACTS_SCHEMA                                                                                                    \
	"\"artifacts\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":"                                    \
	"[\"path\",\"filename\",\"size_bytes\",\"mime_type\",\"download_url\"],\"properties\":{"                            \
	"\"path\":{\"type\":\"string\"},\"filename\":{\"type\":\"string\"},"                                                \
	"\"size_bytes\":{\"type\":\"integer\"},\"mime_type\":{\"type\":\"string\"},"                                        \
	"\"sha256\":{\"type\":\"string\"},\"modified_at\":{\"type\":\"string\"},\"download_url\":{\"type\":\"string\"}}}}," \
	"\"artifacts_omitted\":{\"type\":\"integer\",\"description\":"                                                      \
	"\"files over the limit of this list\"},"                                                                           \
	"\"artifacts_incomplete\":{\"type\":\"boolean\",\"description\":"                                                   \
	"\"not all files could be looked at: there are more\"}"

/* Put the files of a listing (NULL: none) into `o`, those that changed last first, as far as the
 * limit allows. */
void artifacts_set(const struct call *c, const struct session *session,
	const struct inventory *listing, json_t *o);
/* A link to each of them. */
void artifacts_add_links(json_t *content, const struct session *session, const json_t *list);

/* The digest of the entry, if it has one, as a member of `o`. */
void artifacts_set_sha256(json_t *o, const struct inventory_entry *e);

/* Is this entry a file that is offered to the user? */
bool artifacts_is_shown(const struct inventory_entry *e);
