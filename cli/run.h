/* run.h: what the command opens for a run: its data, net, optimizer, schedule. */
#ifndef LS_CLI_RUN_H
#define LS_CLI_RUN_H

#include "recipe.h"
#include "run/metrics.h"
#include "run/progress.h"

/* Of the name of a run's folder, and of a file in it. */
enum { RUN_DIR_SIZE = 4000, RUN_PATH_SIZE = RUN_DIR_SIZE + 64 };

typedef struct cli_run {
    const cli_verb *verb;
    const recipe *recipe;
    const char *dir; /* the run's folder */

    /* What cli_run_open opens. */
    ls_context *ctx;
    ls_dataset *train_data, *val_data; /* val_data and val are NULL without validation */
    ls_loader *train, *val;
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    const char **classes; /* info.classes */
    ls_model_info info;

    json_t *manifest, *forced; /* of run_files.h; forced: the differences that --force allowed */
    json_t *changed;           /* what options_changed gives for a resumed run; else NULL */
    bool writes_algorithm_cache; /* to the file of --algorithm-cache */
    ls_trainer *trainer;         /* of `lockstep train` */
} cli_run;

/* Opens what a run is made of; verb, recipe and dir are set, all else is zero. resumed: with the
 * kernels that DIR/last.safetensors names. Returns EXIT_DONE, or prints why not and returns the
 * command's answer; cli_run_close is due in any case. */
int cli_run_open(cli_run *t, bool resumed);
void cli_run_close(cli_run *t);

/* For ls_checkpoint_load and the run's identity. */
ls_training_state cli_run_state(const cli_run *t);

/* Warnings about a new run that is possible but hardly intended, on stderr, each with what to do.
 * For an opened run. In advice.c. */
void advise(const cli_run *t);

#endif
