/* layout.c: reference REORDER, NORMALIZE, CONCAT and PAD_CHANNELS. */
#include "cpu/reference/reference.h"

static int64_t images(const ls__op *op)
{
    return ls__operand_view(&op->operands[0]).n;
}

/* y = x, each in its own block */
static void reorder(const ls__reference_call *call, int64_t n)
{
    const ls__view x = ls__reference_view(call, 0), y = ls__reference_view(call, 1);
    for (int64_t h = 0; h < x.h; h++)
        for (int64_t w = 0; w < x.w; w++)
            for (int64_t c = 0; c < x.c; c++)
                *ls__view_at(&y, n, h, w, c) = *ls__view_at(&x, n, h, w, c);
}

/* y = (x / 255 - mean[c]) / std[c], then zeros after x's channels */
static void normalize(const ls__reference_call *call, int64_t n)
{
    const ls__view x = ls__operand_view(&call->op->operands[0]), y = ls__reference_view(call, 1);
    const uint8_t *bytes = call->buffers[0];
    const float *mean = call->op->u.normalize.mean, *std = call->op->u.normalize.std;
    for (int64_t h = 0; h < x.h; h++)
        for (int64_t w = 0; w < x.w; w++) {
            for (int64_t c = 0; c < x.c; c++) {
                const double value = bytes[ls__view_offset(&x, n, h, w, c)] / 255.0;
                *ls__view_at(&y, n, h, w, c) = (float)((value - mean[c]) / std[c]);
            }
            for (int64_t c = x.c; c < y.c; c++) *ls__view_at(&y, n, h, w, c) = 0;
        }
}

/* x [N,H,W,C], rest? [N,H,W,D] -> y [N,H,W,D]: x from channel `offset` on, else rest or zeros */
static void concat(const ls__reference_call *call, int64_t n)
{
    const ls__view x = ls__reference_view(call, 0), rest = ls__reference_view(call, 1);
    const ls__view y = ls__reference_view(call, 2);
    const int64_t offset = call->op->u.concat.offset;
    for (int64_t h = 0; h < y.h; h++)
        for (int64_t w = 0; w < y.w; w++)
            for (int64_t c = 0; c < y.c; c++)
                *ls__view_at(&y, n, h, w, c) = c >= offset && c < offset + x.c
                                                   ? *ls__view_at(&x, n, h, w, c - offset)
                                               : rest.data ? *ls__view_at(&rest, n, h, w, c)
                                                           : 0;
}

/* dy [N,H,W,D] -> dx [N,H,W,C]: the channels from `offset` on */
static void concat_backward(const ls__reference_call *call, int64_t n)
{
    const ls__view dy = ls__reference_view(call, 0), dx = ls__reference_view(call, 1);
    const int64_t offset = call->op->u.concat.offset;
    for (int64_t h = 0; h < dx.h; h++)
        for (int64_t w = 0; w < dx.w; w++)
            for (int64_t c = 0; c < dx.c; c++)
                *ls__view_at(&dx, n, h, w, c) = *ls__view_at(&dy, n, h, w, offset + c);
}

/* x [N,H,W,C] -> y [N,H,W,D]: zeros after x's channels */
static void pad_channels(const ls__reference_call *call, int64_t n)
{
    const ls__view x = ls__reference_view(call, 0), y = ls__reference_view(call, 1);
    for (int64_t h = 0; h < y.h; h++)
        for (int64_t w = 0; w < y.w; w++)
            for (int64_t c = 0; c < y.c; c++)
                *ls__view_at(&y, n, h, w, c) = c < x.c ? *ls__view_at(&x, n, h, w, c) : 0;
}

/* dy [N,H,W,D] -> dx [N,H,W,C]: the first channels */
static void pad_channels_backward(const ls__reference_call *call, int64_t n)
{
    const ls__view dy = ls__reference_view(call, 0), dx = ls__reference_view(call, 1);
    for (int64_t h = 0; h < dx.h; h++)
        for (int64_t w = 0; w < dx.w; w++)
            for (int64_t c = 0; c < dx.c; c++)
                *ls__view_at(&dx, n, h, w, c) = *ls__view_at(&dy, n, h, w, c);
}

const ls__reference ls__reference_layout[LS__N_OPS] = {
    [LS__OP_REORDER] = { images, reorder },
    [LS__OP_NORMALIZE] = { images, normalize },
    [LS__OP_CONCAT] = { images, concat },
    [LS__OP_CONCAT_BACKWARD] = { images, concat_backward },
    [LS__OP_PAD_CHANNELS] = { images, pad_channels },
    [LS__OP_PAD_CHANNELS_BACKWARD] = { images, pad_channels_backward },
};
