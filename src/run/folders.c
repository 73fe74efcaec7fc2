/* folders.c: finding the training and validation images in a folder; see folders.h. */
#include "run/folders.h"

#include "base/error.h"
#include "base/path.h"
#include "data/dataset/splits.h"
#include <errno.h>
#include <lockstep/pack.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* "photos.pack/train" */
static bool is_split(const char *path)
{
    const char *slash = strrchr(path, '/');
    char pack[LS__PATH_SIZE];
    if (!slash || slash == path || slash - path >= LS__PATH_SIZE) return false;
    snprintf(pack, sizeof(pack), "%.*s", (int)(slash - path), path);
    bool found;
    return ls__is_file(pack) && ls_pack_holds(pack, 1, &(const char *){ slash + 1 }, &found);
}

/* The path of the images of a split in a pack. */
static bool find_in_pack(const char *pack, ls_split split, char path[LS__PATH_SIZE])
{
    const char *names[LS__MAX_SPLIT_WORDS];
    bool found[LS__MAX_SPLIT_WORDS];
    int n, i = 0;
    ls__list_split_words(split, &n, names);
    if (!ls_pack_holds(pack, n, names, found)) return false;
    while (!found[i]) i++;
    return snprintf(path, LS__PATH_SIZE, "%s/%s", pack, names[i]) < LS__PATH_SIZE;
}

/* The path of the images of a split in DIR: a folder, or a CSV file. */
static bool find_split(const char *dir, ls_split split, char path[LS__PATH_SIZE])
{
    char name[LS__FOLDER_NAME_SIZE];
    if (ls__is_csv(dir)) return false;
    if (ls__is_file(dir)) return find_in_pack(dir, split, path);
    const ls_status status = ls_split_find(dir, split, 0, name, sizeof(name), NULL);
    return status == LS_OK && snprintf(path, LS__PATH_SIZE, "%s/%s", dir, name) < LS__PATH_SIZE;
}

/* The images for validation: those of a test split where there are no others. */
static bool find_val(const char *dir, char path[LS__PATH_SIZE])
{
    return find_split(dir, LS_SPLIT_VALIDATION, path) || find_split(dir, LS_SPLIT_TEST, path);
}

/* Whether `dir` itself can be opened: a folder, a pack without splits, or a split of a pack. */
static bool is_whole(const char *dir)
{
    bool found;
    if (ls__is_file(dir)) return ls_pack_holds(dir, 1, &(const char *){ "" }, &found);
    return ls__is_folder(dir) || is_split(dir);
}

bool ls__folders_has_csv(const char *dir)
{
    char path[LS__PATH_SIZE];
    return ls__is_csv(dir) ||
           (ls__is_folder(dir) && find_split(dir, LS_SPLIT_TRAIN, path) && ls__is_csv(path));
}

/* The message for a folder or pack without the folder that was searched for. */
static const char *lack(const char *dir, const char *folder_lacks, const char *pack_lacks)
{
    return ls__is_folder(dir) ? folder_lacks
           : ls__is_csv(dir)  ? "a CSV file with training images only"
           : ls__is_file(dir) ? pack_lacks
                              : "no such folder";
}

static ls_status fail_kind(ls_context *ctx, const char *dir, const char *kind)
{
    return ls__fail(ctx, LS_ERR_DATA, "%s: %s; expected a folder or a pack", dir, kind);
}

ls_status ls__folders_check(ls_context *ctx, const char *dir)
{
    struct stat there;
    if (stat(dir, &there) != 0 || S_ISDIR(there.st_mode) || S_ISREG(there.st_mode)) return LS_OK;
    return fail_kind(ctx, dir,
                     S_ISFIFO(there.st_mode)   ? "a pipe"
                     : S_ISSOCK(there.st_mode) ? "a socket"
                                               : "a device");
}

