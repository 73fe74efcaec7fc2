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
 * and a half without samples is left out. */
#ifndef LS_NN_PLAN_SHARD_H
#define LS_NN_PLAN_SHARD_H

#include "nn/plan/program.h"

/* A part of a step: a shard, or the whole batch. */
typedef struct ls__shard {
    ls__program *program;
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

/* The elements of the block. */
static inline int64_t ls__shard_elements(int64_t block_elements, const ls_graph *graph)
{
    return ls__shard_scalar(block_elements, ls__shard_losses(graph) + graph->losses.n);
}

#endif
