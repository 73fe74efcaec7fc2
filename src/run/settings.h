/* settings.h: the settings of a run, and the objects made from them: loaders, optimizer, schedule.
 */
#ifndef LS_RUN_SETTINGS_H
#define LS_RUN_SETTINGS_H

#include "checkpoint/model_info.h"
#include "run/data_settings.h"
#include "run/setting.h"
#include <lockstep/loader.h>
#include <lockstep/models.h>
#include <lockstep/optim.h>
#include <lockstep/trainer.h>

/* The sides of --image-size. */
enum { LS__MIN_IMAGE_SIZE = 8, LS__MAX_IMAGE_SIZE = 4096 };

typedef enum ls__run_optimizer {
    LS__OPT_SGD,
    LS__OPT_ADAM,
    LS__OPT_ADAMW,
    LS__OPT_RMSPROP
} ls__run_optimizer;

/* In the order of ls_loss_kind, without the first. */
typedef enum ls__run_loss_kind {
    LS__LOSS_CROSS_ENTROPY,
    LS__LOSS_BCE,
    LS__LOSS_MSE
} ls__run_loss_kind;

/* The metrics that can decide which epoch is the best: words of --metric. */
#define LS__OTHER_METRICS(X)                                                                       \
    X(MACRO_RECALL, "macro_recall")                                                                \
    X(MACRO_F1, "macro_f1")                                                                        \
    X(AUC, "auc")                                                                                  \
    X(CROSS_ENTROPY, "cross_entropy")                                                              \
    X(TOP5, "top5")
#define LS__METRICS(X)              X(TOP1, "top1") X(LOSS, "loss") LS__OTHER_METRICS(X)
#define LS__METRIC_ENUM(NAME, word) LS__METRIC_##NAME,
typedef enum ls__run_metric_kind { LS__METRICS(LS__METRIC_ENUM) } ls__run_metric_kind;
#undef LS__METRIC_ENUM
/* "|macro_recall|...": the words after the first two. */
#define LS__METRIC_WORD(NAME, word) "|" word
#define LS__OTHER_METRIC_NAMES      LS__OTHER_METRICS(LS__METRIC_WORD)
#define LS__METRIC_NAMES            "top1|loss" LS__OTHER_METRIC_NAMES

/* Numbers of the training loader's config, by the same name. settings_objects.c copies them. */
#define LS__LOADER_NUMBERS(X)                                                                      \
    X(brightness) X(contrast) X(saturation) X(hue) X(random_erase) X(mixup_alpha) X(cutmix_alpha)
#define LS__LOADER_NUMBER(name) double name;

/* Settings with the type and the name of their member of ls_context_config or ls_trainer_config.
 * LS__SETTING_COPY initializes this member with the setting of the caller's variable `r`. */
#define LS__CONTEXT_SETTINGS(X)                                                                    \
    X(bool, sync_batch_norm)                                                                       \
    X(bool, partition_optimizer)                                                                   \
    X(int64_t, audit_every) /* steps; 0 = never */                                                 \
    X(bool, nvtx)
#define LS__TRAINER_SETTINGS(X)                                                                    \
    X(int64_t, epochs)                                                                             \
    X(int64_t, patience)         /* 0 = endless */                                                 \
    X(int64_t, checkpoint_every) /* 0 = not in mid-epoch */                                        \
    X(bool, keep_checkpoints)                                                                      \
    X(bool, no_report)                                                                             \
    X(int64_t, log_every) /* steps */
#define LS__SETTING_MEMBER(type, name) type name;
#define LS__SETTING_COPY(type, name)   .name = r->name,

typedef struct ls__run_settings {
    int preset; /* --recipe; 0 = none */
    /* data */
    const char *data_dir;
    ls__data_settings data;
    bool no_val;
    double val_split; /* 0 = off */
    int64_t val_split_seed;
    ls_size image_size;
    int64_t workers, max_pixels;
    int on_bad_image; /* ls_bad_image */
    int seeding;      /* ls_seeding */
    int decode;       /* ls_decode */
    int sampler;      /* ls_sampler */
    int resize_mode;  /* ls_resize_mode */
    int alpha;        /* ls_alpha */
    int64_t depth;    /* 0 = 16 */
    bool exif, digest_contents, grey;
    int64_t crop_padding;
    double scale_min, flip, vertical_flip;
    int auto_augment; /* ls_auto_augment */
    LS__LOADER_NUMBERS(LS__LOADER_NUMBER)
    /* model */
    const char *model;
    int stem; /* ls_stem */
    bool parameter_free_shortcuts, zero_init_residual;
    double dropout;                    /* 0 for models without dropout */
    const char *weights, *weights_key; /* file and the key in it, or NULL */
    bool new_head;
    const char *freeze; /* patterns with commas between, or NULL */
    /* training */
    int64_t batch, shards, accumulate;
    int loss;      /* ls__run_loss_kind */
    int optimizer; /* ls__run_optimizer */
    double lr, lr_per_256, momentum, weight_decay, clip_norm, clip_value, ema_decay,
        label_smoothing;
    bool nesterov;
    int class_weights;  /* 0 = none, 1 = balanced */
    const char *groups; /* --param-groups, or NULL */
    int schedule;       /* ls_schedule_kind */
    int plateau_loss;   /* the plateau schedule reads the loss, not top-1 */
    int64_t warmup_epochs, step_size, restart_epochs, restart_mult;
    const char *milestones; /* "30,60", or NULL */
    double min_lr, gamma, power;
    int metric; /* ls__run_metric_kind */
    /* members of the configs of context and trainer, by the same name */
    LS__CONTEXT_SETTINGS(LS__SETTING_MEMBER)
    LS__TRAINER_SETTINGS(LS__SETTING_MEMBER)
    /* run */
    int64_t seed, threads;
    double rank_timeout;    /* seconds */
    int64_t steps, stop_at; /* 0 = no limit */
    int tensorboard;        /* ls_tensorboard */
    const char *device, *out, *resume;
    int precision;     /* ls_precision */
    int deterministic; /* ls_deterministic */
    int arithmetic;    /* ls_arithmetic */
    bool benchmark, force;
    const char *algorithm_cache;
    const char *fault; /* STEP:OP:ELEMENT, or NULL */
} ls__run_settings;

