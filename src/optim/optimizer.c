/* optimizer.c: opens an optimizer: its states, and the calls of an update over the parameter block.
 * The loops over the weights are kernels: cpu/ops/optimizer.c, cuda/kernels/optimizer.cu. */
#include "optim/optimizer.h"

#include "base/alloc.h"
#include "arith/element.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/minmax.h"
#include "backend/pool.h"
#include <string.h>

/* ---- Opening and closing ---- */

static void close_optimizer(ls__owned *owned)
{
    ls_optimizer *opt = (ls_optimizer *)owned;
    ls_context *ctx = owned->ctx;
    ls__captures_drop(ctx, &opt->update.captures);
    ls__captures_drop(ctx, &opt->accumulation.captures);
    ls__captures_drop(ctx, &opt->measurement.captures);
    for (int i = 0; i < LS__MAX_UPDATE_CALLS; i++) ls__call_close(ctx, &opt->calls[i]);
    ls__call_close(ctx, &opt->norm_call);
    ls__pool_release(ctx->pool, opt->norm);
    ls__pool_release(ctx->pool, opt->average);
    ls__pool_release(ctx->pool, opt->exchange);
    for (int i = 0; i < LS__MAX_STATES; i++) ls__pool_release(ctx->pool, opt->states[i]);
    ls__optimizer_drop_whole(opt);
    ls__partition_close(&opt->partition);
    ls__free(ctx, opt->views);
    ls__free(ctx, opt->segments);
    ls__free(ctx, opt->own_segments);
    ls__free(ctx, opt->parameters);
    ls__groups_close(ctx, &opt->groups);
    ls__release(opt->net);
    ls__free(ctx, opt);
}

static ls_status optimizer_allocate(const ls_optimizer *opt, const char *what, size_t bytes,
                                    void **out)
{
    ls_context *ctx = opt->owned.ctx;
    *out = ls__pool_allocate(ctx->pool, bytes);
    if (!*out) return ls__pool_fail(ctx->pool, bytes, "%s: %s", opt->kind->call, what);
    return ctx->device->backend->clear(ctx->device, *out, bytes);
}

static ls_status open_state(ls_optimizer *opt, const char *name, int64_t count)
{
    ls_context *ctx = opt->owned.ctx;
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    const int s = opt->n_states++;
    const size_t bytes = (size_t)count * sizeof(float);
    opt->state_names[s] = name;
    LS_TRY(optimizer_allocate(opt, name, bytes, (void **)&opt->states[s]));
    for (int64_t i = 0; i < blocks.n_parameters && !opt->partition.parts; i++) {
        const ls__parameter *parameter = &blocks.parameters[i];
        float *state = ls__optimizer_state(opt, s, parameter);
        if (state)
            ls__tensor_view(ctx, &opt->views[i * LS__MAX_STATES + s], LS_F32, parameter->shape,
                            state);
    }
    return LS_OK;
}

float *ls__optimizer_state(const ls_optimizer *opt, int i, const ls__parameter *parameter)
{
    const bool is_average = i == opt->n_states;
    float *whole = ls__optimizer_whole(opt, i), *state = is_average ? opt->average : opt->states[i];
    const int64_t at = parameter->offset - opt->averaged.begin;
    if (!state) return NULL;
    if (parameter->kind == LS_PARAMETER_BUFFER) {
        if (!is_average || at < 0 || at >= opt->averaged.count) return NULL;
        return whole ? whole + parameter->offset : state + opt->partition.own.count + at;
    }
    if (!ls__is_trained_by(opt->parameters, parameter)) return NULL;
    if (whole) return whole + parameter->offset;
    return state +
           (parameter->offset - (state == opt->sum ? opt->range.begin : opt->partition.own.begin));
}

static ls_status open_norm(ls_optimizer *opt)
{
    return optimizer_allocate(opt, "the gradients' norm", sizeof(float), (void **)&opt->norm);
}

