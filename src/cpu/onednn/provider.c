/* provider.c: the provider of oneDNN's kernels. */
#include "base/error.h"
#include "cpu/conv/roles.h"
#include "cpu/onednn/onednn.h"

static bool lacks_type(const ls__cpu *cpu, const ls__op *op)
{
    return ls__onednn_is_bf16(op) && !cpu->onednn->has_bf16;
}

static int dnn_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    if (!ls__conv_and_linear_kinds[op->kind] || lacks_type(cpu, op)) return 0;
    if (ls__onednn_lend(cpu->device.ctx, cpu->onednn, ls__op_name(op->kind)) != LS_OK) return 0;
    const int before = ls__dnn_one_thread();
    const int n = ls__conv_kinds[op->kind] ? ls__onednn_conv_candidates(cpu, op, out, max)
                                           : ls__onednn_linear_candidates(cpu, op, out, max);
    ls__dnn_restore_threads(before);
    (void)ls__headroom_hold(&cpu->onednn->headroom);
    return n;
}

static ls_status dnn_kernel_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    *out = NULL;
    if (!ls__conv_and_linear_kinds[op->kind])
        return ls__fail(cpu->device.ctx, LS_ERR_UNSUPPORTED, "%s: oneDNN has no kernel",
                        ls__op_name(op->kind));
    if (lacks_type(cpu, op))
        return ls__fail(cpu->device.ctx, LS_ERR_UNSUPPORTED,
                        "%s: no kernel '%s': this processor does not multiply bf16",
                        ls__op_name(op->kind), name);
    LS_TRY(ls__onednn_lend(cpu->device.ctx, cpu->onednn, ls__op_name(op->kind)));
    const int before = ls__dnn_one_thread();
    const ls_status status = ls__conv_kinds[op->kind]
                                 ? ls__onednn_conv_open(cpu, op, false, name, out)
                                 : ls__onednn_linear_open(cpu, op, name, out);
    ls__dnn_restore_threads(before);
    (void)ls__headroom_hold(&cpu->onednn->headroom);
    return status;
}

const ls__cpu_provider ls__onednn_provider = { "onednn", dnn_candidates, dnn_kernel_open,
                                               ls__conv_and_linear_kinds };
