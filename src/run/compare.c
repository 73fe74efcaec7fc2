/* compare.c: replays two runs and compares one step op by op; see compare.h. */
#include "run/compare.h"

#include "base/alloc.h"
#include "base/error.h"
#include "optim/optimizer.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct comparison {
    ls__compare_side *sides;
    ls__finding *out;
    ls_batch batches[2];
    void *buffers[2]; /* host memory: a value of each side */
    size_t bytes;     /* of each */
} comparison;

static ls_context *context_of(const ls__compare_side *side)
{
    return ls_net_context(side->net);
}

/* ---- Values ---- */

static void free_buffers(comparison *c)
{
    for (int i = 0; i < 2; i++) {
        ls__free(context_of(&c->sides[0]), c->buffers[i]);
        c->buffers[i] = NULL;
    }
    c->bytes = 0;
}

static ls_status make_room(comparison *c, size_t bytes)
{
    if (bytes <= c->bytes) return LS_OK;
    ls_context *ctx = context_of(&c->sides[0]);
    free_buffers(c);
    for (int i = 0; i < 2; i++) {
        c->buffers[i] = ls__alloc(ctx, bytes);
        if (!c->buffers[i]) return ls__fail_memory(ctx, "compare", 2 * bytes);
    }
    c->bytes = bytes;
    return LS_OK;
}

/* The rank of a float among all floats of its type. */
static int64_t rank_of(ls_dtype dtype, const void *element)
{
    uint32_t bits;
    uint16_t half;
    const bool is_half = dtype != LS_F32;
    memcpy(is_half ? (void *)&half : &bits, element, ls_dtype_bytes(dtype));
    if (is_half) bits = half;
    const uint32_t sign = UINT32_C(1) << (is_half ? 15 : 31);
    const int64_t magnitude = bits & (sign - 1);
    return bits & sign ? -1 - magnitude : magnitude;
}

uint64_t ls__ulps(ls_dtype dtype, const void *a, const void *b)
{
    const bool is_float = dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16;
    const double d = is_float ? (double)(rank_of(dtype, a) - rank_of(dtype, b))
                              : ls__element_value(dtype, a) - ls__element_value(dtype, b);
    return (uint64_t)fabs(d);
}

/* Puts the differences of both buffers, from element `first` on, into the finding. */
static void compare_buffers(comparison *c, ls_dtype dtype, int64_t first, int64_t count)
{
    ls__finding *out = c->out;
    const size_t size = ls_dtype_bytes(dtype);
    const char *a = (const char *)c->buffers[0] + (size_t)first * size;
    const char *b = (const char *)c->buffers[1] + (size_t)first * size;
    out->element = -1;
    out->n_different = 0;
    if (memcmp(a, b, (size_t)count * size) == 0) return;
    for (int64_t i = 0; i < count; i++, a += size, b += size) {
        if (memcmp(a, b, size) == 0 || out->n_different++ > 0) continue;
        out->element = i;
        out->values[0] = ls__element_value(dtype, a);
        out->values[1] = ls__element_value(dtype, b);
        out->ulps = ls__ulps(dtype, a, b);
    }
}

/* Compares both sides' values, of one type and shape. */
static ls_status compare_values(comparison *c, const ls__trace_value values[2])
{
    LS_TRY(make_room(c, (size_t)values[0].count * ls_dtype_bytes(values[0].dtype)));
    for (int i = 0; i < 2; i++)
        LS_TRY(ls__trace_read(context_of(&c->sides[i]), &values[i], c->buffers[i]));
    compare_buffers(c, values[0].dtype, 0, values[0].count);
    return LS_OK;
}

/* ---- Batches ---- */

typedef enum batch_part { IMAGES, LABELS, TARGETS } batch_part;

static ls_status read_batches(comparison *c, batch_part part)
{
    for (int i = 0; i < 2; i++) {
        const ls_batch *b = &c->batches[i];
        const ls_tensor *tensor = part == IMAGES   ? b->images
                                  : part == LABELS ? b->labels
                                                   : b->targets;
        LS_TRY(make_room(c, ls_tensor_bytes(tensor)));
        LS_TRY(ls_tensor_read(tensor, c->buffers[i], ls_tensor_bytes(tensor)));
    }
    return LS_OK;
}

static bool have_same_shape(const ls_tensor *a, const ls_tensor *b)
{
    return !a || !b ? a == b : ls_shape_equal(ls_tensor_shape(a), ls_tensor_shape(b));
}

