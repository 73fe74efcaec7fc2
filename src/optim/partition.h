/* partition.h: ls_context_config.partition_optimizer (ZeRO stage 1: Rajbhandari et al. 2020): the
 * block of parameters is cut into one part per rank. A rank holds the optimizer's states of its
 * part alone, updates the part, and sends it to all. Updates are element by element, so their bits
 * do not depend on the parts. */
#ifndef LS_OPTIM_PARTITION_H
#define LS_OPTIM_PARTITION_H

#include "comm/plan.h"
#include "nn/plan/program.h"

typedef struct ls__part {
    int64_t begin, count; /* elements of the block of parameters */
} ls__part;

typedef struct ls__partition {
    ls_context *ctx;
    ls__part own;    /* with one rank, or without partition_optimizer: the whole block */
    ls__part *parts; /* per rank; NULL without several parts */
    ls__exchange *exchanges[LS__MAX_LEVELS]; /* send the own part of the values to all ranks */
    int n_exchanges;
} ls__partition;

/* values: the block of parameters, of `count` elements. */
ls_status ls__partition_open(ls_context *ctx, float *values, int64_t count, ls__partition *out);
void ls__partition_close(ls__partition *partition);

/* Makes a call of a step for each of n_exchanges. */
void ls__partition_make_calls(const ls__partition *partition, ls__call *calls);
/* Runs these exchanges now. */
ls_status ls__partition_exchange(const ls__partition *partition, const char *what);

/* Sends each rank's part of a block to rank 0. own: the part. whole: the block, NULL in the other
 * ranks. */
ls_status ls__partition_collect(const ls__partition *partition, float *own, float *whole,
                                const char *what);

#endif
