/* trainer.h: the training loop, evaluation, and models rebuilt from their checkpoints.
 *
 *     ls_trainer *trainer = ls_trainer_open(net, optimizer, schedule, loader,
 *         &(ls_trainer_config){ .epochs = 30, .validation = val_loader, .dir = "run" });
 *     LS_TRY(ls_context_status(ctx));
 *     LS_TRY(ls_trainer_run(trainer, NULL));
 *
 * A run that was stopped or killed at any point, and is opened again with `resume`, gives bitwise
 * the same result as one that was never stopped. */
#ifndef LOCKSTEP_TRAINER_H
#define LOCKSTEP_TRAINER_H

#include <lockstep/checkpoint.h>
#include <lockstep/evaluation.h>
#include <lockstep/models.h>
#include <lockstep/run_log.h>
#include <signal.h>

LS_BEGIN_DECLARATIONS

/* Averages over images. All are 0 where there is no image yet. */
typedef struct ls_averages {
    double loss;       /* with class weights the weighted mean: see ls_results.loss_weight */
    double top1, top5; /* fractions; top5 is 0 for 5 classes or fewer; both are 0 for a net without
                          these metrics */
    int64_t n_images;
    int n_metrics; /* of the net's own metrics (ls_metric), in the order of the graph, without
                      "top1" and "top5". NaN in an epoch that a version without them began */
    ls_metric_value metrics[LS_MAX_METRICS];
    LS_RESERVED(8);
} ls_averages;

/* ---- Events, which a run reports to its caller ---- */

typedef enum ls_event_kind {
    LS_EVENT_PASS_BEGIN,      /* before the first step of a pass over a loader */
    LS_EVENT_STEP,            /* after each step of a pass */
    LS_EVENT_PASS_END,        /* after the last step of a pass, even if the pass failed */
    LS_EVENT_EPOCH,           /* an epoch is done, and its metrics are written */
    LS_EVENT_SAVED,           /* last.safetensors is written */
    LS_EVENT_SKIPPED_UPDATES, /* loss scaling has skipped 50 updates or more in a row */
    LS_EVENT_BEST_LOST,       /* best.safetensors of a resumed run is missing or damaged */
    LS_EVENT_NONFINITE,       /* a loss is infinite or not a number: the run ends */
    LS_EVENT_DATA_ERROR       /* the loader failed: the steps done are saved and the run ends */
} ls_event_kind;

/* Each comment names the event kinds that set the field. For other kinds it is 0. Pointers are
 * valid during the call. */
typedef struct ls_event {
    ls_event_kind kind;
    bool validation;       /* PASS_*, STEP, NONFINITE, DATA_ERROR: false in training */
    int64_t epoch, step;   /* from 0. PASS_BEGIN: the pass's first step; STEP, NONFINITE: that step;
                              EPOCH: the epoch that is done; else the position of the run */
    int64_t step_count;    /* PASS_BEGIN: steps of a whole pass */
    const ls_batch *batch; /* STEP */
    const float *probabilities; /* STEP with test_time_flip or an evaluation: [batch->n][classes],
                                   on the host */
    ls_averages averages;       /* STEP: of the pass so far; EPOCH: of training */
    ls_averages validation_averages; /* EPOCH; n_images 0 without validation */
    double wait_seconds; /* spent waiting for data. STEP: since PASS_BEGIN; EPOCH: in training */
    double seconds;      /* EPOCH: spent in training */
    double validation_seconds; /* EPOCH */
    bool is_best; /* EPOCH: the best so far; best.safetensors is written after the callback returns
                   */
    const char
        *metric; /* EPOCH: the metric that decides: ls_trainer_config.metric or its default */
    double metric_value;    /* EPOCH: its value; NaN if it is undefined for these images */
    double loss;            /* NONFINITE */
    const int64_t *samples; /* NONFINITE: sample numbers of the batch, the first 8 at most */
    int n_samples;          /* NONFINITE: length of `samples` */
    int64_t batch_size;     /* NONFINITE: number of samples in the batch */
    int64_t n_updates;      /* SKIPPED_UPDATES: number of skipped updates in a row */
    double loss_scale;      /* SKIPPED_UPDATES */
    int64_t best_epoch;     /* BEST_LOST: the epoch of those weights, from 1 */
    const char *message;    /* DATA_ERROR; BEST_LOST: the reason, NULL if the file is missing */
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
    /* Loss and accuracies of the mean of the probabilities of each image and its mirror image, as
     * ls_predict computes them. The loss is the cross-entropy of that mean, without label
     * smoothing. Each batch runs twice. For nets whose metrics include "top1", else LS_ERR_INVALID.
     */
    bool test_time_flip;
    /* Gets the predictions of this pass, in place of earlier ones, and is finished; may be NULL.
     * With several ranks, those of all ranks, unless `stop` ended the pass. For nets whose metrics
     * include "top1" and as many classes as it has, else LS_ERR_INVALID. */
    ls_evaluation *evaluation;
    LS_RESERVED(8);
} ls_evaluate_config;

