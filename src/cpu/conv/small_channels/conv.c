/* conv.c: the provider of convolutions of few channels. */
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/conv_roles.h"
#include "cpu/conv/small_channels/kernel.h"

#include <stdio.h>
#include <string.h>

static const char NAME[] = "narrow";
enum { VECTOR = LS__NARROW_VECTOR };
enum {
    MOST_IN = 8, /* channels; of more others make more */
    MOST_OUT = 64,
    PIECE_FLOATS = 16384, /* of a padded piece: it stays in the nearest caches */
    MOST_PARTS = 32       /* partial sums of weights */
};
static const double TASK_FLOPS = 4e6; /* some 60 microseconds */

/* All but memory; false when the op is none of ours. */
static bool plan(ls__cpu *cpu, const ls__op *op, ls__narrow_kernel *k)
{
    ls__conv_roles roles;
    if (cpu->isa < LS__ISA_AVX2 || !ls__conv_roles_of(op->kind, &roles)) return false;
    const ls__operand *x = &op->operands[roles.x], *y = &op->operands[roles.y];
    const int64_t *xd = x->shape.dims, *yd = y->shape.dims;
    if (x->block != xd[3] || y->block != yd[3] || op->u.conv.groups != 1 || xd[3] > MOST_IN ||
        yd[3] > MOST_OUT || op->u.conv.dilation[0] != 1 || op->u.conv.dilation[1] != 1)
        return false;
    const int64_t kernel_w = op->u.conv.kernel[1];
    *k = (ls__narrow_kernel){ .cpu = cpu,
                              .kind = op->kind,
                              .images = xd[0],
                              .xh = xd[1],
                              .xw = xd[2],
                              .in = xd[3],
                              .yh = yd[1],
                              .yw = yd[2],
                              .out = yd[3],
                              .kernel_h = op->u.conv.kernel[0],
                              .stretch = kernel_w * xd[3],
                              .stride_h = op->u.conv.stride[0],
                              .stride_w = op->u.conv.stride[1],
                              .padding = { op->u.conv.padding[0], op->u.conv.padding[1] } };
    const bool data = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    k->columns = (k->yw - 1) * k->stride_w + kernel_w;
    k->padded = data || k->padding[0] || k->padding[1];
    k->pitch = (k->padded ? k->columns : k->xw) * k->in;
    k->wide_out = ls__round_up_to(k->out, VECTOR);
    k->wide_stretch = ls__round_up_to(k->stretch, VECTOR);
    k->slides = k->in == 1 && k->stride_w == 1 && k->out <= VECTOR && 2 * k->out >= VECTOR &&
                k->yw >= ls__narrow_least_places(k->stretch);
    k->rows_per_piece = data ? k->yh : PIECE_FLOATS / k->pitch / k->stride_h;
    if (k->rows_per_piece < 1) k->rows_per_piece = 1;
    k->rows_per_piece = ls__min(k->rows_per_piece, k->yh);
    k->pieces_per_image = ls__divide_up(k->yh, k->rows_per_piece);
    k->n_pieces = k->images * k->pieces_per_image;
    return true;
}

/* With what vectors carry along. */
static double flops(const ls__narrow_kernel *k)
{
    const double places = (double)(k->images * k->yh * k->yw * k->kernel_h);
    return 2 * places *
           (k->kind == LS__OP_CONV2D_BACKWARD_DATA ? (double)(k->out * k->wide_stretch)
                                                   : (double)(k->wide_out * k->stretch));
}

/* Gflop/s of one core of a Zen 3. */
static const double SPEED[LS__N_OPS] = {
    [LS__OP_CONV2D] = 85,
    [LS__OP_CONV2D_BACKWARD_DATA] = 80,
    [LS__OP_CONV2D_BACKWARD_WEIGHTS] = 85,
};

static double cost_ms(const ls__narrow_kernel *k)
{
    return flops(k) / (SPEED[k->kind] * 1e6);
}

static int narrow_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    ls__narrow_kernel k;
    if (max < 1 || !plan(cpu, op, &k)) return 0;
    *out = (ls__candidate){ .deterministic = true, .cost_ms = cost_ms(&k) };
    snprintf(out->name, sizeof out->name, "%s", NAME);
    return 1;
}

static void narrow_close(ls__kernel *kernel)
{
    ls__free(((ls__narrow_kernel *)kernel)->cpu->device.ctx, kernel);
}

static ls_status narrow_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    static ls_status (*const runs[LS__N_OPS])(ls__kernel *, void *const *, void *,
                                              const ls__step *) = {
        [LS__OP_CONV2D] = ls__narrow_run_forward,
        [LS__OP_CONV2D_BACKWARD_DATA] = ls__narrow_run_data,
        [LS__OP_CONV2D_BACKWARD_WEIGHTS] = ls__narrow_run_weights,
    };
    ls_context *ctx = cpu->device.ctx;
    *out = NULL;
    ls__narrow_kernel found;
    if (strcmp(name, NAME) != 0 || !plan(cpu, op, &found))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: no kernel '%s' for this shape",
                        ls__op_name(op->kind), name);
    ls__narrow_kernel *k = ls__alloc(ctx, sizeof *k);
    if (!k) return ls__fail_memory(ctx, name, sizeof *k);
    *k = found;
    k->n_tasks = ls__min(k->n_pieces, (int64_t)(flops(k) / TASK_FLOPS));
    if (op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS) k->n_tasks = ls__min(k->n_tasks, MOST_PARTS);
    if (k->n_tasks < 1) k->n_tasks = 1;
    k->kernel.run = runs[op->kind];
    k->kernel.close = narrow_close;
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    const ls_status status = ls__cpu_reserve_scratch(cpu, ls__narrow_plan_memory(k));
    if (status != LS_OK) {
        narrow_close(&k->kernel);
        return status;
    }
    *out = &k->kernel;
    return LS_OK;
}

const ls__cpu_provider ls__narrow_provider = { "narrow", narrow_candidates, narrow_open, NULL };
