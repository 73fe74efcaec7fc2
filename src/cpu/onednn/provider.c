/* provider.c: the provider of oneDNN's kernels: at most one for an op, the implementation that
 * oneDNN prefers. Timing all of them on a Sapphire Rapids (AMX, oneDNN 2.6.3, the ops of resnet18,
 * resnet50 and mobilenet_v2) found faster ones that would save 7 to 18 % of the time of all
 * convolutions. */
#include "base/error.h"
#include "base/text.h"
#include "cpu/conv/roles.h"
#include "cpu/onednn/plan.h"
#include <stdio.h>
#include <string.h>

static bool has_kernels(const ls__op *op)
{
    return ls__conv_and_linear_kinds[op->kind] && op->operands[0].dtype == LS_BF16;
}

static ls__op as_conv(const ls__op *op)
{
    return ls__conv_kinds[op->kind] ? *op : ls__linear_as_conv(op);
}

/* Estimates are for one thread, whatever their number, because a selection must not depend on it.
 * Those for AMX were fitted so that the selections between these kernels and ours take the least
 * time, with the ops above. Those for AVX512_BF16 alone are twice the speed that oneDNN's f32
 * kernels had on the layers of the ResNets on a Zen 4. */
static double cost_ms(const ls__op *op, const ls__conv_plan *plan, const char *name)
{
    /* weight_ns: nanoseconds for each weight, which tasks load, and backward weights sum. */
    static const struct {
        double gflops, weight_ns;
    } speeds[2][LS__DNN_N_DIRECTIONS] = { { { 165, 0 }, { 175, 0 }, { 130, 0 } },
                                          { { 600, 1 }, { 300, 1.5 }, { 150, 8 } } };
    static const double GIGABYTES = 50, RUN_MS = 0.005;
    /* A depthwise convolution by a kernel for other ones: 5 to 7 GFLOP/s on MobileNetV2's layers.
     */
    static const double DEPTHWISE_AS_OTHER = 6;
    const ls__dnn_conv *t = &plan->task;
    const double weights = (double)(plan->x_channels / t->groups) * (double)plan->y_channels *
                           (double)(t->kernel[0] * t->kernel[1]);
    const bool has_amx = strstr(name, "amx") != NULL;
    const bool depthwise = t->groups > 1 && t->groups == plan->x_channels;
    double gflops = speeds[has_amx][t->direction].gflops;
    if (depthwise && !strstr(name, "dw")) gflops = DEPTHWISE_AS_OTHER;
    return RUN_MS + ls__op_flops(op) / (gflops * 1e6) +
           weights * speeds[has_amx][t->direction].weight_ns / 1e6 +
           ls__op_bytes(op) / (GIGABYTES * 1e6);
}

/* Sets the name of the implementation that oneDNN prefers for both the larger and the smaller
 * sub-batches; an empty one if there is none. */
static ls_status name_kernel(ls__dnn *dnn, const ls__conv_plan *plan, char name[LS__DNN_NAME_SIZE])
{
    ls__dnn_conv task = plan->task;
    LS_TRY(ls__dnn_conv_name(dnn, &task, name));
    if (plan->n_larger == plan->n_batches || !name[0]) return LS_OK;
    char smaller[LS__DNN_NAME_SIZE];
    task.n--;
    LS_TRY(ls__dnn_conv_name(dnn, &task, smaller));
    if (strcmp(name, smaller) != 0) name[0] = '\0';
    return LS_OK;
}

static int dnn_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    if (max < 1 || !has_kernels(op)) return 0;
    ls__conv_plan plan;
    const ls__op conv = as_conv(op);
    if (!ls__conv_plan_make(&conv, &plan)) return 0;
    if (ls__onednn_lend(cpu->device.ctx, cpu->onednn, ls__op_name(op->kind)) != LS_OK) return 0;
    char name[LS__DNN_NAME_SIZE];
    const int before = ls__dnn_one_thread();
    const ls_status status = name_kernel(cpu->onednn->dnn, &plan, name);
    ls__dnn_restore_threads(before);
    (void)ls__headroom_hold(&cpu->onednn->headroom);
    if (status != LS_OK || !name[0]) return 0;
    *out = (ls__candidate){ .deterministic = true, .cost_ms = cost_ms(op, &plan, name) };
    snprintf(out->name, sizeof out->name, "onednn %.*s", LS__CUT(name, LS__DNN_NAME_SIZE - 1));
    return 1;
}

static ls_status dnn_kernel_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    *out = NULL;
    if (!has_kernels(op))
        return ls__fail(cpu->device.ctx, LS_ERR_UNSUPPORTED,
                        "%s: no kernel '%s': oneDNN has kernels for convolutions and linear layers "
                        "in bf16",
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
