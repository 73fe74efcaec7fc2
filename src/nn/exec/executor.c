/* executor.c: the way through a step: copies of the inputs, the program's instructions, the
 * optimizer's ops. Each is a position; parts of the way are what ls_net_forward and
 * ls_net_backward go, and trace.h looks at it op by op. Where the backend can, what comes after the
 * copies is recorded and replayed: record.c. */
#include "base/error.h"
#include "nn/net_state.h"

#include <stdio.h>
#include <string.h>

int ls__walk_position(const ls_net *net, ls__walk_part part)
{
    const ls__walk *walk = &net->walk;
    const int copies = net->graph.inputs.n, program = copies + walk->program->n_instructions;
    switch (part) {
    case LS__WALK_COPIES: return 0;
    case LS__WALK_FORWARD: return copies;
    case LS__WALK_BACKWARD: return copies + walk->program->n_forward;
    case LS__WALK_UPDATE: return program;
    case LS__WALK_END: break;
    }
    return program + (walk->optimizer ? walk->optimizer->n_ops : 0);
}

/* The value that a position of the first part copies to; -1 where nothing in this program needs
 * that input. */
static int copied_value(const ls_net *net, int position)
{
    return net->walk.program->node_values[net->graph.inputs.items[position].node->id];
}

bool ls__walk_has_op(const ls_net *net, int position)
{
    const int first = net->graph.inputs.n;
    if (position < first) return copied_value(net, position) >= 0;
    if (position >= ls__walk_position(net, LS__WALK_UPDATE)) return true;
    return !net->walk.program->instructions[position - first].skipped;
}

static ls_status copy_input(ls_net *net, int position)
{
    ls__device *device = net->owned.ctx->device;
    const int v = copied_value(net, position);
    const ls_tensor *tensor = net->feeds[position];
    net->feeds[position] = NULL;
    if (v < 0) return LS_OK;
    return device->backend->copy(device, ls__program_address(net->walk.program, v), tensor->data,
                                 tensor->bytes);
}

/* What stands at a position, for errors and profilers. */
enum { NAME_SIZE = 128 };
static const char *name_position(const ls_net *net, int position, char *buffer)
{
    const ls__walk *walk = &net->walk;
    const int first = net->graph.inputs.n, update = first + walk->program->n_instructions;
    if (position >= update) return "the optimizer";
    if (position < first) {
        snprintf(buffer, NAME_SIZE, "input '%s'", net->graph.inputs.items[position].name);
        return buffer;
    }
    const ls__instruction *in = &walk->program->instructions[position - first];
    snprintf(buffer, NAME_SIZE, "%s '%s'",
             in->custom ? in->custom->u.custom.kind : ls__op_name(in->op.kind), in->node->name);
    return buffer;
}

/* Traces, profiles and faults need the ops in order. */
static bool may_overlap(const ls_net *net)
{
    const ls__walk *walk = &net->walk;
    return !walk->op_by_op && walk->fault_at < 0 && !walk->program->seconds &&
           !net->owned.ctx->config.nvtx;
}

static ls_status queue(ls_net *net, int position)
{
    ls__walk *walk = &net->walk;
    const int first = net->graph.inputs.n, update = first + walk->program->n_instructions;
    if (position < first) return copy_input(net, position);
    if (position < update)
        return ls__program_run(walk->program, position - first, &net->step, may_overlap(net));
    return walk->optimizer->run(walk->optimizer, position - update, &net->step);
}

ls_status ls__walk_queue(ls_net *net, int position)
{
    ls_context *ctx = net->owned.ctx;
    const ls__backend *backend = ctx->device->backend;
    char name[NAME_SIZE];
    const bool shown = ctx->config.nvtx && ls__walk_has_op(net, position);
    if (shown) backend->range_push(ctx->device, name_position(net, position, name));
    const ls_status status = queue(net, position);
    if (shown) backend->range_pop(ctx->device);
    if (status != LS_OK) ls__error_in(ctx, "%s", name_position(net, position, name));
    return status;
}

void ls__walk_begin(ls_net *net, ls__program *program, ls_optimizer *opt, double lr)
{
    net->walk = (ls__walk){ .program = program, .optimizer = opt, .fault_at = -1 };
    net->current = program;
    net->forward_done = false;
    net->has_gradients &= !program->gradients;
    net->step.lr = lr;
    net->step.optimizer_step = opt ? opt->n_steps : 0;
}

void ls__walk_arrived(ls_net *net)
{
    const ls__walk *walk = &net->walk;
    if (walk->optimizer && walk->next == ls__walk_position(net, LS__WALK_END))
        walk->optimizer->done(walk->optimizer);
}

ls_status ls__walk_plainly(ls_net *net, int end)
{
    ls__walk *walk = &net->walk;
    while (walk->next < end) {
        LS_TRY(ls__walk_queue(net, walk->next));
        if (walk->next == walk->fault_at) LS_TRY(ls__fault_inject(net));
        walk->next++;
        ls__walk_arrived(net);
    }
    return LS_OK;
}

/* The place of the event that tells of this walk's end; at its beginning that of the walk which was
 * so many walks ago. */
static ls__event *end_of_walk(const ls_net *net)
{
    return net->ends[net->n_walks % LS__WALKS_AHEAD];
}

static ls_status run(ls_net *net, int end)
{
    ls__device *device = net->owned.ctx->device;
    const int first = ls__walk_position(net, LS__WALK_FORWARD);
    if (net->walk.next == 0) {
        net->n_walks++;
        LS_TRY(device->backend->event_wait(device, end_of_walk(net)));
    }
    device->backend->begin(device);
    ls_status status = ls__walk_plainly(net, end < first ? end : first);
    if (status == LS_OK) status = ls__walk_replay(net, end);
    if (status != LS_OK) ls__program_join(net->walk.program);
    device->backend->end(device);
    if (status == LS_OK) status = device->backend->event_record(device, end_of_walk(net));
    return status;
}

ls_status ls__walk_run(ls_net *net, int end)
{
    ls_context *ctx = net->owned.ctx;
    const ls_status status = run(net, end);
    /* A library's error does not say whether the device is lost; waiting does. */
    if (status == LS_ERR_DEVICE && !ctx->unusable) (void)ctx->device->backend->wait(ctx->device);
    if (status != LS_OK) /* the batch is not the net's to keep */
        memset(net->feeds, 0, (size_t)net->graph.inputs.n * sizeof(*net->feeds));
    return status;
}
