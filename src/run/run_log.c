/* run_log.c: writing the record of a run; see lockstep/run_log.h. */
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
    ls__step_digest digests[2]; /* of ls_run_log_step, in turn */
    int64_t n_begun, n_ended;   /* of them */
};

static ls_status write_line(ls_run_log *record, const ls_step_digest *digest)
{
    ls_context *ctx = record->owned.ctx;
    if (record->n_steps > MAX_STEP)
        return ls__fail(ctx, LS_ERR_INVALID, "run log '%s': it is full", record->path);
    char line[LS__LINE_SIZE + 1];
    ls__record_format(record->n_steps, digest, line);
    const off_t at = (off_t)(record->n_steps * LS__LINE_SIZE);
    for (size_t done = 0; done < LS__LINE_SIZE;) {
        const ssize_t put = pwrite(record->fd, line + done, LS__LINE_SIZE - done, at + (off_t)done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            const ls_status status =
                ls__record_fail_errno(ctx, put < 0 ? errno : EIO, record->path);
            if (ftruncate(record->fd, at) != 0) return status; /* readers pass over half a line */
            return status;
        }
        done += (size_t)put;
    }
    record->n_steps++;
    return LS_OK;
}

/* Writes the lines that ls_run_log_step has begun, but for the last `left`. */
static ls_status append_late(ls_run_log *record, int64_t left)
{
    ls_status status = LS_OK;
    while (status == LS_OK && record->n_begun - record->n_ended > left) {
        ls_step_digest done;
        status = ls__step_digest_end(&record->digests[record->n_ended++ % 2], &done);
        if (status == LS_OK) status = write_line(record, &done);
    }
    /* What comes after a line that is missing would stand in its place. */
    if (status != LS_OK) record->n_ended = record->n_begun;
    return status;
}

static void close_record(ls__owned *owned)
{
    ls_run_log *record = (ls_run_log *)owned;
    if (record->fd >= 0) (void)append_late(record, 0);
    for (int i = 0; i < 2; i++) ls__step_digest_close(&record->digests[i]);
    if (record->fd >= 0) close(record->fd);
    ls__free(owned->ctx, record->path);
    ls__free(owned->ctx, record);
}

static ls_status cut(const ls_run_log *record)
{
    if (ftruncate(record->fd, (off_t)(record->n_steps * LS__LINE_SIZE)) == 0) return LS_OK;
    return ls__record_fail_errno(record->owned.ctx, errno, record->path);
}

/* Keeps the first n_steps lines. */
static ls_status keep_steps(ls_run_log *record, int64_t n_lines, int64_t n_steps)
{
    ls_context *ctx = record->owned.ctx;
    if (n_lines < n_steps)
        return ls__fail(ctx, LS_ERR_DATA,
                        "run log '%s': has %" PRId64 " whole lines, expected %" PRId64, record->path,
                        n_lines, n_steps);
    ls_step_digest digest;
    for (int64_t i = 0; i < n_steps; i++)
        LS_TRY(ls__record_read_step(ctx, record->path, record->fd, i, &digest));
    record->n_steps = n_steps;
    return cut(record);
}

ls_run_log *ls_run_log_open(ls_context *ctx, const char *path, int64_t n_steps)
{
    LS__ENTER_NULL(ctx);
    if (!path || n_steps < 0 || n_steps > MAX_STEP) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_run_log_open: path '%s', %" PRId64 " steps to keep",
                 path ? path : "(null)", n_steps);
        return NULL;
    }
    ls_run_log *record = ls__zalloc(ctx, sizeof(*record));
    if (!record) {
        ls__fail_memory(ctx, "ls_run_log_open", sizeof(*record));
        return NULL;
    }
    record->owned.ctx = ctx;
    record->fd = -1;
    record->path = ls__strdup(ctx, path);
    int64_t n_lines;
    ls_status status =
        record->path ? LS_OK : ls__fail_memory(ctx, "ls_run_log_open", strlen(path) + 1);
    if (status == LS_OK)
        status = ls__record_open_file(ctx, path, O_RDWR | (n_steps > 0 ? 0 : O_CREAT), &record->fd,
                                      &n_lines);
    if (status == LS_OK) status = keep_steps(record, n_lines, n_steps);
    if (status != LS_OK) {
        close_record(&record->owned);
        return NULL;
    }
    ls__own(ctx, &record->owned, close_record);
    return record;
}

void ls_run_log_close(ls_run_log **record)
{
    if (!record || !*record) return;
    ls__disown_and_close(&(*record)->owned);
    *record = NULL;
}

ls_status ls_run_log_append(ls_run_log *record, const ls_step_digest *digest)
{
    if (!record) return LS_ERR_EARLIER;
    ls_context *ctx = record->owned.ctx;
    LS__ENTER(ctx);
    if (!digest) return ls__fail(ctx, LS_ERR_INVALID, "ls_run_log_append: the digest is NULL");
    LS_TRY(append_late(record, 0));
    return write_line(record, digest);
}

ls_status ls_run_log_step(ls_run_log *record, ls_net *net, const ls_batch *batch)
{
    if (!record || !net) return LS_ERR_EARLIER;
    ls_context *ctx = record->owned.ctx;
    LS__ENTER(ctx);
    if (ls_net_context(net) != ctx)
        return ls__fail(ctx, LS_ERR_MISMATCH,
                        "ls_run_log_step: the net belongs to another context than the record");
    LS_TRY(ls__step_digest_begin(&record->digests[record->n_begun % 2], net, batch));
    record->n_begun++;
    return append_late(record, ls__readback_lag(ctx->device));
}

ls_status ls_run_log_flush(ls_run_log *record)
{
    if (!record) return LS_ERR_EARLIER;
    LS__ENTER(record->owned.ctx);
    LS_TRY(append_late(record, 0));
    return fsync(record->fd) == 0 ? LS_OK
                                  : ls__record_fail_errno(record->owned.ctx, errno, record->path);
}
