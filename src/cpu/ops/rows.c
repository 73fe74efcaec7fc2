/* rows.c: softmax and group norm; tests/reference_kernels/rows.c has the formulas. A sum over a row
 * is LS__CHAINS chains of additions in double, which a fixed tree adds up. */
#include "arith/element.h"
#include "cpu/ops/ops.h"
#include "cpu/simd/element.h"
#include "cpu/tree.h"
#include <math.h>

/* Calls f(first, n) for the pieces of a row: n is LS__CHAINS, a constant, but for the last. */
#define FOR_PIECES(width, f)                                                                       \
    do {                                                                                           \
        int64_t piece = 0;                                                                         \
        for (; piece + LS__CHAINS <= (width); piece += LS__CHAINS) f(piece, LS__CHAINS);           \
        if (piece < (width)) f(piece, (width)-piece);                                              \
    } while (0)

/* ---- Softmax ---- */

static float largest_of(const ls__element *x, int64_t width)
{
    float largest = ls__get(x[0]);
    for (int64_t c = 1; c < width; c++) {
        const float value = ls__get(x[c]);
        largest = value > largest ? value : largest;
    }
    return largest;
}

static void softmax(const ls__ops_kernel *k, int64_t task)
{
    const int64_t width = ls__channels_of(&k->op.operands[0]);
    const ls__range r = ls__share(ls__count(&k->op.operands[0]) / width, k->n_chunks, task, 1);
    for (int64_t row = r.begin; row < r.end; row++) {
        const ls__element *x = (const ls__element *)k->buffers[0] + row * width;
        ls__element *y = (ls__element *)k->buffers[1] + row * width;
        const float largest = largest_of(x, width);
        double sum[LS__CHAINS] = { 0 };
#define PIECE(first, n)                                                                            \
    for (int64_t i = 0; i < (n); i++) sum[i] += (double)ls__exp(ls__get(x[(first) + i]) - largest)
        FOR_PIECES(width, PIECE);
#undef PIECE
        const float factor = (float)(1 / ls__fold(sum));
        for (int64_t c = 0; c < width; c++)
            y[c] = ls__put(ls__exp(ls__get(x[c]) - largest) * factor);
    }
}

static void softmax_backward(const ls__ops_kernel *k, int64_t task)
{
    const int64_t width = ls__channels_of(&k->op.operands[0]);
    const ls__range r = ls__share(ls__count(&k->op.operands[0]) / width, k->n_chunks, task, 1);
    for (int64_t row = r.begin; row < r.end; row++) {
        const ls__element *y = (const ls__element *)k->buffers[0] + row * width;
        const ls__element *dy = (const ls__element *)k->buffers[1] + row * width;
        ls__element *dx = (ls__element *)k->buffers[2] + row * width;
        double sum[LS__CHAINS] = { 0 };
#define PIECE(first, n)                                                                            \
    for (int64_t i = 0; i < (n); i++)                                                              \
    sum[i] += (double)ls__get(y[(first) + i]) * (double)ls__get(dy[(first) + i])
        FOR_PIECES(width, PIECE);
#undef PIECE
        const float total = (float)ls__fold(sum);
        for (int64_t c = 0; c < width; c++)
            dx[c] = ls__put(ls__get(y[c]) * (ls__get(dy[c]) - total));
    }
}

static bool prepare_softmax(ls__ops_kernel *k)
{
    const int64_t count = ls__count(&k->op.operands[0]);
    if (k->op.operands[0].dtype != ls__element_type) return false;
    k->n_chunks = ls__min_i64(ls__pass_tasks(count), count / ls__channels_of(&k->op.operands[0]));
    ls__add_phase(k, k->op.kind == LS__OP_SOFTMAX ? softmax : softmax_backward, k->n_chunks);
    return true;
}

/* ---- Group norm ---- */

/* Dimensions of the operand `mean` [instances,groups]. width: channels of a group. */
typedef struct groups {
    int64_t instances, groups, places, width, channels;
} groups;

