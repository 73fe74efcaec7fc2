/* trace.c: what the ops of a step read and write, and faults; see trace.h. */
#include "nn/exec/trace.h"

#include "base/error.h"
#include "base/half.h"
#include "nn/net_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Operands ---- */

/* Operands that ops change in place, as bits; the op list has them among the inputs. */
static const unsigned changed_in_place[LS__N_OPS] = {
    [LS__OP_BATCH_NORM] = 1u << 3 | 1u << 4, /* running_mean, running_var */
    [LS__OP_NORM_FINALIZE] = 1u << 4 | 1u << 5,
    [LS__OP_SGD] = 1u << 0 | 1u << 2, /* parameter, momentum */
    [LS__OP_ADAM] = 1u << 0 | 1u << 2 | 1u << 3,
    [LS__OP_LOSS_SCALE_UPDATE] = 1u << 1, /* scaler */
};

/* Name and direction of operand j. */
static void describe_operand(ls__op_kind kind, int j, ls__trace_value *out)
{
    ls__operand_role role = { .name = "" };
    (void)ls__op_operand(kind, j, &role);
    const bool in_place = changed_in_place[kind] & 1u << j;
    snprintf(out->role, sizeof(out->role), "%.*s", role.length, role.name);
    out->input = !role.output;
    out->output = role.output || in_place;
}

static void set_contents(ls__trace_value *out, const ls__operand *operand, void *memory)
{
    out->dtype = operand->dtype;
    out->shape = operand->shape;
    out->block = operand->block;
    out->count = ls_shape_count(&operand->shape);
    out->memory = memory;
}

/* Whether the value lies in a block that has a place for each entry. */
static bool is_of_entries(const ls__program *program, int v)
{
    while (program->values[v].storage != v) v = program->values[v].storage;
    const ls__place place = program->values[v].place;
    return place == LS__PLACE_VALUES || place == LS__PLACE_GRADIENTS ||
           place == LS__PLACE_COMPUTE_WEIGHTS;
}

static const char *entry_of(const ls_net *net, const ls__program *program, int v)
{
    if (!is_of_entries(program, v)) return NULL;
    while (program->values[v].storage != v) v = program->values[v].storage;
    const ls__value *value = &program->values[v];
    for (int64_t i = 0; i < net->blocks.n_parameters; i++)
        if ((size_t)net->blocks.parameters[i].offset * ls_dtype_bytes(value->dtype) ==
            value->offset)
            return net->blocks.parameters[i].name;
    return NULL;
}

/* Operands as long as the block of parameters fall into its entries, so that the gaps between them
 * are nobody's. False when *i is beyond these, and then less by their number. */
static bool part_value(const ls_net *net, const ls__operand *operand, void *memory, int *i,
                       ls__trace_value *out)
{
    const ls__net_blocks *blocks = &net->blocks;
    for (int64_t e = 0; e < blocks->n_parameters; e++) {
        const ls__parameter *parameter = &blocks->parameters[e];
        if (parameter->kind == LS_PARAMETER_BUFFER || (*i)-- > 0) continue;
        const ls__operand part = { operand->dtype, parameter->shape, 0 };
        const size_t offset = (size_t)parameter->offset * ls_dtype_bytes(operand->dtype);
        set_contents(out, &part, (unsigned char *)memory + offset);
        out->parameter = parameter->name;
        return true;
    }
    return false;
}

static bool is_whole_block(const ls_net *net, const ls__operand *operand)
{
    return operand->shape.n_dims == 1 && operand->shape.dims[0] == net->blocks.parameter_elements;
}

static bool copy_value(const ls_net *net, int input, int i, ls__trace_value *out)
{
    const ls__program *program = net->walk.program;
    const ls_spec *spec = &program->input_specs[input];
    const ls__operand operand = { spec->dtype, spec->shape, 0 };
    const int v = program->node_values[net->graph.inputs.items[input].node->id];
    if (i > 1) return false;
    *out = (ls__trace_value){ .input = i == 0, .output = i == 1 };
    snprintf(out->role, sizeof(out->role), "%s", i == 0 ? "batch" : "copy");
    /* The step only reads the caller's tensor, and so does who traces it. */
    void *const batch = net->feeds[input] ? net->feeds[input]->data : NULL;
    set_contents(out, &operand, i == 0 ? batch : ls__program_address(program, v));
    return true;
}

static bool instruction_value(const ls_net *net, int index, int i, ls__trace_value *out)
{
    const ls__program *program = net->walk.program;
    const ls__instruction *in = &program->instructions[index];
    for (int j = 0; j < in->op.n_operands; j++) {
        const ls__operand *operand = &in->op.operands[j];
        const int v = in->operands[j];
        if (v < 0) continue;
        *out = (ls__trace_value){ .parameter = entry_of(net, program, v) };
        if (in->custom) {
            out->input = j < in->n_inputs;
            out->output = !out->input;
            snprintf(out->role, sizeof(out->role), "%s %d", out->input ? "input" : "output",
                     out->input ? j : j - in->n_inputs);
        } else {
            describe_operand(in->op.kind, j, out);
        }
        if (is_whole_block(net, operand) && is_of_entries(program, v)) {
            if (part_value(net, operand, in->buffers[j], &i, out)) return true;
        } else if (i-- == 0) {
            set_contents(out, operand, in->buffers[j]);
            return true;
        }
    }
    return false;
}

