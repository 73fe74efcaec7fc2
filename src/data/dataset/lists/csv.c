/* csv.c: a dataset of a list of image files in a CSV file, with a class, several labels or numbers
 * in each row. */
#include "data/dataset/lists/csv.h"

#include "base/error.h"
#include "data/dataset/groups.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 4 GiB. A file with a label of its own in each row has targets of the square of its size. */
static const int64_t MAX_TARGETS = 1 << 30;

/* ---- The labels found ---- */

/* Without given names the labels are those of all rows. */
static ls_status find_labels(ls__csv *c, const char *const *texts)
{
    const int64_t n = c->labels.n;
    if (n == 0) return ls__csv_fail_file(c, LS_ERR_DATA, "no row has a label");
    const char **sorted = ls__bump_alloc(&c->bump, (size_t)n * sizeof(*sorted));
    if (!sorted) return ls__fail_memory(c->ctx, c->path, (size_t)n * sizeof(*sorted));
    memcpy(sorted, texts, (size_t)n * sizeof(*sorted));
    const int64_t n_found = ls__sort_labels(n, sorted);
    if (n_found > INT32_MAX) return ls__csv_fail_file(c, LS_ERR_UNSUPPORTED, "too many classes");
    c->given = sorted;
    c->n_given = (int)n_found;
    return ls__csv_set_labels(c, c->n_given, sorted);
}

/* ---- Filling the dataset ---- */

static ls_status set_names(const ls__csv *c, ls_dataset *dataset)
{
    const size_t bytes = (size_t)dataset->n_samples * sizeof(*dataset->root_lengths);
    dataset->root_length = c->root_length;
    if (!c->is_absolute) return LS_OK;
    dataset->root_lengths = ls__bump_alloc(&dataset->bump, bytes);
    if (!dataset->root_lengths) return ls__fail_memory(c->ctx, c->path, bytes);
    return ls__csv_find_roots(c, dataset->n_samples, dataset->paths, dataset->root_lengths);
}

/* 1 for each label of a row. */
static ls_status fill_targets(const ls__csv *c, const char *const *texts, ls_dataset *dataset)
{
    int64_t k = 0;
    for (int64_t i = 0; i < dataset->n_samples; i++)
        for (; k < c->rows[i].end; k++) {
            float *target =
                dataset->targets + i * dataset->n_targets + ls__csv_find_label(c, texts[k])->number;
            if (*target == 1)
                return ls__fail(c->ctx, LS_ERR_DATA,
                                "csv file '%s', line %lld: the label '%s' twice", c->path,
                                (long long)c->rows[i].line, texts[k]);
            *target = 1;
        }
    return LS_OK;
}

/* texts: the labels of all rows. */
static ls_status fill_labels(ls__csv *c, const char *const *texts, ls_dataset *dataset)
{
    const int64_t n = dataset->n_samples;
    if (!c->given && c->kind != LS__CSV_NUMBERS) LS_TRY(find_labels(c, texts));
    if (c->kind == LS__CSV_CLASS) {
        if (!ls__dataset_name_classes(dataset, c->n_given, c->given))
            return ls__fail_memory(c->ctx, c->path, (size_t)c->n_given * sizeof(char *));
        for (int64_t i = 0; i < n; i++)
            dataset->labels[i] = (int32_t)ls__csv_find_label(c, texts[i])->number;
        return LS_OK;
    }
    const bool numbers = c->kind == LS__CSV_NUMBERS;
    if (!numbers && n > MAX_TARGETS / c->n_given)
        return ls__csv_fail_file(
            c, LS_ERR_UNSUPPORTED,
            "%lld rows with %d labels: expected at most %lld targets (rows x labels)", (long long)n,
            c->n_given, (long long)MAX_TARGETS);
    const char *names[LS__CSV_MAX_FIELDS];
    for (int i = 0; numbers && !c->given && i < c->n_labels; i++)
        names[c->known[i].number] = c->known[i].name;
    for (int64_t i = 0; i < n; i++) dataset->labels[i] = -1;
    LS_TRY(ls__dataset_open_targets(dataset, c->path, numbers ? c->n_targets : c->n_given,
                                    c->given ? c->given : names));
    dataset->targets_are_labels = !numbers;
    if (!numbers) return fill_targets(c, texts, dataset);
    memcpy(dataset->targets, c->numbers, (size_t)n * (size_t)c->n_targets * sizeof(float));
    return LS_OK;
}

