/* optimizer.c: gradient accumulation and norm, sums over shards, SGD, Adam and RMSprop, each one
 * pass over the parameter block; loss scaling. */
#include "arith/element.h"
#include "cpu/ops/ops.h"
#include "cpu/tree.h"
#include <math.h>

enum { LINE = 16 };

/* Processes elements r of a segment. */
typedef void (*section_fn)(const ls__ops_kernel *k, const ls__segment *segment, ls__range r,
                           void *state);

/* Calls f for the intersection of each segment with a task's range of the block. */
static void for_each_section(const ls__ops_kernel *k, int64_t task, section_fn f, void *state)
{
    const ls__segment *segments = k->op.u.block.segments;
    const int64_t n_segments = *k->op.u.block.n_segments;
    const ls__range range = ls__task_elements(k, task, LINE);
    int64_t low = 0, high = n_segments; /* find the first segment that ends after range.begin */
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (segments[middle].offset + segments[middle].count > range.begin)
            high = middle;
        else
            low = middle + 1;
    }
    for (int64_t s = low; s < n_segments && segments[s].offset < range.end; s++) {
        const int64_t begin = segments[s].offset, end = begin + segments[s].count;
        const ls__range section = { ls__max_i64(begin, range.begin), ls__min_i64(end, range.end) };
        if (section.begin < section.end) f(k, &segments[s], section, state);
    }
}

/* ---- Gradient accumulation: gradient sum -> ---- */

static void gradient_sum(const ls__ops_kernel *k, int64_t task)
{
    const ls__range r = ls__task_elements(k, task, LINE);
    const float *restrict gradient = (const float *)k->buffers[0];
    float *restrict sum = (float *)k->buffers[1];
    const int64_t accumulated = k->step->accumulated;
    for (int64_t i = r.begin; i < r.end; i++)
        sum[i] = ls__gradient_sum(accumulated, sum[i], gradient[i]);
}

static void gradient_mean(const ls__ops_kernel *k, int64_t task)
{
    const ls__range r = ls__task_elements(k, task, LINE);
    float *restrict gradient = (float *)k->buffers[0];
    const float *restrict sum = (const float *)k->buffers[1];
    const int64_t accumulated = k->step->accumulated;
    const float n = (float)(accumulated + 1);
    for (int64_t i = r.begin; i < r.end; i++)
        gradient[i] = ls__gradient_sum(accumulated, sum[i], gradient[i]) / n;
}

/* ---- Shards: x weight? total? sums -> y; sum momentum running -> ---- */

static void shard_sum(const ls__ops_kernel *k, int64_t task)
{
    enum { CHUNK = 1024 }; /* of a sum that stays in the cache */
    const ls__range r = ls__task_elements(k, task, LINE);
    const float *x = k->buffers[0], *weight = k->buffers[1], *total = k->buffers[2];
    const int64_t n = ls__count(&k->op.operands[0]), n_sums = k->step->n_sums;
    float *sums = k->buffers[3];
    float *y = k->step->is_last_shard ? k->buffers[4] : sums + (n_sums - k->step->n_merged) * n;
    const float factor = weight ? *weight : 1;
    const float divisor = k->step->is_last_shard && total && *total != 0 ? *total : 1;
    float sum[CHUNK];
    for (int64_t begin = r.begin; begin < r.end; begin += CHUNK) {
        const int64_t count = ls__min_i64(CHUNK, r.end - begin);
        for (int64_t i = 0; i < count; i++) sum[i] = x[begin + i] * factor;
        for (int64_t row = n_sums - 1; row >= n_sums - k->step->n_merged; row--) {
            const float *earlier = sums + row * n + begin;
            for (int64_t i = 0; i < count; i++) sum[i] = earlier[i] + sum[i];
        }
        for (int64_t i = 0; i < count; i++) y[begin + i] = sum[i] / divisor;
    }
}

