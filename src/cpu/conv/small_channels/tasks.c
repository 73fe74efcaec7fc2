/* tasks.c: a convolution of few channels as tasks, each of some tiles: forward, backward by data,
 * backward weights. */
#include "cpu/conv/small_channels/kernel.h"
#include "cpu/tree.h"

#include <string.h>

/* w [out][tap] as [tap][padded_out], taps of all kernel rows in order; behind them the bias. */
static void pack_forward(const ls__small_channels_kernel *k, const ls__conv_call *call)
{
    const int64_t taps = k->kernel_h * k->row_taps;
    const float *w = call->w;
    memset(call->workspace, 0, (size_t)((taps + 1) * k->padded_out) * sizeof(float));
    for (int64_t o = 0; o < k->out; o++)
        for (int64_t t = 0; t < taps; t++) call->workspace[t * k->padded_out + o] = w[o * taps + t];
    if (call->bias)
        memcpy(call->workspace + taps * k->padded_out, call->bias, (size_t)k->out * sizeof(float));
}

static void forward_task(void *arg, int64_t task, int thread)
{
    const ls__conv_call *call = arg;
    const ls__small_channels_kernel *k = call->kernel;
    const float *packed = call->workspace;
    const float *start = call->bias ? packed + k->kernel_h * k->row_taps * k->padded_out : NULL;
    const ls__small_channels_windows windows = { .w = packed,
                                                 .start = start,
                                                 .n_rows = k->kernel_h,
                                                 .taps = k->row_taps,
                                                 .n_places = k->yw,
                                                 .pitch = k->pitch,
                                                 .out = k->out };
    for (int64_t i = ls__small_channels_first_tile(k, task);
         i < ls__small_channels_first_tile(k, task + 1); i++) {
        const ls__small_channels_tile p = ls__small_channels_tile_at(k, i);
        const float *x =
            ls__small_channels_read_tile(k, call->x, &p, ls__conv_scratch(&k->base, thread));
        float *y = (float *)call->y + (p.image * k->yh + p.first) * k->yw * k->out;
        if (k->slides) {
            for (int64_t r = 0; r < p.rows; r++)
                ls__small_channels_slide(&windows, x + r * k->stride_h * k->pitch,
                                         y + r * k->yw * k->out);
            continue;
        }
        ls__small_channels_multiply(
            &(ls__small_channels_product){ .a = x,
                                           .b = packed,
                                           .start = start,
                                           .out = y,
                                           .n_rows = p.rows * k->yw,
                                           .n_columns = k->out,
                                           .n_outer = k->kernel_h,
                                           .n_inner = k->row_taps,
                                           .a_row = k->stride_w * k->in,
                                           .a_line = k->stride_h * k->pitch,
                                           .line = k->yw,
                                           .a_outer = k->pitch,
                                           .a_inner = 1,
                                           .b_outer = k->row_taps * k->padded_out,
                                           .b_inner = k->padded_out,
                                           .out_row = k->out });
    }
}

ls_status ls__small_channels_run_forward(ls__kernel *kernel, void *const *buffers, void *workspace,
                                         const ls__step *step)
{
    (void)step;
    const ls__small_channels_kernel *k = (const ls__small_channels_kernel *)kernel;
    ls__conv_call call = ls__conv_call_of(kernel, buffers, workspace);
    pack_forward(k, &call);
    ls__threads_run(k->base.cpu->threads, k->n_tasks, forward_task, &call);
    return LS_OK;
}

/* w [out][row][row_taps] as [row][out][padded_row_taps] */
static void pack_data(const ls__small_channels_kernel *k, const ls__conv_call *call)
{
    memset(call->workspace, 0, (size_t)(k->kernel_h * k->out * k->padded_row_taps) * sizeof(float));
    for (int64_t o = 0; o < k->out; o++)
        for (int64_t r = 0; r < k->kernel_h; r++)
            memcpy(call->workspace + (r * k->out + o) * k->padded_row_taps,
                   (const float *)call->w + (o * k->kernel_h + r) * k->row_taps,
                   (size_t)k->row_taps * sizeof(float));
}

/* One row of a padded image: the kernel rows through which rows of dy see it, in order. */
static void data_row(const ls__conv_call *call, const float *dy, int64_t row, float *padded)
{
    const ls__small_channels_kernel *k = call->kernel;
    const int64_t last = ls__min(row / k->stride_h, k->yh - 1); /* of dy */
    const int64_t first_seen = row - k->kernel_h + 1;
    const int64_t first = first_seen > 0 ? ls__divide_up(first_seen, k->stride_h) : 0;
    const int64_t row_weights = k->out * k->padded_row_taps, row_floats = k->yw * k->out;
    memset(padded, 0, (size_t)(k->pitch + LS__SMALL_CHANNELS_VECTOR) * sizeof *padded);
    ls__small_channels_multiply(&(ls__small_channels_product){
        .a = dy + last * row_floats,
        .b = call->workspace + (row - last * k->stride_h) * row_weights,
        .out = padded,
        .n_rows = k->yw,
        .n_columns = k->padded_row_taps, /* the added columns are zeros */
        .n_outer = last - first + 1,
        .n_inner = k->out,
        .a_row = k->out,
        .line = k->yw,
        .a_outer = -row_floats,
        .a_inner = 1,
        .b_outer = k->stride_h * row_weights,
        .b_inner = k->padded_row_taps,
        .out_row = k->stride_w * k->in,
        .add = true });
}

