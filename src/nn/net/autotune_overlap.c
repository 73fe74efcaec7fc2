/* autotune_overlap.c: with benchmark = on, timing decides whether weight gradients run in a second
 * stream (overlap.c). Concurrent kernels slow each other, so the whole backward pass is timed, as a
 * captured graph, by the device's clock, alternately with and without overlap. The forward pass's
 * values are filled with copies of the parameters, because zeros would take less power. */
#include "base/error.h"
#include "base/clock.h"
#include "base/text.h"
#include "nn/compile/compile.h"
#include "nn/exec/run_call.h"
#include "nn/net/net_state.h"
#include <math.h>
#include <stdio.h>

/* Launches of each side; the shortest is its time. */
enum { LAUNCHES = 5 };
/* Total cost in runs of the backward pass: the launches, one op-by-op run and two captures. */
enum { RUNS = 2 * LAUNCHES + 3 };

static const ls__step step; /* its numbers do not matter */

/* ---- Inputs of the backward pass ---- */

static bool is_float(ls_dtype dtype)
{
    return dtype == LS_F32 || dtype == LS_F16 || dtype == LS_BF16;
}

static ls_status overlap_fill(const ls_net *net, const ls__program *p, int v)
{
    ls__device *device = p->ctx->device;
    const ls__net_blocks blocks = net->blocks;
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

/* Labels and indices are zero, because they must be valid. Parameters are cast here, because the
 * forward pass does not run. */
static ls_status fill_memory(const ls_net *net, const ls__program *p)
{
    ls__device *device = p->ctx->device;
    const ls__net_blocks blocks = net->blocks;
    if (blocks.compute_weights)
        LS_TRY(device->backend->cast(device, p->env->activations, blocks.compute_weights, LS_F32,
                                     blocks.values, blocks.parameter_elements));
    LS_TRY(device->backend->clear(device, p->places.starts[LS__PLACE_ARENA], p->arena_bytes));
    for (int v = 0; v < p->n_values; v++) {
        const ls__value *value = &p->values[v];
        if (value->place == LS__PLACE_ARENA && value->storage == v && is_float(value->dtype) &&
            value->first < p->n_forward && value->last >= p->n_forward)
            LS_TRY(overlap_fill(net, p, v));
    }
    return LS_OK;
}

/* ---- Time ---- */

static ls_status overlap_queue(ls__program *p, bool overlaps)
{
    const ls__run_mode mode = { .in_order = !overlaps };
    for (int i = p->graph->inputs.n + p->n_forward; i < p->n_calls; i++)
        LS_TRY(ls__run_call(p->ctx, &p->calls[i], &step, &mode));
    return LS_OK;
}

static ls_status overlap_capture(ls__program *p, bool overlaps, ls__captured **out)
{
    ls__device *device = p->ctx->device;
    LS_TRY(device->backend->capture_begin(device, &step));
    const ls_status status = overlap_queue(p, overlaps);
    const ls_status ended = device->backend->capture_end(device, out);
    return status == LS_OK ? ended : status;
}

/* graph NULL: op by op, in order. */
static ls_status time_once(ls__program *p, ls__captured *graph, double *ms)
{
    ls__device *device = p->ctx->device;
    const ls__backend *backend = device->backend;
    LS_TRY(backend->timer_start(device));
    LS_TRY(graph ? backend->captured_launch(device, graph, &step) : overlap_queue(p, false));
    return backend->timer_stop(device, ms);
}

static ls_status time_both(ls__program *p, ls__captured *const graphs[2], double best[2])
{
    best[0] = best[1] = INFINITY;
    for (int i = 0; i < 2 * LAUNCHES; i++) {
        double ms;
        LS_TRY(time_once(p, graphs[i % 2], &ms));
        best[i % 2] = fmin(best[i % 2], ms);
    }
    return LS_OK;
}

static ls_status time_captured(ls__program *p, double best[2])
{
    ls__device *device = p->ctx->device;
    ls__captured *graphs[2] = { NULL };
    ls_status status = overlap_capture(p, false, &graphs[0]);
    if (status == LS_OK) status = overlap_capture(p, true, &graphs[1]);
    if (status == LS_OK) status = time_both(p, graphs, best);
    for (int i = 0; i < 2; i++)
        if (graphs[i]) device->backend->captured_close(device, graphs[i]);
    return status;
}

static ls_status time_backward(const ls_net *net, ls__program *p, double left_ms, double best[2])
{
    double ms;
    LS_TRY(fill_memory(net, p));
    LS_TRY(time_once(p, NULL, &ms));
    return RUNS * ms > left_ms ? LS_OK : time_captured(p, best);
}

ls_status ls__time_overlap(const ls_net *net, ls__program *p, double left_ms, double *main_ms,
                           double *side_ms)
{
    ls__device *device = p->ctx->device;
    double best[2] = { -1, -1 };
    device->backend->begin(device);
    ls_status status = time_backward(net, p, left_ms, best);
    if (status != LS_OK) ls__join_streams(p->ctx);
    /* The gradients are zero again, as when the net was opened. */
    const ls_status cleared = device->backend->clear(
        device, net->blocks.gradients, (size_t)net->blocks.parameter_elements * sizeof(float));
    if (status == LS_OK) status = cleared;
    device->backend->end(device);
    *main_ms = status == LS_OK ? best[0] : -1;
    *side_ms = status == LS_OK ? best[1] : -1;
    return status;
}

/* ---- Selecting a program ---- */

/* True if the program was timed and has no selection yet. Users' ops must not be called before a
 * step. */
static bool is_open(const ls__program *p)
{
    for (int i = p->n_forward; i < p->n_instructions; i++)
        if (p->instructions[i].custom) return false;
    return p->timed && p->has_tuning_budget && p->tuning_left_ms > 0 &&
           p->ctx->selections->n_timed > 0 && !ls__find_overlap_selection(p) && ls__can_overlap(p);
}

/* Opens a program that overlaps, and times it if memory and time allow. */
static ls_status time_overlap(ls_net *net, const ls__program *p, ls__program **side,
                              double *main_ms, double *side_ms)
{
    const double start = ls__now_ms();
    LS_TRY(ls__compile(&net->env, &net->graph,
                       &(ls__compile_request){ .mode = p->mode,
                                               .gradients = p->gradients,
                                               .overlaps = true,
                                               .input_specs = p->input_specs },
                       side));
    ls__drop_arena(net);
    if (!ls__would_fit(net->owned.ctx->pool, ls__program_arena_bytes(*side))) return LS_OK;
    LS_TRY(ls__fit_arena(net, *side));
    ls__bind_to_arena(net, *side);
    return ls__time_overlap(net, *side, p->tuning_left_ms - (ls__now_ms() - start), main_ms,
                            side_ms);
}

/* Replaces the program by one that overlaps, if that is faster. If it can't be timed, no selection
 * is stored. */
ls_status ls__autotune_overlap(ls_net *net, ls__program **program)
{
    ls__program *p = *program, *side = NULL;
    double main_ms = -1, side_ms = -1;
    if (!is_open(p)) return LS_OK;
    ls_status status = time_overlap(net, p, &side, &main_ms, &side_ms);
    const bool forgiven = status != LS_OK && ls__forgive_failed_run(net->owned.ctx);
    if (forgiven)
        ls__inform(net->owned.ctx, LS_LOG_NET, "net: gradients of weights can't be timed: %.*s",
                   LS__CUT(net->owned.ctx->message, 500));
    if (forgiven) status = LS_OK;
    const bool timed = status == LS_OK && side_ms >= 0;
    const bool faster = timed && side_ms < LS__CLEARLY_FASTER * main_ms;
    if (timed) {
        char reason[LS__SELECTION_REASON_SIZE];
        snprintf(reason, sizeof reason, "timed %.3g ms against %.3g ms", faster ? side_ms : main_ms,
                 faster ? main_ms : side_ms);
        status = ls__select_overlap(p, faster, reason);
    }
    if (status == LS_OK && faster) {
        *program = side;
        side = p;
    }
    ls__drop_arena(net); /* it may be larger than necessary now */
    ls__program_close(&side);
    return status == LS_OK ? ls__fit_arena(net, *program) : status;
}
