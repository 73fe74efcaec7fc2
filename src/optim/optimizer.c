/* optimizer.c: one pass over the parameter block per update, for each optimizer. */
#include "optim/optimizer.h"

#include "base/alloc.h"
#include "base/element.h"
#include "base/error.h"
#include "base/floats.h"
#include "nn/graph/names.h"
#include "backend/pool.h"

#include <stddef.h>
#include <string.h>

/* ---- Segments: consecutive trained parameters with one weight decay. Gaps between parameters are
 * zero in every block, and every update keeps zeros, so a segment may include them. ---- */

static void find_segments(ls_optimizer *opt)
{
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    opt->frozen_version = blocks.frozen_version;
    opt->n_segments = 0;
    int64_t run_end = -1; /* end of the last segment's parameter, with its gap */
    for (int64_t i = 0; i < blocks.n_parameters; i++) {
        const ls__parameter *parameter = &blocks.parameters[i];
        if (parameter->kind == LS_PARAMETER_BUFFER || parameter->frozen) continue;
        const bool decays = opt->decay == LS_DECAY_ALL || parameter->kind == LS_PARAMETER_WEIGHT;
        const float weight_decay = decays ? opt->weight_decay : 0;
        ls__segment *last = opt->n_segments > 0 ? &opt->segments[opt->n_segments - 1] : NULL;
        if (last && run_end == parameter->offset && last->weight_decay == weight_decay) {
            last->count = parameter->offset + parameter->count - last->offset;
        } else {
            opt->segments[opt->n_segments++] =
                (ls__segment){ parameter->offset, parameter->count, weight_decay };
        }
        run_end = parameter->offset +
                  (int64_t)ls__round_up((size_t)parameter->count, LS__PARAMETER_ALIGNMENT);
    }
}

/* ---- Updating ---- */

static ls_optimizer *owner_of(ls__update *update)
{
    return (ls_optimizer *)((char *)update - offsetof(ls_optimizer, update));
}

static void prepare(ls__update *update)
{
    ls_optimizer *opt = owner_of(update);
    if (opt->frozen_version != ls__net_get_blocks(opt->net).frozen_version) find_segments(opt);
}

static void done(ls__update *update)
{
    ls_optimizer *opt = owner_of(update);
    opt->has_norm = opt->norm != NULL;
    update->n_steps++;
    ls__net_use_gradients(opt->net);
}

ls_status ls_net_step(ls_net *net, ls_optimizer *opt, const ls_batch *batch, double lr)
{
    LS__DEFAULT_FLOATS;
    return ls__net_step(net, "ls_net_step", opt ? &opt->update : NULL, batch, lr);
}

ls_status ls_optimizer_step(ls_optimizer *opt, double lr)
{
    LS__DEFAULT_FLOATS;
    return opt ? ls__net_update(opt->net, "ls_optimizer_step", &opt->update, lr) : LS_ERR_EARLIER;
}

/* ---- Opening and closing ---- */

/* Reads the number of updates that the net's loss scaling skipped before this optimizer's first. */
static ls_status read_skipped(ls_net *net, int64_t *skipped)
{
    *skipped = 0;
    return ls__net_get_blocks(net).loss_scale ? ls_net_loss_scale(net, NULL, skipped) : LS_OK;
}

static void close_optimizer(ls__owned *owned)
{
    ls_optimizer *opt = (ls_optimizer *)owned;
    ls_context *ctx = owned->ctx;
    ls__captures_drop(ctx, &opt->update.captures);
    for (int i = 0; i < LS__N_PARTS; i++) {
        const ls__call *call = &opt->calls[i];
        if (call->kernel) call->kernel->close(call->kernel);
        ls__pool_release(ctx->pool, call->workspace);
    }
    ls__pool_release(ctx->pool, opt->norm);
    for (int i = 0; i < LS__MAX_STATES; i++) ls__pool_release(ctx->pool, opt->states[i]);
    ls__free(ctx, opt->views);
    ls__free(ctx, opt->segments);
    ls__free(ctx, opt);
}

