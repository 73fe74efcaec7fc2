/* provider.c: see provider.h. */
#include "cpu/conv/provider.h"
#include "base/alloc.h"
#include "base/error.h"
#include <stdio.h>
#include <string.h>

int ls__conv_candidates(const ls__conv_algorithm *algorithm, const ls__cpu *cpu, const ls__op *op,
                        ls__candidate *out, int max)
{
    const double cost_ms = max > 0 && cpu->isa >= LS__ISA_AVX2 ? algorithm->cost_ms(op) : -1;
    if (cost_ms < 0) return 0;
    *out = (ls__candidate){ .deterministic = true, .cost_ms = cost_ms };
    snprintf(out->name, sizeof out->name, "%s", algorithm->name);
    return 1;
}

static void close_kernel(ls__kernel *kernel)
{
    ls__free(((ls__conv_kernel *)kernel)->cpu->device.ctx, kernel);
}

ls_status ls__conv_open(const ls__conv_algorithm *algorithm, ls__cpu *cpu, const ls__op *op,
                        const void *microkernels, const char *name, ls__kernel **out)
{
    *out = NULL;
    if (strcmp(name, algorithm->name) != 0 || cpu->isa < LS__ISA_AVX2 || algorithm->cost_ms(op) < 0)
        return ls__fail(cpu->device.ctx, LS_ERR_UNSUPPORTED, "%s: no kernel '%s' for this shape",
                        ls__op_name(op->kind), name);
    ls__conv_kernel *k = ls__zalloc(cpu->device.ctx, algorithm->kernel_bytes);
    if (!k) return ls__fail_memory(cpu->device.ctx, name, algorithm->kernel_bytes);
    k->cpu = cpu;
    k->kind = op->kind;
    k->kernel.close = close_kernel;
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    algorithm->plan(k, op, microkernels);
    const ls_status status = ls__cpu_reserve_scratch(cpu, k->scratch_bytes);
    if (status == LS_OK)
        *out = &k->kernel;
    else
        close_kernel(&k->kernel);
    return status;
}

ls__conv_call ls__conv_call_of(const ls__kernel *kernel, void *const *buffers, void *workspace)
{
    const ls__op_kind kind = ((const ls__conv_kernel *)kernel)->kind;
    ls__conv_call call = {
        .kernel = kernel, .x = buffers[0], .w = buffers[1], .y = buffers[2], .workspace = workspace
    };
    if (kind == LS__OP_CONV2D) {
        call.bias = buffers[2];
        call.y = buffers[3];
    } else if (kind == LS__OP_CONV2D_BACKWARD_WEIGHTS) {
        call.bias = buffers[3];
    }
    return call;
}
