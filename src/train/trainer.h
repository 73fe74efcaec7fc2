/* trainer.h: the trainer's state, shared by its files. */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include "base/context.h"
#include "log/metrics.h"
#include "train/deciding_metric.h"
#include "train/evaluate.h"
#include "train/event_log.h"
#include "checkpoint/model_info.h"
#include "train/skipped_updates.h"

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