/* One pass over the loader, from its first batch, in evaluation mode. config NULL = all defaults.
 * out: the averages over all images, or, if `stop` ended the pass, over the images until then.
 * Errors: those of the loader and of ls_net_evaluate; LS_ERR_NONFINITE names the first batch whose
 * loss is not finite; LS_ERR_INVALID for a loader over which another call runs a pass. With several
 * ranks (context.h) all of them call it. Batch k is that of rank k % n, whose event callback gets
 * it; the averages are those of all, but after `stop` those of this rank's batches. */
LS_API ls_status ls_evaluate(ls_net *net, ls_loader *loader, const ls_evaluate_config *config,
                             ls_averages *out);

/* ---- Prediction ---- */

typedef struct ls_predict_config {
    bool test_time_flip; /* the mean of the probabilities of the image and its mirror image */
    ls_loss_kind loss;   /* that the model was trained with: 0 and LS_LOSS_CROSS_ENTROPY = the
                            softmax of the logits; LS_LOSS_BINARY_CROSS_ENTROPY = their sigmoid;
                            LS_LOSS_MSE = the output itself */
    LS_RESERVED(8);
} ls_predict_config;

/* The classes' probabilities for a batch of images (its labels are not read): the softmax of the
 * net's output, which must be logits, F32 [n,classes], or what config->loss selects. Evaluation
 * mode; config NULL = all defaults. probabilities: host memory [n][classes]; `bytes` must equal
 * n * classes * 4. Probabilities are NaN where the logits are not finite: with a softmax all of the
 * image, with a sigmoid that of the label. LS_LOSS_MSE returns the output as it is. Errors: those
 * of ls_net_evaluate; LS_ERR_INVALID for another output or size; with test_time_flip LS_ERR_SHAPE
 * unless the images are [n,height,width,channels]. */
LS_API ls_status ls_predict(ls_net *net, const ls_batch *batch, const ls_predict_config *config,
                            float *probabilities, size_t bytes);

/* ---- Models of checkpoints ---- */

/* The metadata of a checkpoint of a bundled model. */
typedef struct ls_model_info {
    const ls_model *model;
    ls_model_options options; /* n_classes = that of `classes` */
    int64_t image_size;       /* height of the net's input */
    int64_t resize; /* validation and prediction: as in ls_loader_config, before the centre crop */
    bool honour_exif;
    ls_decode decode;
    float mean[3], std[3];
    const char *const *classes; /* their names; borrowed. With the losses of targets the names of
                                   these */
    int channels;      /* of the net's input: 0 = 3; 1 = grey images, with mean[0] and std[0] */
    ls_loss_kind loss; /* 0 = LS_LOSS_CROSS_ENTROPY */
    const char *weights_key;    /* of ls_saved_model_from_weights: ls_load_weights_config.key */
    int64_t image_width;        /* 0 = image_size: a square */
    ls_resize_mode resize_mode; /* these three as in ls_loader_config */
    ls_alpha alpha;
    int depth;
    LS_RESERVED(16);
} ls_model_info;

