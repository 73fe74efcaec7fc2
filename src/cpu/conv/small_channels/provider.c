/* provider.c: the provider of direct convolutions of few input channels. */
#include "cpu/conv/roles.h"
#include "cpu/conv/small_channels/small_channels.h"

enum { UNIT = LS__SMALL_CHANNELS_UNIT };
enum {
    MAX_IN = 8, /* channels; with more, other algorithms are faster */
    MAX_OUT = 64,
    TILE_FLOATS = 16384, /* of a padded tile: it stays in the nearest caches */
    MAX_SUMS = 32        /* partial sums of weights */
};
static const double TASK_FLOPS = 4e6; /* about 60 microseconds */

/* The number of places that must be side by side for a kernel of so many taps to slide. */
static int64_t min_places(int64_t taps)
{
#define CASE(n, places)                                                                            \
    case n: return places;
    switch (taps) {
        LS__SMALL_CHANNELS_SLIDES(CASE)
    default: return INT64_MAX; /* it does not slide */
    }
#undef CASE
}

/* Sets the fields that follow from the shape. False if the op is not supported. */
static bool small_channels_describe(const ls__op *op, ls__small_channels_kernel *k)
{
    ls__conv_roles roles;
    if (!ls__conv_roles_of(op->kind, &roles)) return false;
    const ls__operand *x = &op->operands[roles.x], *y = &op->operands[roles.y];
    const int64_t *xd = x->shape.dims, *yd = y->shape.dims;
    if (op->u.conv.groups != 1 || xd[3] > MAX_IN || yd[3] > MAX_OUT ||
        op->u.conv.dilation[0] != 1 || op->u.conv.dilation[1] != 1)
        return false;
    const int64_t kernel_w = op->u.conv.kernel[1];
    k->base.kind = op->kind;
    k->images = xd[0];
    k->xh = xd[1];
    k->xw = xd[2];
    k->in = xd[3];
    k->yh = yd[1];
    k->yw = yd[2];
    k->out = yd[3];
    k->kernel_h = op->u.conv.kernel[0];
    k->row_taps = kernel_w * k->in;
    for (int i = 0; i < 2; i++) k->padding[i] = op->u.conv.padding[i];
    k->stride_h = op->u.conv.stride[0];
    k->stride_w = op->u.conv.stride[1];
    const bool data = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    k->columns = (k->yw - 1) * k->stride_w + kernel_w;
    k->padded = data || k->padding[0] || k->padding[1];
    k->pitch = (k->padded ? k->columns : k->xw) * k->in;
    k->slides = op->kind == LS__OP_CONV2D && k->in == 1 && k->stride_w == 1 && k->out <= UNIT &&
                2 * k->out >= UNIT && k->yw >= min_places(k->row_taps);
    const int64_t rows = data ? k->yh : TILE_FLOATS / k->pitch / k->stride_h;
    k->rows_per_tile = ls__min_i64(ls__max_i64(rows, 1), k->yh);
    k->tiles_per_image = ls__divide_up(k->yh, k->rows_per_tile);
    k->n_tiles = k->images * k->tiles_per_image;
    return true;
}

/* The operations, including those of unused columns of units. */
static double flops(const ls__small_channels_kernel *k)
{
    const double places = (double)(k->images * k->yh * k->yw * k->kernel_h);
    const int64_t products = k->base.kind == LS__OP_CONV2D_BACKWARD_DATA
                                 ? k->out * ls__round_up_to(k->row_taps, UNIT)
                                 : ls__round_up_to(k->out, UNIT) * k->row_taps;
    return 2 * places * (double)products;
}

static double small_channels_cost_ms(const ls__op *op)
{
    const double gflops = op->kind == LS__OP_CONV2D_BACKWARD_DATA ? 80 : 85; /* a core of a Zen 3 */
    ls__small_channels_kernel k = { .in = 0 };
    return small_channels_describe(op, &k) ? flops(&k) / (gflops * 1e6) : -1;
}

static void small_channels_plan(ls__conv_kernel *kernel, const ls__op *op, const void *microkernels)
{
    ls__small_channels_kernel *k = (ls__small_channels_kernel *)kernel;
    k->micro = microkernels;
    small_channels_describe(op, k);
    k->padded_out = ls__round_up_to(k->out, k->slides ? UNIT : k->micro->vector);
    k->padded_row_taps = ls__round_up_to(k->row_taps, k->micro->vector);
    k->n_tasks = ls__min_i64(k->n_tiles, (int64_t)(flops(k) / TASK_FLOPS));
    if (op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS) k->n_tasks = ls__min_i64(k->n_tasks, MAX_SUMS);
    k->n_tasks = ls__max_i64(k->n_tasks, 1);
    ls__small_channels_plan_tasks(k);
}

const ls__conv_algorithm ls__small_channels_algorithm = {
    "direct", sizeof(ls__small_channels_kernel), small_channels_cost_ms, small_channels_plan
};

static int small_channels_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    (void)cpu;
    return ls__conv_candidates(&ls__small_channels_algorithm, op, out, max);
}

static ls_status small_channels_open(ls__cpu *cpu, const ls__op *op, const char *name,
                                     ls__kernel **out)
{
    static const ls__small_channels_microkernels *const tables[] = { LS__BY_ISA(
        &ls__small_channels_plain, &ls__small_channels_avx2, &ls__small_channels_avx512) };
    return ls__conv_open(&ls__small_channels_algorithm, cpu, op, tables[cpu->isa], name, out);
}

const ls__cpu_provider ls__small_channels_provider = { "direct", small_channels_candidates,
                                                       small_channels_open, NULL };
