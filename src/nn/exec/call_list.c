/* call_list.c: see call_list.h. */
#include "nn/exec/call_list.h"

#include "base/alloc.h"
#include "base/error.h"

/* ---- Memory ---- */

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

/* One block holds the calls, the spans and the programs; the old ones are lost. */
static ls_status list_reserve(ls_context *ctx, ls__call_list *list, int n_calls, int n_spans,
                              int64_t n_parts)
{
    const size_t bytes = (size_t)n_calls * sizeof *list->calls +
                         (size_t)n_spans * sizeof *list->spans +
                         (size_t)n_parts * sizeof *list->programs;
    if (bytes > list->capacity_bytes) {
        ls__free(ctx, list->calls);
        list->calls = ls__alloc(ctx, bytes);
        list->capacity_bytes = list->calls ? bytes : 0;
        if (!list->calls) return ls__fail_memory(ctx, "a step's calls", bytes);
    }
    list->spans = (void *)(list->calls + n_calls);
    list->programs = (void *)(list->spans + n_spans);
    return LS_OK;
}

/* ---- The order of the calls ---- */

/* Appends calls and returns their end. */
static int append(ls__call_list *list, int at, ls__call *calls, int n)
{
    for (int i = 0; i < n; i++) list->calls[at++] = &calls[i];
    return at;
}

static int append_part(ls__call_list *list, int at, const ls__parts *parts, const ls__shard *part)
{
    at = append(list, at, part->calls, part->program->n_calls);
    for (int i = 0; i < parts->n_sums; i++) at = append(list, at, parts->sums[i].calls, 1);
    return at;
}

static int append_last_part(ls__call_list *list, int at, const ls__parts *parts,
                            const ls__shard *part)
{
    const ls__program *p = part->program;
    for (int position = 1; position <= p->n_calls; position++) {
        list->calls[at++] = &part->calls[position - 1];
        for (int i = 0; i < parts->n_sums; i++)
            if (position == (parts->sums_last ? p->n_calls : p->sum_positions[i]))
                at = append(list, at, parts->sums[i].calls, parts->sums[i].n_calls);
    }
    return at;
}

static int end_span(ls__call_list *list, int64_t part, bool copies, int end)
{
    list->spans[list->n_spans++] = (ls__span){ part, copies, end };
    return end;
}

/* Appends the calls of one part after the other. */
static int append_parts(ls__call_list *list, const ls__parts *parts)
{
    int at = 0;
    for (int64_t i = 0; i < parts->n; i++) {
        const ls__shard *part = &parts->list[i];
        list->ends[LS__PHASE_COPIES] = at + part->program->graph->inputs.n;
        list->ends[LS__PHASE_FORWARD] = list->ends[LS__PHASE_COPIES] + part->program->n_forward;
        at = end_span(list, i, true,
                      i + 1 < parts->n ? append_part(list, at, parts, part)
                                       : append_last_part(list, at, parts, part));
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

/* Appends the calls of all parts up to a sync point, then those sums whose addends are complete. */
static int append_up_to(ls__call_list *list, int at, const ls__parts *parts, int point)
{
    for (int64_t i = 0; i < parts->n; i++) {
        const ls__shard *part = &parts->list[i];
        const ls__program *p = part->program;
        const int begin = point > 0 ? p->sync_points[point - 1].position : 0;
        const int end = p->sync_points[point].position;
        const bool is_last = i + 1 == parts->n;
        if (begin == 0) list->ends[LS__PHASE_COPIES] = at + p->graph->inputs.n;
        at = append(list, at, part->calls + begin, end - begin);
        for (int j = 0; j < parts->n_sums; j++) {
            if (!is_computed(parts, j, point) || is_computed(parts, j, point - 1)) continue;
            at = append(list, at, &parts->synced_sums[i * parts->n_sums + j], 1);
            if (is_last)
                at = append(list, at, parts->sums[j].calls + 1, parts->sums[j].n_calls - 1);
        }
        ls__call *exchange = p->sync_points[point].exchange;
        if (is_last && exchange) at = append(list, at, exchange, 1);
        if (end == p->graph->inputs.n + p->n_forward) list->ends[LS__PHASE_FORWARD] = at;
        at = end_span(list, i, begin == 0, at);
    }
    return at;
}

static int append_synced_parts(ls__call_list *list, const ls__parts *parts)
{
    const int n_points = parts->list[0].program->n_sync_points;
    int at = 0;
    for (int point = 0; point < n_points; point++) at = append_up_to(list, at, parts, point);
    return at;
}

static void list_fill(ls__call_list *list, const ls__parts *parts, const ls__update *update)
{
    list->n_spans = 0;
    list->ends[LS__PHASE_COPIES] = list->ends[LS__PHASE_FORWARD] = 0;
    int n = !parts               ? 0
            : parts->synced_sums ? append_synced_parts(list, parts)
                                 : append_parts(list, parts);
    list->summed = n;
    if (parts && parts->last_call) n = append(list, n, parts->last_call, 1);
    list->ends[LS__PHASE_BACKWARD] = n;
    if (update) n = append(list, n, update->calls, update->n_calls);
    list->ends[LS__PHASE_UPDATE] = list->n_calls = n;
    if (parts) list->spans[list->n_spans - 1].end = n;
}

/* ---- Lists by programs and update ---- */

static int64_t count_parts(const ls__parts *parts)
{
    return parts ? parts->n : 0;
}

static uint64_t serial_of(const ls__update *update)
{
    return update ? update->serial : 0;
}

static bool list_is_of(const ls__call_list *list, const ls__parts *parts, const ls__update *update)
{
    if (list->last_used == 0 || list->update != serial_of(update) ||
        list->n_parts != count_parts(parts))
        return false;
    if (parts && (list->sums != parts->sums || list->sums_last != parts->sums_last)) return false;
    for (int64_t i = 0; i < list->n_parts; i++)
        if (list->programs[i] != parts->list[i].program->serial) return false;
    return true;
}

static ls_status list_make(ls_context *ctx, ls__call_list *list, const ls__parts *parts,
                           const ls__update *update)
{
    const int64_t n_parts = count_parts(parts);
    list->last_used = 0;
    LS_TRY(list_reserve(ctx, list, count_calls(parts, update), count_spans(parts), n_parts));
    list->n_parts = n_parts;
    for (int64_t i = 0; i < n_parts; i++) list->programs[i] = parts->list[i].program->serial;
    list->update = serial_of(update);
    list->sums = parts ? parts->sums : NULL;
    list->sums_last = parts && parts->sums_last;
    list_fill(list, parts, update);
    return LS_OK;
}

const ls__call_list *ls__call_lists_find(ls_context *ctx, ls__call_lists *lists,
                                         const ls__parts *parts, const ls__update *update)
{
    ls__call_list *found = NULL, *oldest = &lists->items[0];
    for (int i = 0; i < LS__MAX_CALL_LISTS && !found; i++) {
        ls__call_list *list = &lists->items[i];
        if (list_is_of(list, parts, update)) found = list;
        if (list->last_used < oldest->last_used) oldest = list;
    }
    if (!found && list_make(ctx, oldest, parts, update) == LS_OK) found = oldest;
    if (found) found->last_used = ++lists->clock;
    return found;
}

void ls__call_lists_close(ls_context *ctx, ls__call_lists *lists)
{
    for (int i = 0; i < LS__MAX_CALL_LISTS; i++) ls__free(ctx, lists->items[i].calls);
}
