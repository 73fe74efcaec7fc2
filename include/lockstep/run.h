/* run.h: runs. A run trains a model on images, with all that the command 'lockstep train' does, and
 * writes the same folder but for log.txt, which the command reads as one of its own.
 *
 *     const char *const settings[] = { "data-dir=photos", "model=resnet18", "epochs=30", NULL };
 *     ls_run *run = ls_run_open("run", &(ls_run_config){ .settings = settings });
 *     if (ls_run_train(run, NULL) != LS_OK)
 *         fprintf(stderr, "%s\n", ls_context_message(ls_run_context(run)));
 *     ls_run_close(&run);
 */
#ifndef LOCKSTEP_RUN_H
#define LOCKSTEP_RUN_H

#include <lockstep/checkpoint.h>
#include <lockstep/dataset_path.h>
#include <lockstep/lr_find.h>
#include <lockstep/settings.h>
#include <lockstep/trainer.h>

LS_BEGIN_DECLARATIONS

/* ---- Settings ---- */

/* Settings are the options of 'lockstep train' but out and resume, by the same names, and are
 * written "name=value": "batch-size=64", "val-split=0.2". A switch may be written without a value:
 * "nesterov". The command's --help-all describes all of them, with their ranges and defaults. A
 * setting that is not given has a default, which may depend on others. Errors about settings are
 * LS_ERR_SETTING; their messages write a setting as the command's option, --batch-size. */

/* The table of the settings of a run. Its offsets are those of values inside the library; programs
 * read values by ls_run_number and ls_run_text. */
LS_API const ls_setting *ls_run_settings(void);

/* ---- Runs ---- */

typedef struct ls_run ls_run;

/* What ls_run_open opens. */
typedef enum ls_run_extent {
    LS_RUN_WHOLE,
    LS_RUN_TRAINING, /* without validation images: they are left out of training, but not opened */
    LS_RUN_IMAGES    /* the datasets alone: no loaders, no net, no optimizer */
} ls_run_extent;

/* How far ls_run_open, ls_run_resume and ls_run_train have come. */
typedef enum ls_run_stage {
    LS_RUN_SETTLED,   /* all settings have their values; nothing else is open, and ls_run_context is
                         valid during the call only */
    LS_RUN_CONNECTED, /* the context is open, and the ranks are connected */
    LS_RUN_STARTED    /* the folder and the trainer are open: the first step follows */
} ls_run_stage;

typedef struct ls_run_config {
    const char *const *settings; /* ends with NULL; NULL = none. Copied */
    /* Settings that a command line and a file gave, in place of `settings`. Only the settings of
     * its table count: a preset sets no others. Must remain until the run is closed. */
    const ls_given *given;
    ls_run_extent extent; /* of ls_run_open; only a whole run can be trained */
    /* The program's own model, in place of the setting "model"; NULL = the bundled one of that
     * name. Required are its `name`, which no bundled model has, its `function`, whose options are
     * an ls_model_options, its `image_size`, and dropout = -1 unless it has dropout. Must remain
     * until the run is closed. Checkpoints name it by its `name`, so only a program that has it can
     * resume the run; 'lockstep eval' and 'predict' refuse it, 'report' and 'compare' do not. */
    const ls_model *model;
    bool one_process; /* even if mpirun or srun started this process as one of several, which else
                         train together (communicator of ls_context_config) */
    ls_log_fn log;    /* as in ls_context_config */
    void *log_user;
    const volatile sig_atomic_t *stop; /* the run saves and ends if *stop is not 0; may be NULL */
    ls_event_fn on_event;              /* may be NULL */
    void (*on_stage)(void *user, ls_run *run, ls_run_stage stage); /* may be NULL */
    void *user;
    LS_RESERVED(8);
} ls_run_config;

/* Opens a new run: reads the settings, of which data-dir is required, and opens a context, the
 * datasets, loaders, net, optimizer and schedule. Writes nothing yet. dir: the run's folder, which
 * must be new, empty, or hold a run without a step; NULL or "" = run, or run-2, run-3 and so on.
 * Returns NULL only if memory is short. After another error the context of the run has it, and the
 * run can only be closed:
 *
 *   LS_ERR_SETTING   a setting that is unknown, out of its range, without an effect beside the
 *                    others, or does not fit the images; a folder that can't be used
 *   LS_ERR_INVALID   an unusable `model` or `extent`
 *   others           those of ls_context_open, of the images, of ls_net_build, ls_net_load_weights,
 *                    ls_algorithm_cache_load and of the optimizer */
LS_API ls_run *ls_run_open(const char *dir, const ls_run_config *config);

/* Opens the run in the folder `dir`, or that of the checkpoint `dir`, which resumes where it was
 * saved. The settings are those of the run; given ones must be equal to them, unless they are
 * `execution` or `lasting`. Errors are those of ls_run_open; LS_ERR_NOT_FOUND for a folder without
 * a run; those of ls_checkpoint_load, when it is trained. */
LS_API ls_run *ls_run_resume(const char *dir, const ls_run_config *config);

/* Makes or locks the run's folder at the first call, and trains to the run's end or until *stop is
 * not 0; a further call continues. A new run warns first of what is possible but hardly intended,
 * such as a batch as large as the dataset. end: how it ended, LS_TRAINER_ERROR if it did not begin;
 * may be NULL. Returns the context's error, if it has one; else those of ls_trainer_open and
 * ls_trainer_run; LS_ERR_MEMORY for NULL. A start that fails leaves no new folder, and can't be
 * tried again. With several ranks (context.h) all of them open and train the run. */