/* One row of a batch's images or targets. */
static ls__trace_value row_of(const char *role, const ls_tensor *tensor)
{
    ls__trace_value row = { .dtype = ls_tensor_dtype(tensor), .shape = *ls_tensor_shape(tensor) };
    snprintf(row.role, sizeof(row.role), "%s", role);
    row.count = ls_tensor_element_count(tensor) / row.shape.dims[0];
    row.shape.n_dims--;
    memmove(row.shape.dims, row.shape.dims + 1, (LS_MAX_DIMS - 1) * sizeof(*row.shape.dims));
    return row;
}

/* Finds the first of the first n places whose targets differ; *place is n without one. */
static ls_status compare_targets(comparison *c, int64_t n, int64_t *place)
{
    const ls_tensor *targets = c->batches[0].targets;
    *place = n;
    if (!targets) return LS_OK;
    LS_TRY(read_batches(c, TARGETS));
    const ls__trace_value row = row_of("target", targets);
    for (int64_t i = 0; i < n; i++) {
        const ls__finding before = *c->out;
        compare_buffers(c, row.dtype, i * row.count, row.count);
        if (c->out->element >= 0) {
            *place = i;
            return LS_OK;
        }
        *c->out = before; /* the image at a later place may differ */
    }
    return LS_OK;
}

/* Finds the first place whose sample numbers, labels, pixels or targets differ. */
static ls_status compare_batches(comparison *c)
{
    ls__finding *out = c->out;
    const ls_batch *a = &c->batches[0], *b = &c->batches[1];
    if (!have_same_shape(a->images, b->images) || !have_same_shape(a->targets, b->targets)) {
        out->found = LS__FOUND_BATCH;
        return LS_OK;
    }
    LS_TRY(read_batches(c, IMAGES));
    const int64_t pixels = ls_tensor_element_count(a->images) / a->n;
    int64_t place = 0;
    for (; place < a->n; place++) {
        compare_buffers(c, ls_tensor_dtype(a->images), place * pixels, pixels);
        if (out->element >= 0) break;
    }
    LS_TRY(read_batches(c, LABELS));
    const int32_t *labels[2] = { c->buffers[0], c->buffers[1] };
    for (int64_t i = 0; i < place; i++) {
        if (a->samples[i] == b->samples[i] && labels[0][i] == labels[1][i]) continue;
        place = i;
        out->element = -1; /* these images are equal */
        out->n_different = 0;
    }
    int64_t first;
    LS_TRY(compare_targets(c, place, &first));
    if (first == a->n) return LS_OK;
    LS_TRY(read_batches(c, LABELS));
    out->found = LS__FOUND_BATCH;
    out->place = first;
    for (int i = 0; i < 2; i++) {
        out->samples[i] = c->batches[i].samples[first];
        out->labels[i] = ((const int32_t *)c->buffers[i])[first];
    }
    out->value = first < place ? row_of("target", a->targets) : row_of("image", a->images);
    return LS_OK;
}

/* ---- The step, op by op ---- */

/* Runs a side's next op; false at the end. */
static bool next_op(comparison *c, int side)
{
    ls__finding *out = c->out;
    out->ops[side] = (ls__trace_op){ .kind = "", .name = "", .kernel = "" };
    return ls__net_step_op(c->sides[side].net, &out->ops[side]);
}

/* n_before: elements that the op's earlier outputs have. */
static void set_found(comparison *c, ls__found found, const ls__trace_value *value,
                      int64_t n_before)
{
    c->out->found = found;
    c->out->value = *value;
    c->out->fault_element = n_before + c->out->element;
}

/* Runs one side's next recomputations. Recomputed values are checked when an op reads them. */
static ls_status run_recomputations(comparison *c, int side)
{
    while (next_op(c, side) && c->out->ops[side].again)
        LS_TRY(ls__net_step_next(c->sides[side].net));
    return LS_OK;
}

static bool same_op(const ls__trace_op *a, const ls__trace_op *b)
{
    return strcmp(a->kind, b->kind) == 0 && strcmp(a->name, b->name) == 0 &&
           a->backward == b->backward && a->n_values == b->n_values;
}

/* Compares the ops' inputs or outputs. */
static ls_status compare_operands(comparison *c, bool outputs)
{
    ls__finding *out = c->out;
    int64_t n_written = 0;
    for (int i = 0; i < out->ops[0].n_values; i++) {
        ls__trace_value values[2];
        for (int s = 0; s < 2; s++)
            ls__net_step_value(c->sides[s].net, &out->ops[s], i, &values[s]);
        if (!(outputs ? values[0].output : values[0].input)) continue;
        if (values[0].dtype != values[1].dtype ||
            !ls_shape_equal(&values[0].shape, &values[1].shape)) {
            out->found = LS__FOUND_PROGRAM;
            return LS_OK;
        }
        LS_TRY(compare_values(c, values));
        if (out->element >= 0) {
            set_found(c, outputs ? LS__FOUND_OP : LS__FOUND_STATE, &values[0], n_written);
            return LS_OK;
        }
        if (values[0].is_target) n_written += values[0].count;
    }
    return LS_OK;
}