ls_status ls__folders_check_files(ls_context *ctx, const char *dir)
{
    if (ls__folders_has_idx(dir))
        return ls__fail(ctx, LS_ERR_DATA,
                        "%s: idx files, which hold all images in one file already; expected a "
                        "folder of image files; 'lockstep train --data-dir %s' reads idx files",
                        dir, dir);
    if (!ls__folders_has_csv(dir)) return LS_OK;
    return ls__fail(ctx, LS_ERR_DATA,
                    "%s: a CSV list of images; expected a folder of class folders; 'lockstep "
                    "train --data-dir %s' reads the list itself",
                    dir, dir);
}

static bool is_image(const char *path)
{
    if (!ls__is_file(path)) return false;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const bool decoded = ls_image_load(ctx, path, false) != NULL;
    ls_context_close(&ctx);
    return decoded;
}

void ls__folders_explain(ls_context *ctx, const char *dir)
{
    if (!is_image(dir)) return;
    ls_context_clear_error(ctx);
    fail_kind(ctx, dir, "a single image");
}

static void warn_ignored(ls_context *ctx, const ls_dataset *dataset, const char *path)
{
    const char *example;
    const int64_t n = ls_dataset_ignored_count(dataset, &example);
    if (n > 0)
        ls__warn(ctx, LS_LOG_DATA,
                 "%s: ignored %lld file%s not in a supported image format, such as %s", path,
                 (long long)n, n == 1 ? "" : "s", example);
}

ls_dataset *ls__folders_open(ls_context *ctx, const char *dir)
{
    ls_dataset *dataset = ls__data_open(ctx, dir, &(ls__data_opening){ 0 });
    if (dataset) warn_ignored(ctx, dataset, dir);
    return dataset;
}

/* Adds how the images of a folder can be read that could not be opened as class folders. divides:
 * with --val-split. */
static void hint_reading(ls_context *ctx, const char *path, bool divides)
{
    char words[LS__PATH_SIZE];
    if (ls__folders_find_lists_of(path, divides, words) ||
        (ls__folders_find_list(path, words) && ls__folders_find_list_words(path, divides, words)))
        ls__error_hint(ctx, "did you mean --data-dir %s?", words);
    else if (ls__folders_is_flat(path))
        ls__folders_hint_pattern(ctx, path, divides);
}

/* The images at a path that was found in DIR. needs_labels: adds to the error of a list without
 * labels what is to do, or NULL. */
static ls_dataset *open_found(ls_context *ctx, const char *dir, const char *path, bool divides,
                              const ls__data_opening *how, const char *needs_labels)
{
    ls_dataset *dataset = ls__data_open(ctx, path, how);
    if (dataset) {
        warn_ignored(ctx, dataset, path);
        return dataset;
    }
    if (ls_context_status(ctx) == LS_ERR_SETTING) return NULL;
    ls__folders_explain(ctx, dir);
    const ls_status status = ls_context_status(ctx);
    if ((status == LS_ERR_DATA || status == LS_ERR_MISMATCH) && ls__is_folder(path) &&
        !(how->settings && how->settings->label_pattern))
        hint_reading(ctx, path, divides);
    if (needs_labels && strstr(ls_context_message(ctx), "(label_column)"))
        ls__error_hint(ctx, "a list without labels can't be validated: %s", needs_labels);
    ls__data_hint_columns(ctx);
    return NULL;
}

void ls__folders_take_whole(ls_context *ctx, const char *dir, const char *does,
                            char path[LS__PATH_SIZE])
{
    ls__folders_unwrap(dir, path);
    if (strcmp(path, dir) != 0)
        ls__note(ctx, LS_LOG_DATA, "%s: %s '%s', the only folder in it", dir, does, path);
}

bool ls__folders_has(const char *dir, ls_split split, char name[LS__FOLDER_NAME_SIZE])
{
    char path[LS__PATH_SIZE], labels[LS__PATH_SIZE];
    const bool has_idx = split == LS_SPLIT_TEST;
    return (find_split(dir, split, path) ||
            (has_idx && ls__folders_find_idx(dir, "t10k", path, labels))) &&
           snprintf(name, LS__FOLDER_NAME_SIZE, "%s", path + strlen(dir) + 1) <
               LS__FOLDER_NAME_SIZE;
}

