/* evaluation_gather.c: the predictions and the results of the batches of all ranks in each of them;
 * see evaluation.h and evaluate.h. */
#include "train/evaluation.h"

#include "base/alloc.h"
#include "base/error.h"
#include "comm/comm.h"
#include "comm/merges.h"
#include "train/evaluate.h"
#include <string.h>

/* The numbers of predictions of the ranks, before they are gathered. */
typedef struct gathering {
    ls__comm *comm;
    int64_t counts[LS__MAX_RANK_SHARDS];
    int64_t max;
    char *received; /* LS__GATHER_BYTES per rank */
} gathering;

/* Appends the items of the other ranks, in the order of ranks, to an array that begins with those
 * of this one and has room for all. A gather moves the same number of bytes from each rank: the
 * rest of the last ones is not read. */
static ls_status gather_items(const gathering *g, void *items, size_t item_bytes)
{
    const int own_rank = g->comm->rank;
    const size_t n_own = (size_t)g->counts[own_rank] * item_bytes;
    char some[LS__GATHER_BYTES], *bytes = items;
    for (size_t first = 0; first < (size_t)g->max * item_bytes; first += sizeof some) {
        memset(some, 0, sizeof some);
        if (first < n_own)
            memcpy(some, bytes + first, n_own - first < sizeof some ? n_own - first : sizeof some);
        LS_TRY(ls__comm_gather(g->comm, some, sizeof some, g->received, "validation results"));
        size_t begin = n_own; /* of the rank's items */
        for (int r = 0; r < g->comm->n_ranks; r++) {
            const size_t n = (size_t)g->counts[r] * item_bytes;
            if (r == own_rank) continue;
            if (first < n)
                memcpy(bytes + begin + first, g->received + (size_t)r * sizeof some,
                       n - first < sizeof some ? n - first : sizeof some);
            begin += n;
        }
    }
    return LS_OK;
}

static ls_status gather_all(gathering *g, ls_evaluation *e)
{
    const int64_t n_own = e->n;
    int64_t n = 0;
    LS_TRY(ls__comm_gather(g->comm, &n_own, sizeof n_own, g->counts, "validation results"));
    for (int r = 0; r < g->comm->n_ranks; r++) {
        n += g->counts[r];
        if (g->counts[r] > g->max) g->max = g->counts[r];
    }
    LS_TRY(ls__evaluation_reserve(e, n - n_own));
    LS_TRY(gather_items(g, e->outcomes, sizeof *e->outcomes));
    if (e->has_auc) {
        LS_TRY(gather_items(g, e->labels, sizeof *e->labels));
        LS_TRY(gather_items(g, e->rows, (size_t)e->n_classes * sizeof *e->rows));
    }
    e->n = n;
    return LS_OK;
}

ls_status ls__evaluation_gather(ls_evaluation *e)
{
    ls_context *ctx = e->owned.ctx;
    gathering g = { .comm = ctx->comm };
    const size_t bytes = (size_t)g.comm->n_ranks * LS__GATHER_BYTES;
    g.received = ls__alloc(ctx, bytes);
    const ls_status status =
        g.received ? gather_all(&g, e) : ls__fail_memory(ctx, "predictions", bytes);
    ls__free(ctx, g.received);
    return status;
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
    enum { AT_ONCE = LS__GATHER_BYTES / sizeof(ls__batch_sums) };
    const int64_t n_ranks = ctx->comm->n_ranks;
    const size_t bytes = (size_t)n_ranks * AT_ONCE * sizeof(ls__batch_sums);
    ls__batch_sums some[AT_ONCE], *received = ls__alloc(ctx, bytes);
    ls_status status = received ? LS_OK : ls__fail_memory(ctx, "validation batches", bytes);
    for (int64_t first = 0; first * n_ranks < n_batches && status == LS_OK; first += AT_ONCE) {
        memset(some, 0, sizeof some);
        for (int64_t i = first; i < own->n && i < first + AT_ONCE; i++)
            some[i - first] = own->items[i];
        status = ls__comm_gather(ctx->comm, some, sizeof some, received, "validation results");
        for (int64_t i = 0; i < AT_ONCE && status == LS_OK; i++)
            for (int64_t r = 0; r < n_ranks && status == LS_OK; r++)
                if ((first + i) * n_ranks + r < n_batches)
                    status = ls__batch_list_add(ctx, all, &received[r * AT_ONCE + i]);
    }
    ls__free(ctx, received);
    return status;
}
