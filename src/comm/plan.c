/* plan.c: see plan.h. What a row sums is a set of shards. Rows are merged when their union is all
 * shards of a node that have samples; it is then the node's sum, whichever rank it is on. */
#include "comm/plan.h"

#include "base/alloc.h"
#include "base/error.h"

/* Bit s: shard s. */
typedef uint64_t shard_set;

/* The ranks that exchange at a level. */
typedef struct group {
    int n, first, stride;    /* ranks first, first + stride, ... */
    int width;               /* a member has the sums of so many ranks: its own and neighbours */
    int64_t begin, count;    /* the elements that the members cut into chunks */
    int64_t unit;            /* 0: each chunk is all elements */
    int64_t n_shards;        /* of the batch */
    int n_ranks, own_member; /* all ranks; the index of the plan's rank */
    shard_set present;
} group;

/* floor(n part / n_parts), for part <= n_parts, without overflow. */
static int64_t divide(int64_t n, int64_t part, int64_t n_parts)
{
    return n / n_parts * part + n % n_parts * part / n_parts;
}

int64_t ls__rank_first_shard(int64_t n_shards, int rank, int n_ranks)
{
    return divide(n_shards, rank, n_ranks);
}

int64_t ls__shard_first_sample(int64_t n_samples, int64_t shard, int64_t n_shards)
{
    return divide(n_samples, shard, n_shards);
}

/* ---- The tree ---- */

/* Whether these are all shards with samples of a node, the smallest one that has them. */
static bool is_node(shard_set present, shard_set shards)
{
    const int first = __builtin_ctzll(shards), last = 63 - __builtin_clzll(shards);
    int log2_width = 0;
    while (first >> log2_width != last >> log2_width) log2_width++;
    const shard_set up_to_width = ~(shard_set)0 >> (64 - (1 << log2_width));
    return (present & up_to_width << (first >> log2_width << log2_width)) == shards;
}

/* Plans the merges of rows of n nodes, which become the sets of the rows that are left. */
static void plan_merges(shard_set present, int n, shard_set *rows, ls__merges *out)
{
    int n_sums = 0;
    *out = (ls__merges){ .n_rows = n };
    for (int i = 0; i < n; i++) {
        rows[n_sums++] = rows[i];
        while (n_sums > 1 && is_node(present, rows[n_sums - 2] | rows[n_sums - 1])) {
            rows[n_sums - 2] |= rows[n_sums - 1];
            n_sums--;
            out->n_merged[i]++;
        }
    }
    out->n_sums = n_sums;
}

/* The pieces of a range of ranks, and the merges of its shards that make them. */
static int find_pieces(const group *g, int rank, int n_ranks, shard_set *pieces, ls__merges *merges)
{
    const int64_t end = ls__rank_first_shard(g->n_shards, rank + n_ranks, g->n_ranks);
    int n = 0;
    for (int64_t s = ls__rank_first_shard(g->n_shards, rank, g->n_ranks); s < end; s++)
        if (g->present >> s & 1) pieces[n++] = (shard_set)1 << s;
    plan_merges(g->present, n, pieces, merges);
    return merges->n_sums;
}

/* ---- Levels ---- */

static int member_rank(const group *g, int member)
{
    return g->first + member * g->stride;
}

/* The chunk of a member is [edge, edge of the next one), from g->begin on. */
static int64_t edge(const group *g, int member)
{
    const int64_t n_units = g->count / g->unit + (g->count % g->unit != 0);
    const int64_t units = divide(n_units, member, g->n);
    return units < n_units ? units * g->unit : g->count;
}

static ls__transfer chunk_of(const group *g, int member)
{
    ls__transfer t = { .rank = member_rank(g, member), .begin = g->begin, .count = g->count };
    if (g->unit == 0) return t;
    t.begin += edge(g, member);
    t.count = edge(g, member + 1) - edge(g, member);
    return t;
}

/* Appends transfers of a chunk's elements of rows [0, n_rows). */
static void put_transfers(ls__transfer *list, int *n, ls__transfer chunk, int n_rows)
{
    if (chunk.count == 0) return;
    for (; chunk.row < n_rows; chunk.row++) list[(*n)++] = chunk;
}

/* Fills in the transfers. n_rows: of each member. Ranks begin with different receivers. */
static void plan_transfers(const group *g, const int *n_rows, ls__level *out)
{
    const ls__transfer own = chunk_of(g, g->own_member);
    for (int i = 0, row = 0; i < g->n; i++) {
        const int to = (g->own_member + i) % g->n;
        put_transfers(out->sends, &out->n_sends, chunk_of(g, to), n_rows[g->own_member]);
        ls__transfer receive = own;
        receive.rank = member_rank(g, i);
        receive.row = row;
        put_transfers(out->receives, &out->n_receives, receive, row += n_rows[i]);
        if (g->unit == 0 || i == 0) continue;
        ls__transfer back = own;
        back.rank = member_rank(g, to);
        put_transfers(out->returns, &out->n_returns, back, 1);
        put_transfers(out->return_receives, &out->n_return_receives, chunk_of(g, to), 1);
    }
}

