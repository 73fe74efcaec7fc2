/* bench_step.c: times training steps (forward, backward, update) of a bundled model on one random
 * batch, and prints one JSON line:
 *
 *   bench_step --model resnet18 --image-size 32 --batch 128 --precision f32 --threads 2 --steps 10
 *
 * images_per_second is that of the median step. overhead_share is what a step without its update
 * spends outside of kernels, the copy of the batch included, as a share of that step. --ops adds a
 * table of where the time goes. */
#include "nn/net.h"
#include <getopt.h>
#include <lockstep/lockstep.h>
#include <lockstep/models.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct options {
    const ls_model *model;
    int64_t image_size, batch, classes;
    int threads, steps, warmup;
    bool ops, tune;
} options;

typedef struct bench {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_batch batch;
    double *seconds;               /* of each step, sorted */
    double step_plain, in_kernels; /* seconds per step, of the profiled steps without update */
    ls__profile_line *lines;
    int n_lines, profiled;
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int usage(const char *why, const char *what)
{
    fprintf(stderr,
            "bench_step: %s '%s'\nusage: bench_step [--model NAME] [--image-size S] [--batch N] "
            "[--classes K]\n                  [--precision f32] [--threads T] [--steps N] "
            "[--warmup N] [--benchmark] [--ops]\n",
            why, what);
    return 2;
}

static int parse(int argc, char **argv, options *o)
{
    enum { MODEL, SIZE, BATCH, CLASSES, PRECISION, THREADS, STEPS, WARMUP, TUNE, OPS };
    static const struct option table[] = {
        { "model", required_argument, NULL, MODEL },
        { "image-size", required_argument, NULL, SIZE },
        { "batch", required_argument, NULL, BATCH },
        { "classes", required_argument, NULL, CLASSES },
        { "precision", required_argument, NULL, PRECISION },
        { "threads", required_argument, NULL, THREADS },
        { "steps", required_argument, NULL, STEPS },
        { "warmup", required_argument, NULL, WARMUP },
        { "benchmark", no_argument, NULL, TUNE },
        { "ops", no_argument, NULL, OPS },
        { 0 },
    };
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        if (c == '?') return usage("unknown option, or one without its value,", argv[optind - 1]);
        if (c == TUNE || c == OPS) {
            *(c == TUNE ? &o->tune : &o->ops) = true;
            continue;
        }
        const long long n = atoll(optarg);
        switch (c) {
        case MODEL:
            o->model = ls_model_find(optarg);
            if (!o->model) return usage("unknown model", optarg);
            continue;
        case PRECISION:
            if (strcmp(optarg, "f32") != 0) return usage("unknown precision", optarg);
            continue;
        case SIZE: o->image_size = n; break;
        case BATCH: o->batch = n; break;
        case CLASSES: o->classes = n; break;
        case THREADS: o->threads = (int)n; break;
        case STEPS: o->steps = (int)n; break;
        default: o->warmup = (int)n; break;
        }
        if (n < 1 || n > 1000000) return usage("wanted a number of at least 1, got", optarg);
    }
    if (optind < argc) return usage("unexpected argument", argv[optind]);
    if (!o->classes) o->classes = o->image_size < 64 ? 10 : 1000;
    return 0;
}

/* Pictures of uniformly random bytes. */
static void fill_batch(ls_tensor *images, ls_tensor *labels, int64_t classes)
{
    uint8_t *pixels = ls_tensor_data(images);
    int32_t *label = ls_tensor_data(labels);
    uint32_t words[4];
    for (int64_t i = 0; pixels && i < ls_tensor_count(images); i++) {
        if (i % 16 == 0)
            ls_random_words(1, &(ls_draw){ LS_STREAM_USER, .sample = (uint64_t)(i / 16) }, words);
        pixels[i] = (uint8_t)(words[i % 16 / 4] >> (i % 4 * 8));
    }
    for (int64_t i = 0; label && i < ls_tensor_count(labels); i++)
        label[i] = (int32_t)(i % classes);
}

