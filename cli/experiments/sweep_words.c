/* sweep_words.c: the command lines of trials; see sweep.h. */
#include "experiments/sweep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds "--NAME=VALUE"; false without memory. */
static bool add_word(char **words, int *n, const ls_setting *option, const char *value)
{
    if (asprintf(&words[*n], "--%s=%s", option->name, value) < 0) return words[*n] = NULL, false;
    ++*n;
    return true;
}

void sweep_free_words(char **words)
{
    for (int i = 0; words && words[i]; i++) free(words[i]);
    free(words);
}

typedef enum which_words { OF_TRIAL, COMBINATION, EXECUTION } which_words;

/* Number of values of a parameter in a combination. */
static int64_t value_count(const sweep_parameter *p)
{
    return p->values ? p->search.count : 1 + (p->search.high > p->search.low);
}

/* Divides what is left of the number of a combination. */
static double combination_value(const sweep_parameter *p, int64_t *rest)
{
    const int64_t i = *rest % value_count(p);
    *rest /= value_count(p);
    return p->values ? (double)i : i == 0 ? p->search.low : p->search.high;
}

/* number: of the trial or combination. EXECUTION: only options that cannot change a result, which
 * may also be given when a run is resumed. */
static char **make_words(const sweep *s, int64_t number, which_words which)
{
    const sweep_file *f = s->file;
    char **words = calloc((size_t)(f->n_fixed + f->n_searched) + 3, sizeof(*words));
    int n = 0;
    int64_t rest = number;
    bool good = words != NULL;
    for (int i = 0; good && i < f->n_fixed; i++)
        if (which != EXECUTION || f->fixed[i].option->execution)
            good = add_word(words, &n, f->fixed[i].option, f->fixed[i].text);
    for (int i = 0; good && which != EXECUTION && i < f->n_searched; i++) {
        const sweep_parameter *p = &f->searched[i];
        const double value =
            which == OF_TRIAL ? ls_search_value(s->search, number, i) : combination_value(p, &rest);
        char text[SWEEP_VALUE_SIZE];
        good = add_word(words, &n, p->option, sweep_value_text(p, value, text));
    }
    const int metric = s->values->metric;
    if (good && which != EXECUTION && metric != LS__METRIC_TOP1 && !sweep_fixed_text(f, "metric"))
        good =
            add_word(words, &n,
                     &ls__run_settings_table[ls_setting_find(ls__run_settings_table, "metric", 6)],
                     ls__run_metric_name(metric));
    bool has_alpha = !s->ignores_alpha || which == EXECUTION || sweep_fixed_text(f, "alpha");
    for (int i = 0; i < f->n_searched; i++)
        has_alpha = has_alpha || strcmp(f->searched[i].option->name, "alpha") == 0;
    if (good && !has_alpha)
        good = add_word(
            words, &n, &ls__run_settings_table[ls_setting_find(ls__run_settings_table, "alpha", 5)],
            "ignore");
    if (good) return words;
    sweep_free_words(words);
    print_error(NULL, EXIT_RUNTIME);
    return NULL;
}

char **sweep_trial_words(const sweep *s, int64_t trial)
{
    return make_words(s, trial, OF_TRIAL);
}

char **sweep_resume_words(const sweep *s)
{
    return make_words(s, 0, EXECUTION);
}

/* ---- Checks ---- */

char **sweep_combination_words(const sweep *s, int64_t combination)
{
    return make_words(s, combination, COMBINATION);
}

int64_t sweep_combination_count(const sweep *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->file->n_searched && n < SWEEP_MAX_COMBINATIONS; i++)
        n *= value_count(&s->file->searched[i]);
    return n < SWEEP_MAX_COMBINATIONS ? n : SWEEP_MAX_COMBINATIONS;
}

bool sweep_parse_words(char **words, ls__run_settings *r)
{
    cli_parsed parsed;
    int n = 0;
    while (words[n]) n++;
    *r = (ls__run_settings){ 0 };
    return options_parse(&command_train, n, words, r, &parsed) < 0 &&
           resolve_run_settings(&parsed, r) == EXIT_DONE;
}

static bool is_trainable(const sweep *s, const ls__run_settings *r)
{
    if (r->epochs != s->epochs)
        return config_fail(sweep_file_at(s->file, "recipe"),
                           "expected 'epochs = N' in [train]: trials have %lld and %lld epochs",
                           (long long)s->epochs, (long long)r->epochs);
    if (r->loss != LS__LOSS_CROSS_ENTROPY && s->values->metric != LS__METRIC_LOSS)
        return config_fail(sweep_file_at(s->file, "loss"),
                           "the loss of the trials requires 'metric = val-loss'");
    return r->batch <= s->n_images ||
           config_fail(sweep_file_at(s->file, "batch-size"),
                       "batch-size: expected at most the number of training images, %lld; got %lld",
                       (long long)s->n_images, (long long)r->batch);
}

bool sweep_check_words(const sweep *s, char **words, ls__run_settings *r)
{
    const char *list[LS_MAX_SETTINGS + 2] = { "train" };
    char label[LS__RUN_PATH_SIZE];
    if (!words) return false;
    if (sweep_parse_words(words, r) && is_trainable(s, r)) return true;
    for (int i = 0; words[i]; i++) list[i + 1] = words[i];
    snprintf(label, sizeof(label), "%s: in the trial", s->file->lines.path);
    print_command_words(stderr, label, list);
    return false;
}
