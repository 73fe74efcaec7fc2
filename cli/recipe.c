/* recipe.c: see recipe.h. */
#include "recipe.h"
#include "run/json.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(recipe, member)

const cli_option recipe_options[] = {
    { OPTION_HEADING, .help = "Data:" },
    { OPTION_TEXT, 0, "data-dir", AT(data_dir),
      "dataset: a pack, or a folder with train/ and val/ (or validation/, test/) that hold one "
      "folder per class",
      "DIR", .note = "required", .executor = true },
    { OPTION_SWITCH, 0, "no-val", AT(no_val), "train without validation", .value = NULL },
    { OPTION_INTEGER, 0, "image-size", AT(image_size), "side of the model's square input in pixels",
      "S", 8, MAX_IMAGE_SIZE, .note = "32 or 224, by model" },
    { OPTION_INTEGER, 'j', "workers", AT(workers),
      "data-loader threads; 0 = the training thread loads the images", "N", 0, 256,
      .note = "one per processor, at most 8", .executor = true },
    { OPTION_CHOICE, 0, "on-bad-image", AT(on_bad_image), ON_BAD_IMAGE_HELP, "fail|skip",
      .fallback = "fail", .lasting = true },
    { OPTION_INTEGER, 0, "max-pixels", AT(max_pixels), MAX_PIXELS_HELP, "N", 1,
      LS_LARGEST_MAX_PIXELS, .note = MAX_PIXELS_NOTE, .implied = LS_DEFAULT_MAX_PIXELS,
      .optional = true },
    { OPTION_SWITCH, 0, "exif", AT(exif), "rotate images by their EXIF orientation",
      .value = NULL },
    { OPTION_CHOICE, 0, "decode", AT(decode),
      "decode JPEGs at full size, or large ones at 1/2, 1/4 or 1/8", "exact|fast",
      .fallback = "exact" },
    { OPTION_SWITCH, 0, "digest-contents", AT(digest_contents),
      "identify the dataset by all bytes of its files instead of their names and sizes",
      .value = NULL },

    { OPTION_HEADING, .help = "Augmentation:" },
    { OPTION_NUMBER, 0, "flip", AT(flip), "probability of a horizontal flip", "P", 0, 1,
      .fallback = "0.5" },
    { OPTION_INTEGER, 0, "crop-padding", AT(crop_padding),
      "zero border in pixels before a random crop; for an --image-size below 64", "N", 0, 64,
      .note = "4" },
    { OPTION_NUMBER, 0, "scale-min", AT(scale_min),
      "smallest area of a random resized crop, as a fraction; for an --image-size of 64 or more",
      "X", 0.01, 1, .note = "0.35" },
    { OPTION_CHOICE, 0, "seeding", AT(seeding),
      "derive random numbers from the sample, or from the worker as in PyTorch; --workers then "
      "changes the result",
      "sample|worker", .fallback = "sample" },

    { OPTION_HEADING, .help = "Model:" },
    { OPTION_TEXT, 0, "model", AT(model), "model: " MODEL_NAMES, "NAME", .fallback = "resnet20" },
    { OPTION_CHOICE, 0, "stem", AT(stem), STEM_HELP, "auto|small|large", .fallback = "auto" },
    { OPTION_SWITCH, 0, "parameter-free-shortcuts", AT(parameter_free_shortcuts), SHORTCUTS_HELP,
      .value = NULL },
    { OPTION_SWITCH, 0, "zero-init-residual", AT(zero_init_residual),
      "initialize the scale of the last batch norm in each block with 0", .value = NULL },

    { OPTION_HEADING, .help = "Optimization:" },
    { OPTION_INTEGER, 0, "epochs", AT(epochs), "passes over the training images", "N", 1, 1e5,
      .fallback = "30", .lasting = true },
    { OPTION_INTEGER, 'b', "batch-size", AT(batch), "images per step", "N", 1, 1e5,
      .fallback = "128" },
    { OPTION_CHOICE, 0, "opt", AT(optimizer), "optimizer", "sgd|adam|adamw", .fallback = "sgd" },
    { OPTION_NUMBER, 0, "lr", AT(lr), "learning rate: the maximum of the schedule", "X", 1e-12, 1e3,
      .note = "sgd: 0.1 x batch size / 128; others: 0.001" },
    { OPTION_NUMBER, 0, "momentum", AT(momentum), "momentum of sgd", "X", 0, 0.9999,
      .note = "0.9" },
    { OPTION_SWITCH, 0, "nesterov", AT(nesterov), "use Nesterov momentum", .value = NULL },
    { OPTION_NUMBER, 0, "weight-decay", AT(weight_decay),
      "weight decay of weights, not of biases and norms", "X", 0, 10,
      .note = "sgd: 0.0005; adam: 0; adamw: 0.01" },
    { OPTION_NUMBER, 0, "label-smoothing", AT(label_smoothing), "label smoothing", "X", 0, 0.99,
      .fallback = "0.1" },
    { OPTION_NUMBER, 0, "clip-grad-norm", AT(clip_norm),
      "maximum norm of the gradients; 0 = no limit", "X", 0, 1e9, .fallback = "0" },
    { OPTION_INTEGER, 0, "patience", AT(patience), "stop after N epochs without a better top-1",
      "N", 1, 1e5, .note = "all epochs" },

    { OPTION_HEADING, .help = "Learning rate schedule:" },
    { OPTION_CHOICE, 0, "lr-scheduler", AT(schedule), "learning rate schedule",
      "cosine|constant|step|exponential|polynomial|onecycle|plateau", .fallback = "cosine" },
    { OPTION_INTEGER, 0, "lr-warmup-epochs", AT(warmup_epochs),
      "epochs over which the learning rate rises to its maximum", "N", 0, 1e5,
      .note = "epochs / 10, at least 1; 0 with one epoch or onecycle" },
    { OPTION_NUMBER, 0, "lr-min", AT(min_lr),
      "minimum learning rate of cosine, polynomial and plateau", "X", 0, 1e3, .note = "0" },
    { OPTION_INTEGER, 0, "lr-step-size", AT(step_size), "epochs between two decays of step", "N", 1,
      1e5, .note = "30" },
    { OPTION_NUMBER, 0, "lr-gamma", AT(gamma), "decay factor of step, exponential and plateau", "X",
      1e-6, 1, .note = "0.1; exponential: 0.95" },
    { OPTION_NUMBER, 0, "lr-power", AT(power), "exponent of polynomial", "X", 0.01, 100,
      .note = "1" },

    { OPTION_HEADING, .help = "Execution:" },
    { OPTION_TEXT, 0, "device", AT(device), DEVICE_HELP, "NAME", .fallback = "cpu" },
    { OPTION_CHOICE, 0, "precision", AT(precision), PRECISION_HELP, PRECISION_NAMES,
      .fallback = "f32" },
    { OPTION_INTEGER, 0, "threads", AT(threads), THREADS_HELP, "N", 0, 1024,
      .note = "one per processor", .executor = true },
    { OPTION_CHOICE, 0, "deterministic", AT(deterministic), DETERMINISTIC_HELP, "strict|warn|off",
      .fallback = "strict" },
    { OPTION_SWITCH, 0, "benchmark", AT(benchmark), BENCHMARK_HELP, .value = NULL },
    { OPTION_TEXT, 0, "algorithm-cache", AT(algorithm_cache),
      "algorithm cache of a new run: read if the file exists, written after kernels were timed",
      "FILE", .note = "none" },
    { OPTION_SWITCH, 0, "nvtx", AT(nvtx),
      "run op by op with a named NVTX range for each, for NVIDIA's profilers; CUDA only",
      .value = NULL, .executor = true },

    { OPTION_HEADING, .help = "Run:" },
    { OPTION_INTEGER, 0, "seed", AT(seed), "random seed", "S", 0, 9e18, .fallback = "0" },
    { OPTION_INTEGER, 0, "steps", AT(steps),
      "end the run after N steps; the schedule stays that of --epochs", "N", 1, 1e12,
      .note = "all epochs", .executor = true },
    { OPTION_INTEGER, 0, "stop-at", AT(stop_at),
      "save and stop after N steps of the run; --resume continues it", "N", 1, 1e12, .note = "none",
      .executor = true },
    { OPTION_TEXT, 0, "inject-fault", AT(fault),
      "add one ulp to one element of one op's output in one step, to test 'lockstep compare'",
      "STEP:OP:ELEMENT", .note = "none", .executor = true },

    { OPTION_HEADING, .help = "Output and checkpoints:" },
    { OPTION_TEXT, 0, "out", AT(out), "new folder for the run", "RUN",
      .note = "run, or run-2, run-3, ...", .executor = true },
    { OPTION_INTEGER, 0, "checkpoint-every", AT(checkpoint_every),
      "save every N steps, and after each epoch", "N", 1, 1e12, .note = "after each epoch",
      .executor = true },
    { OPTION_SWITCH, 0, "keep-checkpoints", AT(keep_checkpoints),
      "keep each checkpoint as checkpoint-STEP.safetensors", .value = NULL, .executor = true },
    { OPTION_TEXT, 0, "resume", AT(resume), "continue the run in this folder", "RUN",
      .note = "none", .executor = true },
    { OPTION_SWITCH, 0, "force", AT(force),
      "resume although dataset, kernels, libraries or processor differ", .value = NULL,
      .executor = true },
    { .kind = OPTION_END },
};

