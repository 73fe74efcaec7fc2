/* bench_tasks.c: estimates the parallel efficiency of a training step with more threads than this
 * machine has. Measures each task of each op on one thread, assigns the tasks to T threads as the
 * pool does (in order, each to the thread that is free first), and prints JSON: one line per op
 * that the step has, then the step.
 *
 *   bench_tasks [--model resnet18] [--image-size 32] [--batch 128] [--repeats 3]
 *
 * `efficiency` is the time of one thread by T times that of T threads, for 2, 4, 8, 16, 32, 64
 * threads. Beside the tasks, each run of a list is charged HAND_OVER_US, each task TAKE_US, and
 * what a kernel does outside of its tasks is done by one thread. Not in the model: memory and
 * caches that threads share, processors whose clock falls when all are at work. `runs` are the op's
 * lists of tasks; `longest_ms` is its longest task: no number of threads takes less. */
#include "cpu/cpu.h"
#include "base/context.h"
#include "nn/compile/compile.h"
#include "nn/net/net_state.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int thread_counts[] = { 2, 4, 8, 16, 32, 64 };
enum { N_COUNTS = sizeof thread_counts / sizeof thread_counts[0], MAX_THREADS = 64 };
/* Time to wake threads that wait actively, and until the last one has finished; time of a contended
 * compare-and-swap. Measured with 2 threads: 0.9 and 0.02. */
static const double HAND_OVER_US = 5, TAKE_US = 0.1;

enum { MAX_TASKS = 1 << 16, MAX_OPS = 1024, MAX_RUNS = 16 };

typedef struct options {
    const ls_model *model;
    int64_t image_size, batch, repeats;
} options;

/* One op's lists: the times of all tasks, the lists end to end. */
typedef struct recording {
    int n_tasks, n_runs;
    int run_tasks[MAX_RUNS];
    double ms[MAX_TASKS];
} recording;

typedef struct measured {
    char *text;
    const char *kernel;
    int64_t count; /* equal ops of the step */
    int n_tasks, n_runs;
    double serial_ms, longest_ms, parallel_ms[N_COUNTS];
} measured;

typedef struct bench {
    ls_context *ctx;
    ls__threads *threads;
    void *buffers[LS__MAX_OPERANDS]; /* as large as any op's */
    size_t bytes[LS__MAX_OPERANDS];
    void *workspace;
    size_t workspace_bytes;
    recording now, best;
    measured ops[MAX_OPS];
    int n_ops;
} bench;

static void observe(void *user, int64_t n_tasks, double seconds)
{
    recording *r = user;
    if (n_tasks) r->run_tasks[r->n_runs++ % MAX_RUNS] = (int)n_tasks;
    r->ms[r->n_tasks++ % MAX_TASKS] = 1e3 * seconds;
}

/* ---- Measuring ---- */

static bool reserve(void **memory, size_t *have, size_t wanted)
{
    if (wanted <= *have) return true;
    free(*memory);
    *memory = aligned_alloc(64, (wanted + 63) / 64 * 64);
    *have = *memory ? wanted : 0;
    return *memory != NULL;
}

/* Values around zero; valid indices in a pooling window; valid labels. */
static void fill(void *memory, const ls__operand *operand)
{
    const int64_t n = ls_shape_element_count(&operand->shape);
    if (operand->dtype == LS_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)memory)[i] = (float)(i * 2654435761u % 1024) / 1024.0f - 0.45f;
    else
        memset(memory, operand->dtype == LS_U8 ? 4 : 0, (size_t)n * ls_dtype_bytes(operand->dtype));
}

static bool prepare(bench *b, const ls__instruction *in, void **buffers)
{
    for (int i = 0; i < in->op.n_operands; i++) {
        const ls__operand *operand = &in->op.operands[i];
        buffers[i] = NULL;
        if (operand->shape.n_dims < 0) continue;
        const size_t bytes =
            (size_t)ls_shape_element_count(&operand->shape) * ls_dtype_bytes(operand->dtype);
        if (!reserve(&b->buffers[i], &b->bytes[i], bytes)) return false;
        buffers[i] = b->buffers[i];
        fill(buffers[i], operand);
    }
    return reserve(&b->workspace, &b->workspace_bytes, in->kernel->workspace_bytes + 64);
}