static ls_status open_states(ls_optimizer *opt)
{
    ls_context *ctx = opt->owned.ctx;
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    const size_t n = (size_t)blocks.n_parameters;
    const size_t view_bytes = n * LS__MAX_STATES * sizeof *opt->views;
    const size_t segment_bytes = n * sizeof *opt->segments;
    opt->segments = ls__zalloc(ctx, segment_bytes);
    opt->own_segments = ls__zalloc(ctx, segment_bytes);
    if (!opt->segments || !opt->own_segments)
        return ls__fail_memory(ctx, opt->kind->call, segment_bytes);
    opt->views = ls__zalloc(ctx, view_bytes);
    if (!opt->views) return ls__fail_memory(ctx, opt->kind->call, view_bytes);
    for (int slot = 0; slot < opt->kind->n_states; slot++) {
        if (opt->options.absent_states >> slot & 1) continue;
        LS_TRY(open_state(opt, opt->kind->state_names[slot], opt->partition.own.count));
    }
    if (opt->options.accumulate > 1) {
        LS_TRY(open_state(opt, "accumulated", opt->range.count));
        opt->sum = opt->states[opt->n_states - 1];
    }
    if (opt->options.clip_norm > 0 || blocks.loss_scale) LS_TRY(open_norm(opt));
    opt->update.norm = opt->norm;
    return LS_OK;
}

static ls_status open_average(ls_optimizer *opt)
{
    const size_t bytes = (size_t)(opt->partition.own.count + opt->averaged.count) * sizeof(float);
    const size_t exchanged = ls__min_size(bytes, LS__AVERAGES_EXCHANGED * sizeof(float));
    if (opt->options.ema_decay == 0) return LS_OK;
    LS_TRY(optimizer_allocate(opt, "the moving averages", bytes, (void **)&opt->average));
    LS_TRY(optimizer_allocate(opt, "the exchange of averages", exchanged, (void **)&opt->exchange));
    return ls__optimizer_begin_average(opt);
}

/* Opens the kernel of an op with these operands, and makes its call. */
static ls_status make_call(ls_optimizer *opt, const ls__op *settings, int n_blocks,
                           const ls__block *blocks, ls__op *op, ls__call *call)
{
    *op = *settings;
    return ls__selector_open_call(ls__net_selector(opt->net), op, opt->kind->call, "optimizer",
                                  n_blocks, blocks, call);
}

/* Appends the call to those of the update, unless the first operand is an empty part. */
static ls_status open_call(ls_optimizer *opt, const ls__op *settings, int n_blocks,
                           const ls__block *blocks)
{
    const int i = opt->update.n_calls;
    LS_TRY(make_call(opt, settings, n_blocks, blocks, &opt->ops[i], &opt->calls[i]));
    opt->update.n_calls += opt->calls[i].kernel != NULL;
    return LS_OK;
}

static ls_status open_update(ls_optimizer *opt, const ls__op *settings, ls__block values,
                             ls__block gradients, ls__block loss_scale, ls__block norm)
{
    opt->settings = *settings;
    /* It is the first member of the settings of each kind of update, whose others stay. */
    opt->settings.u.block = (ls__block_settings){ .segments = opt->own_segments,
                                                  .n_segments = &opt->n_own_segments,
                                                  .clip_norm = opt->options.clip_norm,
                                                  .clip_value = opt->options.clip_value };
    ls__block blocks[4 + LS__MAX_STATES] = { values, gradients };
    int n = 2, state = 0;
    for (int slot = 0; slot < opt->kind->n_states; slot++) {
        const bool absent = opt->options.absent_states >> slot & 1;
        blocks[n] = values;
        blocks[n++].memory = absent ? NULL : opt->states[state++];
    }
    blocks[n++] = norm;
    blocks[n++] = loss_scale;
    return open_call(opt, &opt->settings, n, blocks);
}

/* The call of a batch without an update, after those of the update. */
static ls_status open_gradient_sum(ls_optimizer *opt, ls__block gradients, ls__block sum)
{
    const int n = opt->update.n_calls;
    const ls__op op = { .kind = LS__OP_GRADIENT_SUM };
    LS_TRY(open_call(opt, &op, 2, (const ls__block[]){ gradients, sum }));
    opt->accumulation.calls = &opt->calls[n];
    opt->accumulation.n_calls = opt->update.n_calls - n;
    opt->update.n_calls = n;
    return LS_OK;
}

static ls_status open_average_call(ls_optimizer *opt, ls__averaged a, ls__block norm,
                                   ls__block loss_scale)
{
    const ls__op op = { .kind = LS__OP_EMA, .u.ema.decay = opt->options.ema_decay };
    const ls_shape part = LS_SHAPE(a.count);
    const ls_shape whole = LS_SHAPE(ls__net_get_blocks(opt->net).block_elements);
    return open_call(opt, &op, 4,
                     (const ls__block[]){ { part, a.values, .whole = whole },
                                          { part, a.average, .whole = whole },
                                          norm,
                                          loss_scale });
}

