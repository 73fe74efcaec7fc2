/* run_log_lines.h: the lines of a run log, as in lockstep/run_log.h. */
#ifndef LS_RUN_RUN_LOG_LINES_H
#define LS_RUN_RUN_LOG_LINES_H

#include <lockstep/run_log.h>

enum {
    LS__STEP_DIGITS = 12,
    LS__LINE_SIZE = LS__STEP_DIGITS + 1 + 32 + 1 + 16 + 1 + 32 + 1 + 32 + 1 /* with its '\n' */
};

void ls__run_log_format(int64_t step, const ls_step_digest *digest, char out[LS__LINE_SIZE + 1]);

/* False unless ls__run_log_format could have written the line for this step. */
bool ls__run_log_parse(const char line[LS__LINE_SIZE], int64_t step, ls_step_digest *out);

/* Opens a regular file and counts its whole lines; `flags` are open's. On failure *fd is -1. */
ls_status ls__run_log_open_file(ls_context *ctx, const char *path, int flags, int *fd,
                                int64_t *n_lines);

/* Reads n whole lines from line `first` on. */
ls_status ls__run_log_read_lines(ls_context *ctx, const char *path, int fd, int64_t first,
                                 int64_t n, char *out);
ls_status ls__run_log_read_step(ls_context *ctx, const char *path, int fd, int64_t step,
                                ls_step_digest *out);

/* Errors of a malformed line and of a system call. */
ls_status ls__run_log_fail_line(ls_context *ctx, const char *path, int64_t step);
ls_status ls__run_log_fail_errno(ls_context *ctx, int error, const char *path);

#endif
