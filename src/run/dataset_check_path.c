/* dataset_check_path.c: checks and packs the images at a path; see lockstep/dataset_path.h. */
#include "base/c_locale.h"
#include "base/error.h"
#include "base/path.h"
#include "run/folders.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const split_names[LS_N_SPLITS] = { "train", "val", "test" };

/* ---- Parts ---- */

typedef struct check_parts {
    ls_check_part items[LS_N_SPLITS];
    int n;
} check_parts;

/* Whether DIR is a list, or has lists for training or validation, or --label-pattern reads it; else
 * it is checked as a folder of class folders. */
static bool has_parts(const char *dir, const ls__data_settings *o)
{
    char path[LS__PATH_SIZE];
    ls_split_kind kind;
    bool found = ls__is_csv(dir) || o->label_pattern;
    for (int s = 0; s < LS_N_SPLITS && !found; s++)
        found = ls__folders_find_split(NULL, dir, (ls_split)s, o, path, &kind) == LS_OK &&
                kind == LS_SPLIT_LIST;
    return found;
}

static ls_status add_part(ls_context *ctx, const char *path, const ls__data_opening *how,
                          const char *name, check_parts *parts)
{
    ls_dataset *dataset = ls__data_open(ctx, path, how);
    if (dataset) {
        parts->items[parts->n++] = (ls_check_part){ name, dataset };
        return LS_OK;
    }
    ls__folders_explain(ctx, path);
    ls__data_hint_columns(ctx);
    return ls_context_status(ctx);
}

/* The parts that a list's column of splits makes; without one, the list. */
static ls_status open_list(ls_context *ctx, const char *path, const ls__data_settings *o,
                           check_parts *parts)
{
    int64_t counts[LS_N_SPLITS];
    ls__data_opening how = { .settings = o, .in_groups = true };
    if (!ls__data_count_splits(path, o, counts)) return add_part(ctx, path, &how, "", parts);
    for (int s = 0; s < LS_N_SPLITS; s++) {
        how.rows = (ls_csv_rows)(LS_CSV_ROWS_TRAIN + s);
        if (counts[s] > 0) LS_TRY(add_part(ctx, path, &how, split_names[s], parts));
    }
    return LS_OK;
}

/* Whether the columns of labels of a list are found. */
static bool is_labelled(const char *list, const ls__data_settings *o)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls_dataset *dataset = ls__data_open(ctx, list, &(ls__data_opening){ .settings = o });
    const bool found = dataset || !strstr(ls_context_message(ctx), "label_column)");
    ls_context_close(&ctx);
    return found;
}

/* Opens the parts, each with its own classes. */
static ls_status open_parts(ls_context *ctx, const char *dir, const ls__data_settings *o,
                            check_parts *parts)
{
    const ls__data_opening how = { .settings = o, .in_groups = true };
    if (ls__is_csv(dir)) return open_list(ctx, dir, o, parts);
    for (int s = 0; s < LS_N_SPLITS; s++) {
        char path[LS__PATH_SIZE];
        ls_split_kind kind;
        if (ls__folders_find_split(NULL, dir, (ls_split)s, o, path, &kind) != LS_OK) continue;
        if (kind == LS_SPLIT_FLAT_FOLDER && !o->label_pattern)
            ls__note(ctx, LS_LOG_DATA, "%s: not checked, because its images have no classes", path);
        else if (s == LS_SPLIT_TEST && kind == LS_SPLIT_LIST && !is_labelled(path, o))
            ls__note(ctx, LS_LOG_DATA, "%s: not checked, because it has no labels", path);
        else
            LS_TRY(add_part(ctx, path, &how, split_names[s], parts));
    }
    return parts->n > 0 ? LS_OK : add_part(ctx, dir, &how, "", parts);
}

/* ---- A folder ---- */

static bool has_class_folders(const char *dir)
{
    char name[LS__FOLDER_NAME_SIZE], train[LS__PATH_SIZE];
    return ls__folders_has(dir, LS_SPLIT_TRAIN, name) &&
           snprintf(train, LS__PATH_SIZE, "%s/%s", dir, name) < LS__PATH_SIZE &&
           !ls__folders_is_flat(train);
}

/* How the images of a folder without class folders can be checked. */
static void note_other_reading(ls_context *ctx, const char *dir)
{
    char list[LS__PATH_SIZE], words[LS__PATH_SIZE];
    const char *pattern = ls__folders_is_flat(dir) ? ls__folders_find_pattern(dir) : NULL;
    if (ls__folders_find_list(dir, list) && ls__folders_find_list_words(dir, false, words))
        ls__note(ctx, LS_LOG_DATA,
                 "%s is not checked; the images that it lists are checked by: lockstep check %s",
                 list, words);
    else if (pattern)
        ls__note(ctx, LS_LOG_DATA, "--label-pattern '%s' reads classes in the names of the files",
                 pattern);
}

