/* trainer.h: the training loop, evaluation, and models rebuilt from their checkpoints.
 *
 *     ls_trainer *trainer = ls_trainer_open(net, optimizer, schedule, loader,
 *         &(ls_trainer_config){ .epochs = 30, .validation = val_loader, .dir = "run" });
 *     LS_TRY(ls_context_status(ctx));
 *     LS_TRY(ls_trainer_run(trainer, NULL));
 *
 * A run that was stopped or killed at any point, and is opened again with `resume`, ends with the
 * same bits as one that never stopped. */
#ifndef LOCKSTEP_TRAINER_H
#define LOCKSTEP_TRAINER_H

#include <lockstep/checkpoint.h>
#include <lockstep/models.h>
#include <lockstep/run_log.h>
#include <signal.h>

LS_BEGIN_DECLARATIONS

/* Averages over images. All are 0 where there is no image yet. */
typedef struct ls_averages {
    double loss;
    double top1, top5; /* fractions; top5 is 0 for 5 classes or fewer */
    int64_t n_images;
} ls_averages;

/* ---- Events, which a run reports to its caller ---- */

typedef enum ls_event_kind {
    LS_EVENT_PASS_BEGIN,      /* before the first step of a pass over a loader */
    LS_EVENT_STEP,            /* after each step of a pass */
    LS_EVENT_PASS_END,        /* after the last step of a pass, also where it failed */
    LS_EVENT_EPOCH,           /* an epoch is done, and its metrics are written */
    LS_EVENT_SAVED,           /* last.safetensors is written */
    LS_EVENT_SKIPPED_UPDATES, /* loss scaling has skipped 50 updates or more in a row */
    LS_EVENT_BEST_LOST,       /* best.safetensors of a resumed run is missing or damaged */
    LS_EVENT_NONFINITE,       /* a loss is infinite or not a number: the run ends */
    LS_EVENT_DATA_ERROR       /* the loader failed: the steps done are saved and the run ends */
} ls_event_kind;

/* A field is 0 if its comment does not name the event's kind. Pointers are valid during the
 * call. */
typedef struct ls_event {
    ls_event_kind kind;
    bool validation;       /* of a pass, NONFINITE, DATA_ERROR: false in training */
    int64_t epoch, step;   /* from 0. PASS_BEGIN: the pass's first step; STEP, NONFINITE: that step;
                              EPOCH: the epoch that is done; else the position of the run */
    int64_t step_count;    /* PASS_BEGIN: steps of a whole pass */
    const ls_batch *batch; /* STEP */
    ls_averages averages;  /* STEP: of the pass so far; EPOCH: of training */
    ls_averages validation_averages; /* EPOCH; n_images 0 without validation */
    double wait_seconds; /* spent waiting for data. STEP: since PASS_BEGIN; EPOCH: in training */
    double seconds;      /* EPOCH: spent in training */
    double validation_seconds; /* EPOCH */
    bool is_best;              /* EPOCH: its weights are written as the best ones */
    double loss;               /* NONFINITE */
    const int64_t *samples;    /* NONFINITE: the first ones of the batch, */
    int n_samples;             /* 8 at most, */
    int64_t batch_size;        /* samples in the batch */
    int64_t n_updates;         /* SKIPPED_UPDATES: number of skipped updates in a row */
    double loss_scale;         /* SKIPPED_UPDATES */
    int64_t best_epoch;        /* BEST_LOST: after which the weights were saved, from 1 */
    const char *message;       /* DATA_ERROR; BEST_LOST: the reason, NULL where it is missing */
} ls_event;

/* Called in the thread of the run. It may read the objects of the run, but must not change them. A
 * status other than LS_OK ends the run with that error. For NONFINITE and DATA_ERROR the returned
 * status is ignored. */
typedef ls_status (*ls_event_fn)(void *user, const ls_event *event);

/* ---- Evaluation ---- */

typedef struct ls_evaluate_config {
    const volatile sig_atomic_t
        *stop;            /* the pass ends after a step if *stop is not 0; may be NULL */
    ls_event_fn on_event; /* PASS_BEGIN, STEP, PASS_END, NONFINITE; may be NULL */
    void *user;
} ls_evaluate_config;

/* One pass over the loader, from its first batch, in evaluation mode. config NULL = all defaults.
 * out: the averages over all images, or, if `stop` ended the pass, over the images until then.
 * Errors: those of the loader and of ls_net_evaluate; LS_ERR_NONFINITE names the first batch whose
 * loss is not finite. */
LS_API ls_status ls_evaluate(ls_net *net, ls_loader *loader, const ls_evaluate_config *config,
                             ls_averages *out);

/* ---- Models of checkpoints ---- */

/* The metadata of a checkpoint of a bundled model. */
typedef struct ls_model_info {
    const ls_model *model;
    ls_resnet_options options; /* n_classes = that of `classes` */
    int64_t image_size;        /* side of the square that the net sees */
    int64_t resize;            /* shorter side before it is cut out, in validation */
    bool honour_exif;
    ls_decode decode;
    float mean[3], std[3];
    const char *const *classes; /* their names; borrowed */
} ls_model_info;

/* A checkpoint whose model can be rebuilt. */
typedef struct ls_saved_model ls_saved_model;

