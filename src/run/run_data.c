/* run_data.c: the datasets and loaders of a run; see run_state.h. */
#include "base/error.h"
#include "base/path.h"
#include "run/folders.h"
#include "run/run_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the folder `name` in the dataset holds images alone, whose names are not read. */
static bool has_no_classes(const ls__run_settings *r, const char *name)
{
    char path[LS__PATH_SIZE];
    return !r->data.label_pattern &&
           snprintf(path, sizeof(path), "%s/%s", r->data_dir, name) < LS__PATH_SIZE &&
           ls__is_folder(path) && ls__folders_is_flat(path);
}

ls_status ls__run_open_train_data(ls_context *ctx, const ls__run_settings *r, ls_dataset **train,
                                  ls_dataset **val)
{
    char name[LS__FOLDER_NAME_SIZE];
    const bool dir_itself = r->val_split > 0 || r->no_val;
    *train = ls__folders_open_train(ctx, r->data_dir, &r->data, dir_itself);
    if (!*train || r->val_split == 0) return ls_context_status(ctx);
    if (ls__folders_has(r->data_dir, LS_SPLIT_VALIDATION, name) && has_no_classes(r, name))
        ls__note(ctx, LS_LOG_DATA, "%s: '%s' is not used: its images have no classes", r->data_dir,
                 name);
    else if (ls__folders_has(r->data_dir, LS_SPLIT_VALIDATION, name))
        return ls__fail(ctx, LS_ERR_DATA,
                        "%s: already has validation images, in '%s', which --val-split would not "
                        "use; omit --val-split to validate on them, or rename '%s'",
                        r->data_dir, name, name);
    ls_dataset *all = *train;
    const ls_status status =
        ls_dataset_split(all, r->val_split, (uint64_t)r->val_split_seed, train, val);
    ls_dataset_close(&all);
    return status;
}

/* LS_ERR_SETTING unless the samples have what the loss reads. */
static ls_status fits_loss(ls_context *ctx, const ls__run_settings *r, const ls_dataset *data)
{
    const int n = ls_dataset_target_count(data);
    if (r->loss == LS__LOSS_CROSS_ENTROPY)
        return n == 0 ? LS_OK
                      : ls__fail(ctx, LS_ERR_SETTING,
                                 "%s: has several labels or numbers for each image; --loss bce is "
                                 "for labels, --loss mse for numbers",
                                 r->data_dir);
    const bool bce = r->loss == LS__LOSS_BCE, labels = ls_dataset_targets_are_labels(data);
    if (n == 0 || (labels && !bce))
        return ls__fail(ctx, LS_ERR_SETTING,
                        "--loss %s: expected a CSV file with %s; %s has %s for each image%s",
                        bce ? "bce" : "mse",
                        bce ? "a column 'labels'" : "a column 'target' or columns 'target_...'",
                        r->data_dir, labels ? "several labels" : "one class",
                        labels ? ", for --loss bce" : "");
    for (int64_t i = 0; bce && i < ls_dataset_sample_count(data); i++)
        for (int k = 0; k < n; k++) {
            const double target = (double)ls_dataset_targets(data, i)[k];
            if (!(target >= 0 && target <= 1))
                return ls__fail(ctx, LS_ERR_SETTING,
                                "--loss bce: '%s' of %s is %g, expected 0 to 1; --loss mse takes "
                                "any numbers",
                                ls_dataset_target_name(data, k), ls_dataset_sample_path(data, i),
                                target);
        }
    return LS_OK;
}

/* The names of the model's outputs. */
static ls_status list_outputs(ls_run *t)
{
    const int n_targets = ls_dataset_target_count(t->train_data);
    const int n = n_targets > 0 ? n_targets : ls_dataset_class_count(t->train_data);
    t->classes = calloc((size_t)n, sizeof(*t->classes));
    for (int i = 0; t->classes && i < n; i++)
        t->classes[i] = n_targets > 0 ? ls_dataset_target_name(t->train_data, i)
                                      : ls_dataset_class_name(t->train_data, i);
    t->info.classes = t->classes;
    t->info.options.n_classes = n;
    return t->classes ? LS_OK : ls__fail_memory(t->ctx, "classes", 0);
}

/* Classes without validation images are possible, but hardly intended. */
static void warn_missing_classes(const ls_run *t)
{
    int64_t n_missing = 0;
    const char *missing = NULL;
    const int n_classes = ls_dataset_class_count(t->val_data);
    int64_t *counts = n_classes > 0 ? calloc((size_t)n_classes, sizeof(*counts)) : NULL;
    const bool counted = counts && ls_dataset_class_sizes(t->val_data, counts) == LS_OK;
    for (int i = 0; counted && i < n_classes; i++)
        if (counts[i] == 0 && n_missing++ == 0) missing = t->classes[i];
    free(counts);
    if (n_missing > 0)
        ls__warn(t->ctx, LS_LOG_DATA,
                 "%s: no validation images of %lld of %d classes, such as '%s': the validation "
                 "accuracy does not cover them",
                 t->settings->data_dir, (long long)n_missing, n_classes, missing);
}

