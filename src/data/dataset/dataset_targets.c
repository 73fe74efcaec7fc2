/* dataset_targets.c: the numbers that a loss compares a model's output with: a row of them for each
 * sample. A split reads those of its whole dataset. */
#include "data/dataset/dataset.h"

#include "base/error.h"

ls_status ls__dataset_open_targets(ls_dataset *dataset, const char *what, int n,
                                   const char *const *names)
{
    const ls_context *ctx = dataset->owned.ctx;
    size_t count, bytes;
    if (!ls__mul_size((size_t)dataset->n_samples, (size_t)n, &count) ||
        !ls__mul_size(count, sizeof(float), &bytes))
        bytes = SIZE_MAX;
    if (bytes < SIZE_MAX) dataset->targets = ls__zalloc(ctx, bytes);
    dataset->target_names = ls__dataset_copy_names(ctx, n, names);
    if (dataset->target_names) dataset->n_targets = n;
    dataset->has_names = names != NULL;
    if (dataset->targets && dataset->target_names) return LS_OK;
    return ls__fail_memory(dataset->owned.ctx, what, bytes);
}

int ls_dataset_target_count(const ls_dataset *dataset)
{
    return dataset ? ls__dataset_whole(dataset)->n_targets : 0;
}

const char *ls_dataset_target_name(const ls_dataset *dataset, int i)
{
    if (i < 0 || i >= ls_dataset_target_count(dataset)) return NULL;
    return ls__dataset_whole(dataset)->target_names[i];
}

bool ls_dataset_targets_are_labels(const ls_dataset *dataset)
{
    return dataset && ls__dataset_whole(dataset)->targets_are_labels;
}

const float *ls_dataset_targets(const ls_dataset *dataset, int64_t sample)
{
    const int64_t n = ls_dataset_target_count(dataset);
    if (n == 0 || sample < 0 || sample >= dataset->n_samples) return NULL;
    dataset = ls__dataset_source(dataset, &sample);
    return dataset->targets + sample * n;
}
