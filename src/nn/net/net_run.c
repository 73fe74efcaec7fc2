/* net_run.c: feeding a net and running its programs. */
#include "base/error.h"
#include "base/floats.h"
#include "nn/net/net_state.h"
#include <string.h>

/* ---- One thread at a time ---- */

static ls_status enter(ls_net *net, const char *call)
{
    LS__ENTER(ls__net_context(net));
    if (!atomic_exchange(&net->busy, true)) return LS_OK;
    return ls__fail(
        net->owned.ctx, LS_ERR_INVALID,
        "%s: another call is running on this net, in another thread or around a "
        "callback of ls_custom_op; a context and all that was opened through it belong to one "
        "thread at a time",
        call);
}

static ls_status leave(ls_net *net, ls_status status)
{
    atomic_store(&net->busy, false);
    return status;
}

/* ---- Feeding ---- */

static int find_input(ls_net *net, const char *call, const char *name)
{
    return ls__expect_named(net->owned.ctx, &net->graph.inputs, call, "input", name);
}

static ls_status feed(ls_net *net, const char *call, int input, const ls_tensor *tensor)
{
    const ls_node *node = net->graph.inputs.items[input].node;
    if (tensor->owned.ctx != net->owned.ctx)
        return ls__fail(net->owned.ctx, LS_ERR_MISMATCH,
                        "%s: the tensor for input '%s' belongs to another context than the net",
                        call, node->name);
    const ls_shape *expected = &node->spec.shape, *got = ls_tensor_shape(tensor);
    if (ls_tensor_dtype(tensor) != node->spec.dtype || got->n_dims != expected->n_dims ||
        ls_tensor_element_count(tensor) == 0) {
        char a[LS_SHAPE_TEXT_SIZE], b[LS_SHAPE_TEXT_SIZE];
        return ls__fail(net->owned.ctx, LS_ERR_SHAPE,
                        "input '%s': got %s %s; the net was built for %s %s", node->name,
                        ls_dtype_name(ls_tensor_dtype(tensor)), ls_shape_text(got, a, sizeof a),
                        ls_dtype_name(node->spec.dtype), ls_shape_text(expected, b, sizeof b));
    }
    net->feeds[input] = tensor;
    return LS_OK;
}

static ls_status feed_named(ls_net *net, const char *name, const ls_tensor *tensor)
{
    const int input = find_input(net, "ls_net_feed", name);
    if (input < 0) return LS_ERR_NOT_FOUND;
    if (!tensor)
        return ls__fail(net->owned.ctx, LS_ERR_INVALID, "ls_net_feed '%s': the tensor is NULL",
                        name);
    return feed(net, "ls_net_feed", input, tensor);
}

ls_status ls_net_feed(ls_net *net, const char *name, const ls_tensor *tensor)
{
    LS_TRY(enter(net, "ls_net_feed"));
    return leave(net, feed_named(net, name, tensor));
}

ls_status ls_net_set_step(ls_net *net, int64_t epoch, int64_t step)
{
    LS__ENTER(ls__net_context(net));
    if (epoch < 0 || step < 0)
        return ls__fail(net->owned.ctx, LS_ERR_INVALID, "ls_net_set_step: epoch %lld, step %lld",
                        (long long)epoch, (long long)step);
    net->executor.step.epoch = epoch;
    net->executor.step.step = step;
    return LS_OK;
}

/* ---- Running ---- */

/* Finds the programs for the fed inputs: of each part, which is the whole batch or a shard
 * (plan/shard.h). */
