/* bench_step.c: times training steps (forward, backward, update) of a bundled model, and prints one
 * JSON line:
 *
 *   bench_step --model resnet18 --image-size 32 --batch 128 --precision f32 --threads 2 --steps 10
 *   bench_step --device cuda --precision tf32 --model resnet50 --image-size 224
 *   bench_step --data-dir FOLDER --workers 4 --steps 100    images as in training
 *
 * The batch is random and the same in each step, or with --data-dir the loader's next one.
 *
 *   step_ms_median       of steps that are waited for, one after the other
 *   images_per_second    of the median step
 *   throughput           images per second without a wait between the steps, as in training
 *   cpu_us_per_step      processor time of the calling thread in those steps
 *   first_step_seconds   from the program's start to the end of the first step; an algorithm cache
 *                        (--algorithm-cache: read if it exists, then written) reduces it
 *   captured             whether those steps were replayed from a captured graph
 *   overhead_share       the share of a step without its update that is spent outside of kernels,
 *                        including the copy of the batch
 *   arena_bytes          activations, their gradients and workspaces
 *   unshared_bytes       the arena if no two values shared memory
 *   scratch_bytes        of the threads
 *   gradient_bytes       of the parameters, and of the sums over shards
 *   optimizer_bytes      the momentum
 *   peak_bytes           of all device memory
 *   peak_rss_bytes       of the process
 *
 * --recompute none keeps all values that backward reads (see ls_recompute). --ops adds a table of
 * where the time goes, on stderr: for each op GFLOP/s and GB/s as ls__op_flops and ls__op_bytes
 * count (nominal products, each operand once), and limit, the share of what the machine's measured
 * multiply-adds and memory would allow (limits.h; on the CPU), or "cache" where operands came
 * faster than memory gives them. Winograd does fewer products than are counted: it may exceed 100
 * %. */
#include "limits.h"
#include "nn/net/net.h"
#include "support.h"
#include <lockstep/algorithm_cache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MANY_STEPS = 1000000 }; /* so that --benchmark times all */

typedef struct options {
    const ls_model *model;
    int64_t image_size, batch, shards, classes, threads, steps, warmup, workers;
    bool ops, tune, native, sync_batch_norm;
    const char *device, *precision, *deterministic, *recompute, *algorithm_cache, *data_dir;
} options;

typedef struct bench {
    bench_work work;
    ls_loader *loader; /* NULL: work.batch again and again */
    int64_t epoch;
    double start;                   /* the program's */
    double first;                   /* seconds to the first step's end */
    double *seconds;                /* of each step, sorted */
    double throughput, cpu_seconds; /* of the steps that run on */
    bool captured;                  /* and they were replayed from a graph */
    double step_plain, in_kernels;  /* seconds per step, of the profiled steps without update */
    ls__profile_line *lines;
    int n_lines, profiled;
    bench_limits limits; /* zeros: none measured */
} bench;

typedef struct named {
    const char *name;
    int value;
} named;

static const named precisions[] = { { "f32", LS_PRECISION_F32 },
                                    { "tf32", LS_PRECISION_TF32 },
                                    { "bf16", LS_PRECISION_BF16 },
                                    { "f16", LS_PRECISION_F16 } };
static const named recomputes[] = { { "auto", LS_RECOMPUTE_AUTO },
                                    { "none", LS_RECOMPUTE_NONE },
                                    { "cheap", LS_RECOMPUTE_CHEAP } };
static const named policies[] = { { "strict", LS_DETERMINISTIC_STRICT },
                                  { "warn", LS_DETERMINISTIC_WARN },
                                  { "off", LS_DETERMINISTIC_OFF } };
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* The value of a name. If there is none, prints a line on stderr and returns -1. */
static int find(const named *all, int n, const char *what, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0) return all[i].value;
    fprintf(stderr, "bench_step: unknown %s '%s'\n", what, name);
    return -1;
}