/* ---- Likely mistakes ---- */

/* An image in rows of several classes. */
static ls_status warn_classes(const ls__csv *c, const ls_dataset *d)
{
    const size_t n = (size_t)d->n_samples;
    ls__label *all = ls__alloc(c->ctx, n * sizeof(*all));
    if (!all) return ls__fail_memory(c->ctx, c->path, n * sizeof(*all));
    for (size_t i = 0; i < n; i++) all[i] = (ls__label){ d->paths[i], (int64_t)i };
    qsort(all, n, sizeof(*all), ls__compare_labels);
    int64_t n_images = 0, row = 0, other = 0;
    bool counted = false; /* the image of row i - 1 */
    for (size_t i = 1; i < n; i++) {
        const bool same = strcmp(all[i - 1].name, all[i].name) == 0;
        if (!same) counted = false;
        if (!same || counted || d->labels[all[i - 1].number] == d->labels[all[i].number]) continue;
        counted = true;
        if (n_images++ > 0) continue;
        row = all[i - 1].number;
        other = all[i].number;
    }
    ls__free(c->ctx, all);
    if (n_images == 0) return LS_OK;
    ls__warn(c->ctx, LS_LOG_DATA,
             "csv file '%s': images in rows of several classes: %lld, such as '%s': '%s' in line "
             "%lld, '%s' in line %lld",
             c->path, (long long)n_images, d->paths[row], d->class_names[d->labels[row]],
             (long long)c->rows[row].line, d->class_names[d->labels[other]],
             (long long)c->rows[other].line);
    return LS_OK;
}

/* ';' separates labels, no other character. */
static void warn_separators(const ls__csv *c, int64_t n_rows, const char *const *texts)
{
    const char *found = NULL;
    if (c->labels.n > n_rows) return; /* some row has several */
    for (int64_t i = 0; i < c->labels.n && !found; i++)
        if (strpbrk(texts[i], "|,")) found = texts[i];
    if (found)
        ls__warn(c->ctx, LS_LOG_DATA,
                 "csv file '%s': each row has one label at most, such as '%s'; several labels have "
                 "';' between",
                 c->path, found);
}

/* Says which column divides the rows, or that none of them is left out. */
static void describe_splits(const ls__csv *c)
{
    static const char *const kinds[] = {
        [3] = "training and validation",
        [5] = "training and test",
        [6] = "validation and test",
        [7] = "training, validation and test",
    }; /* by splits_seen */
    const bool several = c->splits_seen & (c->splits_seen - 1);
    char number[16];
    snprintf(number, sizeof(number), "%d", c->split_column + 1);
    const char *name = c->header_split ? c->header_split : number;
    if (c->config->rows == LS_CSV_ROWS_ALL && several && !c->has_unknown_split)
        ls__warn(c->ctx, LS_LOG_DATA,
                 "csv file '%s': all rows are read as one part, although column '%s' divides them "
                 "into %s rows",
                 c->path, name, kinds[c->splits_seen]);
    if (c->config->rows == LS_CSV_ROWS_TRAIN && !c->config->classes)
        ls__note(c->ctx, LS_LOG_DATA, "csv file '%s': column '%s' divides the rows", c->path, name);
}

/* One column is one name in the run's identity, however the caller named it. */
static ls_status set_groups(ls__csv *c, ls_dataset *dataset)
{
    char number[16];
    const bool has_name = c->header_group && *c->header_group;
    snprintf(number, sizeof(number), "%d", c->group_column + 1);
    return ls__set_groups(dataset, c->path, &c->groups, has_name ? c->header_group : number, false);
}

