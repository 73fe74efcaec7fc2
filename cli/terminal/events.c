/* events.c: see events.h. */
#include "terminal/events.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void make_title(run_report *r, const char *what, int64_t epoch)
{
    if (r->epochs == 0)
        snprintf(r->title, TITLE_SIZE, "%s", command_name);
    else
        snprintf(r->title, TITLE_SIZE, "%s %lld/%lld", what, (long long)epoch + 1,
                 (long long)r->epochs);
}

static void begin_pass(run_report *r, const ls_event *e)
{
    make_title(r, e->validation ? "val" : "epoch", e->epoch);
    progress_begin(&r->progress, r->title, e->validation ? WORK_EVALUATE : WORK_TRAIN, e->step,
                   e->step_count);
}

/* Samples with targets have no classes, so there is no accuracy. */
static bool has_top1(const run_report *r)
{
    return ls_dataset_class_count(r->train_data ? r->train_data : r->val_data) > 0;
}

static void print_epoch(run_report *r, const ls_event *e)
{
    if (print_is_quiet()) return;
    char time[DURATION_SIZE], loss[LOSS_SIZE];
    const ls_averages *train = &e->averages, *val = &e->validation_averages;
    field_line line = begin_fields(stdout);
    make_title(r, "epoch", e->epoch);
    duration(e->seconds + e->validation_seconds, time);
    print_field(&line, "%s", r->title);
    const bool by_class = has_top1(r);
    loss_text(train->loss, !by_class, loss);
    print_field(&line, by_class ? "train loss %s top-1 %.4f" : "train loss %s", loss, train->top1);
    loss_text(val->loss, !by_class, loss);
    if (r->val_data)
        print_field(&line, by_class ? "val loss %s top-1 %.4f" : "val loss %s", loss, val->top1);
    if (strcmp(e->metric, "loss") != 0 && strcmp(e->metric, "top1") != 0)
        print_field(&line, "%s %s %.4f", r->val_data ? "val" : "train", e->metric, e->metric_value);
    print_field(&line, "%.0f images/s", (double)train->n_images / e->seconds);
    print_field(&line, "data wait %.0f%%", 100 * e->wait_seconds / e->seconds);
    print_field(&line, "time %s", time);
    if (e->is_best) print_field(&line, "best");
    end_fields(&line);
}

static void print_skipped(const run_report *r, const ls_event *e)
{
    const int64_t done = e->epoch * r->progress.n_steps + e->step;
    progress_clear(&r->progress);
    print_warning(
        "step %lld: the last %lld updates were all skipped: gradients overflow f16 even with a "
        "loss scale of %g, so the weights do not change; --precision bf16 has a larger range",
        (long long)done, (long long)e->n_updates, e->loss_scale);
}

static void print_best_lost(const run_report *r, const ls_event *e)
{
    print_warning("%s/best.safetensors, the weights after epoch %lld, %s%s; it is "
                  "rewritten after the next better epoch",
                  r->dir, (long long)e->best_epoch, e->message ? "can't be used: " : "is missing",
                  e->message ? ls_plain_message(e->message) : "");
}

static void print_nonfinite(const run_report *r, const ls_event *e)
{
    const ls_dataset *data = e->validation ? r->val_data : r->train_data;
    const char *loss = isnan(e->loss) ? "nan" : e->loss > 0 ? "inf" : "-inf"; /* no "-nan" */
    const long long epoch = e->epoch + 1, step = e->step + 1;
    if (e->validation)
        print_message("the loss is %s in validation, batch %lld; its images:", loss, step);
    else
        print_message("the loss is %s at epoch %lld, step %lld; the batch's images:", loss, epoch,
                      step);
    for (int i = 0; i < e->n_samples; i++)
        print_text(stderr, "  %s\n", ls_dataset_sample_path(data, e->samples[i]));
    if (e->batch_size > e->n_samples)
        print_text(stderr, "  and %lld more\n", (long long)e->batch_size - e->n_samples);
    if (r->epochs > 0) print_message("a smaller --lr or --clip-grad-norm may help");
}

/* Sets the exit status in ranks other than 0, without printing. */
static void note_event(run_report *r, const ls_event *e)
{
    if (e->kind != LS_EVENT_DATA_ERROR) return;
    set_print_mute(MUTE_ALL);
    r->data_exit_status = print_loader_error(r->ctx, NULL);
    set_print_mute(MUTE_ALL_BUT_ERRORS);
}

ls_status report_event(void *user, const ls_event *e)
{
    run_report *r = user;
    if (r->ctx && ls_context_rank(r->ctx) > 0) return note_event(r, e), LS_OK;
    char pass[TITLE_SIZE];
    switch (e->kind) {
    case LS_EVENT_PASS_BEGIN: begin_pass(r, e); break;
    case LS_EVENT_STEP:
        progress_step(&r->progress, e->batch->n, e->wait_seconds, e->averages.loss,
                      has_top1(r) ? e->averages.top1 : -1);
        break;
    case LS_EVENT_PASS_END: progress_clear(&r->progress); break;
    case LS_EVENT_EPOCH: print_epoch(r, e); break;
    case LS_EVENT_SKIPPED_UPDATES: print_skipped(r, e); break;
    case LS_EVENT_BEST_LOST: print_best_lost(r, e); break;
    case LS_EVENT_NONFINITE: print_nonfinite(r, e); break;
    case LS_EVENT_DATA_ERROR:
        snprintf(pass, sizeof(pass), "epoch %lld, %s", (long long)e->epoch + 1,
                 e->validation ? "validation batch" : "step");
        r->data_exit_status = print_loader_error(r->ctx, pass);
        break;
    case LS_EVENT_SAVED: break;
    }
    return LS_OK;
}

bool report_count(void *user, int64_t n_done, int64_t n)
{
    progress_count(user, n_done, n);
    return caught_signal == 0;
}

void report_bad_images(const ls_loader *loader, const ls_dataset *dataset, int64_t max)
{
    const int64_t n = ls_loader_statistics(loader).n_bad;
    if (n > max) print_warning("%lld unreadable images replaced, among them:", (long long)n);
    for (int64_t i = 0; i < n && i < max; i++) {
        const char *reason;
        const int64_t sample = ls_loader_bad_sample(loader, i, &reason);
        print_warning("unreadable image replaced: %s: %s", ls_dataset_sample_path(dataset, sample),
                      reason);
    }
}
