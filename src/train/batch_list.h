/* batch_list.h: the results of validation batches, each of which one of several ranks has run. */
#ifndef LS_TRAIN_BATCH_LIST_H
#define LS_TRAIN_BATCH_LIST_H

#include "checkpoint/progress.h"
#include <lockstep/context.h>

/* The results of a validation batch, whose sums are those of the batch. */
typedef struct ls__batch_sums {
    ls__sums sums;
    int64_t step, first_sample;
} ls__batch_sums;

/* A growing list of a rank's batches: of a pass over n batches, rank r has the batches r, r +
 * n_ranks and so on. */
typedef struct ls__batch_list {
    ls__batch_sums *items;
    int64_t n, capacity;
} ls__batch_list;

ls_status ls__batch_list_add(ls_context *ctx, ls__batch_list *list, const ls__batch_sums *item);
/* All ranks call it with their lists; each gets those of all, in the order of batches. */
ls_status ls__batch_list_gather(ls_context *ctx, const ls__batch_list *own, int64_t n_batches,
                                ls__batch_list *all);
void ls__batch_list_free(const ls_context *ctx, ls__batch_list *list);

#endif
