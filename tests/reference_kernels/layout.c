/* layout.c: reference NORMALIZE, CONCAT and PAD_CHANNELS. */
#include "reference.h"

/* y = (x / 255 - mean[c]) / std[c], then zeros after x's channels */
static void normalize(const reference_call *call, int64_t n)
{
    const tensor_view x = shape_view(&call->op->operands[0]), y = view_of(call, 1);
    const uint8_t *bytes = call->buffers[0];
    const float *mean = call->op->u.normalize.mean, *std = call->op->u.normalize.std;
    for (int64_t h = 0; h < x.h; h++)
        for (int64_t w = 0; w < x.w; w++) {
            for (int64_t c = 0; c < x.c; c++) {
                const double value = bytes[view_offset(&x, n, h, w, c)] / 255.0;
                *view_at(&y, n, h, w, c) = (float)((value - mean[c]) / std[c]);
            }
            for (int64_t c = x.c; c < y.c; c++) *view_at(&y, n, h, w, c) = 0;
        }
}

static int64_t first_channel(const ls__op *op)
{
    return ls__op_traits_of(op->kind)->config == LS__CONFIG_CONCAT ? op->u.concat.offset : 0;
}

/* x [N,H,W,C], rest? [N,H,W,D] -> y [N,H,W,D]: x from channel `first` on, else rest or zeros */
static void insert_channels(const reference_call *call, int64_t n)
{
    const int last = call->op->n_operands - 1;
    const tensor_view x = view_of(call, 0), y = view_of(call, last);
    const tensor_view rest = last == 2 ? view_of(call, 1) : (tensor_view){ 0 };
    const int64_t first = first_channel(call->op);
    for (int64_t h = 0; h < y.h; h++)
        for (int64_t w = 0; w < y.w; w++)
            for (int64_t c = 0; c < y.c; c++)
                *view_at(&y, n, h, w, c) = c >= first && c < first + x.c
                                               ? *view_at(&x, n, h, w, c - first)
                                           : rest.data ? *view_at(&rest, n, h, w, c)
                                                       : 0;
}

/* x [N,H,W,D] -> y [N,H,W,C]: the channels from `first` on */
static void extract_channels(const reference_call *call, int64_t n)
{
    const tensor_view x = view_of(call, 0), y = view_of(call, 1);
    const int64_t first = first_channel(call->op);
    for (int64_t h = 0; h < y.h; h++)
        for (int64_t w = 0; w < y.w; w++)
            for (int64_t c = 0; c < y.c; c++)
                *view_at(&y, n, h, w, c) = *view_at(&x, n, h, w, first + c);
}

const reference_row reference_layout[LS__N_OPS] = {
    [LS__OP_NORMALIZE] = { normalize, TASK_PER_IMAGE },
    [LS__OP_CONCAT] = { insert_channels, TASK_PER_IMAGE },
    [LS__OP_CONCAT_BACKWARD] = { extract_channels, TASK_PER_IMAGE },
    [LS__OP_PAD_CHANNELS] = { insert_channels, TASK_PER_IMAGE },
    [LS__OP_PAD_CHANNELS_BACKWARD] = { extract_channels, TASK_PER_IMAGE },
};
