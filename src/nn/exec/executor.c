/* executor.c: see executor.h.
 *
 * If the backend can capture graphs, a range of calls runs call by call the first time, because
 * libraries initialise then. It is captured the second time and replayed afterwards. A range that
 * can't be captured runs call by call, with a warning; with several ranks that is an error. Graphs
 * exclude the copies of the inputs, because their addresses change. All other calls are constant
 * while the program is bound to one arena:
 *
 *   instructions, kernels, buffers   owned by the program; a new binding drops its graphs
 *   parameters, gradients            blocks that live as long as the net
 *   the optimizer's                  a graph is for one ls__update, by its serial number
 *   frozen parameters                training programs are dropped when that changes
 *   the sums of shards' results      owned by the net, like its blocks
 *   seed, epoch, step, lr ...        the backend copies them to the device before a launch */
#include "nn/exec/executor.h"

#include "base/error.h"
#include "base/minmax.h"

ls_status ls__executor_open(ls__executor *x, ls_context *ctx, const ls__net_blocks *blocks)
{
    x->ctx = ctx;
    x->blocks = blocks;
    x->fault.op = -1;
    x->fault_at = -1;
    x->step.seed = ctx->config.seed;
    for (int i = 0; i < LS__STEPS_QUEUED; i++)
        LS_TRY(ctx->device->backend->event_open(ctx->device, &x->events[i]));
    return LS_OK;
}

void ls__executor_close(ls__executor *x)
{
    for (int i = 0; i < LS__STEPS_QUEUED; i++)
        if (x->events[i]) x->ctx->device->backend->event_close(x->ctx->device, x->events[i]);
    ls__call_lists_close(x->ctx, &x->lists);
}

/* ---- Beginning a step ---- */

/* Begins a span at the position `next`. The inputs' copies read the part's samples. */
static void begin_span(ls__executor *x, int i)
{
    const ls__parts *parts = x->parts;
    const ls__span *span = &x->list->spans[i];
    const ls__shard *shard = &parts->list[span->part];
    ls__program *p = shard->program;
    x->span = i;
    x->program = p;
    x->begin = x->next;
    x->copied = span->copies ? x->next + p->graph->inputs.n : x->next;
    x->end = span->end;
    x->step.first_sample = shard->first_sample;
    x->step.shard = parts->first + span->part;
    x->step.n_shards = parts->n_all;
    x->step.n_sums = shard->n_sums;
    x->step.n_merged = shard->n_merged;
    x->step.is_last_shard = span->part + 1 == parts->n_all; /* never, if there are other ranks */
    for (int j = 0; j < p->graph->inputs.n && span->copies; j++) {
        const ls_tensor *feed = parts->feeds[j];
        const size_t sample_bytes = feed->bytes / (size_t)feed->shape.dims[0];
        shard->calls[j].buffers[0] =
            (unsigned char *)feed->data +
            (size_t)(shard->first_sample - parts->first_fed) * sample_bytes;
    }
}

ls_status ls__executor_begin(ls__executor *x, const ls__parts *parts, ls__update *update, double lr)
{
    x->next = x->begin = x->copied = 0;
    x->fault_at = -1;
    x->call_by_call = false;
    x->parts = parts;
    x->program = NULL;
    x->update = update;
    x->list = ls__call_lists_find(x->ctx, &x->lists, parts, update);
    if (!x->list) return ls_context_status(x->ctx);
    x->end = x->list->n_calls;
    x->step.lr = lr;
    x->step.optimizer_step = update ? update->n_steps : 0;
    x->step.accumulated = update ? update->n_accumulated : 0;
    if (!parts) return LS_OK;
    x->step.n_samples = parts->feeds[0]->shape.dims[0];
    begin_span(x, 0);
    return LS_OK;
}

