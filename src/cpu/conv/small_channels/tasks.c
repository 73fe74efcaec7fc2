/* tasks.c: a convolution of few channels as tasks, each of some pieces: forward, backward by data,
 * backward weights. */
#include "cpu/conv/small_channels/kernel.h"
#include "cpu/tree.h"

#include <string.h>

typedef struct narrow_call {
    const ls__narrow_kernel *k;
    const float *x, *w, *dy, *bias;
    float *y, *dx, *dw, *db; /* bias, db: NULL: none */
    float *workspace;        /* packed weights, or partial sums [task][taps and bias][wide_out] */
} narrow_call;

/* w [out][tap] as [tap][wide_out], taps of all kernel rows in order; behind them the bias. */
static void pack_forward(const ls__narrow_kernel *k, const narrow_call *call)
{
    const int64_t taps = k->kernel_h * k->stretch;
    memset(call->workspace, 0, (size_t)((taps + 1) * k->wide_out) * sizeof(float));
    for (int64_t o = 0; o < k->out; o++)
        for (int64_t t = 0; t < taps; t++)
            call->workspace[t * k->wide_out + o] = call->w[o * taps + t];
    if (call->bias)
        memcpy(call->workspace + taps * k->wide_out, call->bias, (size_t)k->out * sizeof(float));
}

static void forward_task(void *arg, int64_t task, int thread)
{
    const narrow_call *call = arg;
    const ls__narrow_kernel *k = call->k;
    const float *packed = call->workspace;
    const float *start = call->bias ? packed + k->kernel_h * k->stretch * k->wide_out : NULL;
    const ls__narrow_windows windows = { .w = packed,
                                         .start = start,
                                         .n_rows = k->kernel_h,
                                         .taps = k->stretch,
                                         .n_places = k->yw,
                                         .pitch = k->pitch,
                                         .out = k->out };
    for (int64_t i = ls__narrow_first_piece(k, task); i < ls__narrow_first_piece(k, task + 1);
         i++) {
        const ls__narrow_piece p = ls__narrow_piece_at(k, i);
        const float *x =
            ls__narrow_read_piece(k, call->x, &p, (float *)(void *)k->cpu->scratch[thread]);
        float *y = call->y + (p.image * k->yh + p.first) * k->yw * k->out;
        if (k->slides) {
            for (int64_t r = 0; r < p.rows; r++)
                ls__narrow_slide(&windows, x + r * k->stride_h * k->pitch, y + r * k->yw * k->out);
            continue;
        }
        ls__narrow_multiply(&(ls__narrow_product){ .a = x,
                                                   .b = packed,
                                                   .start = start,
                                                   .out = y,
                                                   .n_rows = p.rows * k->yw,
                                                   .n_columns = k->out,
                                                   .n_outer = k->kernel_h,
                                                   .n_inner = k->stretch,
                                                   .a_row = k->stride_w * k->in,
                                                   .a_line = k->stride_h * k->pitch,
                                                   .line = k->yw,
                                                   .a_outer = k->pitch,
                                                   .a_inner = 1,
                                                   .b_outer = k->stretch * k->wide_out,
                                                   .b_inner = k->wide_out,
                                                   .out_row = k->out });
    }
}

ls_status ls__narrow_run_forward(ls__kernel *kernel, void *const *buffers, void *workspace,
                                 const ls__step *step)
{
    (void)step;
    const ls__narrow_kernel *k = (const ls__narrow_kernel *)kernel;
    narrow_call call = { .k = k,
                         .x = buffers[0],
                         .w = buffers[1],
                         .bias = buffers[2],
                         .y = buffers[3],
                         .workspace = workspace };
    pack_forward(k, &call);
    ls__threads_run(k->cpu->threads, k->n_tasks, forward_task, &call);
    return LS_OK;
}

/* w [out][row][stretch] as [row][out][wide_stretch] */
static void pack_data(const ls__narrow_kernel *k, const narrow_call *call)
{
    memset(call->workspace, 0, (size_t)(k->kernel_h * k->out * k->wide_stretch) * sizeof(float));
    for (int64_t o = 0; o < k->out; o++)
        for (int64_t r = 0; r < k->kernel_h; r++)
            memcpy(call->workspace + (r * k->out + o) * k->wide_stretch,
                   call->w + (o * k->kernel_h + r) * k->stretch,
                   (size_t)k->stretch * sizeof(float));
}

/* One row of a padded image: the kernel rows through which rows of dy see it, in order. */
static void data_row(const narrow_call *call, const float *dy, int64_t row, float *padded)
{
    const ls__narrow_kernel *k = call->k;
    const int64_t last = ls__min(row / k->stride_h, k->yh - 1); /* of dy */
    const int64_t first_seen = row - k->kernel_h + 1;
    const int64_t first = first_seen > 0 ? ls__divide_up(first_seen, k->stride_h) : 0;
    const int64_t row_weights = k->out * k->wide_stretch, row_floats = k->yw * k->out;
    memset(padded, 0, (size_t)(k->pitch + LS__NARROW_VECTOR) * sizeof *padded);
    ls__narrow_multiply(
        &(ls__narrow_product){ .a = dy + last * row_floats,
                               .b = call->workspace + (row - last * k->stride_h) * row_weights,
                               .out = padded,
                               .n_rows = k->yw,
                               .n_columns = k->wide_stretch, /* what vectors have more is zeros */
                               .n_outer = last - first + 1,
                               .n_inner = k->out,
                               .a_row = k->out,
                               .line = k->yw,
                               .a_outer = -row_floats,
                               .a_inner = 1,
                               .b_outer = k->stride_h * row_weights,
                               .b_inner = k->wide_stretch,
                               .out_row = k->stride_w * k->in,
                               .add = true });
}