static ls_status open_level(ls_context *ctx, const group *g, ls__level *out)
{
    shard_set rows[LS__MAX_RANK_SHARDS];
    int n_rows[LS__MAX_RANK_SHARDS], n = 0;
    ls__merges merges;
    for (int i = 0; i < g->n; i++) {
        const int first = member_rank(g, i) / g->width * g->width;
        n_rows[i] = find_pieces(g, first, g->width, rows + n, &merges);
        n += n_rows[i];
    }
    const int n_sends = n_rows[g->own_member] * g->n;
    const size_t bytes = (size_t)(n_sends + n + 2 * g->n) * sizeof *out->sends;
    out->sends = ls__alloc(ctx, bytes);
    if (!out->sends) return ls__fail_memory(ctx, "plan of sums", bytes);
    out->receives = out->sends + n_sends;
    out->returns = out->receives + n;
    out->return_receives = out->returns + g->n;
    plan_transfers(g, n_rows, out);
    const ls__transfer own = chunk_of(g, g->own_member);
    out->begin = own.begin;
    out->count = own.count;
    if (own.count > 0) plan_merges(g->present, n, rows, &out->merges);
    return LS_OK;
}

/* ---- Plans ---- */

static shard_set find_present(const ls__sum_plan_config *c)
{
    shard_set present = 0;
    for (int64_t s = 0; s < c->n_shards; s++)
        if (!c->present || c->present[s]) present |= (shard_set)1 << s;
    return present;
}

static ls_status check_plan_config(ls_context *ctx, const ls__sum_plan_config *c)
{
    if (c->n_shards < 1 || c->n_shards > LS__MAX_RANK_SHARDS)
        return ls__fail(ctx, LS_ERR_INVALID, "ranks: %lld shards, expected 1 to %d",
                        (long long)c->n_shards, LS__MAX_RANK_SHARDS);
    if (c->n_ranks < 1 || c->n_ranks > c->n_shards)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ranks: %d ranks for %lld shards, expected 1 to %lld ranks", c->n_ranks,
                        (long long)c->n_shards, (long long)c->n_shards);
    if (c->rank < 0 || c->rank >= c->n_ranks)
        return ls__fail(ctx, LS_ERR_INVALID, "ranks: rank %d of %d ranks, expected 0 to %d",
                        c->rank, c->n_ranks, c->n_ranks - 1);
    if (c->count < 1 || c->unit < 1)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ranks: rows of %lld elements in units of %lld, expected at least 1",
                        (long long)c->count, (long long)c->unit);
    if (find_present(c) == 0)
        return ls__fail(ctx, LS_ERR_INVALID, "ranks: none of %lld shards has samples, expected 1",
                        (long long)c->n_shards);
    return LS_OK;
}

/* The ranks of each machine, or 0 unless the plan has two levels. */
static int find_machine_size(const ls__sum_plan_config *c)
{
    int size = 0;
    if (!c->machines || c->replicated) return 0;
    while (size < c->n_ranks && c->machines[size] == 0) size++;
    if (size < 2 || size == c->n_ranks || c->n_ranks % size != 0) return 0;
    for (int r = 0; r < c->n_ranks; r++)
        if (c->machines[r] != r / size * size) return 0;
    return size;
}

static ls_status open_levels(ls_context *ctx, const ls__sum_plan_config *c, group g,
                             ls__sum_plan *out)
{
    const int size = find_machine_size(c);
    out->n_levels = 1;
    g.n = size ? size : c->n_ranks;
    g.first = c->rank / g.n * g.n;
    g.own_member = c->rank - g.first;
    LS_TRY(open_level(ctx, &g, &out->levels[0]));
    if (!size) return LS_OK;
    /* The ranks with this number on each machine, which have this chunk. */
    out->n_levels = 2;
    g.n = c->n_ranks / size;
    g.first = c->rank % size;
    g.own_member = c->rank / size;
    g.stride = g.width = size;
    g.begin = out->levels[0].begin;
    g.count = out->levels[0].count;
    return open_level(ctx, &g, &out->levels[1]);
}

ls_status ls__sum_plan_open(ls_context *ctx, const ls__sum_plan_config *config, ls__sum_plan *out)
{
    *out = (ls__sum_plan){ .ctx = ctx };
    LS_TRY(check_plan_config(ctx, config));
    const group g = { .stride = 1,
                      .width = 1,
                      .count = config->count,
                      .unit = config->replicated ? 0 : config->unit,
                      .n_shards = config->n_shards,
                      .n_ranks = config->n_ranks,
                      .present = find_present(config) };
    shard_set pieces[LS__MAX_RANK_SHARDS];
    find_pieces(&g, config->rank, 1, pieces, &out->own);
    const ls_status status = open_levels(ctx, config, g, out);
    if (status != LS_OK) ls__sum_plan_close(out);
    return status;
}

void ls__sum_plan_close(ls__sum_plan *plan)
{
    if (!plan) return;
    for (int l = 0; l < plan->n_levels; l++) ls__free(plan->ctx, plan->levels[l].sends);
    *plan = (ls__sum_plan){ 0 };
}