extern const ls_setting ls__run_settings_table[];

/* Sets the values of --recipe and the defaults that depend on other settings. Settings without an
 * effect are errors. model: a program's own, or NULL for the bundled one of that name. */
ls_status ls__run_settings_resolve(ls_context *ctx, ls_given *given, const ls_model *model,
                                   ls__run_settings *r);

/* Sets the values of --recipe that are not given. */
void ls__run_settings_apply_preset(ls_given *given, ls__run_settings *r);
/* The i-th value that --recipe has set, as "name" and "value" ("" for a switch); false past the
 * last. */
bool ls__run_settings_preset_at(const ls_given *given, const ls__run_settings *r, int i,
                                const char **name, const char **value);

/* Whether a run with the stored settings may resume as `r`: --epochs may only increase, and only if
 * the learning rates of the completed steps do not depend on it. dir: the run's folder. */
ls_status ls__run_settings_may_resume(ls_context *ctx, const json_t *stored,
                                      const ls__run_settings *r, const char *dir);
/* The hint of LS_ERR_MISMATCH: what native arithmetic also depends on, and what --force does.
 * changed: what ls__settings_changed gives, or NULL. */
void ls__run_settings_hint_mismatch(ls_context *ctx, const ls__run_settings *r,
                                    const json_t *changed, const char *force);
/* Whether the schedule's learning rates are the same for any number of epochs. */
bool ls__run_can_be_extended(const ls__run_settings *r);

/* Whether a side of the model's input is below 64 pixels. */
static inline bool ls__run_is_small(const ls__run_settings *r)
{
    return ls__is_small_image(r->image_size.height, r->image_size.width);
}

enum { LS__MAX_MILESTONES = 64 };
/* Reads "30,60,90" and returns the number of epochs; 0 with the error. */
int ls__run_milestones(ls_context *ctx, const char *text, int out[LS__MAX_MILESTONES]);

/* Batches per update of the weights: 1 also where a stored run has 0. */
static inline int64_t ls__run_batches_per_update(const ls__run_settings *r)
{
    return r->accumulate > 1 ? r->accumulate : 1;
}

/* The learning rate without --lr. */
double ls__run_default_lr(const ls__run_settings *r);

static inline ls_loss_kind ls__run_loss(const ls__run_settings *r)
{
    return (ls_loss_kind)(LS_LOSS_CROSS_ENTROPY + r->loss);
}

/* "top1", ...: the metric's name in ls_trainer_config and, after "val_", in metrics.jsonl. */
const char *ls__run_metric_name(int metric);
/* Whether its lowest value is the best. */
static inline bool ls__run_metric_is_minimized(int metric)
{
    return metric == LS__METRIC_LOSS || metric == LS__METRIC_CROSS_ENTROPY;
}
/* The metric that decides: the loss for targets. */
static inline ls__run_metric_kind ls__run_metric(const ls__run_settings *r)
{
    return r->loss == LS__LOSS_CROSS_ENTROPY ? (ls__run_metric_kind)r->metric : LS__METRIC_LOSS;
}
/* The value of ls_trainer_config.metric: NULL where it is the default. */
const char *ls__run_chosen_metric(const ls__run_settings *r);

/* Whether training batches have targets, by mixup or cutmix. */
static inline bool ls__run_mixes(const ls__run_settings *r)
{
    return r->mixup_alpha > 0 || r->cutmix_alpha > 0;
}

/* The model that will be trained, without its classes. */
ls_model_info ls__run_model_info(const ls__run_settings *r, const ls_model *model);
ls_loader_config ls__run_train_loader_config(const ls__run_settings *r);
ls_loader_config ls__run_val_loader_config(const ls__run_settings *r, const ls_model_info *info);
ls_optimizer *ls__run_open_optimizer(const ls__run_settings *r, ls_net *net);
ls_schedule *ls__run_open_schedule(const ls__run_settings *r, ls_context *ctx,
                                   int64_t steps_per_epoch);

/* ---- The text of --param-groups ---- */

enum { LS__MAX_PARAMETER_GROUPS = 32, LS__PARAMETER_GROUPS_SIZE = 2048 };

typedef struct ls__parameter_groups {
    ls_parameter_group items[LS__MAX_PARAMETER_GROUPS];
    int n;
    char patterns[LS__PARAMETER_GROUPS_SIZE]; /* the items' */
} ls__parameter_groups;

/* Reads "PATTERN:lr-scale=X,weight-decay=X ..."; NULL = no groups. False with the error. */
bool ls__parameter_groups_read(ls_context *ctx, const char *text, ls__parameter_groups *out);

#endif
