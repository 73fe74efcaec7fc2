/* dataset_split.c: a dataset's samples divided into training and validation, class by class. */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include "data/dataset/split_choice.h"

static const char what[] = "ls_dataset_split";

/* The samples where is_validation is `validation`. */
static ls_dataset *open_split(ls_dataset *dataset, const bool *is_validation, bool validation,
                              int64_t n)
{
    ls_context *ctx = dataset->owned.ctx;
    ls_dataset *out = ls__dataset_open(ctx, what);
    if (!out) return NULL;
    const char *grouped_by = ls__dataset_whole(dataset)->grouped_by;
    out->whole = (ls_dataset *)ls__dataset_whole(dataset);
    ls__use(out->whole);
    out->grouped_by = grouped_by ? ls__strdup(ctx, grouped_by) : NULL;
    out->grouped_by_pattern = out->whole->grouped_by_pattern;
    out->channels = dataset->channels;
    out->in_class_folders = dataset->in_class_folders;
    out->is_validation = validation;
    out->labels = ls__alloc(ctx, (size_t)n * sizeof(*out->labels));
    out->source_samples = ls__alloc(ctx, (size_t)n * sizeof(*out->source_samples));
    if (dataset->paths) out->paths = ls__alloc(ctx, (size_t)n * sizeof(*out->paths));
    if (!out->labels || !out->source_samples || (dataset->paths && !out->paths) ||
        (grouped_by && !out->grouped_by) ||
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
    bool *is_validation = ls__alloc(ctx, (size_t)n * sizeof(*is_validation));
    if (!is_validation) return ls__fail_memory(ctx, what, (size_t)n * sizeof(*is_validation));
    int64_t n_chosen;
    if (ls__choose_validation(dataset, what, fraction, seed, is_validation, &n_chosen) == LS_OK) {
        *train = open_split(dataset, is_validation, false, n - n_chosen);
        *validation = open_split(dataset, is_validation, true, n_chosen);
    }
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
