/* one_hot.c: see one_hot.h. The uploads follow data/loader/staging.c. */
#include "nn/net/one_hot.h"

#include "backend/pool.h"
#include "base/alloc.h"
#include "base/error.h"
#include <string.h>

void ls__one_hot_close(ls_context *ctx, ls__one_hot *one_hot)
{
    const ls__backend *backend = ctx->device->backend;
    for (int i = 0; i < LS__N_ONE_HOT_SLOTS; i++) {
        ls__one_hot_slot *slot = &one_hot->slots[i];
        if (slot->uploading && backend->event_wait(ctx->device, slot->uploaded) != LS_OK)
            (void)backend->wait(ctx->device); /* no copy may still read the block */
        if (slot->uploaded) backend->event_close(ctx->device, slot->uploaded);
        if (slot->read) backend->event_close(ctx->device, slot->read);
        ls__pool_release(ctx->host_pool, slot->block);
        ls__pool_release(ctx->pool, slot->memory);
    }
    ls__free(ctx, one_hot->labels);
    *one_hot = (ls__one_hot){ 0 };
}

static ls_status one_hot_allocate(ls__pool *pool, ls__stream stream, size_t bytes, void **out)
{
    *out = ls__pool_allocate_for(pool, stream, bytes);
    return *out ? LS_OK : ls__pool_fail(pool, bytes, "net: targets");
}

static ls_status open_slot(ls_context *ctx, ls__one_hot_slot *slot, size_t bytes)
{
    const ls__backend *backend = ctx->device->backend;
    const bool on_host = backend->host_memory;
    void *block;
    LS_TRY(one_hot_allocate(ctx->pool, on_host ? LS__STREAM_COMPUTE : LS__STREAM_COPY, bytes,
                            &slot->memory));
    if (on_host) return LS_OK;
    LS_TRY(one_hot_allocate(ctx->host_pool, LS__STREAM_COMPUTE, bytes, &block));
    slot->block = block;
    LS_TRY(backend->event_open(ctx->device, &slot->uploaded));
    return backend->event_open(ctx->device, &slot->read);
}

/* Memory for batches of up to n rows, which the next ones use again. */
static ls_status open_slots(ls_context *ctx, ls__one_hot *one_hot, int64_t n, int64_t classes)
{
    const size_t bytes = (size_t)(n * classes) * sizeof(float);
    const size_t label_bytes = (size_t)n * sizeof(int32_t);
    const int n_slots = ctx->device->backend->host_memory ? 1 : LS__N_ONE_HOT_SLOTS;
    ls_status status = LS_OK;
    for (int i = 0; i < n_slots && status == LS_OK; i++)
        status = open_slot(ctx, &one_hot->slots[i], bytes);
    if (status == LS_OK && n_slots > 1) {
        one_hot->labels = ls__alloc(ctx, label_bytes);
        if (!one_hot->labels) status = ls__fail_memory(ctx, "net: targets", label_bytes);
    }
    one_hot->max_n = n;
    if (status != LS_OK) ls__one_hot_close(ctx, one_hot);
    return status;
}

static ls_status one_hot_reserve(ls_context *ctx, ls__one_hot *one_hot, int64_t n, int64_t classes)
{
    const ls_shape *last = &one_hot->targets.shape;
    if (n > one_hot->max_n || last->dims[1] != classes) {
        ls__one_hot_close(ctx, one_hot);
        LS_TRY(open_slots(ctx, one_hot, n, classes));
    }
    if (last->dims[0] != n)
        ls__tensor_view(ctx, &one_hot->targets, LS_F32, LS_SHAPE(n, classes),
                        one_hot->slots[0].memory);
    return LS_OK;
}

static void write_rows(float *targets, const int32_t *labels, int64_t n, int64_t classes)
{
    memset(targets, 0, (size_t)(n * classes) * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        if (labels[i] >= 0 && labels[i] < classes) targets[i * classes + labels[i]] = 1;
}

/* All work on the previous batch is queued by now. */
static ls_status one_hot_upload(ls_context *ctx, ls__one_hot *one_hot, const int32_t *labels,
                                int64_t n, int64_t classes)
{
    ls__device *device = ctx->device;
    const int64_t at = one_hot->n_filled % LS__N_ONE_HOT_SLOTS;
    ls__one_hot_slot *slot = &one_hot->slots[at], *other = &one_hot->slots[1 - at];
    if (one_hot->n_filled > 0) LS_TRY(device->backend->event_record(device, other->read));
    if (slot->uploading) LS_TRY(device->backend->event_wait(device, slot->uploaded));
    slot->uploading = false;
    write_rows(slot->block, labels, n, classes);
    const bool is_used = one_hot->n_filled >= LS__N_ONE_HOT_SLOTS;
    LS_TRY(device->backend->upload(device, slot->memory, slot->block, one_hot->targets.bytes,
                                   is_used ? slot->read : NULL, slot->uploaded));
    slot->uploading = true;
    one_hot->n_filled++;
    one_hot->targets.data = slot->memory;
    return LS_OK;
}

ls_status ls__one_hot_fill(ls_context *ctx, ls__one_hot *one_hot, const ls_tensor *labels,
                           int64_t classes)
{
    const int64_t n = labels->count;
    LS_TRY(one_hot_reserve(ctx, one_hot, n, classes));
    const int32_t *values = ls_tensor_data_const(labels);
    if (!values) values = labels->host_copy;
    if (!values) {
        LS_TRY(ls_tensor_read(labels, one_hot->labels, (size_t)n * sizeof(int32_t)));
        values = one_hot->labels;
    }
    if (!ctx->device->backend->host_memory) return one_hot_upload(ctx, one_hot, values, n, classes);
    write_rows(one_hot->slots[0].memory, values, n, classes);
    return LS_OK;
}
