/* linear.c: linear layers: matrix products by oneDNN's single-threaded sgemm, one per task.
 *
 *   forward   y [N,O]  = relu?(x [N,I] w^T + b)
 *   data      dx [N,I] = dy [N,O] w
 *   weights   dw [O,I] = dy^T x, db [O] = sum of dy's rows
 *
 * A task computes a tile of the result: some rows and some columns. In bf16, which sgemm does not
 * take, a linear layer is a 1x1 convolution: rows of x are pixels. */
#include "base/alloc.h"
#include "arith/element.h"
#include "base/error.h"
#include "cpu/conv/roles.h"
#include "cpu/onednn/onednn.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char NAME[] = "onednn gemm";
/* The work of a task: 64 x 1024 x 64 multiplications take some 0.1 ms. The time to start a task (1
 * microsecond) and the edges of the product are small beside that. */
static const double TASK_FLOPS = 8e6;
enum { MAX_TILES = 8, TILE_STEP = 16 }; /* along one side of the product */
static const double GEMM_GFLOPS = 60;   /* one core of a Zen 3, layers of a hundred to a thousand */
enum { SUM_ROWS = 64 };

/* C = A B: which operands these are, and which of them are transposed. */
typedef struct product {
    int a, b, c;
    bool a_transposed, b_transposed;
} product;

static const product products[LS__N_OPS] = {
    [LS__OP_LINEAR] = { 0, 1, 3, .b_transposed = true },
    [LS__OP_LINEAR_BACKWARD_DATA] = { 0, 1, 2 },
    [LS__OP_LINEAR_BACKWARD_WEIGHTS] = { 1, 0, 2, .a_transposed = true },
};

typedef struct linear_kernel {
    ls__kernel kernel;
    ls__cpu *cpu;
    ls__op_kind kind;
    bool relu;                    /* of the forward op */
    int64_t rows, columns, depth; /* of the product: A [rows,depth], B [depth,columns] */
    int64_t lda, ldb;             /* floats from row to row of operands A and B */
    int64_t row_tile, column_tile, n_row_tiles, n_column_tiles;
    void *const *buffers; /* of the present run */
    bool has_run;
    atomic_bool failed;
} linear_kernel;

/* db[row..row+rows] = sum of dy's rows: chains of SUM_ROWS rows, then their sums, so that the error
 * grows with the root of n. */
static void sum_columns(const linear_kernel *k, int64_t row, int64_t rows)
{
    const float *dy = k->buffers[1];
    float *db = k->buffers[3];
    for (int64_t o = row; o < row + rows; o++) {
        float total = 0.0f;
        for (int64_t first = 0; first < k->depth; first += SUM_ROWS) {
            const int64_t last = ls__min_i64(first + SUM_ROWS, k->depth);
            float sum = 0.0f;
            for (int64_t n = first; n < last; n++) sum += dy[n * k->rows + o];
            total += sum;
        }
        db[o] = total;
    }
}

static void dnn_linear_run_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    linear_kernel *k = arg;
    const product *p = &products[k->kind];
    const int64_t row = task / k->n_column_tiles * k->row_tile;
    const int64_t column = task % k->n_column_tiles * k->column_tile;
    const int64_t rows = ls__min_i64(k->row_tile, k->rows - row);
    const int64_t columns = ls__min_i64(k->column_tile, k->columns - column);
    const float *a = k->buffers[p->a], *b = k->buffers[p->b];
    const float *bias = k->kind == LS__OP_LINEAR ? k->buffers[2] : NULL;
    float *c = (float *)k->buffers[p->c] + row * k->columns + column;
    for (int64_t r = 0; bias && r < rows; r++)
        memcpy(c + r * k->columns, bias + column, (size_t)columns * sizeof *c);
    if (!ls__dnn_sgemm(p->a_transposed, p->b_transposed, rows, columns, k->depth,
                       a + row * (p->a_transposed ? 1 : k->lda), k->lda,
                       b + column * (p->b_transposed ? k->ldb : 1), k->ldb, bias ? 1.0f : 0.0f, c,
                       k->columns))
        k->failed = true;
    for (int64_t r = 0; k->relu && r < rows; r++)
        for (int64_t o = 0; o < columns; o++)
            c[r * k->columns + o] = ls__relu(c[r * k->columns + o]);
    if (k->kind == LS__OP_LINEAR_BACKWARD_WEIGHTS && column == 0 && k->buffers[3])
        sum_columns(k, row, rows);
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
    ls__threads_run(k->cpu->threads, k->n_row_tiles * k->n_column_tiles, dnn_linear_run_task, k);
    if (!k->failed) return LS_OK;
    return ls__fail(k->cpu->device.ctx, LS_ERR_DEVICE, "kernel '%s': oneDNN failed", kernel->name);
}