LS_API ls_status ls_run_train(ls_run *run, ls_trainer_end *end);

/* The range test of lr_find.h with the parts of a run of LS_RUN_TRAINING. Makes the run's folder,
 * lr-find, lr-find-2 and so on where it has no name, for ls_lr_curve_save. NULL with the error. */
LS_API ls_lr_curve *ls_run_find_lr(ls_run *run, const ls_lr_find_config *config);

/* Closes the run with its context and all that belongs to it. */
LS_API void ls_run_close(ls_run **run);

/* Whether the run could not be opened because of its images, not of the process or a setting. */
LS_API bool ls_run_failed_in_data(const ls_run *run);

/* ---- The values of its settings, given or not, after LS_RUN_SETTLED; `run` may be NULL ---- */

/* A number; 1 or 0 for a switch; the number of a choice among the words, from 0; the height of a
 * size; 0 for a text, an unknown name or without a run. */
LS_API double ls_run_number(const ls_run *run, const char *name);
/* A text, or the word of a choice; NULL if it is not set, for other kinds and unknown names. Valid
 * as long as `run`. */
LS_API const char *ls_run_text(const ls_run *run, const char *name);
/* The i-th value that the setting `recipe` has set, from 0; "" for a switch. False past the last.
 * The texts are static. */
LS_API bool ls_run_preset_at(const ls_run *run, int i, const char **name, const char **value);
/* Whether a resumed run may have more epochs: its learning rates do not depend on their number. */
LS_API bool ls_run_can_be_extended(const ls_run *run);

/* ---- The run's parts, which it closes; NULL where there is none. `run` may be NULL. ----
 * Between ls_run_open and ls_run_train a program may change them: freeze parameters, load weights,
 * set hyperparameters. */

/* Keeps the error and the warnings. */
LS_API ls_context *ls_run_context(const ls_run *run);
/* The run's folder; "" before a folder without a given name is made. Valid as long as `run`. */
LS_API const char *ls_run_dir(const ls_run *run);
LS_API ls_net *ls_run_net(const ls_run *run);
LS_API ls_optimizer *ls_run_optimizer(const ls_run *run);
LS_API ls_schedule *ls_run_schedule(const ls_run *run);
LS_API ls_dataset *ls_run_train_dataset(const ls_run *run);
LS_API ls_dataset *ls_run_validation_dataset(const ls_run *run);
/* The path below data-dir of the images for training or validation, "train"; "" where that is
 * data-dir itself, or they are divided by a column, a pattern or val-split. Valid as long as `run`.
 */
LS_API const char *ls_run_split_name(const ls_run *run, ls_split split);
/* How its training loader is opened, for programs that open one of their own. */
LS_API ls_loader_config ls_run_train_loader_config(const ls_run *run);
LS_API ls_loader *ls_run_train_loader(const ls_run *run);
LS_API ls_loader *ls_run_validation_loader(const ls_run *run);
/* What the setting `weights` has loaded; NULL in a resumed run, too. */
LS_API const ls_weight_report *ls_run_weight_report(const ls_run *run);
/* Only after ls_run_train began. */
LS_API ls_trainer *ls_run_trainer(const ls_run *run);

/* ---- The command ---- */

/* Exit statuses of the command, which sweeps and experiments read from the runs that they start.
 * That of a signal is LS_EXIT_SIGNAL + its number. */
enum {
    LS_EXIT_DONE = 0,
    LS_EXIT_RUNTIME = 1,   /* anything but the following */
    LS_EXIT_USAGE = 2,     /* the command line */
    LS_EXIT_DATA = 3,      /* the images */
    LS_EXIT_NONFINITE = 4, /* the loss became infinite or not a number */
    LS_EXIT_SIGNAL = 128
};

/* ---- Comparison ---- */

typedef enum ls_run_verdict {
    LS_RUNS_IDENTICAL, /* in all common steps, of which there is one or more */
    LS_RUNS_DIFFERENT, /* of one identity, so that they should be identical */
    LS_RUNS_NOT_COMPARABLE
} ls_run_verdict;

typedef struct ls_run_compare_config {
    const char *data_dir;      /* where the dataset of both is now; NULL = as stored in each */
    const ls_model *models[2]; /* a program's own models of the two runs (ls_run_config.model); NULL
                                  = a bundled one */
    LS_RESERVED(8);
} ls_run_compare_config;

/* Compares two folders of runs, of ls_run_train, the command or a trainer: the identities, then the
 * digests of each step. Replays, in both runs and op by op, the first step that differs, from the
 * latest checkpoint at or before it, where both nets can be built: not those of a trainer of a
 * program. config NULL = all defaults. verdict and report may be NULL. *report: the text of JSON
 * that 'lockstep compare --json' prints, which the caller frees by free(); NULL if the folders
 * can't be read. An error of the replay leaves the report as it was before, and the verdict
 * NOT_COMPARABLE. Writes nothing. */
LS_API ls_status ls_run_compare(ls_context *ctx, const char *a, const char *b,
                                const ls_run_compare_config *config, ls_run_verdict *verdict,
                                char **report);

/* ---- Files of runs ---- */

/* The file of weights that a path stands for: of a run's folder its best.safetensors, else its
 * last.safetensors; another path stands for itself. Writes it to `out`. False if the path is a
 * folder without both files, which `out` then names, or is longer than `size`. */
LS_API bool ls_run_find_weights(const char *path, char *out, size_t size);

/* Whether the path is that of a file that a run writes, in the folder of a run, so that a program
 * must not write to it. */
LS_API bool ls_run_names_file(const char *path);

LS_END_DECLARATIONS

#endif
