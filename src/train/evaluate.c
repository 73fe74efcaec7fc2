/* evaluate.c: a net's loss and accuracy over a loader; see evaluate.h. */
#include "train/evaluate.h"

#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/text.h"
#include "comm/agree.h"
#include "data/loader/loader.h"
#include "nn/net/net.h"
#include "checkpoint/checkpoint.h"
#include "train/evaluation.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

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

ls_status ls__notify_in_ranks(const ls__listener *listener, const ls_event *event)
{
    (void)ls__notify(listener, event);
    return ls__ranks_agree(listener->ctx, NULL);
}

/* ---- Sums ---- */

static void add_sums(ls__sums *to, const ls__sums *from)
{
    to->loss += from->loss;
    to->loss_weight += from->loss_weight;
    to->top1 += from->top1;
    to->top5 += from->top5;
    to->n_images += from->n_images;
    if (from->n_own > to->n_own) to->n_own = from->n_own;
    for (int i = 0; i < from->n_own; i++) to->own[i] += from->own[i];
}

static ls__sums sums_of(const ls_results *r)
{
    const double n = (double)r->n;
    ls__sums s = { .loss = r->loss * r->loss_weight,
                   .loss_weight = r->loss_weight,
                   .top1 = ls_results_metric(r, "top1") * n,
                   .top5 = ls_results_metric(r, "top5") * n,
                   .n_images = r->n };
    for (int i = 0; i < r->n_metrics; i++)
        if (!ls__is_accuracy(r->metrics[i].name)) s.own[s.n_own++] = r->metrics[i].value * n;
    return s;
}

void ls__add_results(ls__sums *sums, const ls_results *r)
{
    const ls__sums s = sums_of(r);
    add_sums(sums, &s);
}

ls_averages ls__averages(const ls_net *net, const ls__sums *s)
{
    const char *names[LS_MAX_METRICS];
    const double n = s->n_images > 0 ? (double)s->n_images : 1;
    ls_averages out = { .loss = s->loss_weight > 0 ? s->loss / s->loss_weight : s->loss,
                        .top1 = s->top1 / n,
                        .top5 = s->top5 / n,
                        .n_images = s->n_images };
    const int n_names = ls__net_own_metrics(net, names);
    out.n_metrics = s->n_own < n_names ? s->n_own : n_names;
    for (int i = 0; i < out.n_metrics; i++)
        out.metrics[i] = (ls_metric_value){ names[i], s->own[i] / n };
    return out;
}

static ls_status fail_nonfinite(const ls__tally *t, const ls__batch_sums *b, int64_t epoch,
                                const int64_t *samples, int n_known)
{
    const double sum = b->sums.loss;
    const char *loss = isnan(sum) ? "nan" : sum > 0 ? "inf" : "-inf"; /* no "-nan" */
    char first[LS__SAMPLE_TEXT_SIZE + 64] = "";
    if (n_known > 0) {
        const char *path = ls_dataset_sample_path(t->loader->dataset, samples[0]);
        ls__snprintf(first, sizeof first, "; the batch's first image is sample %" PRId64 "%s%s",
                     samples[0], path ? ", " : "", path ? path : "");
    }
    (void)ls__call_listener(&t->listener, &(ls_event){ .kind = LS_EVENT_NONFINITE,
                                                       .validation = t->validation,
                                                       .epoch = epoch,
                                                       .step = b->step,
                                                       .loss = sum,
                                                       .samples = samples,
                                                       .n_samples = n_known,
                                                       .batch_size = b->sums.n_images });
    return ls__fail(t->listener.ctx, LS_ERR_NONFINITE,
                    "the loss is %s in %s, epoch %" PRId64 ", step %" PRId64 "%s", loss,
                    t->validation ? "validation" : "training", epoch, b->step, first);
}

static ls_status add(ls__tally *t, const ls_results *r)
{
    const int64_t at = t->n_added % LS__TALLY_BATCHES;
    const ls__batch_sums b = { .sums = sums_of(r),
                               .step = r->step,
                               .first_sample = t->samples[at][0] };
    t->n_added++;
    if (t->by_batch) LS_TRY(ls__batch_list_add(t->listener.ctx, &t->own, &b));
    if (!isfinite(r->loss) && !t->by_batch)
        return fail_nonfinite(t, &b, r->epoch, t->samples[at], t->n_known[at]);
    add_sums(t->sums, &b.sums);
    return t->on_results ? t->on_results(t->user, r) : LS_OK;
}

