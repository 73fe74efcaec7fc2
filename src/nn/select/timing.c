/* timing.c: see timing.h. Timing: if the device has a clock, it measures several consecutive runs
 * in the stream. They are captured first and launched as one graph, like a step, so that the host's
 * time to queue them is excluded; a kernel that can't be captured is not timed and not selected. On
 * other devices the host's clock measures each run.
 *
 * Operands keep their addresses between runs, so small ones are read from the device's cache. In a
 * step that is similar, because the previous op has just written them. Large operands, which
 * dominate a step's time, do not fit into the cache. */
#include "nn/select/timing.h"

#include "arith/half.h"
#include "backend/pool.h"
#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/strict_math.h"
#include "base/text.h"
#include "nn/select/selector.h"
#include <math.h>

/* ---- Memory ---- */

/* The sum of the bytes of a hash, of mean 0 and std 1: nearly normal. With zeros a GPU
 * would run at a higher clock rate than in training. */
static float random_number(uint32_t i)
{
    uint32_t h = (i + 1) * 2654435761u;
    h = (h ^ h >> 15) * 2246822519u;
    h ^= h >> 13;
    const int sum = (int)(h & 255) + (int)(h >> 8 & 255) + (int)(h >> 16 & 255) + (int)(h >> 24);
    return (float)(sum - 510) / 148;
}

/* Writes random numbers from the host, then doubles them on the device. Vectors are variances,
 * weights of batch norms and so on: their elements are near 1. Integers are zero, because labels
 * and indices must be valid. */
static ls_status fill_randomly(ls__device *device, const ls__operand *operand,
                               unsigned char *memory, size_t bytes)
{
    enum { PATTERN = 4096 };
    const ls_dtype dtype = operand->dtype;
    float full[PATTERN];
    uint16_t half[PATTERN];
    if (dtype != LS_F32 && dtype != LS_F16 && dtype != LS_BF16)
        return device->backend->clear(device, memory, bytes);
    for (int i = 0; i < PATTERN; i++) {
        full[i] = random_number((uint32_t)i);
        if (operand->shape.n_dims == 1) full[i] = 1 + full[i] / 8;
        half[i] = dtype == LS_F16 ? ls__f32_to_f16(full[i]) : ls__f32_to_bf16(full[i]);
    }
    size_t done = dtype == LS_F32 ? sizeof full : sizeof half;
    if (done > bytes) done = bytes;
    LS_TRY(device->backend->write(device, memory, dtype == LS_F32 ? (void *)full : half, done));
    while (done < bytes) {
        const size_t more = done < bytes - done ? done : bytes - done;
        LS_TRY(device->backend->copy(device, memory + done, memory, more));
        done += more;
    }
    return LS_OK;
}

/* The memory of an earlier operand with this value, or NULL. */
static void *find_shared(const ls__op_memory *m, int value, int op, int operand)
{
    for (int i = 0; i <= op; i++)
        for (int j = 0; j < (i < op ? m->ops[i].op.n_operands : operand); j++)
            if (m->ops[i].operands[j] == value) return m->buffers[i][j];
    return NULL;
}

static ls_status operand_allocate(const ls__op_memory *m, const ls__op *op, size_t bytes,
                                  void **out)
{
    *out = ls__pool_allocate(m->ctx->pool, bytes);
    if (*out) return LS_OK;
    if (ls__has_error(m->ctx)) return m->ctx->error; /* the device is lost */
    return ls__pool_fail(m->ctx->pool, bytes, "%s", ls__op_name(op->kind));
}

static ls_status open_operand(ls__op_memory *m, int i, int j, ls__op_values values)
{
    ls__device *device = m->ctx->device;
    const ls__op *op = &m->ops[i].op;
    const ls__operand *operand = &op->operands[j];
    if (ls__is_absent(operand)) return LS_OK;
    m->buffers[i][j] = find_shared(m, m->ops[i].operands[j], i, j);
    if (m->buffers[i][j]) return LS_OK;
    const size_t bytes =
        (size_t)ls_shape_element_count(&operand->shape) * ls_dtype_bytes(operand->dtype);
    LS_TRY(operand_allocate(m, op, bytes, &m->buffers[i][j]));
    return values == LS__ZEROS ? device->backend->clear(device, m->buffers[i][j], bytes)
                               : fill_randomly(device, operand, m->buffers[i][j], bytes);
}

ls_status ls__op_memory_open(ls__op_memory *m, ls_context *ctx, const ls__instruction *ops, int n,
                             ls__op_values values)
{
    *m = (ls__op_memory){ .ctx = ctx, .n = n, .ops = ops };
    for (int i = 0; i < n; i++)
        for (int j = 0; j < ops[i].op.n_operands; j++) LS_TRY(open_operand(m, i, j, values));
    return LS_OK;
}

void ls__op_memory_close(ls__op_memory *m)
{
    ls__pool_release(m->ctx->pool, m->workspace);
    for (int i = m->n - 1; i >= 0; i--)
        for (int j = m->ops[i].op.n_operands - 1; j >= 0; j--)
            if (!find_shared(m, m->ops[i].operands[j], i, j))
                ls__pool_release(m->ctx->pool, m->buffers[i][j]);
}

