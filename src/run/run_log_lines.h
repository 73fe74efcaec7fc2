/* run_log_lines.h: the lines of a record's file; lockstep/run_log.h describes them. */
#ifndef LS_RUN_RUN_LOG_LINES_H
#define LS_RUN_RUN_LOG_LINES_H

#include <lockstep/run_log.h>

enum {
    LS__STEP_DIGITS = 12,
    LS__LINE_SIZE = LS__STEP_DIGITS + 1 + 32 + 1 + 16 + 1 + 32 + 1 + 32 + 1 /* with its '\n' */
};

void ls__record_format(int64_t step, const ls_step_digest *digest, char out[LS__LINE_SIZE + 1]);

/* False when the line is not what the step's digests are written as. */
bool ls__record_parse(const char line[LS__LINE_SIZE], int64_t step, ls_step_digest *out);

/* Opens a regular file and counts its whole lines; `flags` are open's. On failure *fd is -1. */
ls_status ls__record_open_file(ls_context *ctx, const char *path, int flags, int *fd,
                               int64_t *n_lines);

/* Reads n whole lines from line `first` on. */
ls_status ls__record_read_lines(ls_context *ctx, const char *path, int fd, int64_t first, int64_t n,
                                char *out);
ls_status ls__record_read_step(ls_context *ctx, const char *path, int fd, int64_t step,
                               ls_step_digest *out);

/* The errors of all that reads or writes a record: a line that is none, and the system's. */
ls_status ls__record_fail_line(ls_context *ctx, const char *path, int64_t step);
ls_status ls__record_fail_errno(ls_context *ctx, int error, const char *path);

#endif
