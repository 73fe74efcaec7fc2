/* record.c: the record of a run, a line of digests per step; see lockstep/record.h. */
#include <lockstep/record.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "nn/net.h"
#include "tensor/backend.h"
#include "tensor/tensor.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEP_DIGITS = 12, LINE_SIZE = STEP_DIGITS + 1 + 32 + 1 + 16 + 1 + 32 + 1 + 32 + 1 };
static const int64_t MAX_STEP = INT64_C(999999999999);

/* ---- Digests ---- */

static ls_status digest_tensor(ls_context *ctx, const ls_tensor *tensor, uint64_t *position,
                               ls__digest_sum *sum)
{
    ls_digest digest;
    if (tensor->owned.ctx != ctx)
        return ls__fail(ctx, LS_ERR_MISMATCH,
                        "ls_net_digest: the batch belongs to another context than the net");
    LS_TRY(ls_tensor_digest(tensor, &digest));
    for (int i = 0; i < 2; i++) ls__digest_word(sum, digest.lanes[i], (*position)++);
    return LS_OK;
}

static ls_status digest_batch(ls_context *ctx, const ls_batch *batch, ls_digest *out)
{
    ls__digest_sum sum = { { 0, 0 } };
    uint64_t position = 0;
    LS_TRY(digest_tensor(ctx, batch->images, &position, &sum));
    if (batch->labels) LS_TRY(digest_tensor(ctx, batch->labels, &position, &sum));
    for (int64_t i = 0; batch->samples && i < batch->n; i++)
        ls__digest_word(&sum, (uint64_t)batch->samples[i], position++);
    ls__digest_finish(&sum, 8 * position);
    memcpy(out->lanes, sum.lanes, sizeof(out->lanes));
    return LS_OK;
}

static ls_status digest_block(ls_context *ctx, const float *block, int64_t count, ls_digest *out)
{
    const size_t bytes = (size_t)count * sizeof(float);
    ls__digest_sum sum = { { 0, 0 } };
    LS_TRY(ctx->device->backend->digest(ctx->device, block, bytes, 0, &sum));
    ls__digest_finish(&sum, bytes);
    memcpy(out->lanes, sum.lanes, sizeof(out->lanes));
    return LS_OK;
}

/* Parameters, then buffers, and the gaps between them, which are zero. */
static int64_t block_elements(const ls__net_blocks *blocks)
{
    int64_t end = blocks->parameter_elements;
    for (int64_t i = 0; i < blocks->n_entries; i++) {
        const ls__entry *entry = &blocks->entries[i];
        if (entry->offset + entry->count > end) end = entry->offset + entry->count;
    }
    return end;
}

ls_status ls_net_digest(ls_net *net, const ls_batch *batch, ls_step_digest *out)
{
    if (!net) return LS_ERR_EARLIER;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER(ctx);
    if (!batch || !batch->images || !out)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_net_digest: %s is NULL",
                        out ? "the batch" : "out");
    const ls__net_blocks blocks = ls__net_get_blocks(net);
    if (!blocks.gradients)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "ls_net_digest: the net was built for inference");
    LS_TRY(digest_batch(ctx, batch, &out->batch));
    LS_TRY(ls_net_loss(net, &out->loss));
    LS_TRY(digest_block(ctx, blocks.gradients, blocks.parameter_elements, &out->gradients));
    return digest_block(ctx, blocks.values, block_elements(&blocks), &out->weights);
}

/* ---- Lines ---- */

static void format_line(int64_t step, const ls_step_digest *digest, char out[LINE_SIZE + 1])
{
    char batch[LS_DIGEST_TEXT_SIZE], gradients[LS_DIGEST_TEXT_SIZE], weights[LS_DIGEST_TEXT_SIZE];
    uint64_t loss;
    memcpy(&loss, &digest->loss, sizeof(loss));
    snprintf(out, LINE_SIZE + 1, "%0*" PRId64 " %s %016" PRIx64 " %s %s\n", STEP_DIGITS, step,
             ls_digest_text(digest->batch, batch), loss,
             ls_digest_text(digest->gradients, gradients),
             ls_digest_text(digest->weights, weights));
}

/* A line is what this step's digests would have been written as. */
static bool parse_line(const char line[LINE_SIZE], int64_t step, ls_step_digest *out)
{
    char text[LINE_SIZE + 1], again[LINE_SIZE + 1];
    memcpy(text, line, LINE_SIZE);
    text[LINE_SIZE] = '\0';
    uint64_t loss;
    const int n =
        sscanf(text,
               "%*12d %16" SCNx64 "%16" SCNx64 " %16" SCNx64 " %16" SCNx64 "%16" SCNx64
               " %16" SCNx64 "%16" SCNx64,
               &out->batch.lanes[0], &out->batch.lanes[1], &loss, &out->gradients.lanes[0],
               &out->gradients.lanes[1], &out->weights.lanes[0], &out->weights.lanes[1]);
    if (n != 7) return false;
    memcpy(&out->loss, &loss, sizeof(loss));
    format_line(step, out, again);
    return memcmp(again, line, LINE_SIZE) == 0;
}

