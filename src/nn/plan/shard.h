/* shard.h: a shard is one of n contiguous parts of a training batch, of samples floor(N s / n) to
 * floor(N (s + 1) / n) - 1 of N. A program of the shard's shape computes its results, into the
 * block of gradients:
 *
 *   gradients      of the shard's mean loss
 *   statistics     at the buffers' offsets: momentum times the statistics of each batch norm
 *   scalars        one per LS__PARAMETER_ALIGNMENT elements: weight, metrics, losses
 *
 * The weight w is the divisor of the shard's mean loss: the sum of the class weights of its labels,
 * or its number of samples. The batch's gradients and losses are (sum of w x) / (sum of w), its
 * metrics are sums, its statistics are the mean over the shards that have samples. All sums run
 * over a binary tree of shard numbers (SHARD_SUM): node i of width 2^k is the sum of its halves,
 * and a half without samples is left out.
 *
 * With synchronised batch norms, a rank's shards run at the same time, each in an arena and a block
 * of gradients of its own, from one sync point to the next:
 *
 *   a batch norm     in each direction, its sums over all shards (arith/norm_sums.h; the tree runs
 *                    over the shards that have samples, without gaps)
 *   the losses       sum of w: a shard's backward pass begins with (w / sum of w) times the
 *                    gradient of its mean loss
 *
 * So its gradients are the shard's part of the batch's, whose sums have no weights; and each shard
 * has the statistics of the batch. */
#ifndef LS_NN_PLAN_SHARD_H
#define LS_NN_PLAN_SHARD_H

#include "comm/plan.h"
#include "nn/plan/program.h"

/* The addition of a range of all shards' results. calls[0] adds the results of one shard to the
 * sums of this rank's earlier shards, and follows each shard. The others (adds_ranks) add the sums
 * of other ranks, and follow the last shard: exchanges, each of which may be followed by the
 * addition of what it received. They may run at the same time as later calls and as other
 * additions, but for the first one of a step, whose result is the divisor of the others. */
enum { LS__MAX_SUM_CALLS = 1 + 3 * LS__MAX_LEVELS, LS__MAX_SHARD_SUMS = 34 };
typedef struct ls__shard_sum {
    ls__call calls[LS__MAX_SUM_CALLS];
    int n_calls;
} ls__shard_sum;

/* A part of a step: a shard, or the whole batch. */
typedef struct ls__shard {
    ls__program *program;
    ls__call *calls; /* the program's, or a copy of them */
    int64_t first_sample;
    int64_t n_sums, n_merged; /* as in ls__step */
} ls__shard;

/* Indices of scalars. */
enum { LS__SHARD_WEIGHT, LS__SHARD_METRICS };

static inline int ls__shard_losses(const ls_graph *graph)
{
    return LS__SHARD_METRICS + graph->metrics.n;
}

/* The offset of a scalar in the block. */
static inline int64_t ls__shard_scalar(int64_t block_elements, int i)
{
    return block_elements + (int64_t)i * LS__PARAMETER_ALIGNMENT;
}

/* The offset of the sums of a batch norm, [shards,4,C], in their block, by the offset of its
 * running mean behind the parameters. The running variance follows that, so that two such blocks
 * have room for four values per channel. */
static inline int64_t ls__norm_sums_offset(int64_t n_shards, int64_t running_mean)
{
    return 2 * n_shards * running_mean;
}

/* The elements of the block. */
static inline int64_t ls__shard_elements(int64_t block_elements, const ls_graph *graph)
{
    return ls__shard_scalar(block_elements, ls__shard_losses(graph) + graph->losses.n);
}

#endif
