/* trainer.c: the training loop; see lockstep/trainer.h. */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/floats.h"
#include "comm/agree.h"
#include "data/loader/loader.h"
#include "nn/net/net.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char run_call[] = "ls_trainer_run";

/* The next batch. False at the end of the epoch, and if the run ends here: all ranks end at the
 * same batch, also if only one of them is stopped or can't load its images. */
static bool take_batch(ls_trainer *t, ls_batch *batch)
{
    ls_context *ctx = t->owned.ctx;
    t->is_stopped = t->config.stop && *t->config.stop;
    if (!ctx->comm) return !t->is_stopped && ls__loader_next(t->loader, batch);
    const bool is_there = ls__loader_next(t->loader, batch);
    const ls_status status = ls__ranks_agree(ctx, &t->is_stopped);
    return is_there && !t->is_stopped && status == LS_OK;
}

/* True if max_steps ends the run in the middle of an epoch. */
static bool is_halted(const ls_trainer *t)
{
    return t->config.max_steps > 0 && t->step < ls_loader_step_count(t->loader) &&
           ls__trainer_steps(t) >= t->config.max_steps;
}

/* False at the end of an epoch, which saves anyway. */
static bool is_checkpoint_due(const ls_trainer *t)
{
    const int64_t every = t->config.checkpoint_every;
    return every > 0 && ls__trainer_steps(t) % every == 0 &&
           t->step < ls_loader_step_count(t->loader);
}

static bool is_stale(const ls_trainer *t)
{
    const int64_t patience = t->config.patience;
    return patience > 0 && t->epoch - t->progress.best_epoch >= patience;
}

/* ---- Loss scaling ---- */

static bool has_loss_scale(const ls_trainer *t)
{
    return ls__net_activations(t->net) == LS_F16;
}

/* Every LS__HOPELESS_UPDATES updates, because it waits for the device. */
static ls_status watch_skipped(ls_trainer *t)
{
    const int64_t done = ls_optimizer_step_count(t->optimizer);
    const bool updated = t->optimizer->update.n_accumulated == 0;
    double scale;
    int64_t skipped;
    if (!has_loss_scale(t) || !updated || done % LS__HOPELESS_UPDATES != 0) return LS_OK;
    LS_TRY(ls_net_loss_scale(t->net, &scale, &skipped));
    if (!ls__skipped_updates_check(&t->skipped, done, skipped)) return LS_OK;
    return ls__notify(&t->listener, &(ls_event){ .kind = LS_EVENT_SKIPPED_UPDATES,
                                                 .epoch = t->epoch,
                                                 .step = t->step,
                                                 .n_updates = done - t->skipped.updates,
                                                 .loss_scale = scale });
}

static ls_status begin_watch(ls_trainer *t)
{
    if (!has_loss_scale(t)) return LS_OK;
    t->skipped = (ls__skipped_updates){ .updates = ls_optimizer_step_count(t->optimizer) };
    return ls_net_loss_scale(t->net, NULL, &t->skipped.skipped);
}

/* ---- One epoch ---- */

/* Times of a training pass, which include the epoch's steps before a resume. */
typedef struct pass {
    double begun, waited; /* the clocks at the beginning, minus the times before the resume */
    double waited_before;
} pass;

/* Everything after the step itself. */
static ls_status report_step(ls_trainer *t, const ls_batch *batch, const pass *p)
{
    ls__progress *done = &t->progress;
    if (t->log) LS_TRY(ls_run_log_step(t->log, t->net, batch));
    LS_TRY(ls__tally_add(&t->tally, batch));
    LS_TRY(ls__trainer_report_batch(t, batch));
    t->step = batch->step + 1;
    LS_TRY(watch_skipped(t));
    done->seconds = ls__now_seconds() - p->begun;
    done->wait_seconds = ls_loader_statistics(t->loader).wait_seconds - p->waited;
    LS_TRY(ls__notify(&t->listener,
                      &(ls_event){ .kind = LS_EVENT_STEP,
                                   .epoch = t->epoch,
                                   .step = batch->step,
                                   .batch = batch,
                                   .averages = ls__averages(t->net, &done->sums),
                                   .wait_seconds = done->wait_seconds - p->waited_before }));
    if (is_halted(t) || !is_checkpoint_due(t)) return LS_OK;
    LS_TRY(ls__tally_finish(&t->tally)); /* a checkpoint's sums are those of all its steps */
    return ls_trainer_save(t);
}