/* Sets members that are 0 to what 'lockstep train' has: image_size to the model's, with image_width
 * 0; resize to 256/224 of image_size, rounded, where images are cropped and no side is below 64,
 * else to image_size; mean and std, if all are 0, to ImageNet's, or with 1 channel to their
 * averages, 0.449 and 0.226. info->model is required. */
LS_API void ls_model_info_complete(ls_model_info *info);

/* A checkpoint whose model can be rebuilt. */
typedef struct ls_saved_model ls_saved_model;

/* Reads the file's metadata about its model. The file must have been saved by `lockstep train`, or
 * by a trainer with ls_trainer_config.model. Errors: LS_ERR_NOT_FOUND, LS_ERR_IO; LS_ERR_FORMAT
 * names the metadata that is missing or unusable, with ls_context_hint for a file of another
 * program. */
LS_API ls_saved_model *ls_saved_model_open(ls_context *ctx, const char *path);
/* The same for weights that do not describe their model, such as a PyTorch file: `info` describes
 * it (ls_model_info_complete), with the names of its options.n_classes classes. Everything is
 * copied. The file is one of ls_net_load_weights; it is read by ls_saved_model_build.
 * LS_ERR_INVALID names an unusable member of info. */
LS_API ls_saved_model *ls_saved_model_from_weights(ls_context *ctx, const char *path,
                                                   const ls_model_info *info);
LS_API void ls_saved_model_close(ls_saved_model **model);
/* The class names are valid as long as `model`. All is 0 for NULL. */
LS_API ls_model_info ls_saved_model_info(const ls_saved_model *model);
/* The columns that training chose in its list (ls_csv_open_config), with the model's classes, to
 * open another list of the kind. The texts are valid as long as `model`. All columns are NULL for
 * training data that were no list, and for files of versions before. */
LS_API ls_csv_config ls_saved_model_csv_config(const ls_saved_model *model);
/* The pattern of ls_image_pattern_open, by which training found the classes; NULL: not so. Valid as
 * long as `model`. */
LS_API const char *ls_saved_model_label_pattern(const ls_saved_model *model);
/* An inference net with the checkpoint's weights, for u8 images
 * [batch,image_size,image_width,channels].
 * with_loss: it also takes labels, and has the loss (cross-entropy without label smoothing), top-1
 * and top-5; or, by the info's `loss`, it takes targets, and has that loss. Errors are those of
 * ls_net_build and ls_net_load_weights; with_loss, of weights that do not describe
 * their model, with ls_context_hint. */
LS_API ls_net *ls_saved_model_build(const ls_saved_model *model, int64_t batch,
                                    ls_precision precision, bool with_loss);
/* The samples of `dataset` on which the model was validated while it was trained, if its training
 * split them off this dataset with ls_dataset_split. A pattern of groups is read from the
 * checkpoint; a list must be open with the columns of ls_saved_model_csv_config. `dataset` must be
 * open with the model's classes. NULL without an error if training did not split its data, or split
 * other data, as the digest of the samples shows. A dataset without groups has those of the pattern
 * afterwards if a split is returned, else none. */
LS_API ls_dataset *ls_saved_model_validation_split(const ls_saved_model *model,
                                                   ls_dataset *dataset);
/* Whether training split its validation data off its training data. */
LS_API bool ls_saved_model_has_split(const ls_saved_model *model);
/* The loader configuration of validation and prediction for that model. */
LS_API ls_loader_config ls_model_info_loader_config(const ls_model_info *info, int64_t batch);

/* ---- The training loop ---- */

typedef struct ls_trainer ls_trainer;