static ls_status allocate(const ls_optimizer *opt, const char *what, size_t bytes, void **out)
{
    ls_context *ctx = opt->owned.ctx;
    *out = ls__pool_allocate(ctx->pool, bytes);
    if (!*out) return ls__pool_fail(ctx->pool, bytes, "%s: %s", opt->kind->call, what);
    return ctx->device->backend->clear(ctx->device, *out, bytes);
}

static ls_status open_states(ls_optimizer *opt)
{
    ls_context *ctx = opt->owned.ctx;
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    const size_t n = (size_t)blocks.n_parameters;
    const size_t view_bytes = n * LS__MAX_STATES * sizeof *opt->views;
    const size_t segment_bytes = n * sizeof *opt->segments;
    opt->segments = ls__zalloc(ctx, segment_bytes);
    if (!opt->segments) return ls__fail_memory(ctx, opt->kind->call, segment_bytes);
    opt->views = ls__zalloc(ctx, view_bytes);
    if (!opt->views) return ls__fail_memory(ctx, opt->kind->call, view_bytes);
    for (int s = 0; s < opt->n_states; s++) {
        const size_t bytes = (size_t)blocks.parameter_elements * sizeof(float);
        LS_TRY(allocate(opt, opt->kind->state_names[s], bytes, (void **)&opt->states[s]));
        for (size_t i = 0; i < n; i++) {
            const ls__parameter *parameter = &blocks.parameters[i];
            if (parameter->kind == LS_PARAMETER_BUFFER) continue;
            ls__tensor_view(ctx, &opt->views[i * LS__MAX_STATES + (size_t)s], LS_F32,
                            parameter->shape, opt->states[s] + parameter->offset);
        }
    }
    if (opt->clip_norm > 0 || blocks.loss_scale)
        LS_TRY(allocate(opt, "the gradients' norm", sizeof(float), (void **)&opt->norm));
    opt->update.norm = opt->norm;
    return LS_OK;
}

/* A block of count elements; absent when count is 0. */
static ls__operand operand(int64_t count)
{
    return (ls__operand){ .dtype = LS_F32,
                          .shape = { .n_dims = count > 0 ? 1 : -1, .dims = { count } } };
}

/* Opens the kernel of a part's op, which must be complete, and appends its call. */
static ls_status open_part(ls_optimizer *opt, ls__optimizer_part part, void *const *buffers)
{
    ls__why why;
    const ls__op *op = &opt->ops[part];
    ls__selector *selector = ls__net_selector(opt->net);
    ls__call *call = &opt->calls[opt->update.n_calls];
    *call = (ls__call){ .kind = ls__op_name(op->kind),
                        .name = "optimizer",
                        .op = op,
                        .n_inputs = ls__op_inputs(op->kind),
                        .updates = true };
    memcpy(call->buffers, buffers, (size_t)op->n_operands * sizeof *buffers);
    LS_TRY(ls__selector_open_kernel(selector, op, opt->kind->call, &call->kernel, &why));
    LS_TRY(ls__selector_note_kernel(selector, op, opt->kind->call, call->kernel, &why));
    opt->update.n_calls++;
    if (call->kernel->workspace_bytes == 0) return LS_OK;
    return allocate(opt, "a workspace", call->kernel->workspace_bytes, &call->workspace);
}

static ls_status open_norm(ls_optimizer *opt, int64_t n, const ls__operand *loss_scale)
{
    ls__op *op = &opt->ops[LS__PART_NORM];
    if (!opt->norm) return LS_OK;
    *op = (ls__op){ .kind = LS__OP_L2_NORM, .n_operands = 3 };
    op->operands[0] = operand(n);
    op->operands[1] = *loss_scale;
    op->operands[2] = operand(1);
    op->u.l2_norm.segments = opt->segments;
    op->u.l2_norm.n_segments = &opt->n_segments;
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    return open_part(opt, LS__PART_NORM,
                     (void *const[]){ blocks.gradients, blocks.loss_scale, opt->norm });
}

