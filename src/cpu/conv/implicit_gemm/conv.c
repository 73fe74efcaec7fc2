/* conv.c: the provider of convolutions as products. */
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/conv_roles.h"
#include "cpu/conv/implicit_gemm/kernel.h"

#include <stdio.h>
#include <string.h>

static const char NAME[] = "gemm";

/* Of fewer channels there is less than a vector. */
enum { LEAST_CHANNELS = 8 };

static bool fits(const ls__cpu *cpu, const ls__op *op)
{
    ls__conv_roles roles;
    return cpu->isa >= LS__ISA_AVX2 && ls__conv_is_plain(op, LEAST_CHANNELS, &roles);
}

/* For one thread, whatever their number: a choice must not depend on it. Measured on a Zen 3, whose
 * core does 103 Gflop/s at best, by bench_ops on the layers of the ResNets: forward, backward by
 * data, backward weights. Kernels of 1x1 run at 88, 90 and 79, as oneDNN's in blocks do, but a step
 * of resnet50 with oneDNN's was 2 % faster: so they are for where oneDNN has none, and cost more.
 */
static double cost_ms(const ls__op *op, const ls__gemm_phase *phases, int n)
{
    ls__conv_roles roles;
    ls__conv_roles_of(op->kind, &roles);
    static const double GFLOPS[LS__N_OPS][2] = {
        /* of many taps, of one */
        [LS__OP_CONV2D] = { 92, 70 },
        [LS__OP_CONV2D_BACKWARD_DATA] = { 92, 65 },
        [LS__OP_CONV2D_BACKWARD_WEIGHTS] = { 82, 58 },
    };
    static const double GIGABYTES = 50;
    static const double NARROW = 0.6; /* up to NARROW_CHANNELS on both sides */
    enum { NARROW_CHANNELS = 32 };
    static const double MOSTLY_EMPTY = 0.7; /* results that no tap reaches, between those of one */
    const int64_t *w = op->operands[roles.w].shape.dims;
    double gflops = GFLOPS[op->kind][w[1] * w[2] == 1];
    if (w[0] <= NARROW_CHANNELS && w[3] <= NARROW_CHANNELS) gflops *= NARROW;
    bool empty = false;
    for (int i = 0; i < n; i++) empty = empty || phases[i].n_taps == 0;
    if (empty) gflops *= MOSTLY_EMPTY;
    return ls__op_flops(op) / (gflops * 1e6) + ls__op_bytes(op) / (GIGABYTES * 1e6);
}

static int candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    ls__gemm_phase phases[LS__GEMM_MOST_PHASES];
    const int n = max > 0 && fits(cpu, op) ? ls__gemm_phases(op, phases) : 0;
    if (n == 0) return 0;
    *out = (ls__candidate){ .deterministic = true, .cost_ms = cost_ms(op, phases, n) };
    snprintf(out->name, sizeof out->name, "%s", NAME);
    return 1;
}

static void close_kernel(ls__kernel *kernel)
{
    ls__free(((ls__gemm_kernel *)kernel)->cpu->device.ctx, kernel);
}

static ls__gemm_image image_of(const ls__operand *o)
{
    return (ls__gemm_image){ { o->shape.dims[1], o->shape.dims[2] },
                             o->shape.dims[3],
                             o->dtype == LS_BF16 };
}

ls_status ls__gemm_open(ls__cpu *cpu, const ls__op *op, const ls__gemm_lanes *lanes,
                        const char *name, ls__kernel **out)
{
    ls_context *ctx = cpu->device.ctx;
    ls__gemm_phase phases[LS__GEMM_MOST_PHASES];
    const int n = strcmp(name, NAME) == 0 && fits(cpu, op) ? ls__gemm_phases(op, phases) : 0;
    if (n == 0)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: no kernel '%s' for this shape",
                        ls__op_name(op->kind), name);
    ls__gemm_kernel *k = ls__zalloc(ctx, sizeof *k);
    if (!k) return ls__fail_memory(ctx, name, sizeof *k);
    const bool weights = op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    k->cpu = cpu;
    k->lanes = lanes;
    k->data = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    k->source = image_of(&op->operands[0]);
    k->result = image_of(&op->operands[weights ? 1 : k->data ? 2 : 3]);
    k->bf16 = k->source.bf16;
    k->filters = op->operands[1].shape.dims[0];
    k->filter_floats = ls_shape_count(&op->operands[1].shape) / k->filters;
    k->all_taps = op->u.conv.kernel[0] * op->u.conv.kernel[1];
    k->n_parts = n;
    for (int i = 0; i < n; i++)
        k->parts[i] = (ls__gemm_part){ phases[i], .depth = phases[i].n_taps * k->source.channels };
    const bool bias = op->kind == LS__OP_CONV2D && !ls__is_absent(&op->operands[2]);
    const size_t scratch = weights ? ls__gemm_plan_weights(k) : ls__gemm_plan_products(k, bias);
    k->kernel.run = weights ? ls__gemm_run_weights : ls__gemm_run_products;
    k->kernel.close = close_kernel;
    strncpy(k->kernel.name, name, sizeof k->kernel.name - 1);
    const ls_status status = ls__cpu_reserve_scratch(cpu, scratch);
    if (status != LS_OK) {
        close_kernel(&k->kernel);
        return status;
    }
    *out = &k->kernel;
    return LS_OK;
}

static ls_status kernel_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    const ls__gemm_lanes *lanes = cpu->isa >= LS__ISA_AVX512 ? &ls__gemm_avx512 : &ls__gemm_avx2;
    return ls__gemm_open(cpu, op, lanes, name, out);
}

const ls__cpu_provider ls__gemm_provider = { "gemm", candidates, kernel_open, ls__conv_kinds };
