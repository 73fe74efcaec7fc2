/* net_shards.c: the shards of a net's training batches: memory and calls for the sums of their
 * results, and the shards of a batch. See plan/shard.h. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/minmax.h"
#include "nn/layers/layers.h"
#include "nn/net/net_state.h"
#include <stdio.h>

/* ---- What can't be cut into shards ---- */

static ls_status check_loss(const ls_net *net, const ls__named_node *loss)
{
    const ls__layer *layer = loss->node->layer;
    if (layer != &ls__cross_entropy_layer && layer != &ls__binary_cross_entropy_layer &&
        layer->op != LS__OP_MSE)
        return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                        "net: loss '%s' is a result of %s; with %lld shards expected "
                        "cross_entropy, binary_cross_entropy or mse, which are means over samples",
                        loss->name, layer->name, (long long)net->shards.n);
    const bool has_total = loss->node->inputs[1]->spec.dtype == LS_I32;
    if (net->graph.losses.n == 1 || !has_total) return LS_OK;
    return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                    "net: loss '%s' is a mean over the labels that are not -1, so that with %lld "
                    "shards it must be the only loss; the net has %d",
                    loss->name, (long long)net->shards.n, net->graph.losses.n);
}

static ls_status check_shards(const ls_net *net)
{
    const ls_graph *graph = &net->graph;
    const int64_t n = net->shards.n, batch = graph->inputs.items[0].node->spec.shape.dims[0];
    if (batch % n != 0)
        return ls__fail(net->owned.ctx, LS_ERR_INVALID,
                        "ls_net_build: the batch size is %lld, expected a multiple of the "
                        "context's %lld shards",
                        (long long)batch, (long long)n);
    if (graph->losses.n == 0)
        return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                        "ls_net_build: a net with LS_LOSS_EXTERNAL can't be trained with %lld "
                        "shards, because its loss is outside the graph",
                        (long long)n);
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->layer == &ls__custom_layer)
            return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                            "net: custom op '%s' can't be trained with %lld shards, because it may "
                            "depend on the whole batch",
                            graph->nodes[i]->name, (long long)n);
    for (int i = 0; i < graph->losses.n; i++) LS_TRY(check_loss(net, &graph->losses.items[i]));
    return LS_OK;
}

static bool has_batch_norm(const ls_graph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->layer == &ls__batch_norm_layer) return true;
    return false;
}

ls_status ls__net_count_shards(ls_net *net)
{
    const ls_context *ctx = net->owned.ctx;
    const ls__comm *comm = ls__net_comm(net);
    ls__net_shards *s = &net->shards;
    s->n = net->config.inference ? 1 : ctx->config.shards;
    s->end = s->n;
    if (s->n == 1) return LS_OK;
    if (comm) {
        s->first = ls__rank_first_shard(s->n, comm->rank, comm->n_ranks);
        s->end = ls__rank_first_shard(s->n, comm->rank + 1, comm->n_ranks);
    }
    s->is_synced = ctx->config.sync_batch_norm && has_batch_norm(&net->graph);
    return check_shards(net);
}

ls_status ls__net_refuse_shards(ls_net *net, const char *call)
{
    LS__ENTER(ls__net_context(net));
    if (net->shards.n == 1) return LS_OK;
    return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                    "%s: a net that trains with %lld shards is trained by ls_net_step alone", call,
                    (long long)net->shards.n);
}

/* ---- Memory and calls ---- */

/* The binary digits of the shards' numbers: the largest number of partial sums beside a shard's own
 * results, if one rank computes all shards. */
static int64_t count_digits(int64_t n)
{
    int64_t digits = 0;
    while ((int64_t)1 << digits < n) digits++;
    return digits;
}

/* Elements of a bucket of gradients (4 MiB): large enough for the bandwidth of a network, small
 * enough that the last bucket, whose exchange begins when the backward pass ends, is little. */
enum { BUCKET_ELEMENTS = 1 << 20, MAX_BUCKETS = LS__MAX_SHARD_SUMS - LS__SHARD_GRADIENTS };

/* One rank has nothing to exchange, and one bucket. */
static int64_t elements_of_bucket(const ls_net *net)
{
    const ls__comm *comm = ls__net_comm(net);
    const int64_t all = net->blocks.parameter_elements;
    if (!comm) return all;
    const int64_t wanted = comm->bucket_elements ? comm->bucket_elements : BUCKET_ELEMENTS;
    const int64_t elements = ls__max_i64(wanted, all / MAX_BUCKETS + 1);
    return (elements + LS__PARAMETER_ALIGNMENT - 1) / LS__PARAMETER_ALIGNMENT *
           LS__PARAMETER_ALIGNMENT;
}

