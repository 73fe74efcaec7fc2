/* norm.c: batch normalisation (Ioffe & Szegedy 2015); tests/reference_kernels/norm.c has the
 * formulas.
 *
 * Statistics are sums in double, which a fixed binary tree adds up. The last phase reads memory in
 * descending order, because the data that the first phase read last may still be in the cache. */
#include "arith/norm_sums.h"
#include "cpu/ops/norm_strips.h"
#include <math.h>

/* A loop has a variant for each combination of options. */
#define FORWARD_VARIANTS(X) X(0) X(1) X(2) X(4) X(5) X(6)
#define BACKWARD_VARIANTS(X)                                                                       \
    FORWARD_VARIANTS(X) X(8) X(9) X(10) X(12) X(13) X(14) X(17) X(18) X(21) X(22)
#define VARIANT(function, with)                                                                    \
    static void function##_##with(const ls__ops_kernel *k, int64_t task)                           \
    {                                                                                              \
        function(k, task, with);                                                                   \
    }

/* ---- Forward. ---- */

/* The origin is the values of the first place. */
static void moments(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *x = k->buffers[0];
    moments_operands operands = { x, x };
    ls__element copy[ROW_WIDTH];
    if (k->n_channels <= ROW_WIDTH) {
        for (int64_t i = 0; i < ROW_WIDTH; i++) copy[i] = x[i % k->n_channels];
        operands.origin = copy;
    }
    add_rows(k, task, add_moments, &operands, 8);
}

/* Updates the running statistics of channel c, the operands `running` and the next one, by those of
 * its m values, and writes the operands `mean` and the next one. */
static void keep_statistics(const ls__ops_kernel *k, int64_t c, double m, double mean,
                            double variance, int running_operand, int mean_operand)
{
    float *running_mean = k->buffers[running_operand],
          *running_var = k->buffers[running_operand + 1];
    const double momentum = k->op.u.norm.momentum;
    const double unbiased = m > 1 ? variance * m / (m - 1) : variance;
    running_mean[c] = (float)((1 - momentum) * (double)running_mean[c] + momentum * mean);
    running_var[c] = (float)((1 - momentum) * (double)running_var[c] + momentum * unbiased);
    ((float *)k->buffers[mean_operand])[c] = (float)mean;
    ((float *)k->buffers[mean_operand + 1])[c] =
        (float)(1 / sqrt(variance + (double)k->op.u.norm.epsilon));
}

static void finish_statistics(const ls__ops_kernel *k, int64_t begin, int64_t end)
{
    const double *s1 = partial(k, 0, 0), *s2 = partial(k, 1, 0);
    const ls__element *origin = k->buffers[0];
    const float *scale = k->buffers[1], *invstd = k->buffers[8];
    float *factor = vector(k, 0);
    const double m = (double)k->n_rows;
    for (int64_t c = begin; c < end; c++) {
        const double mean = (double)ls__get(origin[c]) + s1[c] / m;
        const double squares = s2[c] - s1[c] * s1[c] / m;
        const double variance = squares > 0   ? squares / m
                                : squares < 0 ? 0
                                              : squares; /* keeps NaN */
        keep_statistics(k, c, m, mean, variance, 3, 7);
        factor[c] = invstd[c] * scale[c]; /* from the rounded value, as NORM_APPLY's */
    }
}

static void middle_forward(const ls__ops_kernel *k, int64_t task)
{
    finish_share(k, task, finish_statistics);
}

/* The shard's row of an operand [shards,4,C]. */
static float *row_of_shard(const ls__ops_kernel *k, int operand)
{
    return (float *)k->buffers[operand] + k->step->shard * LS__NORM_SUMS * k->n_channels;
}

/* The sums of x and of x^2, from those of x - origin. */
static void finish_moments(const ls__ops_kernel *k, int64_t begin, int64_t end)
{
    const double *s1 = partial(k, 0, 0), *s2 = partial(k, 1, 0);
    const ls__element *origin = k->buffers[0];
    float *row = row_of_shard(k, 1);
    const double m = (double)k->n_rows;
    for (int64_t c = begin; c < end; c++) {
        const double o = (double)ls__get(origin[c]);
        ls__norm_sums_put(row, k->n_channels, c, s1[c] + m * o, s2[c] + o * (2 * s1[c] + m * o));
    }
}

