/* loader.c: a loader's life, and what it does in the caller's thread. */
#include "data/loader/loader.h"

#include "base/available.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/minmax.h"
#include "base/text.h"
#include "backend/pool.h"
#include <string.h>

/* The counter of a draw has 20 bits for the epoch (random.h). */
enum { MAX_EPOCHS = 1 << 20 };

/* ---- Opening and closing. ---- */

static void free_bads(const ls_context *ctx, ls__item_result *result)
{
    while (result->bads) {
        ls__bad_sample *bad = result->bads;
        result->bads = bad->next;
        ls__free(ctx, bad);
    }
}

static void clear_results(ls_loader *loader)
{
    for (int i = 0; loader->slots && i < loader->n_slots; i++)
        for (int64_t k = 0; loader->slots[i].results && k < loader->config.batch_size; k++)
            free_bads(loader->owned.ctx, &loader->slots[i].results[k]);
}

static void clear_bads(ls_loader *loader)
{
    for (int64_t i = 0; i < loader->n_bads; i++)
        ls__free(loader->owned.ctx, loader->bads[i].reason);
    loader->n_bads = 0;
}

static void close_loader(ls__owned *self)
{
    ls_loader *loader = (ls_loader *)self;
    const ls_context *ctx = self->ctx;
    ls__queue_close(&loader->queue);
    clear_results(loader);
    ls__staging_close(loader);
    for (int i = 0; loader->workers && i < loader->n_workers; i++) {
        ls__decoder_free(&loader->workers[i].decoder);
        ls__transformer_free(&loader->workers[i].transformer);
        ls__buffer_free(ctx, &loader->workers[i].rgb);
    }
    clear_bads(loader);
    ls__free(ctx, loader->bads);
    ls__bump_close(&loader->bump);
    ls__release(loader->dataset);
    ls__free(ctx, loader);
}

void ls_loader_close(ls_loader **loader)
{
    LS__CLOSE_OWNED(loader);
}

static ls_shape image_shape(const ls_loader *loader, int64_t n)
{
    return LS_SHAPE(n, loader->transform.height, loader->transform.width, loader->channels);
}

static ls_status open_members(ls_loader *loader, const ls_loader_config *config)
{
    ls_context *ctx = loader->owned.ctx;
    LS_TRY(ls__loader_configure(loader, config));
    const int n_threads = loader->config.workers;
    loader->host_memory = ctx->device->backend->host_memory;
    const int n_kept = loader->host_memory ? 0 : 1; /* being uploaded */
    loader->sample_bytes =
        (size_t)(loader->transform.height * loader->transform.width * loader->channels);
    loader->n_slots = n_kept + (n_threads == 0 ? 1 : loader->config.prefetch + 1);
    loader->n_workers = n_threads == 0 ? 1 : n_threads;
    ls__bump *bump = &loader->bump;
    loader->slots = ls__bump_alloc(bump, (size_t)loader->n_slots * sizeof(ls__slot));
    loader->workers = ls__bump_alloc(bump, (size_t)loader->n_workers * sizeof(ls__loader_worker));
    loader->known_whole =
        ls__bump_alloc(bump, (size_t)loader->dataset->n_samples * sizeof(atomic_bool));
    if (!loader->slots || !loader->workers || !loader->known_whole)
        return ls__fail_memory(ctx, "ls_loader_open", (size_t)loader->dataset->n_samples);
    for (int i = 0; i < loader->n_workers; i++) {
        loader->workers[i].decoder.ctx = ctx;
        loader->workers[i].decoder.max_pixels = loader->config.max_pixels;
        loader->workers[i].decoder.alpha = loader->config.alpha;
        loader->workers[i].decoder.depth = loader->config.depth;
        loader->workers[i].transformer.resizer.ctx = ctx;
    }
    LS_TRY(ls__sampler_open(loader));
    LS_TRY(ls__staging_open(loader));
    return ls__queue_open(ctx, "loader", n_threads, loader->n_slots, n_kept, ls__loader_fill,
                          loader, &loader->queue);
}

ls_loader *ls_loader_open(ls_dataset *dataset, const ls_loader_config *config)
{
    LS__DEFAULT_FLOATS;
    if (!dataset) return NULL;
    ls_context *ctx = dataset->owned.ctx;
    LS__ENTER_NULL(ctx);
    ls_loader *loader = ls__open_owned(ctx, "ls_loader_open", sizeof(*loader), close_loader);
    if (!loader) return NULL;
    ls__bump_open(&loader->bump, ctx);
    loader->dataset = dataset;
    ls__use(dataset);
    if (open_members(loader, config) != LS_OK) ls_loader_close(&loader);
    return loader;
}

