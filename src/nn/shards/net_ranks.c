/* net_ranks.c: how the ranks' partial sums of a range of the shards' results are added. Each level
 * of a plan (comm/plan.h) is an exchange, and a call that adds the received rows. The last level's
 * sum goes to its place in the whole one, from where the chunks are sent back, level by level. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/minmax.h"
#include "nn/net/net_state.h"

/* Chunks of gradients begin at multiples of this number of elements, which keeps them aligned. */
enum { UNIT = LS__PARAMETER_ALIGNMENT };

/* Statistics, counts and losses are few: each rank adds all of them. */
static bool is_replicated(int range)
{
    return range < LS__SHARD_GRADIENTS;
}

static int64_t count_rows(const ls__merges *merges)
{
    int64_t n = 0, max_rows = 0;
    for (int i = 0; i < merges->n_rows; i++) {
        n += 1 - merges->n_merged[i];
        max_rows = ls__max_i64(max_rows, n);
    }
    return max_rows;
}

ls_status ls__net_open_rank_plans(ls_net *net)
{
    const ls__comm *comm = net->owned.ctx->comm;
    ls__net_shards *s = &net->shards;
    for (int i = 0; i < s->n_ranges; i++)
        LS_TRY(ls__sum_plan_open(net->owned.ctx,
                                 &(ls__sum_plan_config){ .n_shards = s->n,
                                                         .rank = comm->rank,
                                                         .n_ranks = comm->n_ranks,
                                                         .machines = comm->machines,
                                                         .count = s->ranges[i].count,
                                                         .unit = UNIT,
                                                         .replicated = is_replicated(i) },
                                 &s->ranges[i].ranks.plan));
    s->n_rows = count_rows(&s->ranges[LS__SHARD_SUMS].ranks.plan.own);
    return LS_OK;
}

void ls__net_close_rank_sum(ls_net *net, ls__rank_sum *sum)
{
    ls_context *ctx = net->owned.ctx;
    for (int i = 0; i < sum->n_exchanges; i++)
        ctx->device_comm->provider->exchange_close(sum->exchanges[i]);
    for (int i = 0; i < LS__MAX_LEVELS; i++) ls__pool_release(ctx->pool, sum->rows[i]);
    ls__sum_plan_close(&sum->plan);
}

/* Rows in memory: each has elements [begin, begin + count) of the range. */
typedef struct rows {
    float *memory;
    int64_t begin, count;
} rows;

static void set_range_messages(const ls__transfer *transfers, int n, const rows *at,
                               ls__message *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (ls__message){ .rank = transfers[i].rank,
                                .data = at->memory + transfers[i].row * at->count +
                                        (transfers[i].begin - at->begin),
                                .bytes = (size_t)transfers[i].count * sizeof(float) };
}

static ls__call *next_range_call(ls_net *net, int range)
{
    ls__shard_sum *sum = &net->shards.sums[range];
    return &sum->calls[sum->n_calls++];
}

ls_status ls__net_open_exchange(ls_net *net, const char *name, const ls__message *messages,
                                int n_sends, int n_receives, ls__call *out)
{
    static const ls__op no_op = { .kind = LS__N_OPS };
    ls__comm *comm = net->owned.ctx->device_comm;
    *out = (ls__call){ .kind = "exchange", .name = name, .op = &no_op };
    return comm->provider->exchange_open(comm, messages, n_sends, messages + n_sends, n_receives,
                                         &out->exchange);
}

/* The exchange of a level, as the next call. */
static ls_status open_range_exchange(ls_net *net, int range, const ls__transfer *sends, int n_sends,
                                     const rows *from, const ls__transfer *receives, int n_receives,
                                     const rows *to)
{
    ls_context *ctx = net->owned.ctx;
    ls__shard_range *r = &net->shards.ranges[range];
    const size_t bytes = (size_t)(n_sends + n_receives + 1) * sizeof(ls__message);
    ls__message *messages = ls__alloc(ctx, bytes);
    if (!messages) return ls__fail_memory(ctx, "net", bytes);
    set_range_messages(sends, n_sends, from, messages);
    set_range_messages(receives, n_receives, to, messages + n_sends);
    ls__call *call = next_range_call(net, range);
    const ls_status status =
        ls__net_open_exchange(net, r->name, messages, n_sends, n_receives, call);
    ls__free(ctx, messages);
    LS_TRY(status);
    r->ranks.exchanges[r->ranks.n_exchanges++] = call->exchange;
    call->adds_ranks = true;
    return LS_OK;
}

/* Adds a level's received rows; the last level's sum goes to its place. */
static ls_status open_rank_sum(ls_net *net, int range, int level)
{
    ls__shard_range *r = &net->shards.ranges[range];
    const ls__level *l = &r->ranks.plan.levels[level];
    const bool is_last = level + 1 == r->ranks.plan.n_levels;
    if (l->merges.n_rows == 0) return LS_OK;
    ls__op *op = &r->ranks.ops[level];
    *op = (ls__op){ .kind = LS__OP_TREE_SUM, .u.merges = l->merges };
    ls__call *call = next_range_call(net, range);
    LS_TRY(ls__selector_open_call(
        &net->selector, op, "net", r->name, 3,
        (const ls__block[]){ { LS_SHAPE(l->merges.n_rows, l->count), r->ranks.rows[level] },
                             { LS_SHAPE(1), is_last ? (float *)r->total : NULL },
                             { LS_SHAPE(l->count), is_last ? r->sum + l->begin : NULL } },
        call));
    call->adds_ranks = true;
    return LS_OK;
}

ls_status ls__net_open_rank_calls(ls_net *net, int range)
{
    const ls__shard_range *r = &net->shards.ranges[range];
    ls__rank_sum *sum = &net->shards.ranges[range].ranks;
    const ls__sum_plan *plan = &sum->plan;
    const rows whole = { r->sum, 0, r->count };
    rows from = { r->partial, 0, r->count };
    for (int i = 0; i < plan->n_levels; i++) {
        const ls__level *l = &plan->levels[i];
        const int64_t n_elements = l->merges.n_rows * l->count;
        if (n_elements > 0)
            LS_TRY(ls__net_shard_memory(net, "sums of ranks", n_elements, &sum->rows[i]));
        const rows to = { sum->rows[i], l->begin, l->count };
        LS_TRY(open_range_exchange(net, range, l->sends, l->n_sends, &from, l->receives,
                                   l->n_receives, &to));
        LS_TRY(open_rank_sum(net, range, i));
        from = to;
    }
    for (int i = plan->n_levels - 1; i >= 0 && !is_replicated(range); i--) {
        const ls__level *l = &plan->levels[i];
        LS_TRY(open_range_exchange(net, range, l->returns, l->n_returns, &whole, l->return_receives,
                                   l->n_return_receives, &whole));
    }
    return LS_OK;
}
