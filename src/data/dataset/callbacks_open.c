/* callbacks_open.c: opens a dataset whose samples a program provides. */
#include "data/dataset/dataset.h"

#include "base/alloc.h"
#include "base/error.h"
#include <math.h>

/* Their product with the epochs, 2^20, and with the bytes of a sample's row, is below 2^63. */
static const int64_t MAX_SAMPLES = (int64_t)1 << 40;
enum { MAX_NAMES = 1 << 20 }; /* classes, targets */

static ls_status check(ls_context *ctx, const ls_dataset_callbacks *c)
{
    static const char what[] = "ls_dataset_from_callbacks";
    if (!c || !c->load)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %s", what, c ? "load is NULL" : "no callbacks");
    if (c->sample_count < 1 || c->sample_count > MAX_SAMPLES)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: sample_count is %lld, expected 1 to %lld", what,
                        (long long)c->sample_count, (long long)MAX_SAMPLES);
    if (c->channels != 0 && c->channels != 1 && c->channels != 3)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: channels is %d, expected 0, 1 or 3", what,
                        c->channels);
    if (c->label ? c->n_classes < 1 : c->n_classes != 0 || c->classes)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: n_classes is %d %s label", what, c->n_classes,
                        c->label ? "with" : "without");
    if (c->target ? c->n_targets < 1 : c->n_targets != 0 || c->target_names)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: n_targets is %d %s target", what, c->n_targets,
                        c->target ? "with" : "without");
    if (c->n_classes > MAX_NAMES || c->n_targets > MAX_NAMES)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: n_classes is %d, n_targets %d, expected at most %d", what,
                        c->n_classes, c->n_targets, (int)MAX_NAMES);
    for (int i = 0; c->classes && i < c->n_classes; i++)
        if (!c->classes[i])
            return ls__fail(ctx, LS_ERR_INVALID, "%s: classes[%d] is NULL", what, i);
    for (int i = 0; c->target_names && i < c->n_targets; i++)
        if (!c->target_names[i])
            return ls__fail(ctx, LS_ERR_INVALID, "%s: target_names[%d] is NULL", what, i);
    return LS_OK;
}

static ls_status fill_targets(ls_dataset *dataset, const ls_dataset_callbacks *c)
{
    if (!c->target) return LS_OK;
    LS_TRY(ls__dataset_open_targets(dataset, "ls_dataset_from_callbacks", c->n_targets,
                                    c->target_names));
    for (int64_t i = 0; i < c->sample_count; i++) {
        float *row = dataset->targets + i * c->n_targets;
        c->target(c->user, i, row);
        for (int k = 0; k < c->n_targets; k++)
            if (!isfinite(row[k]))
                return ls__fail(dataset->owned.ctx, LS_ERR_DATA,
                                "ls_dataset_from_callbacks: target %d of sample %lld is %g, "
                                "expected a finite number",
                                k, (long long)i, (double)row[k]);
    }
    return LS_OK;
}

static ls_status fill(ls_dataset *dataset, const ls_dataset_callbacks *c)
{
    ls_context *ctx = dataset->owned.ctx;
    const size_t label_bytes = (size_t)c->sample_count * sizeof(*dataset->labels);
    dataset->callbacks = ls__bump_alloc(&dataset->bump, sizeof(*c));
    dataset->labels = ls__bump_alloc(&dataset->bump, label_bytes);
    if (!dataset->callbacks || !dataset->labels ||
        (c->label && !ls__dataset_name_classes(dataset, c->n_classes, c->classes)))
        return ls__fail_memory(ctx, "ls_dataset_from_callbacks", label_bytes);
    *dataset->callbacks = *c;
    dataset->callbacks->classes = NULL; /* the caller's; the dataset has copies */
    dataset->callbacks->target_names = NULL;
    dataset->n_samples = c->sample_count;
    dataset->channels = c->channels ? c->channels : 3;
    for (int64_t i = 0; i < c->sample_count; i++) {
        const int label = c->label ? c->label(c->user, i) : -1;
        if (c->label && (label < 0 || label >= c->n_classes))
            return ls__fail(ctx, LS_ERR_DATA,
                            "ls_dataset_from_callbacks: sample %lld has label %d, expected 0 to %d",
                            (long long)i, label, c->n_classes - 1);
        dataset->labels[i] = label;
    }
    return fill_targets(dataset, c);
}

ls_dataset *ls_dataset_from_callbacks(ls_context *ctx, const ls_dataset_callbacks *callbacks)
{
    LS__ENTER_NULL(ctx);
    if (check(ctx, callbacks) != LS_OK) return NULL;
    ls_dataset *dataset = ls__dataset_open(ctx, "ls_dataset_from_callbacks");
    if (dataset && fill(dataset, callbacks) != LS_OK) ls_dataset_close(&dataset);
    return dataset;
}
