/* work.c: the workers' part: fills one image of a batch. No pixel depends on the worker or on what
 * it did before; a file that was read to its end once is only read less far later. Nothing here
 * touches the context's error. */
#include "data/loader/loader.h"

#include <stdio.h>

/* Replacements tried for one image. When half of all files are bad, this many in a row have a
 * probability of 2^-100. */
enum { MAX_REPLACEMENTS = 100 };

static int64_t sample_at(const ls_loader *loader, int64_t position)
{
    if (!loader->config.shuffle) return position;
    return (int64_t)ls_random_permute(loader->transform.seed, (uint32_t)loader->epoch,
                                      (uint64_t)loader->dataset->n_samples, (uint64_t)position);
}

/* Uses of a worker's sequence of random numbers. */
enum { WORKER_TRANSFORMS, WORKER_REPLACES };

/* The draws of an item when workers have sequences of their own. Of W workers, batch b belongs to
 * the sequence of worker b % W, whichever thread computes it. Without workers the caller's thread
 * has one more sequence. */
static ls_draw worker_draw(const ls_loader *loader, const ls__queue_item *item, int use)
{
    const int64_t n = loader->config.workers;
    const int64_t turn = n ? item->step / n : item->step;
    return (ls_draw){ .stream = LS_RANDOM_WORKER,
                      .layer = n ? (uint32_t)(1 + item->step % n) : 0,
                      .epoch = (uint32_t)loader->epoch,
                      .step = (uint64_t)use,
                      .sample = (uint64_t)(turn * loader->config.batch + item->item) };
}

static ls_draw transform_draw(const ls_loader *loader, const ls__queue_item *item, int64_t sample)
{
    if (loader->config.seeding == LS_SEED_BY_WORKER)
        return worker_draw(loader, item, WORKER_TRANSFORMS);
    return (ls_draw){ .stream = LS_RANDOM_TRANSFORM,
                      .epoch = (uint32_t)loader->epoch,
                      .sample = (uint64_t)sample };
}

/* Any sample, of any class, may replace a bad one. */
static int64_t replacement(const ls_loader *loader, const ls__queue_item *item, int64_t bad_sample,
                           uint32_t attempt)
{
    ls_draw draw = { .stream = LS_RANDOM_REPLACE,
                     .epoch = (uint32_t)loader->epoch,
                     .sample = (uint64_t)bad_sample };
    if (loader->config.seeding == LS_SEED_BY_WORKER)
        draw = worker_draw(loader, item, WORKER_REPLACES);
    draw.block = attempt;
    uint32_t words[4];
    ls_random_words(loader->transform.seed, &draw, words);
    return (int64_t)ls_random_below(words[0], words[1], (uint64_t)loader->dataset->n_samples);
}

static ls_status load(const ls_loader *loader, ls__loader_worker *worker,
                      const ls__queue_item *item, int64_t sample, uint8_t *dst)
{
    const ls_dataset *dataset = loader->dataset;
    ls__decoder *decoder = &worker->decoder;
    atomic_bool *known_whole = &loader->known_whole[sample];
    const ls_draw draw = transform_draw(loader, item, sample);
    ls__sample_plan plan;
    LS_TRY(ls__dataset_probe(dataset, sample, loader->config.honour_exif, decoder));
    LS_TRY(ls__transform_plan(&loader->transform, &draw, decoder->height, decoder->width, &plan,
                              decoder->reason));
    plan.region.known_whole = atomic_load_explicit(known_whole, memory_order_relaxed);
    LS_TRY(ls__dataset_decode(dataset, sample, &plan.region, decoder));
    atomic_store_explicit(known_whole, true, memory_order_relaxed);
    if (ls__transform_apply(&plan, &worker->transformer, &decoder->source, dst)) return LS_OK;
    return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory to transform it");
}

static ls__bad_sample *new_bad(const ls_context *ctx, int64_t sample, ls_status status,
                               const char *reason)
{
    ls__bad_sample *bad = ls__alloc(ctx, sizeof(*bad));
    if (!bad) return NULL;
    *bad = (ls__bad_sample){ .sample = sample, .status = status };
    snprintf(bad->reason, sizeof(bad->reason), "%s", reason);
    return bad;
}

void ls__loader_fill(void *arg, const ls__queue_item *item)
{
    const ls_loader *loader = arg;
    const ls__slot *slot = &loader->slots[item->slot];
    ls__loader_worker *worker = &loader->workers[item->worker];
    ls__item_result *result = &slot->results[item->item];
    uint8_t *dst = slot->pixels + (size_t)item->item * loader->sample_bytes;

    const int64_t original = sample_at(loader, item->step * loader->config.batch + item->item);
    int64_t sample = original;
    ls__bad_sample **end = &result->bads;
    for (uint32_t attempt = 0;; attempt++) {
        result->status = load(loader, worker, item, sample, dst);
        if (result->status == LS_OK) break;
        *end = new_bad(loader->owned.ctx, sample, result->status, worker->decoder.reason);
        if (!*end) {
            result->status = LS_ERR_MEMORY;
            return;
        }
        end = &(*end)->next;
        if (!ls__is_bad_image(result->status) || loader->config.on_bad_image == LS_BAD_IMAGE_FAIL ||
            attempt == MAX_REPLACEMENTS)
            return;
        sample = replacement(loader, item, original, attempt);
    }
    slot->samples[item->item] = sample;
    slot->label_values[item->item] = loader->dataset->labels[sample];
}
