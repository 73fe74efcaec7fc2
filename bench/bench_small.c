/* bench_small.c: times training steps (forward, backward, update) of nets so small that the
 * overhead of an op matters, and prints one JSON line per net:
 *
 *   bench_small --threads 1                  all nets
 *   bench_small --model lenet --ops          one of them, with a table of where its time goes
 *
 *   mlp        784-128-10, batch 32
 *   lenet      28x28x1: 5x5 6 (padding 2), pool, 5x5 16, pool, 120, 84, 10, batch 64
 *   resnet20   the bundled one, 32x32x3, batch 128
 *   chain      256 ReLUs of 16 numbers each in sequence: almost only overhead
 *
 * SGD with momentum and weight decay, cross entropy. The batch is random and the same in each step.
 *
 *   step_ms_median       of steps that are waited for, one after the other
 *   ops                  of a step's forward and backward
 *   us_per_op            the median step by its ops: of the chain, all that an op costs, its own
 *                        few nanoseconds of arithmetic included
 *   overhead_us_per_op   what a step without update spends outside of kernels, its clock readings
 *                        and the copy of the batch included, by its ops */
#include "nn/net/net.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 10, CHAIN_LENGTH = 256, CHAIN_WIDTH = 16 };

typedef struct small_net {
    const char *name;
    ls_model_fn function;
    int64_t batch, size, channels; /* of the image */
    int steps;                     /* default */
} small_net;

typedef struct options {
    const char *model;
    int64_t batch, threads, steps, warmup;
    bool ops, tune, native;
} options;

typedef struct bench {
    bench_work work;
    int64_t n_steps;               /* timed, and as many profiled */
    double *seconds;               /* of each step, sorted */
    double step_plain, in_kernels; /* seconds per step, of the profiled steps without update */
    ls__profile_line *lines;
    int n_lines;
} bench;

/* ---- The nets: x [N,H,W,C] -> [N,10] ---- */

static ls_node *mlp(ls_graph *g, ls_node *x, const void *unused)
{
    (void)unused;
    x = ls_relu(g, ls_linear(g, "fc1", ls_flatten(g, x), 128, NULL));
    return ls_linear(g, "fc2", x, CLASSES, NULL);
}

static ls_node *lenet(ls_graph *g, ls_node *x, const void *unused)
{
    (void)unused;
    const ls_pool_config half = { .kernel = 2 };
    const ls_conv2d_config same = { .kernel = 5, .padding = 2, .bias = true };
    const ls_conv2d_config valid = { .kernel = 5, .bias = true };
    x = ls_max_pool(g, ls_relu(g, ls_conv2d(g, "conv1", x, 6, &same)), &half);
    x = ls_max_pool(g, ls_relu(g, ls_conv2d(g, "conv2", x, 16, &valid)), &half);
    x = ls_relu(g, ls_linear(g, "fc1", ls_flatten(g, x), 120, NULL));
    x = ls_relu(g, ls_linear(g, "fc2", x, 84, NULL));
    return ls_linear(g, "fc3", x, CLASSES, NULL);
}

static ls_node *chain(ls_graph *g, ls_node *x, const void *unused)
{
    (void)unused;
    x = ls_linear(g, "first", ls_flatten(g, x), CHAIN_WIDTH, NULL);
    for (int i = 0; i < CHAIN_LENGTH; i++) x = ls_relu(g, x);
    return ls_linear(g, "last", x, CLASSES, NULL);
}

static const small_net nets[] = {
    { "mlp", mlp, 32, 28, 1, 2000 },
    { "lenet", lenet, 64, 28, 1, 400 },
    { "resnet20", ls_resnet20, 128, 32, 3, 10 },
    { "chain", chain, 1, 4, 1, 2000 },
};
enum { N_NETS = sizeof nets / sizeof nets[0] };

/* ---- Measuring ---- */

static ls_status open_bench(const options *o, const small_net *net, bench *b)
{
    bench_work *work = &b->work;
    work->ctx = ls_context_open(&(ls_context_config){
        .threads = (int)o->threads,
        .arithmetic = o->native ? LS_ARITHMETIC_NATIVE : LS_ARITHMETIC_PORTABLE,
        .benchmark = o->tune ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
    });
    LS_TRY(ls_context_status(work->ctx));
    const int64_t batch = o->batch ? o->batch : net->batch;
    return bench_open_net(work, net->function, LS_SHAPE(batch, net->size, net->size, net->channels),
                          CLASSES);
}

static ls_status take_step(bench *b, ls_optimizer *opt)
{
    double loss;
    LS_TRY(ls_net_step(b->work.net, opt, &b->work.batch, 0.01));
    return ls_net_loss(b->work.net, &loss);
}