static groups groups_of(const ls__ops_kernel *k, int mean)
{
    const ls__operand *x = &k->op.operands[0];
    const int64_t *d = k->op.operands[mean].shape.dims, channels = ls__channels_of(x);
    return (groups){ d[0], d[1], ls__count(x) / channels / d[0], channels / d[1], channels };
}

/* mean and 1 / sqrt(variance + epsilon) of a group, from sums of x - origin, which are accurate in
 * double however far the mean is from 0 */
static void write_moments(const ls__ops_kernel *k, const groups *g, const ls__element *x,
                          float *mean, float *invstd)
{
    const double origin = ls__get(x[0]), m = (double)(g->places * g->width);
    double s1[LS__CHAINS] = { 0 }, s2[LS__CHAINS] = { 0 };
    for (int64_t p = 0; p < g->places; p++, x += g->channels) {
#define PIECE(first, n)                                                                            \
    for (int64_t i = 0; i < (n); i++) {                                                            \
        const double d = (double)ls__get(x[(first) + i]) - origin;                                 \
        s1[i] += d;                                                                                \
        s2[i] += d * d;                                                                            \
    }
        FOR_PIECES(g->width, PIECE);
#undef PIECE
    }
    const double sum = ls__fold(s1), squares = ls__fold(s2) - sum * sum / m;
    const double variance = squares < 0 ? 0 : squares / m; /* keeps NaN */
    *mean = (float)(origin + sum / m);
    *invstd = (float)(1 / sqrt(variance + (double)k->op.u.group_norm.epsilon));
}

/* x scale shift -> y mean invstd */
static void group_norm(const ls__ops_kernel *k, int64_t task)
{
    const groups g = groups_of(k, 4);
    float *means = k->buffers[4], *invstds = k->buffers[5];
    const ls__range r = ls__share(g.instances, k->n_chunks, task, 1);
    for (int64_t set = r.begin * g.groups; set < r.end * g.groups; set++) {
        const int64_t first = set % g.groups * g.width;
        const int64_t offset = set / g.groups * g.places * g.channels + first;
        const ls__element *x = (const ls__element *)k->buffers[0] + offset;
        ls__element *y = (ls__element *)k->buffers[3] + offset;
        const float *scale = (const float *)k->buffers[1] + first;
        const float *shift = (const float *)k->buffers[2] + first;
        write_moments(k, &g, x, &means[set], &invstds[set]);
        const float mean = means[set], invstd = invstds[set];
        for (int64_t p = 0; p < g.places; p++, x += g.channels, y += g.channels) {
            LS__INDEPENDENT
            for (int64_t c = 0; c < g.width; c++)
                y[c] = ls__put((ls__get(x[c]) - mean) * invstd * scale[c] + shift[c]);
        }
    }
}

/* The sums of a task's dy xhat and dy of each channel. */
static double *channel_sums(const ls__ops_kernel *k, int64_t task)
{
    return (double *)k->workspace + task * 2 * ls__channels_of(&k->op.operands[0]);
}

/* One group of an instance, from its offset on. */
static void group_backward(const ls__ops_kernel *k, const groups *g, int64_t offset, float mean,
                           float invstd, const float *scale, double *dscale, double *dshift)
{
    const ls__element *x = (const ls__element *)k->buffers[0] + offset;
    const ls__element *dy = (const ls__element *)k->buffers[1] + offset;
    ls__element *dx = (ls__element *)k->buffers[5] + offset;
    double s1[LS__CHAINS] = { 0 }, s2[LS__CHAINS] = { 0 };
    for (int64_t p = 0; p < g->places; p++) {
        const ls__element *row = x + p * g->channels, *gradient = dy + p * g->channels;
#define PIECE(first, n)                                                                            \
    for (int64_t i = 0; i < (n); i++) {                                                            \
        const int64_t c = (first) + i;                                                             \
        const double d = ls__get(gradient[c]), xhat = (ls__get(row[c]) - mean) * invstd;           \
        dshift[c] += d;                                                                            \
        dscale[c] += d * xhat;                                                                     \
        s1[i] += d * (double)scale[c];                                                             \
        s2[i] += d * (double)scale[c] * xhat;                                                      \
    }
        FOR_PIECES(g->width, PIECE);
#undef PIECE
    }
    const double m = (double)(g->places * g->width);
    const float mean1 = (float)(ls__fold(s1) / m), mean2 = (float)(ls__fold(s2) / m);
    for (int64_t p = 0; p < g->places; p++) {
        const int64_t row = p * g->channels;
        LS__INDEPENDENT
        for (int64_t c = 0; c < g->width; c++) {
            const float xhat = (ls__get(x[row + c]) - mean) * invstd;
            const float gradient = ls__get(dy[row + c]) * scale[c];
            dx[row + c] = ls__put(invstd * ((gradient - mean1) - xhat * mean2));
        }
    }
}

