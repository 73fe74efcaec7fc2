/* net_walk.c: the way through a step: copies of the inputs, the program's instructions, the
 * optimizer's ops. Each is a position; parts of the way are what ls_net_forward and
 * ls_net_backward go, and trace.h looks at it op by op. */
#include "nn/net_state.h"

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

static ls_status run_position(ls_net *net, int position)
{
    ls__walk *walk = &net->walk;
    const int first = net->graph.inputs.n, update = first + walk->program->n_instructions;
    if (position < first) return copy_input(net, position);
    if (position < update) return ls__program_run(walk->program, position - first, &net->step);
    return walk->optimizer->run(walk->optimizer, position - update, &net->step);
}

void ls__walk_begin(ls_net *net, ls__program *program, ls_optimizer *opt, double rate)
{
    net->walk = (ls__walk){ .program = program, .optimizer = opt, .fault_at = -1 };
    net->current = program;
    net->forward_done = false;
    net->has_gradients &= !program->gradients;
    net->step.rate = rate;
    net->step.optimizer_step = opt ? opt->n_steps : 0;
}

ls_status ls__walk_run(ls_net *net, int end)
{
    ls__device *device = net->owned.ctx->device;
    ls__walk *walk = &net->walk;
    ls_status status = LS_OK;
    device->backend->begin(device);
    while (status == LS_OK && walk->next < end) {
        status = run_position(net, walk->next);
        if (status == LS_OK && walk->next == walk->fault_at) status = ls__fault_inject(net);
        walk->next++;
        if (status == LS_OK && walk->optimizer &&
            walk->next == ls__walk_position(net, LS__WALK_END))
            walk->optimizer->done(walk->optimizer);
    }
    device->backend->end(device);
    return status;
}
