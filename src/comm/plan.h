/* plan.h: how ranks add the results of shards, as data: which bytes move, and what is added after
 * them. The sum has the bits of ls__shard_tree's rule for any number of ranks and machines:
 *
 *   node i of width 2^k, over the shards [i 2^k, min((i + 1) 2^k, n)), is the sum of its halves;
 *   a half without samples is left out.
 *
 * A rank computes a range of shards, and adds up the nodes that lie in it. What is left are its
 * pieces, one row of elements each. Levels follow (first the ranks of a machine, then one rank of
 * each machine): the ranks of a group cut their range of elements into one chunk per rank; each
 * rank receives its chunk of all pieces of the group, in the order of shards, and adds up the nodes
 * that they complete. After the last level one row is left: the sum, of the elements of one chunk.
 * Then the levels send their chunks back in reverse order, so that each rank gets all elements. */
#ifndef LS_COMM_PLAN_H
#define LS_COMM_PLAN_H

#include "base/context.h"
#include "comm/merges.h"

enum { LS__MAX_LEVELS = 2 };

/* The first shard of a rank, and the end for rank = n_ranks. */
int64_t ls__rank_first_shard(int64_t n_shards, int rank, int n_ranks);

/* The first sample of a shard of a batch of n_samples, and the end for shard = n_shards. */
int64_t ls__shard_first_sample(int64_t n_samples, int64_t shard, int64_t n_shards);

/* Elements [begin, begin + count) of a row, which another rank (or the own) sends or receives. */
typedef struct ls__transfer {
    int rank;
    int row;
    int64_t begin, count; /* > 0 */
} ls__transfer;

/* One level, as a rank sees it. Nothing is sent for an empty chunk, and the merges have no rows. */
typedef struct ls__level {
    int64_t begin, count;   /* its chunk; may be empty */
    ls__transfer *sends;    /* rows that the level before left, or the rank's pieces */
    ls__transfer *receives; /* to rows of this level, which hold elements of the chunk alone */
    /* The way back is in one row of all elements, row 0, to which the last level's sum is copied
     * before. */
    ls__transfer *returns;         /* the own chunk, to all others of the group */
    ls__transfer *return_receives; /* their chunks */
    int n_sends, n_receives, n_returns, n_return_receives;
    ls__merges merges; /* of the received rows */
} ls__level;

typedef struct ls__sum_plan {
    ls_context *ctx;
    ls__merges own; /* one row per shard of the rank that has samples */
    int n_levels;
    ls__level levels[LS__MAX_LEVELS];
} ls__sum_plan;

typedef struct ls__sum_plan_config {
    int64_t n_shards;    /* at most LS__MAX_RANK_SHARDS */
    const bool *present; /* [n_shards]: has samples; NULL = all */
    int rank, n_ranks;   /* n_ranks <= n_shards */
    const int *machines; /* [n_ranks], as in ls__comm; NULL = one machine */
    int64_t count;       /* elements of a row */
    int64_t unit;        /* chunks begin at multiples of it */
    bool replicated;     /* each chunk is the whole row, and nothing is sent back: for few
                            elements. One level */
} ls__sum_plan_config;

/* Two levels if there are several machines, and each has as many ranks as every other one, more
 * than one, with consecutive numbers; otherwise one. Errors: LS_ERR_INVALID names the values;
 * LS_ERR_MEMORY. *out is then closed. */
ls_status ls__sum_plan_open(ls_context *ctx, const ls__sum_plan_config *config, ls__sum_plan *out);
/* NULL and a plan of zeros: nothing. */
void ls__sum_plan_close(ls__sum_plan *plan);

#endif
