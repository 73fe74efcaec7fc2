/* sweep_table.c: the table of trials on stdout and in OUT/sweep.csv; see sweep.h. */
#include "terminal/csv.h"
#include "io/json.h"
#include "experiments/sweep_history.h"
#include <stdio.h>
#include <stdlib.h>

static const sweep_result *find_best(const sweep *s)
{
    const sweep_result *best = NULL;
    for (int64_t i = 0; i < ls_search_trial_count(s->search); i++) {
        const sweep_result *r = sweep_last(s, i);
        if (r && !r->has_failed && (!best || sweep_is_better(s, r->value, best->value))) best = r;
    }
    return best;
}

/* Column 0 is the trial, then the options, the epochs, the metric, its epoch and the error, which
 * the printed table has at the end of the line. Row -1 is the head. */
enum { CELL_SIZE = 256 };
static const char *cell(const sweep *s, int64_t trial, int column, bool exact, char out[CELL_SIZE])
{
    const int n = s->file->n_searched;
    const sweep_result *r = trial < 0 ? NULL : sweep_last(s, trial);
    const char *const heads[] = { "epochs", sweep_metric_key(s->values->metric), "best_epoch",
                                  "error" };
    if (column > 0 && column <= n) {
        const sweep_parameter *p = &s->file->searched[column - 1];
        char text[SWEEP_VALUE_SIZE];
        snprintf(out, CELL_SIZE, "%s",
                 r ? sweep_value_text(p, ls_search_value(s->search, trial, column - 1), text)
                   : p->option->name);
        return out;
    }
    if (!r)
        snprintf(out, CELL_SIZE, "%s", column == 0 ? "trial" : heads[column - n - 1]);
    else if (column == 0)
        snprintf(out, CELL_SIZE, "%lld", (long long)trial);
    else if (column == n + 1)
        snprintf(out, CELL_SIZE, "%lld", (long long)r->epochs);
    else if (column == n + 4)
        snprintf(out, CELL_SIZE, "%s", r->error ? r->error : "");
    else if (r->has_failed)
        snprintf(out, CELL_SIZE, "%s", exact ? "" : "-");
    else if (column == n + 2)
        snprintf(out, CELL_SIZE, exact ? "%.15g" : "%.4f", r->value);
    else
        snprintf(out, CELL_SIZE, "%lld", (long long)r->best_epoch);
    return out;
}

static void print_table(const sweep *s, const sweep_result *best)
{
    const int n_columns = s->file->n_searched + 4;
    int widths[SWEEP_MAX_PARAMETERS + 4] = { 0 };
    char text[CELL_SIZE];
    const int64_t n = ls_search_trial_count(s->search);
    for (int64_t i = -1; i < n; i++)
        for (int k = 0; k < n_columns; k++) {
            const int width = text_columns(cell(s, i, k, false, text));
            if (width > widths[k]) widths[k] = width;
        }
    for (int64_t i = -1; i < n; i++) {
        for (int k = 0; k < n_columns; k++) {
            cell(s, i, k, false, text);
            print_text(stdout, "%*s%s", widths[k] - text_columns(text) + (k > 0 ? 2 : 0), "", text);
        }
        const sweep_result *r = i < 0 ? NULL : sweep_last(s, i);
        print_text(stdout, "%s%s\n",
                   !r          ? ""
                   : r == best ? "  best"
                   : r->error  ? "  failed: "
                               : "",
                   r && r->error ? r->error : "");
    }
}

static int write_csv(const sweep *s)
{
    const int n_columns = s->file->n_searched + 5;
    char path[LS__RUN_PATH_SIZE], text[CELL_SIZE], *bytes = NULL;
    size_t size = 0;
    snprintf(path, sizeof(path), "%s/sweep.csv", s->out);
    FILE *file = open_memstream(&bytes, &size);
    if (!file) return print_error(NULL, EXIT_RUNTIME);
    for (int64_t i = -1; i < ls_search_trial_count(s->search); i++)
        for (int k = 0; k < n_columns; k++) {
            print_csv(file, cell(s, i, k, true, text));
            fputc(k + 1 < n_columns ? ',' : '\n', file);
        }
    const bool good = fclose(file) == 0;
    const ls_status status = good ? ls__file_replace(s->ctx, path, bytes, size) : LS_ERR_MEMORY;
    free(bytes);
    return status == LS_OK ? EXIT_DONE : print_error(good ? s->ctx : NULL, EXIT_RUNTIME);
}

static int print_best(const sweep *s, const sweep_result *best)
{
    const char *list[LS_MAX_SETTINGS + 4] = { "train" };
    char dir[LS__RUN_PATH_SIZE];
    sweep_trial_dir(s->out, best->trial, dir);
    char **words = sweep_trial_words(s, best->trial);
    if (!words) return EXIT_RUNTIME;
    for (int i = 0; words[i]; i++) list[i + 1] = words[i];
    print_text(stdout, "\nbest: trial %lld, %s %.4f (epoch %lld)", (long long)best->trial,
               sweep_metric_key(s->values->metric), best->value, (long long)best->best_epoch);
    if (sweep_has_weights(dir, s->values->metric))
        print_text(stdout, ", weights %s/best.safetensors", dir);
    print_text(stdout, "; the table is in %s/sweep.csv\n", s->out);
    print_command_words(stdout, "the same run", list);
    if (best->epochs < s->epochs)
        print_command(stdout, "its other epochs", "train", "--resume", dir, NULL);
    sweep_free_words(words);
    return EXIT_DONE;
}

int sweep_print_results(const sweep *s)
{
    const sweep_result *best = find_best(s);
    print_table(s, best);
    const int answer = write_csv(s);
    if (answer != EXIT_DONE) return answer;
    return best
               ? print_best(s, best)
               : fail_with(EXIT_NONFINITE,
                           "no trial has a result: each one failed, or its loss became infinite or "
                           "not a number");
}
