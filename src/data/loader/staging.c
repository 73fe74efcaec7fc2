/* staging.c: how batches get to the device.
 *
 * Where the host can write the device's memory, workers do. Elsewhere they write to host memory
 * that the device copies from by itself, and nobody waits for that in turn:
 *
 *   block    workers write it; uploaded; workers may write it again when `uploaded` has happened,
 *            which is looked at a batch later, when it long has
 *   stage    uploaded to, after `read`, which is recorded when the caller asks for the next batch;
 *            read by what is queued after that, which the backend makes wait for the upload
 *
 * So while the device works on one batch the next is copied, and the host is at most two ahead. */
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

static ls_status open_slot(const ls_loader *loader, ls__slot *slot, size_t bytes)
{
    ls_context *ctx = loader->owned.ctx;
    const size_t n = (size_t)loader->config.batch;
    LS_TRY(allocate(loader, loader->host_memory ? ctx->pool : ctx->host_pool, LS__STREAM_COMPUTE,
                    bytes, &slot->block));
    slot->samples = ls__alloc(ctx, n * sizeof(int64_t));
    slot->places = ls__zalloc(ctx, n * sizeof(ls__place));
    if (!slot->samples || !slot->places)
        return ls__fail_memory(ctx, "ls_loader_open", n * sizeof(ls__place));
    slot->label_values = slot->block;
    slot->pixels = (uint8_t *)slot->block + loader->label_bytes;
    if (loader->host_memory) return LS_OK;
    return ctx->device->backend->event_open(ctx->device, &slot->uploaded);
}

static ls_status open_stage(const ls_loader *loader, ls__staging *stage, size_t bytes)
{
    ls__device *device = loader->owned.ctx->device;
    LS_TRY(allocate(loader, loader->owned.ctx->pool, LS__STREAM_COPY, bytes, &stage->memory));
    return device->backend->event_open(device, &stage->read);
}

ls_status ls__staging_open(ls_loader *loader)
{
    const size_t n = (size_t)loader->config.batch;
    loader->label_bytes = ls__round_up(n * sizeof(int32_t), 64);
    const size_t bytes = loader->label_bytes + n * loader->sample_bytes;
    loader->out = -1;
    for (int i = 0; i < loader->n_slots; i++) LS_TRY(open_slot(loader, &loader->slots[i], bytes));
    for (int i = 0; !loader->host_memory && i < LS__N_STAGES; i++)
        LS_TRY(open_stage(loader, &loader->stages[i], bytes));
    return LS_OK;
}

void ls__staging_close(ls_loader *loader)
{
    ls_context *ctx = loader->owned.ctx;
    const ls__backend *backend = ctx->device->backend;
    if (loader->slots && ls__staging_settle(loader, true) != LS_OK)
        (void)backend->wait(ctx->device); /* nothing may be read any more */
    for (int i = 0; loader->slots && i < loader->n_slots; i++) {
        ls__slot *slot = &loader->slots[i];
        if (slot->uploaded) backend->event_close(ctx->device, slot->uploaded);
        ls__pool_release(loader->host_memory ? ctx->pool : ctx->host_pool, slot->block);
        ls__free(ctx, slot->places);
        ls__free(ctx, slot->samples);
    }
    for (int i = 0; i < LS__N_STAGES; i++) {
        if (loader->stages[i].read) backend->event_close(ctx->device, loader->stages[i].read);
        ls__pool_release(ctx->pool, loader->stages[i].memory);
    }
}

static ls__staging *stage_of(ls_loader *loader, int64_t upload)
{
    return &loader->stages[upload % LS__N_STAGES];
}

ls_status ls__staging_give_back(ls_loader *loader)
{
    ls__device *device = loader->owned.ctx->device;
    if (loader->out < 0) return LS_OK;
    loader->out = -1;
    return device->backend->event_record(device, stage_of(loader, loader->n_uploads - 1)->read);
}

ls_status ls__staging_settle(ls_loader *loader, bool all)
{
    ls__device *device = loader->owned.ctx->device;
    for (int i = 0; i < loader->n_slots; i++) {
        ls__slot *slot = &loader->slots[i];
        if (!slot->uploading || (i == loader->out && !all)) continue;
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
    const ls__staging *stage = stage_of(loader, loader->n_uploads);
    LS_TRY(device->backend->upload(device, stage->memory, slot->block, bytes, stage->read,
                                   slot->uploaded));
    slot->uploading = true;
    loader->n_uploads++;
    loader->out = (int)(slot - loader->slots);
    *memory = stage->memory;
    return LS_OK;
}
