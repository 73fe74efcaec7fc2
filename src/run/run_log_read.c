/* run_log_read.c: reading run logs and finding their first divergence; see lockstep/run_log.h. */
#include "base/error.h"
#include "run/run_log_lines.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

ls_status ls_run_log_count(ls_context *ctx, const char *path, int64_t *n_steps)
{
    LS__ENTER(ctx);
    if (!path || !n_steps)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_run_log_count: %s is NULL",
                        path ? "n_steps" : "path");
    int fd;
    LS_TRY(ls__run_log_open_file(ctx, path, O_RDONLY, &fd, n_steps));
    close(fd);
    return LS_OK;
}

ls_status ls_run_log_read(ls_context *ctx, const char *path, int64_t step, ls_step_digest *out)
{
    LS__ENTER(ctx);
    if (!path || !out)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_run_log_read: %s is NULL", path ? "out" : "path");
    int fd;
    int64_t n_lines;
    LS_TRY(ls__run_log_open_file(ctx, path, O_RDONLY, &fd, &n_lines));
    const ls_status status =
        step >= 0 && step < n_lines
            ? ls__run_log_read_step(ctx, path, fd, step, out)
            : ls__fail(ctx, LS_ERR_INVALID,
                       "ls_run_log_read: step %" PRId64 ", '%s' has %" PRId64 " steps", step, path,
                       n_lines);
    close(fd);
    return status;
}

enum { LINES_AT_ONCE = 64 };

/* The first common step whose lines differ, or -1. */
static ls_status find_difference(ls_context *ctx, const char *const paths[2], const int fds[2],
                                 int64_t n, int64_t *step)
{
    char lines[2][LINES_AT_ONCE * LS__LINE_SIZE];
    for (int64_t first = 0; first < n; first += LINES_AT_ONCE) {
        const int64_t n_now = n - first < LINES_AT_ONCE ? n - first : LINES_AT_ONCE;
        for (int i = 0; i < 2; i++)
            LS_TRY(ls__run_log_read_lines(ctx, paths[i], fds[i], first, n_now, lines[i]));
        for (int64_t i = 0; i < n_now; i++) {
            const char *line = lines[0] + i * LS__LINE_SIZE;
            ls_step_digest digest;
            if (memcmp(line, lines[1] + i * LS__LINE_SIZE, LS__LINE_SIZE) != 0) {
                *step = first + i;
                return LS_OK;
            }
            if (!ls__run_log_parse(line, first + i, &digest))
                return ls__run_log_fail_line(ctx, paths[0], first + i);
        }
    }
    *step = -1;
    return LS_OK;
}

static ls_status compare(ls_context *ctx, const char *const paths[2], const int fds[2],
                         ls_run_log_difference *out)
{
    const int64_t n = out->n_a < out->n_b ? out->n_a : out->n_b;
    LS_TRY(find_difference(ctx, paths, fds, n, &out->step));
    if (out->step < 0) return LS_OK;
    LS_TRY(ls__run_log_read_step(ctx, paths[0], fds[0], out->step, &out->a));
    LS_TRY(ls__run_log_read_step(ctx, paths[1], fds[1], out->step, &out->b));
    out->batch = !ls_digest_equal(out->a.batch, out->b.batch);
    out->loss = memcmp(&out->a.loss, &out->b.loss, sizeof(double)) != 0;
    out->gradients = !ls_digest_equal(out->a.gradients, out->b.gradients);
    out->weights = !ls_digest_equal(out->a.weights, out->b.weights);
    return LS_OK;
}

ls_status ls_run_log_compare(ls_context *ctx, const char *a, const char *b,
                             ls_run_log_difference *out)
{
    LS__ENTER(ctx);
    if (!a || !b || !out)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_run_log_compare: %s is NULL",
                        a && b ? "out" : "a path");
    const char *const paths[] = { a, b };
    int fds[2] = { -1, -1 };
    *out = (ls_run_log_difference){ .step = -1 };
    ls_status status = ls__run_log_open_file(ctx, a, O_RDONLY, &fds[0], &out->n_a);
    if (status == LS_OK) status = ls__run_log_open_file(ctx, b, O_RDONLY, &fds[1], &out->n_b);
    if (status == LS_OK) status = compare(ctx, paths, fds, out);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0) close(fds[i]);
    return status;
}