/* Patients in training and validation data are possible, but hardly intended. */
static ls_status warn_shared_groups(const ls_run *t)
{
    ls_shared_groups shared;
    LS_TRY(ls_dataset_shared_groups(t->train_data, t->val_data, &shared));
    if (shared.n_groups > 0)
        ls__warn(t->ctx, LS_LOG_DATA,
                 "%s: %lld of %lld validation images are of groups that have training images, too, "
                 "such as '%s': the validation accuracy is too high; --val-split 0.2 of all "
                 "images keeps groups together, 'lockstep check' with the same options lists them",
                 t->settings->data_dir, (long long)shared.n_samples,
                 (long long)ls_dataset_sample_count(t->val_data), shared.example);
    return LS_OK;
}

ls_status ls__run_check_missing(const ls_run *t)
{
    const ls__run_settings *r = t->settings;
    const bool skips = r->on_bad_image != LS_BAD_IMAGE_FAIL;
    if (!ls__folders_has_csv(r->data_dir)) return LS_OK;
    LS_TRY(ls__data_check_missing(t->ctx, r->data_dir, t->train_data, "training", skips));
    return t->val_data
               ? ls__data_check_missing(t->ctx, r->data_dir, t->val_data, "validation", skips)
               : LS_OK;
}

/* The given validation images, with warnings about them. */
static ls_status open_validation(ls_run *t)
{
    const ls__run_settings *r = t->settings;
    t->val_data = ls__folders_open_val(t->ctx, r->data_dir, &r->data, false,
                                       (int)t->info.options.n_classes, t->classes);
    LS_TRY(ls_context_status(t->ctx));
    LS_TRY(ls__folders_check_kinds(t->ctx, r->data_dir, t->train_data, t->val_data));
    LS_TRY(fits_loss(t->ctx, r, t->val_data));
    if (r->resume) return LS_OK;
    warn_missing_classes(t);
    return warn_shared_groups(t);
}

/* Where the images are below the path; test images may take the place of validation images. */
static void name_splits(ls_run *t)
{
    const char *dir = t->settings->data_dir;
    char *val = t->split_names[LS_SPLIT_VALIDATION];
    if (!ls__folders_has(dir, LS_SPLIT_TRAIN, t->split_names[LS_SPLIT_TRAIN]))
        *t->split_names[LS_SPLIT_TRAIN] = '\0';
    const bool has_val = t->val_data && t->settings->val_split == 0 && !ls__folders_has_idx(dir) &&
                         (ls__folders_has(dir, LS_SPLIT_VALIDATION, val) ||
                          ls__folders_has(dir, LS_SPLIT_TEST, val));
    if (!has_val) *val = '\0';
}

ls_status ls__run_open_datasets(ls_run *t)
{
    const ls__run_settings *r = t->settings;
    char name[LS__FOLDER_NAME_SIZE];
    if (ls__run_open_train_data(t->ctx, r, &t->train_data, &t->val_data) != LS_OK) {
        if (r->resume && !ls__path_exists(r->data_dir))
            ls__error_hint(t->ctx, "the run's dataset is no longer there; if it was moved, use "
                                   "--data-dir DIR");
        return ls_context_status(t->ctx);
    }
    LS_TRY(fits_loss(t->ctx, r, t->train_data));
    LS_TRY(list_outputs(t));
    if (!r->no_val && r->val_split == 0 && t->extent == LS_RUN_WHOLE) LS_TRY(open_validation(t));
    if (r->val_split > 0 && !r->resume && ls__folders_has(r->data_dir, LS_SPLIT_TEST, name))
        ls__note(t->ctx, LS_LOG_DATA,
                 "%s: --val-split takes the validation images from the training images; '%s' is "
                 "not used",
                 r->data_dir, name);
    if (!r->resume) LS_TRY(ls__run_check_missing(t));
    name_splits(t);
    ls_digest digest; /* computed now, and kept by the dataset */
    if (r->digest_contents) LS_TRY(ls_dataset_digest(t->train_data, true, &digest));
    return r->digest_contents && t->val_data ? ls_dataset_digest(t->val_data, true, &digest)
                                             : LS_OK;
}

int64_t ls__run_suggest_batch(int64_t n_images)
{
    int64_t batch = 8;
    while (batch * 2 <= n_images / 8) batch *= 2;
    return n_images < batch ? n_images : batch;
}

ls_status ls__run_open_loaders(ls_run *t)
{
    const ls__run_settings *r = t->settings;
    const long long n = ls_dataset_sample_count(t->train_data);
    const long long better = ls__run_suggest_batch(n);
    if (n < r->batch)
        return ls__fail(
            t->ctx, LS_ERR_DATA,
            "%s: %lld training images do not fill one batch of %lld: use -b %lld, which "
            "gives %lld step%s per epoch",
            r->data_dir, n, (long long)r->batch, better, n / better, n / better == 1 ? "" : "s");
    ls_loader_config config = ls__run_train_loader_config(r);
    t->train = ls_loader_open(t->train_data, &config);
    const ls_input_spec input = ls_loader_input_spec(t->train);
    t->info.channels = (int)input.image.shape.dims[3];
    memcpy(t->info.mean, input.mean, sizeof(t->info.mean));
    memcpy(t->info.std, input.std, sizeof(t->info.std));
    config = ls__run_val_loader_config(r, &t->info);
    if (t->val_data) t->val = ls_loader_open(t->val_data, &config);
    return ls_context_status(t->ctx);
}