static ls_status fill(ls__csv *c, ls_dataset *dataset)
{
    const size_t bytes = (size_t)c->labels.n * sizeof(char *);
    const char **texts = ls__bump_alloc(&c->bump, bytes);
    if (!texts || !ls__dataset_take_paths(dataset, &c->images))
        return ls__fail_memory(c->ctx, c->path, bytes);
    ls__text_list_get(&c->labels, texts);
    LS_TRY(set_names(c, dataset));
    LS_TRY(fill_labels(c, texts, dataset));
    if (c->kind == LS__CSV_CLASS) LS_TRY(warn_classes(c, dataset));
    if (c->kind == LS__CSV_LABELS) warn_separators(c, dataset->n_samples, texts);
    describe_splits(c);
    if (c->unused_group &&
        !(dataset->unused_group = ls__bump_strdup(&dataset->bump, c->unused_group)))
        return ls__fail_memory(c->ctx, c->path, strlen(c->unused_group));
    const ls_csv_config *config = c->config;
    const char *const columns[LS__N_OPENED_BY] = { [LS__BY_PATH_COLUMN] = config->path_column,
                                                   [LS__BY_LABEL_COLUMN] = config->label_column,
                                                   [LS__BY_SPLIT_COLUMN] = config->split_column,
                                                   [LS__BY_GROUP_COLUMN] = config->group_column };
    LS_TRY(ls__dataset_note_opening(dataset, c->path, columns));
    return c->group_column < 0 ? LS_OK : set_groups(c, dataset);
}

/* ---- Opening ---- */

static bool check_config(ls_context *ctx, const char *what, const char *path,
                         const ls_csv_config *config)
{
    const int n = config->n_classes;
    bool given = config->classes ? n > 0 : n == 0;
    for (int i = 0; given && i < n; i++) given = config->classes[i] != NULL;
    const char *reason = !path    ? "no file given"
                         : !given ? "expected n_classes names of classes, or 0 and NULL"
                         : (unsigned)config->rows > LS_CSV_ROWS_TEST ? "no such rows"
                                                                     : NULL;
    if (reason) ls__fail(ctx, LS_ERR_INVALID, "%s: %s", what, reason);
    return !reason;
}

static ls__csv begin(ls_context *ctx, const char *path, const ls_csv_config *config)
{
    ls__csv c = { .ctx = ctx,
                  .path = path,
                  .config = config,
                  .n_given = config->n_classes,
                  .given = config->classes,
                  .images.ctx = ctx,
                  .labels.ctx = ctx,
                  .groups.ctx = ctx,
                  .folder = "" };
    ls__bump_open(&c.bump, ctx);
    return c;
}

static void end(ls__csv *c)
{
    ls__bump_close(&c->bump);
    ls__text_list_free(&c->images);
    ls__text_list_free(&c->labels);
    ls__text_list_free(&c->groups);
    ls__free(c->ctx, c->bytes);
}

static ls_dataset *open_list(ls_context *ctx, const char *what, const char *path,
                             const ls_csv_config *config)
{
    if (!check_config(ctx, what, path, config)) return NULL;
    ls__csv c = begin(ctx, path, config);
    ls_dataset *dataset = NULL;
    if (ls__csv_read(&c) == LS_OK) dataset = ls__dataset_open(ctx, path);
    if (dataset && fill(&c, dataset) != LS_OK) ls_dataset_close(&dataset);
    end(&c);
    return dataset;
}

ls_dataset *ls_csv_open(ls_context *ctx, const char *path, int n_classes,
                        const char *const *classes)
{
    LS__ENTER_NULL(ctx);
    return open_list(ctx, "ls_csv_open", path,
                     &(ls_csv_config){ .n_classes = n_classes, .classes = classes });
}

ls_dataset *ls_csv_open_config(ls_context *ctx, const char *path, const ls_csv_config *config)
{
    static const ls_csv_config defaults = { 0 };
    LS__ENTER_NULL(ctx);
    return open_list(ctx, "ls_csv_open_config", path, config ? config : &defaults);
}

ls_status ls_csv_count_splits(ls_context *ctx, const char *path, const ls_csv_config *config,
                              int64_t counts[LS_N_SPLITS])
{
    static const char what[] = "ls_csv_count_splits";
    if (counts) memset(counts, 0, LS_N_SPLITS * sizeof(*counts));
    LS__ENTER(ctx);
    if (!counts) return ls__fail(ctx, LS_ERR_INVALID, "%s: counts is NULL", what);
    ls_csv_config all = config ? *config : (ls_csv_config){ 0 };
    all.rows = LS_CSV_ROWS_ALL;
    all.classes = NULL; /* no label is read */
    all.n_classes = 0;
    if (!check_config(ctx, what, path, &all)) return LS_ERR_INVALID;
    ls__csv c = begin(ctx, path, &all);
    c.counts = counts;
    const ls_status status = ls__csv_read(&c);
    if (status != LS_OK || c.has_unknown_split) memset(counts, 0, LS_N_SPLITS * sizeof(*counts));
    end(&c);
    return status;
}