ls_status ls__op_memory_set_workspace(ls__op_memory *m, ls__kernel *const *kernels)
{
    int largest = 0;
    for (int i = 1; i < m->n; i++)
        if (kernels[i]->workspace_bytes > kernels[largest]->workspace_bytes) largest = i;
    ls__pool_release(m->ctx->pool, m->workspace);
    return operand_allocate(m, &m->ops[largest].op, kernels[largest]->workspace_bytes,
                            &m->workspace);
}

/* ---- Time ---- */

/* Runs per measurement by the device's clock, so that its resolution of half a microsecond is
 * negligible. */
enum { GROUP_RUNS = 10 };
/* The time is the shortest of GROUPS groups, or of up to MAX_GROUPS while all take less than
 * SHORT_MS. */
enum { GROUPS = 3, MAX_GROUPS = 20 };
static const double SHORT_MS = 0.5;
/* Timing ends early if a group is slower than this many times the best, or a single run slower than
 * twice that. */
static const double SLOWER = 1.5;

static bool has_clock(const ls_context *ctx)
{
    return ctx->device->backend->timer_start != NULL;
}

int ls__timing_runs(const ls_context *ctx)
{
    return has_clock(ctx) ? 2 + GROUPS * GROUP_RUNS : 1 + GROUPS;
}

/* Logs that the ops can't be timed, which is no error because another kernel may work. */
static ls_status forgive(ls_context *ctx, ls_status status, const ls__op *op, const char *what)
{
    if (status != LS_OK && ls__forgive_failed_run(ctx))
        ls__inform(ctx, LS_LOG_NET, "%s: %s can't be timed: %.*s", ls__op_name(op->kind), what,
                   LS__CUT(ctx->message, 500));
    return status;
}

ls_status ls__timing_open(ls__op_memory *memory, ls_context *ctx, const ls__instruction *ops, int n)
{
    return forgive(ctx, ls__op_memory_open(memory, ctx, ops, n, LS__RANDOM), &ops[0].op, "it");
}

/* The subject of timing: a kernel for each op, in order. */
typedef struct subject {
    const ls__op_memory *memory;
    ls__kernel *const *kernels;
} subject;

static const ls__step step; /* any */

static ls_status timing_queue(const subject *s, int runs)
{
    for (int run = 0; run < runs; run++)
        for (int i = 0; i < s->memory->n; i++)
            LS_TRY(s->kernels[i]->run(s->kernels[i], s->memory->buffers[i], s->memory->workspace,
                                      &step));
    return LS_OK;
}

/* *out stays NULL if the device can't capture. */
static ls_status timing_capture(const subject *s, ls__captured **out)
{
    ls__device *device = s->memory->ctx->device;
    const ls__backend *backend = device->backend;
    if (!has_clock(s->memory->ctx) || !backend->capture_begin) return LS_OK;
    LS_TRY(backend->capture_begin(device, &step));
    const ls_status status = timing_queue(s, GROUP_RUNS), ended = backend->capture_end(device, out);
    return status == LS_OK ? ended : status;
}

/* Milliseconds of one run, as the mean of `runs`, which may be captured. */
static ls_status time_group(const subject *s, ls__captured *graph, int runs, double *ms)
{
    ls__device *device = s->memory->ctx->device;
    const ls__backend *backend = device->backend;
    const double start = ls__now_ms();
    if (backend->timer_start) LS_TRY(backend->timer_start(device));
    LS_TRY(graph ? backend->captured_launch(device, graph, &step) : timing_queue(s, runs));
    if (backend->timer_start) {
        LS_TRY(backend->timer_stop(device, ms));
    } else {
        LS_TRY(backend->wait(device));
        *ms = ls__now_ms() - start;
    }
    *ms /= runs;
    return LS_OK;
}

static ls_status time_groups(const subject *s, ls__captured *graph, double best_known, double *best)
{
    const int runs = has_clock(s->memory->ctx) ? GROUP_RUNS : 1;
    double sum = 0, ms;
    *best = INFINITY;
    for (int group = 1; group <= MAX_GROUPS; group++) {
        LS_TRY(time_group(s, graph, runs, &ms));
        if (ms < *best) *best = ms;
        sum += ms * runs;
        if (best_known >= 0 && *best > SLOWER * best_known) break;
        if (group >= GROUPS && sum > SHORT_MS) break;
    }
    return LS_OK;
}

static ls_status time_subject(const subject *s, double best_known, double *ms)
{
    ls__device *device = s->memory->ctx->device;
    ls__captured *graph = NULL;
    /* Libraries initialise in the first run, which is not part of a kernel's time. On the CPU that
     * is short. */
    if (has_clock(s->memory->ctx)) LS_TRY(time_group(s, NULL, 1, ms));
    LS_TRY(time_group(s, NULL, 1, ms));
    if (best_known >= 0 && *ms > 2 * SLOWER * best_known) return LS_OK;
    LS_TRY(timing_capture(s, &graph));
    const ls_status status = time_groups(s, graph, best_known, ms);
    if (graph) device->backend->captured_close(device, graph);
    return status;
}

ls_status ls__timing_run(ls__op_memory *memory, ls__kernel *const *kernels, double best_known,
                         double *ms)
{
    ls_context *ctx = memory->ctx;
    const subject s = { memory, kernels };
    ls_status status = ls__op_memory_set_workspace(memory, kernels);
    if (status == LS_OK) {
        ctx->device->backend->begin(ctx->device);
        status = time_subject(&s, best_known, ms);
        ctx->device->backend->end(ctx->device);
    }
    return forgive(ctx, status, &memory->ops[0].op, kernels[0]->name);
}
