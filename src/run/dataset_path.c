/* dataset_path.c: opens the images at a path for training, validation or evaluation; see
 * lockstep/dataset_path.h. */
#include "base/c_locale.h"
#include "base/error.h"
#include "base/path.h"
#include "data/dataset/splits.h"
#include "run/folders.h"
#include <libgen.h>
#include <stdio.h>
#include <string.h>

ls_path_kind ls_path_kind_of(const char *path)
{
    if (!path || !ls__path_exists(path)) return LS_PATH_NONE;
    if (ls__is_folder(path)) return ls__folders_has_idx(path) ? LS_PATH_IDX_FOLDER : LS_PATH_FOLDER;
    return ls__is_csv(path) ? LS_PATH_LIST : ls__is_file(path) ? LS_PATH_FILE : LS_PATH_OTHER;
}

/* Whether the path itself is that of validation or test images, by its name: "data/val". */
static bool is_validation(const char *path)
{
    char name[LS__PATH_SIZE];
    ls_split split;
    if (snprintf(name, sizeof(name), "%s", path) >= LS__PATH_SIZE) return false;
    const char *base = basename(name);
    return (ls__is_folder(path) ? ls_split_of_name(base, &split)
                                : ls__split_of_list(base, &split)) &&
           split != LS_SPLIT_TRAIN;
}

ls_dataset *ls_dataset_open(ls_context *ctx, const char *path, const ls_dataset_config *config)
{
    static const ls_dataset_config defaults = { 0 };
    if (!config) config = &defaults;
    LS__ENTER_NULL(ctx);
    int64_t counts[LS_N_SPLITS];
    const ls__data_settings o = ls__data_settings_of(config);
    if (!path || (config->split != LS_SPLIT_TRAIN && config->split != LS_SPLIT_VALIDATION)) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_dataset_open: %s",
                 path ? "expected the split for training or validation" : "path is NULL");
        return NULL;
    }
    const bool has_classes = config->classes || config->n_classes > 0;
    if (has_classes &&
        (!config->classes || config->n_classes <= 0 || config->split == LS_SPLIT_TRAIN)) {
        ls__fail(
            ctx, LS_ERR_INVALID,
            "ls_dataset_open: expected n_classes names of classes for validation, or 0 and NULL");
        return NULL;
    }
    LS__IN_C_LOCALE;
    if (!ls__data_settings_check(ctx, &o)) return NULL;
    if (config->split == LS_SPLIT_VALIDATION)
        return ls__folders_open_val(ctx, path, &o, is_validation(path), config->n_classes,
                                    config->classes);
    return ls__folders_open_train(ctx, path, &o, !ls__data_count_splits(path, &o, counts));
}

/* ---- For a model ---- */

/* Whether the images of DIR are in folders of the model's classes. */
static bool has_class_folder(const char *dir, const ls_model_info *info)
{
    char name[LS__FOLDER_NAME_SIZE], path[LS__PATH_SIZE];
    const bool has_split = ls__folders_has(dir, LS_SPLIT_VALIDATION, name) ||
                           ls__folders_has(dir, LS_SPLIT_TEST, name);
    for (int64_t i = 0; i < info->options.n_classes; i++)
        if (snprintf(path, sizeof(path), "%s%s%s/%s", dir, has_split ? "/" : "",
                     has_split ? name : "", info->classes[i]) < LS__PATH_SIZE &&
            ls__is_folder(path))
            return true;
    return false;
}

/* Whether a list lacks the column of groups that the model's training list had. It is another list
 * then, which no split of the training divides. */
static bool lacks_groups(const char *list, const ls_csv_config *config)
{
    int64_t counts[LS_N_SPLITS];
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const bool lacks = config->group_column &&
                       ls_csv_count_splits(ctx, list, config, counts) != LS_OK &&
                       strstr(ls_context_message(ctx), "(group_column)") != NULL;
    ls_context_close(&ctx);
    return lacks;
}

