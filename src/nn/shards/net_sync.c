/* net_sync.c: synchronised batch norms of shards: the memory of their sums, the exchanges between
 * ranks, and the sync points of a program. See plan/shard.h. */
#include "base/alloc.h"
#include "base/error.h"
#include "arith/norm_sums.h"
#include "nn/layers/layers.h"
#include "nn/net/net_state.h"

/* ---- Sums of the results of each shard ---- */

/* Copies of the first call of each sum, which read the results of one shard each. */
static ls_status copy_sums(ls_net *net)
{
    ls__net_shards *s = &net->shards;
    const int64_t n = s->end - s->first, stride = net->blocks.gradient_stride;
    const size_t bytes = (size_t)(n * s->n_ranges) * sizeof *s->synced_sums;
    ls__call *call = s->synced_sums = ls__zalloc(net->owned.ctx, bytes);
    if (!call) return ls__fail_memory(net->owned.ctx, "net", bytes);
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < s->n_ranges; j++, call++) {
            enum { X, WEIGHT };
            *call = s->sums[j].calls[0];
            for (int k = X; k <= WEIGHT; k++)
                if (call->buffers[k]) call->buffers[k] = (float *)call->buffers[k] + i * stride;
        }
    return LS_OK;
}

/* ---- Exchanges ---- */

/* Each rank sends the rows of its shards to all others. */
static void set_norm_messages(const ls_net *net, float *rows, int64_t row_elements,
                              ls__message *sends)
{
    const ls__net_shards *s = &net->shards;
    const ls__comm *comm = ls__net_comm(net);
    ls__message *receives = sends + comm->n_ranks - 1;
    const size_t row_bytes = (size_t)row_elements * sizeof *rows;
    for (int i = 0; i < comm->n_ranks; i++) {
        if (i == comm->rank) continue;
        const int64_t first = ls__rank_first_shard(s->n, i, comm->n_ranks),
                      end = ls__rank_first_shard(s->n, i + 1, comm->n_ranks);
        *sends++ = (ls__message){ .rank = i,
                                  .data = rows + s->first * row_elements,
                                  .bytes = (size_t)(s->end - s->first) * row_bytes };
        *receives++ = (ls__message){ .rank = i,
                                     .data = rows + first * row_elements,
                                     .bytes = (size_t)(end - first) * row_bytes };
    }
}

static ls_status open_norm_exchange(ls_net *net, const ls_node *norm, ls__message *messages)
{
    ls__net_shards *s = &net->shards;
    const int n = ls__net_comm(net)->n_ranks - 1;
    const ls__parameter *mean = &net->graph.parameters[norm->parameters[LS__RUNNING_MEAN]];
    float *rows =
        s->norm_sums + ls__norm_sums_offset(s->n, mean->offset - net->blocks.parameter_elements);
    ls__call *call = &s->norm_exchanges[s->n_norm_exchanges++];
    set_norm_messages(net, rows, LS__NORM_SUMS * mean->count, messages);
    LS_TRY(ls__net_open_exchange(net, norm->name, messages, n, n, call));
    call->buffers[0] = rows;
    return LS_OK;
}

/* Opens exchanges for all batch norms, because a frozen one may be trained later. */
static ls_status open_exchanges(ls_net *net)
{
    ls_context *ctx = net->owned.ctx;
    ls__net_shards *s = &net->shards;
    const ls_graph *graph = &net->graph;
    const size_t bytes = (size_t)graph->n_nodes * sizeof *s->norm_exchanges;
    const size_t message_bytes = 2 * (size_t)ls__net_comm(net)->n_ranks * sizeof(ls__message);
    s->norm_exchanges = ls__zalloc(ctx, bytes);
    ls__message *messages = ls__alloc(ctx, message_bytes);
    ls_status status = LS_OK;
    if (!s->norm_exchanges || !messages)
        status = ls__fail_memory(ctx, "net", bytes + message_bytes);
    for (int i = 0; i < graph->n_nodes && status == LS_OK; i++)
        if (graph->nodes[i]->layer == &ls__batch_norm_layer)
            status = open_norm_exchange(net, graph->nodes[i], messages);
    ls__free(ctx, messages);
    return status;
}

ls_status ls__net_open_sync(ls_net *net)
{
    ls__net_shards *s = &net->shards;
    const ls__net_blocks *blocks = &net->blocks;
    if (!s->is_synced) return LS_OK;
    const int64_t n_buffers = blocks->block_elements - blocks->parameter_elements;
    LS_TRY(ls__net_shard_memory(net, "sums of batch norms", ls__norm_sums_offset(s->n, n_buffers),
                                &s->norm_sums));
    LS_TRY(copy_sums(net));
    return ls__net_comm(net) ? open_exchanges(net) : LS_OK;
}

void ls__net_close_sync(ls_net *net)
{
    ls_context *ctx = net->owned.ctx;
    ls__net_shards *s = &net->shards;
    for (int i = 0; i < s->n_norm_exchanges; i++)
        ctx->device_comm->provider->exchange_close(s->norm_exchanges[i].exchange);
    ls__pool_release(ctx->pool, s->norm_sums);
    ls__free(ctx, s->norm_exchanges);
    ls__free(ctx, s->synced_sums);
}

/* ---- Sync points ---- */

/* NULL: one rank. */
static ls__call *exchange_after(const ls_net *net, const ls__program *p, const ls__instruction *in)
{
    const ls__net_shards *s = &net->shards;
    for (int j = 0; j < in->op.n_operands; j++)
        for (int i = 0; i < s->n_norm_exchanges && in->operands[j] >= 0; i++)
            if (s->norm_exchanges[i].buffers[0] == ls__program_address(p, in->operands[j]))
                return &s->norm_exchanges[i];
    return NULL;
}

ls_status ls__net_place_sync_points(const ls_net *net, ls__program *p)
{
    const int n_inputs = p->graph->inputs.n;
    const size_t bytes = (size_t)(p->n_instructions + 1) * sizeof *p->sync_points;
    p->sync_points = ls__bump_alloc(&p->bump, bytes);
    if (!p->sync_points) return ls__fail_memory(p->ctx, "program", bytes);
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        const bool is_sum = ls__op_traits_of(in->op.kind)->all_shards;
        if (is_sum || i + 1 == p->n_forward)
            p->sync_points[p->n_sync_points++] =
                (ls__sync_point){ n_inputs + i + 1, is_sum ? exchange_after(net, p, in) : NULL };
    }
    p->sync_points[p->n_sync_points++] = (ls__sync_point){ .position = p->n_calls };
    return LS_OK;
}
