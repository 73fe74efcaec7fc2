/* write.h: writing to a file handle without signals. */
#ifndef LS_BASE_WRITE_H
#define LS_BASE_WRITE_H

#include <stddef.h>
#include <stdint.h>

/* Writes all bytes at the offset `at`, or at the handle's own position for -1. Returns 0 or the
 * system's error: EFBIG beyond RLIMIT_FSIZE, EPIPE for a pipe that nobody reads. The signals of
 * these two, SIGXFSZ and SIGPIPE, are not delivered, because by default they end the process. */
int ls__write(int fd, const void *bytes, size_t size, int64_t at);

#endif