/* Results arrive up to one step late. */
static ls_status log_results(void *trainer, const ls_results *r)
{
    ls_trainer *t = trainer;
    const int64_t steps_done = r->epoch * ls_loader_step_count(t->loader) + r->step + 1;
    const double lr = ls__optimizer_lr(t->optimizer, t->schedule, r->epoch, r->step);
    return ls__event_log_step(t->events, steps_done, r, lr);
}

static ls_status train_step(ls_trainer *t, const ls_batch *batch, const pass *p)
{
    const double lr = ls__optimizer_lr(t->optimizer, t->schedule, t->epoch, batch->step);
    if (ls__trainer_steps(t) == 0) LS_TRY(ls__event_log_batch(t->events, batch));
    LS_TRY(ls_net_step(t->net, t->optimizer, batch, lr));
    const ls_status status = report_step(t, batch, p);
    if (status != LS_OK) ls__ranks_give_up(t->owned.ctx);
    return status;
}

static ls_trainer_end failed(ls_status status)
{
    return status == LS_ERR_NONFINITE ? LS_TRAINER_NONFINITE : LS_TRAINER_ERROR;
}

static ls_trainer_end train_epoch(ls_trainer *t)
{
    ls__progress *done = &t->progress;
    t->tally = (ls__tally){ .net = t->net,
                            .loader = t->loader,
                            .sums = &done->sums,
                            .listener = t->listener,
                            .on_results = log_results,
                            .user = t };
    if (ls__loader_start_at(t->loader, run_call, t->epoch, t->step) != LS_OK ||
        ls__tally_begin(&t->tally) != LS_OK)
        return LS_TRAINER_ERROR;
    ls_status status = ls__notify_in_ranks(
        &t->listener, &(ls_event){ .kind = LS_EVENT_PASS_BEGIN,
                                   .epoch = t->epoch,
                                   .step = t->step,
                                   .step_count = ls_loader_step_count(t->loader) });
    const pass p = { .begun = ls__now_seconds() - done->seconds,
                     .waited = ls_loader_statistics(t->loader).wait_seconds - done->wait_seconds,
                     .waited_before = done->wait_seconds };
    ls_batch batch;
    while (status == LS_OK && !is_halted(t) && take_batch(t, &batch))
        status = train_step(t, &batch, &p);
    const ls_event ended = { .kind = LS_EVENT_PASS_END, .epoch = t->epoch, .step = t->step };
    const ls__comm *comm = t->owned.ctx->comm;
    const bool halted = is_halted(t), bad_data = !halted && ls_loader_status(t->loader) != LS_OK;
    if (status == LS_OK && !bad_data)
        status = ls__notify_in_ranks(&t->listener, &ended);
    else if (ls__notify(&t->listener, &ended) != LS_OK && status == LS_OK)
        status = LS_ERR_EARLIER;
    if (status != LS_OK) return failed(status);
    if (bad_data) return comm && comm->is_lost ? LS_TRAINER_ERROR : LS_TRAINER_DATA_ERROR;
    status = ls__tally_finish(&t->tally);
    done->seconds = ls__now_seconds() - p.begun;
    if (status != LS_OK) return failed(status);
    if (!comm) t->is_stopped |= t->config.stop && *t->config.stop;
    return halted ? LS_TRAINER_MAX_STEPS : t->is_stopped ? LS_TRAINER_INTERRUPTED : LS_TRAINER_DONE;
}