static void middle_moments(const ls__ops_kernel *k, int64_t task)
{
    finish_share(k, task, finish_moments);
}

/* Factors from running statistics. */
static void middle_eval(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const float *scale = k->buffers[1], *running_var = k->buffers[4];
    float *factor = vector(k, 0);
    for (int64_t c = 0; c < k->n_channels; c++)
        factor[c] =
            (float)((double)scale[c] / sqrt((double)running_var[c] + (double)k->op.u.norm.epsilon));
}

/* The coefficients of the batch norm, from the saved mean and invstd. */
static void middle_apply(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const float *invstd = k->buffers[2], *scale = k->buffers[3];
    float *factor = vector(k, 0);
    for (int64_t c = 0; c < k->n_channels; c++) factor[c] = invstd[c] * scale[c];
}

/* The operands of mean and shift of the ops that apply a norm; x, add and y are 0, 5 and 6. */
typedef struct apply_operands {
    ls__ops_task middle;
    int mean, shift;
} apply_operands;

static apply_operands apply_operands_of(const ls__ops_kernel *k)
{
    switch (k->op.kind) {
    case LS__OP_BATCH_NORM: return (apply_operands){ middle_forward, 7, 2 };
    case LS__OP_BATCH_NORM_EVAL: return (apply_operands){ middle_eval, 3, 2 };
    default: return (apply_operands){ middle_apply, 1, 4 };
    }
}

LS__ALWAYS_INLINE void apply_rows(const ls__element *x, const ls__element *add, ls__element *y,
                                  int64_t rows, int64_t width, const float *restrict mean,
                                  const float *restrict factor, const float *restrict shift,
                                  unsigned with)
{
    for (int64_t r = 0; r < rows; r++, x += width, y += width) {
        LS__INDEPENDENT
        for (int64_t c = 0; c < width; c++) {
            float value = (ls__get(x[c]) - mean[c]) * factor[c] + shift[c];
            if (with & ADD) value += ls__get(add[c]);
            y[c] = ls__put(ls__activate((ls__activation)(with & ACTIVATION), value));
        }
        if (with & ADD) add += width;
    }
}

LS__ALWAYS_INLINE void apply(const ls__ops_kernel *k, int64_t task, unsigned with)
{
    const ls__range rows = rows_of(k, k->n_chunks - 1 - task);
    const int64_t offset = rows.begin * k->n_channels;
    const ls__element *x = (const ls__element *)k->buffers[0] + offset, *add = k->buffers[5];
    ls__element *y = (ls__element *)k->buffers[6] + offset;
    float copy[3][ROW_WIDTH];
    const apply_operands at = apply_operands_of(k);
    const float *mean = row_values(k, k->buffers[at.mean], copy[0]);
    const float *factor = row_values(k, vector(k, 0), copy[1]);
    const float *shift = row_values(k, k->buffers[at.shift], copy[2]);
#define ROWS(at, rows, width)                                                                      \
    apply_rows(x + (at), with & ADD ? add + offset + (at) : NULL, y + (at), rows, width, mean,     \
               factor, shift, with)
    FOR_WIDTH(k->n_channels, rows.end - rows.begin, ROWS);
#undef ROWS
}

#define APPLY(with)     VARIANT(apply, with)
#define APPLY_ROW(with) [with] = apply_##with,
FORWARD_VARIANTS(APPLY)
static const ls__ops_task apply_variants[] = { FORWARD_VARIANTS(APPLY_ROW) };

/* ---- Backward. ---- */

/* dx = factor (dy - mean_dy - (x - mean) slope) */
LS__ALWAYS_INLINE void write_dx(gradient_operands s, int64_t rows, int64_t width,
                                const float *restrict mean, const float *restrict factor,
                                const float *restrict shift, const float *restrict mean_dy,
                                const float *restrict slope, unsigned with)
{
    for (int64_t r = 0, i = 0; r < rows; r++, i += width) {
        LS__INDEPENDENT
        for (int64_t c = 0; c < width; c++) {
            const float centred = ls__get(s.x[i + c]) - mean[c];
            const float argument = with & FROM_X ? centred * factor[c] + shift[c] : 0;
            const float dy = gradient_at(&s, i + c, argument, with);
            s.dx[i + c] = ls__put(factor[c] * ((dy - mean_dy[c]) - centred * slope[c]));
        }
    }
}

