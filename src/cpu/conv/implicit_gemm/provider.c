/* provider.c: the provider of convolutions by implicit GEMM. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"
#include "cpu/conv/roles.h"

/* Fewer channels are less than a vector. */
enum { MIN_CHANNELS = 8 };

static const double GIGABYTES = 50;

/* The linear layers that our own kernels run faster than oneDNN's sgemm, whose cost is that of 60
 * Gflop/s: measured by bench_ops on a Sapphire Rapids, with AVX2 and with AVX-512. They take 0.6 to
 * 0.95 of its time, others 0.9 to 1.3 of it and forward ops of a few rows up to 5 times as long. */
static const struct {
    int64_t min_weights, min_rows, max_rows;
} faster[LS__N_OPS] = {
    [LS__OP_LINEAR] = { 1 << 18, 32, 512 },
    [LS__OP_LINEAR_BACKWARD_DATA] = { 1 << 20, 48, 256 },
    [LS__OP_LINEAR_BACKWARD_WEIGHTS] = { 1 << 20, 48, 128 },
};

static double linear_cost_ms(const ls__op *op)
{
    static const double FASTER = 80, OTHER = 50;  /* Gflop/s */
    static const double CONVERTED_GIGABYTES = 10; /* in bf16 and f32, as emulation's casts */
    const int64_t rows = op->operands[0].shape.dims[0];
    const double weights = ls__op_flops(op) / (2 * (double)rows);
    const bool is_faster = rows >= faster[op->kind].min_rows && rows <= faster[op->kind].max_rows &&
                           weights >= (double)faster[op->kind].min_weights;
    const double ms = ls__op_flops(op) / ((is_faster ? FASTER : OTHER) * 1e6);
    return op->operands[0].dtype == LS_BF16
               ? ms + 3 * ls__op_bytes(op) / (CONVERTED_GIGABYTES * 1e6)
               : ms + ls__op_bytes(op) / (GIGABYTES * 1e6);
}

/* Measured by bench_ops on the layers of the ResNets on a Zen 3, whose core reaches 103 Gflop/s.
 * 1x1 kernels run at 88, 90 and 79 Gflop/s (forward, backward by data, backward weights), as
 * oneDNN's blocked ones do, but a step of resnet50 with oneDNN's was 2 % faster. So their cost is
 * set higher, and they are selected only if oneDNN has no kernel. */
static double implicit_gemm_cost_ms(const ls__op *op)
{
    if (ls__is_linear(op->kind)) return linear_cost_ms(op);
    ls__conv_roles roles;
    ls__implicit_gemm_phase phases[LS__IMPLICIT_GEMM_MAX_PHASES];
    const int n =
        ls__conv_is_plain(op, MIN_CHANNELS, &roles) ? ls__implicit_gemm_phases(op, phases) : 0;
    if (n == 0) return -1;
    static const double GFLOPS[LS__N_OPS][2] = {
        /* of many taps, of one */
        [LS__OP_CONV2D] = { 92, 70 },
        [LS__OP_CONV2D_BACKWARD_DATA] = { 92, 65 },
        [LS__OP_CONV2D_BACKWARD_WEIGHTS] = { 82, 58 },
    };
    static const double FEW = 0.6; /* with up to FEW_CHANNELS on both sides */
    enum { FEW_CHANNELS = 32 };
    static const double MOSTLY_EMPTY = 0.7; /* results that no tap reaches, between those of one */
    const int64_t *w = op->operands[roles.w].shape.dims;
    double gflops = GFLOPS[op->kind][w[1] * w[2] == 1];
    if (w[0] <= FEW_CHANNELS && w[3] <= FEW_CHANNELS) gflops *= FEW;
    bool empty = false;
    for (int i = 0; i < n; i++) empty = empty || phases[i].n_taps == 0;
    if (empty) gflops *= MOSTLY_EMPTY;
    return ls__op_flops(op) / (gflops * 1e6) + ls__op_bytes(op) / (GIGABYTES * 1e6);
}

static ls__implicit_gemm_image image_of(const ls__operand *o)
{
    const int64_t *d = o->shape.dims;
    return (ls__implicit_gemm_image){ { d[1], d[2] }, d[3] };
}

static void implicit_gemm_plan(ls__conv_kernel *kernel, const ls__op *planned,
                               const void *microkernels)
{
    ls__implicit_gemm_kernel *k = (ls__implicit_gemm_kernel *)kernel;
    ls__implicit_gemm_phase phases[LS__IMPLICIT_GEMM_MAX_PHASES];
    const ls__op conv = ls__is_linear(planned->kind) ? ls__linear_as_conv(planned) : *planned;
    const ls__op *const op = &conv;
    const bool weights = op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    k->base.kind = op->kind;
    k->relu = planned->kind == LS__OP_LINEAR && planned->u.linear.relu;
    k->micro = microkernels;
    k->data = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    k->source = image_of(&op->operands[0]);
    k->result = image_of(&op->operands[weights ? 1 : k->data ? 2 : 3]);
    k->bf16 = op->operands[0].dtype == LS_BF16;
    k->all_taps = op->u.conv.kernel[0] * op->u.conv.kernel[1];
    k->n_products = ls__implicit_gemm_phases(op, phases);
    for (int i = 0; i < k->n_products; i++)
        k->products[i] = (ls__implicit_gemm_product){ phases[i], .depth = phases[i].n_taps *
                                                                          k->source.channels };
    if (weights)
        ls__implicit_gemm_plan_weights(k, !ls__is_absent(&op->operands[3]));
    else
        ls__implicit_gemm_plan_correlation(k, !k->data && !ls__is_absent(&op->operands[2]));
}

const ls__conv_algorithm ls__implicit_gemm_algorithm = {
    "implicit gemm", sizeof(ls__implicit_gemm_kernel), implicit_gemm_cost_ms, implicit_gemm_plan
};

static int implicit_gemm_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    return ls__conv_candidates(&ls__implicit_gemm_algorithm, cpu, op, out, max);
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
