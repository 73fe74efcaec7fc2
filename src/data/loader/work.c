/* work.c: fills one image of a batch with its label or targets, in a worker's thread, or without
 * workers in the caller's. No pixel depends on the worker, unless random numbers are seeded by
 * worker, or on its earlier images. The context's error is not touched. */
#include "base/error.h"
#include "data/loader/loader.h"
#include "data/transform/pixel_ops.h"

#include <errno.h>
#include <string.h>

/* Replacements tried for one image. If half of all files are bad, the probability that all of them
 * are bad is 2^-100. */
enum { MAX_REPLACEMENTS = 100 };

/* Uses of a worker's sequence of random numbers. */
enum { WORKER_TRANSFORMS, WORKER_REPLACES };

/* The draws of an item if each worker has its own sequence. Of n workers, batch b uses the sequence
 * of worker b % n, in whichever thread. Without workers the caller's thread has one more. */
static ls_draw worker_draw(const ls_loader *loader, const ls__queue_item *item, int use)
{
    const int64_t n = loader->config.workers;
    const int64_t turn = n ? item->step / n : item->step;
    return (ls_draw){ .stream = LS_RANDOM_WORKER,
                      .layer = n ? (uint32_t)(1 + item->step % n) : 0,
                      .epoch = (uint32_t)loader->epoch,
                      .step = (uint64_t)use,
                      .sample = (uint64_t)(turn * loader->config.batch_size + item->item) };
}

static ls_draw transform_draw(const ls_loader *loader, const ls__queue_item *item, int64_t sample,
                              int64_t occurrence)
{
    if (loader->config.seeding == LS_SEED_BY_WORKER)
        return worker_draw(loader, item, WORKER_TRANSFORMS);
    return (ls_draw){ .stream = LS_RANDOM_TRANSFORM,
                      .epoch = (uint32_t)loader->epoch,
                      .step = (uint64_t)occurrence,
                      .sample = (uint64_t)sample };
}

/* Any sample, of any class, may replace a bad one. */
static int64_t replacement(const ls_loader *loader, const ls__queue_item *item, int64_t bad_sample,
                           int64_t occurrence, uint32_t attempt)
{
    ls_draw draw = { .stream = LS_RANDOM_REPLACE,
                     .epoch = (uint32_t)loader->epoch,
                     .step = (uint64_t)occurrence,
                     .sample = (uint64_t)bad_sample };
    if (loader->config.seeding == LS_SEED_BY_WORKER)
        draw = worker_draw(loader, item, WORKER_REPLACES);
    draw.block = attempt;
    uint32_t words[4];
    ls_random_words(loader->transform.seed, &draw, words);
    return (int64_t)ls_random_below(words[0], words[1], (uint64_t)loader->dataset->n_samples);
}

/* The sample's pixels as the transforms make them, then in the batch's channels. */
static bool transform(const ls_loader *loader, ls__loader_worker *worker,
                      const ls__sample_plan *plan, uint8_t *dst)
{
    const ls__source *source = &worker->decoder.source;
    if (!loader->config.grey) return ls__transform_apply(plan, &worker->transformer, source, dst);
    const size_t n = loader->sample_bytes;
    if (!ls__buffer_reserve(loader->owned.ctx, &worker->rgb, 3 * n) ||
        !ls__transform_apply(plan, &worker->transformer, source, worker->rgb.bytes))
        return false;
    for (size_t i = 0; i < n; i++) dst[i] = ls__luma(worker->rgb.bytes + 3 * i);
    return true;
}

static ls_status load(const ls_loader *loader, ls__loader_worker *worker,
                      const ls__queue_item *item, int64_t sample, int64_t occurrence, uint8_t *dst)
{
    const ls_dataset *dataset = loader->dataset;
    ls__decoder *decoder = &worker->decoder;
    atomic_bool *known_whole = &loader->known_whole[sample];
    const ls_draw draw = transform_draw(loader, item, sample, occurrence);
    ls__sample_plan plan;
    char text[LS__ERRNO_TEXT_SIZE];
    if (loader->missing && loader->missing[sample]) /* even if it is there now */
        return ls__undecodable(decoder, LS_ERR_NOT_FOUND, "%s",
                               ls__errno_text(ENOENT, text, sizeof(text)));
    LS_TRY(ls__dataset_probe(dataset, sample, loader->config.honour_exif, decoder));
    LS_TRY(ls__transform_plan(&loader->transform, &draw, decoder->height, decoder->width, &plan,
                              decoder->reason));
    plan.region.known_whole = atomic_load_explicit(known_whole, memory_order_relaxed);
    LS_TRY(ls__dataset_decode(dataset, sample, &plan.region, decoder));
    atomic_store_explicit(known_whole, true, memory_order_relaxed);
    if (transform(loader, worker, &plan, dst)) return LS_OK;
    return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory to transform it");
}

