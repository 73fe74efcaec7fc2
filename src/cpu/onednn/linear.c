/* linear.c: linear layers: matrix products by oneDNN's single-threaded sgemm, one per task.
 *
 *   forward   y [N,O]  = relu?(x [N,I] w^T + b)   tasks: rows of y times columns of y
 *   data      dx [N,I] = dy [N,O] w         the same of dx
 *   weights   dw [O,I] = dy^T x             the same of dw; db with its first columns
 *
 * In bf16, which sgemm does not take, a linear layer is a convolution of 1x1: rows of x are pixels.
 */
#include "base/alloc.h"
#include "base/element.h"
#include "base/error.h"
#include "cpu/conv/roles.h"
#include "cpu/onednn/onednn.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char NAME[] = "onednn gemm";
/* A task's share of the product: 64 x 1024 x 64 multiplications take some 0.1 ms, beside which
 * handing out a task (1 microsecond) and the product's edges do not count. */
static const double TASK_FLOPS = 8e6;
enum { MAX_PARTS = 8, PART_MULTIPLE = 16 };
static const double GEMM_GFLOPS = 60; /* one core of a Zen 3, layers of a hundred to a thousand */
enum { SUM_ROWS = 64 };

typedef struct linear_kernel {
    ls__kernel kernel;
    ls__cpu *cpu;
    ls__op_kind kind;
    bool relu;                     /* of the forward op */
    int64_t n, in, out;            /* x [n,in], y [n,out] */
    int64_t rows, columns;         /* of the product */
    int64_t row_part, column_part; /* of a task */
    int64_t n_row_parts, n_column_parts;
    void *const *buffers; /* of the present run */
    bool has_run;
    atomic_bool failed;
} linear_kernel;

/* y and bias */
static bool forward(const linear_kernel *k, int64_t row, int64_t rows, int64_t column,
                    int64_t columns)
{
    const float *x = k->buffers[0], *w = k->buffers[1], *b = k->buffers[2];
    float *y = k->buffers[3];
    y += row * k->out + column;
    if (b)
        for (int64_t r = 0; r < rows; r++)
            memcpy(y + r * k->out, b + column, (size_t)columns * sizeof(float));
    if (!ls__dnn_sgemm(false, true, rows, columns, k->in, x + row * k->in, k->in,
                       w + column * k->in, k->in, b ? 1.0f : 0.0f, y, k->out))
        return false;
    for (int64_t r = 0; k->relu && r < rows; r++)
        for (int64_t o = 0; o < columns; o++) y[r * k->out + o] = ls__relu(y[r * k->out + o]);
    return true;
}

static bool backward_data(const linear_kernel *k, int64_t row, int64_t rows, int64_t column,
                          int64_t columns)
{
    const float *dy = k->buffers[0], *w = k->buffers[1];
    float *dx = k->buffers[2];
    return ls__dnn_sgemm(false, false, rows, columns, k->out, dy + row * k->out, k->out, w + column,
                         k->in, 0.0f, dx + row * k->in + column, k->in);
}

/* db[row..row+rows] = sum of dy's rows: within stretches, then the stretches, so that the error
 * grows with the root of n. */
static void sum_columns(const linear_kernel *k, int64_t row, int64_t rows)
{
    const float *dy = k->buffers[1];
    float *db = k->buffers[3];
    for (int64_t o = row; o < row + rows; o++) {
        float total = 0.0f;
        for (int64_t first = 0; first < k->n; first += SUM_ROWS) {
            const int64_t last = ls__min(first + SUM_ROWS, k->n);
            float sum = 0.0f;
            for (int64_t n = first; n < last; n++) sum += dy[n * k->out + o];
            total += sum;
        }
        db[o] = total;
    }
}

static bool backward_weights(const linear_kernel *k, int64_t row, int64_t rows, int64_t column,
                             int64_t columns)
{
    const float *x = k->buffers[0], *dy = k->buffers[1];
    float *dw = k->buffers[2];
    if (column == 0 && k->buffers[3]) sum_columns(k, row, rows);
    return ls__dnn_sgemm(true, false, rows, columns, k->n, dy + row, k->out, x + column, k->in,
                         0.0f, dw + row * k->in + column, k->in);
}

static void run_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    linear_kernel *k = arg;
    const int64_t row = task / k->n_column_parts * k->row_part;
    const int64_t column = task % k->n_column_parts * k->column_part;
    const int64_t rows = ls__min(k->row_part, k->rows - row);
    const int64_t columns = ls__min(k->column_part, k->columns - column);
    const bool good = k->kind == LS__OP_LINEAR ? forward(k, row, rows, column, columns)
                      : k->kind == LS__OP_LINEAR_BACKWARD_DATA
                          ? backward_data(k, row, rows, column, columns)
                          : backward_weights(k, row, rows, column, columns);
    if (!good) k->failed = true;
}