/* The sums over the batches of all ranks, in the order of batches. */
static ls_status add_ranks(ls__tally *t, int64_t epoch)
{
    ls_context *ctx = t->listener.ctx;
    ls__batch_list all = { 0 };
    ls_status status = ls__batch_list_gather(ctx, &t->own, ls_loader_step_count(t->loader), &all);
    *t->sums = (ls__sums){ 0 };
    for (int64_t i = 0; i < all.n && status == LS_OK; i++) {
        const ls__batch_sums *b = &all.items[i];
        add_sums(t->sums, &b->sums);
        if (!isfinite(b->sums.loss)) status = fail_nonfinite(t, b, epoch, &b->first_sample, 1);
    }
    ls__batch_list_free(ctx, &all);
    return status;
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
    int n = 0;
    t->samples[at][0] = -1;
    while (n < batch->n && n < LS__TALLY_SAMPLES && batch->samples[n] >= 0) {
        t->samples[at][n] = batch->samples[n];
        n++;
    }
    t->n_known[at] = n;
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

/* The predictions of the batch that the net has run. */
static ls_status add_predictions(ls_evaluation *e, ls__prediction *p, const ls_batch *batch)
{
    if (!p->test_time_flip) LS_TRY(ls__prediction_read(p, "ls_evaluate"));
    if (p->n_classes != e->n_classes)
        return ls__fail(ls_net_context(p->net), LS_ERR_INVALID,
                        "evaluation: it has %d classes, the net %" PRId64, e->n_classes,
                        p->n_classes);
    LS_TRY(ls__prediction_read_labels(p, batch));
    return ls_evaluation_add(e, p->n, p->labels, p->probabilities, batch->samples);
}

static ls_status evaluate_batch(ls__tally *t, ls__prediction *p, const ls_batch *batch,
                                ls_evaluation *evaluation, ls_event *event, double waited)
{
    if (p->test_time_flip) {
        LS_TRY(add_flipped(t, p, batch));
    } else {
        LS_TRY(ls_net_evaluate(t->net, batch));
        LS_TRY(ls__tally_add(t, batch));
    }
    if (evaluation) LS_TRY(add_predictions(evaluation, p, batch));
    event->probabilities = p->probabilities;
    event->step = batch->step;
    event->batch = batch;
    event->averages = ls__averages(t->net, t->sums);
    event->wait_seconds = ls_loader_statistics(t->loader).wait_seconds - waited;
    return ls__notify(&t->listener, event);
}

/* The next batch, unless the pass is stopped. Several ranks agree on that before each of them takes
 * a batch, and on errors. */
static bool take_batch(ls__tally *t, const ls_evaluate_config *config, bool *stopped,
                       ls_batch *batch)
{
    ls_context *ctx = t->listener.ctx;
    bool stop = config->stop && *config->stop;
    if (!ctx->comm) {
        *stopped = stop;
        return !stop && ls__loader_next(t->loader, batch);
    }
    if (t->n_taken++ % ctx->comm->n_ranks > 0) return ls__loader_next(t->loader, batch);
    if (ls__ranks_agree(ctx, &stop) != LS_OK) {
        t->is_ended = true;
        return false;
    }
    t->is_ended = *stopped = stop;
    return !stop && ls__loader_next(t->loader, batch);
}

/* After the last batch of each rank. An error that ranks agree on is in the context. */
static ls_status finish_turns(ls__tally *t, int64_t epoch)
{
    ls_context *ctx = t->listener.ctx;
    if (!t->by_batch || t->is_ended) return LS_OK;
    const int64_t n = ls_loader_step_count(t->loader);
    const bool have_agreed = t->n_taken > n && n % ctx->comm->n_ranks == 0;
    if (!have_agreed && ls__ranks_agree(ctx, NULL) != LS_OK) return LS_OK;
    LS_TRY(ls__tally_finish(t));
    return add_ranks(t, epoch);
}

/* With the predictions of all ranks, unless the pass was stopped. */
static ls_status finish_evaluation(const ls__tally *t, ls_evaluation *evaluation)
{
    if (t->by_batch && !t->is_ended) LS_TRY(ls__evaluation_gather(evaluation));
    return ls_evaluation_finish(evaluation);
}

ls_trainer_end ls__evaluate(ls_net *net, ls_loader *loader, const ls_evaluate_config *config,
                            int64_t epoch, ls__sums *out)
{
    const ls__listener listener = { ls_net_context(net), config->on_event, config->user };
    ls__tally tally = {
        .net = net, .loader = loader, .sums = out, .listener = listener, .validation = true
    };
    tally.by_batch = listener.ctx->comm != NULL;
    ls__prediction prediction = { .net = net, .test_time_flip = config->test_time_flip };
    ls_event event = { .validation = true, .epoch = epoch };
    if (config->evaluation) ls__evaluation_clear(config->evaluation);
    *out = (ls__sums){ 0 };
    if (ls__loader_start_turns(loader) != LS_OK || ls__tally_begin(&tally) != LS_OK)
        return LS_TRAINER_ERROR;
    event.step_count = ls_loader_step_count(loader);
    ls_status status = ls__notify_in_ranks(&listener, &event); /* PASS_BEGIN */
    const double waited = ls_loader_statistics(loader).wait_seconds;
    bool stopped = false;
    ls_batch batch;
    event.kind = LS_EVENT_STEP;
    event.step_count = 0;
    while (status == LS_OK && take_batch(&tally, config, &stopped, &batch))
        status =
            batch.samples[0] < 0
                ? ls__net_plan_evaluation(net, &batch) /* another rank's turn */
                : evaluate_batch(&tally, &prediction, &batch, config->evaluation, &event, waited);
    ls__prediction_free(&prediction);
    if (status == LS_OK) status = finish_turns(&tally, epoch);
    const bool bad_data = status == LS_OK && ls_loader_status(loader) != LS_OK;
    if (status == LS_OK && !bad_data) status = ls__tally_finish(&tally);
    ls__batch_list_free(listener.ctx, &tally.own);
    if (status == LS_OK && !bad_data && config->evaluation)
        status = finish_evaluation(&tally, config->evaluation);
    event = (ls_event){ .kind = LS_EVENT_PASS_END, .validation = true, .epoch = epoch };
    if (status == LS_OK && !bad_data)
        status = ls__notify_in_ranks(&listener, &event);
    else if (ls__notify(&listener, &event) != LS_OK && status == LS_OK)
        status = LS_ERR_EARLIER;
    if (status == LS_ERR_NONFINITE) return LS_TRAINER_NONFINITE;
    if (status != LS_OK) return LS_TRAINER_ERROR;
    const ls__comm *comm = listener.ctx->comm;
    if (bad_data) return comm && comm->is_lost ? LS_TRAINER_ERROR : LS_TRAINER_DATA_ERROR;
    if (!comm) stopped |= config->stop && *config->stop; /* ranks have agreed */
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
    LS_TRY(ls__state_context("ls_evaluate", &(ls_training_state){ .net = net, .loader = loader },
                             &ctx));
    if (!net || !loader) return ls__fail_null(ctx, "ls_evaluate", net ? "loader" : "net");
    if (!out) return ls__fail(ctx, LS_ERR_INVALID, "ls_evaluate: out is NULL");
    const char *by_class = !config                  ? NULL
                           : config->test_time_flip ? "test_time_flip"
                           : config->evaluation     ? "evaluation"
                                                    : NULL;
    if (by_class && !ls__net_has_metric(net, "top1"))
        return ls__fail(ctx, LS_ERR_INVALID, "ls_evaluate: %s is for nets with the metric 'top1'",
                        by_class);
    if (!config) config = &defaults;
    LS_TRY(ls__loader_take(loader, "ls_evaluate"));
    void *const used[] = { net, loader, config->evaluation }; /* a callback may close them */
    for (int i = 0; i < 3; i++) ls__use(used[i]);
    ls__evaluate(net, loader, config, 0, &sums);
    ls__loader_give_back(loader);
    *out = ls__averages(net, &sums);
    for (int i = 0; i < 3; i++) ls__release(used[i]);
    return ls__has_error(ctx) ? ctx->error : LS_OK;
}