/* The call of the gradients' norm. */
static ls_status make_norm_call(ls_optimizer *opt, ls__op *out, ls__call *call)
{
    const ls__net_blocks net = ls__net_get_blocks(opt->net);
    const ls__op op = { .kind = LS__OP_L2_NORM,
                        .u.block = { .segments = opt->segments, .n_segments = &opt->n_segments } };
    const ls__block blocks[] = {
        { LS_SHAPE(opt->range.count), net.gradients + opt->range.begin },
        { LS_SHAPE(LS__LOSS_SCALE_SIZE), net.loss_scale },
        { LS_SHAPE(1), opt->norm },
    };
    return make_call(opt, &op, 3, blocks, out, call);
}

ls_status ls__optimizer_open_measurement(ls_optimizer *opt)
{
    if (!opt->norm) LS_TRY(open_norm(opt));
    LS_TRY(make_norm_call(opt, &opt->norm_op, &opt->norm_call));
    opt->measurement.serial = ls__net_number_update(opt->net);
    opt->measurement.n_calls = 1;
    return LS_OK;
}

static ls_status open_calls(ls_optimizer *opt, const ls__op *settings)
{
    const ls__net_blocks net = ls__net_get_blocks(opt->net);
    const ls__part *part = &opt->partition.own;
    const ls_shape all = LS_SHAPE(opt->partition.parts ? net.parameter_elements : opt->range.count),
                   own = LS_SHAPE(part->count), range = LS_SHAPE(opt->range.count);
    const ls__block gradients = { range, net.gradients + opt->range.begin };
    const ls__block values = { own, net.values + part->begin, .whole = all };
    const ls__block own_gradients = { own, net.gradients + part->begin, .whole = all };
    const ls__block sum = { range, opt->sum }, norm = { LS_SHAPE(1), opt->norm };
    const ls__block loss_scale = { LS_SHAPE(LS__LOSS_SCALE_SIZE), net.loss_scale };
    if (opt->sum) {
        const ls__op op = { .kind = LS__OP_GRADIENT_MEAN };
        LS_TRY(open_call(opt, &op, 2, (const ls__block[]){ gradients, sum }));
    }
    if (opt->norm) {
        const int i = opt->update.n_calls++;
        LS_TRY(make_norm_call(opt, &opt->ops[i], &opt->calls[i]));
    }
    LS_TRY(open_update(opt, settings, values, own_gradients, loss_scale, norm));
    for (int i = 0; i < LS__AVERAGED_RANGES && opt->average; i++)
        LS_TRY(open_average_call(opt, ls__averaged_range(opt, i), norm, loss_scale));
    if (net.loss_scale) {
        ls__op op = { .kind = LS__OP_LOSS_SCALE_UPDATE };
        op.u.loss_scale.growth_interval = ls__net_config(opt->net)->loss_scale.growth_interval;
        LS_TRY(open_call(opt, &op, 2, (const ls__block[]){ norm, loss_scale }));
    }
    ls__partition_make_calls(&opt->partition, &opt->calls[opt->update.n_calls]);
    opt->update.n_calls += opt->partition.n_exchanges;
    return opt->sum ? open_gradient_sum(opt, gradients, sum) : LS_OK;
}

static ls_status check_options(ls_context *ctx, const char *call, const ls__optimizer_options *o)
{
    const ls__field fields[] = {
        { "weight_decay", (double)o->decay.weight_decay, LS__NOT_NEGATIVE },
        { "weight_decay_scope", o->decay.weight_decay_scope, LS__SELECTION_OF_2 },
        { "clip_norm", (double)o->clip_norm, LS__NOT_NEGATIVE },
        { "clip_value", (double)o->clip_value, LS__NOT_NEGATIVE },
        { "ema_decay", (double)o->ema_decay, LS__BELOW_ONE },
        { "accumulate", (double)o->accumulate, LS__COUNT }
    };
    return ls__check_fields(ctx, call, fields, sizeof fields / sizeof fields[0]);
}

