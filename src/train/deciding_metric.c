/* deciding_metric.c: the metric that decides which epoch of a run is the best; see trainer.h. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "data/loader/loader.h"
#include "nn/net/net.h"
#include "log/metrics.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

static const char call[] = "ls_trainer_open";

/* ---- Metrics of an evaluation ---- */

static const struct {
    const char *name;
    size_t offset; /* of a double in ls_evaluation_result */
    bool minimize, reads_auc;
} measures[] = {
#define MEASURE(name, member, minimize, reads_auc, title, axis, end)                               \
    { #name, offsetof(ls_evaluation_result, member), minimize, reads_auc },
    LS__EVALUATION_METRICS(MEASURE)
#undef MEASURE
};
enum { N_MEASURES = sizeof measures / sizeof measures[0] };

/* ---- Finding ---- */

static const char *const accuracies[] = { "top1", "top5" };

static bool has_evaluation(const ls_net *net, const ls_loader *validation)
{
    return ls__net_has_metric(net, "top1") && validation && validation->dataset->n_classes > 0;
}

/* "loss, top1, macro_recall": what config.metric may be. */
static void list_metrics(const ls_net *net, const ls_loader *validation, ls__text *out)
{
    const char *own[LS_MAX_METRICS];
    const int n_own = ls__net_own_metrics(net, own);
    ls__text_put(out, "loss");
    for (int i = 0; i < 2; i++)
        if (ls__net_has_metric(net, accuracies[i])) ls__text_put(out, ", %s", accuracies[i]);
    for (int i = 0; i < n_own; i++) ls__text_put(out, ", %s", own[i]);
    for (int i = 0; i < N_MEASURES && has_evaluation(net, validation); i++)
        ls__text_put(out, ", %s", measures[i].name);
}

static ls_status fail_unknown(ls_context *ctx, const ls_net *net, const ls_loader *validation,
                              const char *name, bool needs_validation)
{
    char buffer[512];
    ls__text list = { buffer, sizeof buffer, 0 };
    list_metrics(net, validation, &list);
    return ls__fail(ctx, LS_ERR_INVALID, "%s: metric is '%s'%s, expected one of %s", call, name,
                    needs_validation ? ", which requires validation" : "", buffer);
}

/* An area under the ROC curve needs images of the class and others. */
static ls_status check_auc(ls_context *ctx, const ls_dataset *data)
{
    int64_t *counts = ls__zalloc(ctx, (size_t)data->n_classes * sizeof *counts);
    if (!counts) return ls__fail_memory(ctx, call, (size_t)data->n_classes * sizeof *counts);
    int n_filled = 0;
    const ls_status status = ls_dataset_class_sizes(data, counts);
    for (int i = 0; i < data->n_classes; i++) n_filled += counts[i] > 0;
    ls__free(ctx, counts);
    if (status != LS_OK || n_filled > 1) return status;
    return ls__fail(ctx, LS_ERR_INVALID,
                    "%s: metric 'auc' requires validation images of two classes or more", call);
}

/* Sets all but `identity`. False for an unknown name. */
static bool find(const ls_net *net, const ls_loader *validation, const char *name,
                 ls__deciding_metric *out)
{
    const char *own[LS_MAX_METRICS];
    const int n_own = ls__net_own_metrics(net, own);
    if (strcmp(name, "loss") == 0) {
        *out = (ls__deciding_metric){ .name = "loss", .minimize = true };
        return true;
    }
    for (int i = 0; i < 2; i++)
        if (strcmp(name, accuracies[i]) == 0 && ls__net_has_metric(net, name)) {
            *out = (ls__deciding_metric){ accuracies[i], LS__METRIC_OF_ACCURACY, .index = i };
            return true;
        }
    for (int i = 0; i < N_MEASURES && has_evaluation(net, validation); i++)
        if (strcmp(name, measures[i].name) == 0) {
            *out = (ls__deciding_metric){ measures[i].name, LS__METRIC_OF_EVALUATION, i,
                                          measures[i].minimize, measures[i].reads_auc };
            return true;
        }
    for (int i = 0; i < n_own; i++)
        if (strcmp(name, own[i]) == 0) {
            *out = (ls__deciding_metric){ own[i], LS__METRIC_OF_NET, .index = i };
            return true;
        }
    return false;
}

ls_status ls__deciding_metric_find(const ls_net *net, const ls_trainer_config *c,
                                   ls__deciding_metric *out)
{
    ls_context *ctx = ls_net_context((ls_net *)net);
    const char *usual = ls__net_has_metric(net, "top1") ? "top1" : "loss";
    const char *name = c->metric ? c->metric : usual;
    if (!find(net, c->validation, name, out)) {
        bool is_measure = false;
        for (int i = 0; i < N_MEASURES; i++) is_measure |= strcmp(name, measures[i].name) == 0;
        const bool needs = is_measure && !c->validation && ls__net_has_metric(net, "top1");
        return fail_unknown(ctx, net, c->validation, name, needs);
    }
    if (c->minimize && out->source != LS__METRIC_OF_NET)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: minimize is for a metric of the net, not for '%s', whose %s value is "
                        "the best",
                        call, name, out->minimize ? "lowest" : "highest");
    out->minimize |= c->minimize;
    if (strcmp(name, usual) != 0)
        ls__snprintf(out->identity, sizeof out->identity, "%s%s", name,
                     c->minimize ? ", lowest" : "");
    return out->reads_auc ? check_auc(ctx, c->validation->dataset) : LS_OK;
}

/* ---- Values ---- */

double ls__deciding_metric_value(const ls__deciding_metric *m, const ls_averages *averages,
                                 const ls_evaluation *evaluation)
{
    switch (m->source) {
    case LS__METRIC_OF_LOSS: return averages->loss;
    case LS__METRIC_OF_ACCURACY: return m->index ? averages->top5 : averages->top1;
    case LS__METRIC_OF_NET:
        return m->index < averages->n_metrics ? averages->metrics[m->index].value : NAN;
    case LS__METRIC_OF_EVALUATION: {
        const ls_evaluation_result result = ls_evaluation_scores(evaluation);
        return *(const double *)((const char *)&result + measures[m->index].offset);
    }
    }
    return NAN;
}

bool ls__deciding_metric_is_better(const ls__deciding_metric *m, double value, double loss,
                                   double best, double best_loss)
{
    if (isnan(value) || isnan(best)) return isnan(value) ? isnan(best) && loss < best_loss : true;
    if (value == best) return loss < best_loss;
    return m->minimize ? value < best : value > best;
}
