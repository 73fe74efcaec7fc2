/* net_trace.c: see net_trace.h. */
#include "nn/net/net_trace.h"

#include "base/error.h"
#include "nn/net/net_state.h"

ls_status ls__net_step_begin(ls_net *net, ls__update *update, const ls_batch *batch, double lr)
{
    LS_TRY(ls__net_take_step(net, "ls__net_step_begin", update, batch, lr));
    net->executor.call_by_call = true;
    return LS_OK;
}

static void describe_call(const ls__executor *x, int position, ls__trace_op *out)
{
    const ls__call *call = x->list->calls[position];
    *out = (ls__trace_op){ .position = position,
                           .kind = call->kind,
                           .name = call->name,
                           .kernel = call->kernel ? call->kernel->name : "",
                           .backward = call->backward,
                           .again = call->recomputes };
    for (int i = 0; i < position; i++) out->number += ls__call_is_numbered(x->list->calls[i]);
    ls__trace_value value;
    while (ls__call_value(call, x->blocks, out->n_values, &value)) out->n_values++;
}

/* The first call at or after `position` that is not skipped. */
static int next_traced_call(const ls__executor *x, int position)
{
    while (position < x->list->n_calls && x->list->calls[position]->skipped) position++;
    return position;
}

bool ls__net_step_op(const ls_net *net, ls__trace_op *out)
{
    const ls__executor *x = &net->executor;
    const int position = next_traced_call(x, x->next);
    if (position < x->list->n_calls) describe_call(x, position, out);
    return position < x->list->n_calls;
}

void ls__net_step_value(const ls_net *net, const ls__trace_op *op, int i, ls__trace_value *out)
{
    (void)ls__call_value(net->executor.list->calls[op->position], &net->blocks, i, out);
}

ls_status ls__net_step_next(ls_net *net)
{
    LS__ENTER(net->owned.ctx);
    const ls__executor *x = &net->executor;
    int stop = next_traced_call(x, x->next);
    if (stop < x->list->n_calls) stop++;
    LS_TRY(ls__net_run_to(net, next_traced_call(x, stop)));
    return net->owned.ctx->device->backend->wait(net->owned.ctx->device);
}

ls_status ls__net_step_end(ls_net *net)
{
    LS__ENTER(net->owned.ctx);
    return ls__net_run_to(net, net->executor.list->n_calls);
}

void ls__net_set_injected_fault(ls_net *net, const ls__injected_fault *fault)
{
    net->executor.fault = *fault;
}

int64_t ls__net_injectable_elements(const ls_net *net, const ls__trace_op *op)
{
    return ls__injected_fault_elements(net->executor.list->calls[op->position], &net->blocks);
}