static void add_range(ls__net_shards *s, const char *name, int64_t begin, int64_t end)
{
    ls__shard_range *r = &s->ranges[s->n_ranges++];
    snprintf(r->name, sizeof r->name, "%s", name);
    r->begin = begin;
    r->count = end - begin;
}

static void add_ranges(ls_net *net)
{
    const ls__net_blocks *blocks = &net->blocks;
    const ls_graph *graph = &net->graph;
    ls__net_shards *s = &net->shards;
    const int64_t losses = ls__shard_scalar(blocks->block_elements, ls__shard_losses(graph));
    const int64_t bucket = elements_of_bucket(net);
    add_range(s, "shard", blocks->parameter_elements, losses);
    add_range(s, "losses", losses, ls__shard_elements(blocks->block_elements, graph));
    for (int64_t end = blocks->parameter_elements; end > 0; end -= bucket) {
        char name[24];
        snprintf(name, sizeof name, "gradients %d", s->n_ranges - LS__SHARD_GRADIENTS);
        add_range(s, ls__net_comm(net) ? name : "gradients", end > bucket ? end - bucket : 0, end);
    }
}

/* Sets the addresses of the ranges; requires allocated memory. */
static void place_ranges(ls_net *net)
{
    const ls__net_blocks *blocks = &net->blocks;
    const int64_t weight = ls__shard_scalar(blocks->block_elements, LS__SHARD_WEIGHT);
    float *partial = net->shards.partial;
    for (int i = 0; i < net->shards.n_ranges; i++) {
        ls__shard_range *r = &net->shards.ranges[i];
        r->partial = partial;
        partial += net->shards.n_rows * r->count;
        r->sum = i >= LS__SHARD_GRADIENTS
                     ? blocks->gradients + r->begin
                     : net->shards.results + (r->begin - blocks->parameter_elements);
        if (i == LS__SHARD_SUMS || (i >= LS__SHARD_GRADIENTS && net->shards.is_synced)) continue;
        r->weight = blocks->gradients + weight;
        r->total = net->shards.results + (weight - blocks->parameter_elements);
    }
}

/* Adds the results of a shard to the sums of the earlier ones. */
static ls_status open_shard_sum(ls_net *net, int range)
{
    ls__net_shards *s = &net->shards;
    ls__shard_range *r = &s->ranges[range];
    ls__shard_sum *sum = &s->sums[range];
    r->op = (ls__op){ .kind = LS__OP_SHARD_SUM };
    return ls__selector_open_call(
        &net->selector, &r->op, "net", r->name, 5,
        (const ls__block[]){ { LS_SHAPE(r->count), net->blocks.gradients + r->begin },
                             { LS_SHAPE(1), (float *)r->weight },
                             { LS_SHAPE(1), (float *)r->total },
                             { LS_SHAPE(s->n_rows, r->count), r->partial },
                             { LS_SHAPE(r->count), r->sum } },
        &sum->calls[sum->n_calls++]);
}

/* The momentum is the program's. */
static ls_status open_running_call(ls_net *net)
{
    ls__net_shards *s = &net->shards;
    const ls__net_blocks *blocks = &net->blocks;
    const ls_shape buffers = LS_SHAPE(blocks->block_elements - blocks->parameter_elements);
    if (buffers.dims[0] == 0) return LS_OK;
    s->running_op = (ls__op){ .kind = LS__OP_RUNNING_STATISTICS };
    return ls__selector_open_call(
        &net->selector, &s->running_op, "net", "shard", 3,
        (const ls__block[]){ { buffers, s->results },
                             { buffers, s->results },
                             { buffers, blocks->values + blocks->parameter_elements } },
        &s->running_call);
}

