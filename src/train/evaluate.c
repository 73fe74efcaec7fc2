/* evaluate.c: a net's loss and accuracy over a loader; see evaluate.h. */
#include "train/evaluate.h"

#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "data/loader/loader.h"
#include "nn/net.h"
#include "run/checkpoint.h"
#include "train/predict.h"
#include <inttypes.h>
#include <math.h>

ls_status ls__call_listener(const ls__listener *listener, const ls_event *event)
{
    return listener->on_event ? listener->on_event(listener->user, event) : LS_OK;
}

ls_status ls__notify(const ls__listener *listener, const ls_event *event)
{
    const ls_status status = ls__call_listener(listener, event);
    if (status == LS_OK) return LS_OK;
    return ls__fail(listener->ctx, status, "the callback for events returned: %s",
                    ls_status_text(status));
}

ls_averages ls__averages(const ls__sums *s)
{
    const double n = s->n_images > 0 ? (double)s->n_images : 1;
    return (ls_averages){ s->loss / n, s->top1 / n, s->top5 / n, s->n_images };
}

/* ---- Sums ---- */

static ls_status fail_nonfinite(const ls__tally *t, const ls_results *r)
{
    const int64_t at = t->n_added % LS__TALLY_BATCHES, n = t->n_samples[at];
    const char *loss = isnan(r->loss) ? "nan" : r->loss > 0 ? "inf" : "-inf"; /* no "-nan" */
    const char *path = ls_dataset_sample_path(t->loader->dataset, t->samples[at][0]);
    const int n_known = (int)(n < LS__TALLY_SAMPLES ? n : LS__TALLY_SAMPLES);
    (void)ls__call_listener(&t->listener, &(ls_event){ .kind = LS_EVENT_NONFINITE,
                                                       .validation = t->validation,
                                                       .epoch = r->epoch,
                                                       .step = r->step,
                                                       .loss = r->loss,
                                                       .samples = t->samples[at],
                                                       .n_samples = n_known,
                                                       .batch_size = n });
    return ls__fail(t->listener.ctx, LS_ERR_NONFINITE,
                    "the loss is %s in %s, epoch %" PRId64 ", step %" PRId64
                    "; the batch's first image is sample %" PRId64 "%s%s",
                    loss, t->validation ? "validation" : "training", r->epoch, r->step,
                    t->samples[at][0], path ? ", " : "", path ? path : "");
}

static ls_status add(ls__tally *t, const ls_results *r)
{
    if (!isfinite(r->loss)) return fail_nonfinite(t, r);
    t->sums->loss += r->loss * (double)r->n;
    t->sums->top1 += ls_results_metric(r, "top1") * (double)r->n;
    t->sums->top5 += ls_results_metric(r, "top5") * (double)r->n;
    t->sums->n_images += r->n;
    t->n_added++;
    return LS_OK;
}

static ls_status add_all(ls__tally *t, ls_status (*give)(ls_net *net, ls_results *out))
{
    for (;;) {
        ls_results results;
        LS_TRY(give(t->net, &results));
        if (results.n == 0) return LS_OK;
        LS_TRY(add(t, &results));
    }
}

ls_status ls__tally_begin(const ls__tally *t)
{
    ls_results results = { .n = 1 };
    while (results.n > 0) LS_TRY(ls_net_last_results(t->net, &results));
    return LS_OK;
}

static void begin_batch(ls__tally *t, const ls_batch *batch)
{
    const int64_t at = t->n_begun++ % LS__TALLY_BATCHES;
    t->n_samples[at] = batch->n;
    for (int64_t i = 0; i < batch->n && i < LS__TALLY_SAMPLES; i++)
        t->samples[at][i] = batch->samples[i];
}

ls_status ls__tally_add(ls__tally *t, const ls_batch *batch)
{
    begin_batch(t, batch);
    return add_all(t, ls_net_results);
}

ls_status ls__tally_finish(ls__tally *t)
{
    return add_all(t, ls_net_last_results);
}

/* ---- A pass ---- */