ls_input_spec ls_loader_input_spec(const ls_loader *loader)
{
    ls_input_spec spec = { 0 };
    if (!loader) return spec;
    spec.image = (ls_spec){ LS_U8, image_shape(loader, loader->config.batch_size) };
    for (int i = 0; i < loader->channels; i++) {
        spec.mean[i] = loader->config.mean[i];
        spec.std[i] = loader->config.std[i];
    }
    spec.n_classes = loader->dataset->n_classes;
    spec.n_targets = ls_dataset_target_count(loader->dataset);
    return spec;
}

int64_t ls_loader_step_count(const ls_loader *loader)
{
    return loader ? loader->n_steps : 0;
}

/* ---- An epoch. ---- */

static ls_status start(ls_loader *loader, const char *call, int64_t epoch, int64_t step,
                       bool by_batch)
{
    ls_context *ctx = loader->owned.ctx;
    LS__ENTER(ctx);
    if (epoch < 0 || epoch >= MAX_EPOCHS)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: epoch is %lld, expected 0 to %d", call,
                        (long long)epoch, MAX_EPOCHS - 1);
    if (step < 0 || step > loader->n_steps)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: step is %lld, expected 0 to %lld", call,
                        (long long)step, (long long)loader->n_steps);
    ls__queue_stop(loader->queue);
    clear_results(loader);
    for (int i = 0; i < loader->n_slots; i++) atomic_store(&loader->slots[i].n_filled, 0);
    LS_TRY(ls__staging_release(loader));
    LS_TRY(ls__staging_wait(loader, true));
    loader->started = true;
    loader->by_batch = by_batch;
    loader->status = LS_OK;
    loader->epoch = epoch;
    loader->step = step;
    ls__queue_start(loader->queue, loader->dataset->n_samples, loader->config.batch_size, step,
                    loader->n_steps);
    return LS_OK;
}

ls_status ls__loader_start_at(ls_loader *loader, const char *call, int64_t epoch, int64_t step)
{
    return start(loader, call, epoch, step, false);
}

ls_status ls__loader_start_turns(ls_loader *loader)
{
    return start(loader, "ls__loader_start_turns", 0, 0, true);
}

/* The index of this sample in the list of bad ones, or where it belongs. */
static int64_t find_bad(const ls_loader *loader, int64_t sample)
{
    int64_t low = 0, high = loader->n_bads;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (loader->bads[middle].sample < sample)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

ls_status ls__loader_add_bad(ls_loader *loader, int64_t sample, const char *why)
{
    ls_context *ctx = loader->owned.ctx;
    const int64_t at = find_bad(loader, sample);
    if (at < loader->n_bads && loader->bads[at].sample == sample) return LS_OK;
    ls__known_bad *bads = ls__grow(ctx, loader->bads, (size_t)loader->n_bads, 1,
                                   &loader->bad_capacity, sizeof(*bads));
    if (bads) loader->bads = bads;
    char *reason = bads ? ls__strdup(ctx, why) : NULL;
    if (!reason) return ls__fail_memory(ctx, "list of unreadable images", strlen(why));
    memmove(loader->bads + at + 1, loader->bads + at,
            (size_t)(loader->n_bads - at) * sizeof(ls__known_bad));
    loader->bads[at] = (ls__known_bad){ sample, reason, false };
    loader->n_bads++;
    return LS_OK;
}

ls_status ls__loader_set_bads(ls_loader *loader, int64_t n, const int64_t *samples,
                              const char *const *reasons)
{
    clear_bads(loader);
    for (int64_t i = 0; i < n; i++) LS_TRY(ls__loader_add_bad(loader, samples[i], reasons[i]));
    for (int64_t i = 0; i < loader->n_bads; i++) loader->bads[i].is_shared = true;
    return LS_OK;
}

static ls_status fail_item(ls_loader *loader, const ls__item_result *result)
{
    ls_context *ctx = loader->owned.ctx;
    const ls__bad_sample *first = result->bads, *last = first;
    int64_t n_tried = 0;
    for (const ls__bad_sample *bad = first; bad; bad = bad->next, n_tried++) last = bad;
    /* No bad sample has this status: there was no memory to report one. */
    if (!last || last->status != result->status)
        return ls__fail(ctx, result->status, "loader: epoch %lld, step %lld: out of memory",
                        (long long)loader->epoch, (long long)loader->step);
    char text[2][LS__SAMPLE_TEXT_SIZE];
    ls__sample_text(loader->dataset, first->sample, text[0]);
    ls__sample_text(loader->dataset, last->sample, text[1]);
    const bool is_unread = !ls__loader_is_unusable(loader, last->sample, last->status);
    if (n_tried == 1 || (is_unread && ls__is_bad_image(last->status)))
        return ls__fail(ctx, result->status, "loader: epoch %lld, step %lld: %s: %s%s",
                        (long long)loader->epoch, (long long)loader->step, text[n_tried > 1],
                        last->reason,
                        is_unread && ls__is_bad_image(last->status)
                            ? "; only images with unusable contents are replaced, because an error "
                              "of reading may pass"
                            : "");
    return ls__fail(ctx, result->status,
                    "loader: epoch %lld, step %lld: %lld replacements for %.*s failed too, the "
                    "last of them %.*s: %s",
                    (long long)loader->epoch, (long long)loader->step, (long long)n_tried - 1,
                    LS__CUT(text[0], 200), LS__CUT(text[1], 200), last->reason);
}

/* Lists the bad samples in the batch's order up to the first image that could not be filled, so
 * that the list and the error do not depend on the workers. */
static ls_status report_bads(ls_loader *loader, ls__slot *slot, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        ls__item_result *result = &slot->results[i];
        if (result->status == LS_OK && !result->bads) continue;
        for (const ls__bad_sample *bad = result->bads; bad; bad = bad->next)
            if (ls__loader_is_unusable(loader, bad->sample, bad->status))
                LS_TRY(ls__loader_add_bad(loader, bad->sample, bad->reason));
        if (result->status != LS_OK) return fail_item(loader, result);
        free_bads(loader->owned.ctx, result);
    }
    return LS_OK;
}