/* The best run of several: each task's time, and what was spent outside of tasks. */
static ls_status measure(bench *b, const ls__instruction *in, int64_t repeats, double *outside_ms)
{
    const ls__step step = { .seed = 1, .lr = 0.01 };
    const ls__backend *backend = b->ctx->device->backend;
    void *buffers[LS__MAX_OPERANDS];
    double best = 0;
    if (!prepare(b, in, buffers)) return LS_ERR_MEMORY;
    backend->begin(b->ctx->device);
    ls__threads_observe(b->threads, observe, &b->now);
    ls_status status = LS_OK;
    for (int64_t r = 0; r <= repeats && status == LS_OK; r++) { /* the first warms up */
        b->now.n_tasks = b->now.n_runs = 0;
        const double start = bench_now();
        status = in->kernel->run(in->kernel, buffers, b->workspace, &step);
        const double ms = 1e3 * (bench_now() - start);
        if (r == 0 || (r > 1 && ms >= best)) continue;
        best = ms;
        b->best = b->now;
    }
    ls__threads_observe(b->threads, NULL, NULL);
    if (b->now.n_tasks > MAX_TASKS || b->now.n_runs > MAX_RUNS) status = LS_ERR_UNSUPPORTED;
    backend->end(b->ctx->device);
    if (status != LS_OK) return status;
    double tasks = 0;
    for (int i = 0; i < b->best.n_tasks; i++) tasks += b->best.ms[i];
    *outside_ms = best > tasks ? best - tasks : 0;
    return LS_OK;
}

/* ---- Dealing ---- */

/* Returns the time until the last thread is done with a list. */
static double deal(const double *ms, int n_tasks, int n_threads)
{
    double busy[MAX_THREADS] = { 0 }, end = 0;
    if (n_tasks <= 1) return n_tasks ? ms[0] : 0;
    for (int i = 0; i < n_tasks; i++) {
        int first = 0;
        for (int t = 1; t < n_threads; t++)
            if (busy[t] < busy[first]) first = t;
        busy[first] += ms[i] + 1e-3 * TAKE_US;
        if (busy[first] > end) end = busy[first];
    }
    return end + 1e-3 * HAND_OVER_US;
}

static void simulate(const recording *r, double outside_ms, measured *m)
{
    m->n_tasks = r->n_tasks;
    m->n_runs = r->n_runs;
    m->serial_ms = outside_ms;
    for (int i = 0; i < r->n_tasks; i++) {
        m->serial_ms += r->ms[i];
        if (r->ms[i] > m->longest_ms) m->longest_ms = r->ms[i];
    }
    for (int c = 0; c < N_COUNTS; c++) {
        m->parallel_ms[c] = outside_ms;
        const double *ms = r->ms;
        for (int run = 0; run < r->n_runs; run++) {
            m->parallel_ms[c] += deal(ms, r->run_tasks[run], thread_counts[c]);
            ms += r->run_tasks[run];
        }
    }
}

/* ---- The step ---- */

static ls_status add(bench *b, const ls__instruction *in, int64_t repeats)
{
    char text[LS__OP_TEXT_SIZE];
    const size_t length = ls__op_text(&in->op, text, sizeof text);
    for (int i = 0; i < b->n_ops; i++)
        if (strcmp(b->ops[i].text, text) == 0) {
            b->ops[i].count++;
            return LS_OK;
        }
    if (b->n_ops == MAX_OPS) return LS_ERR_MEMORY;
    measured *m = &b->ops[b->n_ops];
    double outside_ms;
    LS_TRY(measure(b, in, repeats, &outside_ms));
    m->text = malloc(length + 1);
    if (!m->text) return LS_ERR_MEMORY;
    memcpy(m->text, text, length + 1);
    m->kernel = in->kernel->name;
    m->count = 1;
    simulate(&b->best, outside_ms, m);
    b->n_ops++;
    return LS_OK;
}

