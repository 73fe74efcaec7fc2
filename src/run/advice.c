/* advice.c: see run_state.h. */
#include "run/run_state.h"

#include "base/error.h"
#include "run/folders.h"
#include <lockstep/dataset_check.h>
#include <stdlib.h>
#include <string.h>

/* ---- The folder ---- */

/* The slash after the class folder in the path of an image, or NULL. */
static const char *find_class(const char *path, const char *class)
{
    const size_t length = strlen(class);
    const char *found = NULL;
    for (const char *at = path; (at = strchr(at, '/')); at++)
        if (strncmp(at + 1, class, length) == 0 && at[length + 1] == '/') found = at + length + 1;
    return found;
}

/* Detects class folders that hold only folders, which may be the classes. The dataset warns about
 * them; this note gives the settings that train them. */
static void advise_folder(const ls_run *t)
{
    const char *first = NULL;
    const int64_t n = ls_dataset_sample_count(t->train_data);
    size_t n_first = 0; /* bytes of its path that are the folder to open */
    bool has_splits = false;
    if (ls__folders_has_csv(t->settings->data_dir)) return;
    for (int64_t i = 0; i < n; i++) {
        const int label = ls_dataset_label(t->train_data, i);
        const char *path = ls_dataset_sample_path(t->train_data, i);
        const char *at = label >= 0 && path ? find_class(path, t->classes[label]) : NULL;
        if (!at || !strchr(at + 1, '/')) return; /* an image in the class folder itself */
        if (!first) {
            has_splits = ls_split_of_name(t->classes[label], NULL);
            n_first = (size_t)(at - path) - (has_splits ? strlen(t->classes[label]) + 1 : 0);
            first = path;
        }
    }
    if (first && has_splits)
        ls__note(t->ctx, LS_LOG_RUN, "did you mean --data-dir %.*s?", (int)n_first, first);
    else if (first)
        ls__note(t->ctx, LS_LOG_RUN,
                 "--data-dir %.*s --val-split 0.2 trains the folders in it as classes",
                 (int)n_first, first);
}

/* ---- The batch ---- */

static void advise_batch(const ls_run *t)
{
    const int64_t n = ls_dataset_sample_count(t->train_data), batch = t->settings->batch;
    const int64_t steps = ls_loader_step_count(t->train);
    const int64_t better = ls__run_suggest_batch(n);
    if (batch <= n / 4 || better >= batch) return;
    ls__warn(
        t->ctx, LS_LOG_RUN,
        "-b %lld gives only %lld step%s per epoch for %lld training images; -b %lld gives %lld",
        (long long)batch, (long long)steps, steps == 1 ? "" : "s", (long long)n, (long long)better,
        (long long)(n / better));
}

/* An epoch ends a group of --accumulate batches. */
static void advise_accumulate(const ls_run *t)
{
    const int64_t n = t->settings->accumulate, steps = ls_loader_step_count(t->train);
    const ls__run_settings *r = t->settings;
    const bool scales_lr =
        (r->lr_per_256 > 0 || r->optimizer == LS__OPT_SGD) && r->lr == ls__run_default_lr(r);
    if (n <= 1 || n <= steps) return;
    ls__warn(t->ctx, LS_LOG_RUN,
             "--accumulate %lld is above the %lld step%s of an epoch. The weights are updated "
             "at the end of each epoch, so --accumulate %lld gives the same updates%s",
             (long long)n, (long long)steps, steps == 1 ? "" : "s", (long long)steps,
             scales_lr ? ", with a learning rate for as many batches" : "");
}

/* ---- The classes ---- */

/* Rare classes are hardly learned, which top-1 does not show. */
static void advise_balance(const ls_run *t)
{
    const ls__run_settings *r = t->settings;
    const int n_classes = ls_dataset_class_count(t->train_data);
    int64_t *counts = n_classes > 1 ? calloc((size_t)n_classes, sizeof(*counts)) : NULL;
    const bool counted = counts && ls_dataset_class_sizes(t->train_data, counts) == LS_OK;
    int max = -1, min = -1;
    for (int c = 0; c < n_classes && counted; c++) {
        if (counts[c] == 0) continue;
        if (max < 0 || counts[c] > counts[max]) max = c;
        if (min < 0 || counts[c] < counts[min]) min = c;
    }
    if (max >= 0 && counts[max] >= LS_IMBALANCE_RATIO * counts[min] && !r->class_weights &&
        r->sampler != LS_SAMPLER_BALANCED)
        ls__warn(t->ctx, LS_LOG_RUN,
                 "class '%s' has %lld training images, '%s' %lld: --class-weights balanced or "
                 "--sampler balanced gives rare classes more weight; --metric macro_recall "
                 "chooses the best epoch by all classes",
                 t->classes[max], (long long)counts[max], t->classes[min], (long long)counts[min]);
    free(counts);
}

/* Without this, "10" before "2" looks like a mistake of the model. */
static void advise_order(const ls_run *t)
{
    const int n = ls_dataset_class_count(t->train_data);
    for (int c = 1; c < n; c++) {
        if (strverscmp(t->classes[c - 1], t->classes[c]) <= 0) continue;
        ls__note(t->ctx, LS_LOG_RUN,
                 "the classes are in byte order, '%s' before '%s': read predictions by the name "
                 "of the class, not its number",
                 t->classes[c - 1], t->classes[c]);
        return;
    }
}

/* A character as it is compared: without capitals, '_' and '-' as a space. */
static char plain(char c)
{
    return c == '_' || c == '-' ? ' ' : (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* For qsort: of pointers to names. */
static int compare_plain(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    while (*x && plain(*x) == plain(*y)) x++, y++;
    return (unsigned char)plain(*x) - (unsigned char)plain(*y);
}

/* Names that differ in capitals or separators only are most often one class. */
static void advise_names(const ls_run *t)
{
    const int n_classes = ls_dataset_class_count(t->train_data);
    const int n = n_classes > 0 ? n_classes : ls_dataset_target_count(t->train_data);
    const char **names = calloc((size_t)n + 1, sizeof(*names));
    for (int i = 0; i < n && names; i++)
        names[i] = n_classes > 0 ? ls_dataset_class_name(t->train_data, i)
                                 : ls_dataset_target_name(t->train_data, i);
    if (names) qsort(names, (size_t)n, sizeof(*names), compare_plain);
    for (int i = 1; i < n && names; i++) {
        if (compare_plain(&names[i - 1], &names[i]) != 0) continue;
        ls__warn(t->ctx, LS_LOG_RUN,
                 "'%s' and '%s' are two classes; if they mean one, give both the same name",
                 names[i - 1], names[i]);
        break;
    }
    free(names);
}

void ls__run_advise(const ls_run *t)
{
    advise_folder(t);
    advise_batch(t);
    advise_accumulate(t);
    advise_balance(t);
    advise_order(t);
    advise_names(t);
    ls__run_advise_images(t);
}