static ls_dataset_report *check_folder(ls_context *ctx, const char *dir, const ls__data_settings *o,
                                       const ls_dataset_check_config *config)
{
    if (!ls__data_settings_fit(ctx, dir, o)) return NULL;
    char inner[LS__PATH_SIZE];
    if (!has_class_folders(dir)) {
        note_other_reading(ctx, dir);
        ls__folders_take_whole(ctx, dir, "checks", inner);
        dir = inner;
    }
    ls_dataset_check_config with_groups = *config;
    with_groups.group_pattern = o->group_pattern;
    ls_dataset_report *report = ls_dataset_check(ctx, dir, &with_groups);
    if (ls_dataset_report_class_count(report) == 1 && !ls_dataset_report_class_at(report, 0).name)
        ls__note(
            ctx, LS_LOG_DATA,
            "%s: images without classes, which prediction reads; training reads class folders, "
            "a list, or with --label-pattern classes in the names of the files",
            dir);
    return report;
}

ls_dataset_report *ls_dataset_check_path(ls_context *ctx, const char *path,
                                         const ls_dataset_config *dataset,
                                         const ls_dataset_check_config *config)
{
    LS__ENTER_NULL(ctx);
    if (!path) return ls__fail_null(ctx, "ls_dataset_check_path", "path"), NULL;
    LS__IN_C_LOCALE;
    const ls__data_settings o = ls__data_settings_of(dataset);
    ls_dataset_check_config checked = config ? *config : (ls_dataset_check_config){ 0 };
    checked.group_pattern = NULL;
    check_parts parts = { .n = 0 };
    if (ls__is_file(path) && !ls__is_csv(path)) {
        ls__fail(ctx, LS_ERR_DATA,
                 "%s: a file; expected a folder; 'lockstep pack --check' checks a pack", path);
        return NULL;
    }
    if (!ls__data_settings_check(ctx, &o) || ls__folders_check(ctx, path) != LS_OK) return NULL;
    if (has_parts(path, &o))
        return open_parts(ctx, path, &o, &parts) == LS_OK
                   ? ls_dataset_check_parts(ctx, parts.n, parts.items, &checked)
                   : NULL;
    return ls__folders_check_files(ctx, path) == LS_OK ? check_folder(ctx, path, &o, &checked)
                                                       : NULL;
}

/* ---- Packs ---- */

/* Adds how the images can be read that are not in class folders. */
static void hint_training(ls_context *ctx, const char *dir)
{
    char words[LS__PATH_SIZE];
    const bool found =
        ls__folders_find_list(dir, words) && ls__folders_find_list_words(dir, true, words);
    if (found || ls__folders_is_flat(dir))
        ls__error_hint(ctx, "'lockstep train --data-dir %s%s' reads %s, without a pack",
                       found ? words : dir, found ? "" : " --label-pattern REGEX",
                       found ? "the list" : "classes in the names of files");
}

static ls_status open_splits(ls_context *ctx, const char *dir, ls_pack_split splits[LS_N_SPLITS],
                             int *n)
{
    for (int split = 0; split < LS_N_SPLITS; split++) {
        char name[LS__FOLDER_NAME_SIZE], path[LS__PATH_SIZE];
        ls_split_kind kind;
        const ls_status status = ls_split_find(dir, (ls_split)split, 0, name, sizeof(name), &kind);
        if (status == LS_ERR_IO) return ls__fail_errno(ctx, errno, "%s", dir);
        if (status != LS_OK) continue;
        if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= LS__PATH_SIZE) continue;
        if (kind != LS_SPLIT_LIST)
            splits[(*n)++] = (ls_pack_split){ split_names[split], ls__folders_open(ctx, path) };
        else
            ls__warn(ctx, LS_LOG_DATA, "%s: a list, which a pack does not contain", path);
    }
    if (*n == 0) splits[(*n)++] = (ls_pack_split){ "", ls__folders_open(ctx, dir) };
    if (ls_context_status(ctx) == LS_OK) return LS_OK;
    ls__folders_explain(ctx, dir);
    hint_training(ctx, dir);
    return ls_context_status(ctx);
}

int ls_pack_open_splits(ls_context *ctx, const char *dir, ls_pack_split splits[LS_N_SPLITS])
{
    int n = 0;
    bool is_damaged; /* a file that is no pack "holds" any name */
    if (ls__enter(ctx) != LS_OK) return 0;
    if (!dir || !splits)
        return ls__fail_null(ctx, "ls_pack_open_splits", dir ? "splits" : "dir"), 0;
    LS__IN_C_LOCALE;
    if (ls__folders_check(ctx, dir) != LS_OK || ls__folders_check_files(ctx, dir) != LS_OK)
        return 0;
    const bool is_pack =
        ls__is_file(dir) && !ls_pack_holds(dir, 1, &(const char *){ "no split" }, &is_damaged);
    if (!is_pack && open_splits(ctx, dir, splits, &n) != LS_OK) return 0;
    if (ls__is_folder(dir)) return n;
    ls__fail(ctx, LS_ERR_DATA, "%s: is already a pack; expected a folder", dir);
    return 0;
}
