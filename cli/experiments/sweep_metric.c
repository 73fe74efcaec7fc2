/* sweep_metric.c: the metric by which a sweep compares its trials, and each trial its epochs; see
 * sweep.h. */
#include "experiments/sweep.h"
#include <stdio.h>
#include <string.h>

/* The words after LS__METRIC_TOP5 in the table of options are other words for the first two
 * metrics. */
static int number_of(int choice)
{
    return choice > LS__METRIC_TOP5 ? choice - LS__METRIC_TOP5 - 1 : choice;
}

int sweep_metric_find(const char *word)
{
    const ls_setting *option = &sweep_options[ls_setting_find(sweep_options, "metric", 6)];
    const int i = ls__setting_choice(option->value, word);
    return i < 0 ? -1 : number_of(i);
}

bool sweep_settle_metric(const cli_parsed *parsed, sweep_values *v, sweep_file *file)
{
    const char *trained = sweep_fixed_text(file, "metric");
    v->metric = number_of(v->metric);
    if (!trained) return true;
    const int metric = sweep_metric_find(trained);
    if (!ls__given_sets(&parsed->set, "metric")) v->metric = metric;
    return v->metric == metric ||
           config_fail(sweep_file_at(file, "metric"),
                       "trials and their epochs are compared by one metric: got %s for the sweep, "
                       "and %s in [train]",
                       ls__run_metric_name(v->metric), ls__run_metric_name(metric));
}

/* The options that a validation loss's scale depends on. */
typedef struct loss_scale {
    double label_smoothing;
    int class_weights;
    bool divides_by_weights; /* not with soft targets */
} loss_scale;

static loss_scale scale_of(const ls__run_settings *r)
{
    return (loss_scale){ r->label_smoothing, r->class_weights,
                         r->class_weights && !ls__run_mixes(r) };
}

bool sweep_settle_scale(sweep *s)
{
    loss_scale first = { 0 };
    bool same = true;
    const int64_t n = s->values->metric == LS__METRIC_LOSS ? sweep_combination_count(s) : 0;
    for (int64_t i = 0; i < n && same; i++) {
        char **words = sweep_combination_words(s, i);
        ls__run_settings r;
        const bool good = words && sweep_parse_words(words, &r);
        const loss_scale scale = good ? scale_of(&r) : first;
        sweep_free_words(words);
        if (!good) return false;
        if (i == 0) first = scale;
        same = scale.label_smoothing == first.label_smoothing &&
               scale.class_weights == first.class_weights &&
               scale.divides_by_weights == first.divides_by_weights;
    }
    if (same) return true;
    static const char why[] = "the options in [search] change the scale of the loss";
    if (sweep_fixed_text(s->file, "metric"))
        return config_fail(sweep_file_at(s->file, "metric"), "%s: expected metric = cross_entropy",
                           why);
    print_note("%s, so trials are compared by cross_entropy, without label smoothing and class "
               "weights",
               why);
    s->values->metric = LS__METRIC_CROSS_ENTROPY;
    return true;
}
