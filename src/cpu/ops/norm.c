/* norm.c: batch normalisation (Ioffe & Szegedy 2015); the formulas stand in reference/norm.c.
 *
 * Rows and sums are channel_sums.h's. Statistics are sums in double, which a fixed binary tree adds
 * up. The last stage walks backwards through memory: what the first one read last may still be in
 * the cache. */
#include "cpu/ops/channel_sums.h"
#include "cpu/ops/ops.h"
#include "cpu/simd/element.h"
#include <math.h>

/* ---- Forward. ---- */

/* s1 += d, s2 += d^2 with d = x - origin: exact in double but for the last bits, however far the
 * mean is from zero. */
LS__ALWAYS_INLINE void add_moments(const ls__element *restrict x, int64_t rows, int64_t width,
                                   const ls__element *restrict origin, double *restrict s1,
                                   double *restrict s2)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, x += 4 * width)
        for (int64_t c = 0; c < width; c++) {
            const double o = ls__get(origin[c]);
            const double d0 = ls__get(x[c]) - o, d1 = ls__get(x[c + width]) - o;
            const double d2 = ls__get(x[c + 2 * width]) - o, d3 = ls__get(x[c + 3 * width]) - o;
            s1[c] += (d0 + d1) + (d2 + d3);
            s2[c] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
        }
    for (; r < rows; r++, x += width)
        for (int64_t c = 0; c < width; c++) {
            const double d = (double)ls__get(x[c]) - (double)ls__get(origin[c]);
            s1[c] += d;
            s2[c] += d * d;
        }
}

/* The first place's values serve as origin. */
static const ls__element *origin_of(const ls__ops_kernel *k, int64_t group)
{
    return (const ls__element *)k->buffers[0] + group * k->planes.places * k->planes.width;
}

static void moments(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *x = k->buffers[0];
    const int64_t width = k->planes.width;
    span_cursor w = span_cursor_of(k, task);
    ls__element copy[ROW_WIDTH];
    const ls__element *origin = origin_of(k, w.group);
    if (width <= ROW_WIDTH) {
        for (int64_t i = 0; i < ROW_WIDTH; i++) copy[i] = origin[i % width];
        origin = copy;
    }
    row_sums sums;
    begin_sums(k, &w, &sums);
    while (next_span(k, &w)) {
#define SPAN(at, rows, width)                                                                      \
    add_moments(x + w.offset + (at), rows, width, origin, sums.s1, sums.s2)
        FOR_WIDTH(width, w.rows, SPAN);
#undef SPAN
    }
    end_sums(k, &w, &sums);
}

static void finish_moments(const ls__ops_kernel *k, int64_t group, int64_t begin, int64_t end)
{
    add_chunks(k, 0, group, begin, end);
    add_chunks(k, 1, group, begin, end);
    const double *s1 = partial(k, 0, group, 0), *s2 = partial(k, 1, group, 0);
    const ls__element *origin = origin_of(k, group);
    const float *scale = k->buffers[1];
    float *running_mean = k->buffers[3], *running_var = k->buffers[4];
    float *saved_mean = k->buffers[7], *saved_invstd = k->buffers[8], *factor = vector(k, 0);
    const double m = (double)n_rows(k), momentum = k->op.u.norm.momentum;
    for (int64_t i = begin; i < end; i++) {
        const int64_t c = group * k->planes.width + i;
        const double mean = (double)ls__get(origin[i]) + s1[i] / m;
        const double squares = s2[i] - s1[i] * s1[i] / m;
        const double variance = squares > 0   ? squares / m
                                : squares < 0 ? 0
                                              : squares; /* keeps NaN */
        const double unbiased = m > 1 ? variance * m / (m - 1) : variance;
        running_mean[c] = (float)((1 - momentum) * (double)running_mean[c] + momentum * mean);
        running_var[c] = (float)((1 - momentum) * (double)running_var[c] + momentum * unbiased);
        const double invstd = 1 / sqrt(variance + (double)k->op.u.norm.epsilon);
        saved_mean[c] = (float)mean;
        saved_invstd[c] = (float)invstd;
        factor[c] = saved_invstd[c] * scale[c]; /* of what is saved: NORM_APPLY has no more */
    }
}

static void middle_forward(const ls__ops_kernel *k, int64_t task)
{
    finish_share(k, task, finish_moments);
}

/* The evaluation's factors, from running statistics. */
static void middle_eval(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const float *scale = k->buffers[1], *running_var = k->buffers[4];
    float *factor = vector(k, 0);
    for (int64_t c = 0; c < n_channels(k); c++)
        factor[c] =
            (float)((double)scale[c] / sqrt((double)running_var[c] + (double)k->op.u.norm.epsilon));
}

