/* sweep_words.c: the settings of trials as words of a command line; see sweep.h. */
#include "experiment/sweep.h"

#include "base/error.h"
#include "report/command_line.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds "--NAME=VALUE"; false without memory. */
static bool add_word(char **words, int *n, const char *name, const char *value)
{
    if (asprintf(&words[*n], "--%s=%s", name, value) < 0) return words[*n] = NULL, false;
    ++*n;
    return true;
}

void ls__sweep_free_words(char **words)
{
    for (int i = 0; words && words[i]; i++) free(words[i]);
    free(words);
}

typedef enum which_words { OF_TRIAL, COMBINATION, EXECUTION } which_words;

/* Number of values of a parameter in a combination. */
static int64_t corner_count(const ls__sweep_parameter *p)
{
    return p->values ? p->search.count : 1 + (p->search.high > p->search.low);
}

/* Divides what is left of the number of a combination. */
static double combination_value(const ls__sweep_parameter *p, int64_t *rest)
{
    const int64_t i = *rest % corner_count(p);
    *rest /= corner_count(p);
    return p->values ? (double)i : i == 0 ? p->search.low : p->search.high;
}

/* number: of the trial or combination. EXECUTION: only settings that cannot change a result, which
 * may also be given when a run is resumed. */
static char **make_words(const ls_sweep *s, int64_t number, which_words which)
{
    const ls__sweep_file *f = &s->file;
    char **words = calloc((size_t)(f->n_fixed + f->n_searched) + 2, sizeof(*words));
    int n = 0;
    int64_t rest = number;
    bool ok = words != NULL;
    for (int i = 0; ok && i < f->n_fixed; i++)
        if (which != EXECUTION || f->fixed[i].setting->execution)
            ok = add_word(words, &n, f->fixed[i].setting->name, f->fixed[i].text);
    for (int i = 0; ok && which != EXECUTION && i < f->n_searched; i++) {
        const ls__sweep_parameter *p = &f->searched[i];
        const double value =
            which == OF_TRIAL ? ls_search_value(s->search, number, i) : combination_value(p, &rest);
        char text[LS_SWEEP_VALUE_SIZE];
        ok = add_word(words, &n, p->setting->name, ls__sweep_value_text(p, value, text));
    }
    const int metric = s->values.metric;
    if (ok && which != EXECUTION && metric != LS__METRIC_TOP1 && !ls__sweep_fixed_text(f, "metric"))
        ok = add_word(words, &n, "metric", ls__run_metric_name(metric));
    if (ok) return words;
    ls__sweep_free_words(words);
    return NULL;
}

char **ls__sweep_trial_words(const ls_sweep *s, int64_t trial)
{
    return make_words(s, trial, OF_TRIAL);
}

char **ls__sweep_resume_words(const ls_sweep *s)
{
    return make_words(s, 0, EXECUTION);
}

char *ls_sweep_trial_command(const ls_sweep *sweep, int64_t trial)
{
    if (!sweep || isnan(ls_search_value(sweep->search, trial, 0))) return NULL;
    char **words = make_words(sweep, trial, OF_TRIAL);
    char *text = words ? ls__command_line(sweep->command, "train", (const char **)words) : NULL;
    ls__sweep_free_words(words);
    return text;
}

/* ---- Checks ---- */

char **ls__sweep_combination_words(const ls_sweep *s, int64_t combination)
{
    return make_words(s, combination, COMBINATION);
}

int64_t ls__sweep_combination_count(const ls_sweep *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->file.n_searched && n < LS__SWEEP_MAX_COMBINATIONS; i++)
        n *= corner_count(&s->file.searched[i]);
    return n < LS__SWEEP_MAX_COMBINATIONS ? n : LS__SWEEP_MAX_COMBINATIONS;
}

ls_status ls__sweep_read_words(ls_sweep *s, char **words, ls__run_settings *r)
{
    ls_given given = { .table = ls__run_settings_table };
    *r = (ls__run_settings){ 0 };
    if (!words) return ls__fail_memory(s->ctx, "sweep", 0);
    ls_settings_default(given.table, r);
    for (int n = 0; words[n]; n++) {
        const char *name = words[n] + 2, *value = strchr(name, '=') + 1;
        const int i = ls_setting_find(given.table, name, (size_t)(value - 1 - name));
        LS_TRY(ls__setting_set(s->ctx, &given.table[i], value, r));
        given.text[i] = value;
    }
    return ls__run_settings_resolve(s->ctx, &given, NULL, r);
}

static bool is_trainable(ls_sweep *s, const ls__run_settings *r)
{
    if (r->epochs != s->epochs)
        return ls__sweep_refuse(
            s, "recipe", "expected 'epochs = N' in [train]: trials have %lld and %lld epochs",
            (long long)s->epochs, (long long)r->epochs);
    if (r->loss != LS__LOSS_CROSS_ENTROPY && s->values.metric != LS__METRIC_LOSS)
        return ls__sweep_refuse(s, "loss", "the loss of the trials requires 'metric = val-loss'");
    return r->batch <= s->n_images ||
           ls__sweep_refuse(
               s, "batch-size",
               "batch-size: expected at most the number of training images, %lld; got %lld",
               (long long)s->n_images, (long long)r->batch);
}

ls_status ls__sweep_check_words(ls_sweep *s, char **words, ls__run_settings *r)
{
    if (ls__sweep_read_words(s, words, r) == LS_OK && is_trainable(s, r)) return LS_OK;
    char *text = words ? ls__command_line(s->command, "train", (const char **)words) : NULL;
    if (text) ls__error_hint(s->ctx, "%s: in the trial: %s", s->path, text);
    free(text);
    return ls_context_status(s->ctx);
}
