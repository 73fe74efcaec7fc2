/* bench_determinism.c: the cost of results that do not depend on the number of threads, and the
 * cost of `deterministic = strict`, measured in whole training steps. Prints one JSON object:
 *
 *   bench_determinism [--model resnet18] [--image-size 32] [--batch 128] [--threads T]
 *                     [--repeats 15] [--only NAME]
 *
 * Each comparison has two sides, whose steps take turns; which comes first changes from round to
 * round. `ratio` is the ratio of the medians of both sides' steps: above 1 is the cost of
 * determinism. `interval` is the 95 % bootstrap interval of the ratio, `quartiles` are those of the
 * rounds' ratios. The comparisons:
 *
 *   threads               strict, against the same kernels with oneDNN's own threading. Our own
 * kernels have no such variant: both sides run them (`kept`) threads_onednn        the same with
 * every convolution run by oneDNN, on both sides deterministic         strict against off
 *   deterministic_tuned   strict against off, both with benchmark = on
 *   nothing               strict against strict: the noise of the machine
 *
 * oneDNN's threads belong to OpenMP. By default they wait actively for some milliseconds after each
 * kernel, which slows down other threads. This program sets OMP_WAIT_POLICY to passive unless it is
 * set, which is faster for both sides.
 *
 * digest_share is the time of a step's digests as a share of a step. */
#include "nn/net/net_state.h"
#include "support.h"
#include <lockstep/run_log.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_REPEATS = 1000, RESAMPLES = 2000, WARMUP = 2 };
enum { MANY_STEPS = 1000000 }; /* so that benchmark = on times all */

typedef struct options {
    const ls_model *model;
    int64_t image_size, batch, threads, repeats;
    const char *only;
} options;

/* The kernels that a side requires for its convolutions. */
typedef enum force_kind {
    FORCE_NONE,
    FORCE_ONEDNN,         /* the cheapest of oneDNN's where another provider was chosen */
    FORCE_THREADED,       /* the threaded twins of oneDNN's kernels */
    FORCE_ONEDNN_THREADED /* both */
} force_kind;

typedef struct side_config {
    ls_deterministic deterministic;
    ls_benchmark benchmark;
    force_kind forcing;
} side_config;

typedef struct comparison {
    const char *name;
    double goal; /* 0 = none */
    side_config a, b;
} comparison;

static const comparison comparisons[] = {
    { "threads", 1.05, { 0 }, { LS_DETERMINISTIC_OFF, 0, FORCE_THREADED } },
    { "threads_onednn",
      1.05,
      { 0, 0, FORCE_ONEDNN },
      { LS_DETERMINISTIC_OFF, 0, FORCE_ONEDNN_THREADED } },
    { "deterministic", 1.03, { 0 }, { LS_DETERMINISTIC_OFF, 0, 0 } },
    { "deterministic_tuned",
      1.03,
      { 0, LS_BENCHMARK_ON, 0 },
      { LS_DETERMINISTIC_OFF, LS_BENCHMARK_ON, 0 } },
    { "nothing", 0, { 0 }, { 0 } },
};
enum { N_COMPARISONS = sizeof comparisons / sizeof comparisons[0] };

typedef struct side {
    bench_work work;
    int n_convolutions, n_twins, n_kept; /* twins: run by oneDNN's threads */
    double *seconds;                     /* of each round's step */
} side;

/* ---- Forcing ---- */

static bool is_convolution(const ls__instruction *in)
{
    return in->kernel &&
           (in->op.kind == LS__OP_CONV2D || in->op.kind == LS__OP_CONV2D_BACKWARD_DATA ||
            in->op.kind == LS__OP_CONV2D_BACKWARD_WEIGHTS);
}

static const char onednn[] = "onednn ", threaded[] = "onednn threaded ";

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static const ls__program *training_program(const ls_net *net)
{
    for (int i = 0; i < net->cache.n_programs; i++)
        if (net->cache.programs[i]->gradients) return net->cache.programs[i];
    return NULL;
}

/* The name of the side's kernel for an op whose heuristic selection is `chosen`. */
static void wanted_kernel(ls_context *ctx, const ls__op *op, force_kind forcing, const char *chosen,
                          char *wanted)
{
    ls__candidate all[LS__MAX_CANDIDATES];
    const int n = ctx->device->backend->candidates(ctx->device, op, all, LS__MAX_CANDIDATES);
    const bool oust = forcing == FORCE_ONEDNN || forcing == FORCE_ONEDNN_THREADED;
    snprintf(wanted, LS__KERNEL_NAME_SIZE, "%s", chosen);
    double cost = 0;
    for (int i = 0; i < n && oust && !begins(chosen, onednn); i++) {
        if (!begins(all[i].name, onednn) || begins(all[i].name, threaded)) continue;
        if (cost > 0 && all[i].cost_ms >= cost) continue;
        memcpy(wanted, all[i].name, LS__KERNEL_NAME_SIZE);
        cost = all[i].cost_ms;
    }
    if (forcing == FORCE_ONEDNN || !begins(wanted, onednn)) return;
    for (int i = 0; i < n; i++)
        if (begins(all[i].name, threaded) &&
            strcmp(all[i].name + strlen(threaded), wanted + strlen(onednn)) == 0)
            memcpy(wanted, all[i].name, LS__KERNEL_NAME_SIZE);
}

