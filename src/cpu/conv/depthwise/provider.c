/* provider.c: the provider of depthwise convolutions. */
#include "cpu/conv/depthwise/depthwise.h"
#include "cpu/conv/roles.h"

/* Sets the fields that follow from the shape. False if the op is not supported. */
static bool depthwise_describe(const ls__op *op, ls__depthwise_kernel *k)
{
    ls__conv_roles roles;
    if (!ls__conv_roles_of(op->kind, &roles)) return false;
    const ls__operand *x = &op->operands[roles.x], *y = &op->operands[roles.y];
    const int64_t *xd = x->shape.dims, *yd = y->shape.dims;
    if (xd[3] == 1 || op->u.conv.groups != xd[3] || yd[3] != xd[3]) return false;
    k->data = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    k->weights = op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    k->bf16 = op->operands[0].dtype == LS_BF16;
    k->images = xd[0];
    k->channels = xd[3];
    for (int d = 0; d < 2; d++) {
        k->kernel[d] = op->u.conv.kernel[d];
        k->stride[d] = op->u.conv.stride[d];
        k->padding[d] = op->u.conv.padding[d];
        k->dilation[d] = op->u.conv.dilation[d];
        k->source[d] = (k->data ? yd : xd)[1 + d];
        k->result[d] = (k->data ? xd : yd)[1 + d];
        if (k->kernel[d] > LS__DEPTHWISE_MAX_TAPS) return false;
    }
    return ls__depthwise_plan_ring(k);
}

/* Measured by bench_ops on MobileNetV2's layers on one core of a Zen 4: layers in its caches run at
 * 60 to 80 Gflop/s, larger ones move 21 to 26 GB/s of operands. */
static double depthwise_cost_ms(const ls__op *op)
{
    static const double GFLOPS = 70, GIGABYTES = 24, RUN_MS = 0.005;
    ls__depthwise_kernel k = { .images = 0 };
    if (!depthwise_describe(op, &k)) return -1;
    const double multiply_ms = ls__op_flops(op) / (GFLOPS * 1e6);
    const double move_ms = ls__op_bytes(op) / (GIGABYTES * 1e6);
    return RUN_MS + (multiply_ms > move_ms ? multiply_ms : move_ms);
}

static void depthwise_plan(ls__conv_kernel *kernel, const ls__op *op, const void *microkernels)
{
    ls__conv_roles roles;
    ls__depthwise_kernel *k = (ls__depthwise_kernel *)kernel;
    ls__conv_roles_of(op->kind, &roles);
    depthwise_describe(op, k);
    k->micro = microkernels;
    ls__depthwise_plan_tasks(k, ls__conv_has_bias(op, &roles));
}

const ls__conv_algorithm ls__depthwise_algorithm = { "depthwise", sizeof(ls__depthwise_kernel),
                                                     depthwise_cost_ms, depthwise_plan };

static int depthwise_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    (void)cpu;
    return ls__conv_candidates(&ls__depthwise_algorithm, op, out, max);
}

static ls_status depthwise_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    static const ls__depthwise_microkernels *const tables[] = { LS__BY_ISA(
        &ls__depthwise_plain, &ls__depthwise_avx2, &ls__depthwise_avx512) };
    return ls__conv_open(&ls__depthwise_algorithm, cpu, op, tables[cpu->isa], name, out);
}

const ls__cpu_provider ls__depthwise_provider = { "depthwise", depthwise_candidates, depthwise_open,
                                                  ls__conv_kinds };
