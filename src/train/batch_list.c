/* batch_list.c: see batch_list.h. */
#include "train/batch_list.h"

#include "base/alloc.h"
#include "base/error.h"
#include "comm/comm.h"
#include <string.h>

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