/* rows total? -> y? */
static void tree_sum(const ls__ops_kernel *k, int64_t task)
{
    enum { BLOCK = 1024 }; /* elements; a block of the sum stays in the cache */
    const ls__merges *merges = &k->op.u.merges;
    const int64_t n = k->op.operands[0].shape.dims[1];
    const ls__range r = ls__share(n, k->n_chunks, task, LINE);
    float *rows = k->buffers[0], *y = k->buffers[2];
    const float *total = k->buffers[1];
    const float divisor = y && total && *total != 0 ? *total : 1;
    float sum[BLOCK];
    for (int64_t begin = r.begin; begin < r.end; begin += BLOCK) {
        const int64_t count = ls__min_i64(BLOCK, r.end - begin);
        int n_sums = 0;
        for (int row = 0; row < merges->n_rows; row++) {
            memcpy(sum, rows + row * n + begin, (size_t)count * sizeof *sum);
            for (int m = 0; m < merges->n_merged[row]; m++) {
                const float *earlier = rows + --n_sums * n + begin;
                for (int64_t i = 0; i < count; i++) sum[i] = earlier[i] + sum[i];
            }
            float *to = rows + n_sums++ * n + begin;
            if (y && row + 1 == merges->n_rows)
                for (int64_t i = 0; i < count; i++) y[begin + i] = sum[i] / divisor;
            else if (row + 1 != n_sums || merges->n_merged[row] > 0)
                memcpy(to, sum, (size_t)count * sizeof *sum);
        }
    }
}

static void running_statistics(const ls__ops_kernel *k, int64_t task)
{
    const ls__range r = ls__task_elements(k, task, LINE);
    const float *restrict sum = k->buffers[0], *restrict momentum = k->buffers[1];
    float *restrict running = k->buffers[2];
    for (int64_t i = r.begin; i < r.end; i++)
        running[i] = ls__running_statistic(running[i], momentum[i], sum[i], k->step->n_shards);
}

/* ---- L2 norm: x grad_scaler? -> norm ---- */

static void add_squares(const ls__ops_kernel *k, const ls__segment *segment, ls__range r,
                        void *state)
{
    (void)segment;
    const float *restrict x = (const float *)k->buffers[0] + r.begin;
    double *restrict chain = state;
    const int64_t n = r.end - r.begin;
    int64_t i = 0;
    for (; i + LS__CHAINS <= n; i += LS__CHAINS)
        for (int j = 0; j < LS__CHAINS; j++) chain[j] += (double)x[i + j] * (double)x[i + j];
    for (int j = 0; i < n; i++, j++) chain[j] += (double)x[i] * (double)x[i];
}

static void sum_squares(const ls__ops_kernel *k, int64_t task)
{
    double chain[LS__CHAINS] = { 0 };
    for_each_section(k, task, add_squares, chain);
    ((double *)k->workspace)[task] = ls__fold(chain);
}

static void finish_norm(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const double sum = ls__tree_total((double *)k->workspace, k->n_chunks);
    const float *grad_scaler = k->buffers[1];
    const double scale = grad_scaler ? (double)grad_scaler[LS__LOSS_SCALE_SCALE] : 1;
    *(float *)k->buffers[2] = (float)(sqrt(sum) / scale);
}

static ls__clipping clipping_of(const ls__ops_kernel *k, const float *norm,
                                const float *grad_scaler)
{
    return ls__clipping_of(norm, k->op.u.block.clip_norm, k->op.u.block.clip_value, grad_scaler);
}

/* ---- SGD: parameter gradient momentum? norm? grad_scaler? -> ---- */

/* with_momentum, first and nesterov are constants. limit is the constant 0 where values are not
 * clipped, so that the comparison is compiled out. */
