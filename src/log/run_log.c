/* run_log.c: writes, reads and compares run logs; see lockstep/run_log.h. */
#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "base/write.h"
#include "comm/comm.h"
#include "log/step_digest.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int64_t MAX_STEP = INT64_C(999999999999); /* of LS__STEP_DIGITS digits */

/* ---- Lines ---- */

typedef struct log_file {
    ls_context *ctx;
    const char *path;
    int fd;          /* -1 = not open, as in ranks other than 0, which write nothing */
    int64_t n_lines; /* whole lines */
} log_file;

static ls_status fail_errno(const log_file *file, int error)
{
    return ls__fail_errno(file->ctx, error, "run log '%s'", file->path);
}

static ls_status fail_line(const log_file *file, int64_t step)
{
    return ls__fail(file->ctx, LS_ERR_DATA,
                    "run log '%s': line %" PRId64 " is not that of step %" PRId64, file->path,
                    step + 1, step);
}

/* Opens a regular file; `flags` are open's. */
static ls_status open_file(ls_context *ctx, const char *path, int flags, log_file *out)
{
    char reason[LS__ERRNO_TEXT_SIZE];
    int64_t size;
    *out = (log_file){ .ctx = ctx, .path = path };
    const ls_status status = ls__open_regular(path, flags, &out->fd, &size, reason);
    if (status != LS_OK) return ls__fail(ctx, status, "run log '%s': %s", path, reason);
    out->n_lines = size / LS__LINE_SIZE;
    return LS_OK;
}

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

/* False unless ls__run_log_format could have written the line for this step. */
static bool parse_line(const char line[LS__LINE_SIZE], int64_t step, ls_step_digest *out)
{
    char text[LS__LINE_SIZE + 1], again[LS__LINE_SIZE + 1];
    memcpy(text, line, LS__LINE_SIZE);
    text[LS__LINE_SIZE] = '\0';
    uint64_t loss;
    const int n =
        sscanf(text,
               "%*12d %16" SCNx64 "%16" SCNx64 " %16" SCNx64 " %16" SCNx64 "%16" SCNx64
               " %16" SCNx64 "%16" SCNx64,
               &out->batch.words[0], &out->batch.words[1], &loss, &out->gradients.words[0],
               &out->gradients.words[1], &out->weights.words[0], &out->weights.words[1]);
    if (n != 7) return false;
    memcpy(&out->loss, &loss, sizeof(loss));
    ls__run_log_format(step, out, again);
    return memcmp(again, line, LS__LINE_SIZE) == 0;
}