ls_status ls__executor_place_fault(ls__executor *x)
{
    const ls__injected_fault *fault = &x->fault;
    if (fault->op < 0 || fault->epoch != x->step.epoch || fault->step != x->step.step) return LS_OK;
    return ls__injected_fault_find(x->ctx, fault, x->list->calls, x->list->n_calls, x->blocks,
                                   &x->fault_at);
}

/* ---- Running ---- */

static void note_end(ls__executor *x)
{
    if (x->update && x->next == x->list->n_calls) x->update->done(x->update);
}

/* Begins the addition of other ranks' sums at the next position. */
static ls_status start_rank_sum(ls__executor *x)
{
    const int begin = x->next;
    while (x->next < x->list->summed && x->list->calls[x->next]->adds_ranks) x->next++;
    return ls__rank_sums_start(&x->sums, x->ctx, &x->list->calls[begin], x->next - begin, &x->step);
}

/* The backward pass of synchronised parts reads the first sum. */
static bool waits_for_ranks(const ls__executor *x)
{
    return x->next == x->list->summed ||
           (x->parts && x->parts->synced_sums && x->next == x->list->ends[LS__PHASE_FORWARD]);
}

static ls_status run_one_by_one(ls__executor *x, int end)
{
    const ls__run_mode mode = { .in_order = x->call_by_call || x->fault_at >= 0 || x->profiled ||
                                            x->ctx->config.nvtx,
                                .profiled = x->profiled };
    while (x->next < end) {
        ls__call *call = x->list->calls[x->next];
        if (call->adds_ranks && call->exchange && !mode.in_order) {
            LS_TRY(start_rank_sum(x));
        } else {
            LS_TRY(ls__run_call(x->ctx, call, &x->step, &mode));
            if (x->next == x->fault_at)
                LS_TRY(ls__injected_fault_apply(x->ctx, &x->fault, call, x->blocks));
            x->next++;
            LS_TRY(ls__rank_sums_progress(&x->sums, x->ctx, &x->step));
        }
        if (waits_for_ranks(x)) LS_TRY(ls__rank_sums_wait(&x->sums, x->ctx, &x->step));
        note_end(x);
    }
    return LS_OK;
}

/* A graph would belong to one part and span. */
static bool may_capture(const ls__executor *x)
{
    return !(x->parts && x->parts->synced_sums) && x->ctx->device->backend->capture_begin &&
           !x->ctx->config.nvtx && !x->call_by_call && x->fault_at < 0 && !x->profiled &&
           !(x->program && x->program->uncapturable);
}

static bool has_queued_exchange(const ls__executor *x, int end)
{
    bool found = false;
    if (x->ctx->device_comm != x->ctx->comm)
        for (int i = x->next; i < end; i++) found |= x->list->calls[i]->exchange != NULL;
    return found;
}

/* All ranks must capture an exchange at the same time, replay it from the same capture, or queue it
 * without a capture. But their shapes, arenas and injected faults may differ. Drops the graph, or
 * sets *capture to NULL, where not all ranks can do the same. */
static ls_status agree_on_capture(ls__executor *x, ls__capture **capture)
{
    typedef struct vote {
        int64_t was_run, number; /* of the graph's capture; 0: no graph */
    } vote;
    ls__comm *comm = x->ctx->comm;
    ls__capture *c = *capture;
    const vote own = { c && c->was_run, c && c->graph ? c->number : 0 };
    vote votes[LS__MAX_RANK_SHARDS];
    bool is_same = own.number > 0, was_run = true;
    LS_TRY(ls__comm_gather(comm, &own, sizeof own, votes, "graph capture of ranks"));
    for (int i = 0; i < comm->n_ranks; i++) {
        is_same &= votes[i].number == own.number;
        was_run &= votes[i].was_run != 0;
    }
    if (is_same) return LS_OK;
    if (c) ls__capture_drop(x->ctx, c);
    if (was_run) {
        c->number = ++x->n_captures;
        return LS_OK;
    }
    if (c) c->was_run = true; /* after this call */
    *capture = NULL;
    return LS_OK;
}

