/* optimizer.c: gradient norm, SGD and Adam, each one pass over the parameter block. The order of
 * float operations is that of PyTorch 1.13's single-tensor optimizers, but for AdamW's decay,
 * without contraction. */
#include "cpu/native/native.h"
#include <math.h>

enum { LINE = 16, LANES = 16 };

/* Calls part(k, segment, begin, end) for what of the segments lies in a task's stretch of the
 * block. */
typedef void (*part_fn)(const ls__native *k, const ls__segment *segment, ls__range part,
                        void *state);

static void for_each_part(const ls__native *k, int64_t task, const ls__segment *segments,
                          int64_t n_segments, part_fn part, void *state)
{
    const ls__range stretch = ls__piece(ls__count(&k->op.operands[0]), k->n_chunks, task, LINE);
    int64_t low = 0, high = n_segments; /* the first segment that ends behind the stretch's begin */
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (segments[middle].offset + segments[middle].count > stretch.begin)
            high = middle;
        else
            low = middle + 1;
    }
    for (int64_t s = low; s < n_segments && segments[s].offset < stretch.end; s++) {
        const int64_t begin = segments[s].offset, end = begin + segments[s].count;
        const ls__range common = { begin > stretch.begin ? begin : stretch.begin,
                                   ls__min(end, stretch.end) };
        if (common.begin < common.end) part(k, &segments[s], common, state);
    }
}

static void plan_block(ls__native *k, int passes)
{
    const int64_t count = ls__count(&k->op.operands[0]);
    k->n_chunks = ls__divide_up(count, LS__TASK_ELEMENTS);
    k->bytes = (double)count * sizeof(float) * passes;
}

/* By what gradients are multiplied so that their norm is at most clip. NaN stays. */
static float clip_factor(const float *norm, float clip)
{
    if (!norm) return 1;
    const float factor = clip / (*norm + 1e-6f);
    return factor > 1 ? 1 : factor;
}

/* ---- L2 norm: x -> norm ---- */

static void add_squares(const ls__native *k, const ls__segment *segment, ls__range part,
                        void *state)
{
    (void)segment;
    const float *restrict x = (const float *)k->buffers[0] + part.begin;
    double *restrict lane = state;
    const int64_t n = part.end - part.begin;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + j] * (double)x[i + j];
    for (int j = 0; i < n; i++, j++) lane[j] += (double)x[i] * (double)x[i];
}

static void sum_squares(const ls__native *k, int64_t task)
{
    double lane[LANES] = { 0 };
    for_each_part(k, task, k->op.u.l2_norm.segments, *k->op.u.l2_norm.n_segments, add_squares,
                  lane);
    for (int step = LANES / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++) lane[i] += lane[i + step];
    ((double *)k->workspace)[task] = lane[0];
}

static void finish_norm(const ls__native *k, int64_t task)
{
    (void)task;
    double *sums = (double *)k->workspace;
    for (int64_t step = 1; step < k->n_chunks; step *= 2)
        for (int64_t i = 0; i + step < k->n_chunks; i += 2 * step) sums[i] += sums[i + step];
    *(float *)k->buffers[1] = (float)sqrt(sums[0]);
}

static bool plan_l2_norm(ls__native *k)
{
    plan_block(k, 1);
    k->kernel.workspace_bytes = (size_t)k->n_chunks * sizeof(double);
    ls__add_stage(k, sum_squares, k->n_chunks);
    ls__add_stage(k, finish_norm, 1);
    return true;
}

/* ---- SGD: parameter gradient momentum? norm? -> ---- */

typedef struct sgd_settings {
    float factor, momentum, share, rate; /* share: 1 - dampening */
} sgd_settings;

typedef struct sgd_variant {
    bool momentum, first, nesterov, decay; /* first: the momentum begins as the gradient */
} sgd_variant;

LS__ALWAYS_INLINE void sgd_loop(float *restrict parameter, const float *restrict gradient,
                                float *restrict momentum, int64_t n, const sgd_settings *settings,
                                float decay, sgd_variant with)
{
    const sgd_settings s = *settings;
    for (int64_t i = 0; i < n; i++) {
        float g = gradient[i] * s.factor;
        if (with.decay) g = g + decay * parameter[i];
        if (with.momentum) {
            const float m = with.first ? g : momentum[i] * s.momentum + s.share * g;
            momentum[i] = m;
            g = with.nesterov ? g + s.momentum * m : m;
        }
        parameter[i] = parameter[i] - s.rate * g;
    }
}

LS__ALWAYS_INLINE void sgd_part(const ls__native *k, const ls__segment *segment, ls__range part,
                                void *state, sgd_variant with)
{
    float *parameter = (float *)k->buffers[0] + part.begin;
    const float *gradient = (const float *)k->buffers[1] + part.begin;
    float *momentum = with.momentum ? (float *)k->buffers[2] + part.begin : NULL;
    const int64_t n = part.end - part.begin;
    with.decay = true;
    if (segment->weight_decay != 0) {
        sgd_loop(parameter, gradient, momentum, n, state, segment->weight_decay, with);
    } else {
        with.decay = false;
        sgd_loop(parameter, gradient, momentum, n, state, 0, with);
    }
}