static ls_status fail_line(ls_context *ctx, const char *path, int64_t step)
{
    return ls__fail(ctx, LS_ERR_DATA, "record '%s': line %" PRId64 " is not that of step %" PRId64,
                    path, step + 1, step);
}

static ls_status fail_errno(ls_context *ctx, int error, const char *path)
{
    char reason[LS__ERRNO_TEXT_SIZE];
    return ls__fail(ctx, error == ENOENT ? LS_ERR_NOT_FOUND : LS_ERR_IO, "record '%s': %s", path,
                    ls__errno_text(error, reason, sizeof(reason)));
}

/* Opens for reading, or for writing, and counts the whole lines. */
static ls_status open_file(ls_context *ctx, const char *path, int flags, int *fd, int64_t *n_lines)
{
    struct stat there;
    *fd = open(path, flags | O_CLOEXEC, 0666);
    if (*fd < 0) return fail_errno(ctx, errno, path);
    int error = fstat(*fd, &there) == 0 ? 0 : errno;
    if (error == 0 && !S_ISREG(there.st_mode)) error = S_ISDIR(there.st_mode) ? EISDIR : EINVAL;
    if (error == 0) {
        *n_lines = (int64_t)there.st_size / LINE_SIZE;
        return LS_OK;
    }
    close(*fd);
    *fd = -1;
    return fail_errno(ctx, error, path);
}

/* Reads n whole lines from line `first` on. */
static ls_status read_lines(ls_context *ctx, const char *path, int fd, int64_t first, int64_t n,
                            char *out)
{
    const size_t bytes = (size_t)n * LINE_SIZE;
    for (size_t done = 0; done < bytes;) {
        const ssize_t got =
            pread(fd, out + done, bytes - done, (off_t)(first * LINE_SIZE) + (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail_errno(ctx, got < 0 ? errno : EIO, path);
        done += (size_t)got;
    }
    return LS_OK;
}

static ls_status read_step(ls_context *ctx, const char *path, int fd, int64_t step,
                           ls_step_digest *out)
{
    char line[LINE_SIZE];
    LS_TRY(read_lines(ctx, path, fd, step, 1, line));
    return parse_line(line, step, out) ? LS_OK : fail_line(ctx, path, step);
}

/* ---- Writing ---- */

struct ls_record {
    ls__owned owned;
    char *path;
    int fd;
    int64_t n_steps;
};

static void close_record(ls__owned *owned)
{
    ls_record *record = (ls_record *)owned;
    if (record->fd >= 0) close(record->fd);
    ls__free(owned->ctx, record->path);
    ls__free(owned->ctx, record);
}

static ls_status cut(const ls_record *record)
{
    if (ftruncate(record->fd, (off_t)(record->n_steps * LINE_SIZE)) == 0) return LS_OK;
    return fail_errno(record->owned.ctx, errno, record->path);
}

/* Keeps the first n_steps lines. */
static ls_status keep_steps(ls_record *record, int64_t n_lines, int64_t n_steps)
{
    ls_context *ctx = record->owned.ctx;
    if (n_lines < n_steps)
        return ls__fail(ctx, LS_ERR_DATA,
                        "record '%s': has %" PRId64 " whole lines, wanted %" PRId64, record->path,
                        n_lines, n_steps);
    ls_step_digest digest;
    for (int64_t i = 0; i < n_steps; i++)
        LS_TRY(read_step(ctx, record->path, record->fd, i, &digest));
    record->n_steps = n_steps;
    return cut(record);
}

ls_record *ls_record_open(ls_context *ctx, const char *path, int64_t n_steps)
{
    LS__ENTER_NULL(ctx);
    if (!path || n_steps < 0 || n_steps > MAX_STEP) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_record_open: path '%s', %" PRId64 " steps to keep",
                 path ? path : "(null)", n_steps);
        return NULL;
    }
    ls_record *record = ls__zalloc(ctx, sizeof(*record));
    if (!record) {
        ls__fail_memory(ctx, "ls_record_open", sizeof(*record));
        return NULL;
    }
    record->owned.ctx = ctx;
    record->fd = -1;
    record->path = ls__strdup(ctx, path);
    int64_t n_lines;
    ls_status status =
        record->path ? LS_OK : ls__fail_memory(ctx, "ls_record_open", strlen(path) + 1);
    if (status == LS_OK)
        status = open_file(ctx, path, O_RDWR | (n_steps > 0 ? 0 : O_CREAT), &record->fd, &n_lines);
    if (status == LS_OK) status = keep_steps(record, n_lines, n_steps);
    if (status != LS_OK) {
        close_record(&record->owned);
        return NULL;
    }
    ls__own(ctx, &record->owned, close_record);
    return record;
}

void ls_record_close(ls_record **record)
{
    if (!record || !*record) return;
    ls__disown_and_close(&(*record)->owned);
    *record = NULL;
}