LS__ALWAYS_INLINE void sgd_loop(const ls__ops_kernel *k, ls__range r,
                                const ls__sgd_numbers *settings, float decay, float limit,
                                bool with_momentum, bool first, bool nesterov)
{
    ls__sgd_numbers s = *settings;
    s.clipping.limit = limit;
    s.first = first;
    s.nesterov = nesterov;
    float *restrict parameter = (float *)k->buffers[0], *restrict momentum = k->buffers[2];
    const float *restrict gradient = (const float *)k->buffers[1];
    for (int64_t i = r.begin; i < r.end; i++) {
        /* a variable, because a pointer would be compared with NULL for each element */
        float kept = with_momentum ? momentum[i] : 0;
        parameter[i] =
            ls__sgd_element(&s, decay, gradient[i], parameter[i], with_momentum ? &kept : NULL);
        if (with_momentum) momentum[i] = kept;
    }
}

LS__ALWAYS_INLINE void sgd_variants(const ls__ops_kernel *k, ls__range r, const ls__sgd_numbers *s,
                                    float decay, float limit, bool first)
{
    if (!k->buffers[2])
        sgd_loop(k, r, s, decay, limit, false, first, false);
    else if (s->nesterov)
        sgd_loop(k, r, s, decay, limit, true, first, true);
    else
        sgd_loop(k, r, s, decay, limit, true, first, false);
}

static void sgd_section(const ls__ops_kernel *k, const ls__segment *segment, ls__range r,
                        void *state)
{
    ls__sgd_numbers s = *(const ls__sgd_numbers *)state;
    s.lr *= segment->lr_scale;
    const float decay = segment->weight_decay, limit = s.clipping.limit;
    if (s.first)
        sgd_variants(k, r, &s, decay, limit, true);
    else if (limit != 0)
        sgd_variants(k, r, &s, decay, limit, false);
    else
        sgd_variants(k, r, &s, decay, 0, false);
}

static void sgd(const ls__ops_kernel *k, int64_t task)
{
    const float *norm = k->buffers[3], *grad_scaler = k->buffers[4];
    if (ls__skips_update(norm, grad_scaler)) return;
    ls__sgd_numbers settings = {
        .clipping = clipping_of(k, norm, grad_scaler),
        .momentum = k->op.u.sgd.momentum,
        .share = (float)(1 - (double)k->op.u.sgd.dampening),
        .lr = (float)k->step->lr,
        .first = ls__updates_done(k->step->optimizer_step, grad_scaler) == 0,
        .nesterov = k->op.u.sgd.nesterov,
    };
    for_each_section(k, task, sgd_section, &settings);
}

/* ---- Adam: parameter gradient exp_avg exp_avg_sq norm? grad_scaler? -> ---- */

/* limit: as in sgd_loop. */
LS__ALWAYS_INLINE void adam_loop(const ls__ops_kernel *k, ls__range r,
                                 const ls__adam_numbers *settings, float decay, ls__decay_kind kind,
                                 float limit)
{
    ls__adam_numbers s = *settings;
    s.clipping.limit = limit;
    float *restrict parameter = (float *)k->buffers[0];
    const float *restrict gradient = (const float *)k->buffers[1];
    float *restrict exp_avg = (float *)k->buffers[2], *restrict exp_avg_sq = (float *)k->buffers[3];
    for (int64_t i = r.begin; i < r.end; i++)
        parameter[i] = ls__adam_element(&s, kind, decay, gradient[i], parameter[i], &exp_avg[i],
                                        &exp_avg_sq[i]);
}

LS__ALWAYS_INLINE void adam_variants(const ls__ops_kernel *k, ls__range r,
                                     const ls__adam_numbers *s, double decay, float limit)
{
    if (decay == 0)
        adam_loop(k, r, s, 0, LS__NO_DECAY, limit);
    else if (k->op.u.adam.decoupled)
        adam_loop(k, r, s, (float)(s->lr * decay), LS__DECOUPLED_DECAY, limit);
    else
        adam_loop(k, r, s, (float)decay, LS__L2_DECAY, limit);
}

