/* folders_hints.c: see folders.h. */
#include "run/folders.h"

#include "base/error.h"
#include "base/path.h"
#include <dirent.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

enum { MAX_CLASSES = 128 };

static bool has_train(const char *dir)
{
    char name[LS__FOLDER_NAME_SIZE];
    return ls_split_find(dir, LS_SPLIT_TRAIN, 0, name, sizeof(name), NULL) == LS_OK;
}

/* The path of the next folder in DIR, without hidden ones; false at the end. */
static bool next_folder(DIR *folder, const char *dir, char path[LS__PATH_SIZE])
{
    for (const struct dirent *e; folder && (e = readdir(folder));)
        if (e->d_name[0] != '.' &&
            snprintf(path, LS__PATH_SIZE, "%s/%s", dir, e->d_name) < LS__PATH_SIZE &&
            ls__is_folder(path))
            return true;
    return false;
}

int ls__folders_find_nested(const char *dir, char path[LS__PATH_SIZE])
{
    int n = 0;
    char here[LS__PATH_SIZE];
    DIR *folder = opendir(dir);
    while (next_folder(folder, dir, here))
        if (has_train(here) && (n++ == 0 || strcmp(here, path) < 0)) strcpy(path, here);
    if (folder) closedir(folder);
    return n;
}

/* YOLO's layout: images/train beside labels/train, which has a text file of boxes per image. */
static bool is_yolo(const char *dir)
{
    char images[LS__PATH_SIZE], labels[LS__PATH_SIZE];
    return snprintf(images, LS__PATH_SIZE, "%s/images", dir) < LS__PATH_SIZE &&
           snprintf(labels, LS__PATH_SIZE, "%s/labels", dir) < LS__PATH_SIZE &&
           ls__is_folder(labels) && has_train(images);
}

ls_status ls__folders_check_nested(ls_context *ctx, const char *dir, int n_nested,
                                   const char *nested)
{
    if (is_yolo(dir))
        return ls__fail(ctx, LS_ERR_DATA,
                        "%s: a dataset of boxes (images/, labels/), which are not read; expected "
                        "a folder of images for each class",
                        dir);
    if (n_nested < 2) return LS_OK;
    return ls__fail(ctx, LS_ERR_DATA,
                    "%s: %d folders, such as '%s', have a folder 'train' each; train one of them "
                    "with --data-dir %s, or if they are the classes, move the images to "
                    "%s/train/<class>/<image>",
                    dir, n_nested, nested, nested, dir);
}

bool ls__folders_is_flat(const char *dir)
{
    char here[LS__PATH_SIZE];
    DIR *folder = opendir(dir);
    const bool is_flat = folder && !next_folder(folder, dir, here);
    if (folder) closedir(folder);
    return is_flat;
}

bool ls__folders_find_above(const char *dir, char path[LS__PATH_SIZE])
{
    char copy[LS__PATH_SIZE];
    ls_split split;
    if (strlen(dir) >= LS__PATH_SIZE || !ls_split_of_name(basename(strcpy(copy, dir)), &split) ||
        split != LS_SPLIT_TRAIN)
        return false;
    snprintf(path, LS__PATH_SIZE, "%s", dirname(strcpy(copy, dir)));
    return true;
}

/* ---- Classes in the names of files ---- */

static bool fits_names(ls_context *ctx, const char *dir, const char *pattern)
{
    ls_dataset *dataset = ls_image_pattern_open(ctx, dir, pattern, 0, NULL);
    const int64_t n = dataset ? ls_dataset_class_count(dataset) : 0;
    const bool fits = n >= 2 && n <= MAX_CLASSES && ls_dataset_sample_count(dataset) >= 2 * n;
    ls_dataset_close(&dataset);
    ls_context_clear_error(ctx);
    return fits;
}

const char *ls__folders_find_pattern(const char *dir)
{
    /* cat.1.jpg, cat_1.jpg; cat12.jpg; 1_cat.jpg; p1_cat_2.jpg */
    static const char *const patterns[] = { "^([A-Za-z]+)[._ -]", "^([A-Za-z]+)[0-9]",
                                            "[._ -]([A-Za-z]+)[.][A-Za-z]+$",
                                            "^[A-Za-z]*[0-9]+[._ -]([A-Za-z]+)[._ -]" };
    const char *found = NULL;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]) && !found; i++)
        if (fits_names(ctx, dir, patterns[i])) found = patterns[i];
    ls_context_close(&ctx);
    return found;
}

void ls__folders_hint_pattern(ls_context *ctx, const char *dir, bool divides)
{
    const char *pattern = ls__folders_find_pattern(dir);
    const char *split = divides ? " --val-split 0.2" : "";
    if (pattern)
        ls__error_hint(ctx,
                       "the names of the files seem to have the classes: --label-pattern '%s'%s "
                       "reads them",
                       pattern, split);
    else
        ls__error_hint(ctx,
                       "if the names of the files have the classes, --label-pattern REGEX%s reads "
                       "them: '([a-z]+)[.]' for cat.1.jpg",
                       split);
}

/* ---- A folder in a folder ---- */

/* The number of folders in DIR; path: that of one of them. */
static int count_folders(const char *dir, char path[LS__PATH_SIZE])
{
    char here[LS__PATH_SIZE];
    int n = 0;
    DIR *folder = opendir(dir);
    while (next_folder(folder, dir, here))
        if (strcmp(strrchr(here, '/'), "/__MACOSX") != 0 && n++ == 0) strcpy(path, here);
    if (folder) closedir(folder);
    return n;
}

void ls__folders_unwrap(const char *dir, char path[LS__PATH_SIZE])
{
    char inner[LS__PATH_SIZE];
    if (count_folders(dir, path) != 1 || ls_split_of_name(strrchr(path, '/') + 1, NULL) ||
        count_folders(path, inner) < 2)
        snprintf(path, LS__PATH_SIZE, "%s", dir);
}