/* ---- The end of an epoch ---- */

/* Images that could not be read, in training and validation. */
static int64_t count_bad(const ls_trainer *t)
{
    const ls_loader *val = t->config.validation;
    return ls_loader_statistics(t->loader).n_bad + (val ? ls_loader_statistics(val).n_bad : 0);
}

static ls_status write_row(ls_trainer *t, const ls_event *e, double lr)
{
    json_t *row = ls__trainer_row(t, e, lr, count_bad(t));
    ls_status status = ls__metrics_append(t->metrics, json_incref(row));
    t->has_row = status == LS_OK;
    if (status == LS_OK) status = ls__event_log_epoch(t->events, ls__trainer_steps(t), row, t->net);
    json_decref(row);
    return status;
}

/* A callback that failed is called again, but the row is written once. */
static ls_status report_epoch(ls_trainer *t, const ls_event *e, double lr)
{
    if (t->metrics && !t->has_row) {
        LS_TRY(write_row(t, e, lr));
        LS_TRY(ls__trainer_report_epoch(t));
    }
    return ls__notify(&t->listener, e);
}

/* What a plateau schedule reads. */
static double metric_of_schedule(const ls_trainer *t, const ls_averages *averages, double metric)
{
    const bool maximize = t->schedule->config.maximize;
    if (maximize != t->metric.minimize) return metric;
    return maximize ? averages->top1 : averages->loss;
}

/* Metrics first, then best, then last: a resumed run writes the files that a kill left out, with
 * the same contents. */
static ls_status finish_epoch(ls_trainer *t, const ls__sums *val, double val_seconds)
{
    ls_event e = { .kind = LS_EVENT_EPOCH,
                   .epoch = t->epoch,
                   .step = t->step,
                   .averages = ls__averages(t->net, &t->progress.sums),
                   .validation_averages = ls__averages(t->net, val),
                   .seconds = t->progress.seconds,
                   .wait_seconds = t->progress.wait_seconds,
                   .validation_seconds = val_seconds };
    const ls_averages *averages = t->config.validation ? &e.validation_averages : &e.averages;
    const double lr = ls__optimizer_lr(t->optimizer, t->schedule, t->epoch, t->step - 1);
    e.metric = t->metric.name;
    e.metric_value = ls__deciding_metric_value(&t->metric, averages, t->evaluation);
    e.is_best = t->progress.best_epoch == 0 ||
                ls__deciding_metric_is_better(&t->metric, e.metric_value, averages->loss, t->best,
                                              t->best_loss);
    LS_TRY(ls__loader_share_bads(t->loader));
    if (t->config.validation) LS_TRY(ls__loader_share_bads(t->config.validation));
    (void)report_epoch(t, &e, lr);
    LS_TRY(ls__ranks_agree(t->owned.ctx, NULL));
    LS_TRY(ls_schedule_report(t->schedule, metric_of_schedule(t, averages, e.metric_value)));
    t->has_row = false;
    t->epoch++;
    t->step = 0;
    t->progress = (ls__progress){ .best_epoch = t->progress.best_epoch };
    if (e.is_best) {
        t->best = e.metric_value;
        t->best_loss = averages->loss;
        t->progress.best_epoch = t->epoch;
        LS_TRY(ls__trainer_save_best(t));
    }
    return t->dir ? ls_trainer_save(t) : LS_OK;
}

/* ---- The run ---- */

/* Saves the steps before the batch that could not be loaded, and keeps the loader's error. */
static ls_trainer_end stop_at_bad_data(ls_trainer *t)
{
    ls_context *ctx = t->owned.ctx;
    char message[LS__MESSAGE_SIZE];
    const bool trains = t->step < ls_loader_step_count(t->loader);
    const ls_status error = ctx->error;
    snprintf(message, sizeof(message), "%s", ctx->message);
    (void)ls__call_listener(&t->listener, &(ls_event){ .kind = LS_EVENT_DATA_ERROR,
                                                       .validation = !trains,
                                                       .epoch = t->epoch,
                                                       .step = t->step,
                                                       .message = message });
    ls_context_clear_error(ctx);
    const ls_status status = trains ? ls__tally_finish(&t->tally) : LS_OK;
    if (status != LS_OK) return failed(status);
    if (t->dir && ls_trainer_save(t) != LS_OK) return LS_TRAINER_ERROR;
    ls__fail(ctx, error, "%s", message);
    return LS_TRAINER_DATA_ERROR;
}