/* What a run writes into event files for TensorBoard. */
typedef enum ls_tensorboard {
    LS_TENSORBOARD_SCALARS, /* losses, metrics, learning rate and speed of steps and epochs */
    LS_TENSORBOARD_ALL,     /* also up to 16 images of the first batch, as the net receives them,
                               and after each epoch histograms of the weights and of the gradients
                               of the last step (ls_parameter_info) */
    LS_TENSORBOARD_NONE     /* no event files */
} ls_tensorboard;

typedef struct ls_trainer_config {
    int64_t epochs; /* 1 to 2^20; required */
    int64_t
        max_steps; /* the run saves and ends after this many steps over all epochs; 0 = no limit */
    /* The metric that decides which epoch is the best, and so the weights in best.safetensors, when
     * `patience` ends the run, and when a plateau schedule reduces the learning rate. NULL = "top1"
     * if the net has it, else "loss". Other names:
     *   "loss"           the lowest value is the best, of the others below the highest
     *   "macro_recall"   mean of the classes' recalls: each class counts the same
     *   "macro_f1"       mean of the classes' F1
     *   "auc"            mean of the classes' areas under the ROC curve
     *   "cross_entropy"  lowest is best; without label smoothing, class weights and soft targets
     *   others           a metric of the net (ls_metric), averaged over images
     * These four are computed by ls_evaluation from the validation's predictions: they require
     * `validation` and a net with the metric "top1". The names above precede equal names of the
     * net's metrics, which then have no columns in metrics.csv. Of epochs with equal values the one
     * with the lower loss is the best, then the earlier one. LS_ERR_INVALID names the metrics that
     * the net has. Part of the run's identity unless it is the default, so that `resume` requires
     * the same one. Copied. */
    const char *metric;
    bool minimize;    /* the lowest value of `metric` is the best; only for a metric of the net */
    int64_t patience; /* the run ends after this many epochs without a better one; 0 = no early
                         stopping */
    ls_loader *validation; /* NULL = none; the best epoch is then that of the training metric */

    /* The run's folder, created if missing; NULL = no files are written. It contains metrics.jsonl
     * and metrics.csv (a row per epoch), run_log.txt (run_log.h), last.safetensors (the complete
     * state for a resume, saved after each epoch and at the end), best.safetensors (the weights
     * of the best epoch, or their moving averages if the optimizer has ema_decay; validation uses
     * the averages, too) and an event file per process, events.out.tfevents.SECONDS.N. The fields
     * from resume to log_every require dir.
     *
     * It also contains report.html (report.h), rewritten after each epoch, with its parts: the
     * first images of the first batch in first_batch.jpg, and, for a net with the metric "top1" and
     * with validation, the results of the last validation in evaluation.json (ls_evaluation_json,
     * the epoch, and the images of the mistakes). The results come from the validation pass, which
     * for them reads the net's output after each batch. */
    const char *dir;
    bool resume; /* from last.safetensors, which must exist; the identity must be the same */
    bool force;  /* with resume: even if the identity differs (ls_training_state.force) */
    int64_t checkpoint_every;   /* in steps, also within an epoch; 0 = after epochs only */
    bool no_report;             /* no report.html, first_batch.jpg and evaluation.json */
    bool keep_checkpoints;      /* each is also kept as checkpoint-<steps, 12 digits>.safetensors */
    const ls_model_info *model; /* saved with the weights, for ls_saved_model_open: model, options,
                                   resize, resize_mode, honour_exif, decode, alpha, depth, and loss
                                   if the net's is LS_LOSS_NONE, else the net's; the other fields
                                   come from the loader. Copied; NULL = the weights alone */

    ls_tensorboard tensorboard;
    int64_t log_every; /* steps between two steps in event files; 0 = 50 */

    const volatile sig_atomic_t *stop; /* the run saves and ends if *stop is not 0; may be NULL */
    ls_event_fn on_event;              /* may be NULL */
    void *user;
    LS_RESERVED(16);
} ls_trainer_config;

