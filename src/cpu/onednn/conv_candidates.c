/* conv_candidates.c: oneDNN's convolution kernels for an op, and their estimated costs. */
#include "base/context.h"
#include "base/text.h"
#include "cpu/onednn/plan.h"
#include <stdio.h>
#include <string.h>

/* The most that a core reaches in f32, GFLOP/s, measured on a Zen 4. Estimates are for one thread,
 * whatever their number, because a selection must not depend on it. */
static const double MAX_GFLOPS = 115;

/* The speed of products of bf16, relative to f32. Instructions of AVX512_BF16 do two where those of
 * f32 do one. Those of AMX, which is in the kernel's name, do 16, of which half is counted because
 * tiles must be loaded too. Neither was timed. */
static double bf16_gain(const char *name)
{
    return strstr(name, "amx") ? 8 : 2;
}
/* Kernels at that speed wait for memory: a core's bandwidth in GB/s, as in
 * implicit_gemm/provider.c. */
static const double GIGABYTES = 50;

/* The fraction of MAX_GFLOPS that kernels reach on ResNet's layers (bench_ops): forward, backward
 * data, backward weights. The first row whose text is in the name counts. */
static const struct {
    const char *text;
    double of[LS__DNN_N_DIRECTIONS];
} efficiencies[] = {
    { "jit_dw", { 0.15, 0.15, 0.10 } },
    { "brdgmm_dw", { 0.38, 0.38, 0.38 } }, /* MobileNetV2's, Zen 4 */
    { "1x1", { 0.77, 0.72, 0.60 } },
    { "gemm", { 0.50, 0.70, 0.46 } },
    { "", { 0.68, 0.80, 0.54 } },
};
enum { N_EFFICIENCIES = sizeof efficiencies / sizeof efficiencies[0] };
/* Up to so many channels, pixels do not evict each other from the first-level cache, so the last
 * row's kernels, which read whole windows, are faster; matrices of so few channels are slow. */
enum { FEW_CHANNELS = 32 };
static const double FEW_CHANNELS_WINDOW[LS__DNN_N_DIRECTIONS] = { 0.84, 0.91, 0.66 };
static const double FEW_CHANNELS_GEMM = 0.5;
/* A kernel that reads whole windows is slower with strides and with windows of one pixel. */
static const double STRIDED_WINDOW[LS__DNN_N_DIRECTIONS] = { 0.83, 0.72, 0.95 };
static const double WINDOW_ON_1X1 = 0.5;
/* Channels that do not fill whole vectors: LeNet's 1 to 6 and 6 to 16. 3 to 16 or more
 * channels are not slower. */
static const double RAGGED[LS__DNN_N_DIRECTIONS] = { 0.65, 0.45, 0.60 };
enum { RAGGED_VECTOR = 8, IMAGE_CHANNELS = 3 };
/* The fraction for a depthwise convolution by a kernel for other ones: 5 to 7 GFLOP/s on
 * MobileNetV2's layers. */
static const double DEPTHWISE_AS_OTHER = 0.07;
static const double RUN_MS = 0.005;

static double dnn_conv_cost_ms(const ls__op *op, const ls__conv_plan *plan, const char *name)
{
    const ls__dnn_conv *t = &plan->task;
    int i = 0;
    while (i < N_EFFICIENCIES - 1 && !strstr(name, efficiencies[i].text)) i++;
    const bool few = plan->x_channels <= FEW_CHANNELS && plan->y_channels <= FEW_CHANNELS;
    const bool window = i == N_EFFICIENCIES - 1;
    double efficiency = (few && window ? FEW_CHANNELS_WINDOW : efficiencies[i].of)[t->direction];
    if (few && strstr(name, "gemm")) efficiency *= FEW_CHANNELS_GEMM;
    const bool ragged = (plan->x_channels % RAGGED_VECTOR && plan->x_channels != IMAGE_CHANNELS) ||
                        plan->y_channels % RAGGED_VECTOR;
    if (window && ragged) efficiency *= RAGGED[t->direction];
    if (window && t->stride[0] > 1) efficiency *= STRIDED_WINDOW[t->direction];
    if (window && t->kernel[0] * t->kernel[1] == 1) efficiency *= WINDOW_ON_1X1;
    const bool depthwise =
        t->groups > 1 && t->groups == plan->x_channels && t->groups == plan->y_channels;
    if (depthwise && !strstr(name, "_dw")) efficiency *= DEPTHWISE_AS_OTHER;
    const double gflops = MAX_GFLOPS * efficiency * bf16_gain(name);
    return RUN_MS + ls__op_bytes(op) / (GIGABYTES * 1e6) + ls__op_flops(op) / (gflops * 1e6);
}

/* Names of the kernels that can run both the larger and the smaller sub-batches. */
static int list_names(ls__cpu *cpu, const ls__conv_plan *plan, char (*names)[LS__DNN_NAME_SIZE])
{
    ls__dnn *dnn = cpu->onednn->dnn;
    ls__dnn_conv task = plan->task;
    int n = ls__dnn_conv_list(dnn, &task, names, LS__MAX_CANDIDATES);
    if (plan->n_larger == plan->n_batches || n == 0) return n;
    char others[LS__MAX_CANDIDATES][LS__DNN_NAME_SIZE];
    task.n--;
    const int n_others = ls__dnn_conv_list(dnn, &task, others, LS__MAX_CANDIDATES);
    int n_both = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n_others; j++)
            if (strcmp(names[i], others[j]) == 0) {
                memmove(names[n_both++], names[i], LS__DNN_NAME_SIZE);
                break;
            }
    return n_both;
}

int ls__onednn_conv_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    ls__conv_plan plan;
    char names[LS__MAX_CANDIDATES][LS__DNN_NAME_SIZE];
    if (!ls__conv_plan_make(op, &plan)) return 0;
    const int n = (int)ls__min_i64(list_names(cpu, &plan, names), max);
    for (int i = 0; i < n; i++) {
        snprintf(out[i].name, sizeof out[i].name, "onednn %.*s", LS__CUT(names[i], 37));
        out[i].deterministic = true;
        out[i].cost_ms = dnn_conv_cost_ms(op, &plan, out[i].name);
    }
    /* best first */
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && out[j].cost_ms < out[j - 1].cost_ms; j--) {
            const ls__candidate swapped = out[j];
            out[j] = out[j - 1];
            out[j - 1] = swapped;
        }
    return n;
}
