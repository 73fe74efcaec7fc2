/* bench_sizes.c: the cost of `benchmark = on` with inputs of many sizes. Prints
 * one JSON object with two experiments:
 *
 *   train     200 random sizes between 16 and 64 px, batches of 2 to 8: training steps of resnet20
 *   forward   30 random sizes between 256 and 512 px, batches of 2: evaluation by resnet18
 *
 *   bench_sizes [--only NAME] [--device cuda] [--count N] [--repeats 3] [--threads T]
 *
 * A run opens a context, builds a net and takes one step per size; planning is a part of that. Runs
 * with benchmark = on and off take turns, step by step. `first` is a run without an algorithm
 * cache, `second` one with that of the first. `ratio` is the time with on divided by that with off,
 * the median of the repeats; `tuned` is the number of timed ops. `memory` is measured at the end of
 * a first run: cached plans, kernel selections and bytes, their maximum, and the bytes in the
 * middle and at the end, which show whether memory grows. */
#include "base/context.h"
#include "nn/net/net_state.h"
#include "support.h"
#include <lockstep/algorithm_cache.h>

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_REPEATS = 100, RUNS = 2 };

typedef struct experiment {
    const char *name, *model;
    int64_t count, min_size, max_size, min_batch, max_batch;
    bool forward;
    int64_t classes;
} experiment;

static const experiment experiments[] = {
    { "train", "resnet20", 200, 16, 64, 2, 8, false, 10 },
    { "forward", "resnet18", 30, 256, 512, 2, 2, true, 1000 },
};
enum { N_EXPERIMENTS = sizeof experiments / sizeof experiments[0] };

typedef struct options {
    const char *only, *device;
    int64_t count, repeats, threads;
} options;

/* ---- Host memory, counted ---- */

typedef struct counted {
    _Atomic int64_t bytes, peak_bytes;
} counted;

static void *count_allocate(void *user, size_t bytes, size_t alignment)
{
    counted *c = user;
    if (bytes > SIZE_MAX - alignment) return NULL;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!memory) return NULL;
    const int64_t size = (int64_t)malloc_usable_size(memory);
    const int64_t now = atomic_fetch_add(&c->bytes, size) + size;
    int64_t peak = atomic_load(&c->peak_bytes);
    while (now > peak && !atomic_compare_exchange_weak(&c->peak_bytes, &peak, now)) {
    }
    return memory;
}

static void count_release(void *user, void *memory)
{
    counted *c = user;
    atomic_fetch_sub(&c->bytes, (int64_t)malloc_usable_size(memory));
    free(memory);
}