/* Opens a run at its start or, with `resume`, where it was saved. All objects must belong to
 * one context. A schedule that reduces on a plateau reads config.metric if the
 * highest value of that is the best and it has maximize, or neither is true. Else it reads with
 * maximize the top-1 accuracy (LS_ERR_INVALID for a net without that metric), without it the loss:
 * of validation, or without validation of training. To resume a run whose kernels were selected by
 * ls_algorithm_cache_load or by timing, call ls_checkpoint_load_algorithms before the net is built.
 * Errors: LS_ERR_INVALID for an invalid field, which the message names, for a folder that already
 * holds a run (without `resume`), and if another process trains in it; LS_ERR_SHAPE if the size of
 * the images or the number of classes or targets differs in validation; LS_ERR_MISMATCH if the
 * names of these differ, where both datasets were given names. With `resume`, LS_ERR_NOT_FOUND
 * for a folder without a run, those of ls_checkpoint_load, and LS_ERR_DATA or LS_ERR_FORMAT if a
 * file of the run is damaged. An optimizer with `accumulate` requires a schedule whose
 * steps_per_epoch is the number of updates in an epoch (optim.h), else LS_ERR_INVALID. Steps are
 * those of the loader. */
LS_API ls_trainer *ls_trainer_open(ls_net *net, ls_optimizer *optimizer, ls_schedule *schedule,
                                   ls_loader *loader, const ls_trainer_config *config);
LS_API void ls_trainer_close(ls_trainer **trainer);

typedef enum ls_trainer_end {
    LS_TRAINER_DONE,        /* all epochs are done */
    LS_TRAINER_EARLY_STOP,  /* early stopping: no better epoch for `patience` epochs */
    LS_TRAINER_MAX_STEPS,   /* max_steps are done */
    LS_TRAINER_INTERRUPTED, /* *stop was not 0 */
    LS_TRAINER_DATA_ERROR,  /* the loader failed; the steps before are saved */
    LS_TRAINER_NONFINITE,   /* the loss is not finite; nothing is saved */
    LS_TRAINER_ERROR        /* anything else */
} ls_trainer_end;

/* Trains from the run's position to its end. end: how the run ended; may be NULL. Returns LS_OK for
 * the first four values of ls_trainer_end, else the error: that of the loader, LS_ERR_NONFINITE, or
 * another. The loaders belong to the run until it returns: a callback that uses them, or runs a
 * trainer that does, gets LS_ERR_INVALID.
 *
 * With several ranks (context.h) all of them open and run a trainer with the same configuration.
 * Rank 0 alone writes the run's folder; the others only read it to resume. ls_trainer_open fails
 * with LS_ERR_MISMATCH if a rank has another identity. Each rank validates every n-th batch. All
 * ranks end at the same step, also if `stop` is set, images are unreadable, a callback fails or a
 * checkpoint can't be written in one of them. After another error in one rank, such as too little
 * memory, the others may wait for it until the time-out. */
LS_API ls_status ls_trainer_run(ls_trainer *trainer, ls_trainer_end *end);

/* Writes last.safetensors. ls_trainer_run does so itself, also at the start of a new run. With
 * several ranks all of them call it. */
LS_API ls_status ls_trainer_save(ls_trainer *trainer);

/* The position of a run. */
typedef struct ls_trainer_state {
    int64_t epoch, step; /* the next step, counted from 0. Between the last step of an epoch and its
                            validation, step is the number of steps per epoch */
    int64_t n_steps;     /* done, in all epochs */
    double best;         /* the metric of the best epoch; only if best_epoch > 0 */
    int64_t best_epoch;  /* from 1; 0 = none yet */
    bool best_is_lost;   /* best.safetensors was missing or damaged on resume, and has not been
                            written since */
    ls_averages averages; /* of the steps of this epoch so far */
    LS_RESERVED(8);
} ls_trainer_state;
/* All fields are 0 if trainer is NULL. */
LS_API ls_trainer_state ls_trainer_get_state(const ls_trainer *trainer);

LS_END_DECLARATIONS

#endif
