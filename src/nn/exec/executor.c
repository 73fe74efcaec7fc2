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

#include "base/alloc.h"
#include "base/error.h"
#include "nn/exec/run_call.h"

#include <string.h>

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
    ls__free(x->ctx, x->calls);
    ls__free(x->ctx, x->spans);
}

/* ---- The list ---- */

static ls_status reserve(ls__executor *x, int n)
{
    if (n <= x->room) return LS_OK;
    const size_t bytes = (size_t)n * sizeof(*x->calls);
    ls__free(x->ctx, x->calls);
    x->room = x->n_calls = 0;
    x->calls = ls__alloc(x->ctx, bytes);
    if (!x->calls) return ls__fail_memory(x->ctx, "a step's calls", bytes);
    x->room = n;
    return LS_OK;
}

static ls_status reserve_spans(ls__executor *x, int n)
{
    if (n <= x->span_room) return LS_OK;
    const size_t bytes = (size_t)n * sizeof(*x->spans);
    ls__free(x->ctx, x->spans);
    x->span_room = 0;
    x->spans = ls__alloc(x->ctx, bytes);
    if (!x->spans) return ls__fail_memory(x->ctx, "a step's calls", bytes);
    x->span_room = n;
    return LS_OK;
}

/* Appends calls and returns their end. */
static int append(ls__executor *x, int at, ls__call *calls, int n)
{
    for (int i = 0; i < n; i++) x->calls[at++] = &calls[i];
    return at;
}

static int append_part(ls__executor *x, int at, const ls__parts *parts, const ls__shard *part)
{
    at = append(x, at, part->calls, part->program->n_calls);
    for (int i = 0; i < parts->n_sums; i++) at = append(x, at, parts->sums[i].calls, 1);
    return at;
}

static int append_last_part(ls__executor *x, int at, const ls__parts *parts, const ls__shard *part)
{
    const ls__program *p = part->program;
    for (int position = 1; position <= p->n_calls; position++) {
        x->calls[at++] = &part->calls[position - 1];
        for (int i = 0; i < parts->n_sums; i++)
            if (position == (parts->sums_last ? p->n_calls : p->sum_positions[i]))
                at = append(x, at, parts->sums[i].calls, parts->sums[i].n_calls);
    }
    return at;
}

static int end_span(ls__executor *x, int64_t part, bool copies, int end)
{
    x->spans[x->n_spans++] = (ls__span){ part, copies, end };
    return end;
}

/* Part after part. */
static int append_parts(ls__executor *x, const ls__parts *parts)
{
    int at = 0;
    for (int64_t i = 0; i < parts->n; i++) {
        const ls__shard *part = &parts->list[i];
        x->ends[LS__PHASE_COPIES] = at + part->program->graph->inputs.n;
        x->ends[LS__PHASE_FORWARD] = x->ends[LS__PHASE_COPIES] + part->program->n_forward;
        at = end_span(x, i, true,
                      i + 1 < parts->n ? append_part(x, at, parts, part)
                                       : append_last_part(x, at, parts, part));
    }
    return at;
}

/* True if all parts have computed what the sum adds before the point. */
static bool is_computed(const ls__parts *parts, int sum, int point)
{
    for (int64_t i = 0; i < parts->n && point >= 0; i++) {
        const ls__program *p = parts->list[i].program;
        if (p->sum_positions[sum] > p->sync_points[point].position) return false;
    }
    return point >= 0;
}

/* All parts up to a sync point; then those sums for which nothing is missing any more. */
static int append_up_to(ls__executor *x, int at, const ls__parts *parts, int point)
{
    for (int64_t i = 0; i < parts->n; i++) {
        const ls__shard *part = &parts->list[i];
        const ls__program *p = part->program;
        const int begin = point > 0 ? p->sync_points[point - 1].position : 0;
        const int end = p->sync_points[point].position;
        const bool is_last = i + 1 == parts->n;
        if (begin == 0) x->ends[LS__PHASE_COPIES] = at + p->graph->inputs.n;
        at = append(x, at, part->calls + begin, end - begin);
        for (int j = 0; j < parts->n_sums; j++) {
            if (!is_computed(parts, j, point) || is_computed(parts, j, point - 1)) continue;
            at = append(x, at, &parts->synced_sums[i * parts->n_sums + j], 1);
            if (is_last) at = append(x, at, parts->sums[j].calls + 1, parts->sums[j].n_calls - 1);
        }
        ls__call *exchange = p->sync_points[point].exchange;
        if (is_last && exchange) at = append(x, at, exchange, 1);
        if (end == p->graph->inputs.n + p->n_forward) x->ends[LS__PHASE_FORWARD] = at;
        at = end_span(x, i, begin == 0, at);
    }
    return at;
}

static int append_synced_parts(ls__executor *x, const ls__parts *parts)
{
    const int n_points = parts->list[0].program->n_sync_points;
    int at = 0;
    for (int point = 0; point < n_points; point++) at = append_up_to(x, at, parts, point);
    return at;
}