static ls_status open_sums(ls_net *net)
{
    ls__net_shards *s = &net->shards;
    const ls__net_blocks *blocks = &net->blocks;
    const int64_t elements = ls__shard_elements(blocks->block_elements, &net->graph);
    const size_t ranges_bytes = LS__MAX_SHARD_SUMS * sizeof *s->ranges;
    const size_t sums_bytes = LS__MAX_SHARD_SUMS * sizeof *s->sums;
    s->ranges = ls__zalloc(net->owned.ctx, ranges_bytes);
    s->sums = ls__zalloc(net->owned.ctx, sums_bytes);
    if (!s->ranges || !s->sums)
        return ls__fail_memory(net->owned.ctx, "net", ranges_bytes + sums_bytes);
    s->n_rows = count_digits(s->n);
    add_ranges(net);
    if (ls__net_comm(net)) LS_TRY(ls__net_open_rank_plans(net));
    LS_TRY(ls__net_shard_memory(net, "sums of shards", s->n_rows * elements, &s->partial));
    LS_TRY(ls__net_shard_memory(net, "results of shards", elements - blocks->parameter_elements,
                                &s->results));
    place_ranges(net);
    for (int i = 0; i < s->n_ranges; i++) {
        LS_TRY(open_shard_sum(net, i));
        if (ls__net_comm(net)) LS_TRY(ls__net_open_rank_calls(net, i));
    }
    LS_TRY(ls__net_open_sync(net));
    return open_running_call(net);
}

ls_status ls__net_open_shards(ls_net *net)
{
    ls__net_shards *s = &net->shards;
    const size_t bytes = (size_t)s->n * sizeof *s->list;
    s->list = ls__zalloc(net->owned.ctx, bytes);
    if (!s->list) return ls__fail_memory(net->owned.ctx, "net", bytes);
    return s->n == 1 ? LS_OK : open_sums(net);
}

void ls__net_close_shards(ls_net *net)
{
    ls_context *ctx = net->owned.ctx;
    ls__net_shards *s = &net->shards;
    ls__call_close(ctx, &s->running_call);
    ls__net_close_sync(net);
    for (int i = 0; i < s->n_ranges; i++) {
        for (int j = 0; j < s->sums[i].n_calls; j++) ls__call_close(ctx, &s->sums[i].calls[j]);
        ls__net_close_rank_sum(net, &s->ranges[i].ranks);
    }
    ls__pool_release(ctx->pool, s->partial);
    ls__pool_release(ctx->pool, s->results);
    ls__free(ctx, s->ranges);
    ls__free(ctx, s->sums);
    ls__free(ctx, s->list);
}

const float *ls__net_shard_scalar(const ls_net *net, int i)
{
    const ls__net_blocks *blocks = &net->blocks;
    return net->shards.results +
           (ls__shard_scalar(blocks->block_elements, i) - blocks->parameter_elements);
}

/* ---- The shards of a batch ---- */

/* The number of partial sums before a shard: of the tree's largest nodes over the shards before it
 * that have samples. */
static int64_t count_nodes(int64_t n_samples, int64_t shard, int64_t n)
{
    int64_t begin = 0, count = 0;
    for (int64_t width = (int64_t)1 << count_digits(n); width > 0; width /= 2) {
        if (!(shard & width)) continue;
        count += ls__shard_first_sample(n_samples, begin + width, n) >
                 ls__shard_first_sample(n_samples, begin, n);
        begin += width;
    }
    return count;
}

/* Sets all but the programs. */
static void find_shard_parts(ls__net_shards *s, int64_t n_samples)
{
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t begin = ls__shard_first_sample(n_samples, i, s->n);
        if (ls__shard_first_sample(n_samples, i + 1, s->n) == begin) continue;
        s->list[s->parts.n_all++] =
            (ls__shard){ .first_sample = begin, .n_sums = count_nodes(n_samples, i, s->n) };
    }
    s->parts.n = s->parts.n_all;
    /* All nodes that are complete before the next shard with samples are merged. */
    for (int64_t i = 0; i < s->parts.n; i++) {
        const int64_t left = i + 1 < s->parts.n ? s->list[i + 1].n_sums : 1;
        s->list[i].n_merged = s->list[i].n_sums + 1 - left;
    }
}

/* The shards of this rank, of which all have samples: only nodes of these are merged. */
static void find_rank_parts(ls__net_shards *s, int64_t n_samples)
{
    const ls__merges *own = &s->ranges[LS__SHARD_SUMS].ranks.plan.own;
    int64_t n_sums = 0;
    s->parts.n = s->end - s->first;
    s->parts.n_all = s->n;
    for (int64_t i = 0; i < s->parts.n; i++) {
        s->list[i] =
            (ls__shard){ .first_sample = ls__shard_first_sample(n_samples, s->first + i, s->n),
                         .n_sums = n_sums,
                         .n_merged = own->n_merged[i] };
        n_sums += 1 - own->n_merged[i];
    }
}

