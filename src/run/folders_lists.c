/* folders_lists.c: the lists in a folder that has no images in the expected places; see
 * folders.h. */
#include "run/folders.h"

#include "base/path.h"
#include <dirent.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* A folder may have a text file beside each image. */
enum { MAX_TRIED = 16, MAX_NAMED = 3 };

static bool is_text(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return dot && strcasecmp(dot, ".txt") == 0;
}

static int has_ending(const struct dirent *e)
{
    const char *dot = e->d_name[0] == '.' ? NULL : strrchr(e->d_name, '.');
    return dot && (is_text(e) || strcasecmp(dot, ".csv") == 0 || strcasecmp(dot, ".tsv") == 0);
}

/* Text files are last, because most are no lists. */
static int compare(const struct dirent **a, const struct dirent **b)
{
    const int order = is_text(*a) - is_text(*b);
    return order ? order : strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* Whether the file at `path` is there, in the folder `images`; NULL: in any. */
static bool is_image_in(const char *path, const char *images)
{
    char copy[LS__PATH_SIZE];
    return ls__path_exists(path) &&
           (!images || (snprintf(copy, LS__PATH_SIZE, "%s", path) < LS__PATH_SIZE &&
                        is_same_folder(dirname(copy), images)));
}

/* Whether the file is a list of images that are there, in the folder `images` or with NULL in any.
 * column: that of the classes, if it must be chosen, else "". */
static bool is_list(ls_context *ctx, const char *path, const char *images,
                    char column[LS__COLUMN_SIZE])
{
    *column = '\0';
    ls_csv_config config = { 0 };
    ls_dataset *list = ls_csv_open_config(ctx, path, &config);
    if (!list && ls__guessed_column(ls_context_message(ctx), column)) {
        ls_context_clear_error(ctx);
        config.label_column = column;
        list = ls_csv_open_config(ctx, path, &config);
    }
    const bool found = list && is_image_in(ls_dataset_sample_path(list, 0), images);
    ls_dataset_close(&list);
    ls_context_clear_error(ctx);
    return found;
}

static bool has_splits(const char *path, const char *column)
{
    char columns[LS__COLUMN_SIZE + sizeof("label=")];
    int64_t counts[LS_N_SPLITS];
    snprintf(columns, sizeof(columns), "label=%s", column);
    const ls__data_settings o = { .csv_columns = *column ? columns : NULL };
    return ls__data_count_splits(path, &o, counts);
}

/* The lists that are found, at most `max`. */
typedef struct list_words {
    char *text; /* [LS__PATH_SIZE] */
    int n, max;
    bool with_settings, divides;
} list_words;

/* Returns whether more are sought. */
static bool append(list_words *w, const char *path, const char *column)
{
    const size_t length = strlen(w->text), left = LS__PATH_SIZE - length;
    const char *split = w->divides && !has_splits(path, column) ? " --val-split 0.2" : "";
    if (!w->with_settings) column = "";
    const int added =
        snprintf(w->text + length, left, "%s%s%s%s%s%s", w->n > 0 ? " or " : "", path,
                 *column ? " --csv-columns 'label=" : "", column, *column ? "'" : "", split);
    const bool fits = (size_t)added < left;
    if (!fits) w->text[length] = '\0';
    w->n += fits;
    return fits && w->n < w->max;
}

/* Appends the lists of images in the folder `images`, or with NULL in any, that DIR holds. first:
 * the file that is tried if none is one, or "". */
static void find_lists(const char *dir, const char *images, char first[LS__PATH_SIZE],
                       list_words *w)
{
    char path[LS__PATH_SIZE], column[LS__COLUMN_SIZE];
    struct dirent **files = NULL;
    const int n = ls__is_folder(dir) ? scandir(dir, &files, has_ending, compare) : 0;
    ls_context *ctx = n > 0 ? ls_context_open(&(ls_context_config){ .threads = 1 }) : NULL;
    bool goes_on = true;
    *first = *w->text = '\0';
    for (int i = 0; i < n; i++) {
        const bool fits =
            snprintf(path, LS__PATH_SIZE, "%s/%s", dir, files[i]->d_name) < LS__PATH_SIZE;
        if (goes_on && fits && i < MAX_TRIED && ls__is_file(path)) {
            if (!*first && !is_text(files[i])) strcpy(first, path);
            if (is_list(ctx, path, images, column)) goes_on = append(w, path, column);
        }
        free(files[i]);
    }
    free(files);
    ls_context_close(&ctx);
}

bool ls__folders_find_list(const char *dir, char path[LS__PATH_SIZE])
{
    char first[LS__PATH_SIZE];
    list_words w = { .text = path, .max = 1 };
    find_lists(dir, NULL, first, &w);
    return w.n > 0;
}

bool ls__folders_find_list_words(const char *dir, bool divides, char words[LS__PATH_SIZE])
{
    char first[LS__PATH_SIZE];
    list_words w = { words, .max = MAX_NAMED, .with_settings = true, .divides = divides };
    find_lists(dir, NULL, first, &w);
    if (w.n == 0) strcpy(words, first);
    return *words != '\0';
}

bool ls__folders_find_lists_of(const char *dir, bool divides, char words[LS__PATH_SIZE])
{
    char first[LS__PATH_SIZE], above[LS__PATH_SIZE];
    list_words w = { words, .max = MAX_NAMED, .with_settings = true, .divides = divides };
    find_lists(dir, dir, first, &w);
    if (w.n == 0 && snprintf(above, LS__PATH_SIZE, "%s", dir) < LS__PATH_SIZE)
        find_lists(dirname(above), dir, first, &w);
    return w.n > 0;
}