LS__ALWAYS_INLINE gradient_operands operands_at(const ls__ops_kernel *k, int64_t offset,
                                                unsigned with)
{
    gradient_operands s = { .x = (const ls__element *)k->buffers[0] + offset,
                            .dy1 = (const ls__element *)k->buffers[2] + offset };
    if (reads_y(with)) s.y = (const ls__element *)k->buffers[1] + offset;
    if (with & DY2) s.dy2 = (const ls__element *)k->buffers[3] + offset;
    if (with & DADD) s.dadd = (ls__element *)k->buffers[11] + offset;
    return s;
}

LS__ALWAYS_INLINE void products(const ls__ops_kernel *k, int64_t task, unsigned with)
{
    float copy[4][ROW_WIDTH];
    gradient_operands operands = operands_at(k, 0, with);
    operands.mean = row_values(k, k->buffers[5], copy[0]);
    operands.with = with;
    if (with & FROM_X) {
        operands.scale = row_values(k, k->buffers[4], copy[1]);
        operands.invstd = row_values(k, k->buffers[6], copy[2]);
        operands.shift = row_values(k, k->buffers[7], copy[3]);
    }
    add_rows(k, task, add_products, &operands, 4);
}

static void finish_gradients(const ls__ops_kernel *k, int64_t begin, int64_t end)
{
    const double *s1 = partial(k, 0, 0), *s2 = partial(k, 1, 0);
    const float *scale = k->buffers[4], *invstd = k->buffers[6];
    float *dscale = k->buffers[9], *dshift = k->buffers[10];
    float *factor = vector(k, 0), *mean_dy = vector(k, 1), *slope = vector(k, 2);
    const double m = (double)k->n_rows;
    for (int64_t c = begin; c < end; c++) {
        const double inverse = invstd[c];
        dscale[c] = (float)(inverse * s2[c]);
        dshift[c] = (float)s1[c];
        factor[c] = (float)(inverse * (double)scale[c]);
        mean_dy[c] = (float)(s1[c] / m);
        slope[c] = (float)(inverse * inverse * s2[c] / m);
    }
}

static void middle_backward(const ls__ops_kernel *k, int64_t task)
{
    finish_share(k, task, finish_gradients);
}

static void finish_products(const ls__ops_kernel *k, int64_t begin, int64_t end)
{
    const double *s1 = partial(k, 0, 0), *s2 = partial(k, 1, 0);
    const float *invstd = k->buffers[6];
    float *row = row_of_shard(k, 8), *dscale = k->buffers[9], *dshift = k->buffers[10];
    for (int64_t c = begin; c < end; c++) {
        const double scaled = (double)invstd[c] * s2[c];
        dscale[c] = (float)scaled;
        dshift[c] = (float)s1[c];
        ls__norm_sums_put(row, k->n_channels, c, s1[c], scaled);
    }
}

static void middle_products(const ls__ops_kernel *k, int64_t task)
{
    finish_share(k, task, finish_products);
}

/* If the op computes dadd, that is the gradient. */
LS__ALWAYS_INLINE void gradients(const ls__ops_kernel *k, int64_t task, unsigned with)
{
    const ls__range rows = rows_of(k, k->n_chunks - 1 - task);
    const int64_t offset = rows.begin * k->n_channels;
    float copy[5][ROW_WIDTH];
    const float *mean = row_values(k, k->buffers[5], copy[0]);
    const float *factor = row_values(k, vector(k, 0), copy[1]);
    const float *mean_dy = row_values(k, vector(k, 1), copy[2]);
    const float *slope = row_values(k, vector(k, 2), copy[3]);
    const float *shift = with & FROM_X ? row_values(k, k->buffers[7], copy[4]) : NULL;
    gradient_operands s = operands_at(k, offset, with);
    s.dx = (ls__element *)k->buffers[8] + offset;
    if (with & DADD) s.dy1 = s.dadd;
#define ROWS(at, rows, width)                                                                      \
    write_dx((gradient_operands){ .x = s.x + (at),                                                 \
                                  .y = reads_y(with) ? s.y + (at) : NULL,                          \
                                  .dy1 = s.dy1 + (at),                                             \
                                  .dy2 = with & DY2 ? s.dy2 + (at) : NULL,                         \
                                  .dx = s.dx + (at) },                                             \
             rows, width, mean, factor, shift, mean_dy, slope, (with & DADD) ? 0 : with)
    FOR_WIDTH(k->n_channels, rows.end - rows.begin, ROWS);
#undef ROWS
}

