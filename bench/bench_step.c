/* bench_step.c: times training steps (forward, backward, update) of a bundled model on one random
 * batch, and prints one JSON line:
 *
 *   bench_step --model resnet18 --image-size 32 --batch 128 --precision f32 --threads 2 --steps 10
 *   bench_step --device cuda --precision tf32 --model resnet50 --image-size 224
 *
 * images_per_second is that of the median step. overhead_share is what a step without its update
 * spends outside of kernels, the copy of the batch included, as a share of that step. --ops adds a
 * table of where the time goes. */
#include "nn/net.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY_STEPS = 1000000 }; /* so that --benchmark times all */

typedef struct options {
    const ls_model *model;
    int64_t image_size, batch, classes, threads, steps, warmup;
    bool ops, tune;
    const char *device, *precision;
} options;

typedef struct bench {
    bench_work work;
    double *seconds;               /* of each step, sorted */
    double step_plain, in_kernels; /* seconds per step, of the profiled steps without update */
    ls__profile_line *lines;
    int n_lines, profiled;
} bench;

static ls_status open_bench(const options *o, bench *b)
{
    b->work.ctx = ls_context_open(&(ls_context_config){
        .device = o->device,
        .threads = (int)o->threads,
        .benchmark = o->tune ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
    });
    b->work.steps = MANY_STEPS;
    b->work.precision = strcmp(o->precision, "tf32") == 0 ? LS_PRECISION_TF32 : LS_PRECISION_F32;
    return bench_open_work(&b->work, o->model, o->batch, o->image_size, o->classes);
}

/* A step, until the device has done it. */
static ls_status take_step(bench *b, ls_optimizer *opt, double rate)
{
    double loss;
    LS_TRY(ls_net_step(b->work.net, opt, &b->work.batch, rate));
    return ls_net_loss(b->work.net, &loss);
}

static ls_status time_steps(const options *o, bench *b)
{
    const double rate = 0.01;
    for (int i = 0; i < o->warmup; i++) LS_TRY(take_step(b, b->work.opt, rate));
    for (int i = 0; i < o->steps; i++) {
        const double start = bench_now();
        LS_TRY(take_step(b, b->work.opt, rate));
        b->seconds[i] = bench_now() - start;
    }
    bench_sort(b->seconds, o->steps);
    return LS_OK;
}

static ls_status profile_steps(const options *o, bench *b)
{
    b->profiled = o->steps < 5 ? (int)o->steps : 5;
    LS_TRY(ls__net_profile(b->work.net));
    const double start = bench_now();
    for (int i = 0; i < b->profiled; i++) LS_TRY(take_step(b, NULL, 0));
    b->step_plain = (bench_now() - start) / b->profiled;
    b->n_lines = ls__net_profile_lines(b->work.net, NULL, 0);
    b->lines = calloc((size_t)b->n_lines + 1, sizeof *b->lines);
    if (!b->lines) return LS_ERR_MEMORY;
    ls__net_profile_lines(b->work.net, b->lines, b->n_lines);
    for (int i = 0; i < b->n_lines; i++) b->in_kernels += b->lines[i].seconds / b->profiled;
    return LS_OK;
}

static void print_ops(const bench *b)
{
    fprintf(stderr, "%-28s %-22s %-34s %9s %6s\n", "layer", "op", "kernel", "ms", "share");
    for (int i = 0; i < b->n_lines; i++) {
        const ls__profile_line *line = &b->lines[i];
        const double seconds = line->seconds / b->profiled;
        fprintf(stderr, "%-28s %-22s %-34s %9.3f %5.1f%%\n", line->layer ? line->layer : "",
                line->op, line->kernel, 1e3 * seconds, 100 * seconds / b->step_plain);
    }
}

static void print_result(const options *o, const bench *b)
{
    const double median = bench_quantile(b->seconds, o->steps, 0.5);
    printf("{\"bench\": \"step\", \"model\": \"%s\", \"image_size\": %lld, \"batch\": %lld, "
           "\"precision\": \"%s\", \"threads\": %d, \"steps\": %lld, \"images_per_second\": %.2f, "
           "\"step_ms_median\": %.3f, \"step_ms_min\": %.3f, \"overhead_share\": %.5f, "
           "\"peak_bytes\": %zu, \"device\": \"%s\"}\n",
           o->model->name, (long long)o->image_size, (long long)o->batch, o->precision,
           ls_context_threads(b->work.ctx), (long long)o->steps, (double)o->batch / median,
           1e3 * median, 1e3 * b->seconds[0], 1 - b->in_kernels / b->step_plain,
           ls_context_memory(b->work.ctx).peak_bytes, ls_context_device(b->work.ctx));
}

int main(int argc, char **argv)
{
    options o = { ls_model_find("resnet18"), 32, 128, 0, 0, 10, 2, false, false, "cpu", "f32" };
    const bench_option table[] = {
        { "--model", BENCH_MODEL, &o.model },
        { "--image-size", BENCH_NUMBER, &o.image_size },
        { "--batch", BENCH_NUMBER, &o.batch },
        { "--classes", BENCH_NUMBER, &o.classes },
        { "--precision", BENCH_TEXT, &o.precision },
        { "--device", BENCH_TEXT, &o.device },
        { "--threads", BENCH_NUMBER, &o.threads },
        { "--steps", BENCH_NUMBER, &o.steps },
        { "--warmup", BENCH_NUMBER, &o.warmup },
        { "--benchmark", BENCH_FLAG, &o.tune },
        { "--ops", BENCH_FLAG, &o.ops },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    if (strcmp(o.precision, "f32") != 0 && strcmp(o.precision, "tf32") != 0) {
        fprintf(stderr, "bench_step: unknown precision '%s'\n", o.precision);
        return 2;
    }
    if (!o.classes) o.classes = o.image_size < 64 ? 10 : 1000;

    bench b = { .seconds = calloc((size_t)o.steps, sizeof(double)) };
    ls_status status = b.seconds ? open_bench(&o, &b) : LS_ERR_MEMORY;
    if (status == LS_OK) status = time_steps(&o, &b);
    if (status == LS_OK) status = profile_steps(&o, &b);
    if (status == LS_OK && o.ops) print_ops(&b);
    if (status == LS_OK) print_result(&o, &b);
    bench_report("bench_step", b.work.ctx);
    free(b.lines);
    free(b.seconds);
    ls_context_close(&b.work.ctx);
    return status == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
