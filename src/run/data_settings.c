/* data_settings.c: see data_settings.h. */
#include "run/data_settings.h"

#include "base/error.h"
#include "base/path.h"
#include "data/dataset/dataset.h"
#include "run/setting.h"
#include <lockstep/run.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { COLUMNS_SIZE = 1024 };

/* "path=NAME,label=NAME": the names, which are pieces of `text`. */
static bool read_columns(ls_context *ctx, const ls__data_settings *o, char text[COLUMNS_SIZE],
                         ls_csv_config *out)
{
    const struct {
        const char *key, **to;
    } keys[] = { { "path", &out->path_column },
                 { "label", &out->label_column },
                 { "split", &out->split_column },
                 { "group", &out->group_column } };
    enum { N = sizeof(keys) / sizeof(keys[0]) };
    if (!o->csv_columns) return true;
    if (snprintf(text, COLUMNS_SIZE, "%s", o->csv_columns) >= COLUMNS_SIZE)
        return ls__refuse(ctx, "--csv-columns: too long");
    for (char *at = text, *next; at; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = '\0';
        char *value = strchr(at, '=');
        if (value) *value++ = '\0';
        int k = 0;
        while (k < N && strcmp(at, keys[k].key) != 0) k++;
        if (k == N || !value || !*value)
            return ls__refuse(ctx,
                              "--csv-columns '%s': expected path=NAME, label=NAME, split=NAME or "
                              "group=NAME, with commas between; a number stands for a name",
                              o->csv_columns);
        if (*keys[k].to) return ls__refuse(ctx, "--csv-columns '%s': %s twice", o->csv_columns, at);
        *keys[k].to = value;
    }
    return true;
}

/* The config of lists, whose texts are pieces of `text` or borrowed. */
static bool list_config(ls_context *ctx, const ls__data_settings *o, char text[COLUMNS_SIZE],
                        ls_csv_config *out)
{
    *out = (ls_csv_config){ 0 };
    if (!o) return true;
    out->image_root = o->image_root;
    if (!read_columns(ctx, o, text, out)) return false;
    if (out->group_column && o->group_column)
        return ls__refuse(ctx, "--group-column and group= of --csv-columns exclude each other");
    if (o->group_column) out->group_column = o->group_column;
    if (!out->path_column) out->path_column = o->of_model.path_column;
    if (!out->label_column) out->label_column = o->of_model.label_column;
    if (!out->split_column) out->split_column = o->of_model.split_column;
    if (!out->group_column && !o->group_pattern) out->group_column = o->of_model.group_column;
    return true;
}

bool ls_run_find_weights(const char *path, char *out, size_t size)
{
    static const char *const names[] = { "best.safetensors", "last.safetensors" };
    const bool is_folder = ls__is_folder(path);
    for (int i = 0; i < 2 && is_folder; i++)
        if ((size_t)snprintf(out, size, "%s/%s", path, names[i]) < size && ls__is_file(out))
            return true;
    return (size_t)snprintf(out, size, "%s", path) < size && !is_folder;
}

bool ls__is_csv(const char *path)
{
    static const char *const endings[] = { ".csv", ".tsv", ".txt" };
    const char *dot = strrchr(path, '.');
    for (int i = 0; dot && i < 3; i++)
        if (strcasecmp(dot, endings[i]) == 0) return ls__is_file(path);
    return false;
}

ls__data_settings ls__data_settings_of(const ls_dataset_config *config)
{
    if (!config) return (ls__data_settings){ 0 };
    return (ls__data_settings){ .csv_columns = config->csv_columns,
                                .image_root = config->image_root,
                                .label_pattern = config->label_pattern,
                                .group_column = config->group_column,
                                .group_pattern = config->group_pattern };
}

const char *ls__data_settings_first_given(const ls__data_settings *o)
{
    return o->csv_columns     ? "csv-columns"
           : o->image_root    ? "image-root"
           : o->label_pattern ? "label-pattern"
           : o->group_column  ? "group-column"
           : o->group_pattern ? "group-pattern"
                              : NULL;
}

bool ls__data_settings_check(ls_context *ctx, const ls__data_settings *o)
{
    char text[COLUMNS_SIZE];
    ls_csv_config config;
    if (!list_config(ctx, o, text, &config)) return false;
    if (o->label_pattern && (o->csv_columns || o->image_root || o->group_column))
        return ls__refuse(ctx, "--label-pattern is for folders of image files; --csv-columns, "
                               "--image-root and --group-column are for CSV lists");
    if (o->group_pattern && config.group_column)
        return ls__refuse(ctx, "--group-pattern and a column of groups exclude each other");
    return true;
}

bool ls__data_settings_fit(ls_context *ctx, const char *path, const ls__data_settings *o)
{
    ls__data_settings lists = *o;
    lists.label_pattern = lists.group_pattern = NULL;
    const char *const of_lists = ls__data_settings_first_given(&lists);
    if (ls__is_csv(path))
        return !o->label_pattern ||
               ls__refuse(ctx, "%s: a CSV list; --label-pattern is for folders of image files",
                          path);
    if (of_lists)
        return ls__refuse(ctx, "%s: no CSV list; --%s is for lists, such as list.csv", path,
                          of_lists);
    return ls__is_folder(path) || !o->label_pattern ||
           ls__refuse(ctx, "%s: no folder; --label-pattern is for folders of image files", path);
}

