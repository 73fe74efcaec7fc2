/* program.c: values and instructions of a program, their addresses, and its calls. */
#include "nn/plan/program.h"

#include "base/alloc.h"
#include "base/error.h"
#include "backend/pool.h"
#include <stdio.h>
#include <string.h>

void ls__program_close(ls__program **program)
{
    ls__program *p = *program;
    if (!p) return;
    ls__captures_drop(p->ctx, &p->captures);
    for (int i = 0; i < p->n_instructions; i++)
        if (p->instructions[i].kernel) p->instructions[i].kernel->close(p->instructions[i].kernel);
    ls__pool_release(p->ctx->pool, p->constant_memory);
    ls__bump_close(&p->bump);
    ls__free(p->ctx, p);
    *program = NULL;
}

/* ---- Values and instructions ---- */

int ls__value_add(ls__program *p, const ls__value *fields)
{
    ls__value *values = ls__bump_room(&p->bump, p->values, (size_t)p->n_values, 1,
                                      &p->value_capacity, sizeof *values);
    if (!values) return -1;
    p->values = values;
    const int v = p->n_values++;
    values[v] = *fields;
    values[v].storage = v;
    return v;
}

int ls__value_copy(ls__program *p, int v)
{
    ls__value fields = p->values[v];
    fields.pinned = false;
    return ls__value_add(p, &fields);
}

void ls__instruction_name(const ls__instruction *in, char out[LS__INSTRUCTION_NAME_SIZE])
{
    snprintf(out, LS__INSTRUCTION_NAME_SIZE, "%s '%s'", in->node->layer->name, in->node->name);
}

void ls__instruction_fill(const ls__program *p, ls__instruction *in)
{
    for (int i = 0; i < in->op.n_operands; i++) {
        const int v = in->operands[i];
        /* Set member by member, because ops are compared as memory: padding stays zero. */
        ls__operand *operand = &in->op.operands[i];
        operand->dtype = v < 0 ? LS_F32 : p->values[v].dtype;
        operand->shape.n_dims = v < 0 ? -1 : p->values[v].shape.n_dims;
        for (int d = 0; d < LS_MAX_DIMS; d++)
            operand->shape.dims[d] = d < operand->shape.n_dims ? p->values[v].shape.dims[d] : 0;
    }
}

/* ---- Calls ---- */

static ls_status make_input_copy(ls__program *p, int i)
{
    const int v = p->node_values[p->graph->inputs.items[i].node->id];
    const ls_spec *spec = &p->input_specs[i];
    ls__op *op = ls__bump_alloc(&p->bump, sizeof *op);
    if (!op) return ls__fail_memory(p->ctx, "program", sizeof *op);
    op->kind = LS__OP_COPY;
    op->n_operands = 2;
    for (int j = 0; j < 2; j++)
        op->operands[j] = (ls__operand){ .dtype = spec->dtype, .shape = spec->shape };
    p->calls[i] = (ls__call){ .kind = ls__op_name(LS__OP_COPY),
                              .name = p->graph->inputs.items[i].name,
                              .op = op,
                              .n_inputs = 1,
                              .copy_bytes = v < 0 ? 0 : p->values[v].bytes,
                              .feeds_input = true,
                              .skipped = v < 0 };
    return LS_OK;
}

/* A fused op has the name of its first node: "bn1" rather than the ReLU after it. */
static const char *layer_of(const ls__program *p, const ls_node *node)
{
    for (int i = 0; i < p->n_fused_ops; i++)
        if (p->fused_ops[i].tail == node) return p->fused_ops[i].head->name;
    return node->name;
}

static ls_status make_callback(ls__program *p, const ls__instruction *in, ls__call *call)
{
    const ls_node *node = in->custom;
    const size_t bytes = (size_t)node->n_inputs * sizeof(ls_spec);
    ls_spec *specs = ls__bump_alloc(&p->bump, bytes);
    ls_custom_op_call *args = ls__bump_alloc(&p->bump, sizeof *args);
    if (!specs || !args) return ls__fail_memory(p->ctx, "program", bytes + sizeof *args);
    for (int i = 0; i < node->n_inputs; i++) specs[i] = p->specs[node->inputs[i]->id];
    *args = (ls_custom_op_call){ .n_inputs = node->n_inputs,
                                 .input_specs = specs,
                                 .output_spec = p->specs[node->id],
                                 .training = p->mode == LS_MODE_TRAIN,
                                 .user = node->u.custom.user };
    p->uncapturable |= !node->u.custom.capturable;
    call->callback = in->backward ? node->u.custom.backward : node->u.custom.forward;
    call->callback_call = args;
    return LS_OK;
}

