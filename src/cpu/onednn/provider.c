/* provider.c: the provider of oneDNN's kernels. */
#include "base/error.h"
#include "cpu/conv/roles.h"
#include "cpu/onednn/onednn.h"

static bool has_kernels(const ls__cpu *cpu, const ls__op *op)
{
    return cpu->onednn->has_bf16 && ls__conv_and_linear_kinds[op->kind] &&
           op->operands[0].dtype == LS_BF16;
}

static ls__op as_conv(const ls__op *op)
{
    return ls__conv_kinds[op->kind] ? *op : ls__linear_as_conv(op);
}

static int dnn_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    if (!has_kernels(cpu, op)) return 0;
    if (ls__onednn_lend(cpu->device.ctx, cpu->onednn, ls__op_name(op->kind)) != LS_OK) return 0;
    const int before = ls__dnn_one_thread();
    const ls__op conv = as_conv(op);
    const int n = ls__onednn_conv_candidates(cpu, &conv, out, max);
    ls__dnn_restore_threads(before);
    (void)ls__headroom_hold(&cpu->onednn->headroom);
    return n;
}

static ls_status dnn_kernel_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    *out = NULL;
    if (!has_kernels(cpu, op))
        return ls__fail(cpu->device.ctx, LS_ERR_UNSUPPORTED,
                        "%s: no kernel '%s': oneDNN has kernels for convolutions and linear layers "
                        "in bf16, on processors that multiply it",
                        ls__op_name(op->kind), name);
    LS_TRY(ls__onednn_lend(cpu->device.ctx, cpu->onednn, ls__op_name(op->kind)));
    const int before = ls__dnn_one_thread();
    const ls__op conv = as_conv(op);
    const bool relu = op->kind == LS__OP_LINEAR && op->u.linear.relu;
    const ls_status status = ls__onednn_conv_open(cpu, &conv, relu, name, out);
    ls__dnn_restore_threads(before);
    (void)ls__headroom_hold(&cpu->onednn->headroom);
    return status;
}

const ls__cpu_provider ls__onednn_provider = { "onednn", dnn_candidates, dnn_kernel_open,
                                               ls__conv_and_linear_kinds };