#define SGD_PART(name, ...)                                                                        \
    static void name(const ls__native *k, const ls__segment *segment, ls__range part, void *state) \
    {                                                                                              \
        sgd_part(k, segment, part, state, (sgd_variant){ __VA_ARGS__, false });                    \
    }
SGD_PART(sgd_plain, false, false, false)
SGD_PART(sgd_momentum, true, false, false)
SGD_PART(sgd_nesterov, true, false, true)
SGD_PART(sgd_momentum_first, true, true, false)
SGD_PART(sgd_nesterov_first, true, true, true)

static void sgd(const ls__native *k, int64_t task)
{
    static const part_fn with_momentum[2][2] = { /* [first][nesterov] */
                                                 { sgd_momentum, sgd_nesterov },
                                                 { sgd_momentum_first, sgd_nesterov_first }
    };
    const bool nesterov = k->op.u.sgd.nesterov, first = k->step->optimizer_step == 0;
    sgd_settings settings = { .factor = clip_factor(k->buffers[3], k->op.u.sgd.clip_norm),
                              .momentum = k->op.u.sgd.momentum,
                              .share = (float)(1 - (double)k->op.u.sgd.dampening),
                              .rate = (float)k->step->rate };
    for_each_part(k, task, k->op.u.sgd.segments, *k->op.u.sgd.n_segments,
                  k->buffers[2] ? with_momentum[first][nesterov] : sgd_plain, &settings);
}

static bool plan_sgd(ls__native *k)
{
    plan_block(k, ls__is_absent(&k->op.operands[2]) ? 3 : 5);
    ls__add_stage(k, sgd, k->n_chunks);
    return true;
}

/* ---- Adam: parameter gradient exp_avg exp_avg_sq norm? -> ---- */

typedef struct adam_settings {
    float factor, beta1, beta2, share1, share2; /* shares: 1 - beta */
    float root_correction2, epsilon, step_size;
    double rate;
} adam_settings;

/* base^n by squaring: the same bits whatever the C library's pow. */
static double power(double base, int64_t n)
{
    double result = 1;
    for (; n > 0; n /= 2, base *= base)
        if (n % 2) result *= base;
    return result;
}

enum decay_kind { NO_DECAY, L2_DECAY, DECOUPLED_DECAY };

/* decay: the weight decay of L2, or the share of the parameter that a decoupled decay takes. That
 * is taken in one subtraction with the step. By itself it changes so little from update to update
 * that its rounding falls to the same side each time: PyTorch's factor 1 - 1e-5 is off by up to
 * 3e-8, 3e-6 after 100 updates. */
LS__ALWAYS_INLINE void adam_loop(const ls__native *k, ls__range part, const adam_settings *settings,
                                 float decay, enum decay_kind kind)
{
    const adam_settings s = *settings;
    float *restrict parameter = (float *)k->buffers[0];
    const float *restrict gradient = (const float *)k->buffers[1];
    float *restrict exp_avg = (float *)k->buffers[2], *restrict exp_avg_sq = (float *)k->buffers[3];
    for (int64_t i = part.begin; i < part.end; i++) {
        const float p = parameter[i];
        float g = gradient[i] * s.factor;
        if (kind == L2_DECAY) g = g + decay * p;
        const float m = exp_avg[i] * s.beta1 + s.share1 * g;
        const float v = exp_avg_sq[i] * s.beta2 + (s.share2 * g) * g;
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
        float step = (s.step_size * m) / (sqrtf(v) / s.root_correction2 + s.epsilon);
        if (kind == DECOUPLED_DECAY) step = step + decay * p;
        parameter[i] = p - step;
    }
}

static void adam_part(const ls__native *k, const ls__segment *segment, ls__range part, void *state)
{
    const adam_settings *s = state;
    const double decay = (double)segment->weight_decay;
    if (decay == 0)
        adam_loop(k, part, s, 0, NO_DECAY);
    else if (k->op.u.adam.decoupled)
        adam_loop(k, part, s, (float)(s->rate * decay), DECOUPLED_DECAY);
    else
        adam_loop(k, part, s, (float)decay, L2_DECAY);
}

static void adam(const ls__native *k, int64_t task)
{
    const double beta1 = (double)k->op.u.adam.beta1, beta2 = (double)k->op.u.adam.beta2;
    const int64_t updates = k->step->optimizer_step + 1;
    adam_settings settings = {
        .factor = clip_factor(k->buffers[4], k->op.u.adam.clip_norm),
        .beta1 = (float)beta1,
        .beta2 = (float)beta2,
        .share1 = (float)(1 - beta1),
        .share2 = (float)(1 - beta2),
        .root_correction2 = (float)sqrt(1 - power(beta2, updates)),
        .epsilon = k->op.u.adam.epsilon,
        .step_size = (float)(k->step->rate / (1 - power(beta1, updates))),
        .rate = k->step->rate,
    };
    for_each_part(k, task, k->op.u.adam.segments, *k->op.u.adam.n_segments, adam_part, &settings);
}

static bool plan_adam(ls__native *k)
{
    plan_block(k, 7);
    ls__add_stage(k, adam, k->n_chunks);
    return true;
}

const ls__native_plan LS__ISA_NAME(ls__native_optimizer)[LS__N_OPS] = {
    [LS__OP_L2_NORM] = plan_l2_norm,
    [LS__OP_SGD] = plan_sgd,
    [LS__OP_ADAM] = plan_adam,
};