/* Reads the file's metadata about its model. The file must have been saved by `lockstep train`, or
 * by a trainer with ls_trainer_config.model. Errors: LS_ERR_NOT_FOUND, LS_ERR_IO; LS_ERR_FORMAT
 * names the metadata that is missing or unusable. */
LS_API ls_saved_model *ls_saved_model_open(ls_context *ctx, const char *path);
LS_API void ls_saved_model_close(ls_saved_model **model);
/* The class names are valid as long as `model`. All is 0 for NULL. */
LS_API ls_model_info ls_saved_model_info(const ls_saved_model *model);
/* An inference net with the checkpoint's weights, for u8 images [batch,image_size,image_size,3].
 * with_loss: it also takes labels, and has the loss (cross-entropy without label smoothing), top-1
 * and top-5. Errors are those of ls_net_build and ls_checkpoint_load_weights. */
LS_API ls_net *ls_saved_model_build(const ls_saved_model *model, int64_t batch,
                                    ls_precision precision, bool with_loss);
/* The loader configuration of validation and prediction for that model. */
LS_API ls_loader_config ls_model_info_loader(const ls_model_info *info, int64_t batch);

/* ---- The training loop ---- */

typedef struct ls_trainer ls_trainer;

typedef struct ls_trainer_config {
    int64_t epochs; /* 1 to 2^20; required */
    int64_t
        max_steps; /* the run saves and ends after this many steps over all epochs; 0 = no limit */
    int64_t patience;      /* it ends after this many epochs without a better metric; 0 = no early
                              stopping */
    ls_loader *validation; /* NULL = none: the training accuracy decides what is best */

    /* The run's folder, created if missing; NULL = no files are written. It contains metrics.jsonl
     * and metrics.csv (a row per epoch), run_log.txt (run_log.h), last.safetensors (the complete
     * state for a resume, saved after each epoch and at the end) and best.safetensors (the weights
     * with the best top-1). The fields from resume to model require dir. */
    const char *dir;
    bool resume; /* from last.safetensors; the identity must be the same */
    bool force;  /* with resume: although the identity differs (ls_training_state.force) */
    int64_t checkpoint_every;   /* in steps, also within an epoch; 0 = after epochs only */
    bool keep_checkpoints;      /* each is also kept as checkpoint-<steps, 12 digits>.safetensors */
    const ls_model_info *model; /* saved with the weights, for ls_saved_model_open: model, options,
                                   resize, honour_exif, decode; the loader gives the rest. Copied;
                                   NULL = the weights alone */

    const volatile sig_atomic_t *stop; /* the run saves and ends if *stop is not 0; may be NULL */
    ls_event_fn on_event;              /* may be NULL */
    void *user;
} ls_trainer_config;

/* Opens a run at its start or, with `resume`, where it was saved. All objects have one context and
 * must stay open. To resume a run whose kernels were selected by ls_algorithm_cache_load or by
 * timing, call ls_checkpoint_load_algorithms before the net is built. Errors: LS_ERR_INVALID names
 * the field; also if the folder already holds a run (without `resume`) or another process trains in
 * it. With `resume`, those of ls_checkpoint_load, and LS_ERR_DATA or LS_ERR_FORMAT if a file of the
 * run is damaged. */
LS_API ls_trainer *ls_trainer_open(ls_net *net, ls_optimizer *optimizer, ls_schedule *schedule,
                                   ls_loader *loader, const ls_trainer_config *config);
LS_API void ls_trainer_close(ls_trainer **trainer);

typedef enum ls_trainer_end {
    LS_TRAINER_DONE,       /* all epochs are done */
    LS_TRAINER_STALE,      /* early stopping: no better metric for `patience` epochs */
    LS_TRAINER_HALTED,     /* max_steps are done */
    LS_TRAINER_STOPPED,    /* by the flag */
    LS_TRAINER_DATA_ERROR, /* the loader failed; the steps before are saved */
    LS_TRAINER_NONFINITE,  /* the loss is not finite; nothing is saved */
    LS_TRAINER_ERROR       /* anything else */
} ls_trainer_end;

/* Trains from the run's position to its end. end: how the run ended; may be NULL. Returns LS_OK for
 * the first four values of ls_trainer_end, else the error: that of the loader, LS_ERR_NONFINITE, or
 * another. */
LS_API ls_status ls_trainer_run(ls_trainer *trainer, ls_trainer_end *end);

/* Writes last.safetensors. ls_trainer_run does so itself, also at the start of a new run. */
LS_API ls_status ls_trainer_save(ls_trainer *trainer);

/* The position of a run. */
typedef struct ls_trainer_state {
    int64_t epoch, step;  /* the next step, from 0; step = steps of an epoch before validation */
    int64_t n_steps;      /* done, in all epochs */
    double best;          /* top-1 of the best epoch; below 0 = none yet */
    int64_t best_epoch;   /* from 1; 0 = none yet */
    bool best_is_lost;    /* best.safetensors can't be read, and was not written since */
    ls_averages averages; /* of the steps of this epoch so far */
} ls_trainer_state;
/* All is 0 for NULL. */
LS_API ls_trainer_state ls_trainer_where(const ls_trainer *trainer);

LS_END_DECLARATIONS

#endif