static ls_status compare_ops(comparison *c)
{
    ls__finding *out = c->out;
    while (out->found == LS__FOUND_NOTHING) {
        for (int i = 0; i < 2; i++) LS_TRY(run_recomputations(c, i));
        if (out->ops[0].n_values + out->ops[1].n_values == 0) return LS_OK;
        if (!same_op(&out->ops[0], &out->ops[1])) {
            out->found = LS__FOUND_PROGRAM;
            return LS_OK;
        }
        LS_TRY(compare_operands(c, false));
        if (out->found != LS__FOUND_NOTHING) return LS_OK;
        for (int i = 0; i < 2; i++) LS_TRY(ls__net_step_next(c->sides[i].net));
        LS_TRY(compare_operands(c, true));
    }
    return LS_OK;
}

/* ---- Replaying ---- */

static int64_t steps_done(const ls__compare_side *side)
{
    return side->epoch * ls_loader_step_count(side->loader) + side->step;
}

/* Advances the position by one step. */
static ls_status advance(ls__compare_side *side)
{
    if (++side->step < ls_loader_step_count(side->loader)) return LS_OK;
    if (side->end_epoch) LS_TRY(side->end_epoch(side->user, side->epoch));
    side->epoch++;
    side->step = 0;
    return LS_OK;
}

/* Compares a step's digests with the run log, if there is one. */
static ls_status check_run_log(ls__compare_side *side, int64_t step, const ls_step_digest *digest)
{
    if (!side->run_log || side->diverged >= 0) return LS_OK;
    ls_context *ctx = context_of(side);
    int64_t n_steps;
    LS_TRY(ls_run_log_step_count(ctx, side->run_log, &n_steps));
    if (step >= n_steps) return LS_OK;
    ls_step_digest logged;
    LS_TRY(ls_run_log_read(ctx, side->run_log, step, &logged));
    _Static_assert(sizeof(logged) == 7 * sizeof(uint64_t), "ls_step_digest has no padding");
    if (memcmp(&logged, digest, sizeof(logged)) != 0) side->diverged = step;
    return LS_OK;
}

static ls_status next_batch(ls__compare_side *side, ls_batch *out)
{
    if (side->step == 0) LS_TRY(ls_loader_start(side->loader, side->epoch));
    if (ls_loader_next(side->loader, out)) return LS_OK;
    /* keeps the loader's own error */
    return ls__fail(context_of(side), LS_ERR_DATA,
                    "compare: no batch for step %" PRId64 " of epoch %" PRId64, side->step,
                    side->epoch);
}

static ls_status replay_step(ls__compare_side *side)
{
    ls_batch batch;
    ls_step_digest digest;
    LS_TRY(next_batch(side, &batch));
    const double lr = ls__optimizer_lr(side->optimizer, side->schedule, side->epoch, side->step);
    LS_TRY(ls_net_step(side->net, side->optimizer, &batch, lr));
    LS_TRY(ls_net_digest(side->net, &batch, &digest));
    LS_TRY(check_run_log(side, steps_done(side), &digest));
    return advance(side);
}

/* state LS__MAX_STATES: the moving average. */
static ls__trace_value state_value(const ls_optimizer *opt, int state,
                                   const ls__parameter *parameter)
{
    const bool average = state == LS__MAX_STATES;
    float *block = average ? opt->average : opt->states[state];
    ls__trace_value value = { .parameter = parameter->name,
                              .dtype = LS_F32,
                              .shape = parameter->shape,
                              .count = parameter->count,
                              .memory = block + parameter->offset };
    snprintf(value.role, sizeof(value.role), "%s",
             average ? "moving average" : ls_optimizer_state_name(opt, state));
    return value;
}

static bool same_shapes(const ls__net_blocks *a, const ls__net_blocks *b)
{
    for (int64_t i = 0; i < a->n_parameters && i < b->n_parameters; i++)
        if (!ls_shape_equal(&a->parameters[i].shape, &b->parameters[i].shape)) return false;
    return a->n_parameters == b->n_parameters;
}