static void adam_section(const ls__ops_kernel *k, const ls__segment *segment, ls__range r,
                         void *state)
{
    const ls__adam_numbers s = ls__adam_scaled(state, segment->lr_scale);
    const double decay = (double)segment->weight_decay;
    if (s.clipping.limit != 0)
        adam_variants(k, r, &s, decay, s.clipping.limit);
    else
        adam_variants(k, r, &s, decay, 0);
}

static void adam(const ls__ops_kernel *k, int64_t task)
{
    const float *norm = k->buffers[4], *grad_scaler = k->buffers[5];
    if (ls__skips_update(norm, grad_scaler)) return;
    ls__adam_numbers settings =
        ls__adam_numbers_of(k->op.u.adam.beta1, k->op.u.adam.beta2, k->op.u.adam.epsilon,
                            k->step->lr, ls__updates_done(k->step->optimizer_step, grad_scaler) + 1,
                            clipping_of(k, norm, grad_scaler));
    for_each_section(k, task, adam_section, &settings);
}

/* ---- RMSprop: parameter gradient square_avg grad_avg? momentum? norm? grad_scaler? -> ---- */

/* centered and with_momentum are constants; limit: as in sgd_loop. */
LS__ALWAYS_INLINE void rmsprop_loop(const ls__ops_kernel *k, ls__range r,
                                    const ls__rmsprop_numbers *settings, float decay, float limit,
                                    bool centered, bool with_momentum)
{
    ls__rmsprop_numbers s = *settings;
    s.clipping.limit = limit;
    float *restrict parameter = (float *)k->buffers[0], *restrict square_avg = k->buffers[2];
    float *restrict grad_avg = k->buffers[3], *restrict momentum = k->buffers[4];
    const float *restrict gradient = (const float *)k->buffers[1];
    for (int64_t i = r.begin; i < r.end; i++) {
        float mean = centered ? grad_avg[i] : 0, kept = with_momentum ? momentum[i] : 0;
        parameter[i] = ls__rmsprop_element(&s, decay, gradient[i], parameter[i], &square_avg[i],
                                           centered ? &mean : NULL, with_momentum ? &kept : NULL);
        if (centered) grad_avg[i] = mean;
        if (with_momentum) momentum[i] = kept;
    }
}

LS__ALWAYS_INLINE void rmsprop_variants(const ls__ops_kernel *k, ls__range r,
                                        const ls__rmsprop_numbers *s, float decay, float limit)
{
    if (k->buffers[3] && k->buffers[4])
        rmsprop_loop(k, r, s, decay, limit, true, true);
    else if (k->buffers[3])
        rmsprop_loop(k, r, s, decay, limit, true, false);
    else if (k->buffers[4])
        rmsprop_loop(k, r, s, decay, limit, false, true);
    else
        rmsprop_loop(k, r, s, decay, limit, false, false);
}

static void rmsprop_section(const ls__ops_kernel *k, const ls__segment *segment, ls__range r,
                            void *state)
{
    ls__rmsprop_numbers s = *(const ls__rmsprop_numbers *)state;
    s.lr *= segment->lr_scale;
    if (s.clipping.limit != 0)
        rmsprop_variants(k, r, &s, segment->weight_decay, s.clipping.limit);
    else
        rmsprop_variants(k, r, &s, segment->weight_decay, 0);
}

static void rmsprop(const ls__ops_kernel *k, int64_t task)
{
    const float *norm = k->buffers[5], *grad_scaler = k->buffers[6];
    if (ls__skips_update(norm, grad_scaler)) return;
    ls__rmsprop_numbers settings = { .clipping = clipping_of(k, norm, grad_scaler),
                                     .alpha = k->op.u.rmsprop.alpha,
                                     .share = (float)(1 - (double)k->op.u.rmsprop.alpha),
                                     .epsilon = k->op.u.rmsprop.epsilon,
                                     .momentum = k->op.u.rmsprop.momentum,
                                     .lr = (float)k->step->lr };
    for_each_section(k, task, rmsprop_section, &settings);
}

