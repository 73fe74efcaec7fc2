/* timing.c: see timing.h. Where the device has a clock of its own, its time between two points of
 * the stream is taken, over several runs that lie back to back. They are recorded first and
 * launched as one, as steps are, so that the host's time for queueing them does not count; a kernel
 * that can't be recorded is not timed, and so not chosen. Elsewhere the host's clock is taken, run
 * by run.
 *
 * Operands stay where they are from run to run. What fits into the device's cache is therefore read
 * from there, as it may be in a step, where the op before has just written it; large operands,
 * which decide a step's time, do not fit. */
#include "nn/timing.h"

#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/half.h"
#include "base/strict_math.h"
#include "tensor/pool.h"

#include <math.h>

/* Runs that are timed together by the device's clock: enough for its resolution, half a
 * microsecond, to be no matter. */
enum { GROUP_RUNS = 10 };
/* The time is the shortest of so many groups, or of more, as long as all of them take less than
 * SHORT_MS. */
enum { GROUPS = 3, MOST_GROUPS = 20 };
static const double SHORT_MS = 0.5;
/* What a group shows to be slower than this many times the best is given up; a single run shows it
 * when it is slower than twice that. */
static const double SLOWER = 1.5;

static bool has_clock(const ls_context *ctx)
{
    return ctx->device->backend->timer_start != NULL;
}

int ls__timing_runs(const ls_context *ctx)
{
    return has_clock(ctx) ? 2 + GROUPS * GROUP_RUNS : 1 + GROUPS;
}

/* Is all well? A failure says that this kernel can't be timed, and another may do better, unless
 * the device is lost. */
static bool succeeded(ls_context *ctx, ls_status status, const ls__op *op, const char *what)
{
    if (status == LS_OK) return true;
    /* Shows whether the device is lost. */
    if (!ctx->unusable) (void)ctx->device->backend->wait(ctx->device);
    if (ctx->unusable) return false;
    (void)ls_context_status(ctx);
    ls__inform(ctx, "%s: %s can't be timed: %.500s", ls__op_name(op->kind), what, ctx->message);
    return false;
}

/* ---- Memory ---- */

/* The sum of the bytes of a hash, of mean 0 and std 1: nearly normal. Zeros would let a GPU
 * run at a higher clock than the numbers of a training. */
static float random_number(uint32_t i)
{
    uint32_t h = (i + 1) * 2654435761u;
    h = (h ^ h >> 15) * 2246822519u;
    h ^= h >> 13;
    const int sum = (int)(h & 255) + (int)(h >> 8 & 255) + (int)(h >> 16 & 255) + (int)(h >> 24);
    return (float)(sum - 510) / 148;
}

/* Some numbers from the host, then copies of them, each as large as all before it. Vectors are
 * variances, scales and the like: their elements are near 1. What is not floating point is zero:
 * labels and indices must stay within their limits. */
