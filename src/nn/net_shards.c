/* net_shards.c: the shards of a net's training batches: memory and calls for the sums of their
 * results, and the shards of a batch. See plan/shard.h. */
#include "base/alloc.h"
#include "base/error.h"
#include "nn/layers/layers.h"
#include "nn/net_state.h"

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

ls_status ls__net_check_shards(const ls_net *net)
{
    const ls_graph *graph = &net->graph;
    const int64_t n = net->shards.n, batch = graph->inputs.items[0].node->spec.shape.dims[0];
    if (n == 1) return LS_OK;
    if (batch % n != 0)
        return ls__fail(net->owned.ctx, LS_ERR_INVALID,
                        "ls_net_build: the batch size is %lld, expected a multiple of the "
                        "context's %lld shards",
                        (long long)batch, (long long)n);
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->layer == &ls__custom_layer)
            return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                            "net: custom op '%s' can't be trained with %lld shards, because it may "
                            "depend on the whole batch",
                            graph->nodes[i]->name, (long long)n);
    for (int i = 0; i < graph->losses.n; i++) LS_TRY(check_loss(net, &graph->losses.items[i]));
    return LS_OK;
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

static void count_ranges(ls_net *net)
{
    const ls__net_blocks *blocks = &net->blocks;
    const ls_graph *graph = &net->graph;
    const int64_t parameters = blocks->parameter_elements;
    const int64_t losses = ls__shard_scalar(blocks->block_elements, ls__shard_losses(graph));
    const int64_t end = ls__shard_elements(blocks->block_elements, graph);
    ls__shard_range *ranges = net->shards.ranges;
    ranges[LS__SHARD_SUMS] = (ls__shard_range){ "shard", parameters, losses - parameters };
    ranges[LS__SHARD_LOSSES] = (ls__shard_range){ "losses", losses, end - losses };
    ranges[LS__SHARD_GRADIENTS] = (ls__shard_range){ "gradients", 0, parameters };
}

/* After the memory has been allocated. */
static void place_ranges(ls_net *net)
{
    const ls__net_blocks *blocks = &net->blocks;
    const int64_t weight = ls__shard_scalar(blocks->block_elements, LS__SHARD_WEIGHT);
    float *partial = net->shards.sums;
    for (int i = 0; i < LS__N_SHARD_RANGES; i++) {
        ls__shard_range *r = &net->shards.ranges[i];
        r->partial = partial;
        partial += net->shards.n_rows * r->count;
        r->sum = i == LS__SHARD_GRADIENTS
                     ? blocks->gradients
                     : net->shards.results + (r->begin - blocks->parameter_elements);
        if (i == LS__SHARD_SUMS) continue;
        r->weight = blocks->gradients + weight;
        r->total = net->shards.results + (weight - blocks->parameter_elements);
    }
}

static ls_status open_call(ls_net *net, int op, int call, const char *name, ls__op_kind kind,
                           int n_blocks, const ls__block *blocks)
{
    ls__net_shards *s = &net->shards;
    s->ops[op] = (ls__op){ .kind = kind };
    return ls__selector_open_call(&net->selector, &s->ops[op], "net", name, n_blocks, blocks,
                                  &s->calls[call]);
}

static ls_status open_calls(ls_net *net)
{
    ls__net_shards *s = &net->shards;
    const ls__net_blocks *blocks = &net->blocks;
    const int64_t n_buffers = blocks->block_elements - blocks->parameter_elements;
    const ls_shape one = LS_SHAPE(1), buffers = LS_SHAPE(n_buffers);
    for (int i = 0; i < LS__N_SHARD_RANGES; i++) {
        const ls__shard_range *r = &s->ranges[i];
        if (r->count == 0) continue;
        LS_TRY(open_call(net, i, s->parts.n_calls++, r->name, LS__OP_SHARD_SUM, 5,
                         (const ls__block[]){ { LS_SHAPE(r->count), blocks->gradients + r->begin },
                                              { one, (float *)r->weight },
                                              { one, (float *)r->total },
                                              { LS_SHAPE(s->n_rows, r->count), r->partial },
                                              { LS_SHAPE(r->count), r->sum } }));
    }
    if (ls__net_comm(net)) LS_TRY(ls__net_open_rank_calls(net));
    if (n_buffers == 0) return LS_OK;
    /* The momentum is the program's. */
    s->running_call = s->parts.n_calls + s->parts.n_last_calls++;
    return open_call(
        net, LS__N_SHARD_RANGES, s->running_call, "shard", LS__OP_RUNNING_STATISTICS, 3,
        (const ls__block[]){ { buffers, s->results },
                             { buffers, s->results },
                             { buffers, blocks->values + blocks->parameter_elements } });
}

