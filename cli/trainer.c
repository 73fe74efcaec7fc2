/* trainer.c: the training loop; see trainer.h. */
#include "progress_line.h"
#include "trainer.h"
#include <stdio.h>
#include <unistd.h>

enum {
    TITLE_SIZE = 64,
    MOST_AFTER_ERROR = 5 /* bad images that are listed below the error that ends a run */
};

int64_t trainer_steps_done(const trainer *t)
{
    return t->epoch * ls_loader_step_count(t->train) + t->step;
}

static void title(const trainer *t, const char *what, char out[TITLE_SIZE])
{
    snprintf(out, TITLE_SIZE, "%s %lld/%lld", what, (long long)t->epoch + 1,
             (long long)t->recipe->epochs);
}

/* Whether --steps or --stop-at ends the run in the middle of an epoch. */
static bool is_halted(const trainer *t)
{
    const recipe *r = t->recipe;
    const int64_t done = trainer_steps_done(t);
    return t->step < ls_loader_step_count(t->train) &&
           ((r->steps > 0 && done >= r->steps) || (r->stop_at > 0 && done >= r->stop_at));
}

/* The end of an epoch saves anyway. */
static bool is_checkpoint_due(const trainer *t)
{
    const int64_t every = t->recipe->checkpoint_every;
    return every > 0 && trainer_steps_done(t) % every == 0 &&
           t->step < ls_loader_step_count(t->train);
}

/* Looked at from time to time, since it waits for the device. */
static ls_status watch_skipped(trainer *t)
{
    const int64_t done = trainer_steps_done(t);
    double scale;
    int64_t skipped;
    if (t->recipe->precision != LS_PRECISION_F16 || done % HOPELESS_UPDATES != 0) return LS_OK;
    LS_TRY(ls_net_loss_scale(t->net, &scale, &skipped));
    if (!skipped_updates_look(&t->skipped, done, skipped)) return LS_OK;
    progress_clear(&t->progress);
    print_text(stderr,
               "lockstep %s: warning: step %lld: the last %lld updates were all skipped: gradients "
               "overflow f16 even with a loss scale of %g, and the weights stay as they are; "
               "--precision bf16 has more range\n",
               t->verb->name, (long long)done, (long long)(done - t->skipped.steps), scale);
    return LS_OK;
}

/* From where the run begins or goes on. */
static ls_status begin_watch(trainer *t)
{
    if (t->recipe->precision != LS_PRECISION_F16) return LS_OK;
    t->skipped = (skipped_updates){ .steps = trainer_steps_done(t) };
    return ls_net_loss_scale(t->net, NULL, &t->skipped.skipped);
}

static outcome train_step(trainer *t, const ls_batch *batch)
{
    const double lr = ls_schedule_lr(t->schedule, t->epoch, batch->step);
    if (ls_net_step(t->net, t->optimizer, batch, lr) != LS_OK ||
        ls_run_log_step(t->record, t->net, batch) != LS_OK)
        return OUTCOME_ERROR;
    const outcome end = tally_add(&t->tally, batch);
    if (end != OUTCOME_DONE) return end;
    t->step = batch->step + 1;
    if (watch_skipped(t) != LS_OK) return OUTCOME_ERROR;
    return is_halted(t) ? OUTCOME_HALTED : OUTCOME_DONE;
}

/* A checkpoint's sums are those of all its steps. */
static outcome save_in_epoch(trainer *t)
{
    const outcome end = tally_finish(&t->tally);
    return end == OUTCOME_DONE && trainer_save(t) != LS_OK ? OUTCOME_ERROR : end;
}