ls_status ls__folders_find_split(ls_context *ctx, const char *dir, ls_split split,
                                 const ls__data_settings *o, char path[LS__PATH_SIZE],
                                 ls_split_kind *kind)
{
    char name[LS__FOLDER_NAME_SIZE];
    for (int i = 0;; i++) {
        const ls_status status = ls_split_find(dir, split, i, name, sizeof(name), kind);
        if (status == LS_ERR_IO) return ls__fail_errno(ctx, errno, "%s", dir);
        if (status != LS_OK) return LS_ERR_NOT_FOUND;
        if (o && o->label_pattern && *kind == LS_SPLIT_LIST) continue;
        return snprintf(path, LS__PATH_SIZE, "%s/%s", dir, name) < LS__PATH_SIZE ? LS_OK
                                                                                 : LS_ERR_NOT_FOUND;
    }
}

/* The same with a pack or file as DIR. */
static ls_status find_images(ls_context *ctx, const char *dir, ls_split split,
                             const ls__data_settings *o, char path[LS__PATH_SIZE])
{
    ls_split_kind kind;
    if (!ls__is_folder(dir)) return find_split(dir, split, path) ? LS_OK : LS_ERR_NOT_FOUND;
    return ls__folders_find_split(ctx, dir, split, o, path, &kind);
}

/* LS_ERR_DATA if --label-pattern is given and can't read the names of files in DIR. */
static ls_status has_names(ls_context *ctx, const char *dir, const ls__data_settings *o)
{
    if (!o || !o->label_pattern || !ls__is_file(dir) || ls__is_csv(dir)) return LS_OK;
    return ls__fail(ctx, LS_ERR_DATA,
                    "%s: a pack, whose classes are stored in it; --label-pattern is for folders "
                    "of image files",
                    dir);
}

/* Fails for a DIR without training images, with what may be meant. nested: a folder in it that has
 * some, or NULL. */
static ls_status fail_without_train(ls_context *ctx, const char *dir, const ls__data_settings *o,
                                    const char *nested)
{
    char words[LS__PATH_SIZE], unwrapped[LS__PATH_SIZE] = "";
    const bool is_flat = ls__folders_is_flat(dir), by_names = o && o->label_pattern;
    const bool in_names = is_flat && ls__folders_find_pattern(dir);
    bool found = nested || ls__folders_find_list_words(dir, true, words) ||
                 (ls__is_folder(dir) && (ls__folders_find_lists_of(dir, true, words) ||
                                         ls__folders_find_above(dir, words)));
    if (nested) snprintf(words, sizeof(words), "%s", nested);
    if (!found && ls__is_folder(dir)) ls__folders_unwrap(dir, unwrapped);
    if (!found && *unwrapped && strcmp(unwrapped, dir) != 0)
        found = snprintf(words, sizeof(words), "'%s' --val-split 0.2", unwrapped) < LS__PATH_SIZE;
    const char *hint = found                 ? "; did you mean --data-dir "
                       : !ls__is_folder(dir) ? ""
                       : by_names            ? "; to divide this folder add --val-split 0.2"
                       : in_names
                           ? ""
                           : "; for a folder of class folders add --val-split 0.2 or --no-val";
    ls__fail(ctx, LS_ERR_DATA, "%s: %s; expected %s/train/<class>/<image>%s%s%s", dir,
             lack(dir, "has no folder 'train'", "a pack without a folder 'train'"), dir, hint,
             found ? words : "", found ? "?" : "");
    if (!found && is_flat && !by_names) ls__folders_hint_pattern(ctx, dir, true);
    return LS_ERR_DATA;
}