/* Reads n whole lines from line `first` on. */
static ls_status read_lines(const log_file *file, int64_t first, int64_t n, char *out)
{
    const size_t bytes = (size_t)n * LS__LINE_SIZE;
    const off_t begin = (off_t)(first * LS__LINE_SIZE);
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = pread(file->fd, out + done, bytes - done, begin + (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail_errno(file, got < 0 ? errno : EIO);
        done += (size_t)got;
    }
    return LS_OK;
}

static ls_status read_step(const log_file *file, int64_t step, ls_step_digest *out)
{
    char line[LS__LINE_SIZE];
    LS_TRY(read_lines(file, step, 1, line));
    return parse_line(line, step, out) ? LS_OK : fail_line(file, step);
}

/* ---- Writing ---- */

struct ls_run_log {
    ls__owned owned;
    char *path;
    log_file file;              /* n_lines: those written or kept */
    ls__step_digest digests[2]; /* of ls_run_log_step, used alternately */
    int64_t n_begun, n_ended;   /* steps of ls_run_log_step */
};

static ls_status cut(const log_file *file)
{
    const off_t size = (off_t)(file->n_lines * LS__LINE_SIZE);
    return ftruncate(file->fd, size) == 0 ? LS_OK : fail_errno(file, errno);
}

static ls_status write_line(log_file *file, const ls_step_digest *digest)
{
    if (file->n_lines > MAX_STEP)
        return ls__fail(file->ctx, LS_ERR_INVALID, "run log '%s': it is full", file->path);
    if (file->fd < 0) return file->n_lines++, LS_OK;
    char line[LS__LINE_SIZE + 1];
    ls_step_digest written = *digest;
    if (isnan(written.loss)) written.loss = NAN; /* the same bits on every processor */
    ls__run_log_format(file->n_lines, &written, line);
    const int error = ls__write(file->fd, line, LS__LINE_SIZE, file->n_lines * LS__LINE_SIZE);
    if (error) {
        const ls_status status = fail_errno(file, error);
        (void)cut(file); /* readers skip an incomplete line */
        return status;
    }
    file->n_lines++;
    return LS_OK;
}

/* Writes the lines of the steps begun by ls_run_log_step, except the last n_pending. */
static ls_status append_finished(ls_run_log *log, int64_t n_pending)
{
    ls_status status = LS_OK;
    while (status == LS_OK && log->n_begun - log->n_ended > n_pending) {
        ls_step_digest done;
        status = ls__step_digest_end(&log->digests[log->n_ended++ % 2], &done);
        if (status == LS_OK) status = write_line(&log->file, &done);
    }
    /* No later line may stand in the place of a missing one. */
    if (status != LS_OK) log->n_ended = log->n_begun;
    return status;
}

static void close_log(ls__owned *owned)
{
    ls_run_log *log = (ls_run_log *)owned;
    if (log->file.fd >= 0 && !owned->ctx->comm && !ls__is_forked(owned->ctx))
        (void)append_finished(log, 0);
    for (int i = 0; i < 2; i++) ls__step_digest_close(&log->digests[i]);
    if (log->file.fd >= 0) close(log->file.fd);
    ls__free(owned->ctx, log->path);
    ls__free(owned->ctx, log);
}

/* Keeps the first n_steps lines. */
static ls_status keep_steps(log_file *file, int64_t n_steps)
{
    if (file->n_lines < n_steps)
        return ls__fail(file->ctx, LS_ERR_DATA,
                        "run log '%s': has %" PRId64 " whole lines, expected %" PRId64, file->path,
                        file->n_lines, n_steps);
    ls_step_digest digest;
    for (int64_t i = 0; i < n_steps; i++) LS_TRY(read_step(file, i, &digest));
    file->n_lines = n_steps;
    return cut(file);
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
    if (!log) return ls__fail_memory(ctx, "ls_run_log_open", sizeof(*log)), NULL;
    *log = (ls_run_log){ .owned.ctx = ctx, .path = ls__strdup(ctx, path) };
    log->file = (log_file){ .ctx = ctx, .path = log->path, .fd = -1 };
    ls_status status =
        log->path ? LS_OK : ls__fail_memory(ctx, "ls_run_log_open", strlen(path) + 1);
    const int flags = O_RDWR | (n_steps > 0 ? 0 : O_CREAT);
    if (!ls__is_first_rank(ctx))
        log->file.n_lines = n_steps;
    else if (status == LS_OK)
        status = open_file(ctx, log->path, flags, &log->file);
    if (status == LS_OK && log->file.fd >= 0) status = keep_steps(&log->file, n_steps);
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
    return write_line(&log->file, digest);
}

ls_status ls_run_log_step(ls_run_log *log, ls_net *net, const ls_batch *batch)
{
    if (!log) return LS_ERR_EARLIER;
    ls_context *ctx = log->owned.ctx;
    LS__ENTER(ctx);
    if (!net) return ls__fail_null(ctx, "ls_run_log_step", "net");
    if (ls_net_context(net) != ctx)
        return ls__fail(ctx, LS_ERR_MISMATCH,
                        "ls_run_log_step: the net belongs to another context than the run log");
    LS_TRY(ls__step_digest_begin(&log->digests[log->n_begun % 2], "ls_run_log_step", net, batch));
    log->n_begun++;
    return append_finished(log, ls__readback_lag(ctx->device));
}

ls_status ls_run_log_flush(ls_run_log *log)
{
    if (!log) return LS_ERR_EARLIER;
    LS__ENTER(log->owned.ctx);
    LS_TRY(append_finished(log, 0));
    return log->file.fd < 0 || fsync(log->file.fd) == 0 ? LS_OK : fail_errno(&log->file, errno);
}

/* ---- Reading ---- */

ls_status ls_run_log_step_count(ls_context *ctx, const char *path, int64_t *n_steps)
{
    LS__ENTER(ctx);
    if (!path || !n_steps)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_run_log_step_count: %s is NULL",
                        path ? "n_steps" : "path");
    log_file file;
    LS_TRY(open_file(ctx, path, O_RDONLY, &file));
    close(file.fd);
    *n_steps = file.n_lines;
    return LS_OK;
}

