/* staging.c: uploads batches to the device.
 *
 * Where the host can write the device's memory, workers write there. Elsewhere they write to host
 * memory that the device copies asynchronously:
 *
 *   block    written by workers, then uploaded; written again after `uploaded`, which the caller
 *            waits for one batch later
 *   buffer   target of the upload after `read`, which is queued when the caller takes the next
 *            batch; work queued later waits for the upload
 *
 * So a batch is copied while the device computes on the one before it. */
#include "data/loader/loader.h"

#include "base/error.h"
#include "backend/pool.h"

static ls_status allocate(const ls_loader *loader, ls__pool *pool, ls__stream stream, size_t bytes,
                          void **out)
{
    *out = ls__pool_allocate_for(pool, stream, bytes);
    if (*out) return LS_OK;
    return ls__pool_fail(pool, bytes, "ls_loader_open: %d batches take %zu bytes each",
                         loader->n_slots, bytes);
}

static ls_status open_slot(ls_loader *loader, ls__slot *slot, size_t bytes)
{
    ls_context *ctx = loader->owned.ctx;
    const size_t n = (size_t)loader->config.batch_size;
    LS_TRY(allocate(loader, loader->host_memory ? ctx->pool : ctx->host_pool, LS__STREAM_COMPUTE,
                    bytes, &slot->block));
    slot->samples = ls__bump_alloc(&loader->bump, n * sizeof(int64_t));
    slot->results = ls__bump_alloc(&loader->bump, n * sizeof(ls__item_result));
    if (!slot->samples || !slot->results)
        return ls__fail_memory(ctx, "ls_loader_open", n * sizeof(ls__item_result));
    slot->label_values = slot->block;
    slot->targets = (float *)((uint8_t *)slot->block + loader->label_bytes);
    slot->pixels = (uint8_t *)slot->targets + loader->target_bytes;
    if (loader->host_memory) return LS_OK;
    return ctx->device->backend->event_open(ctx->device, &slot->uploaded);
}

ls_status ls__staging_open(ls_loader *loader)
{
    const size_t n = (size_t)loader->config.batch_size;
    loader->label_bytes = ls__round_up(n * sizeof(int32_t), 64);
    loader->target_bytes = ls__round_up(n * (size_t)loader->n_targets * sizeof(float), 64);
    const size_t bytes = loader->label_bytes + loader->target_bytes + n * loader->sample_bytes;
    loader->held_slot = -1;
    for (int i = 0; i < loader->n_slots; i++) LS_TRY(open_slot(loader, &loader->slots[i], bytes));
    ls__device *device = loader->owned.ctx->device;
    for (int i = 0; !loader->host_memory && i < LS__N_STAGING_BUFFERS; i++) {
        LS_TRY(allocate(loader, loader->owned.ctx->pool, LS__STREAM_COPY, bytes,
                        &loader->staging[i].memory));
        LS_TRY(device->backend->event_open(device, &loader->staging[i].read));
    }
    return LS_OK;
}

void ls__staging_close(ls_loader *loader)
{
    ls_context *ctx = loader->owned.ctx;
    const ls__backend *backend = ctx->device->backend;
    if (loader->slots && ls__staging_wait(loader, true) != LS_OK)
        (void)backend->wait(ctx->device); /* no copy may still read the blocks */
    for (int i = 0; loader->slots && i < loader->n_slots; i++) {
        ls__slot *slot = &loader->slots[i];
        if (slot->uploaded) backend->event_close(ctx->device, slot->uploaded);
        ls__pool_release(loader->host_memory ? ctx->pool : ctx->host_pool, slot->block);
    }
    for (int i = 0; i < LS__N_STAGING_BUFFERS; i++) {
        if (loader->staging[i].read) backend->event_close(ctx->device, loader->staging[i].read);
        ls__pool_release(ctx->pool, loader->staging[i].memory);
    }
}

static ls__staging_buffer *buffer_of(ls_loader *loader, int64_t upload)
{
    return &loader->staging[upload % LS__N_STAGING_BUFFERS];
}

ls_status ls__staging_release(ls_loader *loader)
{
    ls__device *device = loader->owned.ctx->device;
    if (loader->held_slot < 0) return LS_OK;
    loader->held_slot = -1;
    return device->backend->event_record(device, buffer_of(loader, loader->n_uploads - 1)->read);
}

ls_status ls__staging_wait(ls_loader *loader, bool all)
{
    ls__device *device = loader->owned.ctx->device;
    for (int i = 0; i < loader->n_slots; i++) {
        ls__slot *slot = &loader->slots[i];
        if (!slot->uploading || (i == loader->held_slot && !all)) continue;
        LS_TRY(device->backend->event_wait(device, slot->uploaded));
        slot->uploading = false;
    }
    return LS_OK;
}

ls_status ls__staging_upload(ls_loader *loader, ls__slot *slot, size_t bytes, void **memory)
{
    ls__device *device = loader->owned.ctx->device;
    *memory = slot->block;
    if (loader->host_memory) return LS_OK;
    const ls__staging_buffer *buffer = buffer_of(loader, loader->n_uploads);
    LS_TRY(device->backend->upload(device, buffer->memory, slot->block, bytes, buffer->read,
                                   slot->uploaded));
    slot->uploading = true;
    loader->n_uploads++;
    loader->held_slot = (int)(slot - loader->slots);
    *memory = buffer->memory;
    return LS_OK;
}
