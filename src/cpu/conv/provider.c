/* provider.c: see provider.h. */
#include "cpu/conv/provider.h"
#include "base/alloc.h"
#include "base/error.h"
#include <stdio.h>
#include <string.h>

int ls__conv_candidates(const ls__conv_algorithm *algorithm, const ls__op *op, ls__candidate *out,
                        int max)
{
    const double cost_ms = max > 0 ? algorithm->cost_ms(op) : -1;
    if (cost_ms < 0) return 0;
    *out = (ls__candidate){ .deterministic = true, .cost_ms = cost_ms };
    snprintf(out->name, sizeof out->name, "%s", algorithm->name);
    return 1;
}

ls__conv_call ls__conv_call_of(const ls__kernel *kernel, void *const *buffers, void *workspace)
{
    const ls__op_kind kind = ((const ls__conv_kernel *)kernel)->kind;
    const bool forward = kind == LS__OP_CONV2D;
    return (ls__conv_call){ .kernel = kernel,
                            .x = buffers[0],
                            .w = buffers[1],
                            .bias = kind == LS__OP_CONV2D_BACKWARD_DATA ? NULL
                                                                        : buffers[forward ? 2 : 3],
                            .y = buffers[forward ? 3 : 2],
                            .workspace = workspace };
}

static void own_conv_run_task(void *arg, int64_t task, int thread)
{
    const ls__conv_call *call = arg;
    const ls__conv_kernel *k = call->kernel;
    call->task(call, task, (float *)(void *)k->cpu->scratch[thread]);
}

void ls__conv_run_pass(ls__conv_call *call, ls__conv_task task, int64_t n_tasks)
{
    const ls__conv_kernel *k = call->kernel;
    call->task = task;
    ls__threads_run(k->cpu->threads, n_tasks, own_conv_run_task, call);
}

void ls__conv_run_bias(ls__conv_call *call)
{
    const ls__conv_bias *bias = &((const ls__conv_kernel *)call->kernel)->bias;
    for (int i = 0; i < 2; i++)
        ls__conv_run_pass(call, bias->passes[i].run, bias->passes[i].n_tasks);
}

static ls_status own_conv_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                              const ls__step *step)
{
    (void)step;
    const ls__conv_kernel *k = (const ls__conv_kernel *)kernel;
    ls__conv_call call = ls__conv_call_of(kernel, buffers, workspace);
    for (int i = 0; i < LS__CONV_MAX_PASSES; i++)
        ls__conv_run_pass(&call, k->passes[i].run, k->passes[i].n_tasks);
    ls__conv_run_bias(&call);
    return LS_OK;
}

static void own_conv_close(ls__kernel *kernel)
{
    ls__free(((ls__conv_kernel *)kernel)->cpu->device.ctx, kernel);
}

ls_status ls__conv_open(const ls__conv_algorithm *algorithm, ls__cpu *cpu, const ls__op *op,
                        const void *microkernels, const char *name, ls__kernel **out)
{
    *out = NULL;
    if (strcmp(name, algorithm->name) != 0 || algorithm->cost_ms(op) < 0)
        return ls__fail(cpu->device.ctx, LS_ERR_UNSUPPORTED, "%s: no kernel '%s' for this shape",
                        ls__op_name(op->kind), name);
    ls__conv_kernel *k = ls__zalloc(cpu->device.ctx, algorithm->kernel_bytes);
    if (!k) return ls__fail_memory(cpu->device.ctx, name, algorithm->kernel_bytes);
    k->cpu = cpu;
    k->kind = op->kind;
    k->kernel.run = own_conv_run;
    k->kernel.close = own_conv_close;
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    algorithm->plan(k, op, microkernels);
    const ls_status status = ls__cpu_reserve_scratch(cpu, k->scratch_bytes);
    if (status == LS_OK)
        *out = &k->kernel;
    else
        own_conv_close(&k->kernel);
    return status;
}