/* ---- Defaults, and options without an effect ---- */

typedef struct dependence {
    const char *option;
    bool useful;
    const char *when;
} dependence;

static bool check_dependences(const cli_verb *verb, const cli_parsed *parsed, const recipe *r)
{
    const bool sgd = r->optimizer == OPT_SGD, small = r->image_size < SMALL_IMAGE_SIZE;
    const bool plateau = r->schedule == SCHEDULE_PLATEAU, step = r->schedule == SCHEDULE_STEP;
    const bool polynomial = r->schedule == SCHEDULE_POLYNOMIAL;
    const bool cosine = r->schedule == SCHEDULE_COSINE;
    const dependence table[] = {
        { "crop-padding", small, "images under 64 pixels" },
        { "scale-min", !small, "images of 64 pixels or more" },
        { "momentum", sgd, "--opt sgd" },
        { "nesterov", sgd && r->momentum > 0, "--opt sgd and a momentum" },
        { "lr-warmup-epochs", r->schedule != SCHEDULE_ONE_CYCLE,
          "an --lr-scheduler other than onecycle" },
        { "lr-min", cosine || polynomial || plateau,
          "--lr-scheduler cosine, polynomial or plateau" },
        { "lr-step-size", step, "--lr-scheduler step" },
        { "lr-gamma", step || plateau || r->schedule == SCHEDULE_EXPONENTIAL,
          "--lr-scheduler step, exponential or plateau" },
        { "lr-power", polynomial, "--lr-scheduler polynomial" },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (options_given(verb, parsed, table[i].option) && !table[i].useful)
            return fail_with(verb, false, "--%s has no effect here: it requires %s",
                             table[i].option, table[i].when);
    return true;
}

static bool check_rates(const cli_verb *verb, const recipe *r)
{
    if (r->min_lr > r->lr)
        return fail_with(verb, false, "--lr-min %g is above --lr %g", r->min_lr, r->lr);
    if (r->schedule == SCHEDULE_PLATEAU && r->gamma >= 1)
        return fail_with(verb, false,
                         "--lr-gamma %g: expected less than 1, because plateau would never lower "
                         "the learning rate",
                         r->gamma);
    return true;
}

bool recipe_resolve(const cli_verb *verb, const cli_parsed *parsed, recipe *r)
{
    const ls_model *model = find_model(verb, r->model);
    if (!model) return false;
    if (!r->image_size) r->image_size = model->image_size;
    const bool sgd = r->optimizer == OPT_SGD, small = r->image_size < SMALL_IMAGE_SIZE;
    static const double weight_decay[] = { 5e-4, 0, 0.01 }; /* by cli_optimizer */
    const int64_t warmup = r->epochs / 10 > 1 ? r->epochs / 10 : r->epochs > 1;

#define DEFAULT(option, member, value)                                                             \
    if (!options_given(verb, parsed, option)) r->member = (value)
    DEFAULT("workers", workers, processors() < 8 ? processors() : 8);
    DEFAULT("crop-padding", crop_padding, small ? 4 : 0);
    DEFAULT("scale-min", scale_min, small ? 0 : 0.35);
    DEFAULT("lr", lr, options_round(sgd ? 0.1 * (double)r->batch / 128 : 0.001));
    DEFAULT("momentum", momentum, sgd ? 0.9 : 0);
    DEFAULT("weight-decay", weight_decay, weight_decay[r->optimizer]);
    DEFAULT("lr-warmup-epochs", warmup_epochs, r->schedule == SCHEDULE_ONE_CYCLE ? 0 : warmup);
    DEFAULT("lr-step-size", step_size, 30);
    DEFAULT("lr-gamma", gamma, r->schedule == SCHEDULE_EXPONENTIAL ? 0.95 : 0.1);
    DEFAULT("lr-power", power, 1);
#undef DEFAULT
    if (r->warmup_epochs >= r->epochs)
        return fail_with(verb, false, "--lr-warmup-epochs %lld: expected less than --epochs %lld",
                         (long long)r->warmup_epochs, (long long)r->epochs);
    return check_dependences(verb, parsed, r) && check_rates(verb, r);
}

bool recipe_can_be_lengthened(const recipe *r)
{
    static const bool table[] = {
        [SCHEDULE_CONSTANT] = true,  [SCHEDULE_STEP] = true,    [SCHEDULE_EXPONENTIAL] = true,
        [SCHEDULE_PLATEAU] = true,   [SCHEDULE_COSINE] = false, [SCHEDULE_POLYNOMIAL] = false,
        [SCHEDULE_ONE_CYCLE] = false
    };
    return table[r->schedule];
}

bool recipe_may_continue(const cli_verb *verb, const json_t *stored, const recipe *r)
{
    const long long epochs = ls__json_get_integer(stored, "epochs");
    if (r->epochs < epochs)
        return fail_with(verb, false,
                         "--epochs %lld: the run has %lld; a run can be lengthened, not shortened; "
                         "--stop-at ends it earlier",
                         (long long)r->epochs, epochs);
    if (r->epochs == epochs || recipe_can_be_lengthened(r)) return true;
    const char *schedule = ls__json_get_string(stored, "lr-scheduler");
    return fail_with(
        verb, false,
        "--epochs %lld: the learning rates of --lr-scheduler %s depend on the number of epochs, "
        "%lld, so the completed steps would differ; begin a new run with --epochs %lld (schedules "
        "constant, step, exponential and plateau can be lengthened)",
        (long long)r->epochs, schedule, epochs, (long long)r->epochs);
}

/* ---- Objects made from the options ---- */

ls_model_info recipe_model(const recipe *r)
{
    /* 256 / 224 of the crop, as torchvision's validation; small images are seen whole */
    const bool small = r->image_size < SMALL_IMAGE_SIZE;
    return (ls_model_info){
        .model = ls_model_find(r->model),
        .options = { .stem = (ls_stem)r->stem,
                     .zero_init_residual = r->zero_init_residual,
                     .parameter_free_shortcuts = r->parameter_free_shortcuts },
        .image_size = r->image_size,
        .resize = small ? r->image_size : (int64_t)lround((double)r->image_size * 256 / 224),
        .honour_exif = r->exif,
        .decode = (ls_decode)r->decode,
        .mean = { 0.485f, 0.456f, 0.406f },
        .std = { 0.229f, 0.224f, 0.225f },
    };
}

ls_loader_config recipe_train_loader(const recipe *r)
{
    const bool small = r->image_size < SMALL_IMAGE_SIZE;
    return (ls_loader_config){
        .batch = r->batch,
        .workers = (int)r->workers,
        .shuffle = true,
        .drop_last = true,
        .honour_exif = r->exif,
        .decode = (ls_decode)r->decode,
        .on_bad_image = (ls_bad_image)r->on_bad_image,
        .max_pixels = r->max_pixels,
        .seeding = (ls_seeding)r->seeding,
        .resize = small ? r->image_size : 0,
        .crop = r->image_size,
        .crop_padding = r->crop_padding,
        .random_resized_crop = !small,
        .scale_min = (float)r->scale_min,
        .scale_max = small ? 0 : 1,
        .flip = (float)r->flip,
    };
}

ls_loader_config recipe_val_loader(const recipe *r, const ls_model_info *info)
{
    ls_loader_config config = ls_model_info_loader(info, r->batch);
    config.workers = (int)r->workers;
    config.on_bad_image = (ls_bad_image)r->on_bad_image;
    config.max_pixels = r->max_pixels;
    return config;
}

ls_optimizer *recipe_open_optimizer(const recipe *r, ls_net *net)
{
    const float weight_decay = (float)r->weight_decay, clip_norm = (float)r->clip_norm;
    const ls_sgd_config sgd = { .momentum = (float)r->momentum,
                                .nesterov = r->nesterov,
                                .weight_decay = weight_decay,
                                .decay = LS_DECAY_WEIGHTS,
                                .clip_norm = clip_norm };
    const ls_adam_config adam = { .weight_decay = weight_decay > 0 ? weight_decay : LS_ZERO,
                                  .decay = LS_DECAY_WEIGHTS,
                                  .clip_norm = clip_norm };
    switch ((cli_optimizer)r->optimizer) {
    case OPT_SGD: return ls_sgd(net, &sgd);
    case OPT_ADAM: return ls_adam(net, &adam);
    case OPT_ADAMW: return ls_adamw(net, &adam);
    }
    return NULL;
}

ls_schedule *recipe_open_schedule(const recipe *r, ls_context *ctx, int64_t steps_per_epoch)
{
    const ls_schedule_warmup warmup = { .epochs = (int)r->warmup_epochs };
    switch ((cli_schedule)r->schedule) {
    case SCHEDULE_COSINE:
        return ls_schedule_cosine(
            ctx, &(ls_schedule_cosine_config){ .max_lr = r->lr,
                                               .min_lr = r->min_lr,
                                               .epochs = (int)r->epochs,
                                               .warmup_epochs = (int)r->warmup_epochs,
                                               .steps_per_epoch = steps_per_epoch });
    case SCHEDULE_CONSTANT:
        return ls_schedule_constant(
            ctx, &(ls_schedule_constant_config){
                     .lr = r->lr, .steps_per_epoch = steps_per_epoch, .warmup = warmup });
    case SCHEDULE_STEP:
        return ls_schedule_step(ctx, &(ls_schedule_step_config){ .lr = r->lr,
                                                                 .step_size = (int)r->step_size,
                                                                 .gamma = r->gamma,
                                                                 .steps_per_epoch = steps_per_epoch,
                                                                 .warmup = warmup });
    case SCHEDULE_EXPONENTIAL:
        return ls_schedule_exponential(
            ctx, &(ls_schedule_exponential_config){ .lr = r->lr,
                                                    .gamma = r->gamma,
                                                    .steps_per_epoch = steps_per_epoch,
                                                    .warmup = warmup });
    case SCHEDULE_POLYNOMIAL:
        return ls_schedule_polynomial(
            ctx, &(ls_schedule_polynomial_config){ .lr = r->lr,
                                                   .min_lr = r->min_lr,
                                                   .power = r->power,
                                                   .epochs = (int)r->epochs,
                                                   .steps_per_epoch = steps_per_epoch,
                                                   .warmup = warmup });
    case SCHEDULE_ONE_CYCLE:
        return ls_schedule_one_cycle(
            ctx, &(ls_schedule_one_cycle_config){ .max_lr = r->lr,
                                                  .epochs = (int)r->epochs,
                                                  .steps_per_epoch = steps_per_epoch });
    case SCHEDULE_PLATEAU:
        return ls_schedule_reduce_on_plateau(
            ctx, &(ls_schedule_plateau_config){ .lr = r->lr,
                                                .min_lr = r->min_lr,
                                                .gamma = r->gamma,
                                                .maximize = true,
                                                .steps_per_epoch = steps_per_epoch,
                                                .warmup = warmup });
    }
    return NULL;
}