static outcome train_epoch(trainer *t)
{
    char text[TITLE_SIZE];
    t->tally = (tally){ .net = t->net, .dataset = t->train_data, .sums = &t->sums, .trains = true };
    title(t, "epoch", text);
    if (ls_loader_start_at(t->train, t->epoch, t->step) != LS_OK) return OUTCOME_ERROR;
    progress_begin(&t->progress, text, WORK_TRAIN, t->step, ls_loader_step_count(t->train));
    /* as if the part of the epoch that was done before had been done just now */
    const double begun = clock_seconds() - t->seconds, waited_before = t->wait_seconds;
    const double waited = ls_loader_statistics(t->train).wait_seconds - waited_before;
    outcome end = is_halted(t) ? OUTCOME_HALTED : OUTCOME_DONE;
    ls_batch batch;
    while (end == OUTCOME_DONE && !*t->signal && ls_loader_next(t->train, &batch)) {
        end = train_step(t, &batch);
        t->seconds = clock_seconds() - begun;
        t->wait_seconds = ls_loader_statistics(t->train).wait_seconds - waited;
        const double n = t->sums.n_images > 0 ? (double)t->sums.n_images : 1;
        progress_step(&t->progress, batch.n, t->wait_seconds - waited_before, t->sums.loss / n,
                      t->sums.top1 / n);
        if (end == OUTCOME_DONE && is_checkpoint_due(t)) end = save_in_epoch(t);
    }
    progress_end(&t->progress);
    if (end == OUTCOME_DONE && ls_loader_status(t->train) != LS_OK) end = OUTCOME_DATA;
    if (end == OUTCOME_DONE || end == OUTCOME_HALTED) {
        const outcome last = tally_finish(&t->tally);
        t->seconds = clock_seconds() - begun;
        if (last != OUTCOME_DONE) return last;
    }
    return end == OUTCOME_DONE && *t->signal ? OUTCOME_STOPPED : end;
}

static outcome validate(trainer *t, sums *out)
{
    char text[TITLE_SIZE];
    title(t, "val", text);
    return evaluate(&(evaluation){ .net = t->net,
                                   .dataset = t->val_data,
                                   .loader = t->val,
                                   .progress = &t->progress,
                                   .title = text,
                                   .signal = t->signal },
                    out);
}

/* Images that could not be read, in training and validation. */
static int64_t count_bad(const trainer *t)
{
    return ls_loader_statistics(t->train).n_bad + (t->val ? ls_loader_statistics(t->val).n_bad : 0);
}

static json_t *metrics_row(const trainer *t, const sums *val, double lr, double val_seconds)
{
    const double n = (double)t->sums.n_images;
    json_t *row = json_pack("{s:I, s:f, s:f, s:f}", "epoch", (json_int_t)t->epoch + 1, "lr", lr,
                            "train_loss", t->sums.loss / n, "train_top1", t->sums.top1 / n);
    const bool has_top5 = t->card.options.n_classes > 5;
    if (has_top5) json_object_set_new(row, "train_top5", json_real(t->sums.top5 / n));
    const double m = t->val ? (double)val->n_images : 1;
    json_object_set_new(row, "val_loss", t->val ? json_real(val->loss / m) : json_null());
    json_object_set_new(row, "val_top1", t->val ? json_real(val->top1 / m) : json_null());
    if (has_top5)
        json_object_set_new(row, "val_top5", t->val ? json_real(val->top5 / m) : json_null());
    json_object_set_new(row, "images_per_second", json_real(n / t->seconds));
    json_object_set_new(row, "data_wait", json_real(t->wait_seconds / t->seconds));
    json_object_set_new(row, "seconds", json_real(t->seconds + val_seconds));
    double scale;
    int64_t skipped;
    if (t->recipe->precision == LS_PRECISION_F16 &&
        ls_net_loss_scale(t->net, &scale, &skipped) == LS_OK) {
        json_object_set_new(row, "loss_scale", json_real(scale));
        json_object_set_new(row, "skipped_updates", json_integer(skipped));
    }
    if (json_object_set_new(row, "bad_images", json_integer(count_bad(t))) == 0) return row;
    json_decref(row);
    return NULL;
}

/* seconds: of training and validation. */
static void tell_epoch(const trainer *t, const sums *val, double seconds, bool is_best)
{
    enum { MAX_FIELDS = 7, FIELD_SIZE = 96 };
    char texts[MAX_FIELDS][FIELD_SIZE], time[DURATION_SIZE];
    const char *fields[MAX_FIELDS];
    const double n = (double)t->sums.n_images, n_val = (double)val->n_images;
    int used = 0;
    title(t, "epoch", texts[used++]);
    snprintf(texts[used++], FIELD_SIZE, "train loss %.4f top-1 %.4f", t->sums.loss / n,
             t->sums.top1 / n);
    if (t->val)
        snprintf(texts[used++], FIELD_SIZE, "val loss %.4f top-1 %.4f", val->loss / n_val,
                 val->top1 / n_val);
    snprintf(texts[used++], FIELD_SIZE, "%.0f images/s", n / t->seconds);
    snprintf(texts[used++], FIELD_SIZE, "data wait %.0f%%", 100 * t->wait_seconds / t->seconds);
    duration(seconds, time);
    snprintf(texts[used++], FIELD_SIZE, "time %s", time);
    if (is_best) snprintf(texts[used++], FIELD_SIZE, "best");
    for (int i = 0; i < used; i++) fields[i] = texts[i];
    print_fields(stdout, terminal_columns(STDOUT_FILENO), used, fields);
    fflush(stdout);
}