static bool update_value(const ls_net *net, int op, int i, ls__trace_value *out)
{
    ls__update_op u;
    net->walk.optimizer->describe(net->walk.optimizer, op, &u);
    for (int j = 0; j < u.op->n_operands; j++) {
        const ls__operand *operand = &u.op->operands[j];
        if (operand->shape.n_dims < 0) continue;
        *out = (ls__trace_value){ .parameter = NULL };
        describe_operand(u.op->kind, j, out);
        if (is_whole_block(net, operand)) {
            if (part_value(net, operand, u.buffers[j], &i, out)) return true;
        } else if (i-- == 0) {
            set_contents(out, operand, u.buffers[j]);
            return true;
        }
    }
    return false;
}

/* The i-th operand of what stands at a position; false when there are no more. */
static bool find_value(const ls_net *net, int position, int i, ls__trace_value *out)
{
    const int first = ls__walk_position(net, LS__WALK_FORWARD);
    const int update = ls__walk_position(net, LS__WALK_UPDATE);
    *out = (ls__trace_value){ .parameter = NULL };
    const bool found = position < first    ? copy_value(net, position, i, out)
                       : position < update ? instruction_value(net, position - first, i, out)
                                           : update_value(net, position - update, i, out);
    /* Integers say where something is, labels and places in a window: another one may point out of
     * it. Images are safe. */
    const bool is_float = out->dtype == LS_F32 || out->dtype == LS_BF16 || out->dtype == LS_F16;
    out->is_target = out->output && (is_float || (out->dtype == LS_U8 && position < first));
    return found;
}

/* ---- Ops ---- */

/* A stage goes by its first node: "bn1" rather than the ReLU after it. */
static const char *layer_of(const ls__program *program, const ls_node *node)
{
    for (int i = 0; i < program->n_fused_ops; i++)
        if (program->fused_ops[i].tail == node) return program->fused_ops[i].head->name;
    return node->name;
}

/* Whether the op that stands at a position has a number: not one that recomputes a value. */
static bool is_numbered(const ls_net *net, int position)
{
    const int i = position - ls__walk_position(net, LS__WALK_FORWARD);
    const ls__program *program = net->walk.program;
    return ls__walk_has_op(net, position) &&
           !(i >= 0 && i < program->n_instructions && program->instructions[i].again);
}

static void describe_instruction(const ls__program *program, const ls__instruction *in,
                                 ls__trace_op *out)
{
    out->kind = in->custom ? in->custom->u.custom.kind : ls__op_name(in->op.kind);
    out->name = layer_of(program, in->node);
    out->kernel = in->kernel ? in->kernel->name : "";
    out->backward = in->backward;
    out->again = in->again;
    out->moves = !in->custom && in->op.kind == LS__OP_REORDER;
}

static void describe_op(const ls_net *net, int position, ls__trace_op *out)
{
    const ls__walk *walk = &net->walk;
    const int first = ls__walk_position(net, LS__WALK_FORWARD);
    const int update = ls__walk_position(net, LS__WALK_UPDATE);
    *out = (ls__trace_op){ .position = position, .kernel = "" };
    for (int i = 0; i < position; i++) out->number += is_numbered(net, i);
    if (position < first) {
        out->kind = "copy";
        out->name = net->graph.inputs.items[position].name;
    } else if (position < update) {
        describe_instruction(walk->program, &walk->program->instructions[position - first], out);
    } else {
        ls__update_op u;
        walk->optimizer->describe(walk->optimizer, position - update, &u);
        out->kind = ls__op_name(u.op->kind);
        out->name = "optimizer";
        out->kernel = u.kernel->name;
    }
    ls__trace_value value;
    while (find_value(net, position, out->n_values, &value)) out->n_values++;
}

/* ---- Walking ---- */

ls_status ls__net_step_begin(ls_net *net, ls_optimizer *opt, const ls_batch *batch, double lr)
{
    LS_TRY(ls__net_take_step(net, "ls__net_step_begin", opt, batch, lr));
    net->walk.op_by_op = true;
    return LS_OK;
}

bool ls__net_step_op(const ls_net *net, ls__trace_op *out)
{
    const int end = ls__walk_position(net, LS__WALK_END);
    for (int position = net->walk.next; position < end; position++) {
        if (!ls__walk_has_op(net, position)) continue;
        describe_op(net, position, out);
        return true;
    }
    return false;
}

void ls__net_step_value(const ls_net *net, const ls__trace_op *op, int i, ls__trace_value *out)
{
    find_value(net, op->position, i, out);
}