/* Images that other ranks deliver are left out, except the one that is mixed with this rank's first
 * one. */
static bool is_loaded(const ls_loader *loader, const ls__queue_item *item)
{
    int64_t begin, end;
    ls__loader_own_range(loader, item->step, &begin, &end);
    if (item->item >= begin && item->item < end) return true;
    const int64_t n = ls__loader_batch_size(loader, item->step);
    return loader->mixes && begin < end && item->item == (begin > 0 ? begin : n) - 1;
}

static void leave_out(const ls_loader *loader, const ls__slot *slot, int64_t item)
{
    slot->results[item].status = LS_OK;
    slot->samples[item] = -1;
    slot->label_values[item] = -1;
    if (loader->n_targets > 0)
        memset(slot->targets + item * loader->n_targets, 0,
               (size_t)loader->n_targets * sizeof(float));
}

static void fill(const ls_loader *loader, const ls__slot *slot, const ls__queue_item *item)
{
    ls__loader_worker *worker = &loader->workers[item->worker];
    ls__item_result *result = &slot->results[item->item];
    uint8_t *dst = slot->pixels + (size_t)item->item * loader->sample_bytes;

    int64_t occurrence;
    const int64_t original =
        ls__sample_at(loader, item->step * loader->config.batch_size + item->item, &occurrence);
    int64_t sample = original;
    ls__bad_sample **end = &result->bads;
    for (uint32_t attempt = 0;; attempt++) {
        result->status = load(loader, worker, item, sample, occurrence, dst);
        if (result->status == LS_OK) break;
        ls__bad_sample *bad = *end = ls__alloc(loader->owned.ctx, sizeof(*bad));
        if (!bad) {
            result->status = LS_ERR_MEMORY;
            return;
        }
        *bad = (ls__bad_sample){ .sample = sample, .status = result->status };
        memcpy(bad->reason, worker->decoder.reason, sizeof(bad->reason));
        end = &bad->next;
        const ls_bad_image on_bad = loader->config.on_bad_image;
        if (!ls__loader_is_unusable(loader, sample, result->status) ||
            on_bad == LS_BAD_IMAGE_FAIL || attempt == MAX_REPLACEMENTS)
            return;
        if (on_bad == LS_BAD_IMAGE_BLANK) {
            memset(dst, 0, loader->sample_bytes);
            leave_out(loader, slot, item->item);
            return;
        }
        sample = replacement(loader, item, original, occurrence, attempt);
    }
    slot->samples[item->item] = sample;
    slot->label_values[item->item] = loader->dataset->labels[sample];
    if (!loader->mixes && loader->n_targets > 0)
        memcpy(slot->targets + item->item * loader->n_targets,
               ls_dataset_targets(loader->dataset, sample),
               (size_t)loader->n_targets * sizeof(float));
}

/* After the last image of a batch that mixes. A batch with an image that failed is not delivered.
 */
static void finish_batch(const ls_loader *loader, ls__slot *slot, int64_t step)
{
    const int64_t n = ls__loader_batch_size(loader, step);
    if (atomic_fetch_add(&slot->n_filled, 1) + 1 < n) return;
    atomic_store(&slot->n_filled, 0);
    for (int64_t i = 0; i < n; i++)
        if (slot->results[i].status != LS_OK) return;
    ls__loader_mix(loader, slot, step, n);
}

void ls__loader_fill(void *arg, const ls__queue_item *item)
{
    const ls_loader *loader = arg;
    ls__slot *slot = &loader->slots[item->slot];
    if (is_loaded(loader, item))
        fill(loader, slot, item);
    else
        leave_out(loader, slot, item->item);
    if (loader->mixes) finish_batch(loader, slot, item->step);
}
