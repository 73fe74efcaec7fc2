/* folders_hints.c: see folders_hints.h. */
#include "runs/folders_hints.h"
#include <dirent.h>
#include <libgen.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_CLASSES = 128, CLASS_SIZE = 64, MAX_NAMES = 10000 };

static bool has_train(const char *dir)
{
    char name[FOLDER_NAME_SIZE];
    return ls_split_find(dir, LS_SPLIT_TRAIN, 0, name, sizeof(name), NULL) == LS_OK;
}

int folders_find_nested(const char *dir, char path[PATH_SIZE])
{
    int n = 0;
    char here[PATH_SIZE];
    DIR *folder = opendir(dir);
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        const int length = snprintf(here, PATH_SIZE, "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || length >= PATH_SIZE || !is_folder(here) || !has_train(here))
            continue;
        if (n++ == 0 || strcmp(here, path) < 0) snprintf(path, PATH_SIZE, "%s", here);
    }
    if (folder) closedir(folder);
    return n;
}

bool folders_find_list(const char *dir, char path[PATH_SIZE])
{
    char here[PATH_SIZE];
    bool found = false;
    DIR *folder = is_folder(dir) ? opendir(dir) : NULL;
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        const char *dot = strrchr(e->d_name, '.');
        const int length = snprintf(here, PATH_SIZE, "%s/%s", dir, e->d_name);
        if (!dot || (strcasecmp(dot, ".csv") != 0 && strcasecmp(dot, ".tsv") != 0) ||
            e->d_name[0] == '.' || length >= PATH_SIZE || !is_file(here))
            continue;
        if (!found || strcmp(here, path) < 0) snprintf(path, PATH_SIZE, "%s", here);
        found = true;
    }
    if (folder) closedir(folder);
    return found;
}

bool folders_find_list_words(const char *dir, char words[PATH_SIZE])
{
    char column[COLUMN_SIZE];
    int64_t counts[LS_N_SPLITS];
    if (!folders_find_list(dir, words)) return false;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const size_t length = strlen(words);
    if (ls_csv_count_splits(ctx, words, NULL, counts) != LS_OK &&
        guessed_column(ls_context_message(ctx), column))
        snprintf(words + length, PATH_SIZE - length, " --csv-columns 'label=%s'", column);
    ls_context_close(&ctx);
    return true;
}

/* YOLO's layout: images/train beside labels/train, which has a text file of boxes per image. */
static bool is_yolo(const char *dir)
{
    char images[PATH_SIZE], labels[PATH_SIZE];
    return snprintf(images, PATH_SIZE, "%s/images", dir) < PATH_SIZE &&
           snprintf(labels, PATH_SIZE, "%s/labels", dir) < PATH_SIZE && is_folder(labels) &&
           has_train(images);
}

bool folders_print_nested(const char *dir, int n_nested, const char *nested)
{
    if (is_yolo(dir))
        return fail_with(
            true,
            "%s: a dataset of boxes (images/, labels/), which are not read; expected a "
            "folder of images for each class",
            dir);
    if (n_nested < 2) return false;
    print_message("%s: %d folders, such as '%s', have a folder 'train' each; train one of them "
                  "with --data-dir %s, or if they are the classes, move the images to "
                  "%s/train/<class>/<image>",
                  dir, n_nested, nested, nested, dir);
    return true;
}

bool folders_is_flat(const char *dir)
{
    char here[PATH_SIZE];
    DIR *folder = opendir(dir);
    bool flat = folder != NULL;
    for (const struct dirent *e; flat && (e = readdir(folder));)
        flat = e->d_name[0] == '.' ||
               snprintf(here, PATH_SIZE, "%s/%s", dir, e->d_name) >= PATH_SIZE || !is_folder(here);
    if (folder) closedir(folder);
    return flat;
}

bool folders_find_above(const char *dir, char path[PATH_SIZE])
{
    char copy[PATH_SIZE];
    ls_split split;
    if (strlen(dir) >= PATH_SIZE || !ls_split_of_name(basename(strcpy(copy, dir)), &split) ||
        split != LS_SPLIT_TRAIN)
        return false;
    snprintf(path, PATH_SIZE, "%s", dirname(strcpy(copy, dir)));
    return true;
}

/* ---- Classes in the names of files ---- */

/* The classes that a pattern finds. */
typedef struct found_classes {
    regex_t regex;
    int n_names, n_classes;
    char classes[MAX_CLASSES][CLASS_SIZE];
} found_classes;

/* False if the name has no class, or there are too many. */
static bool add_class_of(found_classes *f, const char *name)
{
    regmatch_t group[2];
    if (regexec(&f->regex, name, 2, group, 0) != 0) return false;
    const int length = (int)(group[1].rm_eo - group[1].rm_so);
    char class[CLASS_SIZE];
    if (snprintf(class, CLASS_SIZE, "%.*s", length, name + group[1].rm_so) >= CLASS_SIZE)
        return false;
    int i = 0;
    while (i < f->n_classes && strcmp(f->classes[i], class) != 0) i++;
    if (i == MAX_CLASSES) return false;
    if (i == f->n_classes) strcpy(f->classes[f->n_classes++], class);
    f->n_names++;
    return true;
}

static bool fits_names(const char *dir, const char *pattern)
{
    found_classes f = { .n_names = 0 };
    if (regcomp(&f.regex, pattern, REG_EXTENDED) != 0) return false;
    DIR *folder = opendir(dir);
    bool fits = folder != NULL;
    for (const struct dirent *e; fits && f.n_names < MAX_NAMES && (e = readdir(folder));)
        fits = e->d_name[0] == '.' || add_class_of(&f, e->d_name);
    if (folder) closedir(folder);
    regfree(&f.regex);
    return fits && f.n_classes >= 2 && f.n_names >= 2 * f.n_classes;
}

const char *folders_find_pattern(const char *dir)
{
    /* cat.1.jpg, cat_1.jpg; cat12.jpg; 1_cat.jpg; p1_cat_2.jpg */
    static const char *const patterns[] = { "^([A-Za-z]+)[._ -]", "^([A-Za-z]+)[0-9]",
                                            "[._ -]([A-Za-z]+)[.][A-Za-z]+$",
                                            "^[A-Za-z]*[0-9]+[._ -]([A-Za-z]+)[._ -]" };
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        if (fits_names(dir, patterns[i])) return patterns[i];
    return NULL;
}