ls_status ls__net_step_next(ls_net *net)
{
    LS__ENTER(net->owned.ctx);
    const int end = ls__walk_position(net, LS__WALK_END);
    int stop = net->walk.next;
    while (stop < end && !ls__walk_has_op(net, stop)) stop++;
    if (stop < end) stop++;
    while (stop < end && !ls__walk_has_op(net, stop)) stop++;
    LS_TRY(ls__net_run_step(net, stop));
    return net->owned.ctx->device->backend->wait(net->owned.ctx->device);
}

ls_status ls__net_step_end(ls_net *net)
{
    LS__ENTER(net->owned.ctx);
    return ls__net_run_step(net, ls__walk_position(net, LS__WALK_END));
}

/* ---- Elements ---- */

static bool is_blocked(const ls__trace_value *value)
{
    return value->shape.n_dims == 4 && value->block > 0 && value->block != value->shape.dims[3];
}

/* Where a logical element of [N,H,W,C] stands in memory of [N][C/block][H][W][block]. */
static int64_t blocked_place(const ls__trace_value *value, int64_t element)
{
    const int64_t *dims = value->shape.dims, b = value->block;
    const int64_t pixels = dims[1] * dims[2], c = element % dims[3];
    const int64_t pixel = element / dims[3] % pixels, n = element / dims[3] / pixels;
    return ((n * (dims[3] / b) + c / b) * pixels + pixel) * b + c % b;
}

ls_status ls__trace_read(ls_context *ctx, const ls__trace_value *value, void *scratch, void *out)
{
    const size_t size = ls_dtype_bytes(value->dtype), bytes = (size_t)value->count * size;
    const ls__backend *backend = ctx->device->backend;
    if (!is_blocked(value)) return backend->read(ctx->device, out, value->memory, bytes);
    LS_TRY(backend->read(ctx->device, scratch, value->memory, bytes));
    for (int64_t i = 0; i < value->count; i++)
        memcpy((char *)out + (size_t)i * size,
               (const char *)scratch + (size_t)blocked_place(value, i) * size, size);
    return LS_OK;
}

/* ---- Faults ---- */

void ls__net_set_fault(ls_net *net, const ls__fault *fault)
{
    net->fault = *fault;
}

int64_t ls__net_fault_elements(const ls_net *net, const ls__trace_op *op)
{
    int64_t n = 0;
    for (int i = 0; i < op->n_values; i++) {
        ls__trace_value value;
        find_value(net, op->position, i, &value);
        if (value.is_target) n += value.count;
    }
    return n;
}

ls_status ls__fault_place(ls_net *net)
{
    const ls__fault *fault = &net->fault;
    ls_context *ctx = net->owned.ctx;
    if (fault->op < 0 || fault->epoch != net->step.epoch || fault->step != net->step.step)
        return LS_OK;
    const int end = ls__walk_position(net, LS__WALK_END);
    int64_t n_ops = 0;
    for (int i = 0; i < end; i++) {
        if (!is_numbered(net, i) || n_ops++ != fault->op) continue;
        ls__trace_op op;
        describe_op(net, i, &op);
        const int64_t n = ls__net_fault_elements(net, &op);
        net->walk.fault_at = i;
        if (fault->element >= 0 && fault->element < n) return LS_OK;
        return ls__fail(ctx, LS_ERR_INVALID,
                        "fault: element %" PRId64 " of op %" PRId64
                        ", %s '%s', which writes %" PRId64 " that a fault may hit",
                        fault->element, fault->op, op.kind, op.name, n);
    }
    return ls__fail(ctx, LS_ERR_INVALID, "fault: op %" PRId64 "; the step has %" PRId64 " ops",
                    fault->op, n_ops);
}

static ls_status hit(ls__device *device, const ls__trace_value *value, int64_t element)
{
    const size_t size = ls_dtype_bytes(value->dtype);
    const int64_t place = is_blocked(value) ? blocked_place(value, element) : element;
    void *memory = (char *)value->memory + (size_t)place * size;
    union {
        float f32;
        uint16_t half;
        uint8_t u8;
    } v;
    LS_TRY(device->backend->read(device, &v, memory, size));
    switch (value->dtype) {
    case LS_F32: v.f32 = nextafterf(v.f32, INFINITY); break;
    case LS_BF16: v.half = ls__next_half(v.half, LS__BF16_INFINITY); break;
    case LS_F16: v.half = ls__next_half(v.half, LS__F16_INFINITY); break;
    default: v.u8 ^= 1; break;
    }
    return device->backend->write(device, memory, &v, size);
}

ls_status ls__fault_inject(ls_net *net)
{
    ls__trace_op op;
    describe_op(net, net->walk.fault_at, &op);
    int64_t element = net->fault.element;
    for (int i = 0; i < op.n_values; i++) {
        ls__trace_value value;
        find_value(net, op.position, i, &value);
        if (!value.is_target) continue;
        if (element < value.count) return hit(net->owned.ctx->device, &value, element);
        element -= value.count;
    }
    return LS_OK;
}