static ls_status deliver(ls_loader *loader, ls__slot *slot, int64_t n, ls_batch *batch)
{
    ls_context *ctx = loader->owned.ctx;
    const size_t before_pixels = loader->label_bytes + loader->target_bytes;
    void *memory;
    LS_TRY(ls__staging_upload(loader, slot, before_pixels + (size_t)n * loader->sample_bytes,
                              &memory));
    ls__tensor_view(ctx, &loader->label_view, LS_I32, LS_SHAPE(n), memory);
    loader->label_view.host_copy = slot->label_values;
    ls__tensor_view(ctx, &loader->image_view, LS_U8, image_shape(loader, n),
                    (uint8_t *)memory + before_pixels);
    if (loader->n_targets > 0)
        ls__tensor_view(ctx, &loader->target_view, LS_F32, LS_SHAPE(n, loader->n_targets),
                        (uint8_t *)memory + loader->label_bytes);
    *batch = (ls_batch){ .images = &loader->image_view,
                         .labels = &loader->label_view,
                         .samples = slot->samples,
                         .n = n,
                         .epoch = loader->epoch,
                         .step = loader->step,
                         .is_last = loader->step + 1 == ls_loader_step_count(loader),
                         .targets = loader->n_targets > 0 ? &loader->target_view : NULL };
    return LS_OK;
}

static bool stop(ls_loader *loader)
{
    ls__queue_stop(loader->queue);
    return false;
}

bool ls__loader_next(ls_loader *loader, ls_batch *batch)
{
    *batch = (ls_batch){ 0 };
    if (loader->status != LS_OK || ls__enter(loader->owned.ctx) != LS_OK) return false;
    loader->status = ls__staging_wait(loader, false);
    if (loader->status == LS_OK) loader->status = ls__staging_release(loader);
    if (loader->status != LS_OK) return stop(loader);
    const double before = ls__now_seconds();
    const int index = ls__queue_take(loader->queue);
    loader->wait_seconds += ls__now_seconds() - before;
    if (index < 0) return false;

    const int64_t n = ls__loader_batch_size(loader, loader->step);
    ls__slot *slot = &loader->slots[index];
    loader->status = report_bads(loader, slot, n);
    if (loader->status == LS_OK) loader->status = deliver(loader, slot, n, batch);
    if (loader->status != LS_OK) return stop(loader);
    loader->n_images += n;
    loader->step++;
    return true;
}

ls_status ls_loader_status(const ls_loader *loader)
{
    if (!loader) return LS_ERR_EARLIER;
    if (loader->status != LS_OK) return loader->status;
    return ls__has_error(loader->owned.ctx) ? LS_ERR_EARLIER : LS_OK;
}

ls_loader_stats ls_loader_statistics(const ls_loader *loader)
{
    if (!loader) return (ls_loader_stats){ 0 };
    return (ls_loader_stats){ loader->n_images, loader->n_bads, loader->wait_seconds };
}

int64_t ls_loader_bad_sample(const ls_loader *loader, int64_t i, const char **reason)
{
    const bool there = loader && i >= 0 && i < loader->n_bads;
    if (reason) *reason = there ? loader->bads[i].reason : "";
    return there ? loader->bads[i].sample : -1;
}

int ls_default_worker_count(void)
{
    enum { MAX_DEFAULT = 8 };
    return ls__min_int(ls__available_processors(), MAX_DEFAULT);
}