static ls_status time_steps(const options *o, bench *b)
{
    for (int64_t i = 0; i < o->warmup; i++) LS_TRY(take_step(b, b->work.opt));
    for (int64_t i = 0; i < b->n_steps; i++) {
        const double start = bench_now();
        LS_TRY(take_step(b, b->work.opt));
        b->seconds[i] = bench_now() - start;
    }
    bench_sort(b->seconds, b->n_steps);
    return LS_OK;
}

static ls_status profile_steps(bench *b)
{
    ls__net_profile(b->work.net);
    const double start = bench_now();
    for (int64_t i = 0; i < b->n_steps; i++) LS_TRY(take_step(b, NULL));
    b->step_plain = (bench_now() - start) / (double)b->n_steps;
    b->n_lines = ls__net_profile_lines(b->work.net, NULL, 0);
    b->lines = calloc((size_t)b->n_lines + 1, sizeof *b->lines);
    if (!b->lines) return LS_ERR_MEMORY;
    ls__net_profile_lines(b->work.net, b->lines, b->n_lines);
    for (int i = 0; i < b->n_lines; i++) b->in_kernels += b->lines[i].seconds / (double)b->n_steps;
    return LS_OK;
}

/* ---- What is printed ---- */

static void print_ops(const bench *b)
{
    for (int i = 0; i < b->n_lines; i++) {
        const double seconds = b->lines[i].seconds / (double)b->n_steps;
        fprintf(stderr, "%-28s %-22s %-34s %9.4f ms %5.1f%%\n",
                b->lines[i].layer ? b->lines[i].layer : "", b->lines[i].op, b->lines[i].kernel,
                1e3 * seconds, 100 * seconds / b->step_plain);
    }
}

static void print_result(const bench *b, const small_net *net)
{
    const double median = bench_quantile(b->seconds, b->n_steps, 0.5);
    printf("{\"bench\": \"small\", \"model\": \"%s\", \"batch\": %lld, \"threads\": %d, "
           "\"steps\": %lld, \"step_ms_median\": %.4f, \"step_ms_min\": %.4f, "
           "\"images_per_second\": %.1f, \"ops\": %d, \"us_per_op\": %.3f, "
           "\"overhead_us_per_op\": %.3f, \"device\": \"%s\"}\n",
           net->name, (long long)b->work.batch.n, ls_context_thread_count(b->work.ctx),
           (long long)b->n_steps, 1e3 * median, 1e3 * b->seconds[0],
           (double)b->work.batch.n / median, b->n_lines, 1e6 * median / b->n_lines,
           1e6 * (b->step_plain - b->in_kernels) / b->n_lines, ls_context_device(b->work.ctx));
    fflush(stdout);
}

static ls_status run_net(const options *o, const small_net *net)
{
    bench b = { .n_steps = o->steps ? o->steps : net->steps };
    b.seconds = calloc((size_t)b.n_steps, sizeof *b.seconds);
    ls_status status = b.seconds ? open_bench(o, net, &b) : LS_ERR_MEMORY;
    if (status == LS_OK) status = time_steps(o, &b);
    if (status == LS_OK) status = profile_steps(&b);
    if (status == LS_OK && o->ops) print_ops(&b);
    if (status == LS_OK) print_result(&b, net);
    bench_report("bench_small", b.work.ctx);
    free(b.lines);
    free(b.seconds);
    ls_context_close(&b.work.ctx);
    return status;
}

int main(int argc, char **argv)
{
    options o = { .warmup = 3 };
    const bench_option table[] = {
        { "--model", BENCH_TEXT, &o.model, "mlp, lenet, resnet20 or chain alone" },
        { "--batch", BENCH_NUMBER, &o.batch, "images; without it each net's own" },
        { "--threads", BENCH_COUNT, &o.threads, "without it, or 0, all" },
        { "--steps", BENCH_NUMBER, &o.steps, "to time; without it each net's own" },
        { "--warmup", BENCH_COUNT, &o.warmup, "steps before" },
        { "--native", BENCH_FLAG, &o.native, "native arithmetic: oneDNN's kernels in bf16" },
        { "--benchmark", BENCH_FLAG, &o.tune, "choose kernels by timing them" },
        { "--ops", BENCH_FLAG, &o.ops, "a table of where the time goes, on stderr" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    int n_run = 0;
    for (int i = 0; i < N_NETS; i++) {
        if (o.model && strcmp(o.model, nets[i].name) != 0) continue;
        if (run_net(&o, &nets[i]) != LS_OK) return EXIT_FAILURE;
        n_run++;
    }
    if (n_run > 0) return EXIT_SUCCESS;
    fprintf(stderr, "bench_small: unknown model '%s'\n", o.model);
    return 2;
}