ls_status ls_run_log_read(ls_context *ctx, const char *path, int64_t step, ls_step_digest *out)
{
    LS__ENTER(ctx);
    if (!path || !out)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_run_log_read: %s is NULL", path ? "out" : "path");
    log_file file;
    LS_TRY(open_file(ctx, path, O_RDONLY, &file));
    const ls_status status =
        step >= 0 && step < file.n_lines
            ? read_step(&file, step, out)
            : ls__fail(ctx, LS_ERR_INVALID,
                       "ls_run_log_read: step %" PRId64 ", '%s' has %" PRId64 " steps", step, path,
                       file.n_lines);
    close(file.fd);
    return status;
}

/* ---- Comparing ---- */

enum { LINES_AT_ONCE = 64 };

/* The first common step whose lines differ, or -1. */
static ls_status find_difference(const log_file files[2], int64_t *out)
{
    char lines[2][LINES_AT_ONCE * LS__LINE_SIZE];
    const int64_t n = files[0].n_lines < files[1].n_lines ? files[0].n_lines : files[1].n_lines;
    for (int64_t first = 0; first < n; first += LINES_AT_ONCE) {
        const int64_t n_now = n - first < LINES_AT_ONCE ? n - first : LINES_AT_ONCE;
        for (int i = 0; i < 2; i++) LS_TRY(read_lines(&files[i], first, n_now, lines[i]));
        for (int64_t i = 0; i < n_now; i++) {
            const char *line = lines[0] + i * LS__LINE_SIZE;
            ls_step_digest digest;
            const int64_t step = first + i;
            if (memcmp(line, lines[1] + i * LS__LINE_SIZE, LS__LINE_SIZE) != 0)
                return *out = step, LS_OK;
            if (!parse_line(line, step, &digest)) return fail_line(&files[0], step);
        }
    }
    *out = -1;
    return LS_OK;
}

static ls_status compare(const log_file files[2], ls_run_log_difference *out)
{
    out->n_a = files[0].n_lines;
    out->n_b = files[1].n_lines;
    LS_TRY(find_difference(files, &out->step));
    if (out->step < 0) return LS_OK;
    LS_TRY(read_step(&files[0], out->step, &out->a));
    LS_TRY(read_step(&files[1], out->step, &out->b));
    out->batch = !ls_digest_equal(out->a.batch, out->b.batch);
    out->loss = memcmp(&out->a.loss, &out->b.loss, sizeof(double)) != 0;
    out->gradients = !ls_digest_equal(out->a.gradients, out->b.gradients);
    out->weights = !ls_digest_equal(out->a.weights, out->b.weights);
    return LS_OK;
}

int ls_run_log_fields(const ls_run_log_difference *d, const char *names[LS_RUN_LOG_FIELDS])
{
    int n = 0;
    if (d->batch) names[n++] = "batch";
    if (d->loss) names[n++] = "loss";
    if (d->gradients) names[n++] = "gradients";
    if (d->weights) names[n++] = "weights";
    return n;
}

ls_status ls_run_log_compare(ls_context *ctx, const char *a, const char *b,
                             ls_run_log_difference *out)
{
    LS__ENTER(ctx);
    if (!a || !b || !out)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_run_log_compare: %s is NULL",
                        a && b ? "out" : "a path");
    log_file files[2] = { { .fd = -1 }, { .fd = -1 } };
    *out = (ls_run_log_difference){ .step = -1 };
    ls_status status = open_file(ctx, a, O_RDONLY, &files[0]);
    if (status == LS_OK) status = open_file(ctx, b, O_RDONLY, &files[1]);
    if (status == LS_OK) status = compare(files, out);
    for (int i = 0; i < 2; i++)
        if (files[i].fd >= 0) close(files[i].fd);
    return status;
}