/* Finds the training images: DIR/train, or with dir_itself DIR. */
static ls_status find_train(ls_context *ctx, const char *dir, const ls__data_settings *o,
                            bool dir_itself, char path[LS__PATH_SIZE])
{
    char other[LS__PATH_SIZE];
    LS_TRY(ls__folders_check(ctx, dir));
    LS_TRY(has_names(ctx, dir, o));
    const ls_status status = find_images(ctx, dir, LS_SPLIT_TRAIN, o, path);
    if (status != LS_ERR_NOT_FOUND) return status;
    const int nested = ls__folders_find_nested(dir, other);
    snprintf(path, LS__PATH_SIZE, "%s", dir);
    LS_TRY(ls__folders_check_nested(ctx, dir, nested, other));
    if (ls__is_csv(dir)) return LS_OK;
    if (dir_itself && is_whole(dir) && nested == 0) {
        if (!o || !o->label_pattern) ls__folders_take_whole(ctx, dir, "reads", path);
        return LS_OK;
    }
    return fail_without_train(ctx, dir, o, nested > 0 ? other : NULL);
}

/* Settings about lists and names of files have no effect on idx files. */
static ls_dataset *open_idx(ls_context *ctx, const char *images, const char *labels,
                            const ls__data_settings *o, int n_classes, const char *const *classes)
{
    const char *given = o ? ls__data_settings_first_given(o) : NULL;
    if (!given) return ls__folders_open_idx(ctx, images, labels, n_classes, classes);
    ls__fail(ctx, LS_ERR_SETTING, "--%s has no effect here: %s", given, images);
    return NULL;
}

ls_dataset *ls__folders_open_unsplit(ls_context *ctx, const char *dir, const ls__data_settings *o,
                                     int n_classes, const char *const *classes)
{
    char path[LS__PATH_SIZE], labels[LS__PATH_SIZE];
    if (ls__folders_find_idx(dir, "train", path, labels) ||
        ls__folders_find_idx(dir, "t10k", path, labels))
        return open_idx(ctx, path, labels, o, n_classes, classes);
    if (find_train(ctx, dir, o, true, path) != LS_OK) return NULL;
    const ls__data_opening how = {
        .settings = o, .in_groups = true, .n_classes = n_classes, .classes = classes
    };
    return open_found(ctx, dir, path, false, &how, NULL);
}

/* LS_ERR_DATA for images of one class. */
static ls_status check_classes(ls_context *ctx, const char *path, const ls_dataset *data)
{
    char list[LS__PATH_SIZE];
    if (ls_dataset_target_count(data) > 0 || ls_dataset_class_count(data) >= 2) return LS_OK;
    const bool found = ls__folders_find_list_words(path, false, list);
    return ls__fail(ctx, LS_ERR_DATA, "%s: expected at least two classes, found one: '%s'%s%s%s",
                    path, ls_dataset_class_name(data, 0), found ? "; did you mean --data-dir " : "",
                    found ? list : "", found ? "?" : "");
}

ls_dataset *ls__folders_open_train(ls_context *ctx, const char *dir, const ls__data_settings *o,
                                   bool dir_itself)
{
    char path[LS__PATH_SIZE], labels[LS__PATH_SIZE];
    int64_t counts[LS_N_SPLITS];
    ls__data_opening how = { .settings = o, .in_groups = true };
    ls_dataset *dataset = NULL;
    if (!dir_itself && ls__data_count_splits(dir, o, counts)) how.rows = LS_CSV_ROWS_TRAIN;
    if (ls__folders_find_idx(dir, "train", path, labels))
        dataset = open_idx(ctx, path, labels, o, 0, NULL);
    else if (find_train(ctx, dir, o, dir_itself, path) == LS_OK)
        dataset = open_found(ctx, dir, path, !dir_itself, &how, NULL);
    if (!dataset) return NULL;
    if (check_classes(ctx, path, dataset) != LS_OK) ls_dataset_close(&dataset);
    if (dataset && strcmp(path, dir) == 0 && ls__folders_find_list(dir, path))
        ls__note(ctx, LS_LOG_DATA, "%s is not read; --data-dir %s reads the images that it lists",
                 path, path);
    return dataset;
}

/* The rows of a list that are for validation, those for tests where there are no others;
 * LS_CSV_ROWS_ALL without a column of splits. */