static ls_status net_find_parts(ls_net *net, ls_mode mode)
{
    const ls__named_list *inputs = &net->graph.inputs;
    for (int i = 0; i < inputs->n; i++) {
        if (!net->feeds[i])
            return ls__fail(
                net->owned.ctx, LS_ERR_INVALID, "net: input '%s' has not been fed%s",
                inputs->items[i].name,
                net->has_run && !pthread_equal(net->last_thread, pthread_self())
                    ? " since another thread ran this net; a net belongs to one thread at a time"
                    : "");
        net->fed_specs[i] =
            (ls_spec){ ls_tensor_dtype(net->feeds[i]), *ls_tensor_shape(net->feeds[i]) };
    }
    LS_TRY(ls__net_check_labels(net));
    net->has_run = true;
    net->last_thread = pthread_self();
    if (mode == LS_MODE_TRAIN && net->shards.n > 1) return ls__net_find_shards(net);
    net->shards.list[0] = (ls__shard){ 0 };
    net->shards.parts = (ls__parts){ net->shards.list, .n = 1, .n_all = 1, .feeds = net->feeds };
    ls__program *program;
    LS_TRY(ls__net_program(net, mode, net->fed_specs, false, &program));
    net->shards.list[0].program = program;
    net->shards.list[0].calls = program->calls;
    return LS_OK;
}

static void view_outputs(ls_net *net, const ls__program *program)
{
    for (int i = 0; i < net->graph.outputs.n; i++) {
        const ls__value *value = &program->values[program->output_values[i]];
        ls__tensor_view(net->owned.ctx, &net->output_views[i], value->dtype, value->shape,
                        ls__program_address(program, program->output_values[i]));
    }
    for (int i = 0; i < net->graph.inputs.n; i++) {
        const int v = program->input_gradients[i];
        net->gradient_of_inputs[i] = (ls_tensor){ 0 };
        if (v >= 0)
            ls__tensor_view(net->owned.ctx, &net->gradient_of_inputs[i], LS_F32,
                            program->values[v].shape, ls__program_address(program, v));
    }
}

/* Makes the call list of a step over the fed inputs. */
static ls_status net_begin(ls_net *net, ls__update *update, double lr)
{
    const ls__parts *parts = &net->shards.parts;
    ls__program *program = parts->list[parts->n - 1].program;
    net->unlabelled = false;
    for (int i = 0; i < net->graph.inputs.n; i++)
        net->unlabelled |= net->feeds[i] == &net->no_labels || net->feeds[i] == &net->no_targets;
    net->current = NULL;
    net->forward_done = false;
    net->n_samples = net->feeds[0]->shape.dims[0];
    LS_TRY(ls__executor_begin(&net->executor, parts, update, lr));
    net->current = program;
    if (program->gradients) ls__net_use_gradients(net);
    view_outputs(net, program);
    return LS_OK;
}

/* Fed tensors belong to the caller and are valid for one forward. */
static void forget_feeds(ls_net *net)
{
    for (int i = 0; i < net->graph.inputs.n; i++) net->feeds[i] = NULL;
}

/* The backward pass of this step makes gradients; the step's update uses its own. */
static void expect_gradients(ls_net *net)
{
    net->has_gradients = true;
    ls__net_begin(net);
    for (int i = 0; i < net->graph.n_parameters; i++) {
        ls__parameter *parameter = &net->graph.parameters[i];
        parameter->has_gradient = parameter->kind != LS_PARAMETER_BUFFER && !parameter->frozen;
    }
}

ls_status ls__net_run_to(ls_net *net, int end)
{
    const ls__executor *x = &net->executor;
    const bool makes_gradients = net->current->gradients && end == x->list->n_calls;
    if (makes_gradients) expect_gradients(net);
    const ls_status status = ls__executor_run(&net->executor, end);
    if (status != LS_OK || x->next >= x->list->ends[LS__PHASE_COPIES]) forget_feeds(net);
    if (status != LS_OK && makes_gradients) ls__net_use_gradients(net);
    if (status != LS_OK) net->current = NULL; /* there are no results */
    return status;
}

static ls_status net_forward(ls_net *net)
{
    LS_TRY(net_begin(net, NULL, 0));
    const ls_status status = ls__net_run_to(net, net->executor.list->ends[LS__PHASE_FORWARD]);
    net->forward_done = status == LS_OK && net->current->gradients;
    return status;
}

static ls_status forward_fed(ls_net *net, ls_mode mode)
{
    if (mode != LS_MODE_TRAIN && mode != LS_MODE_EVAL)
        return ls__fail(net->owned.ctx, LS_ERR_INVALID, "ls_net_forward: mode %d", (int)mode);
    if (mode == LS_MODE_TRAIN) LS_TRY(ls__net_refuse_shards(net, "ls_net_forward"));
    LS_TRY(net_find_parts(net, mode));
    return net_forward(net);
}