/* Captures a range as a graph, or refuses it for good. */
static ls_status capture_range(ls__executor *x, ls__capture *capture)
{
    ls_context *ctx = x->ctx;
    const ls__backend *backend = ctx->device->backend;
    ls_status status = backend->capture_begin(ctx->device, &x->step);
    if (status == LS_OK) {
        for (int i = capture->begin; i < capture->end && status == LS_OK; i++)
            status =
                ls__run_call(ctx, x->list->calls[x->begin + i], &x->step, &(ls__run_mode){ 0 });
        const ls_status ended = backend->capture_end(ctx->device, &capture->graph);
        if (status == LS_OK) status = ended;
    }
    if (status == LS_OK || ctx->unusable || ctx->comm) return status;
    ls__capture_drop(ctx, capture);
    capture->refused = true;
    ls__warn(ctx, LS_LOG_NET, "net: a step that can't be captured is queued op by op: %s",
             ls_context_message(ctx));
    ls_context_clear_error(ctx);
    return LS_OK;
}

static ls_status launch(ls__executor *x, ls__captured *graph)
{
    const ls__step *step = &x->step;
    const ls_status status = x->ctx->device->backend->captured_launch(x->ctx->device, graph, step);
    if (status != LS_OK)
        ls__error_in(x->ctx, "step %lld of epoch %lld", (long long)step->step,
                     (long long)step->epoch);
    return status;
}

static ls__capture *find_capture(ls__executor *x, int end)
{
    ls__captures *captures = x->program ? &x->program->captures : &x->update->captures;
    const uint64_t serial = x->update && x->end == x->list->n_calls ? x->update->serial : 0;
    ls__capture *capture =
        ls__captures_find(x->ctx, captures, serial, x->next - x->begin, end - x->begin);
    capture->last_used = ++x->clock;
    return capture;
}

/* Runs calls of a span after its copies. Shards of one shape have one graph. */
static ls_status run_range(ls__executor *x, int end)
{
    ls__capture *capture = x->next < end && may_capture(x) ? find_capture(x, end) : NULL;
    if (has_queued_exchange(x, end)) LS_TRY(agree_on_capture(x, &capture));
    if (!capture) return run_one_by_one(x, end);
    if (capture->was_run && !capture->graph && !capture->refused) LS_TRY(capture_range(x, capture));
    if (!capture->graph) {
        LS_TRY(run_one_by_one(x, end));
        capture->was_run = true;
        return LS_OK;
    }
    LS_TRY(launch(x, capture->graph));
    x->next = end;
    note_end(x);
    return LS_OK;
}

/* The event of this step's end; before that, of the end of the step LS__STEPS_QUEUED earlier. */
static ls__event *end_of_step(const ls__executor *x)
{
    return x->events[x->n_steps % LS__STEPS_QUEUED];
}

ls_status ls__executor_run(ls__executor *x, int end)
{
    ls__device *device = x->ctx->device;
    const bool begins = x->next == 0 && x->program;
    ls_status status = LS_OK;
    if (begins) x->n_steps++;
    if (begins) status = device->backend->event_wait(device, end_of_step(x));
    if (status == LS_OK) {
        device->backend->begin(device);
        while (x->next < end && status == LS_OK) {
            status = run_one_by_one(x, ls__min_int(end, x->copied));
            if (status == LS_OK) status = run_range(x, ls__min_int(end, x->end));
            if (x->next == x->end && x->next < x->list->n_calls) begin_span(x, x->span + 1);
        }
        if (status != LS_OK) ls__rank_sums_give_up(&x->sums, x->ctx);
        if (status != LS_OK && x->program && x->program->overlaps) ls__join_streams(x->ctx);
        device->backend->end(device);
    }
    if (status == LS_OK && x->program)
        status = device->backend->event_record(device, end_of_step(x));
    /* Waiting detects a lost device; a library's error alone does not. */
    if (status == LS_ERR_DEVICE && !x->ctx->unusable) (void)device->backend->wait(device);
    return status;
}