/* Begins a span at the position `next`. The inputs' copies read the part's samples. */
static void begin_span(ls__executor *x, int i)
{
    const ls__parts *parts = x->parts;
    const ls__span *span = &x->spans[i];
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

static int count_calls(const ls__parts *parts, const ls__update *update)
{
    int64_t n = update ? update->n_calls : 0;
    if (!parts) return (int)n;
    for (int64_t i = 0; i < parts->n; i++) n += parts->list[i].program->n_calls + parts->n_sums;
    for (int i = 0; i < parts->n_sums; i++) n += parts->sums[i].n_calls - 1;
    return (int)(n + parts->list[0].program->n_sync_points + (parts->last_call != NULL));
}

static int count_spans(const ls__parts *parts)
{
    if (!parts) return 0;
    return (int)parts->n * (parts->synced_sums ? parts->list[0].program->n_sync_points : 1);
}

ls_status ls__executor_begin(ls__executor *x, const ls__parts *parts, ls__update *update, double lr)
{
    x->next = x->begin = x->copied = 0;
    x->fault_at = -1;
    x->call_by_call = false;
    x->parts = parts;
    x->program = NULL;
    x->update = update;
    x->n_spans = 0;
    x->ends[LS__PHASE_COPIES] = x->ends[LS__PHASE_FORWARD] = 0;
    LS_TRY(reserve(x, count_calls(parts, update)));
    LS_TRY(reserve_spans(x, count_spans(parts)));
    int n = !parts               ? 0
            : parts->synced_sums ? append_synced_parts(x, parts)
                                 : append_parts(x, parts);
    x->summed = n;
    if (parts && parts->last_call) n = append(x, n, parts->last_call, 1);
    x->ends[LS__PHASE_BACKWARD] = n;
    if (update) n = append(x, n, update->calls, update->n_calls);
    x->ends[LS__PHASE_UPDATE] = x->n_calls = x->end = n;
    x->step.lr = lr;
    x->step.optimizer_step = update ? update->n_steps : 0;
    x->step.accumulated = update ? update->n_accumulated : 0;
    if (!parts) return LS_OK;
    x->step.n_samples = parts->feeds[0]->shape.dims[0];
    x->spans[x->n_spans - 1].end = n;
    begin_span(x, 0);
    return LS_OK;
}

ls_status ls__executor_place_fault(ls__executor *x)
{
    const ls__injected_fault *fault = &x->fault;
    if (fault->op < 0 || fault->epoch != x->step.epoch || fault->step != x->step.step) return LS_OK;
    return ls__injected_fault_find(x->ctx, fault, x->calls, x->n_calls, x->blocks, &x->fault_at);
}

/* ---- Running ---- */

static void note_end(ls__executor *x)
{
    if (x->update && x->next == x->n_calls) x->update->done(x->update);
}

/* Begins the addition of other ranks' sums at the next position. */
static ls_status start_rank_sum(ls__executor *x)
{
    const int begin = x->next;
    while (x->next < x->summed && x->calls[x->next]->adds_ranks) x->next++;
    return ls__rank_sums_start(&x->sums, x->ctx, &x->calls[begin], x->next - begin, &x->step);
}

/* The backward pass of synchronised parts reads the first sum. */
static bool waits_for_ranks(const ls__executor *x)
{
    return x->next == x->summed ||
           (x->parts && x->parts->synced_sums && x->next == x->ends[LS__PHASE_FORWARD]);
}

static ls_status run_one_by_one(ls__executor *x, int end)
{
    const ls__run_mode mode = { .in_order = x->call_by_call || x->fault_at >= 0 || x->profiled ||
                                            x->ctx->config.nvtx,
                                .profiled = x->profiled };
    while (x->next < end) {
        ls__call *call = x->calls[x->next];
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
        for (int i = x->next; i < end; i++) found |= x->calls[i]->exchange != NULL;
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
            status = ls__run_call(ctx, x->calls[x->begin + i], &x->step, &(ls__run_mode){ 0 });
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
    const uint64_t serial = x->update && x->end == x->n_calls ? x->update->serial : 0;
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

/* The event of this step's end. Before that it is the event of the step LS__STEPS_QUEUED earlier.
 */
static ls__event *end_of_step(const ls__executor *x)
{
    return x->events[x->n_steps % LS__STEPS_QUEUED];
}

static int earlier(int a, int b)
{
    return a < b ? a : b;
}

static ls_status run(ls__executor *x, int end)
{
    ls__device *device = x->ctx->device;
    ls_status status = LS_OK;
    if (x->next == 0 && x->program) {
        x->n_steps++;
        LS_TRY(device->backend->event_wait(device, end_of_step(x)));
    }
    device->backend->begin(device);
    while (x->next < end && status == LS_OK) {
        status = run_one_by_one(x, earlier(end, x->copied));
        if (status == LS_OK) status = run_range(x, earlier(end, x->end));
        if (x->next == x->end && x->next < x->n_calls) begin_span(x, x->span + 1);
    }
    if (status != LS_OK) ls__rank_sums_give_up(&x->sums, x->ctx);
    if (status != LS_OK && x->program && x->program->overlaps) ls__join_streams(x->ctx);
    device->backend->end(device);
    if (status == LS_OK && x->program)
        status = device->backend->event_record(device, end_of_step(x));
    return status;
}

ls_status ls__executor_run(ls__executor *x, int end)
{
    ls_context *ctx = x->ctx;
    const ls_status status = run(x, end);
    /* Waiting detects a lost device; a library's error alone does not. */
    if (status == LS_ERR_DEVICE && !ctx->unusable) (void)ctx->device->backend->wait(ctx->device);
    return status;
}
