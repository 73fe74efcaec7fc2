/* recipe.h: the options of `lockstep train`, and the objects made from them: loaders, optimizer,
 * schedule. */
#ifndef LS_CLI_RECIPE_H
#define LS_CLI_RECIPE_H

#include "cli.h"

typedef enum cli_optimizer { OPT_SGD, OPT_ADAM, OPT_ADAMW } cli_optimizer;

typedef enum cli_schedule {
    SCHEDULE_COSINE,
    SCHEDULE_CONSTANT,
    SCHEDULE_STEP,
    SCHEDULE_EXPONENTIAL,
    SCHEDULE_POLYNOMIAL,
    SCHEDULE_ONE_CYCLE,
    SCHEDULE_PLATEAU
} cli_schedule;

typedef struct recipe {
    /* data */
    const char *data_dir;
    bool no_val;
    int64_t image_size, workers, max_pixels;
    int on_bad_image; /* ls_bad_image */
    int seeding;      /* ls_seeding */
    int decode;       /* ls_decode */
    bool exif, digest_contents;
    int64_t crop_padding;
    double scale_min, flip;
    /* model */
    const char *model;
    int stem; /* ls_stem */
    bool parameter_free_shortcuts, zero_init_residual;
    /* training */
    int64_t epochs, batch;
    int optimizer; /* cli_optimizer */
    double lr, momentum, weight_decay, clip_norm, label_smoothing;
    bool nesterov;
    int schedule; /* cli_schedule */
    int64_t warmup_epochs, step_size;
    double min_lr, gamma, power;
    int64_t patience; /* 0 = endless */
    /* run */
    int64_t seed, threads;
    int64_t steps, stop_at;   /* 0 = no limit */
    int64_t checkpoint_every; /* 0 = not in mid-epoch */
    bool keep_checkpoints, force;
    const char *device, *out, *resume;
    int precision;     /* ls_precision */
    int deterministic; /* ls_deterministic */
    bool benchmark, nvtx;
    const char *algorithm_cache;
    const char *fault; /* STEP:OP:ELEMENT, or NULL */
} recipe;

extern const cli_option recipe_options[];

/* Sets the defaults that depend on other options. Options without an effect are errors. On failure
 * prints the reason and returns false. */
bool recipe_resolve(const cli_verb *verb, const cli_parsed *parsed, recipe *r);

/* Whether a run with the stored options may continue as `r`: --epochs may only grow, and only where
 * the learning rates of the steps that are done do not depend on it. Otherwise prints why. */
bool recipe_may_continue(const cli_verb *verb, const json_t *stored, const recipe *r);
/* Whether the schedule's learning rates are the same for any number of epochs. */
bool recipe_can_be_lengthened(const recipe *r);

/* Images under this side are cropped from a padded border, as CIFAR's; larger ones by random
 * area, as ImageNet's. */
enum { SMALL_IMAGE_SIZE = 64 };

/* The model that will be trained, without its classes. */
ls_model_info recipe_model(const recipe *r);
ls_loader_config recipe_train_loader(const recipe *r);
ls_loader_config recipe_val_loader(const recipe *r, const ls_model_info *info);
ls_optimizer *recipe_open_optimizer(const recipe *r, ls_net *net);
ls_schedule *recipe_open_schedule(const recipe *r, ls_context *ctx, int64_t steps_per_epoch);

#endif