ls_status ls_net_forward(ls_net *net, ls_mode mode)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(enter(net, "ls_net_forward"));
    return leave(net, forward_fed(net, mode));
}

static bool has_external_loss(const ls_net *net)
{
    return !net->config.inference && net->graph.losses.n == 0;
}

static ls_status refuse_external_loss(const ls_net *net, const char *call)
{
    if (!has_external_loss(net)) return LS_OK;
    return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                    "%s: the net was built with LS_LOSS_EXTERNAL; call ls_net_forward, "
                    "ls_net_backward_from and ls_optimizer_step",
                    call);
}

static ls_status expect_forward(const ls_net *net, const char *call)
{
    if (net->config.inference)
        return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED, "%s: the net was built for inference",
                        call);
    if (net->current && net->forward_done) return LS_OK;
    return ls__fail(net->owned.ctx, LS_ERR_INVALID,
                    "%s: call ls_net_forward in mode LS_MODE_TRAIN first", call);
}

static ls_status net_backward(ls_net *net, const char *call)
{
    LS_TRY(expect_forward(net, call));
    net->forward_done = false;
    return ls__net_run_to(net, net->executor.list->n_calls);
}

static ls_status backward_of_losses(ls_net *net)
{
    LS_TRY(refuse_external_loss(net, "ls_net_backward"));
    return net_backward(net, "ls_net_backward");
}

ls_status ls_net_backward(ls_net *net)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(enter(net, "ls_net_backward"));
    return leave(net, backward_of_losses(net));
}

static ls_status check_output_gradient(const ls_net *net, int output, const ls_tensor *gradient)
{
    static const char call[] = "ls_net_backward_from";
    ls_context *ctx = net->owned.ctx;
    const char *name = net->graph.outputs.items[output].name;
    if (!gradient)
        return ls__fail(ctx, LS_ERR_INVALID, "%s '%s': the gradient is NULL", call, name);
    if (gradient->owned.ctx != ctx)
        return ls__fail(ctx, LS_ERR_MISMATCH,
                        "%s '%s': the gradient belongs to another context than the net", call,
                        name);
    if (net->current->output_gradients[output] < 0)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "%s: output '%s' depends on no parameter that is trained, and on no input "
                        "whose gradient is required",
                        call, name);
    if (ls_tensor_dtype(gradient) != LS_F32)
        return ls__fail(ctx, LS_ERR_TYPE, "%s '%s': the gradient is %s, expected F32", call, name,
                        ls_dtype_name(ls_tensor_dtype(gradient)));
    const ls_shape *expected = &net->output_views[output].shape, *got = ls_tensor_shape(gradient);
    if (ls_shape_equal(expected, got)) return LS_OK;
    char a[LS_SHAPE_TEXT_SIZE], b[LS_SHAPE_TEXT_SIZE];
    return ls__fail(ctx, LS_ERR_SHAPE, "%s '%s': the gradient is %s, the output %s", call, name,
                    ls_shape_text(got, a, sizeof a), ls_shape_text(expected, b, sizeof b));
}

static ls_status backward_from(ls_net *net, const char *name, const ls_tensor *gradient)
{
    static const char call[] = "ls_net_backward_from";
    ls__device *device = net->owned.ctx->device;
    const ls__named_list *outputs = &net->graph.outputs;
    if (net->graph.losses.n > 0)
        return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                        "%s: the net has the loss '%s'; expected one built with LS_LOSS_EXTERNAL",
                        call, net->graph.losses.items[0].name);
    LS_TRY(expect_forward(net, call));
    const int output = ls__expect_named(net->owned.ctx, outputs, call, "output", name);
    if (output < 0) return LS_ERR_NOT_FOUND;
    LS_TRY(check_output_gradient(net, output, gradient));
    for (int i = 0; i < outputs->n; i++) {
        const int v = net->current->output_gradients[i];
        if (v < 0) continue;
        const size_t bytes = net->current->values[v].bytes;
        void *memory = ls__program_address(net->current, v);
        LS_TRY(i == output ? device->backend->copy(device, memory, gradient->data, bytes)
                           : device->backend->clear(device, memory, bytes));
    }
    return net_backward(net, call);
}