/* The position after the last call that writes to the range. */
static int end_of_writes(const ls__program *p, const ls__shard_range *range)
{
    const size_t begin = (size_t)range->begin * sizeof(float);
    const size_t end = begin + (size_t)range->count * sizeof(float);
    for (int i = p->n_instructions - 1; i >= 0; i--) {
        const ls__instruction *in = &p->instructions[i];
        for (int j = 0; j < in->op.n_operands; j++) {
            ls__operand_role role;
            if (in->operands[j] < 0 || !ls__op_operand(in->op.kind, j, &role) ||
                !(role.output || role.mutated))
                continue;
            const ls__value *v = &p->values[in->operands[j]];
            if (v->place != LS__PLACE_GRADIENTS || v->offset >= end ||
                v->offset + v->bytes <= begin)
                continue;
            return p->graph->inputs.n + i + 1;
        }
    }
    return p->graph->inputs.n;
}

/* Places the sums in the order of the ranges, so that all ranks begin their exchanges in one order,
 * whatever the shapes of their last shards. Gradients of a second stream are complete after the
 * last call, which joins it. */
static ls_status place_sums(const ls_net *net, ls__program *p)
{
    const ls__net_shards *s = &net->shards;
    const size_t bytes = (size_t)s->n_ranges * sizeof *p->sum_positions;
    p->sum_positions = ls__bump_alloc(&p->bump, bytes);
    if (!p->sum_positions) return ls__fail_memory(p->ctx, "program", bytes);
    for (int i = 0, position = 0; i < s->n_ranges; i++) {
        const int end =
            i >= LS__SHARD_GRADIENTS && p->overlaps ? p->n_calls : end_of_writes(p, &s->ranges[i]);
        if (end > position) position = end;
        p->sum_positions[i] = position;
    }
    return LS_OK;
}

ls_status ls__net_find_shard_program(ls_net *net, int64_t n_samples, ls__program **out)
{
    for (int i = 0; i < net->graph.inputs.n; i++) net->fed_specs[i].shape.dims[0] = n_samples;
    LS_TRY(ls__net_program(net, LS_MODE_TRAIN, net->fed_specs, false, out));
    if ((*out)->sum_positions) return LS_OK;
    if ((*out)->is_synced) LS_TRY(ls__net_place_sync_points(net, *out));
    return place_sums(net, *out);
}

ls_status ls__net_find_shards(ls_net *net)
{
    ls__net_shards *s = &net->shards;
    const int64_t n_samples = net->fed_specs[0].shape.dims[0], min_samples = n_samples / s->n;
    for (int i = 0; i < net->graph.inputs.n; i++)
        if (net->fed_specs[i].shape.dims[0] != n_samples)
            return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                            "net: input '%s' has %lld samples and '%s' %lld, so that they can't be "
                            "cut into shards",
                            net->graph.inputs.items[i].name,
                            (long long)net->fed_specs[i].shape.dims[0],
                            net->graph.inputs.items[0].name, (long long)n_samples);
    if (ls__net_comm(net) && n_samples < s->n)
        return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                        "net: a batch of %lld samples is smaller than the number of shards, %lld; "
                        "with several ranks each shard requires a sample",
                        (long long)n_samples, (long long)s->n);
    s->parts = (ls__parts){ s->list,
                            .first = s->first,
                            .feeds = net->feeds,
                            .sums = s->sums,
                            .n_sums = s->n_ranges,
                            .last_call = s->running_call.kernel ? &s->running_call : NULL,
                            .synced_sums = s->synced_sums };
    if (ls__net_comm(net))
        find_rank_parts(s, n_samples);
    else
        find_shard_parts(s, n_samples);
    /* The shards' sizes differ by one at most. The larger ones' program is found again, because
     * that of the smaller ones may have replaced the arena. */
    ls__program *programs[2] = { NULL, NULL };
    if (n_samples % s->n != 0)
        LS_TRY(ls__net_find_shard_program(net, min_samples + 1, &programs[1]));
    if (min_samples > 0) LS_TRY(ls__net_find_shard_program(net, min_samples, &programs[0]));
    if (n_samples % s->n != 0)
        LS_TRY(ls__net_find_shard_program(net, min_samples + 1, &programs[1]));
    for (int64_t i = 0; i < s->parts.n; i++) {
        const int64_t end = i + 1 < s->parts.n ? s->list[i + 1].first_sample
                                               : ls__shard_first_sample(n_samples, s->end, s->n);
        ls__program *p = programs[end - s->list[i].first_sample > min_samples];
        s->list[i].program = p;
        s->list[i].calls = p->calls + (p->is_synced ? i * p->n_calls : 0);
    }
    const ls__program *last = s->list[s->parts.n - 1].program;
    if (s->running_call.kernel)
        s->running_call.buffers[1] = ls__program_address(last, last->momentum);
    return LS_OK;
}