static ls_status fill(ls_context *ctx, const ls__operand *operand, unsigned char *memory)
{
    enum { PATTERN = 4096 };
    ls__device *device = ctx->device;
    const ls_dtype dtype = operand->dtype;
    const size_t bytes = (size_t)ls_shape_count(&operand->shape) * ls_dtype_bytes(dtype);
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

/* The memory that an earlier operand of this value has, NULL when there is none. */
static void *find(const ls__timing *timing, int value, int op, int operand)
{
    for (int i = 0; i <= op; i++)
        for (int j = 0; j < (i < op ? timing->ops[i].op.n_operands : operand); j++)
            if (timing->ops[i].operands[j] == value) return timing->buffers[i][j];
    return NULL;
}

bool ls__timing_open(ls__timing *timing, ls_context *ctx, const ls__instruction *ops, int n)
{
    *timing = (ls__timing){ .ctx = ctx, .n = n, .ops = ops };
    for (int i = 0; i < n; i++)
        for (int j = 0; j < ops[i].op.n_operands; j++) {
            const ls__operand *operand = &ops[i].op.operands[j];
            if (ls__is_absent(operand)) continue;
            timing->buffers[i][j] = find(timing, ops[i].operands[j], i, j);
            if (timing->buffers[i][j]) continue;
            timing->buffers[i][j] =
                ls__pool_allocate(ctx->pool, (size_t)ls_shape_count(&operand->shape) *
                                                 ls_dtype_bytes(operand->dtype));
            if (!timing->buffers[i][j] ||
                !succeeded(ctx, fill(ctx, operand, timing->buffers[i][j]), &ops[i].op, "it"))
                return false;
        }
    return true;
}

void ls__timing_close(ls__timing *timing)
{
    for (int i = timing->n - 1; i >= 0; i--)
        for (int j = timing->ops[i].op.n_operands - 1; j >= 0; j--)
            if (!find(timing, timing->ops[i].operands[j], i, j))
                ls__pool_release(timing->ctx->pool, timing->buffers[i][j]);
}

/* ---- Time ---- */

/* What is timed: a kernel for each op, in order. */
typedef struct subject {
    const ls__timing *timing;
    ls__kernel *const *kernels;
    void *workspace; /* one for all: they run one after the other */
} subject;

static const ls__step step; /* any */

static ls_status queue(const subject *s, int runs)
{
    for (int run = 0; run < runs; run++)
        for (int i = 0; i < s->timing->n; i++)
            LS_TRY(s->kernels[i]->run(s->kernels[i], s->timing->buffers[i], s->workspace, &step));
    return LS_OK;
}

/* *out stays NULL where the device records nothing. */
static ls_status record(const subject *s, ls__recording **out)
{
    ls__device *device = s->timing->ctx->device;
    const ls__backend *backend = device->backend;
    if (!has_clock(s->timing->ctx) || !backend->recording_begin) return LS_OK;
    LS_TRY(backend->recording_begin(device, &step));
    const ls_status status = queue(s, GROUP_RUNS), ended = backend->recording_end(device, out);
    return status == LS_OK ? ended : status;
}

/* Milliseconds of one run, as the mean of `runs`, which may be recorded. */
static ls_status time_group(const subject *s, ls__recording *recording, int runs, double *ms)
{
    ls__device *device = s->timing->ctx->device;
    const ls__backend *backend = device->backend;
    const double start = ls__now_ms();
    if (backend->timer_start) LS_TRY(backend->timer_start(device));
    LS_TRY(recording ? backend->recording_launch(device, recording, &step) : queue(s, runs));
    if (backend->timer_start) {
        LS_TRY(backend->timer_stop(device, ms));
    } else {
        LS_TRY(backend->wait(device));
        *ms = ls__now_ms() - start;
    }
    *ms /= runs;
    return LS_OK;
}

static ls_status time_groups(const subject *s, ls__recording *recording, double best_known,
                             double *best)
{
    const int runs = has_clock(s->timing->ctx) ? GROUP_RUNS : 1;
    double sum = 0, ms;
    *best = INFINITY;
    for (int group = 1; group <= MOST_GROUPS; group++) {
        LS_TRY(time_group(s, recording, runs, &ms));
        if (ms < *best) *best = ms;
        sum += ms * runs;
        if (best_known >= 0 && *best > SLOWER * best_known) break;
        if (group >= GROUPS && sum > SHORT_MS) break;
    }
    return LS_OK;
}

static ls_status time_subject(const subject *s, double best_known, double *ms)
{
    ls__device *device = s->timing->ctx->device;
    ls__recording *recording = NULL;
    /* Libraries finish their opening in the first run, which is no part of a kernel's time. On the
     * CPU it is short. */
    if (has_clock(s->timing->ctx)) LS_TRY(time_group(s, NULL, 1, ms));
    LS_TRY(time_group(s, NULL, 1, ms));
    if (best_known >= 0 && *ms > 2 * SLOWER * best_known) return LS_OK;
    LS_TRY(record(s, &recording));
    const ls_status status = time_groups(s, recording, best_known, ms);
    if (recording) device->backend->recording_close(device, recording);
    return status;
}

double ls__timing_run(ls__timing *timing, ls__kernel *const *kernels, double best_known)
{
    ls_context *ctx = timing->ctx;
    size_t bytes = 0;
    double ms = -1;
    for (int i = 0; i < timing->n; i++)
        if (kernels[i]->workspace_bytes > bytes) bytes = kernels[i]->workspace_bytes;
    const subject s = { timing, kernels, ls__pool_allocate(ctx->pool, bytes) };
    if (!s.workspace) return -1;
    ctx->device->backend->begin(ctx->device);
    const ls_status status = time_subject(&s, best_known, &ms);
    ctx->device->backend->end(ctx->device);
    ls__pool_release(ctx->pool, s.workspace);
    return succeeded(ctx, status, &timing->ops[0].op, kernels[0]->name) ? ms : -1;
}