static ls_status open_bench(const options *o, bench *b)
{
    b->ctx = ls_context_open(&(ls_context_config){
        .threads = o->threads,
        .benchmark = o->tune ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
    });
    const ls_shape shape = LS_SHAPE(o->batch, o->image_size, o->image_size, 3);
    ls_tensor *images = ls_tensor_open(b->ctx, LS_U8, shape);
    ls_tensor *labels = ls_tensor_open(b->ctx, LS_I32, LS_SHAPE(o->batch));
    b->net =
        ls_net_build(b->ctx, o->model->function, &(ls_resnet_options){ .n_classes = o->classes },
                     &(ls_net_config){ .input = { .image = { LS_U8, shape },
                                                  .mean = { 0.485f, 0.456f, 0.406f },
                                                  .deviation = { 0.229f, 0.224f, 0.225f },
                                                  .n_classes = (int)o->classes },
                                       .loss = { LS_CROSS_ENTROPY } });
    b->opt = ls_sgd(b->net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 5e-4f });
    LS_TRY(ls_context_status(b->ctx));
    fill_batch(images, labels, o->classes);
    b->batch = (ls_batch){ .images = images, .labels = labels, .n = o->batch };
    return LS_OK;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ls_status time_steps(const options *o, bench *b)
{
    const double rate = 0.01;
    for (int i = 0; i < o->warmup; i++) LS_TRY(ls_net_step(b->net, b->opt, &b->batch, rate));
    for (int i = 0; i < o->steps; i++) {
        const double start = now();
        LS_TRY(ls_net_step(b->net, b->opt, &b->batch, rate));
        b->seconds[i] = now() - start;
    }
    qsort(b->seconds, (size_t)o->steps, sizeof *b->seconds, compare);
    return LS_OK;
}

static ls_status profile_steps(const options *o, bench *b)
{
    b->profiled = o->steps < 5 ? o->steps : 5;
    LS_TRY(ls__net_profile(b->net));
    const double start = now();
    for (int i = 0; i < b->profiled; i++) LS_TRY(ls_net_step(b->net, NULL, &b->batch, 0));
    b->step_plain = (now() - start) / b->profiled;
    b->n_lines = ls__net_profile_lines(b->net, NULL, 0);
    b->lines = calloc((size_t)b->n_lines + 1, sizeof *b->lines);
    if (!b->lines) return LS_ERR_MEMORY;
    ls__net_profile_lines(b->net, b->lines, b->n_lines);
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
    const int n = o->steps;
    const double median =
        n % 2 ? b->seconds[n / 2] : 0.5 * (b->seconds[n / 2 - 1] + b->seconds[n / 2]);
    printf("{\"bench\": \"step\", \"model\": \"%s\", \"image_size\": %lld, \"batch\": %lld, "
           "\"precision\": \"f32\", \"threads\": %d, \"steps\": %d, \"images_per_second\": %.2f, "
           "\"step_ms_median\": %.3f, \"step_ms_min\": %.3f, \"overhead_share\": %.5f, "
           "\"peak_bytes\": %zu, \"device\": \"%s\"}\n",
           o->model->name, (long long)o->image_size, (long long)o->batch,
           ls_context_threads(b->ctx), n, (double)o->batch / median, 1e3 * median,
           1e3 * b->seconds[0], 1 - b->in_kernels / b->step_plain,
           ls_context_memory(b->ctx).peak_bytes, ls_context_device(b->ctx));
}

int main(int argc, char **argv)
{
    options o = { ls_model_find("resnet18"), 32, 128, 0, 0, 10, 2, false, false };
    const int wrong = parse(argc, argv, &o);
    if (wrong) return wrong;

    bench b = { .seconds = calloc((size_t)o.steps, sizeof(double)) };
    ls_status status = b.seconds ? open_bench(&o, &b) : LS_ERR_MEMORY;
    if (status == LS_OK) status = time_steps(&o, &b);
    if (status == LS_OK) status = profile_steps(&o, &b);
    if (status == LS_OK) {
        if (o.ops) print_ops(&b);
        print_result(&o, &b);
    } else {
        const char *message = ls_context_message(b.ctx);
        fprintf(stderr, "bench_step: %s\n", *message ? message : ls_status_text(status));
    }
    free(b.lines);
    free(b.seconds);
    ls_context_close(&b.ctx);
    return status != LS_OK;
}