/* NORM_APPLY's, the same as those of the norm that left mean and invstd. */
static void middle_apply(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const float *invstd = k->buffers[2], *scale = k->buffers[3];
    float *factor = vector(k, 0);
    for (int64_t c = 0; c < n_channels(k); c++) factor[c] = invstd[c] * scale[c];
}

/* Where the ops that apply a norm have their operands; x, add and y stand alike in all. */
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
                                  bool with_add, bool with_relu)
{
    for (int64_t r = 0; r < rows; r++, x += width, y += width) {
        LS__INDEPENDENT
        for (int64_t c = 0; c < width; c++) {
            float value = (ls__get(x[c]) - mean[c]) * factor[c] + shift[c];
            if (with_add) value += ls__get(add[c]);
            if (with_relu) value = value < 0 ? 0 : value;
            y[c] = ls__put(value);
        }
        if (with_add) add += width;
    }
}

LS__ALWAYS_INLINE void apply(const ls__ops_kernel *k, int64_t task, bool with_add, bool with_relu)
{
    const ls__element *x = k->buffers[0], *add = k->buffers[5];
    ls__element *y = k->buffers[6];
    span_cursor w = span_cursor_of(k, k->stages[k->stage].n_tasks - 1 - task);
    float copy[3][ROW_WIDTH];
    const apply_operands at = apply_operands_of(k);
    const float *mean = row_values(k, group_values(k, k->buffers[at.mean], w.group), copy[0]);
    const float *factor = row_values(k, group_values(k, vector(k, 0), w.group), copy[1]);
    const float *shift = row_values(k, group_values(k, k->buffers[at.shift], w.group), copy[2]);
    while (next_span(k, &w)) {
#define SPAN(at, rows, width)                                                                      \
    apply_rows(x + w.offset + (at), with_add ? add + w.offset + (at) : NULL, y + w.offset + (at),  \
               rows, width, mean, factor, shift, with_add, with_relu)
        FOR_WIDTH(k->planes.width, w.rows, SPAN);
#undef SPAN
    }
}

static void apply_plain(const ls__ops_kernel *k, int64_t task)
{
    apply(k, task, false, false);
}

static void apply_relu(const ls__ops_kernel *k, int64_t task)
{
    apply(k, task, false, true);
}

static void apply_add(const ls__ops_kernel *k, int64_t task)
{
    apply(k, task, true, false);
}

static void apply_add_relu(const ls__ops_kernel *k, int64_t task)
{
    apply(k, task, true, true);
}

/* ---- Backward. ---- */

/* The operands of a span, and which of the optional ones there are. */
typedef struct gradient_span {
    const ls__element *x, *y, *dy1, *dy2;
    ls__element *dadd, *dx;
} gradient_span;

typedef struct options {
    bool relu, dy2, dadd;
} options;

LS__ALWAYS_INLINE float gradient_at(const gradient_span *s, int64_t i, options with)
{
    float dy = ls__get(s->dy1[i]);
    if (with.dy2) dy += ls__get(s->dy2[i]);
    if (with.relu) dy = ls__where(ls__get(s->y[i]) > 0, dy);
    return dy;
}

/* s1 += dy, s2 += dy (x - mean); dadd = dy */
LS__ALWAYS_INLINE void add_products(gradient_span s, int64_t rows, int64_t width,
                                    const float *restrict mean, double *restrict s1,
                                    double *restrict s2, options with)
{
    int64_t r = 0, i = 0;
    for (; r + 4 <= rows; r += 4, i += 4 * width) {
        LS__INDEPENDENT
        for (int64_t c = 0; c < width; c++) {
            double sum[4], product[4];
            for (int j = 0; j < 4; j++) {
                const int64_t at = i + j * width + c;
                const float dy = gradient_at(&s, at, with);
                if (with.dadd) s.dadd[at] = ls__put(dy);
                sum[j] = dy;
                product[j] = (double)dy * ((double)ls__get(s.x[at]) - (double)mean[c]);
            }
            s1[c] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
            s2[c] += (product[0] + product[1]) + (product[2] + product[3]);
        }
    }
    for (; r < rows; r++, i += width) {
        LS__INDEPENDENT
        for (int64_t c = 0; c < width; c++) {
            const float dy = gradient_at(&s, i + c, with);
            if (with.dadd) s.dadd[i + c] = ls__put(dy);
            s1[c] += (double)dy;
            s2[c] += (double)dy * ((double)ls__get(s.x[i + c]) - (double)mean[c]);
        }
    }
}

