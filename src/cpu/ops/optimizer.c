/* optimizer.c: gradient norm, SGD and Adam, each one pass over the parameter block; loss scaling.
 */
#include "base/element.h"
#include "cpu/ops/ops.h"
#include <math.h>

enum { LINE = 16, CHAINS = 16 };

/* Calls part(k, segment, begin, end) for what of the segments lies in a task's range of the
 * block. */
typedef void (*part_fn)(const ls__ops_kernel *k, const ls__segment *segment, ls__range part,
                        void *state);

static void for_each_part(const ls__ops_kernel *k, int64_t task, const ls__segment *segments,
                          int64_t n_segments, part_fn part, void *state)
{
    const ls__range range = ls__part(ls__count(&k->op.operands[0]), k->n_chunks, task, LINE);
    int64_t low = 0, high = n_segments; /* the first segment that ends behind the range's begin */
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (segments[middle].offset + segments[middle].count > range.begin)
            high = middle;
        else
            low = middle + 1;
    }
    for (int64_t s = low; s < n_segments && segments[s].offset < range.end; s++) {
        const int64_t begin = segments[s].offset, end = begin + segments[s].count;
        const ls__range common = { begin > range.begin ? begin : range.begin,
                                   ls__min(end, range.end) };
        if (common.begin < common.end) part(k, &segments[s], common, state);
    }
}

static void plan_block(ls__ops_kernel *k, int passes)
{
    const int64_t count = ls__count(&k->op.operands[0]);
    k->n_chunks = ls__pass_tasks(count);
    k->bytes = (double)count * sizeof(float) * passes;
}

/* ---- L2 norm: x scaler? -> norm ---- */

static void add_squares(const ls__ops_kernel *k, const ls__segment *segment, ls__range part,
                        void *state)
{
    (void)segment;
    const float *restrict x = (const float *)k->buffers[0] + part.begin;
    double *restrict chain = state;
    const int64_t n = part.end - part.begin;
    int64_t i = 0;
    for (; i + CHAINS <= n; i += CHAINS)
        for (int j = 0; j < CHAINS; j++) chain[j] += (double)x[i + j] * (double)x[i + j];
    for (int j = 0; i < n; i++, j++) chain[j] += (double)x[i] * (double)x[i];
}

static void sum_squares(const ls__ops_kernel *k, int64_t task)
{
    double chain[CHAINS] = { 0 };
    for_each_part(k, task, k->op.u.l2_norm.segments, *k->op.u.l2_norm.n_segments, add_squares,
                  chain);
    for (int step = CHAINS / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++) chain[i] += chain[i + step];
    ((double *)k->workspace)[task] = chain[0];
}

static void finish_norm(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    double *sums = (double *)k->workspace;
    for (int64_t step = 1; step < k->n_chunks; step *= 2)
        for (int64_t i = 0; i + step < k->n_chunks; i += 2 * step) sums[i] += sums[i + step];
    const float *scaler = k->buffers[1];
    const double scale = scaler ? (double)scaler[LS__LOSS_SCALE_SCALE] : 1;
    *(float *)k->buffers[2] = (float)(sqrt(sums[0]) / scale);
}

static bool plan_l2_norm(ls__ops_kernel *k)
{
    plan_block(k, 1);
    k->kernel.workspace_bytes = (size_t)k->n_chunks * sizeof(double);
    ls__add_stage(k, sum_squares, k->n_chunks);
    ls__add_stage(k, finish_norm, 1);
    return true;
}

/* ---- SGD: parameter gradient momentum? norm? scaler? -> ---- */

typedef struct sgd_variant {
    bool momentum, first, nesterov, decay;
} sgd_variant;

LS__ALWAYS_INLINE void sgd_loop(float *restrict parameter, const float *restrict gradient,
                                float *restrict momentum, int64_t n, const ls__sgd_numbers *numbers,
                                float decay, sgd_variant with)
{
    ls__sgd_numbers s = *numbers;
    s.first = with.first;
    s.nesterov = with.nesterov;
    for (int64_t i = 0; i < n; i++) {
        /* a variable, because a pointer in memory would be compared with NULL for each element */
        float kept = with.momentum ? momentum[i] : 0;
        parameter[i] = ls__sgd_element(&s, with.decay ? decay : 0, gradient[i], parameter[i],
                                       with.momentum ? &kept : NULL);
        if (with.momentum) momentum[i] = kept;
    }
}