ls_status ls_record_append(ls_record *record, const ls_step_digest *digest)
{
    if (!record) return LS_ERR_EARLIER;
    ls_context *ctx = record->owned.ctx;
    LS__ENTER(ctx);
    if (!digest || record->n_steps > MAX_STEP)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_record_append: %s",
                        digest ? "the record is full" : "the digest is NULL");
    char line[LINE_SIZE + 1];
    format_line(record->n_steps, digest, line);
    const off_t at = (off_t)(record->n_steps * LINE_SIZE);
    for (size_t done = 0; done < LINE_SIZE;) {
        const ssize_t put = pwrite(record->fd, line + done, LINE_SIZE - done, at + (off_t)done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            const ls_status status = fail_errno(ctx, put < 0 ? errno : EIO, record->path);
            if (ftruncate(record->fd, at) != 0) return status; /* readers pass over half a line */
            return status;
        }
        done += (size_t)put;
    }
    record->n_steps++;
    return LS_OK;
}

ls_status ls_record_flush(ls_record *record)
{
    if (!record) return LS_ERR_EARLIER;
    LS__ENTER(record->owned.ctx);
    return fsync(record->fd) == 0 ? LS_OK : fail_errno(record->owned.ctx, errno, record->path);
}

/* ---- Reading ---- */

ls_status ls_record_count(ls_context *ctx, const char *path, int64_t *n_steps)
{
    LS__ENTER(ctx);
    if (!path || !n_steps)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_record_count: %s is NULL",
                        path ? "n_steps" : "path");
    int fd;
    LS_TRY(open_file(ctx, path, O_RDONLY, &fd, n_steps));
    close(fd);
    return LS_OK;
}

ls_status ls_record_read(ls_context *ctx, const char *path, int64_t step, ls_step_digest *out)
{
    LS__ENTER(ctx);
    if (!path || !out)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_record_read: %s is NULL", path ? "out" : "path");
    int fd;
    int64_t n_lines;
    LS_TRY(open_file(ctx, path, O_RDONLY, &fd, &n_lines));
    const ls_status status = step >= 0 && step < n_lines ? read_step(ctx, path, fd, step, out)
                                                         : ls__fail(ctx, LS_ERR_INVALID,
                                                                    "ls_record_read: step %" PRId64
                                                                    ", '%s' has %" PRId64 " steps",
                                                                    step, path, n_lines);
    close(fd);
    return status;
}

enum { LINES_AT_ONCE = 64 };

/* The first of the steps that both have whose lines differ, or -1. */
static ls_status find_difference(ls_context *ctx, const char *const paths[2], const int fds[2],
                                 int64_t n, int64_t *step)
{
    char lines[2][LINES_AT_ONCE * LINE_SIZE];
    for (int64_t first = 0; first < n; first += LINES_AT_ONCE) {
        const int64_t n_now = n - first < LINES_AT_ONCE ? n - first : LINES_AT_ONCE;
        for (int i = 0; i < 2; i++)
            LS_TRY(read_lines(ctx, paths[i], fds[i], first, n_now, lines[i]));
        for (int64_t i = 0; i < n_now; i++) {
            const char *line = lines[0] + i * LINE_SIZE;
            ls_step_digest digest;
            if (memcmp(line, lines[1] + i * LINE_SIZE, LINE_SIZE) != 0) {
                *step = first + i;
                return LS_OK;
            }
            if (!parse_line(line, first + i, &digest)) return fail_line(ctx, paths[0], first + i);
        }
    }
    *step = -1;
    return LS_OK;
}

static ls_status compare(ls_context *ctx, const char *const paths[2], const int fds[2],
                         ls_record_difference *out)
{
    const int64_t n = out->n_a < out->n_b ? out->n_a : out->n_b;
    LS_TRY(find_difference(ctx, paths, fds, n, &out->step));
    if (out->step < 0) return LS_OK;
    LS_TRY(read_step(ctx, paths[0], fds[0], out->step, &out->a));
    LS_TRY(read_step(ctx, paths[1], fds[1], out->step, &out->b));
    out->batch = !ls_digest_equal(out->a.batch, out->b.batch);
    out->loss = memcmp(&out->a.loss, &out->b.loss, sizeof(double)) != 0;
    out->gradients = !ls_digest_equal(out->a.gradients, out->b.gradients);
    out->weights = !ls_digest_equal(out->a.weights, out->b.weights);
    return LS_OK;
}

ls_status ls_record_compare(ls_context *ctx, const char *a, const char *b,
                            ls_record_difference *out)
{
    LS__ENTER(ctx);
    if (!a || !b || !out)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_record_compare: %s is NULL",
                        a && b ? "out" : "a path");
    const char *const paths[] = { a, b };
    int fds[2] = { -1, -1 };
    *out = (ls_record_difference){ .step = -1 };
    ls_status status = open_file(ctx, a, O_RDONLY, &fds[0], &out->n_a);
    if (status == LS_OK) status = open_file(ctx, b, O_RDONLY, &fds[1], &out->n_b);
    if (status == LS_OK) status = compare(ctx, paths, fds, out);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0) close(fds[i]);
    return status;
}
