/* The files of a user's sessions as resources, and what is told of them. */
#pragma once

struct call;
struct inventory;
struct session;

#define RESOURCES_TEMPLATES                                                                        \
	"[{\"uriTemplate\":\"belljar://{session_id}/{+path}\",\"name\":\"session_file\","          \
	"\"title\":\"A file of a session\",\"description\":"                                       \
	"\"What code left in /mnt/data of a session; path is relative to that.\"}]"

/* In the _meta of a list: sessions of which not all files are in it. */
#define RESOURCES_META_CUT "belljar/incompleteSessions"

#define RESOURCES_PAGE 500u /* files after which a page ends */

void resources_list(struct call *c, const char *cursor);
void resources_read(struct call *c, const char *uri);
void resources_subscribe(struct call *c, const char *uri);

/* A run is over: whoever is interested hears which files it changed. */
void resources_tell(
	const struct call *c, const struct session *session, const struct inventory *listing);
