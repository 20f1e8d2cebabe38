/* Files into the workspace before the guest starts, and out of it after it ended.
 * Both run in the confined init, with the guest's own rights. */
#pragma once
#include <stdint.h>

struct err;
struct spec;

/* Make good what a restore left half done, if `spec` says so; -ENOTRECOVERABLE if that fails. */
int files_make_good(const struct spec *spec, struct err *err);

/* Read a pack stream from `fd` to its end into /workspace. When that is a session's, all
 * of the files arrive there or none. */
int files_take_in(const struct spec *spec, int fd, struct err *err);

/* Write what matches the globs of `spec` to `fd`; the number of bytes goes to
 * `*ret_bytes`. For DEED_FILES that is everything, and it fails if anything but a socket, fifo or
 * device can not be sent: -EFBIG over the limit of bytes, -E2BIG over the number of files,
 * -ENAMETOOLONG for a path that is too deep or long, -EACCES for what the guest shut. */
int files_send_out(const struct spec *spec, int fd, uint64_t *ret_bytes, struct err *err);