static ls_status linear_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                            const ls__step *step)
{
    (void)workspace;
    (void)step;
    linear_kernel *k = (linear_kernel *)kernel;
    LS_TRY(ls__onednn_check_memory(k->cpu, kernel, &k->has_run));
    k->buffers = buffers;
    k->failed = false;
    ls__threads_run(k->cpu->threads, k->n_row_parts * k->n_column_parts, run_task, k);
    if (!k->failed) return LS_OK;
    return ls__fail(k->cpu->device.ctx, LS_ERR_DEVICE, "kernel '%s': oneDNN failed", kernel->name);
}

static void linear_close(ls__kernel *kernel)
{
    ls__free(((linear_kernel *)kernel)->cpu->device.ctx, kernel);
}

/* Parts of a multiple of PART_MULTIPLE, at most `wanted` of them. Returns a part's size. */
static int64_t part(int64_t size, double wanted, int64_t *n_parts)
{
    int64_t n = ls__min((int64_t)wanted, MAX_PARTS);
    if (n < 1) n = 1;
    const int64_t length = ls__round_up_to(ls__divide_up(size, n), PART_MULTIPLE);
    *n_parts = ls__divide_up(size, length);
    return length;
}

/* Tasks are cut by images: these are of so many rows at most, where n can be halved. */
enum { IMAGE_ROWS = 32 };

static ls__operand as_image(const ls__operand *o)
{
    const int64_t n = o->shape.dims[0], channels = o->shape.dims[1];
    int64_t rows = n;
    while (rows > IMAGE_ROWS && rows % 2 == 0) rows /= 2;
    return (ls__operand){ o->dtype, LS_SHAPE(n / rows, rows, 1, channels), channels };
}

static ls__op as_convolution(const ls__op *op)
{
    static const ls__op_kind kinds[LS__N_OPS] = {
        [LS__OP_LINEAR] = LS__OP_CONV2D,
        [LS__OP_LINEAR_BACKWARD_DATA] = LS__OP_CONV2D_BACKWARD_DATA,
        [LS__OP_LINEAR_BACKWARD_WEIGHTS] = LS__OP_CONV2D_BACKWARD_WEIGHTS,
    };
    ls__op conv = { .kind = kinds[op->kind],
                    .n_operands = op->n_operands,
                    .u.conv = { { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 } };
    ls__conv_roles roles;
    ls__conv_roles_of(conv.kind, &roles);
    memcpy(conv.operands, op->operands, sizeof conv.operands);
    conv.operands[roles.x] = as_image(&op->operands[roles.x]);
    conv.operands[roles.y] = as_image(&op->operands[roles.y]);
    const ls__operand *w = &op->operands[roles.w];
    const int64_t in = w->shape.dims[1];
    conv.operands[roles.w] = (ls__operand){ w->dtype, LS_SHAPE(w->shape.dims[0], 1, 1, in), in };
    return conv;
}

int ls__onednn_linear_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    if (max < 1) return 0;
    if (ls__onednn_is_bf16(op)) {
        const ls__op conv = as_convolution(op);
        return ls__onednn_conv_candidates(cpu, &conv, out, max);
    }
    *out =
        (ls__candidate){ .deterministic = true, .cost_ms = ls__op_flops(op) / (GEMM_GFLOPS * 1e6) };
    snprintf(out->name, sizeof out->name, "%s", NAME);
    return 1;
}

ls_status ls__onednn_linear_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    *out = NULL;
    if (ls__onednn_is_bf16(op)) {
        const ls__op conv = as_convolution(op);
        const bool relu = op->kind == LS__OP_LINEAR && op->u.linear.relu;
        return relu ? ls__onednn_conv_relu_open(cpu, &conv, name, out)
                    : ls__onednn_conv_open(cpu, &conv, name, out);
    }
    if (strcmp(name, NAME) != 0)
        return ls__fail(cpu->device.ctx, LS_ERR_NOT_FOUND, "%s: oneDNN has no kernel '%s'",
                        ls__op_name(op->kind), name);
    linear_kernel *k = ls__zalloc(cpu->device.ctx, sizeof *k);
    if (!k) return ls__fail_memory(cpu->device.ctx, name, sizeof *k);
    const bool weights = op->kind == LS__OP_LINEAR_BACKWARD_WEIGHTS;
    const int64_t *w = op->operands[weights ? 2 : 1].shape.dims;
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    k->kernel.run = linear_run;
    k->kernel.close = linear_close;
    k->cpu = cpu;
    k->kind = op->kind;
    k->relu = op->kind == LS__OP_LINEAR && op->u.linear.relu;
    k->n = op->operands[0].shape.dims[0];
    k->out = w[0];
    k->in = w[1];
    k->rows = weights ? k->out : k->n;
    k->columns = op->kind == LS__OP_LINEAR ? k->out : k->in;
    /* the side with more parts to give first */
    const double tasks = ls__op_flops(op) / TASK_FLOPS;
    k->row_part = part(k->rows, tasks, &k->n_row_parts);
    k->column_part = part(k->columns, tasks / (double)k->n_row_parts, &k->n_column_parts);
    *out = &k->kernel;
    return LS_OK;
}