/* Adds how lists and names of files were read in training, where the settings do not say otherwise.
 */
static void add_settings_of_model(const char *path, const ls_saved_model *model,
                                  ls__data_settings *o)
{
    const ls_model_info info = ls_saved_model_info(model);
    o->of_model = ls_saved_model_csv_config(model);
    if (ls__is_csv(path) && lacks_groups(path, &o->of_model)) o->of_model.group_column = NULL;
    if (!o->label_pattern && ls__is_folder(path) && !ls__folders_has_csv(path) &&
        !ls__folders_has_idx(path) && !has_class_folder(path, &info))
        o->label_pattern = ls_saved_model_label_pattern(model);
}

/* The validation split, if training split this dataset; else as ls__folders_open_val. */
static ls_dataset *open_images(ls_context *ctx, const char *path, const ls__data_settings *o,
                               const ls_saved_model *model, ls_model_images *images)
{
    const ls_model_info info = ls_saved_model_info(model);
    const int n_classes = (int)info.options.n_classes;
    char name[LS__FOLDER_NAME_SIZE];
    if (!ls_saved_model_has_split(model) || ls__folders_has(path, LS_SPLIT_VALIDATION, name))
        return ls__folders_open_val(ctx, path, o, true, n_classes, info.classes);
    ls_dataset *all = ls__folders_open_unsplit(ctx, path, o, n_classes, info.classes);
    ls_dataset *split = all ? ls_saved_model_validation_split(model, all) : NULL;
    if (ls_context_status(ctx) != LS_OK) return NULL;
    images->is_split = split != NULL;
    images->is_other = split == NULL;
    images->n_all = ls_dataset_sample_count(all);
    return split ? split : all;
}

/* LS_ERR_SETTING unless the samples have what the model's loss reads. */
static ls_status fits_model(ls_context *ctx, const char *path, const ls_model_info *info,
                            const ls_dataset *dataset)
{
    const bool reads_targets = info->loss != LS_LOSS_CROSS_ENTROPY;
    if (reads_targets == (ls_dataset_target_count(dataset) > 0)) return LS_OK;
    return ls__fail(ctx, LS_ERR_SETTING, "%s: %s; the model was trained on %s", path,
                    reads_targets ? "one class for each image"
                                  : "several labels or numbers for each image",
                    reads_targets ? "several labels or numbers" : "classes");
}

ls_dataset *ls_dataset_open_for_model(ls_context *ctx, const char *path,
                                      const ls_dataset_config *config, const ls_saved_model *model,
                                      ls_model_images *images)
{
    ls_model_images unused;
    if (!images) images = &unused;
    *images = (ls_model_images){ 0 };
    LS__ENTER_NULL(ctx);
    if (!path) return ls__fail_null(ctx, "ls_dataset_open_for_model", "path"), NULL;
    LS__IN_C_LOCALE;
    const ls_model_info info = ls_saved_model_info(model);
    ls__data_settings o = ls__data_settings_of(config);
    if (!ls__data_settings_check(ctx, &o)) return NULL;
    if (model) add_settings_of_model(path, model, &o);
    ls_dataset *dataset = open_images(ctx, path, &o, model, images);
    if (!dataset) return NULL;
    if (images->n_all == 0) images->n_all = ls_dataset_sample_count(dataset);
    if (model && fits_model(ctx, path, &info, dataset) != LS_OK) ls_dataset_close(&dataset);
    return dataset;
}

ls_status ls_dataset_check_missing(ls_context *ctx, const char *path, const ls_dataset *dataset,
                                   ls_bad_image on_bad_image)
{
    LS__ENTER(ctx);
    if (!path || !dataset)
        return ls__fail_null(ctx, "ls_dataset_check_missing", path ? "dataset" : "path");
    return ls__folders_has_csv(path) ? ls__data_check_missing(ctx, path, dataset, "listed",
                                                              on_bad_image != LS_BAD_IMAGE_FAIL)
                                     : LS_OK;
}
