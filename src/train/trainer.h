/* trainer.h: the trainer's state, shared by its files, and its parts. */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include "base/context.h"
#include "log/metrics.h"
#include "train/evaluate.h"
#include "checkpoint/model_info.h"

/* ---- deciding_metric.c: the metric that decides which epoch of a run is the best; see
 * ls_trainer_config.metric ---- */

typedef enum ls__metric_source {
    LS__METRIC_OF_LOSS,
    LS__METRIC_OF_ACCURACY,  /* `index` 0: top-1, 1: top-5 */
    LS__METRIC_OF_NET,       /* ls_averages.metrics[index] */
    LS__METRIC_OF_EVALUATION /* row `index` of the table in deciding_metric.c */
} ls__metric_source;

enum { LS__METRIC_TEXT = 320 };
typedef struct ls__deciding_metric {
    const char *name; /* constant, or the net's */
    ls__metric_source source;
    int index;
    bool minimize; /* the lowest value is the best */
    bool reads_auc;
    char identity[LS__METRIC_TEXT]; /* ls_training_state.metric; "" for the default */
} ls__deciding_metric;

/* Finds config->metric, or the default. Errors are those of ls_trainer_open. */
ls_status ls__deciding_metric_find(const ls_net *net, const ls_trainer_config *config,
                                   ls__deciding_metric *out);
/* The value of an epoch. averages: of validation, or without validation of training. `evaluation`
 * is read if the metric is LS__METRIC_OF_EVALUATION. */
double ls__deciding_metric_value(const ls__deciding_metric *metric, const ls_averages *averages,
                                 const ls_evaluation *evaluation);
/* Whether a value and its loss are better than the best ones. NaN is worse than all numbers. */
bool ls__deciding_metric_is_better(const ls__deciding_metric *metric, double value, double loss,
                                   double best, double best_loss);

/* ---- event_log.c ---- */

/* A run's curves, images and histograms as event files for TensorBoard, one per process that
 * trains: DIR/events.out.tfevents.SECONDS.N. A step of an event is the number of steps that are
 * done. */
typedef struct ls__event_log ls__event_log;

/* A run at its start or, with steps_done > 0, resumed: TensorBoard then drops later steps of the
 * run's older files. The file is created by the first event. */
ls_status ls__event_log_open(ls_context *ctx, const char *dir, const ls_trainer_config *config,
                             int64_t steps_done, ls__event_log **out);
void ls__event_log_close(ls__event_log **log);

/* After each step, its results. Every log_every steps writes the tags step/loss, step/top1 and the
 * net's other metrics, step/lr, and step/images_per_second since the last of these events. */
ls_status ls__event_log_step(ls__event_log *log, int64_t steps_done, const ls_results *results,
                             double lr);
/* Before the first step of a run: the first images of the batch. */
ls_status ls__event_log_batch(ls__event_log *log, const ls_batch *batch);
/* After an epoch, the numbers of its row of metrics: epoch/train_loss and so on; and histograms of
 * the weights and of the gradients of the last step. */
ls_status ls__event_log_epoch(ls__event_log *log, int64_t steps_done, const json_t *row,
                              const ls_net *net);

/* ---- Runs that train nothing, because loss scaling skips every update ---- */

/* Each update that is skipped halves the loss scale: this many in a row reduce it from its maximum,
 * 2^24, to its minimum, 2^-24. */
enum { LS__HOPELESS_UPDATES = 50 };

/* The last check that found an applied update since the check before it. */
typedef struct ls__skipped_updates {
    int64_t updates, skipped; /* at that check */
    bool reported;            /* since that check */
} ls__skipped_updates;

/* The next check. Returns true once for each sequence of LS__HOPELESS_UPDATES or more updates that
 * were all skipped. */
static inline bool ls__skipped_updates_check(ls__skipped_updates *last, int64_t updates,
                                             int64_t skipped)
{
    if (skipped - last->skipped < updates - last->updates) {
        *last = (ls__skipped_updates){ .updates = updates, .skipped = skipped };
        return false;
    }
    if (last->reported || updates - last->updates < LS__HOPELESS_UPDATES) return false;
    last->reported = true;
    return true;
}

/* ---- The trainer ---- */

struct ls_trainer {
    ls__owned owned;
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    ls_loader *loader;
    ls_trainer_config config; /* dir and model point to copies; metric is not used */
    ls_model_info model;
    ls__listener listener;

    /* Only with a folder. */
    char *dir, *last_path, *best_path; /* of last.safetensors and best.safetensors */
    ls__metrics *metrics;
    ls__event_log *events;
    ls_run_log *log;
    ls__owned *lock; /* of the folder; NULL if the context has held it before */
    bool is_saved;   /* last.safetensors is of this run */
    bool has_row;    /* the metrics have the row of the present epoch */

    /* The run's position. */
    bool is_stopped;     /* by config.stop, in any rank */
    int64_t epoch, step; /* the next step; step = the epoch's steps when validation is next */
    bool has_top1;       /* the net has this metric */
    ls__deciding_metric metric;
    ls_evaluation *evaluation; /* of the last validation; NULL if neither the metric nor a report
                                  reads it */
    double best, best_loss;    /* of best.safetensors; only if best_epoch > 0 */
    bool best_is_lost;
    ls__progress progress;
    ls__tally tally; /* adds to progress.sums */
    ls__skipped_updates skipped;
};

static inline int64_t ls__trainer_steps(const ls_trainer *t)
{
    return t->epoch * ls_loader_step_count(t->loader) + t->step;
}

/* For ls_checkpoint_save and _load. */
ls_training_state ls__trainer_training_state(const ls_trainer *trainer);

/* Opens the evaluation of the validation, if something reads it. */
ls_status ls__trainer_open_evaluation(ls_trainer *trainer);
/* The report's files, unless config.no_report. Rank 0 alone writes them. */
/* first_batch.jpg, after the first step of the run. */
ls_status ls__trainer_report_batch(ls_trainer *trainer, const ls_batch *batch);
/* evaluation.json and report.html, after the row of an epoch. */
ls_status ls__trainer_report_epoch(ls_trainer *trainer);

/* The row of metrics of an epoch; n_bad: the unreadable images so far. NULL without memory. */
json_t *ls__trainer_row(const ls_trainer *trainer, const ls_event *epoch, double lr, int64_t n_bad);
/* The weights alone, as best.safetensors. */
ls_status ls__trainer_save_best(ls_trainer *trainer);
/* Gives last.safetensors a second name with the number of its step. Unless is_new, an existing file
 * of that name remains: a resumed run has it, except if a kill prevented that. */
ls_status ls__trainer_keep(ls_trainer *trainer, bool is_new);

#endif