/* Compares a state of the optimizers, or their moving averages, as state_value counts them. */
static ls_status compare_state(comparison *c, int state)
{
    ls_optimizer *const opts[2] = { c->sides[0].optimizer, c->sides[1].optimizer };
    const ls__net_blocks blocks = ls__net_get_blocks(c->sides[0].net);
    for (int64_t i = 0; i < blocks.n_parameters; i++) {
        const ls__parameter *parameter = &blocks.parameters[i];
        if (parameter->kind == LS_PARAMETER_BUFFER && state < LS__MAX_STATES) continue;
        const ls__trace_value values[2] = { state_value(opts[0], state, parameter),
                                            state_value(opts[1], state, parameter) };
        LS_TRY(compare_values(c, values));
        if (c->out->element < 0) continue;
        set_found(c, LS__FOUND_EARLIER, &values[1], 0);
        return LS_OK;
    }
    return LS_OK;
}

/* Compares what is not in the digests of weights. Different models are found by the next step. */
static ls_status compare_states(comparison *c)
{
    ls_optimizer *const opts[2] = { c->sides[0].optimizer, c->sides[1].optimizer };
    const ls__net_blocks blocks = ls__net_get_blocks(c->sides[0].net);
    const ls__net_blocks others = ls__net_get_blocks(c->sides[1].net);
    const int n_states = ls_optimizer_state_count(opts[0]);
    if (!same_shapes(&blocks, &others) || n_states != ls_optimizer_state_count(opts[1]))
        return LS_OK;
    for (int s = 0; s < n_states && c->out->found == LS__FOUND_NOTHING; s++)
        LS_TRY(compare_state(c, s));
    if (c->out->found != LS__FOUND_NOTHING || !opts[0]->average || !opts[1]->average) return LS_OK;
    for (int i = 0; i < 2; i++) LS_TRY(ls__optimizer_begin_average(opts[i]));
    return compare_state(c, LS__MAX_STATES);
}

static ls_status compare_step(comparison *c)
{
    ls__finding *out = c->out;
    for (int i = 0; i < 2; i++) {
        ls__compare_side *side = &c->sides[i];
        LS_TRY(next_batch(side, &c->batches[i]));
        out->lrs[i] = ls__optimizer_lr(side->optimizer, side->schedule, side->epoch, side->step);
    }
    LS_TRY(compare_batches(c));
    if (out->found == LS__FOUND_NOTHING &&
        memcmp(&out->lrs[0], &out->lrs[1], sizeof(out->lrs[0])) != 0)
        out->found = LS__FOUND_LR;
    for (int i = 0; i < 2; i++)
        LS_TRY(ls__net_step_begin(c->sides[i].net,
                                  ls__optimizer_update_of(c->sides[i].optimizer, &c->batches[i]),
                                  &c->batches[i], out->lrs[i]));
    LS_TRY(compare_ops(c));
    for (int i = 0; i < 2; i++) {
        LS_TRY(ls__net_step_end(c->sides[i].net));
        LS_TRY(ls_net_digest(c->sides[i].net, &c->batches[i], &out->digests[i]));
        LS_TRY(check_run_log(&c->sides[i], out->step, &out->digests[i]));
    }
    return LS_OK;
}

/* Starts the loader at the side's position. */
static ls_status start(ls__compare_side *side, int64_t step)
{
    side->diverged = -1;
    if (steps_done(side) > step)
        return ls__fail(context_of(side), LS_ERR_INVALID,
                        "compare: to step %" PRId64 " from step %" PRId64, step, steps_done(side));
    if (side->step ==
        ls_loader_step_count(side->loader)) { /* the checkpoint was saved before the epoch's end */
        side->step--;
        LS_TRY(advance(side));
    }
    return ls_loader_start_at(side->loader, side->epoch, side->step);
}

/* Replays up to the step, or to the first step before which the optimizers' states differ. */
static ls_status replay(comparison *c)
{
    ls__compare_side *sides = c->sides;
    for (;;) {
        const int64_t done[2] = { steps_done(&sides[0]), steps_done(&sides[1]) };
        if (done[0] == done[1]) {
            LS_TRY(compare_states(c));
            if (c->out->found == LS__FOUND_EARLIER) c->out->step = done[0];
            if (c->out->found == LS__FOUND_EARLIER || done[0] == c->out->step) return LS_OK;
        }
        for (int i = 0; i < 2; i++)
            if (done[i] <= done[1 - i]) LS_TRY(replay_step(&sides[i]));
    }
}

ls_status ls__compare_runs(ls__compare_side sides[2], int64_t step, ls__finding *out)
{
    comparison c = { .sides = sides, .out = out };
    *out = (ls__finding){ .step = step, .place = -1, .element = -1 };
    ls_status status = LS_OK;
    for (int i = 0; i < 2 && status == LS_OK; i++) status = start(&sides[i], step);
    if (status == LS_OK) status = replay(&c);
    out->epoch = sides[0].epoch;
    out->step_in_epoch = sides[0].step;
    if (status == LS_OK && out->found == LS__FOUND_NOTHING) status = compare_step(&c);
    free_buffers(&c);
    return status;
}
