/* trainer.h: the trainer's state, shared by its files. */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include "base/context.h"
#include "run/metrics.h"
#include "train/evaluate.h"
#include "train/model_info.h"
#include "train/skipped_updates.h"

struct ls_trainer {
    ls__owned owned;
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    ls_loader *loader;
    ls_trainer_config config; /* dir and model point to copies */
    ls_model_info model;
    ls__listener listener;

    /* Only with a folder. */
    char *dir, *last_path, *best_path; /* of last.safetensors and best.safetensors */
    ls__metrics *metrics;
    ls_run_log *log;
    bool is_saved; /* what last.safetensors holds is this run's */

    /* Where the run is. */
    int64_t epoch, step; /* the next step; step = the epoch's steps when validation is next */
    double best;         /* of the metric by which best.safetensors is chosen; below 0 = none yet */
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

/* The weights alone, as best.safetensors. */
ls_status ls__trainer_save_best(ls_trainer *trainer);
/* For a resumed run: adds the second name of last.safetensors, if the run was killed before it
 * could. */
ls_status ls__trainer_keep(ls_trainer *trainer);

#endif