ls_status ls_net_backward_from(ls_net *net, const char *output, const ls_tensor *gradient)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(enter(net, "ls_net_backward_from"));
    return leave(net, backward_from(net, output, gradient));
}

static ls_status feed_labels(ls_net *net, const char *call, ls_mode mode, const ls_batch *batch,
                             int64_t n_images)
{
    const int label = ls__find_named(&net->graph.inputs, "label");
    if (label < 0) return LS_OK;
    if (batch->labels) return feed(net, call, label, batch->labels);
    if (mode != LS_MODE_EVAL || net->config.loss.kind == LS_LOSS_NONE || net->feeds[label])
        return LS_OK;
    LS_TRY(ls__net_fill_constant(net, &net->no_labels, LS_I32, LS_SHAPE(n_images), -1));
    return feed(net, call, label, &net->no_labels);
}

/* Whether ls_net_config.loss reads targets alone. */
static bool has_target_loss(const ls_net *net)
{
    const ls_loss_kind kind = net->config.loss.kind;
    return kind == LS_LOSS_BINARY_CROSS_ENTROPY || kind == LS_LOSS_MSE;
}

/* Feeds the batch's own targets, or those made of its labels; in evaluation there may be none. */
static ls_status feed_targets(ls_net *net, const char *call, ls_mode mode, const ls_batch *batch,
                              int64_t n_images)
{
    const ls__named_list *inputs = &net->graph.inputs;
    const int target = ls__find_named(inputs, "target");
    /* Samples with labels and targets are also for a loss of the labels. */
    if (target < 0 && batch->targets && net->config.loss.kind != LS_LOSS_NONE &&
        net->config.input.n_targets == 0)
        return ls__fail(net->owned.ctx, LS_ERR_INVALID,
                        "%s: the batch has targets, which the loss does not read; set "
                        "loss.soft_targets",
                        call);
    if (target < 0) return LS_OK;
    if (batch->targets) return feed(net, call, target, batch->targets);
    const int64_t columns = inputs->items[target].node->spec.shape.dims[1];
    if (has_target_loss(net) && mode == LS_MODE_EVAL && !net->feeds[target]) {
        const ls_shape shape = LS_SHAPE(n_images, columns);
        LS_TRY(ls__net_fill_constant(net, &net->no_targets, LS_F32, shape, 0));
        return feed(net, call, target, &net->no_targets);
    }
    const int label = ls__find_named(inputs, "label");
    if (!net->config.loss.soft_targets || net->feeds[target] || !net->feeds[label]) return LS_OK;
    LS_TRY(ls__one_hot_fill(net->owned.ctx, &net->one_hot, net->feeds[label], columns));
    return feed(net, call, target, &net->one_hot.targets);
}

static ls_status feed_batch(ls_net *net, const char *call, ls_mode mode, const ls_batch *batch)
{
    if (!batch || !batch->images)
        return ls__fail(net->owned.ctx, LS_ERR_INVALID, "%s: there is no batch", call);
    const int64_t n_images = ls_tensor_shape(batch->images)->dims[0];
    if (batch->n != 0 && batch->n != n_images)
        return ls__fail(net->owned.ctx, LS_ERR_SHAPE,
                        "%s: the batch's n is %lld, its tensor has %lld images", call,
                        (long long)batch->n, (long long)n_images);
    LS_TRY(feed(net, call, 0, batch->images));
    LS_TRY(feed_labels(net, call, mode, batch, n_images));
    return feed_targets(net, call, mode, batch, n_images);
}

/* Finds the programs for this batch and feeds the batch. On failure nothing stays fed, because the
 * caller may free the batch. */
static ls_status net_take_batch(ls_net *net, const char *call, ls_mode mode, const ls_batch *batch)
{
    ls_status status = feed_batch(net, call, mode, batch);
    if (status == LS_OK) status = net_find_parts(net, mode);
    if (status == LS_OK) status = ls_net_set_step(net, batch->epoch, batch->step);
    if (status != LS_OK) forget_feeds(net);
    return status;
}