/* dx = factor (dy - mean_dy - (x - mean) slope) */
LS__ALWAYS_INLINE void write_dx(gradient_span s, int64_t rows, int64_t width,
                                const float *restrict mean, const float *restrict factor,
                                const float *restrict mean_dy, const float *restrict slope,
                                options with)
{
    for (int64_t r = 0, i = 0; r < rows; r++, i += width) {
        LS__INDEPENDENT
        for (int64_t c = 0; c < width; c++) {
            const float dy = gradient_at(&s, i + c, with);
            const float centred = ls__get(s.x[i + c]) - mean[c];
            s.dx[i + c] = ls__put(factor[c] * ((dy - mean_dy[c]) - centred * slope[c]));
        }
    }
}

LS__ALWAYS_INLINE gradient_span span_at(const ls__ops_kernel *k, int64_t offset, options with)
{
    gradient_span s = { .x = (const ls__element *)k->buffers[0] + offset,
                        .dy1 = (const ls__element *)k->buffers[2] + offset,
                        .dx = (ls__element *)k->buffers[8] + offset };
    if (with.relu) s.y = (const ls__element *)k->buffers[1] + offset;
    if (with.dy2) s.dy2 = (const ls__element *)k->buffers[3] + offset;
    if (with.dadd) s.dadd = (ls__element *)k->buffers[11] + offset;
    return s;
}

LS__ALWAYS_INLINE void products(const ls__ops_kernel *k, int64_t task, options with)
{
    const int64_t width = k->planes.width;
    span_cursor w = span_cursor_of(k, task);
    float copy[ROW_WIDTH];
    const float *mean = row_values(k, group_values(k, k->buffers[5], w.group), copy);
    row_sums sums;
    begin_sums(k, &w, &sums);
    while (next_span(k, &w)) {
#define SPAN(at, rows, width)                                                                      \
    add_products(span_at(k, w.offset + (at), with), rows, width, mean, sums.s1, sums.s2, with)
        FOR_WIDTH(width, w.rows, SPAN);
#undef SPAN
    }
    end_sums(k, &w, &sums);
}

static void finish_products(const ls__ops_kernel *k, int64_t group, int64_t begin, int64_t end)
{
    add_chunks(k, 0, group, begin, end);
    add_chunks(k, 1, group, begin, end);
    const double *s1 = partial(k, 0, group, 0), *s2 = partial(k, 1, group, 0);
    const float *scale = k->buffers[4], *invstd = k->buffers[6];
    float *dscale = k->buffers[9], *dshift = k->buffers[10];
    float *factor = vector(k, 0), *mean_dy = vector(k, 1), *slope = vector(k, 2);
    const double m = (double)n_rows(k);
    for (int64_t i = begin; i < end; i++) {
        const int64_t c = group * k->planes.width + i;
        const double inverse = invstd[c];
        dscale[c] = (float)(inverse * s2[i]);
        dshift[c] = (float)s1[i];
        factor[c] = (float)(inverse * (double)scale[c]);
        mean_dy[c] = (float)(s1[i] / m);
        slope[c] = (float)(inverse * inverse * s2[i] / m);
    }
}

static void middle_backward(const ls__ops_kernel *k, int64_t task)
{
    finish_share(k, task, finish_products);
}

/* If the op computes dadd, it holds the gradient already. */
LS__ALWAYS_INLINE void gradients(const ls__ops_kernel *k, int64_t task, options with)
{
    span_cursor w = span_cursor_of(k, k->stages[k->stage].n_tasks - 1 - task);
    float copy[4][ROW_WIDTH];
    const float *mean = row_values(k, group_values(k, k->buffers[5], w.group), copy[0]);
    const float *factor = row_values(k, group_values(k, vector(k, 0), w.group), copy[1]);
    const float *mean_dy = row_values(k, group_values(k, vector(k, 1), w.group), copy[2]);
    const float *slope = row_values(k, group_values(k, vector(k, 2), w.group), copy[3]);
    while (next_span(k, &w)) {
        gradient_span s = span_at(k, w.offset, with);
        if (with.dadd) s.dy1 = s.dadd;
        options rest = with;
        if (with.dadd) rest = (options){ false, false, false };
#define SPAN(at, rows, width)                                                                      \
    write_dx((gradient_span){ s.x + (at), with.relu ? s.y + (at) : NULL, s.dy1 + (at),             \
                              with.dy2 ? s.dy2 + (at) : NULL, NULL, s.dx + (at) },                 \
             rows, width, mean, factor, mean_dy, slope, rest)
        FOR_WIDTH(k->planes.width, w.rows, SPAN);
#undef SPAN
    }
}