static void linear_close(ls__kernel *kernel)
{
    ls__free(((linear_kernel *)kernel)->cpu->device.ctx, kernel);
}

/* Cuts a side of the product into tiles of a multiple of TILE_STEP. Returns a tile's size. */
static int64_t cut_dimension(int64_t size, double max_tiles, int64_t *n_tiles)
{
    const int64_t n = ls__max_i64(1, ls__min_i64((int64_t)max_tiles, MAX_TILES));
    const int64_t length = ls__round_up_to(ls__divide_up(size, n), TILE_STEP);
    *n_tiles = ls__divide_up(size, length);
    return length;
}

int ls__onednn_linear_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    if (max < 1) return 0;
    if (ls__onednn_is_bf16(op)) {
        const ls__op conv = ls__linear_as_conv(op);
        return ls__onednn_conv_candidates(cpu, &conv, out, max);
    }
    *out =
        (ls__candidate){ .deterministic = true, .cost_ms = ls__op_flops(op) / (GEMM_GFLOPS * 1e6) };
    snprintf(out->name, sizeof out->name, "%s", NAME);
    return 1;
}

ls_status ls__onednn_linear_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    const bool forward = op->kind == LS__OP_LINEAR;
    const bool relu = forward && op->u.linear.relu;
    *out = NULL;
    if (ls__onednn_is_bf16(op)) {
        const ls__op conv = ls__linear_as_conv(op);
        return ls__onednn_conv_open(cpu, &conv, relu, name, out);
    }
    if (strcmp(name, NAME) != 0)
        return ls__fail(cpu->device.ctx, LS_ERR_NOT_FOUND, "%s: oneDNN has no kernel '%s'",
                        ls__op_name(op->kind), name);
    linear_kernel *k = ls__zalloc(cpu->device.ctx, sizeof *k);
    if (!k) return ls__fail_memory(cpu->device.ctx, name, sizeof *k);
    /* A gradient of one element may have one dimension, so the sizes are those of x or dy and w. */
    const bool weights = op->kind == LS__OP_LINEAR_BACKWARD_WEIGHTS;
    const int64_t n = op->operands[0].shape.dims[0];
    const int64_t *w = op->operands[weights ? 2 : 1].shape.dims;
    const int64_t n_out = w[0], n_in = w[1];
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    k->kernel.run = linear_run;
    k->kernel.close = linear_close;
    k->cpu = cpu;
    k->kind = op->kind;
    k->relu = relu;
    k->rows = weights ? n_out : n;
    k->columns = forward ? n_out : n_in;
    k->depth = forward ? n_in : weights ? n : n_out;
    k->lda = forward ? n_in : n_out;
    k->ldb = n_in;
    const double tasks = ls__op_flops(op) / TASK_FLOPS;
    k->row_tile = cut_dimension(k->rows, tasks, &k->n_row_tiles);
    k->column_tile = cut_dimension(k->columns, tasks / (double)k->n_row_tiles, &k->n_column_tiles);
    *out = &k->kernel;
    return LS_OK;
}
