/* tasks.c: a convolution of few channels as tasks: forward, backward by data, backward weights.
 * Images are cut into tiles of output rows, each with the padded input rows that it reads. A task
 * has some tiles. */
#include "cpu/conv/small_channels/small_channels.h"
#include "cpu/tree.h"

#include <string.h>

typedef struct tile {
    int64_t image, first, rows; /* of y */
} tile;

static tile tile_at(const ls__small_channels_kernel *k, int64_t i)
{
    const int64_t first = i % k->tiles_per_image * k->rows_per_tile;
    return (tile){ i / k->tiles_per_image, first, ls__min_i64(k->rows_per_tile, k->yh - first) };
}

static int64_t first_tile(const ls__small_channels_kernel *k, int64_t task)
{
    return task * k->n_tiles / k->n_tasks;
}

/* The number of input rows that so many rows of y read. */
static int64_t input_rows(const ls__small_channels_kernel *k, int64_t rows)
{
    return (rows - 1) * k->stride_h + k->kernel_h;
}

static int64_t max_tile_floats(const ls__small_channels_kernel *k)
{
    return input_rows(k, k->rows_per_tile) * k->pitch;
}

/* Returns the number of floats in a task's partial sums, [taps and bias][padded_out]. */
static int64_t sum_floats(const ls__small_channels_kernel *k)
{
    return (k->kernel_h * k->row_taps + 1) * k->padded_out;
}

/* Floats of a padded row that are inside the image; they follow the left padding. */
static int64_t inside_floats(const ls__small_channels_kernel *k)
{
    return ls__max_i64(ls__min_i64(k->xw, k->columns - k->padding[1]), 0) * k->in;
}

/* The input rows that a tile reads; zeros around the image. */
static const float *read_tile(const ls__small_channels_kernel *k, const float *x, const tile *p,
                              float *scratch)
{
    const int64_t top = p->first * k->stride_h - k->padding[0];
    const float *image = x + p->image * k->xh * k->xw * k->in;
    if (!k->padded) return image + top * k->pitch;
    const int64_t begin = k->padding[1] * k->in, length = inside_floats(k);
    for (int64_t r = 0; r < input_rows(k, p->rows); r++) {
        float *row = scratch + r * k->pitch;
        const int64_t h = top + r;
        if (h < 0 || h >= k->xh || length == 0) {
            memset(row, 0, (size_t)k->pitch * sizeof *row);
            continue;
        }
        memset(row, 0, (size_t)begin * sizeof *row);
        memcpy(row + begin, image + h * k->xw * k->in, (size_t)length * sizeof *row);
        memset(row + begin + length, 0, (size_t)(k->pitch - begin - length) * sizeof *row);
    }
    return scratch;
}

/* w [out][tap] as [tap][padded_out], taps of all kernel rows in order, then the bias. */
static void pack_forward(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)task;
    (void)scratch;
    const ls__small_channels_kernel *k = call->kernel;
    const int64_t taps = k->kernel_h * k->row_taps;
    const float *w = call->w;
    memset(call->workspace, 0, (size_t)((taps + 1) * k->padded_out) * sizeof(float));
    for (int64_t o = 0; o < k->out; o++)
        for (int64_t t = 0; t < taps; t++) call->workspace[t * k->padded_out + o] = w[o * taps + t];
    if (call->bias)
        memcpy(call->workspace + taps * k->padded_out, call->bias, (size_t)k->out * sizeof(float));
}