/* One pair of functions for each combination of optional operands. */
#define BACKWARD_VARIANT(name, ...)                                                                \
    static void products_##name(const ls__ops_kernel *k, int64_t task)                             \
    {                                                                                              \
        products(k, task, (options){ __VA_ARGS__ });                                               \
    }                                                                                              \
    static void gradients_##name(const ls__ops_kernel *k, int64_t task)                            \
    {                                                                                              \
        gradients(k, task, (options){ __VA_ARGS__ });                                              \
    }
BACKWARD_VARIANT(plain, false, false, false)
BACKWARD_VARIANT(relu, true, false, false)
BACKWARD_VARIANT(dy2, false, true, false)
BACKWARD_VARIANT(relu_dy2, true, true, false)
BACKWARD_VARIANT(dadd, false, false, true)
BACKWARD_VARIANT(relu_dadd, true, false, true)
BACKWARD_VARIANT(dy2_dadd, false, true, true)
BACKWARD_VARIANT(relu_dy2_dadd, true, true, true)

static const struct {
    ls__ops_task products, gradients;
} backward_variants[2][2][2] = {
    /* [dadd][dy2][relu] */
    { { { products_plain, gradients_plain }, { products_relu, gradients_relu } },
      { { products_dy2, gradients_dy2 }, { products_relu_dy2, gradients_relu_dy2 } } },
    { { { products_dadd, gradients_dadd }, { products_relu_dadd, gradients_relu_dadd } },
      { { products_dy2_dadd, gradients_dy2_dadd },
        { products_relu_dy2_dadd, gradients_relu_dy2_dadd } } },
};

/* ---- Plans. ---- */

static bool plan_common(ls__ops_kernel *k, const int *activations, int n)
{
    const ls__operand *x = &k->op.operands[0];
    if (x->dtype != ls__element_type || (x->shape.n_dims != 4 && x->shape.n_dims != 2))
        return false;
    for (int i = 0; i < n; i++)
        if (!ls__same_layout(x, &k->op.operands[activations[i]])) return false;
    k->planes = ls__planes_of(x);
    const int64_t rows = LS__TASK_ELEMENTS / k->planes.width;
    k->n_chunks = ls__divide_up(n_rows(k), rows > MIN_ROWS ? rows : MIN_ROWS);
    k->kernel.workspace_bytes = (size_t)(n_channels(k) * k->n_chunks * 2) * sizeof(double) +
                                (size_t)(n_channels(k) * N_VECTORS) * sizeof(float);
    return true;
}

static const ls__ops_task apply_variants[2][2] = {
    /* [add][relu] */
    { apply_plain, apply_relu },
    { apply_add, apply_add_relu },
};

static bool plan_forward(ls__ops_kernel *k)
{
    static const int activations[] = { 5, 6 };
    if (!plan_common(k, activations, 2)) return false;
    const bool add = !ls__is_absent(&k->op.operands[5]);
    const int64_t n_tasks = k->planes.groups * k->n_chunks;
    const bool training = k->op.kind == LS__OP_BATCH_NORM;
    if (training) ls__add_stage(k, moments, n_tasks);
    ls__add_stage(k, apply_operands_of(k).middle, training ? middle_tasks(k) : 1);
    ls__add_stage(k, apply_variants[add][k->op.u.norm.relu], n_tasks);
    k->bytes = (double)ls__count(&k->op.operands[0]) * sizeof(ls__element) * (2 + training + add);
    return true;
}

static bool plan_backward(ls__ops_kernel *k)
{
    static const int activations[] = { 1, 2, 3, 8, 11 };
    if (!plan_common(k, activations, 5)) return false;
    const bool relu = k->op.u.norm.relu;
    const bool dy2 = !ls__is_absent(&k->op.operands[3]), dadd = !ls__is_absent(&k->op.operands[11]);
    const int64_t n_tasks = k->planes.groups * k->n_chunks;
    ls__add_stage(k, backward_variants[dadd][dy2][relu].products, n_tasks);
    ls__add_stage(k, middle_backward, middle_tasks(k));
    ls__add_stage(k, backward_variants[dadd][dy2][relu].gradients, n_tasks);
    const int passes = 2 + relu + dy2 + dadd + (dadd ? 3 : 3 + relu + dy2);
    k->bytes = (double)ls__count(&k->op.operands[0]) * sizeof(ls__element) * passes;
    return true;
}

const ls__ops_plan LS__ELEMENT_NAME(ls__ops_norm)[LS__N_OPS] = {
    [LS__OP_BATCH_NORM] = plan_forward,
    [LS__OP_BATCH_NORM_EVAL] = plan_forward,
    [LS__OP_NORM_APPLY] = plan_forward,
    [LS__OP_BATCH_NORM_BACKWARD] = plan_backward,
};