/* Returns the resident bytes of the whole process, including its libraries. */
static int64_t resident_bytes(void)
{
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*s %lld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* ---- A run ---- */

typedef struct side {
    bench_work work;
    counted host;
    ls_allocator allocator;
    double seconds;
} side;

typedef struct memory {
    int64_t resident_middle, resident_end, host_middle, host_end, host_peak;
    size_t device_peak, arena;
    int programs, choices, table;
} memory;

typedef struct result {
    double ratios[RUNS][MAX_REPEATS], seconds[RUNS][2][MAX_REPEATS];
    int64_t tuned[RUNS];
    memory memory;
} result;

typedef struct draw {
    int64_t size, batch;
} draw;

static int64_t between(uint32_t word, int64_t low, int64_t high)
{
    return low + (int64_t)(((uint64_t)word * (uint64_t)(high - low + 1)) >> 32);
}

static draw draw_size(const experiment *e, int64_t i)
{
    uint32_t words[4];
    ls_random_words(3, &(ls_draw){ LS_RANDOM_USER, .sample = (uint64_t)i }, words);
    return (draw){ between(words[0], e->min_size, e->max_size),
                   between(words[1], e->min_batch, e->max_batch) };
}

static ls_status open_side(side *s, const experiment *e, const options *o, bool on,
                           const char *plan)
{
    s->allocator = (ls_allocator){ count_allocate, count_release, &s->host };
    const draw first = draw_size(e, 0);
    const double start = bench_now();
    s->work.inference = e->forward;
    s->work.ctx = ls_context_open(&(ls_context_config){
        .device = o->device,
        .threads = (int)o->threads,
        .arithmetic = LS_ARITHMETIC_NATIVE, /* of a CPU: it has kernels to time */
        .benchmark = on ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
        .allocator = &s->allocator,
    });
    if (plan) LS_TRY(ls_algorithm_cache_load(s->work.ctx, plan));
    LS_TRY(bench_open_work(&s->work, ls_model_find(e->model), first.batch, first.size, e->classes));
    s->seconds = bench_now() - start;
    return LS_OK;
}

static ls_status step(side *s, const experiment *e, const draw *d)
{
    ls_batch batch;
    LS_TRY(bench_open_batch(s->work.ctx, d->batch, d->size, e->classes, &batch));
    const double start = bench_now();
    LS_TRY(e->forward ? ls_net_evaluate(s->work.net, &batch)
                      : ls_net_step(s->work.net, s->work.opt, &batch, 0.01));
    s->seconds += bench_now() - start;
    ls_tensor *images = (ls_tensor *)batch.images, *labels = (ls_tensor *)batch.labels;
    ls_tensor_close(&images);
    ls_tensor_close(&labels);
    return LS_OK;
}

static void look_at_memory(const side *on, memory *m)
{
    const ls_net *net = on->work.net;
    m->resident_end = resident_bytes();
    m->host_end = on->host.bytes;
    m->host_peak = on->host.peak_bytes;
    m->device_peak = ls_context_memory(on->work.ctx).peak_bytes;
    m->arena = net->env.arena_bytes;
    m->programs = net->cache.n_programs;
    m->choices = net->selector.used->n;
    m->table = on->work.ctx->selections->n;
}

/* Runs both sides in turn. */
static ls_status run_sides(side sides[2], const experiment *e, const options *o, const char *plan,
                           memory *m)
{
    const int64_t count = o->count ? o->count : e->count;
    LS_TRY(open_side(&sides[0], e, o, false, NULL));
    LS_TRY(open_side(&sides[1], e, o, true, plan));
    for (int64_t i = 0; i < count; i++) {
        const draw d = draw_size(e, i);
        for (int64_t j = i; j < i + 2; j++) LS_TRY(step(&sides[j % 2], e, &d));
        if (i != count / 2) continue;
        m->resident_middle = resident_bytes();
        m->host_middle = sides[1].host.bytes;
    }
    look_at_memory(&sides[1], m);
    return LS_OK;
}

static ls_status run(const experiment *e, const options *o, const char *plan, int run, int repeat,
                     result *r)
{
    side sides[2] = { 0 };
    memory m;
    ls_status status = run_sides(sides, e, o, run ? plan : NULL, &m);
    if (status == LS_OK && run == 0) status = ls_algorithm_cache_save(sides[1].work.ctx, plan);
    r->tuned[run] = ls_algorithm_cache_timed_count(sides[1].work.ctx);
    r->ratios[run][repeat] = sides[1].seconds / sides[0].seconds;
    if (run == 0) r->memory = m;
    for (int i = 0; i < 2; i++) {
        r->seconds[run][i][repeat] = sides[i].seconds;
        bench_report("bench_sizes", sides[i].work.ctx);
        ls_context_close(&sides[i].work.ctx);
    }
    return status;
}

/* ---- Printing ---- */

static void print_run(const char *name, const result *r, int run, int64_t n)
{
    double sorted[3][MAX_REPEATS];
    const double *const values[3] = { r->ratios[run], r->seconds[run][0], r->seconds[run][1] };
    for (int i = 0; i < 3; i++) {
        memcpy(sorted[i], values[i], (size_t)n * sizeof(double));
        bench_sort(sorted[i], n);
    }
    printf("   \"%s\": {\"ratio\": %.4f, \"ratios\": [%.4f, %.4f], \"off_seconds\": %.3f, "
           "\"on_seconds\": %.3f, \"tuned\": %lld},\n",
           name, bench_quantile(sorted[0], n, 0.5), sorted[0][0], sorted[0][n - 1],
           bench_quantile(sorted[1], n, 0.5), bench_quantile(sorted[2], n, 0.5),
           (long long)r->tuned[run]);
}

static void print_memory(const memory *m)
{
    printf("   \"memory\": {\"programs\": %d, \"choices\": %d, \"table\": %d, \"arena_bytes\": "
           "%zu, \"device_peak_bytes\": %zu, \"host_peak_bytes\": %lld, \"host_bytes\": [%lld, "
           "%lld], \"resident_bytes\": [%lld, %lld]}}",
           m->programs, m->choices, m->table, m->arena, m->device_peak, (long long)m->host_peak,
           (long long)m->host_middle, (long long)m->host_end, (long long)m->resident_middle,
           (long long)m->resident_end);
}

static ls_status experiment_run(const experiment *e, const options *o, const char *plan)
{
    static const char *const names[RUNS] = { "first", "second" };
    static result r;
    for (int repeat = 0; repeat < (int)o->repeats; repeat++)
        for (int i = 0; i < RUNS; i++) LS_TRY(run(e, o, plan, i, repeat, &r));
    printf("  {\"name\": \"%s\", \"model\": \"%s\", \"sizes\": %lld, \"px\": [%lld, %lld], "
           "\"batch\": [%lld, %lld], \"goal\": 1.05,\n",
           e->name, e->model, (long long)(o->count ? o->count : e->count), (long long)e->min_size,
           (long long)e->max_size, (long long)e->min_batch, (long long)e->max_batch);
    for (int i = 0; i < RUNS; i++) print_run(names[i], &r, i, o->repeats);
    print_memory(&r.memory);
    return LS_OK;
}

static ls_status run_all(const options *o, const char *plan)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){
        .device = o->device, .arithmetic = LS_ARITHMETIC_NATIVE, .threads = (int)o->threads });
    const ls_status status = ls_context_status(ctx);
    if (status == LS_OK)
        printf("{\"bench\": \"sizes\", \"repeats\": %lld, \"device\": \"%s\",\n \"experiments\": "
               "[\n",
               (long long)o->repeats, ls_context_device(ctx));
    else
        bench_report("bench_sizes", ctx);
    ls_context_close(&ctx);
    if (status != LS_OK) return status;
    bool first = true;
    for (int i = 0; i < N_EXPERIMENTS; i++) {
        if (o->only && strcmp(o->only, experiments[i].name) != 0) continue;
        if (!first) printf(",\n");
        first = false;
        LS_TRY(experiment_run(&experiments[i], o, plan));
    }
    printf("]}\n");
    return LS_OK;
}

int main(int argc, char **argv)
{
    options o = { .repeats = 3 };
    const bench_option table[] = {
        { "--only", BENCH_TEXT, &o.only, "the experiment of this name alone" },
        { "--device", BENCH_TEXT, &o.device, "such as cuda; without it the CPU" },
        { "--count", BENCH_NUMBER, &o.count, "sizes; without it those of the experiment" },
        { "--repeats", BENCH_NUMBER, &o.repeats, "pairs of runs" },
        { "--threads", BENCH_COUNT, &o.threads, "of the CPU; without it, or 0, all" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    if (o.repeats > MAX_REPEATS) o.repeats = MAX_REPEATS;
    char plan[] = "/tmp/bench_sizes.XXXXXX";
    const int file = mkstemp(plan);
    if (file < 0) {
        fprintf(stderr, "bench_sizes: cannot make %s\n", plan);
        return EXIT_FAILURE;
    }
    close(file);
    const ls_status status = run_all(&o, plan);
    unlink(plan);
    return status == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
