/* dataset_split.c: a dataset's samples divided into training and validation, class by class. */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include "base/hash.h"
#include <lockstep/random.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "ls_dataset_split";

typedef struct ranked {
    int32_t label;
    uint64_t rank;    /* random: the samples of a class with the lowest ranks are for validation */
    const char *name; /* the path that the rank is keyed by; NULL: the number */
    int64_t number;
} ranked;

static int compare_ranks(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    const int order = x->name ? strcmp(x->name, y->name) : 0;
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

static ranked rank_sample(const ls_dataset *dataset, int64_t i, uint64_t seed)
{
    const char *name = dataset->paths ? ls__dataset_name(dataset, i) : NULL;
    const uint64_t key = name ? ls__hash(name, strlen(name), 0) : (uint64_t)i;
    const ls_draw draw = { .stream = LS_RANDOM_SPLIT, .sample = key, .step = key >> 40 };
    uint32_t words[4];
    ls_random_words(seed, &draw, words);
    return (ranked){ dataset->labels[i], (uint64_t)words[0] << 32 | words[1], name, i };
}

/* The number of validation samples of a class of n. */
static int64_t validation_count(int64_t n, double fraction)
{
    const int64_t rounded = (int64_t)floor((double)n * fraction + 0.5);
    const int64_t least = n > 1;
    return rounded < least ? least : rounded > n - 1 ? n - 1 : rounded;
}

/* Sets is_validation[n_samples], and returns the number of true ones. */
static int64_t choose(const ls_dataset *dataset, double fraction, ranked *samples,
                      bool *is_validation)
{
    int64_t n_chosen = 0, n_single = 0;
    const char *single = NULL;
    qsort(samples, (size_t)dataset->n_samples, sizeof(*samples), compare_ranks);
    for (int64_t begin = 0, end; begin < dataset->n_samples; begin = end) {
        const int32_t label = samples[begin].label;
        for (end = begin; end < dataset->n_samples && samples[end].label == label;) end++;
        const int64_t n = validation_count(end - begin, fraction);
        for (int64_t i = 0; i < end - begin; i++) is_validation[samples[begin + i].number] = i < n;
        n_chosen += n;
        if (n == 0 && label >= 0 && n_single++ == 0) single = dataset->class_names[label];
    }
    if (n_single > 0 && n_chosen > 0)
        ls__warn(dataset->owned.ctx, LS_LOG_DATA,
                 "%s: classes with one sample: %lld, such as '%s'; it stays in training, so "
                 "validation does not cover the class",
                 what, (long long)n_single, single);
    return n_chosen;
}

/* The samples where is_validation is `validation`. */
static ls_dataset *open_split(ls_dataset *dataset, const bool *is_validation, bool validation,
                              int64_t n)
{
    ls_context *ctx = dataset->owned.ctx;
    ls_dataset *out = ls__dataset_open(ctx, what);
    if (!out) return NULL;
    out->whole = (ls_dataset *)ls__dataset_whole(dataset);
    out->whole->n_users++;
    out->channels = dataset->channels;
    out->in_class_folders = dataset->in_class_folders;
    out->is_validation = validation;
    out->labels = ls__alloc(ctx, (size_t)n * sizeof(*out->labels));
    out->source_samples = ls__alloc(ctx, (size_t)n * sizeof(*out->source_samples));
    if (dataset->paths) out->paths = ls__alloc(ctx, (size_t)n * sizeof(*out->paths));
    if (!out->labels || !out->source_samples || (dataset->paths && !out->paths) ||
        !ls__dataset_name_classes(out, dataset->n_classes,
                                  (const char *const *)dataset->class_names)) {
        ls__fail_memory(ctx, what, (size_t)n * sizeof(*out->source_samples));
        ls_dataset_close(&out);
        return NULL;
    }
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        if (is_validation[i] != validation) continue;
        const int64_t to = out->n_samples++;
        int64_t number = i;
        ls__dataset_source(dataset, &number);
        out->labels[to] = dataset->labels[i];
        out->source_samples[to] = number;
        if (out->paths) out->paths[to] = dataset->paths[i];
    }
    return out;
}

static ls_status check(ls_dataset *dataset, double fraction, ls_dataset **train,
                       ls_dataset **validation)
{
    ls_context *ctx = dataset->owned.ctx;
    if (!train || !validation)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %s is NULL", what,
                        train ? "validation" : "train");
    if (!(fraction > 0 && fraction < 1))
        return ls__fail(ctx, LS_ERR_INVALID, "%s: fraction is %g, expected more than 0, below 1",
                        what, fraction);
    const bool has_targets = ls_dataset_target_count(dataset) > 0;
    for (int64_t i = 0; i < dataset->n_samples && !has_targets; i++)
        if (dataset->labels[i] < 0)
            return ls__fail(ctx, LS_ERR_INVALID, "%s: sample %lld has no label", what,
                            (long long)i);
    return LS_OK;
}

ls_status ls_dataset_split(ls_dataset *dataset, double fraction, uint64_t seed, ls_dataset **train,
                           ls_dataset **validation)
{
    if (train) *train = NULL;
    if (validation) *validation = NULL;
    if (!dataset) return LS_ERR_EARLIER;
    ls_context *ctx = dataset->owned.ctx;
    LS__ENTER(ctx);
    LS_TRY(check(dataset, fraction, train, validation));
    const int64_t n = dataset->n_samples;
    ranked *samples = ls__alloc(ctx, (size_t)n * sizeof(*samples));
    bool *is_validation = ls__alloc(ctx, (size_t)n * sizeof(*is_validation));
    if (samples && is_validation) {
        for (int64_t i = 0; i < n; i++) samples[i] = rank_sample(dataset, i, seed);
        const int64_t n_chosen = choose(dataset, fraction, samples, is_validation);
        if (n_chosen > 0) {
            *train = open_split(dataset, is_validation, false, n - n_chosen);
            *validation = open_split(dataset, is_validation, true, n_chosen);
        } else {
            ls__fail(ctx, LS_ERR_DATA,
                     "%s: no class has two samples: of %lld samples in %d classes none is left for "
                     "validation, because each class keeps one for training",
                     what, (long long)n, dataset->n_classes);
        }
    } else {
        ls__fail_memory(ctx, what, (size_t)n * sizeof(*samples));
    }
    ls__free(ctx, samples);
    ls__free(ctx, is_validation);
    if (*train && *validation) {
        (*train)->split_fraction = (*validation)->split_fraction = fraction;
        (*train)->split_seed = (*validation)->split_seed = seed;
        return LS_OK;
    }
    ls_dataset_close(train);
    ls_dataset_close(validation);
    return ctx->error;
}
