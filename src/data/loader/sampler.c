/* sampler.c: which sample stands at a position of an epoch, and which positions a rank loads.
 *
 * LS_SAMPLER_ALL: the shuffled position itself, so that each sample is drawn once.
 *
 * LS_SAMPLER_BALANCED: with q the shuffled position of n, and K the number of classes that have
 * samples, the class is (q + epoch) mod K and the draw from it is number q / K. So each class is
 * drawn n / K times, rounded up or down, and the classes that are rounded up change with the epoch.
 * Of a class of m samples, draw number j takes the sample at place j mod m of a permutation keyed
 * by (seed, epoch, class, j / m), so that its samples are drawn equally often, too. */
#include "data/loader/loader.h"

#include "base/error.h"
#include "comm/comm.h"

ls_status ls__sampler_open(ls_loader *loader)
{
    ls_context *ctx = loader->owned.ctx;
    const ls_dataset *dataset = loader->dataset;
    ls__sampler *s = &loader->sampler;
    if (loader->config.sampler == LS_SAMPLER_ALL) return LS_OK;
    const size_t n = (size_t)dataset->n_samples, n_classes = (size_t)dataset->n_classes;
    s->ends = ls__bump_alloc(&loader->bump, n_classes * sizeof(*s->ends));
    s->classes = ls__bump_alloc(&loader->bump, n_classes * sizeof(*s->classes));
    s->samples = ls__bump_alloc(&loader->bump, n * sizeof(*s->samples));
    if (!s->ends || !s->classes || !s->samples)
        return ls__fail_memory(ctx, "ls_loader_open", n * sizeof(*s->samples));
    for (size_t i = 0; i < n; i++) s->ends[dataset->labels[i]]++;
    int64_t begin = 0;
    for (size_t c = 0; c < n_classes; c++) {
        const int64_t count = s->ends[c];
        s->ends[c] = begin; /* moves to the class's end below */
        if (count > 0) s->classes[s->n_classes++] = (int32_t)c;
        begin += count;
    }
    for (size_t i = 0; i < n; i++) s->samples[s->ends[dataset->labels[i]]++] = (int64_t)i;
    return LS_OK;
}

int64_t ls__sample_at(const ls_loader *loader, int64_t position, int64_t *occurrence)
{
    const ls__sampler *s = &loader->sampler;
    const uint64_t seed = loader->transform.seed;
    const uint32_t epoch = (uint32_t)loader->epoch;
    *occurrence = 0;
    if (!loader->config.shuffle) return position;
    const int64_t q = (int64_t)ls_random_permute(seed, epoch, (uint64_t)loader->dataset->n_samples,
                                                 (uint64_t)position);
    if (loader->config.sampler == LS_SAMPLER_ALL) return q;

    const int32_t class = s->classes[(q + loader->epoch) % s->n_classes];
    const int64_t begin = class > 0 ? s->ends[class - 1] : 0, count = s->ends[class] - begin;
    const int64_t draw_number = q / s->n_classes;
    *occurrence = draw_number / count;
    const ls_draw draw = { .stream = LS_RANDOM_SAMPLER,
                           .epoch = epoch,
                           .step = (uint64_t)*occurrence,
                           .sample = (uint64_t) class };
    uint32_t words[4];
    ls_random_words(seed, &draw, words);
    const uint64_t place = ls_random_permute((uint64_t)words[0] << 32 | words[1], epoch,
                                             (uint64_t)count, (uint64_t)(draw_number % count));
    return s->samples[begin + (int64_t)place];
}

void ls__loader_own_range(const ls_loader *loader, int64_t step, int64_t *begin, int64_t *end)
{
    const ls_context *ctx = loader->owned.ctx;
    const int64_t n = ls__loader_batch_size(loader, step);
    if (!loader->by_batch || !ctx->comm) {
        ls__rank_samples(ctx, n, begin, end);
        return;
    }
    *begin = 0;
    *end = step % ctx->comm->n_ranks == ctx->comm->rank ? n : 0;
}
