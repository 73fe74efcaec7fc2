/* trainer.h: the training loop: epochs, validation, metrics, checkpoints, and where it can stop. */
#ifndef LS_CLI_TRAINER_H
#define LS_CLI_TRAINER_H

#include "evaluate.h"
#include "recipe.h"
#include "run/metrics.h"

typedef struct trainer {
    const cli_verb *verb;
    const recipe *recipe;
    const char *dir; /* the run's folder */
    const volatile sig_atomic_t *signal;
    ls_context *ctx;
    ls_dataset *train_data, *val_data; /* val_data and val are NULL without validation */
    ls_loader *train, *val;
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    ls__metrics *metrics;
    model_card card;
    progress progress;

    /* Where the run is. */
    int64_t epoch, step; /* the next step; step = the epoch's steps when validation is next */
    double best;         /* of the metric by which best.safetensors is chosen; below 0 = none yet */
    sums sums;           /* of the epoch's steps so far */
    double seconds;      /* they took */
    double wait_seconds; /* of that, waiting for data */
} trainer;

/* Restores net, optimizer, schedule and position from DIR/last.safetensors; before metrics are
 * opened. On failure prints why and returns false. */
bool trainer_resume(trainer *t);

/* From where the run is to its end. A signal ends it too, after a save. */
outcome trainer_run(trainer *t);

#endif
