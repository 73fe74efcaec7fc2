/* evaluation_gather.c: the predictions and the results of the batches of all ranks in each of them;
 * see evaluation.h and evaluate.h. */
#include "train/evaluation.h"

#include "base/alloc.h"
#include "base/error.h"
#include "comm/agree.h"
#include "comm/merges.h"
#include "train/evaluate.h"

static const char what[] = "validation results";

/* Sets the numbers of items of the ranks, and returns their sum in *n. */
static ls_status gather_counts(ls_context *ctx, int64_t own, int64_t *counts, int64_t *n)
{
    LS_TRY(ls__comm_gather(ctx->comm, &own, sizeof own, counts, what));
    *n = 0;
    for (int r = 0; r < ctx->comm->n_ranks; r++) *n += counts[r];
    return LS_OK;
}

/* Replaces this rank's items by those of all ranks, n. */
static ls_status gather_items(ls_context *ctx, const int64_t *counts, int64_t n, size_t item_bytes,
                              void **items)
{
    void *all = ls__alloc(ctx, (size_t)n * item_bytes);
    if (!all) return ls__fail_memory(ctx, "predictions", (size_t)n * item_bytes);
    const ls_status status = ls__ranks_gather(ctx, *items, counts, item_bytes, all, what);
    ls__free(ctx, *items);
    *items = all;
    return status;
}

ls_status ls__evaluation_gather(ls_evaluation *e)
{
    ls_context *ctx = e->owned.ctx;
    const size_t row_bytes = (size_t)e->n_classes * sizeof *e->rows;
    int64_t counts[LS__MAX_RANK_SHARDS], n;
    LS_TRY(gather_counts(ctx, e->n, counts, &n));
    e->n = e->capacity = 0; /* until all arrays are gathered */
    LS_TRY(gather_items(ctx, counts, n, sizeof *e->outcomes, (void **)&e->outcomes));
    if (e->has_auc) {
        LS_TRY(gather_items(ctx, counts, n, sizeof *e->labels, (void **)&e->labels));
        LS_TRY(gather_items(ctx, counts, n, row_bytes, (void **)&e->rows));
    }
    e->n = e->capacity = n;
    return LS_OK;
}

/* ---- Results of batches ---- */

void ls__batch_list_free(const ls_context *ctx, ls__batch_list *list)
{
    ls__free(ctx, list->items);
    *list = (ls__batch_list){ 0 };
}

ls_status ls__batch_list_add(ls_context *ctx, ls__batch_list *list, const ls__batch_sums *item)
{
    if (list->n == list->capacity) {
        const int64_t capacity = 2 * list->capacity + 16;
        const size_t bytes = (size_t)capacity * sizeof *item;
        void *memory = ls__realloc(ctx, list->items, (size_t)list->n * sizeof *item, bytes);
        if (!memory) return ls__fail_memory(ctx, "validation batches", bytes);
        list->items = memory;
        list->capacity = capacity;
    }
    list->items[list->n++] = *item;
    return LS_OK;
}

ls_status ls__batch_list_gather(ls_context *ctx, const ls__batch_list *own, int64_t n_batches,
                                ls__batch_list *all)
{
    int64_t counts[LS__MAX_RANK_SHARDS], n;
    LS_TRY(gather_counts(ctx, own->n, counts, &n));
    ls__batch_sums *of_ranks = ls__alloc(ctx, (size_t)n * sizeof *of_ranks);
    ls_status status =
        of_ranks ? ls__ranks_gather(ctx, own->items, counts, sizeof *of_ranks, of_ranks, what)
                 : ls__fail_memory(ctx, "validation batches", (size_t)n * sizeof *of_ranks);
    for (int64_t i = 0; i * ctx->comm->n_ranks < n_batches; i++) {
        const ls__batch_sums *next = of_ranks; /* of a rank, and then of the next one */
        for (int r = 0; r < ctx->comm->n_ranks && status == LS_OK; next += counts[r++])
            if (i < counts[r]) status = ls__batch_list_add(ctx, all, &next[i]);
    }
    ls__free(ctx, of_ranks);
    return status;
}