static void print_efficiency(double serial_ms, const double *parallel_ms)
{
    printf("\"efficiency\": [");
    for (int c = 0; c < N_COUNTS; c++)
        printf("%s%.3f", c ? ", " : "", serial_ms / (thread_counts[c] * parallel_ms[c]));
    printf("]}");
}

static void print_all(const options *o, const bench *b)
{
    double serial_ms = 0, parallel_ms[N_COUNTS] = { 0 };
    printf("{\"bench\": \"tasks\", \"model\": \"%s\", \"image_size\": %lld, \"batch\": %lld, "
           "\"device\": \"%s\", \"threads\": [2, 4, 8, 16, 32, 64],\n \"ops\": [\n",
           o->model->name, (long long)o->image_size, (long long)o->batch,
           ls_context_device(b->ctx));
    for (int i = 0; i < b->n_ops; i++) {
        const measured *m = &b->ops[i];
        serial_ms += (double)m->count * m->serial_ms;
        for (int c = 0; c < N_COUNTS; c++) parallel_ms[c] += (double)m->count * m->parallel_ms[c];
        printf("  {\"op\": \"%s\", \"kernel\": \"%s\", \"count\": %lld, \"runs\": %d, \"tasks\": "
               "%d, \"ms\": %.3f, \"longest_ms\": %.3f, ",
               m->text, m->kernel, (long long)m->count, m->n_runs, m->n_tasks, m->serial_ms,
               m->longest_ms);
        print_efficiency(m->serial_ms, m->parallel_ms);
        printf("%s\n", i + 1 < b->n_ops ? "," : "],");
    }
    printf(" \"step\": {\"ms\": %.1f, \"speedup\": %.1f, ", serial_ms,
           serial_ms / parallel_ms[N_COUNTS - 1]);
    print_efficiency(serial_ms, parallel_ms);
    printf("}\n");
}

/* The net is built for one image, because only the execution plan is used, not its memory. */
static ls_status run(const options *o, bench *b)
{
    const int64_t classes = o->image_size < 64 ? 10 : 1000;
    bench_work work = { .ctx = b->ctx };
    LS_TRY(bench_open_work(&work, o->model, 1, o->image_size, classes));
    b->threads = ((ls__cpu *)b->ctx->device)->threads;
    const ls__named_list *inputs = &work.net->graph.inputs;
    ls_spec specs[8];
    for (int i = 0; i < inputs->n && i < 8; i++) {
        specs[i] = inputs->items[i].node->spec;
        specs[i].shape.dims[0] = o->batch;
    }
    ls__program *program;
    LS_TRY(ls__compile(
        &work.net->env, &work.net->graph,
        &(ls__compile_request){ .mode = LS_MODE_TRAIN, .gradients = true, .input_specs = specs },
        &program));
    ls_status status = LS_OK;
    for (int i = 0; i < program->n_instructions && status == LS_OK; i++)
        if (program->instructions[i].kernel && !program->instructions[i].skipped)
            status = add(b, &program->instructions[i], o->repeats);
    if (status == LS_OK) print_all(o, b);
    ls__program_close(&program);
    return status;
}

int main(int argc, char **argv)
{
    options o = { ls_model_find("resnet18"), 32, 128, 3 };
    const bench_option table[] = {
        { "--model", BENCH_MODEL, &o.model, "a bundled model" },
        { "--image-size", BENCH_NUMBER, &o.image_size, "pixels of a side" },
        { "--batch", BENCH_NUMBER, &o.batch, "images" },
        { "--repeats", BENCH_NUMBER, &o.repeats, "times that each task is measured" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    bench *b = calloc(1, sizeof *b);
    if (!b) return EXIT_FAILURE;
    b->ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const ls_status status = run(&o, b);
    bench_report("bench_tasks", b->ctx);
    ls_context_close(&b->ctx);
    for (int i = 0; i < b->n_ops; i++) free(b->ops[i].text);
    for (int i = 0; i < LS__MAX_OPERANDS; i++) free(b->buffers[i]);
    free(b->workspace);
    free(b);
    return status == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
