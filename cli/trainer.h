/* trainer.h: the training loop: epochs, validation, metrics, checkpoints, and where it can stop. */
#ifndef LS_CLI_TRAINER_H
#define LS_CLI_TRAINER_H

#include "evaluate.h"
#include "recipe.h"
#include "run/metrics.h"
#include "skipped_updates.h"

/* Of the name of a run's folder, and of a file in it. */
enum { RUN_DIR_SIZE = 4000, RUN_PATH_SIZE = RUN_DIR_SIZE + 64 };

typedef struct trainer {
    const cli_verb *verb;
    const recipe *recipe;
    const char *dir; /* the run's folder */
    const volatile sig_atomic_t *signal;

    /* What trainer_open opens. */
    ls_context *ctx;
    ls_dataset *train_data, *val_data; /* val_data and val are NULL without validation */
    ls_loader *train, *val;
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    const char **classes; /* card.classes */
    model_card card;

    json_t *manifest, *forced; /* of run_manifest.h; forced: the differences that --force allowed */
    json_t *changed;           /* what options_changed gives for a resumed run; else NULL */
    bool writes_plan;          /* to the file of --plan, unless that is of another machine */
    ls__metrics *metrics;
    ls_run_log *record;
    progress progress;

    /* Where the run is. */
    int64_t epoch, step; /* the next step; step = the epoch's steps when validation is next */
    double best;         /* of the metric by which best.safetensors is chosen; below 0 = none yet */
    int64_t best_epoch;  /* after which it was reached */
    bool best_is_lost;   /* best.safetensors can't be read, and was not written since */
    sums sums;           /* of the epoch's steps so far */
    tally tally;         /* adds to them */
    skipped_updates skipped; /* with loss scaling */
    double seconds;          /* they took */
    double wait_seconds;     /* of that, waiting for data */

    int data_answer; /* after OUTCOME_DATA: the command's answer */
} trainer;

/* Opens what a run is made of; verb, recipe and dir are set, all else is zero. resumed: with the
 * kernels that DIR/last.safetensors names. Returns EXIT_DONE, or prints why not and returns the
 * command's answer; trainer_close is due in any case. */
int trainer_open(trainer *t, bool resumed);
void trainer_close(trainer *t);

/* Over all epochs. */
int64_t trainer_steps_done(const trainer *t);

/* Restores net, optimizer, schedule and position from a checkpoint; before metrics are
 * opened. On failure prints why and returns false. */
bool trainer_resume(trainer *t, const char *path);

/* Writes DIR/last.safetensors, for trainer_resume, and where --keep-checkpoints asks for it the
 * same as DIR/checkpoint-<steps done, 12 digits>.safetensors. */
ls_status trainer_save(trainer *t);
/* For a run that goes on: the second of these names, where it was killed before it could give it.
 */
ls_status trainer_keep(trainer *t);
/* The weights alone, as DIR/best.safetensors. */
ls_status trainer_save_best(trainer *t);

/* Whether as many epochs as --patience says have brought nothing better. */
bool trainer_is_stale(const trainer *t);

/* Sets sums, seconds and wait_seconds from "progress" in a checkpoint's metadata; false when the
 * text, which may be NULL, is none. */
bool trainer_read_sums(const char *text, trainer *t);

/* From where the run is to its end. A signal ends it too, after a save, and so do the options
 * --steps and --stop-at. An image that can't be used ends it after a save with OUTCOME_DATA; its
 * error is printed, and data_answer is set. */
outcome trainer_run(trainer *t);

#endif