ls_optimizer *ls__optimizer_open(ls_net *net, const ls__optimizer_kind *kind,
                                 const ls__optimizer_options *options, const ls__op *op)
{
    ls_context *ctx = ls_net_context(net);
    const ls__net_blocks blocks = ls__net_get_blocks(net);
    if (check_options(ctx, kind->call, options) != LS_OK) return NULL;
    if (!blocks.gradients || blocks.parameter_elements == 0)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: the net %s", kind->call,
                        blocks.gradients ? "has no parameters" : "was built for inference"),
               NULL;
    ls_optimizer *opt = ls__zalloc(ctx, sizeof *opt);
    if (!opt) return ls__fail_memory(ctx, kind->call, sizeof *opt), NULL;
    opt->owned.ctx = ctx;
    opt->net = net;
    ls__use(net);
    opt->kind = kind;
    opt->options = *options;
    if (options->accumulate == 0) opt->options.accumulate = 1;
    ls__optimizer_open_updates(opt);
    ls_status status = ls__optimizer_find_ranges(opt, options->parameters);
    opt->options.parameters = NULL;
    if (status == LS_OK)
        status = ls__groups_open(net, kind->call, options->parameters, options->groups,
                                 options->n_groups, &options->decay, &opt->groups);
    opt->options.groups = NULL;
    if (status == LS_OK) status = ls__optimizer_read_skipped(net, &opt->skipped_before);
    opt->update.n_steps = opt->skipped_before;
    if (status == LS_OK)
        status = ls__partition_open(ctx, blocks.values, blocks.parameter_elements, opt->range,
                                    &opt->partition);
    if (status == LS_OK) status = open_states(opt);
    if (status == LS_OK) status = open_average(opt);
    if (status == LS_OK) {
        ls__optimizer_find_segments(opt);
        status = open_calls(opt, op);
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
    return opt ? opt->update.n_steps - opt->skipped_before : 0;
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
    return known ? opt->state_names[state] : "";
}

ls_tensor *ls_optimizer_state(ls_optimizer *opt, int state, const char *parameter)
{
    if (!opt) return NULL;
    LS__ENTER_NULL(opt->owned.ctx);
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    if (state < 0 || state >= ls_optimizer_state_count(opt))
        return ls__fail(opt->owned.ctx, LS_ERR_INVALID, "ls_optimizer_state: state %d of %d of %s",
                        state, ls_optimizer_state_count(opt), ls_optimizer_name(opt)),
               NULL;
    if (opt->partition.parts)
        return ls__fail(opt->owned.ctx, LS_ERR_UNSUPPORTED,
                        "ls_optimizer_state: the states are partitioned among the ranks; save a "
                        "checkpoint to read them"),
               NULL;
    const int64_t i = ls__find_parameter(blocks.n_parameters, blocks.parameters, parameter);
    if (i >= 0 && ls__is_trained_by(opt->parameters, &blocks.parameters[i]))
        return &opt->views[i * LS__MAX_STATES + state];
    if (i >= 0 && blocks.parameters[i].kind != LS_PARAMETER_BUFFER)
        return ls__fail(opt->owned.ctx, LS_ERR_NOT_FOUND,
                        "ls_optimizer_state: the optimizer trains '%s', not '%s'", opt->parameters,
                        parameter),
               NULL;
    char names[LS__NAMES_TEXT_SIZE];
    if (!parameter) parameter = "(null)";
    ls__fail(
        opt->owned.ctx, LS_ERR_NOT_FOUND, "ls_optimizer_state: the net has no parameter '%s'; %s",
        parameter,
        ls__nearest_parameters(blocks.n_parameters, blocks.parameters, false, parameter, names));
    return NULL;
}

void ls__optimizer_settings(const ls_optimizer *opt, ls__setting_fn put, void *user)
{
    opt->kind->settings(&opt->settings, put, user);
    ls__put_setting(put, user, "weight_decay", ls__shortest(opt->options.decay.weight_decay));
    ls__put_setting(put, user, "decay_of_weights_only",
                    (opt->options.decay.weight_decay > 0 || opt->groups.n > 0) &&
                        opt->options.decay.weight_decay_scope == LS_WEIGHT_DECAY_WEIGHTS);
    ls__put_setting(put, user, "clip_norm", ls__shortest(opt->options.clip_norm));
    ls__put_setting(put, user, "clip_value", ls__shortest(opt->options.clip_value));
    ls__put_setting(put, user, "ema_decay", ls__shortest(opt->options.ema_decay));
    ls__put_setting(put, user, "accumulate", opt->sum ? (double)opt->options.accumulate : 0);
    const ls_loss_scale_config scale = ls__net_config(opt->net)->loss_scale;
    ls__put_setting(put, user, "loss_scale", ls__shortest(scale.initial));
    ls__put_setting(put, user, "loss_scale_growth_interval", (double)scale.growth_interval);
}
