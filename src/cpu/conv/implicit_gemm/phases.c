/* phases.c: which pixels are the rows of a product, and which columns of it a task computes. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"

#include <string.h>

static ls__implicit_gemm_image image_of(const ls__operand *o, int64_t groups)
{
    const int64_t *d = o->shape.dims;
    return (ls__implicit_gemm_image){ { d[1], d[2] }, d[3] / groups, d[3] };
}

ls__implicit_gemm_shape ls__implicit_gemm_shape_of(const ls__op *op)
{
    static const int results[LS__N_OPS] = {
        [LS__OP_CONV2D] = 3, [LS__OP_CONV2D_BACKWARD_DATA] = 2, [LS__OP_CONV2D_BACKWARD_WEIGHTS] = 1
    };
    const int64_t groups = op->u.conv.groups;
    ls__implicit_gemm_shape s = { .data = op->kind == LS__OP_CONV2D_BACKWARD_DATA,
                                  .images = op->operands[0].shape.dims[0],
                                  .groups = groups,
                                  .source = image_of(&op->operands[0], groups),
                                  .result = image_of(&op->operands[results[op->kind]], groups) };
    memcpy(s.kernel, op->u.conv.kernel, sizeof s.kernel);
    memcpy(s.stride, op->u.conv.stride, sizeof s.stride);
    memcpy(s.padding, op->u.conv.padding, sizeof s.padding);
    memcpy(s.dilation, op->u.conv.dilation, sizeof s.dilation);
    for (int d = 0; d < 2; d++)
        s.n_phases[d] = s.data ? ls__min_i64(s.stride[d], s.result.size[d]) : 1;
    return s;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b > 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Backward by data, pixels a + stride p of dx: a tap reaches them if it leads to an integer pixel
 * of dy. Every weight_step'th tap does, or none. */
static ls__implicit_gemm_axis data_axis(const ls__implicit_gemm_shape *s, int d, int64_t a)
{
    const int64_t kernel = s->kernel[d], stride = s->stride[d], dilation = s->dilation[d];
    const int64_t divisor = greatest_common_divisor(stride, dilation), step = stride / divisor;
    ls__implicit_gemm_axis axis = { .grid = ls__divide_up(s->result.size[d] - a, stride),
                                    .first = a,
                                    .step = stride,
                                    .source_step = 1,
                                    .tap_step = -dilation / divisor,
                                    .weight_step = step };
    for (int64_t i = 0; i < ls__min_i64(kernel, step); i++) {
        const int64_t reach = a + s->padding[d] - i * dilation;
        if (reach % stride != 0) continue;
        axis.tap = reach / stride;
        axis.weight = i;
        axis.n_taps = ls__divide_up(kernel - i, step);
        axis.taps_before = i * (kernel / step) + ls__min_i64(i, kernel % step);
        break;
    }
    return axis;
}

static ls__implicit_gemm_axis axis_at(const ls__implicit_gemm_shape *s, int d, int64_t a)
{
    if (s->data) return data_axis(s, d, a);
    return (ls__implicit_gemm_axis){ .grid = s->result.size[d],
                                     .step = 1,
                                     .source_step = s->stride[d],
                                     .tap = -s->padding[d],
                                     .tap_step = s->dilation[d],
                                     .n_taps = s->kernel[d],
                                     .weight_step = 1 };
}

ls__implicit_gemm_phase ls__implicit_gemm_phase_at(const ls__implicit_gemm_shape *s, int64_t index)
{
    ls__implicit_gemm_phase phase = { .axes = { axis_at(s, 0, index / s->n_phases[1]),
                                                axis_at(s, 1, index % s->n_phases[1]) },
                                      .n_rows = s->images,
                                      .plain = true };
    for (int d = 0; d < 2; d++) {
        const ls__implicit_gemm_axis *axis = &phase.axes[d];
        phase.n_rows *= axis->grid;
        phase.plain = phase.plain && axis->n_taps == 1 && axis->grid == s->source.size[d] &&
                      axis->source_step == 1 && axis->tap == 0;
    }
    return phase;
}

bool ls__implicit_gemm_has_empty_phase(const ls__implicit_gemm_shape *s)
{
    for (int d = 0; d < 2; d++)
        for (int64_t a = 0; a < s->n_phases[d]; a++)
            if (axis_at(s, d, a).n_taps == 0) return true;
    return false;
}

void ls__implicit_gemm_plan_slabs(ls__implicit_gemm_kernel *k, double flops, int64_t min,
                                  int64_t max, int64_t step)
{
    static const double TASK_FLOPS = 8e6;
    const int64_t columns = k->shape.result.channels;
    const int64_t n = ls__min_i64((int64_t)(flops / TASK_FLOPS), ls__divide_up(columns, min));
    k->n_slabs = ls__max_i64(n, ls__divide_up(columns, max));
    k->slab = ls__round_up_to(ls__divide_up(columns, k->n_slabs), step);
    k->n_slabs = ls__divide_up(columns, k->slab);
}
