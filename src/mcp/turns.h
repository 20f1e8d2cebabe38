/* Files that become answers. In memory an answer is several times as large as its file, and many
 * may be asked for at once: so those that are large become answers one by one, a turn of the loop
 * each. By the next turn the last one is counted, and room is made if those that nobody reads are
 * too many. */
#pragma once

struct mcp_host;
struct session_file;

/* Bytes of a file for which nobody waits. */
#define TURNS_SMALL (64u << 10)

/* Takes the file's descriptor, and gives it back for as long as the call lasts: at once if it is
 * small, else from the loop. */
typedef void turns_cb(void *ctx, const struct session_file *file);
void turns_wait(struct mcp_host *host, struct session_file *file, turns_cb *done, void *ctx);
