/* trainer_row.c: the numbers of an epoch as a row of the run's metrics; see trainer.h. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "nn/net/net.h"
#include "io/json.h"
#include <math.h>
#include <string.h>

/* JSON has no infinity and no NaN. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Adds a value, null unless `is_there`, under PREFIX and NAME. A net's own metric may have the name
 * of another column, which precedes it. */
static void put(ls__json_builder *row, ls_context *ctx, const char *prefix, const char *name,
                bool is_there, double value)
{
    char *text = ls__format(ctx, "%s%s", prefix, name);
    json_t *key = text ? ls__json_text(ctx, text) : NULL;
    ls__free(ctx, text);
    if (!key)
        row->failed = true;
    else if (!json_object_get(row->json, json_string_value(key)))
        ls__json_put(row, json_string_value(key), is_there ? number(value) : json_null());
    json_decref(key);
}

/* Of training or validation; all null if `averages` is NULL. An own metric with the name of the one
 * that decides has no columns, because "val_NAME" is the value that decides. */
static void put_averages(ls__json_builder *row, const ls_trainer *t, const char *prefix,
                         const ls_averages *averages)
{
    static const ls_averages none = { 0 };
    ls_context *ctx = t->owned.ctx;
    const ls_averages *a = averages ? averages : &none;
    const char *own[LS_MAX_METRICS];
    const int n_own = ls__net_own_metrics(t->net, own);
    put(row, ctx, prefix, "loss", averages != NULL, a->loss);
    if (t->has_top1) put(row, ctx, prefix, "top1", averages != NULL, a->top1);
    if (ls__net_has_metric(t->net, "top5"))
        put(row, ctx, prefix, "top5", averages != NULL, a->top5);
    for (int i = 0; i < n_own; i++)
        if (t->metric.source != LS__METRIC_OF_EVALUATION || strcmp(own[i], t->metric.name) != 0)
            put(row, ctx, prefix, own[i], i < a->n_metrics, a->metrics[i].value);
}

json_t *ls__trainer_row(const ls_trainer *t, const ls_event *e, double lr, int64_t n_bad)
{
    ls__json_builder row = { json_object(), false };
    ls__json_put(&row, "epoch", json_integer(t->epoch + 1));
    ls__json_put(&row, "lr", number(lr));
    put_averages(&row, t, "train_", &e->averages);
    put_averages(&row, t, "val_", t->config.validation ? &e->validation_averages : NULL);
    if (t->metric.source == LS__METRIC_OF_EVALUATION)
        put(&row, t->owned.ctx, "val_", t->metric.name, true, e->metric_value);
    if (*t->metric.identity)
        ls__json_put(&row, "best_epoch",
                     json_integer(e->is_best ? t->epoch + 1 : t->progress.best_epoch));
    ls__json_put(&row, "images_per_second", number((double)e->averages.n_images / e->seconds));
    ls__json_put(&row, "data_wait", number(e->wait_seconds / e->seconds));
    ls__json_put(&row, "seconds", number(e->seconds + e->validation_seconds));
    double scale;
    int64_t skipped;
    if (ls__net_activations(t->net) == LS_F16 &&
        ls_net_loss_scale(t->net, &scale, &skipped) == LS_OK) {
        ls__json_put(&row, "loss_scale", number(scale));
        ls__json_put(&row, "skipped_updates", json_integer(skipped));
    }
    ls__json_put(&row, "bad_images", json_integer(n_bad));
    return ls__json_finish(&row);
}
