/* run_state.h: a run: its settings, the objects that are made from them, and its folder. */
#ifndef LS_RUN_RUN_STATE_H
#define LS_RUN_RUN_STATE_H

#include "run/settings.h"
#include <lockstep/run.h>

/* Sizes of the name of a run's folder, and of a file in it. */
enum { LS__RUN_DIR_SIZE = 4000, LS__RUN_PATH_SIZE = LS__RUN_DIR_SIZE + 64 };

struct ls_run {
    const ls__run_settings *settings;
    const ls_model *model; /* a program's own; NULL: the bundled one of the settings */
    char dir[LS__RUN_DIR_SIZE];
    ls_run_extent extent;
    json_t *computed; /* what ls__settings_computed gives for a new run */
    json_t *stored;   /* the config.json of a resumed run; else NULL */

    /* What ls__run_open_objects opens, but for ctx. */
    ls_context *ctx;
    ls_dataset *train_data, *val_data; /* val_data and val are NULL without validation */
    ls_loader *train, *val;
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    const char **classes; /* info.classes */
    ls_model_info info;
    ls_weight_report *weights;   /* of --weights in a new run, else NULL */
    bool writes_algorithm_cache; /* to the file of --algorithm-cache */
    bool failed_in_data;         /* the error is one of the images */

    /* Of a run that trains: ls__run_start. */
    json_t *manifest, *forced; /* forced: the differences that --force allowed */
    json_t *changed;           /* what ls__settings_changed gives for a resumed run; else NULL */
    ls_trainer *trainer;
    const volatile sig_atomic_t *stop; /* as in ls_trainer_config */
    ls_event_fn on_event;
    void (*on_stage)(void *user, ls_run *run, ls_run_stage stage);
    void *user;

    /* Of a run that a program opened; `settings` are then the values. */
    bool can_start; /* it is open, and no start has failed */
    ls__run_settings values;
    ls_given given;        /* of the table, or of own_table */
    ls_setting *own_table; /* the rows of the table that ls_run_config.given has; else NULL */
    char **texts; /* the settings as given, from which the values are borrowed; ends with NULL */
    char *words[LS_MAX_SETTINGS]; /* of the values of choices, for ls_run_text */
    char split_names[LS_N_SPLITS][LS__FOLDER_NAME_SIZE];
};

/* The configuration of the run's context, without ranks and a log. */
ls_context_config ls__run_context_config(const ls__run_settings *r);

/* LS_ERR_SETTING unless the run can have as many ranks as the launcher started processes. */
ls_status ls__run_check_launch(ls_context *ctx, const ls__run_settings *r, bool resumed);

/* LS_ERR_MISMATCH unless the ranks have the same values of the settings by which they would wait
 * for each other; those of a run's identity are compared with it. All ranks call it. */
ls_status ls__run_check_ranks(ls_context *ctx, const ls__run_settings *r);

/* Opens the objects of a run. settings, dir and ctx must be set. resumed: with the kernel
 * selections of DIR/last.safetensors. The caller must call ls__run_release in any case. */
ls_status ls__run_open_objects(ls_run *t, bool resumed);
/* Closes them, and the context. */
void ls__run_release(ls_run *t);

/* Opens train_data and val_data and sets the classes, as ls__run_open_objects does. settings and
 * ctx must be set; the caller must call ls__run_release in any case. */
ls_status ls__run_open_datasets(ls_run *t);
/* A batch for few images: a power of two that gives eight steps per epoch or more, or 8, because
 * the statistics of smaller batches are poor, but no more than there are. */
int64_t ls__run_suggest_batch(int64_t n_images);
/* Opens train and val, and completes the model's info. */
ls_status ls__run_open_loaders(ls_run *t);
/* The training images, and with --val-split also the validation images. */
ls_status ls__run_open_train_data(ls_context *ctx, const ls__run_settings *r, ls_dataset **train,
                                  ls_dataset **val);
/* LS_ERR_DATA for images of CSV lists that are missing, unless the others can be trained. */
ls_status ls__run_check_missing(const ls_run *t);

/* Loads the weights of --weights and sets t->weights; ls__run_open_objects does so for a new run.
 */
ls_status ls__run_load_weights(ls_run *t);
/* For ls_checkpoint_load and the run's identity. */
ls_training_state ls__run_state(const ls_run *t);

/* ---- The run's folder: run_start.c ---- */

/* LS_ERR_SETTING unless the new run can have the folder `dir`. */
ls_status ls__run_folder_may_take(const ls_run *t, const char *dir);

/* Reads the config of the run in t->dir into t->stored, and the settings that are not given from
 * it. LS_ERR_SETTING for what can't be changed. */
ls_status ls__run_read_stored(ls_run *t, ls_context *ctx, const ls_given *given,
                              ls__run_settings *r);

/* LS_ERR_NOT_FOUND unless a run that resumes has its last checkpoint. */
ls_status ls__run_check_checkpoint(const ls_run *t);

/* Makes the folder of an opened run with its config, or resumes from its last checkpoint, and opens
 * the trainer. All ranks call it. Without a name in t->dir the run gets a new folder: run, or
 * run-2, run-3 and so on. A run without a step is replaced, also if the start fails then. Otherwise
 * a start that fails leaves no new folder, and changes no file of a run. */
ls_status ls__run_start(ls_run *t);

/* ---- The settings: run_settings.c ---- */

/* Reads config's settings into t->values and t->given, with the table's defaults for others. */
ls_status ls__run_read_settings(ls_run *t, const ls_run_config *config);
/* Keeps the words of the values of choices, for ls_run_text, when all settings have their values.
 */
ls_status ls__run_keep_words(ls_run *t);
/* Whether a command line gave them, so that messages name options that are not settings. */
bool ls__run_is_of_command(const ls_run *t);
/* Frees what they are borrowed from. */
void ls__run_free_settings(ls_run *t);

/* ---- Advice: warnings and notes about a new run that is possible but hardly intended, each with
 * what to do ---- */

/* About an opened run, also those of ls__run_advise_images. */
void ls__run_advise(const ls_run *t);
/* Those about the images alone. Of the run only settings, ctx and train_data must be set. In
 * advice_images.c. */
void ls__run_advise_images(const ls_run *t);

/* ---- Ranks: run_ranks.c ---- */

/* Whether a launcher started this process as rank 0, or as the only one. */
bool ls__ranks_is_first(void);

/* Whether this process can start ranks: mpirun is in PATH, and the module for Open MPI loads. Else
 * LS_ERR_UNSUPPORTED says which is missing. */
ls_status ls__ranks_find_launcher(ls_context *ctx);

#endif
