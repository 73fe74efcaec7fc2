/* conv.c: convolutions of few channels as tasks, and the provider that offers them. Pictures are
 * cut into pieces of output rows, each with its padding; a task has some pieces. */
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/conv_roles.h"
#include "cpu/narrow/narrow.h"

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

typedef struct narrow_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    ls__op_kind kind;
    int64_t images, xh, xw, in, yh, yw, out; /* x [images,xh,xw,in], y [images,yh,yw,out] */
    int64_t kernel_h, stretch;               /* stretch: kernel width times in */
    int64_t stride_h, stride_w, padding[2];
    bool padded;            /* else x itself is read */
    bool slides;            /* forward: slide.c's */
    int64_t columns;        /* of a padded row, in places */
    int64_t pitch;          /* of a row that is read, in floats */
    int64_t rows_per_piece; /* of y */
    int64_t pieces_per_image, n_pieces, n_tasks;
    int64_t wide_out, wide_stretch; /* whole vectors */
} narrow_kernel;

typedef struct narrow_call {
    const narrow_kernel *k;
    const float *x, *w, *dy, *bias;
    float *y, *dx, *dw, *db; /* bias, db: NULL: none */
    float *workspace;        /* packed weights, or partial sums [task][taps and bias][wide_out] */
} narrow_call;

static int64_t whole_vectors(int64_t n)
{
    return ls__divide_up(n, VECTOR) * VECTOR;
}

/* ---- Pieces ---- */

typedef struct piece {
    int64_t image, first, rows; /* of y */
} piece;

static piece piece_at(const narrow_kernel *k, int64_t i)
{
    const int64_t first = i % k->pieces_per_image * k->rows_per_piece;
    return (piece){ i / k->pieces_per_image, first, ls__min(k->rows_per_piece, k->yh - first) };
}

static int64_t input_rows(const narrow_kernel *k, int64_t rows)
{
    return (rows - 1) * k->stride_h + k->kernel_h;
}

static int64_t piece_floats(const narrow_kernel *k)
{
    return input_rows(k, k->rows_per_piece) * k->pitch;
}

/* Where the part of a padded row that is in the picture begins, and its length; in places. */
static int64_t inside(const narrow_kernel *k, int64_t *length)
{
    *length = ls__min(k->xw, k->columns - k->padding[1]);
    return k->padding[1];
}

/* The input rows that a piece sees; zeros around the picture. */
static const float *read_piece(const narrow_kernel *k, const float *x, const piece *p,
                               float *scratch)
{
    const int64_t top = p->first * k->stride_h - k->padding[0];
    const float *image = x + p->image * k->xh * k->xw * k->in;
    if (!k->padded) return image + top * k->pitch;
    int64_t length;
    const int64_t begin = inside(k, &length) * k->in;
    length *= k->in;
    for (int64_t r = 0; r < input_rows(k, p->rows); r++) {
        float *row = scratch + r * k->pitch;
        const int64_t h = top + r;
        if (h < 0 || h >= k->xh || length <= 0) {
            memset(row, 0, (size_t)k->pitch * sizeof *row);
            continue;
        }
        memset(row, 0, (size_t)begin * sizeof *row);
        memcpy(row + begin, image + h * k->xw * k->in, (size_t)length * sizeof *row);
        memset(row + begin + length, 0, (size_t)(k->pitch - begin - length) * sizeof *row);
    }
    return scratch;
}

static int64_t first_piece(const narrow_kernel *k, int64_t task)
{
    return task * k->n_pieces / k->n_tasks;
}

/* ---- Forward: x w b? -> y ---- */