static ls_status open_data(const options *o, bench *b, int64_t *classes)
{
    if (!o->data_dir) return LS_OK;
    ls_dataset *data = ls_image_folder_open(b->work.ctx, o->data_dir);
    b->loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = o->batch,
                                                          .workers = (int)o->workers,
                                                          .shuffle = true,
                                                          .drop_last = true,
                                                          .crop = o->image_size,
                                                          .random_resized_crop = true,
                                                          .flip_probability = 0.5f });
    LS_TRY(ls_context_status(b->work.ctx));
    *classes = ls_dataset_class_count(data);
    return ls_loader_start(b->loader, 0);
}

static ls_status open_bench(const options *o, bench *b, ls_deterministic policy)
{
    int64_t classes = o->classes;
    b->work.ctx = ls_context_open(&(ls_context_config){
        .device = o->device,
        .shards = (int)o->shards,
        .sync_batch_norm = o->sync_batch_norm,
        .threads = (int)o->threads,
        .deterministic = policy,
        .arithmetic = o->native ? LS_ARITHMETIC_NATIVE : LS_ARITHMETIC_PORTABLE,
        .benchmark = o->tune ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
    });
    b->work.steps = MANY_STEPS;
    if (o->algorithm_cache && access(o->algorithm_cache, F_OK) == 0)
        LS_TRY(ls_algorithm_cache_load(b->work.ctx, o->algorithm_cache));
    LS_TRY(open_data(o, b, &classes));
    return bench_open_work(&b->work, o->model, o->batch, o->image_size, classes);
}

static ls_status next_batch(bench *b, ls_batch *out)
{
    *out = b->work.batch;
    if (!b->loader || ls_loader_next(b->loader, out)) return LS_OK;
    LS_TRY(ls_loader_status(b->loader));
    LS_TRY(ls_loader_start(b->loader, ++b->epoch));
    return ls_loader_next(b->loader, out) ? LS_OK : LS_ERR_INVALID; /* fewer than a batch */
}

static ls_status queue_step(bench *b, ls_optimizer *opt)
{
    ls_batch batch;
    LS_TRY(next_batch(b, &batch));
    return ls_net_step(b->work.net, opt, &batch, 0.01);
}

/* A step, including the wait for the device. */
static ls_status take_step(bench *b, ls_optimizer *opt)
{
    double loss;
    LS_TRY(queue_step(b, opt));
    return ls_net_loss(b->work.net, &loss);
}

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ls_status time_steps(const options *o, bench *b)
{
    double loss;
    LS_TRY(take_step(b, b->work.opt));
    b->first = bench_now() - b->start;
    if (o->algorithm_cache) LS_TRY(ls_algorithm_cache_save(b->work.ctx, o->algorithm_cache));
    for (int i = 1; i < o->warmup; i++) LS_TRY(take_step(b, b->work.opt));
    for (int i = 0; i < o->steps; i++) {
        const double start = bench_now();
        LS_TRY(take_step(b, b->work.opt));
        b->seconds[i] = bench_now() - start;
    }
    bench_sort(b->seconds, o->steps);

    const double start = bench_now(), cpu = thread_seconds();
    for (int i = 0; i < o->steps; i++) LS_TRY(queue_step(b, b->work.opt));
    b->cpu_seconds = thread_seconds() - cpu;
    LS_TRY(ls_net_loss(b->work.net, &loss));
    b->captured = ls__net_is_captured(b->work.net);
    b->throughput = (double)(o->steps * o->batch) / (bench_now() - start);
    return LS_OK;
}