static ls_status check_lr(const ls_net *net, const char *call, double lr)
{
    if (lr >= 0 && lr <= 1e30) return LS_OK;
    return ls__fail(net->owned.ctx, LS_ERR_INVALID, "%s: lr %g, expected >= 0 and finite", call,
                    lr);
}

/* After an error there are no results. */
static ls_status end_failed(ls_net *net, ls_status status)
{
    if (status == LS_OK) return LS_OK;
    forget_feeds(net);
    net->current = NULL;
    return status;
}

ls_status ls__net_take_step(ls_net *net, const char *call, ls__update *update,
                            const ls_batch *batch, double lr)
{
    ls_context *ctx = ls__net_context(net);
    LS__ENTER(ctx);
    if (net->config.inference)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: the net was built for inference", call);
    LS_TRY(refuse_external_loss(net, call));
    if (update && update->net != net)
        return ls__fail(ctx, LS_ERR_MISMATCH, "%s: the optimizer belongs to another net", call);
    if (update) LS_TRY(check_lr(net, call, lr));
    LS_TRY(net_take_batch(net, call, LS_MODE_TRAIN, batch));
    if (update) update->prepare(update);
    ls_status status = net_begin(net, update, lr);
    if (status == LS_OK) status = ls__executor_place_fault(&net->executor);
    return end_failed(net, status);
}

static ls_status step(ls_net *net, const char *call, ls__update *update, const ls_batch *batch,
                      double lr)
{
    LS_TRY(ls__net_take_step(net, call, update, batch, lr));
    if (ls__net_is_audited(net)) LS_TRY(end_failed(net, ls__net_audit(net, update, lr)));
    LS_TRY(ls__net_run_to(net, net->executor.list->n_calls));
    return ls__net_send_results(net, batch, update);
}

ls_status ls__net_step(ls_net *net, const char *call, ls__update *update, const ls_batch *batch,
                       double lr)
{
    LS_TRY(enter(net, call));
    return leave(net, step(net, call, update, batch, lr));
}

static ls_status update_alone(ls_net *net, const char *call, ls__update *update, double lr)
{
    LS_TRY(check_lr(net, call, lr));
    update->prepare(update);
    LS_TRY(ls__executor_begin(&net->executor, NULL, update, lr));
    return ls__executor_run(&net->executor, net->executor.list->n_calls);
}

ls_status ls__net_update(ls_net *net, const char *call, ls__update *update, double lr)
{
    LS_TRY(enter(net, call));
    return leave(net, update_alone(net, call, update, lr));
}

static ls_status net_evaluate(ls_net *net, const ls_batch *batch)
{
    LS_TRY(net_take_batch(net, "ls_net_evaluate", LS_MODE_EVAL, batch));
    LS_TRY(net_forward(net));
    return ls__net_send_results(net, batch, NULL);
}

ls_status ls_net_evaluate(ls_net *net, const ls_batch *batch)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(enter(net, "ls_net_evaluate"));
    return leave(net, net_evaluate(net, batch));
}

ls_status ls__net_plan_evaluation(ls_net *net, const ls_batch *batch)
{
    LS_TRY(enter(net, "ls_net_evaluate"));
    const ls_status status = net_take_batch(net, "ls_net_evaluate", LS_MODE_EVAL, batch);
    forget_feeds(net);
    return leave(net, status);
}

/* ---- Gradients of inputs ---- */

ls_status ls_net_require_input_gradient(ls_net *net, const char *input)
{
    LS__ENTER(ls__net_context(net));
    const int i = find_input(net, "ls_net_require_input_gradient", input);
    if (i < 0) return LS_ERR_NOT_FOUND;
    LS_TRY(ls__net_refuse_shards(net, "ls_net_require_input_gradient"));
    ls_node *node = net->graph.inputs.items[i].node;
    if (node->spec.dtype != LS_F32)
        return ls__fail(net->owned.ctx, LS_ERR_TYPE,
                        "ls_net_require_input_gradient: input '%s' is %s, gradients are F32", input,
                        ls_dtype_name(node->spec.dtype));
    if (node->u.input.requires_gradient) return LS_OK;
    node->u.input.requires_gradient = true;
    ls__net_drop_training_programs(net);
    return LS_OK;
}