/* x dy scale mean invstd -> dx dscale dshift */
static void group_norm_backward(const ls__ops_kernel *k, int64_t task)
{
    const groups g = groups_of(k, 3);
    const float *means = k->buffers[3], *invstds = k->buffers[4];
    double *dscale = channel_sums(k, task), *dshift = dscale + g.channels;
    memset(dscale, 0, (size_t)g.channels * 2 * sizeof *dscale);
    const ls__range r = ls__share(g.instances, k->n_chunks, task, 1);
    for (int64_t set = r.begin * g.groups; set < r.end * g.groups; set++) {
        const int64_t first = set % g.groups * g.width;
        group_backward(k, &g, set / g.groups * g.places * g.channels + first, means[set],
                       invstds[set], (const float *)k->buffers[2] + first, dscale + first,
                       dshift + first);
    }
}

/* Adds up the tasks' sums in a binary tree. */
static void finish_backward(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const int64_t channels = ls__channels_of(&k->op.operands[0]);
    for (int64_t step = 1; step < k->n_chunks; step *= 2)
        for (int64_t i = 0; i + step < k->n_chunks; i += 2 * step) {
            double *restrict to = channel_sums(k, i);
            const double *restrict from = channel_sums(k, i + step);
            for (int64_t c = 0; c < 2 * channels; c++) to[c] += from[c];
        }
    const double *sums = channel_sums(k, 0);
    float *dscale = k->buffers[6], *dshift = k->buffers[7];
    for (int64_t c = 0; c < channels; c++) {
        dscale[c] = (float)sums[c];
        dshift[c] = (float)sums[channels + c];
    }
}

/* The sums of so many tasks take no time. */
enum { MAX_BACKWARD_TASKS = 64 };

static bool prepare_group_norm(ls__ops_kernel *k)
{
    const bool backward = k->op.kind == LS__OP_GROUP_NORM_BACKWARD;
    if (k->op.operands[0].dtype != ls__element_type) return false;
    const int64_t count = ls__count(&k->op.operands[0]);
    k->n_chunks = ls__min_i64(ls__pass_tasks(count), groups_of(k, backward ? 3 : 4).instances);
    if (backward) {
        k->n_chunks = ls__min_i64(k->n_chunks, MAX_BACKWARD_TASKS);
        k->kernel.workspace_bytes =
            (size_t)(k->n_chunks * 2 * ls__channels_of(&k->op.operands[0])) * sizeof(double);
    }
    ls__add_phase(k, backward ? group_norm_backward : group_norm, k->n_chunks);
    if (backward) ls__add_phase(k, finish_backward, 1);
    return true;
}

const ls__ops_prepare LS__ELEMENT_NAME(ls__ops_rows)[LS__N_OPS] = {
    [LS__OP_SOFTMAX] = prepare_softmax,
    [LS__OP_SOFTMAX_BACKWARD] = prepare_softmax,
    [LS__OP_GROUP_NORM] = prepare_group_norm,
    [LS__OP_GROUP_NORM_BACKWARD] = prepare_group_norm,
};