static ls_status profile_steps(const options *o, bench *b)
{
    b->profiled = o->steps < 5 ? (int)o->steps : 5;
    ls__net_profile(b->work.net);
    const double start = bench_now();
    for (int i = 0; i < b->profiled; i++) LS_TRY(take_step(b, NULL));
    b->step_plain = (bench_now() - start) / b->profiled;
    b->n_lines = ls__net_profile_lines(b->work.net, NULL, 0);
    b->lines = calloc((size_t)b->n_lines + 1, sizeof *b->lines);
    if (!b->lines) return LS_ERR_MEMORY;
    ls__net_profile_lines(b->work.net, b->lines, b->n_lines);
    for (int i = 0; i < b->n_lines; i++) b->in_kernels += b->lines[i].seconds / b->profiled;
    return LS_OK;
}

static ls_status print_ops(const options *o, bench *b)
{
    const bool cpu = strcmp(o->device, "cpu") == 0;
    const int threads = ls_context_thread_count(b->work.ctx);
    if (cpu) LS_TRY(bench_measure_limits(b->work.ctx, threads, &b->limits));
    fprintf(stderr, "%-28s %-23s %-34s %9s %6s %8s %7s %6s\n", "layer", "op", "kernel", "ms",
            "share", "GFLOP/s", "GB/s", "limit");
    for (int i = 0; i < b->n_lines; i++) {
        const ls__profile_line *line = &b->lines[i];
        const double seconds = line->seconds / b->profiled;
        fprintf(stderr, "%-28s %-23s %-34s %9.3f %5.1f%% %8.1f %7.2f",
                line->layer ? line->layer : "", line->op, line->kernel, 1e3 * seconds,
                100 * seconds / b->step_plain, 1e-9 * line->flops / seconds,
                1e-9 * line->bytes / seconds);
        char limit[16] = "";
        if (cpu)
            bench_limit_text(&b->limits, line->flops, line->bytes, seconds, limit, sizeof limit);
        fprintf(stderr, " %6s\n", limit);
    }
    if (cpu)
        fprintf(stderr, "limits, measured, %d thread%s: %.1f GFLOP/s, %.2f GB/s\n", threads,
                threads == 1 ? "" : "s", 1e-9 * b->limits.flops_per_second,
                1e-9 * b->limits.bytes_per_second);
    return LS_OK;
}

static size_t peak_rss_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}

static void print_result(const options *o, const bench *b)
{
    const double median = bench_quantile(b->seconds, o->steps, 0.5);
    const ls_net_memory memory = ls_net_memory_usage(b->work.net);
    printf(
        "{\"bench\": \"step\", \"model\": \"%s\", \"image_size\": %lld, \"batch\": %lld, "
        "\"shards\": %lld, \"precision\": \"%s\", \"deterministic\": \"%s\", \"benchmark\": %s, "
        "\"data\": \"%s\", "
        "\"workers\": %lld, \"captured\": %s, \"threads\": %d, \"steps\": %lld, "
        "\"images_per_second\": %.2f, "
        "\"step_ms_median\": %.3f, \"step_ms_min\": %.3f, \"throughput\": %.2f, "
        "\"cpu_us_per_step\": %.1f, \"first_step_seconds\": %.3f, \"timed\": %lld, "
        "\"overhead_share\": %.5f, \"recompute\": \"%s\", \"arena_bytes\": %zu, "
        "\"unshared_bytes\": %zu, \"scratch_bytes\": %zu, \"gradient_bytes\": %zu, "
        "\"parameter_bytes\": %zu, \"optimizer_bytes\": %zu, \"peak_bytes\": %zu, "
        "\"peak_rss_bytes\": %zu, \"device\": \"%s\"}\n",
        o->model->name, (long long)o->image_size, (long long)o->batch, (long long)o->shards,
        o->precision, o->deterministic, o->tune ? "true" : "false",
        o->data_dir ? "folder" : "random", (long long)o->workers, b->captured ? "true" : "false",
        ls_context_thread_count(b->work.ctx), (long long)o->steps, (double)o->batch / median,
        1e3 * median, 1e3 * b->seconds[0], b->throughput, 1e6 * b->cpu_seconds / (double)o->steps,
        b->first, (long long)ls_algorithm_cache_timed_count(b->work.ctx),
        1 - b->in_kernels / b->step_plain, o->recompute, memory.arena_bytes, memory.unshared_bytes,
        memory.scratch_bytes, memory.gradient_bytes, memory.parameter_bytes,
        (size_t)ls_net_parameter_element_count(b->work.net) * sizeof(float),
        ls_context_memory(b->work.ctx).peak_bytes, peak_rss_bytes(),
        ls_context_device(b->work.ctx));
}