static ls_dataset *open_plain(ls_context *ctx, const char *path, const ls__data_opening *how)
{
    const ls__data_settings *o = how->settings;
    char text[COLUMNS_SIZE];
    if (ls__is_csv(path)) {
        ls_csv_config config;
        if (!list_config(ctx, o, text, &config)) return NULL;
        config.n_classes = how->n_classes;
        config.classes = how->classes;
        config.rows = how->rows;
        if (!how->in_groups) config.group_column = NULL;
        return ls_csv_open_config(ctx, path, &config);
    }
    if (o && o->label_pattern)
        return ls_image_pattern_open(ctx, path, o->label_pattern, how->n_classes, how->classes);
    return how->classes ? ls_image_folder_open_classes(ctx, path, how->n_classes, how->classes)
                        : ls_image_folder_open(ctx, path);
}

/* Training and validation images of one patient make the accuracy too high. */
static void note_unused_group(ls_context *ctx, const char *path, const ls_dataset *dataset,
                              const ls__data_opening *how)
{
    const ls__data_settings *o = how->settings;
    if (dataset->unused_group && !how->classes && how->rows <= LS_CSV_ROWS_TRAIN &&
        !(o && o->group_pattern))
        ls__note(ctx, LS_LOG_DATA,
                 "%s: column '%s' is not used; if its images belong together, add --group-column "
                 "'%s'",
                 path, dataset->unused_group, dataset->unused_group);
}

ls_dataset *ls__data_open(ls_context *ctx, const char *path, const ls__data_opening *how)
{
    const ls__data_settings *o = how->settings;
    if (o && !ls__data_settings_fit(ctx, path, o)) return NULL;
    ls_dataset *dataset = open_plain(ctx, path, how);
    if (dataset && how->in_groups) note_unused_group(ctx, path, dataset, how);
    if (dataset && o && how->in_groups && o->group_pattern)
        if (ls_dataset_group_by_pattern(dataset, o->group_pattern) != LS_OK)
            ls_dataset_close(&dataset);
    return dataset;
}

bool ls__data_count_splits(const char *path, const ls__data_settings *o,
                           int64_t counts[LS_N_SPLITS])
{
    char text[COLUMNS_SIZE];
    ls_csv_config config;
    memset(counts, 0, LS_N_SPLITS * sizeof(*counts));
    if (!ls__is_csv(path)) return false;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    if (list_config(ctx, o, text, &config)) {
        config.group_column = NULL;
        ls_csv_count_splits(ctx, path, &config, counts);
    }
    ls_context_close(&ctx);
    int64_t n = 0;
    for (int i = 0; i < LS_N_SPLITS; i++) n += counts[i];
    return n > 0;
}

ls_status ls__data_check_missing(ls_context *ctx, const char *dir, const ls_dataset *data,
                                 const char *what, bool skips)
{
    const int64_t n = ls_dataset_sample_count(data);
    int64_t n_missing = 0;
    const char *missing = NULL;
    for (int64_t i = 0; i < n; i++) {
        const char *path = ls_dataset_sample_path(data, i);
        if (!ls__path_exists(path) && n_missing++ == 0) missing = path;
    }
    if (n_missing == 0) return LS_OK;
    static const char text[] =
        "%s: %lld of %lld %s images are missing, such as '%s'; if they were moved, change the "
        "paths in the list, or name their folder with --image-root";
    if (skips && n_missing < n) {
        ls__warn(ctx, LS_LOG_DATA, text, dir, (long long)n_missing, (long long)n, what, missing);
        return LS_OK;
    }
    ls__fail(ctx, LS_ERR_DATA, text, dir, (long long)n_missing, (long long)n, what, missing);
    if (n_missing < n)
        ls__error_hint(ctx, "--on-bad-image skip replaces the missing images by others");
    return LS_ERR_DATA;
}

bool ls__guessed_column(const char *message, char column[LS__COLUMN_SIZE])
{
    static const char before[] = ", such as '", after[] = "' (label_column)";
    const char *end = strstr(message, after), *begin = end;
    while (begin && begin > message && strncmp(begin, before, strlen(before)) != 0) begin--;
    if (!begin || begin == message) return false;
    begin += strlen(before);
    return snprintf(column, LS__COLUMN_SIZE, "%.*s", (int)(end - begin), begin) < LS__COLUMN_SIZE;
}

void ls__data_hint_columns(ls_context *ctx)
{
    const char *message = ls_context_message(ctx);
    if (strncmp(message, "csv file", strlen("csv file")) != 0) return;
    const bool path = strstr(message, "path_column"), label = strstr(message, "label_column");
    char column[LS__COLUMN_SIZE];
    if (strstr(message, "(group_column)"))
        ls__error_hint(ctx, "--group-column NAME names the column of groups; a number stands for a "
                            "name, too");
    else if (ls__guessed_column(message, column))
        ls__error_hint(ctx, "--csv-columns 'label=%s' chooses this column", column);
    else if (strstr(message, "split_column") && !path && !label)
        ls__error_hint(ctx, "--csv-columns split=NAME names the column; a number stands for a "
                            "name, too");
    else if (path || label || strstr(message, "_column"))
        ls__error_hint(ctx,
                       "--csv-columns %s%s%s names the column%s; a number stands for a name, too",
                       path || !label ? "path=NAME" : "", path == label ? "," : "",
                       label || !path ? "label=NAME" : "", path == label ? "s" : "");
}