/* ---- Moving average: parameter average norm? grad_scaler? -> ---- */

static void ema(const ls__ops_kernel *k, int64_t task)
{
    const ls__range r = ls__task_elements(k, task, LINE);
    const float *restrict parameter = (const float *)k->buffers[0];
    float *restrict average = (float *)k->buffers[1];
    const float *grad_scaler = k->buffers[3];
    if (ls__skips_update(k->buffers[2], grad_scaler)) return;
    const float share = (float)(1 - (double)k->op.u.ema.decay);
    if (ls__updates_done(k->step->optimizer_step, grad_scaler) == 0)
        memcpy(average + r.begin, parameter + r.begin, (size_t)(r.end - r.begin) * sizeof(float));
    else
        for (int64_t i = r.begin; i < r.end; i++)
            average[i] = ls__ema_element(share, average[i], parameter[i]);
}

/* ---- Loss scaling: weight grad_scaler -> dloss; norm grad_scaler -> ---- */

static void loss_scale(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const float *weight = k->buffers[0];
    *(float *)k->buffers[4] =
        ls__gradient_of_loss(*weight, k->buffers[1], k->buffers[2], k->buffers[3]);
}

static void loss_scale_update(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    ls__grad_scaler_update(k->buffers[1], *(const float *)k->buffers[0],
                           k->op.u.loss_scale.growth_interval);
}

/* ---- Preparation: a pass over the block, or over the elements of a row. ---- */

static bool prepare_block(ls__ops_kernel *k)
{
    static const ls__ops_task passes[LS__N_OPS] = {
        [LS__OP_GRADIENT_SUM] = gradient_sum,
        [LS__OP_GRADIENT_MEAN] = gradient_mean,
        [LS__OP_SHARD_SUM] = shard_sum,
        [LS__OP_TREE_SUM] = tree_sum,
        [LS__OP_RUNNING_STATISTICS] = running_statistics,
        [LS__OP_L2_NORM] = sum_squares,
        [LS__OP_SGD] = sgd,
        [LS__OP_ADAM] = adam,
        [LS__OP_RMSPROP] = rmsprop,
        [LS__OP_EMA] = ema,
        [LS__OP_LOSS_SCALE] = loss_scale,
        [LS__OP_LOSS_SCALE_UPDATE] = loss_scale_update,
    };
    const ls__operand *x = &k->op.operands[0];
    const bool rows = k->op.kind == LS__OP_TREE_SUM;
    k->n_chunks = ls__pass_tasks(rows ? x->shape.dims[1] : ls__count(x));
    ls__add_phase(k, passes[k->op.kind], k->n_chunks);
    if (k->op.kind != LS__OP_L2_NORM) return true;
    k->kernel.workspace_bytes = (size_t)k->n_chunks * sizeof(double);
    ls__add_phase(k, finish_norm, 1);
    return true;
}

const ls__ops_prepare LS__ISA_NAME(ls__ops_optimizer)[LS__N_OPS] = {
    [LS__OP_GRADIENT_SUM] = prepare_block,
    [LS__OP_GRADIENT_MEAN] = prepare_block,
    [LS__OP_SHARD_SUM] = prepare_block,
    [LS__OP_TREE_SUM] = prepare_block,
    [LS__OP_RUNNING_STATISTICS] = prepare_block,
    [LS__OP_L2_NORM] = prepare_block,
    [LS__OP_SGD] = prepare_block,
    [LS__OP_ADAM] = prepare_block,
    [LS__OP_RMSPROP] = prepare_block,
    [LS__OP_EMA] = prepare_block,
    [LS__OP_LOSS_SCALE] = prepare_block,
    [LS__OP_LOSS_SCALE_UPDATE] = prepare_block,
};
