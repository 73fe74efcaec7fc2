/* csv.c: a dataset of a list of image files in a CSV file, with a class, several labels or numbers
 * in each row. */
#include "data/dataset/csv.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* 4 GiB. A file with a label of its own in each row has targets of the square of its size. */
static const int64_t MAX_TARGETS = 1 << 30;

/* ---- The labels found ---- */

/* The value of a number without leading zeros; -1: another text, or a number of 10 digits. */
static int64_t number_of(const char *text)
{
    const size_t n = strlen(text);
    const bool good =
        n > 0 && n < 10 && strspn(text, "0123456789") == n && (*text != '0' || n == 1);
    return good ? atol(text) : -1;
}

static int compare_numbers(const void *a, const void *b)
{
    const int64_t x = number_of(*(const char *const *)a), y = number_of(*(const char *const *)b);
    return (x > y) - (x < y);
}

/* Sorts the labels of all rows, and keeps one of each. Returns how many. */
static int64_t sort_labels(int64_t n, const char **labels)
{
    bool are_numbers = true;
    for (int64_t i = 0; i < n; i++) are_numbers = are_numbers && number_of(labels[i]) >= 0;
    qsort(labels, (size_t)n, sizeof(*labels), are_numbers ? compare_numbers : ls__compare_texts);
    int64_t n_labels = 0;
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || strcmp(labels[i], labels[n_labels - 1]) != 0) labels[n_labels++] = labels[i];
    return n_labels;
}

/* Without given names the labels are those of all rows. */
static ls_status find_labels(ls__csv *c, const char *const *texts)
{
    const int64_t n = c->labels.n;
    if (n == 0) return ls__fail(c->ctx, LS_ERR_DATA, "csv file '%s': no row has a label", c->path);
    const char **sorted = ls__bump_alloc(&c->bump, (size_t)n * sizeof(*sorted));
    if (!sorted) return ls__fail_memory(c->ctx, c->path, (size_t)n * sizeof(*sorted));
    memcpy(sorted, texts, (size_t)n * sizeof(*sorted));
    const int64_t n_found = sort_labels(n, sorted);
    if (n_found > INT32_MAX)
        return ls__fail(c->ctx, LS_ERR_UNSUPPORTED, "csv file '%s': too many classes", c->path);
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
    dataset->root_lengths = ls__alloc(c->ctx, bytes);
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
            dataset->labels[i] = ls__csv_find_label(c, texts[i])->number;
        return LS_OK;
    }
    const bool numbers = c->kind == LS__CSV_NUMBERS;
    if (!numbers && n > MAX_TARGETS / c->n_given)
        return ls__fail(c->ctx, LS_ERR_UNSUPPORTED,
                        "csv file '%s': %lld rows with %d labels: expected at most %lld targets "
                        "(rows x labels)",
                        c->path, (long long)n, c->n_given, (long long)MAX_TARGETS);
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

static ls_status fill(ls__csv *c, ls_dataset *dataset)
{
    const size_t bytes = (size_t)c->labels.n * sizeof(char *);
    const char **texts = ls__bump_alloc(&c->bump, bytes);
    if (!texts || !ls__dataset_take_paths(dataset, &c->images))
        return ls__fail_memory(c->ctx, c->path, bytes);
    ls__text_list_get(&c->labels, texts);
    LS_TRY(set_names(c, dataset));
    return fill_labels(c, texts, dataset);
}

ls_dataset *ls_csv_open(ls_context *ctx, const char *path, int n_classes,
                        const char *const *classes)
{
    LS__ENTER_NULL(ctx);
    bool given = classes ? n_classes > 0 : n_classes == 0;
    for (int i = 0; given && i < n_classes; i++) given = classes[i] != NULL;
    if (!path || !given) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_csv_open: %s",
                 path ? "expected n_classes names of classes, or 0 and NULL" : "no file given");
        return NULL;
    }
    ls__csv c = { .ctx = ctx,
                  .path = path,
                  .n_given = n_classes,
                  .given = classes,
                  .images.ctx = ctx,
                  .labels.ctx = ctx,
                  .folder = "" };
    ls_dataset *dataset = NULL;
    ls__bump_open(&c.bump, ctx);
    if (ls__csv_read(&c) == LS_OK) dataset = ls__dataset_open(ctx, path);
    if (dataset && fill(&c, dataset) != LS_OK) ls_dataset_close(&dataset);
    ls__bump_close(&c.bump);
    ls__text_list_free(&c.images);
    ls__text_list_free(&c.labels);
    ls__free(ctx, c.bytes);
    return dataset;
}