const ls_tensor *ls_net_input_gradient(ls_net *net, const char *input)
{
    if (ls__net_expect_results(net, "ls_net_input_gradient") != LS_OK) return NULL;
    const int i = find_input(net, "ls_net_input_gradient", input);
    if (i < 0) return NULL;
    if (net->has_gradients && net->gradient_of_inputs[i].data) return &net->gradient_of_inputs[i];
    ls__fail(net->owned.ctx, LS_ERR_INVALID,
             "ls_net_input_gradient: '%s' has none: call ls_net_require_input_gradient, then "
             "ls_net_forward and ls_net_backward",
             input);
    return NULL;
}

/* ---- Profile ---- */

static void clear_seconds(ls__call *calls, int64_t n)
{
    for (int64_t i = 0; i < n; i++) calls[i].seconds = 0;
}

void ls__net_profile(ls_net *net)
{
    ls__net_shards *s = &net->shards;
    net->executor.profiled = true;
    for (int i = 0; i < net->cache.n_programs; i++) {
        ls__program *p = net->cache.programs[i];
        clear_seconds(p->calls, p->n_copies * p->n_calls);
    }
    for (int i = 0; i < s->n_ranges; i++) clear_seconds(s->sums[i].calls, s->sums[i].n_calls);
    if (s->synced_sums) clear_seconds(s->synced_sums, (s->end - s->first) * s->n_ranges);
    clear_seconds(s->norm_exchanges, s->n_norm_exchanges);
    clear_seconds(&s->running_call, 1);
}

static ls__profile_line profile_line(const ls__call *call)
{
    const bool counted = call->kernel || !call->callback;
    return (ls__profile_line){ .layer = call->name,
                               .op = call->kind,
                               .kernel = call->kernel ? call->kernel->name : "",
                               .seconds = call->seconds,
                               .flops = counted ? ls__op_flops(call->op) : 0,
                               .bytes = counted ? ls__op_bytes(call->op) : 0 };
}

typedef struct profile {
    ls__profile_line *lines;
    int n, max;
} profile;

/* Adds a line per call, with the time of all copies [n_copies][n_calls] of it. */
static void add_calls(profile *out, const ls__call *calls, int64_t n_copies, int n_calls)
{
    for (int i = 0; i < n_calls; i++) {
        if (calls[i].skipped) continue;
        ls__profile_line line = profile_line(&calls[i]);
        for (int64_t j = 1; j < n_copies; j++) line.seconds += calls[j * n_calls + i].seconds;
        if (out->n < out->max) out->lines[out->n] = line;
        out->n++;
    }
}

int ls__net_profile_lines(const ls_net *net, ls__profile_line *lines, int max)
{
    const ls__program *p = net->executor.profiled ? net->current : NULL;
    const ls__net_shards *s = &net->shards;
    const ls__parts *parts = &s->parts;
    profile out = { .lines = lines, .max = max };
    if (!p) return 0;
    add_calls(&out, p->calls, p->n_copies, p->n_calls);
    if (!p->is_shard) return out.n;
    if (parts->synced_sums) add_calls(&out, parts->synced_sums, s->end - s->first, parts->n_sums);
    for (int i = 0; i < parts->n_sums; i++) {
        const int first = parts->synced_sums != NULL; /* the copies replace calls[0] */
        add_calls(&out, parts->sums[i].calls + first, 1, parts->sums[i].n_calls - first);
    }
    add_calls(&out, s->norm_exchanges, 1, s->n_norm_exchanges);
    if (parts->last_call) add_calls(&out, parts->last_call, 1, 1);
    return out.n;
}

bool ls__net_is_captured(const ls_net *net)
{
    bool captured = false;
    for (int i = 0; i < LS__MAX_CAPTURES && net->current; i++)
        captured |= net->current->captures.items[i].graph != NULL;
    return captured;
}