static ls_status make_call(ls__program *p, const ls__instruction *in, ls__call *call)
{
    *call = (ls__call){ .kind = in->custom ? in->custom->u.custom.kind : ls__op_name(in->op.kind),
                        .name = layer_of(p, in->node),
                        .op = &in->op,
                        .n_inputs = in->n_inputs,
                        .kernel = in->kernel,
                        .backward = in->backward,
                        .recomputes = in->again,
                        .skipped = in->skipped,
                        .side = in->side,
                        .joins = in->joins };
    if (in->custom) return make_callback(p, in, call);
    if (!in->kernel && !in->skipped) call->copy_bytes = p->values[in->operands[1]].bytes;
    return LS_OK;
}

ls_status ls__program_make_calls(ls__program *p)
{
    const int n_inputs = p->graph->inputs.n;
    p->n_calls = n_inputs + p->n_instructions;
    const size_t copy_bytes = (size_t)p->n_calls * sizeof *p->calls;
    p->calls = ls__bump_alloc(&p->bump, (size_t)p->n_copies * copy_bytes);
    if (!p->calls) return ls__fail_memory(p->ctx, "program", (size_t)p->n_copies * copy_bytes);
    for (int i = 0; i < n_inputs; i++) LS_TRY(make_input_copy(p, i));
    for (int i = 0; i < p->n_instructions; i++)
        LS_TRY(make_call(p, &p->instructions[i], &p->calls[n_inputs + i]));
    p->calls[p->n_calls - 1].joins_after = p->joins_at_end;
    for (int64_t i = 1; i < p->n_copies; i++)
        memcpy(p->calls + i * p->n_calls, p->calls, copy_bytes);
    return LS_OK;
}

/* ---- Memory ---- */

size_t ls__program_arena_bytes(const ls__program *p)
{
    if (p->n_copies == 1) return p->arena_bytes;
    return (size_t)p->n_copies * ls__round_up(p->arena_bytes, p->ctx->device->backend->alignment);
}

static void *address_in(const ls__program *p, int v, int64_t copy)
{
    if (v < 0) return NULL;
    const ls__value *value = &p->values[ls__storage_of(p, v)];
    return (unsigned char *)p->places.starts[value->place] +
           (size_t)copy * p->places.strides[value->place] + value->offset;
}

void *ls__program_address(const ls__program *p, int v)
{
    return address_in(p, v, 0);
}

static void bind_callback(const ls__program *p, ls__call *call)
{
    ls_custom_op_call *args = call->callback_call;
    const int n = args->n_inputs;
    args->stream = p->ctx->device->backend->stream(p->ctx->device);
    for (int i = 0; i < n; i++) args->inputs[i] = call->buffers[i];
    args->output = call->buffers[n];
    if (!call->backward) return;
    args->output_gradient = call->buffers[n + 1];
    for (int i = 0; i < n; i++) args->input_gradients[i] = call->buffers[n + 2 + i];
}

static void bind_copy(ls__program *p, int64_t copy)
{
    const int n_inputs = p->graph->inputs.n;
    ls__call *calls = p->calls + copy * p->n_calls;
    for (int i = 0; i < n_inputs; i++)
        calls[i].buffers[1] =
            address_in(p, p->node_values[p->graph->inputs.items[i].node->id], copy);
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        ls__call *call = &calls[n_inputs + i];
        for (int j = 0; j < in->op.n_operands; j++)
            call->buffers[j] = address_in(p, in->operands[j], copy);
        call->workspace = address_in(p, in->workspace, copy);
        if (call->callback) bind_callback(p, call);
    }
}

void ls__program_bind(ls__program *p, const ls__places *places, uint64_t generation)
{
    if (p->arena_generation == generation) return;
    ls__captures_drop(p->ctx, &p->captures);
    p->places = *places;
    p->places.starts[LS__PLACE_CONSTANTS] = p->constant_memory;
    for (int64_t i = 0; i < p->n_copies; i++) bind_copy(p, i);
    p->arena_generation = generation;
}

/* ---- Captures ---- */

void ls__capture_drop(ls_context *ctx, ls__capture *capture)
{
    if (capture->graph) ctx->device->backend->captured_close(ctx->device, capture->graph);
    capture->graph = NULL;
}

void ls__captures_drop(ls_context *ctx, ls__captures *captures)
{
    for (int i = 0; i < LS__MAX_CAPTURES; i++) {
        ls__capture_drop(ctx, &captures->items[i]);
        captures->items[i].refused = false;
    }
}

ls__capture *ls__captures_find(ls_context *ctx, ls__captures *captures, uint64_t update, int begin,
                               int end)
{
    ls__capture *oldest = &captures->items[0];
    for (int i = 0; i < LS__MAX_CAPTURES; i++) {
        ls__capture *c = &captures->items[i];
        if (c->update == update && c->begin == begin && c->end == end) return c;
        if (c->last_used < oldest->last_used) oldest = c;
    }
    ls__capture_drop(ctx, oldest);
    *oldest = (ls__capture){ .update = update, .begin = begin, .end = end };
    return oldest;
}