/* The results of the mean probabilities instead of the net's, which are dropped. */
static ls_status add_flipped(ls__tally *t, ls__prediction *p, const ls_batch *batch)
{
    ls_results results;
    LS_TRY(ls__predict(p, "ls_evaluate", batch));
    LS_TRY(ls__tally_begin(t));
    LS_TRY(ls__prediction_results(p, batch, &results));
    begin_batch(t, batch);
    return add(t, &results);
}

static ls_status evaluate_batch(ls__tally *t, ls__prediction *p, const ls_batch *batch,
                                ls_event *event, double waited)
{
    if (p->test_time_flip) {
        LS_TRY(add_flipped(t, p, batch));
    } else {
        LS_TRY(ls_net_evaluate(t->net, batch));
        LS_TRY(ls__tally_add(t, batch));
    }
    event->probabilities = p->probabilities;
    event->step = batch->step;
    event->batch = batch;
    event->averages = ls__averages(t->sums);
    event->wait_seconds = ls_loader_statistics(t->loader).wait_seconds - waited;
    return ls__notify(&t->listener, event);
}

ls_trainer_end ls__evaluate(ls_net *net, ls_loader *loader, const ls_evaluate_config *config,
                            int64_t epoch, ls__sums *out)
{
    const ls__listener listener = { ls_net_context(net), config->on_event, config->user };
    ls__tally tally = {
        .net = net, .loader = loader, .sums = out, .listener = listener, .validation = true
    };
    ls__prediction prediction = { .net = net, .test_time_flip = config->test_time_flip };
    ls_event event = { .validation = true, .epoch = epoch };
    *out = (ls__sums){ 0 };
    if (ls_loader_start(loader, 0) != LS_OK || ls__tally_begin(&tally) != LS_OK)
        return LS_TRAINER_ERROR;
    event.step_count = ls_loader_step_count(loader);
    ls_status status = ls__notify(&listener, &event); /* PASS_BEGIN */
    const double waited = ls_loader_statistics(loader).wait_seconds;
    bool stopped = false;
    ls_batch batch;
    event.kind = LS_EVENT_STEP;
    event.step_count = 0;
    while (status == LS_OK && !(stopped = config->stop && *config->stop) &&
           ls_loader_next(loader, &batch))
        status = evaluate_batch(&tally, &prediction, &batch, &event, waited);
    ls__prediction_free(&prediction);
    const bool bad_data = status == LS_OK && ls_loader_status(loader) != LS_OK;
    if (status == LS_OK && !bad_data) status = ls__tally_finish(&tally);
    const ls_status ended = ls__notify(
        &listener, &(ls_event){ .kind = LS_EVENT_PASS_END, .validation = true, .epoch = epoch });
    if (status == LS_OK) status = ended;
    if (status == LS_ERR_NONFINITE) return LS_TRAINER_NONFINITE;
    if (status != LS_OK) return LS_TRAINER_ERROR;
    if (bad_data) return LS_TRAINER_DATA_ERROR;
    stopped |= config->stop && *config->stop;
    return stopped ? LS_TRAINER_INTERRUPTED : LS_TRAINER_DONE;
}

ls_status ls_evaluate(ls_net *net, ls_loader *loader, const ls_evaluate_config *config,
                      ls_averages *out)
{
    static const ls_evaluate_config defaults = { 0 };
    LS__DEFAULT_FLOATS;
    ls_context *ctx;
    ls__sums sums;
    if (out) *out = (ls_averages){ 0 };
    if (!net || !loader) return LS_ERR_EARLIER;
    LS_TRY(ls__state_context("ls_evaluate", &(ls_training_state){ .net = net, .loader = loader },
                             &ctx));
    if (!out) return ls__fail(ctx, LS_ERR_INVALID, "ls_evaluate: out is NULL");
    if (config && config->test_time_flip && !ls__net_has_metric(net, "top1"))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_evaluate: test_time_flip is for nets with the metric 'top1'");
    ls__evaluate(net, loader, config ? config : &defaults, 0, &sums);
    *out = ls__averages(&sums);
    return ls__has_error(ctx) ? ctx->error : LS_OK;
}