static ls_status open_update(ls_optimizer *opt, int64_t n, const ls__operand *loss_scale)
{
    const int n_states = opt->kind->n_states;
    ls__op *op = &opt->ops[LS__PART_UPDATE];
    op->n_operands = 4 + n_states;
    op->operands[0] = op->operands[1] = operand(n);
    for (int i = 0; i < n_states; i++) op->operands[2 + i] = operand(opt->n_states ? n : 0);
    op->operands[2 + n_states] = operand(opt->norm ? 1 : 0);
    op->operands[3 + n_states] = *loss_scale;
    if (op->kind == LS__OP_SGD) {
        op->u.sgd.clip_norm = opt->clip_norm;
        op->u.sgd.segments = opt->segments;
        op->u.sgd.n_segments = &opt->n_segments;
    } else {
        op->u.adam.clip_norm = opt->clip_norm;
        op->u.adam.segments = opt->segments;
        op->u.adam.n_segments = &opt->n_segments;
    }
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    void *buffers[4 + LS__MAX_STATES] = { blocks.values, blocks.gradients };
    for (int i = 0; i < opt->n_states; i++) buffers[2 + i] = opt->states[i];
    buffers[2 + n_states] = opt->norm;
    buffers[3 + n_states] = blocks.loss_scale;
    return open_part(opt, LS__PART_UPDATE, buffers);
}

static ls_status open_kernels(ls_optimizer *opt)
{
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    const ls__operand loss_scale = operand(blocks.loss_scale ? LS__LOSS_SCALE_SIZE : 0);
    LS_TRY(open_norm(opt, blocks.parameter_elements, &loss_scale));
    LS_TRY(open_update(opt, blocks.parameter_elements, &loss_scale));
    if (!blocks.loss_scale) return LS_OK;
    ls__op *op = &opt->ops[LS__PART_SCALE];
    *op = (ls__op){ .kind = LS__OP_LOSS_SCALE_UPDATE, .n_operands = 2 };
    op->operands[0] = operand(1);
    op->operands[1] = loss_scale;
    op->u.loss_scale.growth_interval = ls__net_loss_scale_config(opt->net).growth_interval;
    return open_part(opt, LS__PART_SCALE, (void *const[]){ opt->norm, blocks.loss_scale });
}

ls_optimizer *ls__optimizer_open(ls_net *net, const ls__optimizer_kind *kind,
                                 const ls__optimizer_options *options, const ls__op *op)
{
    ls_context *ctx = ls_net_context(net);
    const ls__net_blocks blocks = ls__net_get_blocks(net);
    if (!blocks.gradients || blocks.parameter_elements == 0) {
        ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: the net %s", kind->call,
                 blocks.gradients ? "has no parameters" : "was built for inference");
        return NULL;
    }
    ls_optimizer *opt = ls__zalloc(ctx, sizeof *opt);
    if (!opt) {
        ls__fail_memory(ctx, kind->call, sizeof *opt);
        return NULL;
    }
    opt->owned.ctx = ctx;
    opt->net = net;
    opt->update = (ls__update){ .net = net,
                                .calls = opt->calls,
                                .serial = ls__net_number_optimizer(net),
                                .prepare = prepare,
                                .done = done };
    opt->kind = kind;
    opt->weight_decay = options->weight_decay;
    opt->clip_norm = options->clip_norm;
    opt->decay = options->decay;
    opt->n_states = options->stateless ? 0 : kind->n_states;
    opt->ops[LS__PART_UPDATE] = *op;
    ls_status status = read_skipped(net, &opt->skipped_before);
    opt->update.n_steps = opt->skipped_before;
    if (status == LS_OK) status = open_states(opt);
    if (status == LS_OK) {
        find_segments(opt);
        status = open_kernels(opt);
    }
    if (status != LS_OK) {
        close_optimizer(&opt->owned);
        return NULL;
    }
    ls__own(ctx, &opt->owned, close_optimizer);
    return opt;
}

void ls_optimizer_close(ls_optimizer **opt)
{
    if (!opt || !*opt) return;
    ls__disown_and_close(&(*opt)->owned);
    *opt = NULL;
}

/* ---- Accessors ---- */

int64_t ls_optimizer_step_count(const ls_optimizer *opt)
{
    return opt ? opt->update.n_steps - ls__optimizer_skipped_before(opt) : 0;
}

