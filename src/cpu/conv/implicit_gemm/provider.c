/* provider.c: the provider of convolutions by implicit GEMM. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"
#include "cpu/conv/roles.h"

static const double GIGABYTES = 50;

static double linear_cost_ms(const ls__op *op)
{
    static const double LINEAR_GFLOPS = 60;
    static const double CONVERTED_GIGABYTES = 10; /* in bf16 and f32, as emulation's casts */
    const double ms = ls__op_flops(op) / (LINEAR_GFLOPS * 1e6);
    return op->operands[0].dtype == LS_BF16
               ? ms + 3 * ls__op_bytes(op) / (CONVERTED_GIGABYTES * 1e6)
               : ms + ls__op_bytes(op) / (GIGABYTES * 1e6);
}

/* The part of a product's vectors that hold results or, in backward weights, places of (tap,
 * channel). */
static double filled(const ls__implicit_gemm_shape *s, ls__op_kind kind)
{
    enum { VECTOR = 16 };
    const int64_t columns = kind == LS__OP_CONV2D_BACKWARD_WEIGHTS
                                ? s->kernel[0] * s->kernel[1] * s->source.channels
                                : s->result.channels;
    return (double)columns / (double)ls__round_up_to(columns, VECTOR);
}

/* The time to gather few channels: lines of taps or, in groups and backward by data, single taps.
 * 10 ns for each was measured on a Sapphire Rapids by bench_ops, for the first layers of LeNet and
 * the ResNets and for MobileNetV2's depthwise layers as products. */
static double gather_ms(const ls__op *op, const ls__implicit_gemm_shape *s)
{
    static const double GATHER_MS = 1e-5;
    ls__conv_roles roles;
    ls__conv_roles_of(op->kind, &roles);
    const int64_t *y = op->operands[roles.y].shape.dims;
    const int64_t lines = s->groups == 1 && !s->data ? 1 : s->kernel[1];
    return GATHER_MS * (double)(y[0] * y[1] * y[2] * s->kernel[0] * lines * s->groups);
}

/* Measured by bench_ops on the layers of the ResNets on a Zen 3, whose core reaches 103 Gflop/s.
 * 1x1 kernels run at 88, 90 and 79 Gflop/s (forward, backward by data, backward weights); their
 * estimates are lower, and stay so because selections, and so bits, follow from them. */
static double conv_cost_ms(const ls__op *op)
{
    const ls__implicit_gemm_shape s = ls__implicit_gemm_shape_of(op);
    static const double GFLOPS[LS__N_OPS][2] = {
        /* of many taps, of one */
        [LS__OP_CONV2D] = { 92, 70 },
        [LS__OP_CONV2D_BACKWARD_DATA] = { 92, 65 },
        [LS__OP_CONV2D_BACKWARD_WEIGHTS] = { 82, 58 },
    };
    static const double FEW = 0.6; /* with up to FEW_CHANNELS on both sides */
    enum { FEW_CHANNELS = 32, VERY_FEW_CHANNELS = 8 };
    static const double MOSTLY_EMPTY = 0.7; /* results that no tap reaches, between those of one */
    const int64_t in = s.source.channels, out = s.result.channels;
    double gflops = GFLOPS[op->kind][s.kernel[0] * s.kernel[1] == 1], gathered_ms = 0;
    if (in <= FEW_CHANNELS && out <= FEW_CHANNELS) gflops *= FEW;
    if (in < VERY_FEW_CHANNELS || out < VERY_FEW_CHANNELS || s.groups > 1) {
        gflops *= filled(&s, op->kind);
        gathered_ms = gather_ms(op, &s);
    }
    if (ls__implicit_gemm_has_empty_phase(&s)) gflops *= MOSTLY_EMPTY;
    return ls__op_flops(op) / (gflops * 1e6) + ls__op_bytes(op) / (GIGABYTES * 1e6) + gathered_ms;
}

static double implicit_gemm_cost_ms(const ls__op *op)
{
    if (ls__is_linear(op->kind)) return linear_cost_ms(op);
    return ls__conv_kinds[op->kind] ? conv_cost_ms(op) : -1;
}

static void implicit_gemm_plan(ls__conv_kernel *kernel, const ls__op *planned,
                               const void *microkernels)
{
    ls__implicit_gemm_kernel *k = (ls__implicit_gemm_kernel *)kernel;
    const ls__op conv = ls__is_linear(planned->kind) ? ls__linear_as_conv(planned) : *planned;
    const ls__op *const op = &conv;
    k->base.kind = op->kind;
    k->relu = planned->kind == LS__OP_LINEAR && planned->u.linear.relu;
    k->micro = microkernels;
    k->bf16 = op->operands[0].dtype == LS_BF16;
    k->shape = ls__implicit_gemm_shape_of(op);
    k->n_products = k->shape.n_phases[0] * k->shape.n_phases[1];
    if (op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS)
        ls__implicit_gemm_plan_weights(k);
    else if (ls__implicit_gemm_is_few_rows(&k->shape))
        ls__implicit_gemm_plan_few_rows(k);
    else if (ls__implicit_gemm_is_swapped(&k->shape))
        ls__implicit_gemm_plan_swapped(k);
    else
        ls__implicit_gemm_plan_correlation(k, !k->shape.data && !ls__is_absent(&op->operands[2]));
    ls__conv_plan_bias(kernel, op);
}

const ls__conv_algorithm ls__implicit_gemm_algorithm = {
    "implicit gemm", sizeof(ls__implicit_gemm_kernel), implicit_gemm_cost_ms, implicit_gemm_plan
};

static int implicit_gemm_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    (void)cpu;
    return ls__conv_candidates(&ls__implicit_gemm_algorithm, op, out, max);
}

static ls_status implicit_gemm_open(ls__cpu *cpu, const ls__op *op, const char *name,
                                    ls__kernel **out)
{
    static const ls__microkernels *const tables[] = { LS__BY_ISA(
        &ls__microkernels_plain, &ls__microkernels_avx2, &ls__microkernels_avx512) };
    return ls__conv_open(&ls__implicit_gemm_algorithm, cpu, op, tables[cpu->isa], name, out);
}

const ls__cpu_provider ls__implicit_gemm_provider = { "implicit gemm", implicit_gemm_candidates,
                                                      implicit_gemm_open,
                                                      ls__conv_and_linear_kinds };
