/* work.c: what workers do: fill one place of a batch. No pixel depends on which worker it is
 * or on what it did before: a file that was read to its end once is just read less far later. And
 * nothing touches the context's error. */
#include "data/loader/loader.h"

#include <stdio.h>

/* Replacements tried for one place. When half of all files are bad, this many in a row have a
 * probability of 2^-100. */
enum { MAX_REPLACEMENTS = 100 };

static int64_t sample_at(const ls_loader *loader, int64_t position)
{
    if (!loader->config.shuffle) return position;
    return (int64_t)ls_random_permute(loader->transform.seed, (uint32_t)loader->epoch,
                                      (uint64_t)loader->dataset->n_samples, (uint64_t)position);
}

/* What the numbers of a worker's sequence are for. */
enum { WORKER_TRANSFORMS, WORKER_REPLACES };

/* Names the place's draws when workers have sequences of their own, in which it is the turn of the
 * item's image. By W workers batch b is dealt to worker b % W, whoever it is that makes it; the
 * caller's thread, when there are no workers, has one more sequence. */
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

/* Any sample, of any class, may take a bad one's place. */
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

static ls__bad *new_bad(const ls_context *ctx, int64_t sample, ls_status status, const char *reason)
{
    ls__bad *bad = ls__alloc(ctx, sizeof(*bad));
    if (!bad) return NULL;
    bad->next = NULL;
    bad->sample = sample;
    bad->status = status;
    snprintf(bad->reason, sizeof(bad->reason), "%s", reason);
    return bad;
}

void ls__loader_fill(void *arg, const ls__queue_item *item)
{
    const ls_loader *loader = arg;
    const ls__slot *slot = &loader->slots[item->slot];
    ls__loader_worker *worker = &loader->workers[item->worker];
    ls__place *place = &slot->places[item->item];
    uint8_t *dst = slot->pixels + (size_t)item->item * loader->sample_bytes;

    const int64_t original = sample_at(loader, item->step * loader->config.batch + item->item);
    int64_t sample = original;
    ls__bad **end = &place->bads;
    for (uint32_t attempt = 0;; attempt++) {
        place->status = load(loader, worker, item, sample, dst);
        if (place->status == LS_OK) break;
        *end = new_bad(loader->owned.ctx, sample, place->status, worker->decoder.reason);
        if (!*end) {
            place->status = LS_ERR_MEMORY;
            return;
        }
        end = &(*end)->next;
        if (!ls__is_bad_image(place->status) || loader->config.on_bad_image == LS_BAD_IMAGE_FAIL ||
            attempt == MAX_REPLACEMENTS)
            return;
        sample = replacement(loader, item, original, attempt);
    }
    slot->samples[item->item] = sample;
    slot->label_values[item->item] = loader->dataset->labels[sample];
}