ls_status ls__net_open_shards(ls_net *net)
{
    ls__net_shards *s = &net->shards;
    const size_t bytes = (size_t)s->n * sizeof *s->list;
    s->list = ls__zalloc(net->owned.ctx, bytes);
    if (!s->list) return ls__fail_memory(net->owned.ctx, "net", bytes);
    s->parts = (ls__parts){ .list = s->list, .feeds = net->feeds, .calls = s->calls };
    s->end = s->n;
    if (s->n == 1) return LS_OK;
    const ls__net_blocks *blocks = &net->blocks;
    const int64_t elements = ls__shard_elements(blocks->block_elements, &net->graph);
    s->n_rows = count_digits(s->n);
    count_ranges(net);
    if (ls__net_comm(net)) LS_TRY(ls__net_open_rank_sums(net));
    LS_TRY(ls__net_shard_memory(net, "sums of shards", s->n_rows * elements, &s->sums));
    LS_TRY(ls__net_shard_memory(net, "results of shards", elements - blocks->parameter_elements,
                                &s->results));
    place_ranges(net);
    return open_calls(net);
}

void ls__net_close_shards(ls_net *net)
{
    ls_context *ctx = net->owned.ctx;
    ls__net_shards *s = &net->shards;
    for (int i = 0; i < LS__MAX_SHARD_CALLS; i++) ls__call_close(ctx, &s->calls[i]);
    ls__net_close_rank_sums(net);
    ls__pool_release(ctx->pool, s->sums);
    ls__pool_release(ctx->pool, s->results);
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
static void find_parts(ls__net_shards *s, int64_t n_samples)
{
    s->parts.n = s->parts.n_all = 0;
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
    const ls__merges *own = &s->rank_sums[LS__SHARD_SUMS].plan.own;
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

static ls_status find_program(ls_net *net, int64_t n_samples, ls__program **out)
{
    for (int i = 0; i < net->graph.inputs.n; i++) net->fed_specs[i].shape.dims[0] = n_samples;
    return ls__net_program(net, LS_MODE_TRAIN, net->fed_specs, false, out);
}

ls_status ls__net_find_shards(ls_net *net)
{
    ls__net_shards *s = &net->shards;
    const int64_t n_samples = net->fed_specs[0].shape.dims[0], least = n_samples / s->n;
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
    if (ls__net_comm(net))
        find_rank_parts(s, n_samples);
    else
        find_parts(s, n_samples);
    /* The shards' sizes differ by one at most. The larger ones' program is found again, because
     * that of the smaller ones may have replaced the arena. */
    ls__program *programs[2] = { NULL, NULL };
    if (n_samples % s->n != 0) LS_TRY(find_program(net, least + 1, &programs[1]));
    if (least > 0) LS_TRY(find_program(net, least, &programs[0]));
    if (n_samples % s->n != 0) LS_TRY(find_program(net, least + 1, &programs[1]));
    for (int64_t i = 0; i < s->parts.n; i++) {
        const int64_t end = i + 1 < s->parts.n ? s->list[i + 1].first_sample
                                               : ls__shard_first_sample(n_samples, s->end, s->n);
        s->list[i].program = programs[end - s->list[i].first_sample > least];
    }
    const ls__program *last = s->list[s->parts.n - 1].program;
    if (s->running_call > 0)
        s->calls[s->running_call].buffers[1] = ls__program_address(last, last->momentum);
    return LS_OK;
}