/* Metrics first, then best, then last: whatever a kill leaves out is made again, the same, by the
 * resumed run. */
static ls_status finish_epoch(trainer *t, const sums *val, double val_seconds)
{
    const double n = (double)t->sums.n_images;
    const double metric = t->val ? val->top1 / (double)val->n_images : t->sums.top1 / n;
    const double lr = ls_schedule_lr(t->schedule, t->epoch, t->step - 1);
    const bool is_best = metric > t->best;
    LS_TRY(ls__metrics_append(t->metrics, metrics_row(t, val, lr, val_seconds)));
    tell_epoch(t, val, t->seconds + val_seconds, is_best);
    LS_TRY(ls_schedule_report(t->schedule, metric));
    t->epoch++;
    t->step = 0;
    t->sums = (sums){ 0 };
    t->seconds = t->wait_seconds = 0;
    if (is_best) {
        t->best = metric;
        t->best_epoch = t->epoch;
        LS_TRY(trainer_save_best(t));
    }
    return trainer_save(t);
}

/* The images that were replaced by others, at most `most` of them. */
static void tell_bad(const ls_loader *loader, const ls_dataset *dataset, int64_t most)
{
    const int64_t n = ls_loader_statistics(loader).n_bad;
    if (n > most)
        print_text(stderr, "lockstep: warning: left out: %lld images, among them:\n", (long long)n);
    for (int64_t i = 0; i < n && i < most; i++) {
        const char *reason;
        const int64_t sample = ls_loader_bad_sample(loader, i, &reason);
        print_text(stderr, "lockstep: warning: left out: %s: %s\n",
                   ls_dataset_sample_path(dataset, sample), reason);
    }
}

bool trainer_is_stale(const trainer *t)
{
    const int64_t patience = t->recipe->patience;
    return patience > 0 && t->epoch - t->best_epoch >= patience;
}

/* Prints the error of a loader and saves the steps before it. */
static outcome stop_at_bad_image(trainer *t)
{
    char pass[TITLE_SIZE];
    const bool trains = t->step < ls_loader_step_count(t->train);
    snprintf(pass, sizeof(pass), "epoch %lld, %s", (long long)t->epoch + 1,
             trains ? "step" : "validation batch");
    t->data_answer = print_loader_error(t->verb, t->ctx, pass);
    const outcome end = trains ? tally_finish(&t->tally) : OUTCOME_DONE;
    if (end != OUTCOME_DONE) return end;
    return trainer_save(t) == LS_OK ? OUTCOME_DATA : OUTCOME_ERROR;
}

outcome trainer_run(trainer *t)
{
    const int64_t done = trainer_steps_done(t);
    int64_t last = t->recipe->epochs * ls_loader_step_count(t->train);
    if (t->recipe->steps > 0 && t->recipe->steps < last) last = t->recipe->steps;
    if (t->recipe->stop_at > 0 && t->recipe->stop_at < last) last = t->recipe->stop_at;
    const int64_t epochs_left = last / ls_loader_step_count(t->train) - t->epoch;
    progress_open(&t->progress, last > done ? last - done : 0,
                  t->val && epochs_left > 0 ? epochs_left * ls_loader_step_count(t->val) : 0);
    outcome end = begin_watch(t) == LS_OK ? OUTCOME_DONE : OUTCOME_ERROR;
    while (end == OUTCOME_DONE && t->epoch < t->recipe->epochs && !trainer_is_stale(t)) {
        sums val = { 0 };
        end = train_epoch(t);
        const double begun = clock_seconds();
        if (end == OUTCOME_DONE && t->val) end = validate(t, &val);
        if (end == OUTCOME_DONE && finish_epoch(t, &val, clock_seconds() - begun) != LS_OK)
            end = OUTCOME_ERROR;
    }
    if (end == OUTCOME_DATA) end = stop_at_bad_image(t);
    const bool to_continue = end == OUTCOME_STOPPED || end == OUTCOME_HALTED;
    if (to_continue && trainer_save(t) != LS_OK) end = OUTCOME_ERROR;
    if (t->recipe->on_bad_image != LS_BAD_IMAGE_FAIL) {
        const int64_t most = end == OUTCOME_DATA ? MOST_AFTER_ERROR : INT64_MAX;
        tell_bad(t->train, t->train_data, most);
        if (t->val) tell_bad(t->val, t->val_data, most);
    }
    return end;
}