/* Adds the side's kernels for the net's ops to the context's algorithm cache. */
static ls_status force(ls_net *net, force_kind forcing)
{
    ls_context *ctx = ls_net_context(net);
    const ls__program *p = training_program(net);
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        char text[LS__OP_TEXT_SIZE];
        if (!is_convolution(in)) continue;
        ls__op_text(&in->op, text, sizeof text);
        ls__selection choice = { .op = text, .reason = "bench" };
        wanted_kernel(ctx, &in->op, forcing, in->kernel->name, choice.kernel);
        LS_TRY(ls__selections_put(ctx, ctx->selections, &choice));
    }
    return LS_OK;
}

/* ---- A side ---- */

static void count_kernels(side *s)
{
    const ls__program *p = training_program(s->work.net);
    for (int i = 0; i < p->n_instructions; i++) {
        if (!is_convolution(&p->instructions[i])) continue;
        const char *name = p->instructions[i].kernel->name;
        s->n_convolutions++;
        s->n_twins += begins(name, threaded);
        s->n_kept += !begins(name, onednn);
    }
}

static ls_status open_side(side *s, const options *o, const side_config *config)
{
    const int64_t classes = o->image_size < 64 ? 10 : 1000;
    s->seconds = calloc((size_t)o->repeats, sizeof *s->seconds);
    if (!s->seconds) return LS_ERR_MEMORY;
    s->work.ctx = ls_context_open(&(ls_context_config){ .threads = (int)o->threads,
                                                        .arithmetic = LS_ARITHMETIC_NATIVE,
                                                        .deterministic = config->deterministic,
                                                        .benchmark = config->benchmark });
    if (config->forcing != FORCE_NONE) { /* a net that shows the ops, and what the heuristic says */
        bench_work scout = { .ctx = s->work.ctx };
        LS_TRY(bench_open_work(&scout, o->model, o->batch, o->image_size, classes));
        LS_TRY(force(scout.net, config->forcing));
        ls_net_close(&scout.net);
    }
    s->work.steps = MANY_STEPS;
    LS_TRY(bench_open_work(&s->work, o->model, o->batch, o->image_size, classes));
    count_kernels(s);
    for (int i = 0; i < WARMUP; i++)
        LS_TRY(ls_net_step(s->work.net, s->work.opt, &s->work.batch, 0.01));
    return LS_OK;
}

static ls_status time_step(side *s, int64_t round)
{
    const double start = bench_now();
    LS_TRY(ls_net_step(s->work.net, s->work.opt, &s->work.batch, 0.01));
    s->seconds[round] = bench_now() - start;
    return LS_OK;
}

/* ---- Figures ---- */

static double median_of(const double *values, int64_t n)
{
    double sorted[MAX_REPEATS];
    memcpy(sorted, values, (size_t)n * sizeof *values);
    bench_sort(sorted, n);
    return bench_quantile(sorted, n, 0.5);
}

/* The 95 % bootstrap interval of the ratio of medians of n rounds. */
static void bootstrap(const side *a, const side *b, int64_t n, double interval[2])
{
    static double ratios[RESAMPLES];
    for (int r = 0; r < RESAMPLES; r++) {
        double x[MAX_REPEATS], y[MAX_REPEATS];
        for (int64_t i = 0; i < n; i++) {
            uint32_t words[4];
            ls_random_words(
                2, &(ls_draw){ LS_RANDOM_USER, .step = (uint64_t)r, .sample = (uint64_t)i }, words);
            const uint64_t pick = ls_random_below(words[0], words[1], (uint64_t)n);
            x[i] = a->seconds[pick];
            y[i] = b->seconds[pick];
        }
        ratios[r] = median_of(x, n) / median_of(y, n);
    }
    bench_sort(ratios, RESAMPLES);
    interval[0] = bench_quantile(ratios, RESAMPLES, 0.025);
    interval[1] = bench_quantile(ratios, RESAMPLES, 0.975);
}