ls_status ls_optimizer_set_step_count(ls_optimizer *opt, int64_t steps)
{
    if (!opt) return LS_ERR_EARLIER;
    LS__ENTER(opt->owned.ctx);
    const ls__field fields[] = { { "steps", (double)steps, LS__COUNT } };
    if (!ls__check_fields(opt->owned.ctx, "ls_optimizer_set_step_count", fields, 1))
        return LS_ERR_INVALID;
    int64_t skipped;
    LS_TRY(read_skipped(opt->net, &skipped));
    ls__optimizer_set_updates(opt, steps, skipped);
    return LS_OK;
}

int64_t ls__optimizer_skipped_before(const ls_optimizer *opt)
{
    return opt->skipped_before;
}

void ls__optimizer_set_updates(ls_optimizer *opt, int64_t steps, int64_t skipped_before)
{
    opt->skipped_before = skipped_before;
    opt->update.n_steps = steps + skipped_before;
}

ls_status ls_optimizer_gradient_norm(ls_optimizer *opt, double *norm)
{
    LS__DEFAULT_FLOATS;
    if (!opt) return LS_ERR_EARLIER;
    ls_context *ctx = opt->owned.ctx;
    LS__ENTER(ctx);
    if (!norm) return ls__fail(ctx, LS_ERR_INVALID, "ls_optimizer_gradient_norm: norm is NULL");
    if (!opt->has_norm)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_optimizer_gradient_norm: %s",
                        opt->norm ? "no step has been done yet"
                                  : "the optimizer has no clip_norm, so it measures none");
    float value;
    LS_TRY(ctx->device->backend->read(ctx->device, &value, opt->norm, sizeof value));
    *norm = (double)value;
    return LS_OK;
}

const char *ls_optimizer_name(const ls_optimizer *opt)
{
    return opt ? opt->kind->name : "";
}

int ls_optimizer_state_count(const ls_optimizer *opt)
{
    return opt ? opt->n_states : 0;
}

const char *ls_optimizer_state_name(const ls_optimizer *opt, int state)
{
    const bool known = state >= 0 && state < ls_optimizer_state_count(opt);
    return known ? opt->kind->state_names[state] : "";
}

ls_tensor *ls_optimizer_state(ls_optimizer *opt, int state, const char *parameter)
{
    if (!opt) return NULL;
    LS__ENTER_NULL(opt->owned.ctx);
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    if (state < 0 || state >= ls_optimizer_state_count(opt)) {
        ls__fail(opt->owned.ctx, LS_ERR_INVALID, "ls_optimizer_state: state %d of %d of %s", state,
                 ls_optimizer_state_count(opt), ls_optimizer_name(opt));
        return NULL;
    }
    for (int64_t i = 0; parameter && i < blocks.n_parameters; i++)
        if (blocks.parameters[i].kind != LS_PARAMETER_BUFFER &&
            strcmp(blocks.parameters[i].name, parameter) == 0)
            return &opt->views[i * LS__MAX_STATES + state];
    char names[LS__NAMES_TEXT_SIZE];
    if (!parameter) parameter = "(null)";
    ls__fail(
        opt->owned.ctx, LS_ERR_NOT_FOUND, "ls_optimizer_state: the net has no parameter '%s'; %s",
        parameter,
        ls__nearest_parameters(blocks.n_parameters, blocks.parameters, false, parameter, names));
    return NULL;
}

float *ls__optimizer_state_block(const ls_optimizer *opt, int state)
{
    return opt->states[state];
}

void ls__optimizer_settings(const ls_optimizer *opt, ls__setting_fn put, void *user)
{
    opt->kind->settings(&opt->ops[LS__PART_UPDATE], put, user);
    ls__put_setting(put, user, "weight_decay", ls__shortest(opt->weight_decay));
    ls__put_setting(put, user, "decay_of_weights_only",
                    opt->weight_decay > 0 && opt->decay == LS_DECAY_WEIGHTS);
    ls__put_setting(put, user, "clip_norm", ls__shortest(opt->clip_norm));
    const ls_loss_scale_config scale = ls__net_loss_scale_config(opt->net);
    ls__put_setting(put, user, "loss_scale", ls__shortest(scale.initial));
    ls__put_setting(put, user, "loss_scale_growth_interval", (double)scale.growth_interval);
}