static void forward_task(const ls__conv_call *call, int64_t task, float *scratch)
{
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
    for (int64_t i = first_tile(k, task); i < first_tile(k, task + 1); i++) {
        const tile p = tile_at(k, i);
        const float *x = read_tile(k, call->x, &p, scratch);
        float *y = (float *)call->y + (p.image * k->yh + p.first) * k->yw * k->out;
        if (k->slides) {
            for (int64_t r = 0; r < p.rows; r++)
                k->micro->slide(&windows, x + r * k->stride_h * k->pitch, y + r * k->yw * k->out);
            continue;
        }
        k->micro->multiply(&(ls__small_channels_product){ .a = x,
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

/* w [out][row][row_taps] as [row][out][padded_row_taps] */
static void pack_data(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)task;
    (void)scratch;
    const ls__small_channels_kernel *k = call->kernel;
    memset(call->workspace, 0, (size_t)(k->kernel_h * k->out * k->padded_row_taps) * sizeof(float));
    for (int64_t o = 0; o < k->out; o++)
        for (int64_t r = 0; r < k->kernel_h; r++)
            memcpy(call->workspace + (r * k->out + o) * k->padded_row_taps,
                   (const float *)call->w + (o * k->kernel_h + r) * k->row_taps,
                   (size_t)k->row_taps * sizeof(float));
}

/* One row of a padded image: the sum over the kernel rows that connect it to dy, in order. */
static void data_row(const ls__conv_call *call, const float *dy, int64_t row, float *padded)
{
    const ls__small_channels_kernel *k = call->kernel;
    const int64_t last = ls__min_i64(row / k->stride_h, k->yh - 1); /* of dy */
    const int64_t first = ls__divide_up(ls__max_i64(row - k->kernel_h + 1, 0), k->stride_h);
    const int64_t row_weights = k->out * k->padded_row_taps, row_floats = k->yw * k->out;
    memset(padded, 0, (size_t)(k->pitch + k->micro->vector) * sizeof *padded);
    k->micro->multiply(&(ls__small_channels_product){
        .a = dy + last * row_floats,
        .b = call->workspace + (row - last * k->stride_h) * row_weights,
        .out = padded,
        .n_rows = k->yw,
        .n_columns = ls__round_up_to(k->row_taps, LS__SMALL_CHANNELS_UNIT), /* added: zeros */
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

/* A task's tiles are whole images. Rows and columns outside all windows become zeros. */
static void data_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    const ls__small_channels_kernel *k = call->kernel;
    const int64_t rows = input_rows(k, k->yh), width = k->xw * k->in, n = inside_floats(k);
    for (int64_t image = first_tile(k, task); image < first_tile(k, task + 1); image++)
        for (int64_t h = 0; h < k->xh; h++) {
            float *dx = (float *)call->y + (image * k->xh + h) * width;
            const int64_t row = h + k->padding[0];
            int64_t covered = 0;
            if (row < rows && n > 0) {
                data_row(call, (const float *)call->x + image * k->yh * k->yw * k->out, row,
                         scratch);
                memcpy(dx, scratch + k->padding[1] * k->in, (size_t)n * sizeof *dx);
                covered = n;
            }
            memset(dx + covered, 0, (size_t)(width - covered) * sizeof *dx);
        }
}

static void weights_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    const ls__small_channels_kernel *k = call->kernel;
    float *sums = call->workspace + task * sum_floats(k);
    memset(sums, 0, (size_t)sum_floats(k) * sizeof *sums);
    for (int64_t i = first_tile(k, task); i < first_tile(k, task + 1); i++) {
        const tile p = tile_at(k, i);
        const float *x = read_tile(k, call->x, &p, scratch);
        const float *dy = (const float *)call->w + (p.image * k->yh + p.first) * k->yw * k->out;
        /* A place's last vector extends into the next places; after the last place there may be
         * nothing to read. */
        const int64_t rows_behind = (k->images - p.image) * k->yh - p.first - p.rows;
        int64_t apart = k->out;
        if (k->padded_out - k->out > rows_behind * k->yw * k->out) {
            float *padded = scratch + (k->padded ? max_tile_floats(k) : 0);
            k->micro->pad_columns(dy, p.rows * k->yw, k->out, k->padded_out, padded);
            dy = padded;
            apart = k->padded_out;
        }
        k->micro->multiply(&(ls__small_channels_product){ .a = x,
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
            k->micro->add_rows(dy, p.rows * k->yw, k->padded_out, apart,
                               sums + k->kernel_h * k->row_taps * k->padded_out);
    }
}

/* Adds the tasks' sums in a binary tree and writes dw, kernel row by row, then db. */
static void reduce_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)task;
    (void)scratch;
    const ls__small_channels_kernel *k = call->kernel;
    const int64_t floats = sum_floats(k);
    for (int64_t row = 0; row < k->kernel_h + (call->bias != NULL); row++) {
        const bool is_bias = row == k->kernel_h;
        const int64_t taps = is_bias ? 1 : k->row_taps;
        float *first = call->workspace + row * k->row_taps * k->padded_out;
        ls__tree_sum(first, first + floats, floats, k->n_tasks, taps * k->padded_out);
        float *to = is_bias ? call->bias : (float *)call->y + row * k->row_taps;
        const int64_t apart = is_bias ? 1 : k->kernel_h * k->row_taps;
        for (int64_t o = 0; o < k->out; o++)
            for (int64_t t = 0; t < taps; t++) to[o * apart + t] = first[t * k->padded_out + o];
    }
}

void ls__small_channels_plan_tasks(ls__small_channels_kernel *k)
{
    static const ls__conv_task tasks[LS__N_OPS][2] = {
        [LS__OP_CONV2D] = { pack_forward, forward_task },
        [LS__OP_CONV2D_BACKWARD_DATA] = { pack_data, data_task },
        [LS__OP_CONV2D_BACKWARD_WEIGHTS] = { weights_task, reduce_task },
    };
    const bool weights = k->base.kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    for (int i = 0; i < 2; i++)
        k->base.passes[i] =
            (ls__conv_pass){ tasks[k->base.kind][i], (i == 0) == weights ? k->n_tasks : 1 };
    int64_t workspace = sum_floats(k);
    int64_t scratch = k->padded ? max_tile_floats(k) + k->micro->vector : 0;
    if (k->base.kind == LS__OP_CONV2D_BACKWARD_DATA) {
        workspace = k->kernel_h * k->out * k->padded_row_taps;
        scratch = k->pitch + k->micro->vector;
    } else if (weights) {
        workspace *= k->n_tasks;
        scratch += k->rows_per_tile * k->yw * k->padded_out;
    }
    k->base.kernel.workspace_bytes = (size_t)workspace * sizeof(float);
    k->base.scratch_bytes = (size_t)scratch * sizeof(float);
}
