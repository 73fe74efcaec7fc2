/* call_values.c: see call_values.h. */
#include "nn/exec/call_values.h"

#include "arith/half.h"
#include "base/context.h"
#include "base/error.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void set_role(const ls__call *call, int j, ls__trace_value *out)
{
    ls__operand_role role = { .name = "" };
    out->input = j < call->n_inputs;
    out->output = !out->input;
    if (call->feeds_input) {
        snprintf(out->role, sizeof(out->role), "%s", out->input ? "batch" : "copy");
    } else if (call->callback) {
        snprintf(out->role, sizeof(out->role), "%s %d", out->input ? "input" : "output",
                 out->input ? j : j - call->n_inputs);
    } else {
        (void)ls__op_operand(call->op->kind, j, &role);
        snprintf(out->role, sizeof(out->role), "%.*s", role.length, role.name);
        out->input = !role.output;
        out->output = role.output || role.mutated;
    }
}

static void set_contents(ls__trace_value *out, const ls__operand *operand, void *memory)
{
    out->dtype = operand->dtype;
    out->shape = operand->shape;
    out->count = ls_shape_element_count(&operand->shape);
    out->memory = memory;
}

/* True if `memory` lies in a block of that size. */
static bool lies_in(const void *memory, const void *block, size_t bytes)
{
    return block && (uintptr_t)memory >= (uintptr_t)block &&
           (uintptr_t)memory - (uintptr_t)block < bytes;
}

/* The name of the parameter or buffer at that address; NULL outside of the block. */
static const char *parameter_at(const ls__net_blocks *blocks, const void *memory)
{
    const struct {
        const void *block;
        int64_t elements, n_copies, stride;
        ls_dtype dtype;
    } places[] = {
        { blocks->values, blocks->block_elements, 1, blocks->block_elements, LS_F32 },
        { blocks->gradients, blocks->parameter_elements, blocks->n_gradients,
          blocks->gradient_stride, LS_F32 },
        { blocks->compute_weights, blocks->parameter_elements, 1, blocks->parameter_elements,
          LS_BF16 }, /* or f16, of the same size */
    };
    for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++) {
        const size_t size = ls_dtype_bytes(places[k].dtype);
        const size_t stride = (size_t)places[k].stride * size;
        if (!lies_in(memory, places[k].block, (size_t)places[k].n_copies * stride)) continue;
        const size_t offset = (size_t)((uintptr_t)memory - (uintptr_t)places[k].block) % stride;
        if (offset >= (size_t)places[k].elements * size) continue;
        for (int64_t i = 0; i < blocks->n_parameters; i++)
            if ((size_t)blocks->parameters[i].offset * size == offset)
                return blocks->parameters[i].name;
    }
    return NULL;
}

/* Splits a value of the parameter block's size into parameters, which skips the gaps between them.
 * If *i exceeds their number, subtracts that and returns false. */
static bool find_in_block(const ls__net_blocks *blocks, const ls__operand *operand, void *memory,
                          int *i, ls__trace_value *out)
{
    for (int64_t k = 0; k < blocks->n_parameters; k++) {
        const ls__parameter *parameter = &blocks->parameters[k];
        if (parameter->kind == LS_PARAMETER_BUFFER || (*i)-- > 0) continue;
        const ls__operand own = { operand->dtype, parameter->shape };
        const size_t offset = (size_t)parameter->offset * ls_dtype_bytes(operand->dtype);
        set_contents(out, &own, (unsigned char *)memory + offset);
        out->parameter = parameter->name;
        return true;
    }
    return false;
}

static bool is_whole_block(const ls__call *call, const ls__net_blocks *blocks, int j)
{
    const ls__operand *operand = &call->op->operands[j];
    const void *memory = call->buffers[j];
    if (operand->shape.n_dims != 1 || operand->shape.dims[0] != blocks->parameter_elements)
        return false;
    /* An activation may have the same size. */
    return call->updates || memory == blocks->values || memory == blocks->compute_weights;
}

bool ls__call_value(const ls__call *call, const ls__net_blocks *blocks, int i, ls__trace_value *out)
{
    bool found = false;
    for (int j = 0; j < call->op->n_operands && !found; j++) {
        const ls__operand *operand = &call->op->operands[j];
        if (!call->buffers[j] || ls__is_absent(operand)) continue;
        *out = (ls__trace_value){ .parameter = parameter_at(blocks, call->buffers[j]) };
        set_role(call, j, out);
        if (is_whole_block(call, blocks, j)) {
            found = find_in_block(blocks, operand, call->buffers[j], &i, out);
        } else if (i-- == 0) {
            set_contents(out, operand, call->buffers[j]);
            found = true;
        }
    }
    if (!found) return false;
    /* Integers are indices (labels, positions in a window), so that a changed one may be out of
     * range. A changed image byte is valid. */
    const bool is_float = out->dtype == LS_F32 || out->dtype == LS_BF16 || out->dtype == LS_F16;
    out->is_target = out->output && (is_float || (out->dtype == LS_U8 && call->feeds_input));
    return true;
}