/* w [out][tap] as [tap][wide_out], taps of all kernel rows in order; behind them the bias. */
static void pack_forward(const narrow_kernel *k, const narrow_call *call)
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
    const narrow_kernel *k = call->k;
    const float *packed = call->workspace;
    const float *start = call->bias ? packed + k->kernel_h * k->stretch * k->wide_out : NULL;
    const ls__narrow_windows windows = { packed, start,    k->kernel_h, k->stretch,
                                         k->yw,  k->pitch, k->out };
    for (int64_t i = first_piece(k, task); i < first_piece(k, task + 1); i++) {
        const piece p = piece_at(k, i);
        const float *x = read_piece(k, call->x, &p, (float *)(void *)k->cpu->scratch[thread]);
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

static ls_status run_forward(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    (void)step;
    const narrow_kernel *k = (const narrow_kernel *)kernel;
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

/* ---- Backward by data: dy w -> dx ---- */

/* w [out][row][stretch] as [row][out][wide_stretch] */
static void pack_data(const narrow_kernel *k, const narrow_call *call)
{
    memset(call->workspace, 0, (size_t)(k->kernel_h * k->out * k->wide_stretch) * sizeof(float));
    for (int64_t o = 0; o < k->out; o++)
        for (int64_t r = 0; r < k->kernel_h; r++)
            memcpy(call->workspace + (r * k->out + o) * k->wide_stretch,
                   call->w + (o * k->kernel_h + r) * k->stretch,
                   (size_t)k->stretch * sizeof(float));
}

/* One row of a padded picture: the kernel rows through which rows of dy see it, in order. */
static void data_row(const narrow_call *call, const float *dy, int64_t row, float *padded)
{
    const narrow_kernel *k = call->k;
    const int64_t last = ls__min(row / k->stride_h, k->yh - 1); /* of dy */
    const int64_t first_seen = row - k->kernel_h + 1;
    const int64_t first = first_seen > 0 ? ls__divide_up(first_seen, k->stride_h) : 0;
    const int64_t row_weights = k->out * k->wide_stretch, row_floats = k->yw * k->out;
    memset(padded, 0, (size_t)(k->pitch + VECTOR) * sizeof *padded);
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

/* A task's pieces are whole pictures. Where windows leave a rest of one out, zeros. */
static void data_task(void *arg, int64_t task, int thread)
{
    const narrow_call *call = arg;
    const narrow_kernel *k = call->k;
    float *padded = (float *)(void *)k->cpu->scratch[thread];
    int64_t length;
    const int64_t begin = inside(k, &length) * k->in, rows = input_rows(k, k->yh);
    const int64_t width = k->xw * k->in, n = length > 0 ? length * k->in : 0;
    for (int64_t image = first_piece(k, task); image < first_piece(k, task + 1); image++)
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

static ls_status run_data(ls__kernel *kernel, void *const *buffers, void *workspace,
                          const ls__step *step)
{
    (void)step;
    const narrow_kernel *k = (const narrow_kernel *)kernel;
    narrow_call call = {
        .k = k, .dy = buffers[0], .w = buffers[1], .dx = buffers[2], .workspace = workspace
    };
    pack_data(k, &call);
    ls__threads_run(k->cpu->threads, k->n_tasks, data_task, &call);
    return LS_OK;
}

/* ---- Backward weights: x dy -> dw db? ---- */

static int64_t part_floats(const narrow_kernel *k)
{
    return (k->kernel_h * k->stretch + 1) * k->wide_out;
}

static void weights_task(void *arg, int64_t task, int thread)
{
    const narrow_call *call = arg;
    const narrow_kernel *k = call->k;
    float *scratch = (float *)(void *)k->cpu->scratch[thread];
    float *sums = call->workspace + task * part_floats(k);
    memset(sums, 0, (size_t)part_floats(k) * sizeof *sums);
    for (int64_t i = first_piece(k, task); i < first_piece(k, task + 1); i++) {
        const piece p = piece_at(k, i);
        const float *x = read_piece(k, call->x, &p, scratch);
        const float *dy = call->dy + (p.image * k->yh + p.first) * k->yw * k->out;
        /* What a vector has more belongs to the next places; behind the last ones there are none.
         */
        const int64_t rows_behind = (k->images - p.image) * k->yh - p.first - p.rows;
        int64_t apart = k->out;
        if (k->wide_out - k->out > rows_behind * k->yw * k->out) {
            float *wide = scratch + (k->padded ? piece_floats(k) : 0);
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
    const narrow_kernel *k = call->k;
    const bool is_bias = row == k->kernel_h;
    const int64_t taps = is_bias ? 1 : k->stretch, n = taps * k->wide_out;
    float *first = call->workspace + row * k->stretch * k->wide_out;
    for (int64_t step = 1; step < k->n_tasks; step *= 2)
        for (int64_t part = 0; part + step < k->n_tasks; part += 2 * step) {
            float *restrict to = first + part * part_floats(k);
            const float *restrict from = to + step * part_floats(k);
            for (int64_t i = 0; i < n; i++) to[i] += from[i];
        }
    float *to = is_bias ? call->db : call->dw + row * k->stretch;
    const int64_t apart = is_bias ? 1 : k->kernel_h * k->stretch;
    for (int64_t o = 0; o < k->out; o++)
        for (int64_t t = 0; t < taps; t++) to[o * apart + t] = first[t * k->wide_out + o];
}

static ls_status run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    (void)step;
    const narrow_kernel *k = (const narrow_kernel *)kernel;
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

/* ---- The provider ---- */

/* All but memory; false when the op is none of ours. */
static bool plan(ls__cpu *cpu, const ls__op *op, narrow_kernel *k)
{
    ls__conv_roles roles;
    if (cpu->isa < LS__ISA_AVX2 || !ls__conv_roles_of(op->kind, &roles)) return false;
    const ls__operand *x = &op->operands[roles.x], *y = &op->operands[roles.y];
    const int64_t *xd = x->shape.dims, *yd = y->shape.dims;
    if (x->block != xd[3] || y->block != yd[3] || op->u.conv.groups != 1 || xd[3] > MOST_IN ||
        yd[3] > MOST_OUT || op->u.conv.dilation[0] != 1 || op->u.conv.dilation[1] != 1)
        return false;
    const int64_t kernel_w = op->u.conv.kernel[1];
    *k = (narrow_kernel){ .cpu = cpu,
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
    k->wide_out = whole_vectors(k->out);
    k->wide_stretch = whole_vectors(k->stretch);
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
static double flops(const narrow_kernel *k)
{
    const double places = (double)(k->images * k->yh * k->yw * k->kernel_h);
    return 2 * places *
           (k->kind == LS__OP_CONV2D_BACKWARD_DATA ? (double)(k->out * k->wide_stretch)
                                                   : (double)(k->wide_out * k->stretch));
}

/* Gflop/s of one core of a Zen 3: forward, backward by data, backward weights. */
static const double SPEED[] = { 85, 80, 85 };

static double cost_ms(const narrow_kernel *k)
{
    return flops(k) / (SPEED[k->kind - LS__OP_CONV2D] * 1e6);
}

static int narrow_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    narrow_kernel k;
    if (max < 1 || !plan(cpu, op, &k)) return 0;
    *out = (ls__candidate){ .deterministic = true, .cost_ms = cost_ms(&k) };
    snprintf(out->name, sizeof out->name, "%s", NAME);
    return 1;
}

static void narrow_close(ls__kernel *kernel)
{
    ls__free(((narrow_kernel *)kernel)->cpu->device.ctx, kernel);
}

static ls_status narrow_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    static ls_status (*const runs[])(ls__kernel *, void *const *, void *,
                                     const ls__step *) = { run_forward, run_data, run_weights };
    ls_context *ctx = cpu->device.ctx;
    *out = NULL;
    narrow_kernel found;
    if (strcmp(name, NAME) != 0 || !plan(cpu, op, &found))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: no kernel '%s' for this shape",
                        ls__op_name(op->kind), name);
    narrow_kernel *k = ls__alloc(ctx, sizeof *k);
    if (!k) return ls__fail_memory(ctx, name, sizeof *k);
    *k = found;
    const bool weights = op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    k->n_tasks = ls__min(k->n_pieces, (int64_t)(flops(k) / TASK_FLOPS));
    if (weights) k->n_tasks = ls__min(k->n_tasks, MOST_PARTS);
    if (k->n_tasks < 1) k->n_tasks = 1;
    const int64_t packed = op->kind == LS__OP_CONV2D_BACKWARD_DATA
                               ? k->kernel_h * k->out * k->wide_stretch
                               : part_floats(k);
    k->kernel.workspace_bytes = (size_t)(weights ? k->n_tasks * packed : packed) * sizeof(float);
    k->kernel.run = runs[op->kind - LS__OP_CONV2D];
    k->kernel.close = narrow_close;
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    const int64_t widened = weights ? k->rows_per_piece * k->yw * k->wide_out : 0;
    const int64_t padded = op->kind == LS__OP_CONV2D_BACKWARD_DATA ? k->pitch + VECTOR
                           : k->padded                             ? piece_floats(k) + VECTOR
                                                                   : 0;
    const ls_status status =
        ls__cpu_reserve_scratch(cpu, (size_t)(padded + widened) * sizeof(float));
    if (status != LS_OK) {
        narrow_close(&k->kernel);
        return status;
    }
    *out = &k->kernel;
    return LS_OK;
}

const ls__cpu_provider ls__narrow_provider = { "narrow", narrow_candidates, narrow_open, NULL };