LS__ALWAYS_INLINE void sgd_part(const ls__ops_kernel *k, const ls__segment *segment, ls__range part,
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
    static void name(const ls__ops_kernel *k, const ls__segment *segment, ls__range part,          \
                     void *state)                                                                  \
    {                                                                                              \
        sgd_part(k, segment, part, state, (sgd_variant){ __VA_ARGS__, false });                    \
    }
SGD_PART(sgd_plain, false, false, false)
SGD_PART(sgd_momentum, true, false, false)
SGD_PART(sgd_nesterov, true, false, true)
SGD_PART(sgd_momentum_first, true, true, false)
SGD_PART(sgd_nesterov_first, true, true, true)

static void sgd(const ls__ops_kernel *k, int64_t task)
{
    static const part_fn with_momentum[2][2] = { /* [first][nesterov] */
                                                 { sgd_momentum, sgd_nesterov },
                                                 { sgd_momentum_first, sgd_nesterov_first }
    };
    const float *norm = k->buffers[3], *scaler = k->buffers[4];
    if (ls__skips_update(norm, scaler)) return;
    const bool nesterov = k->op.u.sgd.nesterov;
    const bool first = ls__updates_done(k->step->optimizer_step, scaler) == 0;
    ls__sgd_numbers settings = { .factor = ls__gradient_factor(norm, k->op.u.sgd.clip_norm, scaler),
                                 .momentum = k->op.u.sgd.momentum,
                                 .share = (float)(1 - (double)k->op.u.sgd.dampening),
                                 .lr = (float)k->step->lr };
    for_each_part(k, task, k->op.u.sgd.segments, *k->op.u.sgd.n_segments,
                  k->buffers[2] ? with_momentum[first][nesterov] : sgd_plain, &settings);
}

static bool plan_sgd(ls__ops_kernel *k)
{
    plan_block(k, ls__is_absent(&k->op.operands[2]) ? 3 : 5);
    ls__add_stage(k, sgd, k->n_chunks);
    return true;
}

/* ---- Adam: parameter gradient exp_avg exp_avg_sq norm? scaler? -> ---- */

LS__ALWAYS_INLINE void adam_loop(const ls__ops_kernel *k, ls__range part,
                                 const ls__adam_numbers *settings, float decay, ls__decay_kind kind)
{
    const ls__adam_numbers s = *settings;
    float *restrict parameter = (float *)k->buffers[0];
    const float *restrict gradient = (const float *)k->buffers[1];
    float *restrict exp_avg = (float *)k->buffers[2], *restrict exp_avg_sq = (float *)k->buffers[3];
    for (int64_t i = part.begin; i < part.end; i++)
        parameter[i] = ls__adam_element(&s, kind, decay, gradient[i], parameter[i], &exp_avg[i],
                                        &exp_avg_sq[i]);
}

static void adam_part(const ls__ops_kernel *k, const ls__segment *segment, ls__range part,
                      void *state)
{
    const ls__adam_numbers *s = state;
    const double decay = (double)segment->weight_decay;
    if (decay == 0)
        adam_loop(k, part, s, 0, LS__NO_DECAY);
    else if (k->op.u.adam.decoupled)
        adam_loop(k, part, s, (float)(s->lr * decay), LS__DECOUPLED_DECAY);
    else
        adam_loop(k, part, s, (float)decay, LS__L2_DECAY);
}

static void adam(const ls__ops_kernel *k, int64_t task)
{
    const float *norm = k->buffers[4], *scaler = k->buffers[5];
    if (ls__skips_update(norm, scaler)) return;
    ls__adam_numbers settings =
        ls__adam_numbers_of(k->op.u.adam.beta1, k->op.u.adam.beta2, k->op.u.adam.epsilon,
                            k->step->lr, ls__updates_done(k->step->optimizer_step, scaler) + 1,
                            ls__gradient_factor(norm, k->op.u.adam.clip_norm, scaler));
    for_each_part(k, task, k->op.u.adam.segments, *k->op.u.adam.n_segments, adam_part, &settings);
}

static bool plan_adam(ls__ops_kernel *k)
{
    plan_block(k, 7);
    ls__add_stage(k, adam, k->n_chunks);
    return true;
}

/* ---- Loss scaling: weight scaler -> dloss; norm scaler -> ---- */

static void loss_scale(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const float *weight = k->buffers[0], *scaler = k->buffers[1];
    *(float *)k->buffers[2] = *weight * scaler[LS__LOSS_SCALE_SCALE];
}

static void loss_scale_update(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    ls__scaler_update(k->buffers[1], *(const float *)k->buffers[0],
                      k->op.u.loss_scale.growth_interval);
}

static bool plan_loss_scale(ls__ops_kernel *k)
{
    ls__add_stage(k, k->op.kind == LS__OP_LOSS_SCALE ? loss_scale : loss_scale_update, 1);
    return true;
}

const ls__ops_plan LS__ISA_NAME(ls__ops_optimizer)[LS__N_OPS] = {
    [LS__OP_L2_NORM] = plan_l2_norm,
    [LS__OP_SGD] = plan_sgd,
    [LS__OP_ADAM] = plan_adam,
    [LS__OP_LOSS_SCALE] = plan_loss_scale,
    [LS__OP_LOSS_SCALE_UPDATE] = plan_loss_scale,
};
