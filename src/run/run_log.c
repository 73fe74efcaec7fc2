/* run_log.c: writing a run log; see lockstep/run_log.h. */
#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"
#include "run/run_log_lines.h"
#include "run/step_digest.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const int64_t MAX_STEP = INT64_C(999999999999); /* of LS__STEP_DIGITS digits */

struct ls_run_log {
    ls__owned owned;
    char *path;
    int fd;
    int64_t n_steps;
    ls__step_digest digests[2]; /* of ls_run_log_step, used alternately */
    int64_t n_begun, n_ended;   /* steps of ls_run_log_step */
};

static ls_status write_line(ls_run_log *log, const ls_step_digest *digest)
{
    ls_context *ctx = log->owned.ctx;
    if (log->n_steps > MAX_STEP)
        return ls__fail(ctx, LS_ERR_INVALID, "run log '%s': it is full", log->path);
    char line[LS__LINE_SIZE + 1];
    ls__run_log_format(log->n_steps, digest, line);
    const off_t at = (off_t)(log->n_steps * LS__LINE_SIZE);
    for (size_t done = 0; done < LS__LINE_SIZE;) {
        const ssize_t put = pwrite(log->fd, line + done, LS__LINE_SIZE - done, at + (off_t)done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            const ls_status status = ls__run_log_fail_errno(ctx, put < 0 ? errno : EIO, log->path);
            if (ftruncate(log->fd, at) != 0) return status; /* readers skip an incomplete line */
            return status;
        }
        done += (size_t)put;
    }
    log->n_steps++;
    return LS_OK;
}

/* Writes the lines of the steps begun by ls_run_log_step, except the last `left`. */
static ls_status append_finished(ls_run_log *log, int64_t left)
{
    ls_status status = LS_OK;
    while (status == LS_OK && log->n_begun - log->n_ended > left) {
        ls_step_digest done;
        status = ls__step_digest_end(&log->digests[log->n_ended++ % 2], &done);
        if (status == LS_OK) status = write_line(log, &done);
    }
    /* No later line may stand in the place of a missing one. */
    if (status != LS_OK) log->n_ended = log->n_begun;
    return status;
}

static void close_log(ls__owned *owned)
{
    ls_run_log *log = (ls_run_log *)owned;
    if (log->fd >= 0) (void)append_finished(log, 0);
    for (int i = 0; i < 2; i++) ls__step_digest_close(&log->digests[i]);
    if (log->fd >= 0) close(log->fd);
    ls__free(owned->ctx, log->path);
    ls__free(owned->ctx, log);
}

static ls_status cut(const ls_run_log *log)
{
    if (ftruncate(log->fd, (off_t)(log->n_steps * LS__LINE_SIZE)) == 0) return LS_OK;
    return ls__run_log_fail_errno(log->owned.ctx, errno, log->path);
}

/* Keeps the first n_steps lines. */
static ls_status keep_steps(ls_run_log *log, int64_t n_lines, int64_t n_steps)
{
    ls_context *ctx = log->owned.ctx;
    if (n_lines < n_steps)
        return ls__fail(ctx, LS_ERR_DATA,
                        "run log '%s': has %" PRId64 " whole lines, expected %" PRId64, log->path,
                        n_lines, n_steps);
    ls_step_digest digest;
    for (int64_t i = 0; i < n_steps; i++)
        LS_TRY(ls__run_log_read_step(ctx, log->path, log->fd, i, &digest));
    log->n_steps = n_steps;
    return cut(log);
}

ls_run_log *ls_run_log_open(ls_context *ctx, const char *path, int64_t n_steps)
{
    LS__ENTER_NULL(ctx);
    if (!path || n_steps < 0 || n_steps > MAX_STEP) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_run_log_open: path '%s', %" PRId64 " steps to keep",
                 path ? path : "(null)", n_steps);
        return NULL;
    }
    ls_run_log *log = ls__zalloc(ctx, sizeof(*log));
    if (!log) {
        ls__fail_memory(ctx, "ls_run_log_open", sizeof(*log));
        return NULL;
    }
    log->owned.ctx = ctx;
    log->fd = -1;
    log->path = ls__strdup(ctx, path);
    int64_t n_lines;
    ls_status status =
        log->path ? LS_OK : ls__fail_memory(ctx, "ls_run_log_open", strlen(path) + 1);
    if (status == LS_OK)
        status = ls__run_log_open_file(ctx, path, O_RDWR | (n_steps > 0 ? 0 : O_CREAT), &log->fd,
                                       &n_lines);
    if (status == LS_OK) status = keep_steps(log, n_lines, n_steps);
    if (status != LS_OK) {
        close_log(&log->owned);
        return NULL;
    }
    ls__own(ctx, &log->owned, close_log);
    return log;
}

void ls_run_log_close(ls_run_log **log)
{
    if (!log || !*log) return;
    ls__disown_and_close(&(*log)->owned);
    *log = NULL;
}

ls_status ls_run_log_append(ls_run_log *log, const ls_step_digest *digest)
{
    if (!log) return LS_ERR_EARLIER;
    ls_context *ctx = log->owned.ctx;
    LS__ENTER(ctx);
    if (!digest) return ls__fail(ctx, LS_ERR_INVALID, "ls_run_log_append: the digest is NULL");
    LS_TRY(append_finished(log, 0));
    return write_line(log, digest);
}

ls_status ls_run_log_step(ls_run_log *log, ls_net *net, const ls_batch *batch)
{
    if (!log || !net) return LS_ERR_EARLIER;
    ls_context *ctx = log->owned.ctx;
    LS__ENTER(ctx);
    if (ls_net_context(net) != ctx)
        return ls__fail(ctx, LS_ERR_MISMATCH,
                        "ls_run_log_step: the net belongs to another context than the run log");
    LS_TRY(ls__step_digest_begin(&log->digests[log->n_begun % 2], net, batch));
    log->n_begun++;
    return append_finished(log, ls__readback_lag(ctx->device));
}

ls_status ls_run_log_flush(ls_run_log *log)
{
    if (!log) return LS_ERR_EARLIER;
    LS__ENTER(log->owned.ctx);
    LS_TRY(append_finished(log, 0));
    return fsync(log->fd) == 0 ? LS_OK : ls__run_log_fail_errno(log->owned.ctx, errno, log->path);
}
