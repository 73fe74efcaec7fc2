/* bench_ops: the speed of each CPU kernel for the convolution and linear layers of the ResNets and
 * LeNet, and for the depthwise convolutions of MobileNetV2. One JSON line per op, shape and kernel.
 * The kernels of a shape take turns, so that load of the machine affects all of them
 * equally.
 *
 *   bench_ops [--op forward|data|weights] [--shape TEXT] [--filter TEXT] [--batch N] [--threads N]
 *             [--repeat N]
 *
 * --shape and --filter pick the shapes and the kernels whose names contain the text.
 *
 * gflops and gflops_per_cpu: nominal operations (ls__op_flops) by the median of time, and by that
 * of the processor time of all threads. by_fastest: the latter's ratio to that of the shape's and
 * op's fastest kernel. */
#include "base/context.h"
#include "cpu/cpu.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct shape {
    const char *name;
    int batch;
    int64_t in, size, out, kernel, stride, padding;
    bool depthwise;
} shape;

/* size 0: a linear layer */
static const shape shapes[] = {
    { "lenet 5x5 1-6@28", 64, 1, 28, 6, 5, 1, 2 },
    { "lenet 5x5 6-16@14", 64, 6, 14, 16, 5, 1, 0 },
    { "resnet20 stem 3-16@32", 128, 3, 32, 16, 3, 1, 1 },
    { "resnet20 16@32", 128, 16, 32, 16, 3, 1, 1 },
    { "resnet20 16-32@32/2", 128, 16, 32, 32, 3, 2, 1 },
    { "resnet20 1x1 16-32@32/2", 128, 16, 32, 32, 1, 2, 0 },
    { "resnet20 32@16", 128, 32, 16, 32, 3, 1, 1 },
    { "resnet20 32-64@16/2", 128, 32, 16, 64, 3, 2, 1 },
    { "resnet20 1x1 32-64@16/2", 128, 32, 16, 64, 1, 2, 0 },
    { "resnet20 64@8", 128, 64, 8, 64, 3, 1, 1 },
    { "resnet18 stem 3-64@32", 128, 3, 32, 64, 3, 1, 1 },
    { "resnet18 64@32", 128, 64, 32, 64, 3, 1, 1 },
    { "resnet18 64-128@32/2", 128, 64, 32, 128, 3, 2, 1 },
    { "resnet18 1x1 64-128@32/2", 128, 64, 32, 128, 1, 2, 0 },
    { "resnet18 128@16", 128, 128, 16, 128, 3, 1, 1 },
    { "resnet18 128-256@16/2", 128, 128, 16, 256, 3, 2, 1 },
    { "resnet18 1x1 128-256@16/2", 128, 128, 16, 256, 1, 2, 0 },
    { "resnet18 256@8", 128, 256, 8, 256, 3, 1, 1 },
    { "resnet18 256-512@8/2", 128, 256, 8, 512, 3, 2, 1 },
    { "resnet18 1x1 256-512@8/2", 128, 256, 8, 512, 1, 2, 0 },
    { "resnet18 512@4", 128, 512, 4, 512, 3, 1, 1 },
    { "imagenet stem 3-64@224/2", 32, 3, 224, 64, 7, 2, 3 },
    { "imagenet 64@56", 32, 64, 56, 64, 3, 1, 1 },
    { "imagenet 128@28", 32, 128, 28, 128, 3, 1, 1 },
    { "imagenet 256@14", 32, 256, 14, 256, 3, 1, 1 },
    { "imagenet 512@7", 32, 512, 7, 512, 3, 1, 1 },
    { "imagenet18 64-128@56/2", 32, 64, 56, 128, 3, 2, 1 },
    { "imagenet18 1x1 64-128@56/2", 32, 64, 56, 128, 1, 2, 0 },
    { "imagenet18 128-256@28/2", 32, 128, 28, 256, 3, 2, 1 },
    { "imagenet18 1x1 128-256@28/2", 32, 128, 28, 256, 1, 2, 0 },
    { "imagenet18 256-512@14/2", 32, 256, 14, 512, 3, 2, 1 },
    { "imagenet18 1x1 256-512@14/2", 32, 256, 14, 512, 1, 2, 0 },
    { "resnet50 128@56/2", 32, 128, 56, 128, 3, 2, 1 },
    { "resnet50 256@28/2", 32, 256, 28, 256, 3, 2, 1 },
    { "resnet50 512@14/2", 32, 512, 14, 512, 3, 2, 1 },
    { "resnet50 1x1 64-64@56", 32, 64, 56, 64, 1, 1, 0 },
    { "resnet50 1x1 64-256@56", 32, 64, 56, 256, 1, 1, 0 },
    { "resnet50 1x1 256-64@56", 32, 256, 56, 64, 1, 1, 0 },
    { "resnet50 1x1 256-128@56", 32, 256, 56, 128, 1, 1, 0 },
    { "resnet50 1x1 128-512@28", 32, 128, 28, 512, 1, 1, 0 },
    { "resnet50 1x1 512-128@28", 32, 512, 28, 128, 1, 1, 0 },
    { "resnet50 1x1 512-256@28", 32, 512, 28, 256, 1, 1, 0 },
    { "resnet50 1x1 256-1024@14", 32, 256, 14, 1024, 1, 1, 0 },
    { "resnet50 1x1 1024-256@14", 32, 1024, 14, 256, 1, 1, 0 },
    { "resnet50 1x1 1024-512@14", 32, 1024, 14, 512, 1, 1, 0 },
    { "resnet50 1x1 512-2048@7", 32, 512, 7, 2048, 1, 1, 0 },
    { "resnet50 1x1 2048-512@7", 32, 2048, 7, 512, 1, 1, 0 },
    { "resnet50 1x1 256-512@56/2", 32, 256, 56, 512, 1, 2, 0 },
    { "resnet50 1x1 512-1024@28/2", 32, 512, 28, 1024, 1, 2, 0 },
    { "resnet50 1x1 1024-2048@14/2", 32, 1024, 14, 2048, 1, 2, 0 },
    { "depthwise 32@112", 16, 32, 112, 32, 3, 1, 1, true },
    { "depthwise 96@112/2", 16, 96, 112, 96, 3, 2, 1, true },
    { "depthwise 144@56", 16, 144, 56, 144, 3, 1, 1, true },
    { "depthwise 144@56/2", 16, 144, 56, 144, 3, 2, 1, true },
    { "depthwise 192@28", 16, 192, 28, 192, 3, 1, 1, true },
    { "depthwise 384@14", 16, 384, 14, 384, 3, 1, 1, true },
    { "depthwise 576@14/2", 16, 576, 14, 576, 3, 2, 1, true },
    { "depthwise 960@7", 16, 960, 7, 960, 3, 1, 1, true },
    { "linear 512-10", 128, 512, 0, 10, 0, 0, 0 },
    { "linear 784-128", 32, 784, 0, 128, 0, 0, 0 },
    { "linear 784-512", 128, 784, 0, 512, 0, 0, 0 },
    { "linear 512-512", 128, 512, 0, 512, 0, 0, 0 },
    { "linear 400-120", 64, 400, 0, 120, 0, 0, 0 },
    { "linear 120-84", 64, 120, 0, 84, 0, 0, 0 },
    { "linear 84-10", 64, 84, 0, 10, 0, 0, 0 },
    { "linear 512-1000", 128, 512, 0, 1000, 0, 0, 0 },
    { "linear 2048-1000", 32, 2048, 0, 1000, 0, 0, 0 },
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static const char *const op_names[] = { "forward", "data", "weights" };
enum { N_OPS = 3 };

typedef struct settings {
    const char *op, *shape, *filter;
    int64_t batch, threads, repeat;
} settings;

/* A kernel and its times. */
typedef struct entry {
    ls__op op;
    char name[LS__KERNEL_NAME_SIZE];
    ls__kernel *kernel;
    double *ms, *cpu_ms; /* cpu: of all threads, what a busy machine disturbs least */
} entry;

static double now_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static ls__operand operand(ls_shape dims)
{
    return (ls__operand){ LS_F32, dims };
}

static ls__op make_op(const shape *s, int64_t batch, int direction)
{
    static const ls__op_kind kinds[2][N_OPS] = {
        { LS__OP_LINEAR, LS__OP_LINEAR_BACKWARD_DATA, LS__OP_LINEAR_BACKWARD_WEIGHTS },
        { LS__OP_CONV2D, LS__OP_CONV2D_BACKWARD_DATA, LS__OP_CONV2D_BACKWARD_WEIGHTS }
    };
    const bool conv = s->size > 0;
    const int64_t out = conv ? (s->size + 2 * s->padding - s->kernel) / s->stride + 1 : 0;
    const ls__operand none = operand((ls_shape){ -1, { 0 } });
    const ls__operand x =
        conv ? operand(LS_SHAPE(batch, s->size, s->size, s->in)) : operand(LS_SHAPE(batch, s->in));
    const ls__operand y =
        conv ? operand(LS_SHAPE(batch, out, out, s->out)) : operand(LS_SHAPE(batch, s->out));
    const int64_t groups = s->depthwise ? s->in : 1, w_in = s->in / groups;
    const ls__operand w = conv ? operand(LS_SHAPE(s->out, s->kernel, s->kernel, w_in))
                               : operand(LS_SHAPE(s->out, s->in));
    ls__op op = { .kind = kinds[conv][direction], .n_operands = direction == 1 ? 3 : 4 };
    const ls__operand operands[N_OPS][4] = { { x, w, none, y }, { y, w, x }, { x, y, w, none } };
    memcpy(op.operands, operands[direction], sizeof operands[direction]);
    for (int i = 0; conv && i < 2; i++) {
        op.u.conv.kernel[i] = s->kernel;
        op.u.conv.stride[i] = s->stride;
        op.u.conv.padding[i] = s->padding;
        op.u.conv.dilation[i] = 1;
    }
    op.u.conv.groups = groups;
    return op;
}

static int list_entries(ls_context *ctx, const settings *set, const ls__op *op, entry *entries)
{
    ls__candidate found[LS__MAX_CANDIDATES];
    const int n_found =
        ctx->device->backend->candidates(ctx->device, op, found, LS__MAX_CANDIDATES);
    int n = 0;
    for (int j = 0; j < n_found; j++) {
        if (set->filter && !strstr(found[j].name, set->filter)) continue;
        entries[n] = (entry){ .op = *op };
        memcpy(entries[n].name, found[j].name, sizeof found[j].name);
        n++;
    }
    return n;
}

static int64_t largest_operand(const ls__op *op)
{
    int64_t largest = 0;
    for (int i = 0; i < op->n_operands; i++)
        if (op->operands[i].shape.n_dims >= 0 &&
            ls_shape_element_count(&op->operands[i].shape) > largest)
            largest = ls_shape_element_count(&op->operands[i].shape);
    return largest;
}

static void print_entry(const settings *set, const shape *s, int64_t batch, int direction,
                        const entry *e, double min_cpu_ms)
{
    const double median = bench_quantile(e->ms, set->repeat, 0.5);
    const double cpu = bench_quantile(e->cpu_ms, set->repeat, 0.5);
    const double gflop = 1e-6 * ls__op_flops(&e->op); /* by milliseconds */
    printf("{\"op\": \"%s\", \"shape\": \"%s\", \"batch\": %lld, \"threads\": %lld, "
           "\"kernel\": \"%s\", \"median_ms\": %.4f, \"best_ms\": %.4f, "
           "\"gflops\": %.1f, \"median_cpu_ms\": %.4f, \"best_cpu_ms\": %.4f, "
           "\"gflops_per_cpu\": %.1f, \"by_fastest\": %.3f}\n",
           op_names[direction], s->name, (long long)batch, (long long)set->threads, e->name, median,
           e->ms[0], gflop / median, cpu, e->cpu_ms[0], gflop / cpu, cpu / min_cpu_ms);
    fflush(stdout);
}

static void print_entries(const settings *set, const shape *s, int64_t batch, int direction,
                          const entry *entries, int n)
{
    double min_cpu_ms = 0;
    for (int i = 0; i < n; i++) {
        bench_sort(entries[i].ms, set->repeat);
        bench_sort(entries[i].cpu_ms, set->repeat);
        const double cpu = bench_quantile(entries[i].cpu_ms, set->repeat, 0.5);
        if (i == 0 || cpu < min_cpu_ms) min_cpu_ms = cpu;
    }
    for (int i = 0; i < n; i++) print_entry(set, s, batch, direction, &entries[i], min_cpu_ms);
}

/* Adds to *n_found the kernels that the options select. */
static ls_status bench(ls_context *ctx, const settings *set, const shape *s, int direction,
                       int *n_found)
{
    static const ls__step step = { .seed = 1 };
    const ls__backend *backend = ctx->device->backend;
    const int64_t batch = set->batch ? set->batch : s->batch;
    entry entries[LS__MAX_CANDIDATES];
    const ls__op op = make_op(s, batch, direction);
    const int n = list_entries(ctx, set, &op, entries);
    *n_found += n;
    const size_t bytes = (size_t)largest_operand(&op) * sizeof(float);
    void *buffers[4] = { NULL }, *workspace = NULL;
    size_t workspace_bytes = 1;
    ls_status status = LS_OK;
    for (int i = 0; i < n; i++) {
        entries[i].ms = calloc((size_t)set->repeat, sizeof(double));
        entries[i].cpu_ms = calloc((size_t)set->repeat, sizeof(double));
        if (!entries[i].ms || !entries[i].cpu_ms) status = LS_ERR_MEMORY;
        if (status == LS_OK)
            status = backend->kernel_open(ctx->device, &entries[i].op, entries[i].name,
                                          &entries[i].kernel);
        if (status == LS_OK && entries[i].kernel->workspace_bytes > workspace_bytes)
            workspace_bytes = entries[i].kernel->workspace_bytes;
    }
    if (status != LS_OK) goto fail;
    workspace = backend->allocate(ctx->device, workspace_bytes);
    if (!workspace) status = LS_ERR_MEMORY;
    for (int i = 0; i < op.n_operands; i++) {
        if (op.operands[i].shape.n_dims < 0) continue;
        buffers[i] = backend->allocate(ctx->device, bytes);
        if (!buffers[i]) status = LS_ERR_MEMORY;
        for (size_t j = 0; buffers[i] && j < bytes / sizeof(float); j++)
            ((float *)buffers[i])[j] = (float)(j * 2654435761u % 1024) / 1024.0f - 0.5f;
    }
    backend->begin(ctx->device);
    for (int r = -1; r < set->repeat && status == LS_OK; r++) /* the first warms up */
        for (int i = 0; i < n && status == LS_OK; i++) {
            const double before = now_ms(CLOCK_MONOTONIC);
            const double cpu_before = now_ms(CLOCK_PROCESS_CPUTIME_ID);
            status = entries[i].kernel->run(entries[i].kernel, buffers, workspace, &step);
            if (r < 0) continue;
            entries[i].cpu_ms[r] = now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
            entries[i].ms[r] = now_ms(CLOCK_MONOTONIC) - before;
        }
    backend->end(ctx->device);
    if (status == LS_OK) print_entries(set, s, batch, direction, entries, n);
fail:
    for (int i = 0; i < n; i++) {
        if (entries[i].kernel) entries[i].kernel->close(entries[i].kernel);
        free(entries[i].ms);
        free(entries[i].cpu_ms);
    }
    for (int i = 0; i < 4; i++)
        if (buffers[i]) backend->release(ctx->device, buffers[i], bytes);
    if (workspace) backend->release(ctx->device, workspace, workspace_bytes);
    return status;
}

int main(int argc, char **argv)
{
    settings set = { .repeat = 7 };
    const bench_option table[] = {
        { "--op", BENCH_TEXT, &set.op, "forward, data or weights alone" },
        { "--shape", BENCH_TEXT, &set.shape, "shapes with this in their names alone" },
        { "--filter", BENCH_TEXT, &set.filter, "kernels with this in their names alone" },
        { "--batch", BENCH_NUMBER, &set.batch, "images; without it each shape's own" },
        { "--threads", BENCH_COUNT, &set.threads, "without it, or 0, all" },
        { "--repeat", BENCH_NUMBER, &set.repeat, "rounds, of which the median is taken" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;

    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = (int)set.threads });
    ls_status status = ls_context_status(ctx);
    set.threads = ls_context_thread_count(ctx);
    int n_found = 0;
    for (int i = 0; i < N_SHAPES && status == LS_OK; i++)
        for (int op = 0; op < N_OPS && status == LS_OK; op++) {
            if (set.shape && !strstr(shapes[i].name, set.shape)) continue;
            if (set.op && strcmp(op_names[op], set.op) != 0) continue;
            status = bench(ctx, &set, &shapes[i], op, &n_found);
        }
    bench_report("bench_ops", ctx);
    if (status == LS_OK && n_found == 0)
        fprintf(stderr, "bench_ops: no op, shape and kernel go by these names\n");
    ls_context_close(&ctx);
    return status == LS_OK && n_found > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