/* With the moving averages of the weights, if the optimizer has them. */
static ls_trainer_end validate(ls_trainer *t, ls__sums *out)
{
    const ls_evaluate_config config = { .stop = t->config.stop,
                                        .on_event = t->config.on_event,
                                        .user = t->config.user,
                                        .evaluation = t->evaluation };
    if (ls__optimizer_swap_ema(t->optimizer) != LS_OK) return LS_TRAINER_ERROR;
    const ls_trainer_end end = ls__evaluate(t->net, t->config.validation, &config, t->epoch, out);
    if (end == LS_TRAINER_ERROR) ls__ranks_give_up(t->owned.ctx);
    return ls__optimizer_swap_ema(t->optimizer) == LS_OK ? end : LS_TRAINER_ERROR;
}

static ls_trainer_end train_epochs(ls_trainer *t)
{
    while (t->epoch < t->config.epochs && !is_stale(t)) {
        ls__sums val = { 0 };
        ls_trainer_end end = train_epoch(t);
        const double begun = ls__now_seconds();
        if (end == LS_TRAINER_DONE && t->config.validation) end = validate(t, &val);
        if (end == LS_TRAINER_DONE && finish_epoch(t, &val, ls__now_seconds() - begun) != LS_OK) {
            ls__ranks_give_up(t->owned.ctx);
            return LS_TRAINER_ERROR;
        }
        if (end != LS_TRAINER_DONE) return end;
    }
    return is_stale(t) ? LS_TRAINER_EARLY_STOP : LS_TRAINER_DONE;
}

/* For the run, so that a callback can't use them. */
static ls_status take_loaders(const ls_trainer *t)
{
    LS_TRY(ls__loader_take(t->loader, run_call));
    if (!t->config.validation || t->config.validation == t->loader) return LS_OK;
    const ls_status status = ls__loader_take(t->config.validation, run_call);
    if (status != LS_OK) ls__loader_give_back(t->loader);
    return status;
}

static void give_loaders_back(const ls_trainer *t)
{
    ls__loader_give_back(t->loader);
    if (t->config.validation) ls__loader_give_back(t->config.validation);
}

static ls_trainer_end run(ls_trainer *t)
{
    if (t->dir && !t->is_saved && ls_trainer_save(t) != LS_OK) return LS_TRAINER_ERROR;
    if (begin_watch(t) != LS_OK) return LS_TRAINER_ERROR;
    ls_trainer_end end = train_epochs(t);
    if (end == LS_TRAINER_DATA_ERROR) end = stop_at_bad_data(t);
    const bool is_resumable = end == LS_TRAINER_INTERRUPTED || end == LS_TRAINER_MAX_STEPS;
    return is_resumable && t->dir && ls_trainer_save(t) != LS_OK ? LS_TRAINER_ERROR : end;
}

ls_status ls_trainer_run(ls_trainer *t, ls_trainer_end *out)
{
    LS__DEFAULT_FLOATS;
    if (out) *out = LS_TRAINER_ERROR;
    if (!t) return LS_ERR_EARLIER;
    ls_context *ctx = t->owned.ctx;
    LS__ENTER(ctx);
    LS_TRY(take_loaders(t));
    ls__use(&t->owned); /* a callback may close it */
    const ls_trainer_end end = run(t);
    give_loaders_back(t);
    if (out) *out = end;
    ls__release(&t->owned);
    return ctx->error;
}