int main(int argc, char **argv)
{
    const double start = bench_now();
    options o = { .model = ls_model_find("resnet18"),
                  .image_size = 32,
                  .batch = 128,
                  .shards = 1,
                  .steps = 10,
                  .warmup = 2,
                  .device = "cpu",
                  .precision = "f32",
                  .deterministic = "strict",
                  .recompute = "auto" };
    const bench_option table[] = {
        { "--model", BENCH_MODEL, &o.model, "a bundled model" },
        { "--image-size", BENCH_NUMBER, &o.image_size, "pixels of a side" },
        { "--batch", BENCH_NUMBER, &o.batch, "images" },
        { "--shards", BENCH_NUMBER, &o.shards, "parts of the batch" },
        { "--sync-batch-norm", BENCH_FLAG, &o.sync_batch_norm,
          "batch norms use the statistics of the whole batch" },
        { "--classes", BENCH_NUMBER, &o.classes, "without it 10 below 64 pixels, else 1000" },
        { "--data-dir", BENCH_TEXT, &o.data_dir,
          "folder of images, or a pack; without it one random batch" },
        { "--workers", BENCH_COUNT, &o.workers,
          "threads that read images; 0 = the calling thread" },
        { "--precision", BENCH_TEXT, &o.precision, "f32, tf32, bf16 or f16" },
        { "--deterministic", BENCH_TEXT, &o.deterministic, "strict, warn or off" },
        { "--recompute", BENCH_TEXT, &o.recompute, "auto, none or cheap" },
        { "--device", BENCH_TEXT, &o.device, "device: cpu, cuda, cuda:1, ..." },
        { "--threads", BENCH_COUNT, &o.threads, "CPU threads; 0 = all processors" },
        { "--steps", BENCH_NUMBER, &o.steps, "timed steps" },
        { "--warmup", BENCH_COUNT, &o.warmup,
          "untimed steps before; the first is reported separately" },
        { "--native", BENCH_FLAG, &o.native, "native arithmetic: oneDNN's kernels in bf16" },
        { "--benchmark", BENCH_FLAG, &o.tune, "select kernels by timing them" },
        { "--algorithm-cache", BENCH_TEXT, &o.algorithm_cache,
          "algorithm cache: read if it exists, then written" },
        { "--ops", BENCH_FLAG, &o.ops, "print a table of the time by op on stderr" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    const int precision = find(precisions, COUNT(precisions), "precision", o.precision);
    const int policy = find(policies, COUNT(policies), "policy", o.deterministic);
    const int recompute = find(recomputes, COUNT(recomputes), "recomputation", o.recompute);
    if (precision < 0 || policy < 0 || recompute < 0) return 2;
    if (!o.classes) o.classes = o.image_size < 64 ? 10 : 1000;

    bench b = { .start = start, .seconds = calloc((size_t)o.steps, sizeof(double)) };
    ls_status status = LS_ERR_MEMORY;
    b.work.precision = (ls_precision)precision;
    b.work.recompute = (ls_recompute)recompute;
    if (b.seconds) status = open_bench(&o, &b, (ls_deterministic)policy);
    if (status == LS_OK) status = time_steps(&o, &b);
    if (status == LS_OK) status = profile_steps(&o, &b);
    if (status == LS_OK && o.ops) status = print_ops(&o, &b);
    if (status == LS_OK) print_result(&o, &b);
    bench_report("bench_step", b.work.ctx);
    free(b.lines);
    free(b.seconds);
    ls_context_close(&b.work.ctx);
    return status == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
