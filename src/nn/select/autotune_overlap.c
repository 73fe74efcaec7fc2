/* autotune_overlap.c: benchmark = on: whether gradients of weights run beside the rest of the
 * backward part (overlap.c) goes by time as well. One kernel beside another changes the time of
 * both, so all of the backward part is timed, recorded as a step is: by the device's clock, with
 * and without in turn. Values that the forward part leaves hold a net's parameters over and over:
 * zeros would take less power. */
#include "base/error.h"
#include "nn/net_state.h"
#include "nn/select/trial.h"

#include <math.h>

/* Launches of each side; the shortest counts. */
enum { LAUNCHES = 5 };
/* What it takes in all, in runs of the backward part: those, one that is queued op by op, and the
 * two recordings. */
enum { RUNS = 2 * LAUNCHES + 3 };

static const ls__step step; /* any */

/* ---- What backward reads ---- */

static bool is_float(ls_dtype dtype)
{
    return dtype == LS_F32 || dtype == LS_F16 || dtype == LS_BF16;
}

static ls_status fill(const ls__program *p, int v)
{
    ls__device *device = p->ctx->device;
    const ls__net_blocks blocks = ls__net_get_blocks(p->net);
    const ls__value *value = &p->values[v];
    const size_t element = ls_dtype_bytes(value->dtype);
    const int64_t n = (int64_t)(value->bytes / element);
    unsigned char *to = ls__program_address(p, v);
    for (int64_t done = 0; done < n; done += blocks.parameter_elements) {
        const int64_t left = n - done,
                      count = left < blocks.parameter_elements ? left : blocks.parameter_elements;
        void *at = to + (size_t)done * element;
        LS_TRY(value->dtype == LS_F32
                   ? device->backend->copy(device, at, blocks.values, (size_t)count * element)
                   : device->backend->cast(device, value->dtype, at, LS_F32, blocks.values, count));
    }
    return LS_OK;
}

/* Labels and indices are zero: they must stay within their limits. The forward part would have cast
 * the parameters. */
static ls_status fill_memory(const ls__program *p)
{
    ls__device *device = p->ctx->device;
    const ls__net_blocks blocks = ls__net_get_blocks(p->net);
    if (blocks.compute_weights)
        LS_TRY(device->backend->cast(device, ls__net_activations(p->net), blocks.compute_weights,
                                     LS_F32, blocks.values, blocks.parameter_elements));
    LS_TRY(device->backend->clear(device, p->arena, p->arena_bytes));
    for (int v = 0; v < p->n_values; v++) {
        const ls__value *value = &p->values[v];
        if (value->place == LS__PLACE_ARENA && value->storage == v && is_float(value->dtype) &&
            value->first < p->n_forward && value->last >= p->n_forward)
            LS_TRY(fill(p, v));
    }
    return LS_OK;
}

/* ---- Time ---- */

static ls_status queue(ls__program *p, bool beside)
{
    for (int i = p->n_forward; i < p->n_instructions; i++)
        LS_TRY(ls__program_run(p, i, &step, beside));
    return LS_OK;
}

static ls_status record(ls__program *p, bool beside, ls__captured **out)
{
    ls__device *device = p->ctx->device;
    LS_TRY(device->backend->capture_begin(device, &step));
    const ls_status status = queue(p, beside);
    const ls_status ended = device->backend->capture_end(device, out);
    return status == LS_OK ? ended : status;
}

/* recording NULL: op by op, in order. */
static ls_status time_once(ls__program *p, ls__captured *recording, double *ms)
{
    ls__device *device = p->ctx->device;
    const ls__backend *backend = device->backend;
    LS_TRY(backend->timer_start(device));
    LS_TRY(recording ? backend->captured_launch(device, recording, &step) : queue(p, false));
    return backend->timer_stop(device, ms);
}

static ls_status time_both(ls__program *p, ls__captured *const recordings[2], double best[2])
{
    best[0] = best[1] = INFINITY;
    for (int i = 0; i < 2 * LAUNCHES; i++) {
        double ms;
        LS_TRY(time_once(p, recordings[i % 2], &ms));
        best[i % 2] = fmin(best[i % 2], ms);
    }
    return LS_OK;
}

static ls_status time_recorded(ls__program *p, double best[2])
{
    ls__device *device = p->ctx->device;
    ls__captured *recordings[2] = { NULL };
    ls_status status = record(p, false, &recordings[0]);
    if (status == LS_OK) status = record(p, true, &recordings[1]);
    if (status == LS_OK) status = time_both(p, recordings, best);
    for (int i = 0; i < 2; i++)
        if (recordings[i]) device->backend->captured_close(device, recordings[i]);
    return status;
}

static ls_status time_backward(ls__program *p, double left_ms, double best[2])
{
    double ms;
    LS_TRY(fill_memory(p));
    LS_TRY(time_once(p, NULL, &ms));
    return RUNS * ms > left_ms ? LS_OK : time_recorded(p, best);
}

/* As they were when the net was opened. */
static ls_status clear_gradients(const ls__program *p)
{
    ls__device *device = p->ctx->device;
    const ls__net_blocks blocks = ls__net_get_blocks(p->net);
    return device->backend->clear(device, blocks.gradients,
                                  (size_t)blocks.parameter_elements * sizeof(float));
}

ls_status ls__program_time_overlap(ls__program *p, double left_ms, double *main_ms, double *side_ms)
{
    ls__device *device = p->ctx->device;
    double best[2] = { -1, -1 };
    device->backend->begin(device);
    ls_status status = time_backward(p, left_ms, best);
    if (status != LS_OK) ls__program_join(p);
    const ls_status cleared = clear_gradients(p);
    if (status == LS_OK) status = cleared;
    device->backend->end(device);
    *main_ms = best[0];
    *side_ms = best[1];
    if (status == LS_OK || !ls__forgive_failed_run(p->ctx)) return status;
    ls__inform(p->ctx, "net: gradients of weights can't be timed: %.500s", p->ctx->message);
    *main_ms = *side_ms = -1;
    return LS_OK;
}