/* ---- Elements ---- */

ls_status ls__trace_read(ls_context *ctx, const ls__trace_value *value, void *out)
{
    return ctx->device->backend->read(ctx->device, out, value->memory,
                                      (size_t)value->count * ls_dtype_bytes(value->dtype));
}

/* ---- Injected faults ---- */

bool ls__call_is_numbered(const ls__call *call)
{
    return !call->skipped && !call->recomputes;
}

int64_t ls__injected_fault_elements(const ls__call *call, const ls__net_blocks *blocks)
{
    int64_t n = 0;
    ls__trace_value value;
    for (int i = 0; ls__call_value(call, blocks, i, &value); i++)
        if (value.is_target) n += value.count;
    return n;
}

static bool is_among(const ls__call *call, const char *among)
{
    char text[LS__CALL_TEXT_SIZE];
    snprintf(text, sizeof(text), "%s@%s", call->kind, call->name);
    return !among[0] || strcmp(text, among) == 0;
}

/* One line for each op, as --inject-fault of the command takes it. Only the kind and the name of an
 * op are the same on all processors, because fusion depends on the kernels. */
static void log_ops(ls_context *ctx, ls__call *const *calls, int n_calls,
                    const ls__net_blocks *blocks)
{
    int64_t n_ops = 0;
    for (int i = 0; i < n_calls; i++) {
        if (!ls__call_is_numbered(calls[i])) continue;
        int64_t n_before = 0;
        for (int j = 0; j < i; j++)
            n_before += ls__call_is_numbered(calls[j]) &&
                        strcmp(calls[j]->kind, calls[i]->kind) == 0 &&
                        strcmp(calls[j]->name, calls[i]->name) == 0;
        char number[24] = "";
        if (n_before > 0) snprintf(number, sizeof(number), "#%" PRId64, n_before);
        ls__inform(ctx, LS_LOG_NET, "op %" PRId64 ": %s@%s%s, %" PRId64 " elements", n_ops++,
                   calls[i]->kind, calls[i]->name, number,
                   ls__injected_fault_elements(calls[i], blocks));
    }
}

ls_status ls__injected_fault_find(ls_context *ctx, const ls__injected_fault *fault,
                                  ls__call *const *calls, int n_calls, const ls__net_blocks *blocks,
                                  int *position)
{
    int64_t n_ops = 0, n_among = 0;
    log_ops(ctx, calls, n_calls, blocks);
    for (int i = 0; i < n_calls; i++) {
        if (!ls__call_is_numbered(calls[i])) continue;
        n_ops++;
        if (!is_among(calls[i], fault->among) || n_among++ != fault->op) continue;
        const int64_t n = ls__injected_fault_elements(calls[i], blocks);
        *position = i;
        if (fault->element >= 0 && fault->element < n) return LS_OK;
        return ls__fail(ctx, LS_ERR_INVALID,
                        "injected fault: element %" PRId64 " of op %" PRId64
                        ", %s '%s', which has %" PRId64 " elements that can be changed",
                        fault->element, fault->op, calls[i]->kind, calls[i]->name, n);
    }
    if (!fault->among[0])
        return ls__fail(ctx, LS_ERR_INVALID,
                        "injected fault: op %" PRId64 "; the step has %" PRId64 " ops", fault->op,
                        n_ops);
    return ls__fail(ctx, LS_ERR_INVALID,
                    "injected fault: op %s#%" PRId64 "; the step has %" PRId64 " ops, %" PRId64
                    " of them %s",
                    fault->among, fault->op, n_ops, n_among, fault->among);
}

static ls_status change(ls__device *device, const ls__trace_value *value, int64_t element)
{
    const size_t size = ls_dtype_bytes(value->dtype);
    void *memory = (char *)value->memory + (size_t)element * size;
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

ls_status ls__injected_fault_apply(ls_context *ctx, const ls__injected_fault *fault,
                                   const ls__call *call, const ls__net_blocks *blocks)
{
    int64_t element = fault->element;
    ls__trace_value value;
    for (int i = 0; ls__call_value(call, blocks, i, &value); i++) {
        if (!value.is_target) continue;
        if (element < value.count) return change(ctx->device, &value, element);
        element -= value.count;
    }
    return LS_OK;
}
