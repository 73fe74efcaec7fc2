/* run_log_lines.c: see run_log_lines.h. */
#include "run/run_log_lines.h"

#include "base/error.h"
#include "base/file.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void ls__run_log_format(int64_t step, const ls_step_digest *digest, char out[LS__LINE_SIZE + 1])
{
    char batch[LS_DIGEST_TEXT_SIZE], gradients[LS_DIGEST_TEXT_SIZE], weights[LS_DIGEST_TEXT_SIZE];
    uint64_t loss;
    memcpy(&loss, &digest->loss, sizeof(loss));
    snprintf(out, LS__LINE_SIZE + 1, "%0*" PRId64 " %s %016" PRIx64 " %s %s\n", LS__STEP_DIGITS,
             step, ls_digest_text(digest->batch, batch), loss,
             ls_digest_text(digest->gradients, gradients),
             ls_digest_text(digest->weights, weights));
}

bool ls__run_log_parse(const char line[LS__LINE_SIZE], int64_t step, ls_step_digest *out)
{
    char text[LS__LINE_SIZE + 1], again[LS__LINE_SIZE + 1];
    memcpy(text, line, LS__LINE_SIZE);
    text[LS__LINE_SIZE] = '\0';
    uint64_t loss;
    const int n =
        sscanf(text,
               "%*12d %16" SCNx64 "%16" SCNx64 " %16" SCNx64 " %16" SCNx64 "%16" SCNx64
               " %16" SCNx64 "%16" SCNx64,
               &out->batch.lanes[0], &out->batch.lanes[1], &loss, &out->gradients.lanes[0],
               &out->gradients.lanes[1], &out->weights.lanes[0], &out->weights.lanes[1]);
    if (n != 7) return false;
    memcpy(&out->loss, &loss, sizeof(loss));
    ls__run_log_format(step, out, again);
    return memcmp(again, line, LS__LINE_SIZE) == 0;
}

ls_status ls__run_log_fail_line(ls_context *ctx, const char *path, int64_t step)
{
    return ls__fail(ctx, LS_ERR_DATA, "run log '%s': line %" PRId64 " is not that of step %" PRId64,
                    path, step + 1, step);
}

ls_status ls__run_log_fail_errno(ls_context *ctx, int error, const char *path)
{
    return ls__fail_errno(ctx, error, "run log '%s'", path);
}

ls_status ls__run_log_open_file(ls_context *ctx, const char *path, int flags, int *fd,
                                int64_t *n_lines)
{
    char reason[LS__ERRNO_TEXT_SIZE];
    int64_t size;
    const ls_status status = ls__open_regular(path, flags, fd, &size, reason);
    if (status != LS_OK) return ls__fail(ctx, status, "run log '%s': %s", path, reason);
    *n_lines = size / LS__LINE_SIZE;
    return LS_OK;
}

ls_status ls__run_log_read_lines(ls_context *ctx, const char *path, int fd, int64_t first,
                                 int64_t n, char *out)
{
    const size_t bytes = (size_t)n * LS__LINE_SIZE;
    for (size_t done = 0; done < bytes;) {
        const ssize_t got =
            pread(fd, out + done, bytes - done, (off_t)(first * LS__LINE_SIZE) + (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return ls__run_log_fail_errno(ctx, got < 0 ? errno : EIO, path);
        done += (size_t)got;
    }
    return LS_OK;
}

ls_status ls__run_log_read_step(ls_context *ctx, const char *path, int fd, int64_t step,
                                ls_step_digest *out)
{
    char line[LS__LINE_SIZE];
    LS_TRY(ls__run_log_read_lines(ctx, path, fd, step, 1, line));
    return ls__run_log_parse(line, step, out) ? LS_OK : ls__run_log_fail_line(ctx, path, step);
}
