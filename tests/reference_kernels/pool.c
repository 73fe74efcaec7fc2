/* pool.c: reference pooling. A window may reach into the padding: a maximum ignores it, an average
 * counts its zeros. */
#include "reference.h"
#include <math.h>

/* The input place under place r of output place p's window. */
static int64_t window_place(const ls__op *op, int dim, int64_t p, int64_t r)
{
    return p * op->u.pool.stride[dim] - op->u.pool.padding[dim] + r;
}

static bool inside(const tensor_view *x, int64_t h, int64_t w)
{
    return h >= 0 && h < x->h && w >= 0 && w < x->w;
}

/* The index is operand 2 of the forward op, operand 1 of the backward op. */
static void write_index(const reference_call *call, int64_t offset, int64_t value)
{
    if (call->op->operands[2].dtype == LS_U8)
        ((uint8_t *)call->buffers[2])[offset] = (uint8_t)value;
    else
        ((int32_t *)call->buffers[2])[offset] = (int32_t)value;
}

static int64_t load_max_index(const reference_call *call, int64_t offset)
{
    return call->op->operands[1].dtype == LS_U8 ? ((const uint8_t *)call->buffers[1])[offset]
                                                : ((const int32_t *)call->buffers[1])[offset];
}

/* x -> y index? ; NaN counts as the largest */
static void max_pool(const reference_call *call, int64_t n)
{
    const ls__op *op = call->op;
    const tensor_view x = view_of(call, 0), y = view_of(call, 1);
    const tensor_view index = shape_view(&op->operands[2]);
    for (int64_t p = 0; p < y.h; p++)
        for (int64_t q = 0; q < y.w; q++)
            for (int64_t c = 0; c < y.c; c++) {
                float best = 0;
                int64_t where = -1;
                for (int64_t r = 0; r < op->u.pool.kernel[0]; r++)
                    for (int64_t s = 0; s < op->u.pool.kernel[1]; s++) {
                        const int64_t h = window_place(op, 0, p, r), w = window_place(op, 1, q, s);
                        if (!inside(&x, h, w)) continue;
                        const float value = *view_at(&x, n, h, w, c);
                        if (where < 0 || value > best || (isnan(value) && !isnan(best))) {
                            best = value;
                            where = r * op->u.pool.kernel[1] + s;
                        }
                    }
                *view_at(&y, n, p, q, c) = best;
                if (call->buffers[2]) write_index(call, view_offset(&index, n, p, q, c), where);
            }
}

/* dy index -> dx */
static void max_pool_backward(const reference_call *call, int64_t n)
{
    const ls__op *op = call->op;
    const tensor_view dy = view_of(call, 0), dx = view_of(call, 2);
    const tensor_view index = shape_view(&op->operands[1]);
    for (int64_t c = 0; c < dx.c; c++) {
        for (int64_t h = 0; h < dx.h; h++)
            for (int64_t w = 0; w < dx.w; w++) *view_at(&dx, n, h, w, c) = 0;
        for (int64_t p = 0; p < dy.h; p++)
            for (int64_t q = 0; q < dy.w; q++) {
                const int64_t where = load_max_index(call, view_offset(&index, n, p, q, c));
                const int64_t h = window_place(op, 0, p, where / op->u.pool.kernel[1]);
                const int64_t w = window_place(op, 1, q, where % op->u.pool.kernel[1]);
                *view_at(&dx, n, h, w, c) += *view_at(&dy, n, p, q, c);
            }
    }
}

/* x -> y; the window of GLOBAL_AVG_POOL, whose y is [N,C], is all of x */
static void avg_pool(const reference_call *call, int64_t n)
{
    const ls__op *op = call->op;
    const tensor_view x = view_of(call, 0), y = view_of(call, 1);
    const bool global = op->kind == LS__OP_GLOBAL_AVG_POOL;
    const int64_t rows = global ? x.h : op->u.pool.kernel[0];
    const int64_t columns = global ? x.w : op->u.pool.kernel[1];
    for (int64_t p = 0; p < y.h; p++)
        for (int64_t q = 0; q < y.w; q++)
            for (int64_t c = 0; c < y.c; c++) {
                double sum = 0.0;
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t s = 0; s < columns; s++) {
                        const int64_t h = window_place(op, 0, p, r), w = window_place(op, 1, q, s);
                        if (inside(&x, h, w)) sum += *view_at(&x, n, h, w, c);
                    }
                *view_at(&y, n, p, q, c) = (float)(sum / (double)(rows * columns));
            }
}

/* dy -> dx */
static void avg_pool_backward(const reference_call *call, int64_t n)
{
    const ls__op *op = call->op;
    const tensor_view dy = view_of(call, 0), dx = view_of(call, 1);
    const double places = (double)(op->u.pool.kernel[0] * op->u.pool.kernel[1]);
    for (int64_t h = 0; h < dx.h; h++)
        for (int64_t w = 0; w < dx.w; w++)
            for (int64_t c = 0; c < dx.c; c++) {
                double sum = 0.0;
                for (int64_t p = 0; p < dy.h; p++)
                    for (int64_t q = 0; q < dy.w; q++) {
                        const int64_t r = h - window_place(op, 0, p, 0);
                        const int64_t s = w - window_place(op, 1, q, 0);
                        if (r >= 0 && r < op->u.pool.kernel[0] && s >= 0 &&
                            s < op->u.pool.kernel[1])
                            sum += *view_at(&dy, n, p, q, c);
                    }
                *view_at(&dx, n, h, w, c) = (float)(sum / places);
            }
}

/* dy [N,C] -> dx */
static void global_avg_pool_backward(const reference_call *call, int64_t n)
{
    const tensor_view dx = view_of(call, 1);
    const float *dy = call->buffers[0];
    for (int64_t h = 0; h < dx.h; h++)
        for (int64_t w = 0; w < dx.w; w++)
            for (int64_t c = 0; c < dx.c; c++)
                *view_at(&dx, n, h, w, c) =
                    (float)((double)dy[n * dx.c + c] / (double)(dx.h * dx.w));
}

const reference_row reference_pool[LS__N_OPS] = {
    [LS__OP_MAX_POOL] = { max_pool, TASK_PER_IMAGE },
    [LS__OP_MAX_POOL_BACKWARD] = { max_pool_backward, TASK_PER_IMAGE },
    [LS__OP_AVG_POOL] = { avg_pool, TASK_PER_IMAGE },
    [LS__OP_AVG_POOL_BACKWARD] = { avg_pool_backward, TASK_PER_IMAGE },
    [LS__OP_GLOBAL_AVG_POOL] = { avg_pool, TASK_PER_IMAGE },
    [LS__OP_GLOBAL_AVG_POOL_BACKWARD] = { global_avg_pool_backward, TASK_PER_IMAGE },
};
