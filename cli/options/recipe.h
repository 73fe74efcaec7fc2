/* recipe.h: the options of `lockstep train`, and the objects made from them: loaders, optimizer,
 * schedule. */
#ifndef LS_CLI_OPTIONS_RECIPE_H
#define LS_CLI_OPTIONS_RECIPE_H

#include "options/data_options.h"

typedef enum cli_optimizer { OPT_SGD, OPT_ADAM, OPT_ADAMW, OPT_RMSPROP } cli_optimizer;

/* In the order of ls_loss_kind, without the first. */
typedef enum cli_loss { LOSS_CROSS_ENTROPY, LOSS_BCE, LOSS_MSE } cli_loss;

/* The metrics that can decide which epoch is the best: words of --metric. */
#define CLI_OTHER_METRICS(X)                                                                       \
    X(MACRO_RECALL, "macro_recall")                                                                \
    X(MACRO_F1, "macro_f1")                                                                        \
    X(AUC, "auc")                                                                                  \
    X(CROSS_ENTROPY, "cross_entropy")                                                              \
    X(TOP5, "top5")
#define CLI_METRICS(X)         X(TOP1, "top1") X(LOSS, "loss") CLI_OTHER_METRICS(X)
#define CLI_METRIC(NAME, word) METRIC_##NAME,
typedef enum cli_metric { CLI_METRICS(CLI_METRIC) } cli_metric;
#undef CLI_METRIC
/* "|macro_recall|...": the words after the first two. */
#define CLI_METRIC_WORD(NAME, word) "|" word
#define OTHER_METRIC_NAMES          CLI_OTHER_METRICS(CLI_METRIC_WORD)
#define METRIC_NAMES                "top1|loss" OTHER_METRIC_NAMES

typedef struct recipe {
    int preset; /* --recipe; 0 = none */
    /* data */
    const char *data_dir;
    data_options data;
    bool no_val;
    double val_split; /* 0 = off */
    int64_t val_split_seed;
    cli_size image_size;
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
    double brightness, contrast, saturation, hue, random_erase, mixup_alpha, cutmix_alpha;
    /* model */
    const char *model;
    int stem; /* ls_stem */
    bool parameter_free_shortcuts, zero_init_residual;
    double dropout;                    /* 0 for models without the option */
    const char *weights, *weights_key; /* file and the key in it, or NULL */
    bool new_head;
    const char *freeze; /* patterns with commas between, or NULL */
    /* training */
    int64_t epochs, batch, shards, accumulate;
    bool sync_batch_norm;
    int loss;      /* cli_loss */
    int optimizer; /* cli_optimizer */
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
    int metric;       /* cli_metric */
    int64_t patience; /* 0 = endless */
    /* run */
    int64_t seed, threads;
    double rank_timeout; /* seconds */
    bool partition_optimizer;
    int64_t audit_every;      /* steps; 0 = never */
    int64_t steps, stop_at;   /* 0 = no limit */
    int64_t checkpoint_every; /* 0 = not in mid-epoch */
    bool keep_checkpoints, no_report, force;
    int tensorboard;   /* ls_tensorboard */
    int64_t log_every; /* steps */
    const char *device, *out, *resume;
    int precision;     /* ls_precision */
    int deterministic; /* ls_deterministic */
    bool benchmark, nvtx;
    const char *algorithm_cache;
    const char *fault; /* STEP:OP:ELEMENT, or NULL */
} recipe;

extern const cli_option recipe_options[];

/* The table of another command: its own options, then those of `lockstep train` for which `selects`
 * is true, below their headings. */
void recipe_select_options(const cli_option *own, bool (*selects)(const cli_option *option),
                           cli_option out[MAX_OPTIONS + 1]);

/* Sets the values of --recipe and the defaults that depend on other options. Options without an
 * effect are errors. On failure prints the reason and returns false. */
bool recipe_resolve(cli_parsed *parsed, recipe *r);

/* Sets the values of --recipe that are not given. */
void recipe_apply_preset(cli_parsed *parsed, recipe *r);
/* Prints them. */
void recipe_print_preset(const cli_parsed *parsed, const recipe *r);

/* Whether a run with the stored options may resume as `r`: --epochs may only increase, and only if
 * the learning rates of the completed steps do not depend on it. Otherwise prints why; dir: the
 * run's folder. */
bool recipe_may_resume(const json_t *stored, const recipe *r, const char *dir);
/* Whether the schedule's learning rates are the same for any number of epochs. */
bool recipe_can_be_extended(const recipe *r);

/* Images whose shorter side is below this are cropped from a padded border, as CIFAR's; larger ones
 * by random area, as ImageNet's. */
enum { SMALL_IMAGE_SIZE = 64 };
static inline bool recipe_is_small(const recipe *r)
{
    return r->image_size.height < SMALL_IMAGE_SIZE || r->image_size.width < SMALL_IMAGE_SIZE;
}

enum { MAX_MILESTONES = 64 };
/* Reads "30,60,90" and returns the number of epochs; on failure prints the reason and returns 0. */
int recipe_milestones(const char *text, int out[MAX_MILESTONES]);

/* 1 for 'augment', which has no --accumulate, and for runs of versions without it. */
static inline int64_t recipe_batches_per_update(const recipe *r)
{
    return r->accumulate > 1 ? r->accumulate : 1;
}

/* The learning rate without --lr. */
double recipe_default_lr(const recipe *r);

static inline ls_loss_kind recipe_loss(const recipe *r)
{
    return (ls_loss_kind)(LS_LOSS_CROSS_ENTROPY + r->loss);
}

/* "top1", ...: the metric's name in ls_trainer_config and, after "val_", in metrics.jsonl. */
const char *metric_name(int metric);
/* Whether its lowest value is the best. */
static inline bool metric_is_minimized(int metric)
{
    return metric == METRIC_LOSS || metric == METRIC_CROSS_ENTROPY;
}
/* The metric that decides: the loss for targets. */
static inline cli_metric recipe_metric(const recipe *r)
{
    return r->loss == LOSS_CROSS_ENTROPY ? (cli_metric)r->metric : METRIC_LOSS;
}
/* The value of ls_trainer_config.metric: NULL where it is the default. */
const char *recipe_metric_name(const recipe *r);

/* Whether training batches have targets, by mixup or cutmix. */
static inline bool recipe_mixes(const recipe *r)
{
    return r->mixup_alpha > 0 || r->cutmix_alpha > 0;
}

/* The model that will be trained, without its classes. */
ls_model_info recipe_model(const recipe *r);
ls_loader_config recipe_train_loader(const recipe *r);
ls_loader_config recipe_val_loader(const recipe *r, const ls_model_info *info);
ls_optimizer *recipe_open_optimizer(const recipe *r, ls_net *net);
ls_schedule *recipe_open_schedule(const recipe *r, ls_context *ctx, int64_t steps_per_epoch);

#endif
