/* provider.c: the provider of Winograd convolutions. */
#include "cpu/conv/roles.h"
#include "cpu/conv/winograd/winograd.h"

/* Below this number of channels the transforms cost more than they save. */
enum { MIN_CHANNELS = 8 };

static bool is_supported(const ls__op *op)
{
    ls__conv_roles roles;
    if (!ls__conv_roles_of(op->kind, &roles) || op->u.conv.groups != 1 ||
        op->operands[roles.x].shape.dims[3] < MIN_CHANNELS ||
        op->operands[roles.y].shape.dims[3] < MIN_CHANNELS)
        return false;
    for (int i = 0; i < 2; i++)
        if (op->u.conv.kernel[i] != 3 || op->u.conv.stride[i] != 1 || op->u.conv.dilation[i] != 1 ||
            op->u.conv.padding[i] > 2)
            return false;
    return true;
}

static void find_geometry(const ls__op *op, ls__winograd_geometry *g)
{
    ls__conv_roles roles;
    ls__conv_roles_of(op->kind, &roles);
    const bool back = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    const int64_t *in = op->operands[0].shape.dims;
    const int64_t *out = op->operands[back ? roles.x : roles.y].shape.dims;
    const int64_t *padding = op->u.conv.padding;
    *g = (ls__winograd_geometry){ .n = in[0],
                                  .in_h = in[1],
                                  .in_w = in[2],
                                  .in_channels = in[3],
                                  .out_h = out[1],
                                  .out_w = out[2],
                                  .out_channels = out[3],
                                  .pad_h = back ? 2 - padding[0] : padding[0],
                                  .pad_w = back ? 2 - padding[1] : padding[1] };
    g->tiles_h = ls__divide_up(g->out_h, LS__WINOGRAD_OUT);
    g->tiles_w = ls__divide_up(g->out_w, LS__WINOGRAD_OUT);
    g->n_tiles = g->n * g->tiles_h * g->tiles_w;
}

/* Products at 75 Gflop/s, measured on a Zen 3 with the edges of tiles counted, and the transforms
 * as passes over 2.25 times the data. */
static double winograd_cost_ms(const ls__op *op)
{
    if (!is_supported(op)) return -1;
    ls__winograd_geometry g;
    find_geometry(op, &g);
    const double flops =
        2.0 * LS__WINOGRAD_XI * (double)g.n_tiles * (double)g.in_channels * (double)g.out_channels;
    const double moved = (double)sizeof(float) * 2 * LS__WINOGRAD_XI * (double)g.n_tiles *
                         (double)(g.in_channels + g.out_channels);
    return (flops / 75e9 + moved / 25e9) * 1e3;
}

static void winograd_plan(ls__conv_kernel *kernel, const ls__op *op, const void *transforms)
{
    ls__winograd_kernel *k = (ls__winograd_kernel *)kernel;
    k->transforms = transforms;
    k->micro = k->transforms->micro;
    find_geometry(op, &k->g);
    k->rotated = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    k->element_bytes = (int64_t)ls_dtype_bytes(op->operands[0].dtype);
    k->v_stride = ls__winograd_stride(k, k->g.in_channels);
    if (ls__winograd_is_nonfused(&k->g, op->kind))
        ls__winograd_plan_nonfused(k);
    else
        ls__winograd_plan_fused(k);
    ls__conv_plan_bias(&k->base, op);
}

const ls__conv_algorithm ls__winograd_algorithm = { "winograd 4x4", sizeof(ls__winograd_kernel),
                                                    winograd_cost_ms, winograd_plan };

static int winograd_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    (void)cpu;
    return ls__conv_candidates(&ls__winograd_algorithm, op, out, max);
}

static ls_status winograd_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    static const ls__winograd_transforms *const f32[] = { LS__BY_ISA(
        &ls__winograd_plain, &ls__winograd_avx2, &ls__winograd_avx512) };
    static const ls__winograd_transforms *const bf16[] = { LS__BY_ISA(
        &ls__winograd_bf16_plain, &ls__winograd_bf16_avx2, &ls__winograd_bf16_avx512) };
    const bool is_bf16 = op->operands[0].dtype == LS_BF16;
    const ls__winograd_transforms *const transforms = (is_bf16 ? bf16 : f32)[cpu->isa];
    return ls__conv_open(&ls__winograd_algorithm, cpu, op, transforms, name, out);
}

const ls__cpu_provider ls__winograd_provider = { "winograd", winograd_candidates, winograd_open,
                                                 ls__conv_kinds };