#define BACKWARD(with)      VARIANT(products, with) VARIANT(gradients, with)
#define PRODUCTS_ROW(with)  [with] = products_##with,
#define GRADIENTS_ROW(with) [with] = gradients_##with,
BACKWARD_VARIANTS(BACKWARD)
static const ls__ops_task products_variants[] = { BACKWARD_VARIANTS(PRODUCTS_ROW) };
static const ls__ops_task gradients_variants[] = { BACKWARD_VARIANTS(GRADIENTS_ROW) };

/* dx = p dz + q x + r */
LS__ALWAYS_INLINE void combine_rows(const ls__element *dz, const ls__element *x, ls__element *dx,
                                    int64_t rows, int64_t width, const float *restrict p,
                                    const float *restrict q, const float *restrict r)
{
    for (int64_t row = 0; row < rows; row++, dz += width, x += width, dx += width) {
        LS__INDEPENDENT
        for (int64_t c = 0; c < width; c++)
            dx[c] = ls__put(p[c] * ls__get(dz[c]) + (q[c] * ls__get(x[c]) + r[c]));
    }
}

static void backward_apply(const ls__ops_kernel *k, int64_t task)
{
    const ls__range rows = rows_of(k, k->n_chunks - 1 - task);
    const int64_t offset = rows.begin * k->n_channels;
    const ls__element *dz = (const ls__element *)k->buffers[0] + offset;
    const ls__element *x = (const ls__element *)k->buffers[1] + offset;
    ls__element *dx = (ls__element *)k->buffers[5] + offset;
    float copy[3][ROW_WIDTH];
    const float *p = row_values(k, k->buffers[2], copy[0]);
    const float *q = row_values(k, k->buffers[3], copy[1]);
    const float *r = row_values(k, k->buffers[4], copy[2]);
#define ROWS(at, rows, width) combine_rows(dz + (at), x + (at), dx + (at), rows, width, p, q, r)
    FOR_WIDTH(k->n_channels, rows.end - rows.begin, ROWS);
#undef ROWS
}

/* ---- From the sums of all shards: the channels of a task. ---- */

static ls__range channels_of(const ls__ops_kernel *k, int64_t task)
{
    return ls__share(k->op.operands[0].shape.dims[2], k->n_chunks, task, 1);
}

/* The values of a channel in the batch. */
static int64_t count_values(const ls__ops_kernel *k)
{
    return k->step->n_samples * k->op.u.norm.count;
}

/* moments running_mean running_var -> mean invstd */
static void statistics(const ls__ops_kernel *k, int64_t task)
{
    const ls__range r = channels_of(k, task);
    const int64_t channels = k->op.operands[0].shape.dims[2];
    for (int64_t c = r.begin; c < r.end; c++) {
        const ls__norm_moments m =
            ls__norm_moments_of(k->buffers[0], k->step->n_shards, channels, c, count_values(k));
        keep_statistics(k, c, m.count, m.mean, m.variance, 1, 3);
    }
}

/* products scale mean invstd -> p q r */
static void coefficients(const ls__ops_kernel *k, int64_t task)
{
    const ls__range range = channels_of(k, task);
    const int64_t channels = k->op.operands[0].shape.dims[2];
    const float *scale = k->buffers[1], *mean = k->buffers[2], *invstd = k->buffers[3];
    float *p = k->buffers[4], *q = k->buffers[5], *r = k->buffers[6];
    for (int64_t c = range.begin; c < range.end; c++)
        ls__norm_coefficients(k->buffers[0], k->step->n_shards, channels, c, count_values(k),
                              scale[c], mean[c], invstd[c], &p[c], &q[c], &r[c]);
}

