/* plan.c: see plan.h.
 *
 * Measured on one core of a Zen 3, 512 KB L2, in f32 with activations in nChw8c, and so without the
 * copies of slices; GFLOP/s of forward, backward data, backward weights;
 * the core reaches 102 at most:
 *   3x3 512->512 at 4x4, batch 32                   53, 57, 29
 *   the same in slices of 128 output channels       84, 95, 62
 *   3x3 256->256 at 8x8, batch 64                   74, 91, 57
 *   the same in slices of 64 output channels        85, 102, 75
 *   3x3 64->64 at 32x32, batch 64; 4 images a task  72, 92, 54; 96, 102, 72
 * The gain comes from slices of weights that stay in the second-level cache. Sub-batches are as
 * small as the cost of a task allows. */
#include "cpu/onednn/plan.h"

static const double FORWARD_SLICE_BYTES = 2.5e6; /* more weights are cut */
static const double WEIGHTS_SLICE_BYTES = 640e3; /* larger weights are cut in backward weights */
static const double TASK_FLOPS = 12e6;           /* 0.1 ms and more; 50e6 is no faster */
static const double WEIGHTS_TASK_FLOPS = 50e6;   /* the sums of smaller ones cost 2 to 4 % */
static const double FLOPS_PER_BYTE = 32;         /* of weights that a task reads */
enum {
    MIN_SLICE = 64,
    MIN_SMALL_SLICE = 32,
    MAX_BATCHES = 64,
    MAX_PARTIAL_SUMS = 16,
    MIN_TASKS = 16
};

int64_t ls__conv_plan_first_image(const ls__conv_plan *plan, int64_t batch)
{
    return batch * plan->task.n - ls__max_i64(0, batch - plan->n_larger);
}

static double weight_bytes(const ls__conv_plan *plan)
{
    const ls__dnn_conv *t = &plan->task;
    return (double)ls__dnn_element_bytes(t, LS__DNN_W) *
           (double)(plan->y_channels * t->kernel[0] * t->kernel[1]) *
           (double)(plan->x_channels / t->groups);
}

static double activation_bytes(const ls__conv_plan *plan)
{
    const ls__dnn_conv *t = &plan->task;
    return (double)ls__dnn_element_bytes(t, LS__DNN_X) * (double)plan->images *
           (double)(plan->x_channels * t->x_size[0] * t->x_size[1] +
                    plan->y_channels * t->y_size[0] * t->y_size[1]);
}

/* The number of slices of `channels`: halved until one has at most so many bytes of weights. */
static int64_t slice(const ls__conv_plan *plan, int64_t channels, double bytes, int64_t min_slice)
{
    int64_t n = 1;
    if (plan->task.groups != 1) return 1;
    while (weight_bytes(plan) / (double)n > bytes && channels / n % (2 * 16) == 0 &&
           channels / n / 2 >= min_slice)
        n *= 2;
    return n;
}

static void cut_tasks(ls__conv_plan *plan, double flops)
{
    ls__dnn_conv *t = &plan->task;
    const bool weights = t->direction == LS__DNN_WEIGHTS;
    const int64_t channels = t->direction == LS__DNN_DATA ? plan->x_channels : plan->y_channels;
    plan->n_slices =
        slice(plan, channels, weights ? WEIGHTS_SLICE_BYTES : FORWARD_SLICE_BYTES, MIN_SLICE);
    double task_flops = FLOPS_PER_BYTE * weight_bytes(plan) / (double)plan->n_slices;
    const double min_flops = weights ? WEIGHTS_TASK_FLOPS : TASK_FLOPS;
    if (task_flops < min_flops) task_flops = min_flops;
    double batches = flops / (double)plan->n_slices / task_flops;
    const int64_t max_batches = ls__min_i64(plan->images, weights ? MAX_PARTIAL_SUMS : MAX_BATCHES);
    if (weights) {
        /* Each sub-batch writes a slice of dw, which should be small beside the bytes it reads. */
        const double sums = activation_bytes(plan) / (2 * weight_bytes(plan));
        if (batches > sums) batches = sums;
    }
    plan->n_batches = ls__max_i64(1, ls__min_i64(max_batches, (int64_t)batches));
    if (weights && plan->n_batches * plan->n_slices < MIN_TASKS &&
        flops > MIN_TASKS * WEIGHTS_TASK_FLOPS) {
        const double bytes = weight_bytes(plan) * (double)plan->n_batches / MIN_TASKS;
        plan->n_slices = ls__max_i64(plan->n_slices, slice(plan, channels, bytes, MIN_SMALL_SLICE));
    }
    t->n = ls__divide_up(plan->images, plan->n_batches);
    plan->n_larger = plan->images - plan->n_batches * (t->n - 1);
    if (t->direction == LS__DNN_DATA)
        t->x_channels /= plan->n_slices;
    else
        t->y_channels /= plan->n_slices;
}

/* Whether each tap of the kernel reads a pixel, not only padding. */
static bool taps_read_pixels(const ls__dnn_conv *t)
{
    for (int d = 0; d < 2; d++)
        for (int64_t tap = 0; tap < t->kernel[d]; tap++) {
            bool reads = false;
            for (int64_t i = 0; i < t->y_size[d]; i++) {
                const int64_t at = i * t->stride[d] - t->padding[d] + tap * t->dilation[d];
                reads |= at >= 0 && at < t->x_size[d];
            }
            if (!reads) return false;
        }
    return true;
}

bool ls__conv_plan_make(const ls__op *op, ls__conv_plan *out)
{
    static const ls__dnn_direction directions[LS__N_OPS] = {
        [LS__OP_CONV2D] = LS__DNN_FORWARD,
        [LS__OP_CONV2D_BACKWARD_DATA] = LS__DNN_DATA,
        [LS__OP_CONV2D_BACKWARD_WEIGHTS] = LS__DNN_WEIGHTS,
    };
    ls__conv_roles roles;
    if (!ls__conv_roles_of(op->kind, &roles)) return false;
    const ls__operand *x = &op->operands[roles.x], *y = &op->operands[roles.y];
    *out = (ls__conv_plan){ .images = x->shape.dims[0],
                            .x_channels = x->shape.dims[3],
                            .y_channels = y->shape.dims[3] };
    ls__dnn_conv *t = &out->task;
    t->direction = directions[op->kind];
    t->bias = ls__conv_has_bias(op, &roles);
    t->groups = op->u.conv.groups;
    t->x_channels = out->x_channels;
    t->y_channels = out->y_channels;
    for (int i = 0; i < 2; i++) {
        t->x_size[i] = x->shape.dims[1 + i];
        t->y_size[i] = y->shape.dims[1 + i];
        t->kernel[i] = op->u.conv.kernel[i];
        t->stride[i] = op->u.conv.stride[i];
        t->padding[i] = op->u.conv.padding[i];
        t->dilation[i] = op->u.conv.dilation[i];
    }
    /* oneDNN does not write dw of other convolutions (2.6.3), or writes stale memory (3.2). */
    if (t->direction == LS__DNN_WEIGHTS && !taps_read_pixels(t)) return false;
    cut_tasks(out, ls__op_flops(op));
    return true;
}