/* A task's pieces are whole images. Where windows leave a rest of one out, zeros. */
static void data_task(void *arg, int64_t task, int thread)
{
    const narrow_call *call = arg;
    const ls__narrow_kernel *k = call->k;
    float *padded = (float *)(void *)k->cpu->scratch[thread];
    int64_t length;
    const int64_t begin = ls__narrow_inside(k, &length) * k->in,
                  rows = ls__narrow_input_rows(k, k->yh);
    const int64_t width = k->xw * k->in, n = length > 0 ? length * k->in : 0;
    for (int64_t image = ls__narrow_first_piece(k, task);
         image < ls__narrow_first_piece(k, task + 1); image++)
        for (int64_t h = 0; h < k->xh; h++) {
            float *dx = call->dx + (image * k->xh + h) * width;
            const int64_t row = h + k->padding[0];
            int64_t seen = 0;
            if (row < rows && n > 0) {
                data_row(call, call->dy + image * k->yh * k->yw * k->out, row, padded);
                memcpy(dx, padded + begin, (size_t)n * sizeof *dx);
                seen = n;
            }
            memset(dx + seen, 0, (size_t)(width - seen) * sizeof *dx);
        }
}

ls_status ls__narrow_run_data(ls__kernel *kernel, void *const *buffers, void *workspace,
                              const ls__step *step)
{
    (void)step;
    const ls__narrow_kernel *k = (const ls__narrow_kernel *)kernel;
    narrow_call call = {
        .k = k, .dy = buffers[0], .w = buffers[1], .dx = buffers[2], .workspace = workspace
    };
    pack_data(k, &call);
    ls__threads_run(k->cpu->threads, k->n_tasks, data_task, &call);
    return LS_OK;
}

static void weights_task(void *arg, int64_t task, int thread)
{
    const narrow_call *call = arg;
    const ls__narrow_kernel *k = call->k;
    float *scratch = (float *)(void *)k->cpu->scratch[thread];
    float *sums = call->workspace + task * ls__narrow_part_floats(k);
    memset(sums, 0, (size_t)ls__narrow_part_floats(k) * sizeof *sums);
    for (int64_t i = ls__narrow_first_piece(k, task); i < ls__narrow_first_piece(k, task + 1);
         i++) {
        const ls__narrow_piece p = ls__narrow_piece_at(k, i);
        const float *x = ls__narrow_read_piece(k, call->x, &p, scratch);
        const float *dy = call->dy + (p.image * k->yh + p.first) * k->yw * k->out;
        /* What a vector has more belongs to the next places; behind the last ones there are none.
         */
        const int64_t rows_behind = (k->images - p.image) * k->yh - p.first - p.rows;
        int64_t apart = k->out;
        if (k->wide_out - k->out > rows_behind * k->yw * k->out) {
            float *wide = scratch + (k->padded ? ls__narrow_piece_floats(k) : 0);
            ls__narrow_widen(dy, p.rows * k->yw, k->out, k->wide_out, wide);
            dy = wide;
            apart = k->wide_out;
        }
        ls__narrow_multiply(&(ls__narrow_product){ .a = x,
                                                   .b = dy,
                                                   .out = sums,
                                                   .n_rows = k->kernel_h * k->stretch,
                                                   .n_columns = k->wide_out,
                                                   .n_outer = p.rows,
                                                   .n_inner = k->yw,
                                                   .a_row = 1,
                                                   .a_line = k->pitch,
                                                   .line = k->stretch,
                                                   .a_outer = k->stride_h * k->pitch,
                                                   .a_inner = k->stride_w * k->in,
                                                   .b_outer = k->yw * apart,
                                                   .b_inner = apart,
                                                   .out_row = k->wide_out,
                                                   .add = true });
        if (call->db)
            ls__narrow_add_rows(dy, p.rows * k->yw, k->wide_out, apart,
                                sums + k->kernel_h * k->stretch * k->wide_out);
    }
}

/* Adds the parts of one kernel row in a binary tree; behind the last row stands db. */
static void reduce_row(const narrow_call *call, int64_t row)
{
    const ls__narrow_kernel *k = call->k;
    const bool is_bias = row == k->kernel_h;
    const int64_t taps = is_bias ? 1 : k->stretch, n = taps * k->wide_out;
    float *first = call->workspace + row * k->stretch * k->wide_out;
    const int64_t part_floats = ls__narrow_part_floats(k);
    ls__tree_sum(first, first + part_floats, part_floats, k->n_tasks, n);
    float *to = is_bias ? call->db : call->dw + row * k->stretch;
    const int64_t apart = is_bias ? 1 : k->kernel_h * k->stretch;
    for (int64_t o = 0; o < k->out; o++)
        for (int64_t t = 0; t < taps; t++) to[o * apart + t] = first[t * k->wide_out + o];
}

ls_status ls__narrow_run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                                 const ls__step *step)
{
    (void)step;
    const ls__narrow_kernel *k = (const ls__narrow_kernel *)kernel;
    narrow_call call = { .k = k,
                         .x = buffers[0],
                         .dy = buffers[1],
                         .dw = buffers[2],
                         .db = buffers[3],
                         .workspace = workspace };
    ls__threads_run(k->cpu->threads, k->n_tasks, weights_task, &call);
    const int64_t n_rows = k->kernel_h + (call.db != NULL);
    for (int64_t row = 0; row < n_rows; row++) reduce_row(&call, row);
    return LS_OK;
}
