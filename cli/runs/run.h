/* run.h: the objects of a run: data, loaders, net, optimizer, schedule. */
#ifndef LS_CLI_RUNS_RUN_H
#define LS_CLI_RUNS_RUN_H

#include "options/recipe.h"
#include "log/metrics.h"
#include "checkpoint/progress.h"

/* Of the name of a run's folder, and of a file in it. */
enum { RUN_DIR_SIZE = 4000, RUN_PATH_SIZE = RUN_DIR_SIZE + 64 };

typedef struct cli_run {
    const recipe *recipe;
    const char *dir;  /* the run's folder */
    bool has_ranks;   /* the processes that mpirun started train together */
    bool only_trains; /* the validation data are not opened, but left out as in training */

    /* What cli_run_open opens. */
    ls_context *ctx;
    ls_dataset *train_data, *val_data; /* val_data and val are NULL without validation */
    ls_loader *train, *val;
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    const char **classes; /* info.classes */
    ls_model_info info;
    ls_weight_report *weights; /* of --weights in a new run, else NULL */

    json_t *manifest, *forced;   /* of run_files.h; forced: the differences that --force allowed */
    json_t *changed;             /* what options_changed gives for a resumed run; else NULL */
    const json_t *computed;      /* what options_computed gives for a new run */
    bool writes_algorithm_cache; /* to the file of --algorithm-cache */
    ls_trainer *trainer;         /* of `lockstep train` */
    bool ends_together;          /* with the other ranks, which have the same exit status */
} cli_run;

/* Opens the objects of a run. recipe and dir must be set, the rest zero. resumed: with the
 * kernel selections of DIR/last.safetensors. On failure prints the reason. Returns the exit status.
 * The caller must call cli_run_close in any case. */
int cli_run_open(cli_run *t, bool resumed);
/* Loads the weights of --weights and sets t->weights; cli_run_open does so for a new run. */
int cli_run_load_weights(cli_run *t);
void cli_run_close(cli_run *t);

/* After weights did not fit a net: prints the option that makes weights of other classes, or of
 * another first layer, fit. new_head: how a new last layer is trained. */
void print_weights_hint(const ls_weight_report *report, const char *new_head);

/* The training images, and with --val-split also the validation images. On failure prints the
 * reason. Returns the exit status. */
int cli_run_open_train_data(ls_context *ctx, const recipe *r, ls_dataset **train, ls_dataset **val);

/* Opens train_data and val_data and sets the classes, as cli_run_open does. recipe and ctx must be
 * set. On failure prints the reason. Returns the exit status. */
int cli_run_open_datasets(cli_run *t);

/* For ls_checkpoint_load and the run's identity. */
ls_training_state cli_run_state(const cli_run *t);

/* Warnings about a new run that is possible but hardly intended, on stderr, each with what to do.
 * For an opened run, also those of advise_images. In advice.c. */
void advise(const cli_run *t);
/* Those about the images alone. Of the run only recipe, ctx and train_data must be set. In
 * advice_images.c. */
void advise_images(const cli_run *t);
/* Prints the numbers of images of CSV lists that are missing, if any. Returns whether the others
 * can be trained with these options. In advice.c. */
bool check_missing(const cli_run *t);

#endif