/* A task's tiles are whole images. Rows and columns that no window reaches get zeros. */
static void data_task(void *arg, int64_t task, int thread)
{
    const ls__conv_call *call = arg;
    const ls__small_channels_kernel *k = call->kernel;
    float *padded = ls__conv_scratch(&k->base, thread);
    int64_t length;
    const int64_t begin = ls__small_channels_inside(k, &length) * k->in,
                  rows = ls__small_channels_input_rows(k, k->yh);
    const int64_t width = k->xw * k->in, n = length > 0 ? length * k->in : 0;
    for (int64_t image = ls__small_channels_first_tile(k, task);
         image < ls__small_channels_first_tile(k, task + 1); image++)
        for (int64_t h = 0; h < k->xh; h++) {
            float *dx = (float *)call->y + (image * k->xh + h) * width;
            const int64_t row = h + k->padding[0];
            int64_t seen = 0;
            if (row < rows && n > 0) {
                data_row(call, (const float *)call->x + image * k->yh * k->yw * k->out, row,
                         padded);
                memcpy(dx, padded + begin, (size_t)n * sizeof *dx);
                seen = n;
            }
            memset(dx + seen, 0, (size_t)(width - seen) * sizeof *dx);
        }
}

ls_status ls__small_channels_run_data(ls__kernel *kernel, void *const *buffers, void *workspace,
                                      const ls__step *step)
{
    (void)step;
    const ls__small_channels_kernel *k = (const ls__small_channels_kernel *)kernel;
    ls__conv_call call = ls__conv_call_of(kernel, buffers, workspace);
    pack_data(k, &call);
    ls__threads_run(k->base.cpu->threads, k->n_tasks, data_task, &call);
    return LS_OK;
}

static void weights_task(void *arg, int64_t task, int thread)
{
    const ls__conv_call *call = arg;
    const ls__small_channels_kernel *k = call->kernel;
    float *scratch = ls__conv_scratch(&k->base, thread);
    float *sums = call->workspace + task * ls__small_channels_part_floats(k);
    memset(sums, 0, (size_t)ls__small_channels_part_floats(k) * sizeof *sums);
    for (int64_t i = ls__small_channels_first_tile(k, task);
         i < ls__small_channels_first_tile(k, task + 1); i++) {
        const ls__small_channels_tile p = ls__small_channels_tile_at(k, i);
        const float *x = ls__small_channels_read_tile(k, call->x, &p, scratch);
        const float *dy = (const float *)call->w + (p.image * k->yh + p.first) * k->yw * k->out;
        /* The rest of a place's last vector belongs to the next places; after the last place there
         * is nothing to read. */
        const int64_t rows_behind = (k->images - p.image) * k->yh - p.first - p.rows;
        int64_t apart = k->out;
        if (k->padded_out - k->out > rows_behind * k->yw * k->out) {
            float *padded = scratch + (k->padded ? ls__small_channels_tile_floats(k) : 0);
            ls__small_channels_pad_columns(dy, p.rows * k->yw, k->out, k->padded_out, padded);
            dy = padded;
            apart = k->padded_out;
        }
        ls__small_channels_multiply(
            &(ls__small_channels_product){ .a = x,
                                           .b = dy,
                                           .out = sums,
                                           .n_rows = k->kernel_h * k->row_taps,
                                           .n_columns = k->padded_out,
                                           .n_outer = p.rows,
                                           .n_inner = k->yw,
                                           .a_row = 1,
                                           .a_line = k->pitch,
                                           .line = k->row_taps,
                                           .a_outer = k->stride_h * k->pitch,
                                           .a_inner = k->stride_w * k->in,
                                           .b_outer = k->yw * apart,
                                           .b_inner = apart,
                                           .out_row = k->padded_out,
                                           .add = true });
        if (call->bias)
            ls__small_channels_add_rows(dy, p.rows * k->yw, k->padded_out, apart,
                                        sums + k->kernel_h * k->row_taps * k->padded_out);
    }
}

/* Adds the parts of one kernel row in a binary tree; behind the last row stands db. */
static void reduce_row(const ls__conv_call *call, int64_t row)
{
    const ls__small_channels_kernel *k = call->kernel;
    const bool is_bias = row == k->kernel_h;
    const int64_t taps = is_bias ? 1 : k->row_taps, n = taps * k->padded_out;
    float *first = call->workspace + row * k->row_taps * k->padded_out;
    const int64_t part_floats = ls__small_channels_part_floats(k);
    ls__tree_sum(first, first + part_floats, part_floats, k->n_tasks, n);
    float *to = is_bias ? call->bias : (float *)call->y + row * k->row_taps;
    const int64_t apart = is_bias ? 1 : k->kernel_h * k->row_taps;
    for (int64_t o = 0; o < k->out; o++)
        for (int64_t t = 0; t < taps; t++) to[o * apart + t] = first[t * k->padded_out + o];
}

ls_status ls__small_channels_run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                                         const ls__step *step)
{
    (void)step;
    const ls__small_channels_kernel *k = (const ls__small_channels_kernel *)kernel;
    ls__conv_call call = ls__conv_call_of(kernel, buffers, workspace);
    ls__threads_run(k->base.cpu->threads, k->n_tasks, weights_task, &call);
    const int64_t n_rows = k->kernel_h + (call.bias != NULL);
    for (int64_t row = 0; row < n_rows; row++) reduce_row(&call, row);
    return LS_OK;
}