static void print_comparison(const comparison *c, const options *o, const side *a, const side *b)
{
    const int64_t n = o->repeats;
    const double median_a = median_of(a->seconds, n), median_b = median_of(b->seconds, n);
    double interval[2], rounds[MAX_REPEATS];
    bootstrap(a, b, n, interval);
    for (int64_t i = 0; i < n; i++) rounds[i] = a->seconds[i] / b->seconds[i];
    bench_sort(rounds, n);
    printf("{\"name\": \"%s\", \"ratio\": %.4f, \"interval\": [%.4f, %.4f], "
           "\"quartiles\": [%.4f, %.4f, %.4f], ",
           c->name, median_a / median_b, interval[0], interval[1], bench_quantile(rounds, n, 0.25),
           bench_quantile(rounds, n, 0.5), bench_quantile(rounds, n, 0.75));
    if (c->goal > 0) printf("\"goal\": %.2f, ", c->goal);
    printf("\"step_ms\": [%.2f, %.2f], \"convolutions\": %d, \"twins\": %d, \"kept\": %d}",
           1e3 * median_a, 1e3 * median_b, b->n_convolutions, b->n_twins, b->n_kept);
    fflush(stdout);
}

/* ---- Running ---- */

static ls_status compare(const comparison *c, const options *o)
{
    side sides[2] = { 0 };
    ls_status status = open_side(&sides[0], o, &c->a);
    if (status == LS_OK) status = open_side(&sides[1], o, &c->b);
    for (int64_t i = 0; i < 2 * o->repeats && status == LS_OK; i++)
        status = time_step(&sides[(i + i / 2) % 2], i / 2); /* a b, b a, a b .. */
    if (status == LS_OK) print_comparison(c, o, &sides[0], &sides[1]);
    for (int i = 0; i < 2; i++) {
        bench_report("bench_determinism", sides[i].work.ctx);
        ls_context_close(&sides[i].work.ctx);
        free(sides[i].seconds);
    }
    return status;
}

/* Steps and digests in turn, as in a run with a run log. */
static ls_status measure_digests(const options *o, double *step, double *digests)
{
    double samples[MAX_REPEATS];
    side s = { 0 };
    ls_status status = open_side(&s, o, &comparisons[0].a);
    for (int64_t i = 0; i < o->repeats && status == LS_OK; i++) {
        ls_step_digest digest;
        status = time_step(&s, i);
        const double start = bench_now();
        if (status == LS_OK) status = ls_net_digest(s.work.net, &s.work.batch, &digest);
        samples[i] = bench_now() - start;
    }
    if (status == LS_OK) {
        *step = median_of(s.seconds, o->repeats);
        *digests = median_of(samples, o->repeats);
    }
    bench_report("bench_determinism", s.work.ctx);
    ls_context_close(&s.work.ctx);
    free(s.seconds);
    return status;
}

static ls_status run(const options *o)
{
    double step, digests;
    LS_TRY(measure_digests(o, &step, &digests));
    printf("{\"bench\": \"determinism\", \"model\": \"%s\", \"image_size\": %lld, \"batch\": %lld, "
           "\"repeats\": %lld, \"step_ms\": %.2f, \"digest_ms\": %.3f, \"digest_share\": %.5f,\n"
           " \"comparisons\": [",
           o->model->name, (long long)o->image_size, (long long)o->batch, (long long)o->repeats,
           1e3 * step, 1e3 * digests, digests / step);
    const char *separator = "\n  ";
    for (int i = 0; i < N_COMPARISONS; i++) {
        if (o->only && strcmp(o->only, comparisons[i].name) != 0) continue;
        printf("%s", separator);
        LS_TRY(compare(&comparisons[i], o));
        separator = ",\n  ";
    }
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .threads = (int)o->threads, .arithmetic = LS_ARITHMETIC_NATIVE });
    const char *policy = getenv("OMP_WAIT_POLICY");
    printf("],\n \"threads\": %d, \"omp_wait_policy\": \"%s\", \"device\": \"%s\"}\n",
           ls_context_thread_count(ctx), policy ? policy : "", ls_context_device(ctx));
    ls_context_close(&ctx);
    return LS_OK;
}

int main(int argc, char **argv)
{
    options o = { ls_model_find("resnet18"), 32, 128, 0, 15, NULL };
    const bench_option table[] = {
        { "--model", BENCH_MODEL, &o.model, "a bundled model" },
        { "--image-size", BENCH_NUMBER, &o.image_size, "pixels of a side" },
        { "--batch", BENCH_NUMBER, &o.batch, "images" },
        { "--threads", BENCH_COUNT, &o.threads, "of the CPU; without it, or 0, all" },
        { "--repeats", BENCH_NUMBER, &o.repeats, "rounds: pairs of steps" },
        { "--only", BENCH_TEXT, &o.only, "the comparison of this name alone" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    if (o.repeats > MAX_REPEATS) o.repeats = MAX_REPEATS;
    if (!getenv("OMP_WAIT_POLICY")) { /* OpenMP reads it when the program starts, so start again */
        setenv("OMP_WAIT_POLICY", "passive", 1);
        execv("/proc/self/exe", argv);
    }
    return run(&o) == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