static bool prepare_channels(ls__ops_kernel *k)
{
    const int64_t count = ls__count(&k->op.operands[0]);
    k->n_chunks = ls__pass_tasks(count);
    ls__add_phase(k, k->op.kind == LS__OP_NORM_STATISTICS ? statistics : coefficients, k->n_chunks);
    return true;
}

/* ---- Preparation. ---- */

static bool prepare_common(ls__ops_kernel *k)
{
    const ls__operand *x = &k->op.operands[0];
    if (x->dtype != ls__element_type) return false;
    k->n_channels = ls__channels_of(x);
    k->n_rows = ls__count(x) / k->n_channels;
    const int64_t rows = ls__max_i64(LS__TASK_ELEMENTS / k->n_channels, MIN_ROWS);
    k->n_chunks = ls__divide_up(k->n_rows, rows);
    k->kernel.workspace_bytes = (size_t)(k->n_channels * k->n_chunks * 2) * sizeof(double) +
                                (size_t)(k->n_channels * N_VECTORS) * sizeof(float);
    return true;
}

static bool prepare_forward(ls__ops_kernel *k)
{
    if (!prepare_common(k)) return false;
    const bool add = !ls__is_absent(&k->op.operands[5]);
    const bool training = k->op.kind == LS__OP_BATCH_NORM;
    if (training) ls__add_phase(k, moments, k->n_chunks);
    ls__add_phase(k, apply_operands_of(k).middle, training ? middle_tasks(k) : 1);
    ls__add_phase(k, apply_variants[k->op.u.norm.activation | (add ? ADD : 0)], k->n_chunks);
    return true;
}

static bool prepare_moments(ls__ops_kernel *k)
{
    if (!prepare_common(k)) return false;
    ls__add_phase(k, moments, k->n_chunks);
    ls__add_phase(k, middle_moments, middle_tasks(k));
    return true;
}

static bool prepare_backward(ls__ops_kernel *k)
{
    const bool writes_dx = k->op.kind == LS__OP_BATCH_NORM_BACKWARD;
    if (!prepare_common(k)) return false;
    const bool dy2 = !ls__is_absent(&k->op.operands[3]), dadd = !ls__is_absent(&k->op.operands[11]);
    const ls__activation activation = k->op.u.norm.activation;
    /* With dadd, the last phase reads dadd and needs no mask. */
    const bool from_x = activation && !dadd && !ls__is_absent(&k->op.operands[7]);
    const unsigned with = activation | (dy2 ? DY2 : 0) | (dadd ? DADD : 0) | (from_x ? FROM_X : 0);
    ls__add_phase(k, products_variants[with], k->n_chunks);
    ls__add_phase(k, writes_dx ? middle_backward : middle_products, middle_tasks(k));
    if (writes_dx) ls__add_phase(k, gradients_variants[with], k->n_chunks);
    return true;
}

static bool prepare_backward_apply(ls__ops_kernel *k)
{
    if (!prepare_common(k)) return false;
    ls__add_phase(k, backward_apply, k->n_chunks);
    k->kernel.workspace_bytes = 0;
    return true;
}

const ls__ops_prepare LS__ELEMENT_NAME(ls__ops_norm)[LS__N_OPS] = {
    [LS__OP_BATCH_NORM] = prepare_forward,
    [LS__OP_BATCH_NORM_EVAL] = prepare_forward,
    [LS__OP_NORM_APPLY] = prepare_forward,
    [LS__OP_NORM_MOMENTS] = prepare_moments,
    [LS__OP_NORM_STATISTICS] = prepare_channels,
    [LS__OP_BATCH_NORM_BACKWARD] = prepare_backward,
    [LS__OP_NORM_BACKWARD_PRODUCTS] = prepare_backward,
    [LS__OP_NORM_BACKWARD_COEFFICIENTS] = prepare_channels,
    [LS__OP_NORM_BACKWARD_APPLY] = prepare_backward_apply,
};
