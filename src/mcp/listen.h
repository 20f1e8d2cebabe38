/* subscriptions/listen: a request that goes on. Its client is told what was agreed upon, and from
 * then on of changes, until it cancels the request or the server ends. */
#pragma once
#include <jansson.h>

struct call;

void listen_handle(struct call *c, const json_t *params);