static ls_csv_rows val_rows(const char *dir, const ls__data_settings *o)
{
    int64_t counts[LS_N_SPLITS];
    if (!ls__data_count_splits(dir, o, counts)) return LS_CSV_ROWS_ALL;
    return counts[LS_SPLIT_VALIDATION] > 0 ? LS_CSV_ROWS_VALIDATION
           : counts[LS_SPLIT_TEST] > 0     ? LS_CSV_ROWS_TEST
                                           : LS_CSV_ROWS_ALL;
}

static const char ways_out[] = "--val-split 0.2 splits validation images off the training images, "
                               "--no-val trains without validation";

/* Finds the validation images: a folder or list in DIR, or with dir_itself DIR. */
static ls_status find_val_images(ls_context *ctx, const char *dir, const ls__data_settings *o,
                                 bool dir_itself, char path[LS__PATH_SIZE])
{
    ls_status status = find_images(ctx, dir, LS_SPLIT_VALIDATION, o, path);
    if (status == LS_ERR_NOT_FOUND) status = find_images(ctx, dir, LS_SPLIT_TEST, o, path);
    if (status != LS_OK && status != LS_ERR_NOT_FOUND) return status;
    if (status == LS_ERR_NOT_FOUND) {
        if (!dir_itself || !is_whole(dir))
            return ls__fail(ctx, LS_ERR_DATA, "%s: %s%s%s", dir,
                            lack(dir, "has no folder 'val', 'validation', 'valid' or 'test'",
                                 "a pack without a folder 'val', 'validation', 'valid' or 'test'"),
                            dir_itself ? "" : "; ", dir_itself ? "" : ways_out);
        ls__folders_take_whole(ctx, dir, "reads", path);
    }
    if (dir_itself || (o && o->label_pattern) || !ls__is_folder(path) || !ls__folders_is_flat(path))
        return LS_OK;
    return ls__fail(ctx, LS_ERR_DATA, "%s: images without classes, which can't be validated; %s",
                    path, ways_out);
}

ls_dataset *ls__folders_open_val(ls_context *ctx, const char *dir, const ls__data_settings *o,
                                 bool dir_itself, int n_classes, const char *const *classes)
{
    char path[LS__PATH_SIZE], labels[LS__PATH_SIZE];
    ls__data_opening how = {
        .settings = o, .in_groups = !dir_itself, .n_classes = n_classes, .classes = classes
    };
    if (ls__folders_check(ctx, dir) != LS_OK || has_names(ctx, dir, o) != LS_OK) return NULL;
    if (ls__folders_find_idx(dir, "t10k", path, labels))
        return open_idx(ctx, path, labels, o, n_classes, classes);
    how.rows = val_rows(dir, o);
    if (how.rows == LS_CSV_ROWS_TEST)
        ls__note(ctx, LS_LOG_DATA, "%s: has no rows for validation; its rows for tests are used",
                 dir);
    if (how.rows != LS_CSV_ROWS_ALL) return open_found(ctx, dir, dir, false, &how, NULL);
    if (find_val_images(ctx, dir, o, dir_itself, path) != LS_OK) return NULL;
    return open_found(ctx, dir, path, false, &how, dir_itself ? NULL : ways_out);
}

static const char *kind_of(const ls_dataset *dataset)
{
    return ls_dataset_target_count(dataset) == 0    ? "one class"
           : ls_dataset_targets_are_labels(dataset) ? "several labels"
                                                    : "numbers";
}

ls_status ls__folders_check_kinds(ls_context *ctx, const char *dir, const ls_dataset *train,
                                  const ls_dataset *val)
{
    char train_path[LS__PATH_SIZE], val_path[LS__PATH_SIZE];
    const char *expected = kind_of(train), *got = kind_of(val);
    if (strcmp(expected, got) == 0 || !find_split(dir, LS_SPLIT_TRAIN, train_path) ||
        !find_val(dir, val_path))
        return LS_OK;
    return ls__fail(ctx, LS_ERR_DATA,
                    "%s has %s for each image, %s has %s: expected the same columns", train_path,
                    expected, val_path, got);
}
