/* injected_fault.c: an injected fault: one element of one op's output is increased by one ulp. */
#include "nn/exec/call_values.h"

#include "base/error.h"
#include "base/context.h"
#include "arith/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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
 * op are the same on all processors, because layouts depend on the kernels. */
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
    const int64_t place = ls__trace_place(value, element);
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
