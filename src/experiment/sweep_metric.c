/* sweep_metric.c: the metric by which a sweep compares its trials, and each trial its epochs; see
 * sweep.h. */
#include "experiment/sweep.h"

#include "base/error.h"
#include <string.h>

/* The words after LS__METRIC_TOP5 in the table of options are other words for the first two
 * metrics. */
static int number_of(int choice)
{
    return choice > LS__METRIC_TOP5 ? choice - LS__METRIC_TOP5 - 1 : choice;
}

int ls__sweep_metric_find(const char *word)
{
    const int i = ls_setting_find(ls_sweep_settings(), "metric", strlen("metric"));
    const int choice = ls__setting_choice(ls_sweep_settings()[i].value, word);
    return choice < 0 ? -1 : number_of(choice);
}

const char *ls__sweep_metric_key(int metric)
{
#define KEY(NAME, word) "val_" word,
    static const char *const keys[] = { LS__METRICS(KEY) };
#undef KEY
    return keys[number_of(metric)]; /* also before it is settled */
}

bool ls__sweep_is_better(int metric, double a, double b)
{
    return ls__run_metric_is_minimized(metric) ? a < b : a > b;
}

ls_status ls__sweep_settle_metric(ls_sweep *s)
{
    ls__sweep_values *v = &s->values;
    const char *trained = ls__sweep_fixed_text(&s->file, "metric");
    v->metric = number_of(v->metric);
    if (!trained) return LS_OK;
    const int metric = ls__sweep_metric_find(trained);
    if (!ls_given_has(&s->given, "metric")) v->metric = metric;
    if (v->metric != metric)
        ls__sweep_refuse(s, "metric",
                         "trials and their epochs are compared by one metric: got %s for the "
                         "sweep, and %s in [train]",
                         ls__run_metric_name(v->metric), ls__run_metric_name(metric));
    return ls_context_status(s->ctx);
}

/* Whether the weights of classes divide the loss: not with soft targets. */
static bool divides_by_weights(const ls__run_settings *r)
{
    return r->class_weights && !ls__run_mixes(r);
}

bool ls__sweep_have_same_scale(const ls__run_settings *a, const ls__run_settings *b)
{
    return a->label_smoothing == b->label_smoothing && a->class_weights == b->class_weights &&
           divides_by_weights(a) == divides_by_weights(b);
}

ls_status ls__sweep_settle_scale(ls_sweep *s)
{
    if (s->values.metric != LS__METRIC_LOSS) return LS_OK;
    static const char why[] = "the options in [search] change the scale of the loss";
    if (ls__sweep_fixed_text(&s->file, "metric")) {
        ls__sweep_refuse(s, "metric", "%s: expected metric = cross_entropy", why);
        return LS_ERR_SETTING;
    }
    ls__note(s->ctx, LS_LOG_RUN,
             "%s, so trials are compared by cross_entropy, without label smoothing and class "
             "weights",
             why);
    s->values.metric = LS__METRIC_CROSS_ENTROPY;
    return LS_OK;
}
