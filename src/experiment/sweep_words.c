/* sweep_words.c: the settings of trials as words of a command line; see sweep.h. */
#include "experiment/sweep.h"

#include "base/c_locale.h"
#include "base/error.h"
#include "run/setting.h"
#include <math.h>
#include <stdlib.h>

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

void ls__sweep_put_settings(const ls_sweep *s, ls__sweep_settings_of which, int64_t number,
                            const char *dashes, ls__words *out)
{
    const ls__sweep_file *f = &s->file;
    const bool all = which != LS__SWEEP_EXECUTION;
    int64_t rest = number;
    for (int i = 0; i < f->n_fixed; i++)
        if (all || f->fixed[i].setting->execution)
            ls__words_put(out, "%s%s=%s", dashes, f->fixed[i].setting->name, f->fixed[i].text);
    for (int i = 0; i < f->n_searched && all; i++) {
        const ls__sweep_parameter *p = &f->searched[i];
        const double value = which == LS__SWEEP_TRIAL ? ls_search_value(s->search, number, i)
                                                      : combination_value(p, &rest);
        char text[LS_SWEEP_VALUE_SIZE];
        ls__words_put(out, "%s%s=%s", dashes, p->setting->name,
                      ls__sweep_value_text(p, value, text));
    }
    const int metric = s->values.metric;
    if (all && metric != LS__METRIC_TOP1 && !ls__sweep_fixed_text(f, "metric"))
        ls__words_put(out, "%smetric=%s", dashes, ls__run_metric_name(metric));
}

const char *ls_sweep_trial_value(const ls_sweep *sweep, int64_t trial, int parameter,
                                 char out[LS_SWEEP_VALUE_SIZE])
{
    if (!sweep || parameter < 0 || parameter >= sweep->file.n_searched) return "";
    LS__IN_C_LOCALE;
    return ls__sweep_value_text(&sweep->file.searched[parameter],
                                ls_search_value(sweep->search, trial, parameter), out);
}

static char *make_command(const ls_sweep *s, ls__sweep_settings_of which, int64_t number)
{
    ls__words words = { 0 };
    ls__words_put(&words, "%s", s->program_name);
    ls__words_put(&words, "train");
    ls__sweep_put_settings(s, which, number, "--", &words);
    char *text = ls__words_text(&words);
    ls__words_free(&words);
    return text;
}

char *ls_sweep_trial_command(const ls_sweep *sweep, int64_t trial)
{
    if (!sweep || isnan(ls_search_value(sweep->search, trial, 0))) return NULL;
    return make_command(sweep, LS__SWEEP_TRIAL, trial);
}

/* ---- Checks ---- */

int64_t ls__sweep_combination_count(const ls_sweep *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->file.n_searched && n < LS__SWEEP_MAX_COMBINATIONS; i++)
        n *= corner_count(&s->file.searched[i]);
    return n < LS__SWEEP_MAX_COMBINATIONS ? n : LS__SWEEP_MAX_COMBINATIONS;
}

ls_status ls__sweep_read_settings(ls_sweep *s, ls__sweep_settings_of which, int64_t number,
                                  char ***texts, ls__run_settings *r)
{
    ls_given given;
    ls__words words = { 0 };
    *r = (ls__run_settings){ 0 };
    *texts = NULL;
    ls__sweep_put_settings(s, which, number, "", &words);
    const ls_status status =
        words.failed ? ls__fail_memory(s->ctx, "sweep", 0)
                     : ls__settings_read(s->ctx, ls__run_settings_table,
                                         (const char *const *)words.items, texts, r, &given);
    ls__words_free(&words);
    return status == LS_OK ? ls__run_settings_resolve(s->ctx, &given, NULL, r) : status;
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

ls_status ls__sweep_check_settings(ls_sweep *s, ls__sweep_settings_of which, int64_t number,
                                   ls__run_settings *r)
{
    char **texts;
    const bool ok =
        ls__sweep_read_settings(s, which, number, &texts, r) == LS_OK && is_trainable(s, r);
    ls__settings_free_texts(texts);
    if (ok) return LS_OK;
    char *command = make_command(s, which, number);
    if (command) ls__error_hint(s->ctx, "%s: in the trial: %s", s->path, command);
    free(command);
    return ls_context_status(s->ctx);
}
