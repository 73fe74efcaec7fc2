/* recipe.c: see recipe.h. */
#include "recipe.h"
#include "parameter_groups.h"
#include "run/json.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(recipe, member)

const cli_option recipe_options[] = {
    { OPTION_HEADING, .help = "Recipe:" },
    { OPTION_CHOICE, 0, "recipe", AT(preset),
      "values for options that are not given: cifar = small images, imagenet = torchvision's "
      "reference, finetune = photographs from --weights, small = few photographs",
      "none|cifar|imagenet|finetune|small", .fallback = "none", .optional = true, .images = true },

    { OPTION_HEADING, .help = "Data:" },
    { OPTION_TEXT, 0, "data-dir", AT(data_dir),
      "dataset: a pack, or a folder with train/ and val/ (or validation/, valid/, test/) that hold "
      "one folder per class, or a folder with MNIST's four idx files, or a "
      "CSV file of paths and labels",
      "DIR", .note = "required", .execution = true, .images = true },
    { OPTION_SWITCH, 0, "no-val", AT(no_val), "train without validation" },
    { OPTION_NUMBER, 0, "val-split", AT(val_split),
      "validate on this fraction of each class's training images, and train on the others; DIR "
      "holds "
      "train/ without val/, or the class folders themselves",
      "X", 0.001, 0.999, .note = "off", .optional = true, .images = true },
    { OPTION_INTEGER, 0, "val-split-seed", AT(val_split_seed),
      "seed of --val-split, independent of --seed", "S", 0, 9e18, .fallback = "0", .optional = true,
      .images = true },
    { OPTION_INTEGER, 0, "image-size", AT(image_size), "side of the model's square input in pixels",
      "S", 8, MAX_IMAGE_SIZE, .note = "28, 32 or 224, depending on the model", .images = true },
    { OPTION_INTEGER, 'j', "workers", AT(workers),
      "data-loader threads (PyTorch: num_workers); 0 = the training thread loads the images", "N",
      0, 256, .note = "one per processor, at most 8", .execution = true, .images = true },
    { OPTION_CHOICE, 0, "on-bad-image", AT(on_bad_image), ON_BAD_IMAGE_HELP, "fail|skip",
      .fallback = "fail", .lasting = true, .images = true },
    { OPTION_INTEGER, 0, "max-pixels", AT(max_pixels), MAX_PIXELS_HELP, "N", 1,
      LS_LARGEST_MAX_PIXELS, .note = MAX_PIXELS_NOTE, .implied = LS_DEFAULT_MAX_PIXELS,
      .optional = true, .images = true },
    { OPTION_SWITCH, 0, "exif", AT(exif), "apply the EXIF orientation", .images = true },
    { OPTION_SWITCH, 0, "grey", AT(grey),
      "convert images to grey, for a model with one input channel", .optional = true,
      .images = true },
    { OPTION_CHOICE, 0, "decode", AT(decode),
      "JPEG decoding: exact = full size; fast = large images at 1/2, 1/4 or 1/8, with different "
      "pixels",
      "exact|fast", .fallback = "exact", .images = true },
    { OPTION_SWITCH, 0, "digest-contents", AT(digest_contents),
      "include the bytes of all files in the dataset's digest, not only their names and sizes" },

    { OPTION_CHOICE, 0, "sampler", AT(sampler),
      "images of an epoch: all = each once; balanced = each class equally often", "all|balanced",
      .fallback = "all", .optional = true, .images = true },

    { OPTION_HEADING, .help = "Augmentation:" },
    { OPTION_NUMBER, 0, "flip", AT(flip), "probability of a horizontal flip", "P", 0, 1,
      .fallback = "0.5", .images = true },
    { OPTION_NUMBER, 0, "vertical-flip", AT(vertical_flip), "probability of a vertical flip", "P",
      0, 1, .fallback = "0", .optional = true, .images = true },
    { OPTION_INTEGER, 0, "crop-padding", AT(crop_padding),
      "zero padding in pixels before the random crop (--image-size below 64)", "N", 0, 64,
      .note = "4", .images = true },
    { OPTION_NUMBER, 0, "scale-min", AT(scale_min),
      "minimum area of the random resized crop, as a fraction of the image (--image-size of 64 or "
      "more)",
      "X", 0.01, 1, .note = "0.35", .images = true },
    { OPTION_CHOICE, 0, "auto-augment", AT(auto_augment),
      "random ops: trivial = TrivialAugmentWide; rand = RandAugment, two ops at magnitude 9",
      "none|trivial|rand", .fallback = "none", .optional = true, .images = true },
    { OPTION_NUMBER, 0, "brightness", AT(brightness),
      "random brightness factor from 1 - X to 1 + X", "X", 0, 255, .fallback = "0",
      .optional = true, .images = true },
    { OPTION_NUMBER, 0, "contrast", AT(contrast), "random contrast factor from 1 - X to 1 + X", "X",
      0, 255, .fallback = "0", .optional = true, .images = true },
    { OPTION_NUMBER, 0, "saturation", AT(saturation),
      "random saturation factor from 1 - X to 1 + X", "X", 0, 255, .fallback = "0",
      .optional = true, .images = true },
    { OPTION_NUMBER, 0, "hue", AT(hue), "random rotation of the hue by up to X of a full circle",
      "X", 0, 0.5, .fallback = "0", .optional = true, .images = true },
    { OPTION_NUMBER, 0, "random-erase", AT(random_erase),
      "probability that a random box is replaced by the mean colour", "P", 0, 1, .fallback = "0",
      .optional = true, .images = true },
    { OPTION_NUMBER, 0, "mixup-alpha", AT(mixup_alpha),
      "blend each image and its class with another one of the batch, with a weight from Beta(A, "
      "A); with --cutmix-alpha too, each batch uses one of the two; 0 = off",
      "A", 0, 1000, .fallback = "0", .optional = true, .images = true },
    { OPTION_NUMBER, 0, "cutmix-alpha", AT(cutmix_alpha),
      "replace a box of each image by that of another one of the batch, with an area from Beta(A, "
      "A), and mix their classes by area; 0 = off",
      "A", 0, 1000, .fallback = "0", .optional = true, .images = true },
    { OPTION_CHOICE, 0, "seeding", AT(seeding),
      "seeding of the random augmentation: sample = by sample; worker = by worker, as in "
      "PyTorch, so that the result depends on --workers",
      "sample|worker", .fallback = "sample", .images = true },

    { OPTION_HEADING, .help = "Model:" },
    { OPTION_TEXT, 0, "model", AT(model), "model: " MODEL_NAMES, "NAME", .fallback = "resnet20",
      .images = true },
    { OPTION_CHOICE, 0, "stem", AT(stem), STEM_HELP, "auto|small|large", .fallback = "auto" },
    { OPTION_SWITCH, 0, "parameter-free-shortcuts", AT(parameter_free_shortcuts), SHORTCUTS_HELP },
    { OPTION_SWITCH, 0, "zero-init-residual", AT(zero_init_residual),
      "initialize the weight of the last batch norm in each block with 0" },
    { OPTION_TEXT, 0, "weights", AT(weights),
      "begin with these weights: a checkpoint, a safetensors file or a PyTorch file (.pt, .pth) "
      "with "
      "torchvision's or timm's names",
      "FILE", .note = "random", .optional = true },
    { OPTION_SWITCH, 0, "new-head", AT(new_head),
      "with --weights: begin with a random last layer, for other classes than those of the file",
      .optional = true },
    { OPTION_TEXT, 0, "freeze", AT(freeze),
      "do not train parameters whose names match a pattern, such as 'conv1.*,bn1.*,layer[12].*'; "
      "batch norms whose weight and bias are frozen use their running statistics",
      "PATTERN,...", .note = "none", .optional = true },

    { OPTION_HEADING, .help = "Optimization:" },
    { OPTION_INTEGER, 0, "epochs", AT(epochs), "passes over the training images", "N", 1, 1e5,
      .fallback = "30", .lasting = true },
    { OPTION_INTEGER, 'b', "batch-size", AT(batch), "images per step", "N", 1, 1e5,
      .fallback = "128" },
    { OPTION_INTEGER, 0, "accumulate", AT(accumulate),
      "gradient accumulation: update after every N steps, and at the end of an epoch, with the "
      "mean of their gradients",
      "N", 1, 1e5, .fallback = "1", .optional = true },
    { OPTION_CHOICE, 0, "opt", AT(optimizer), "optimizer", "sgd|adam|adamw|rmsprop",
      .fallback = "sgd" },
    { OPTION_NUMBER, 0, "lr", AT(lr), "maximum learning rate of the schedule", "X", 1e-12, 1e3,
      .note = "sgd: 0.1 x images per update / 128; others: 0.001" },
    { OPTION_NUMBER, 0, "lr-per-256", AT(lr_per_256),
      "instead of --lr: the maximum learning rate is X x images per update / 256, which are batch "
      "size x --accumulate",
      "X", 1e-12, 1e3, .note = "none", .optional = true },
    { OPTION_NUMBER, 0, "momentum", AT(momentum), "momentum of sgd and rmsprop", "X", 0, 0.9999,
      .note = "sgd: 0.9; rmsprop: 0" },
    { OPTION_SWITCH, 0, "nesterov", AT(nesterov), "use Nesterov momentum" },
    { OPTION_NUMBER, 0, "weight-decay", AT(weight_decay),
      "weight decay (not applied to biases and batch norms)", "X", 0, 10,
      .note = "sgd: 0.0005; adam, rmsprop: 0; adamw: 0.01" },
    { OPTION_TEXT, 0, "param-groups", AT(groups),
      "parameters with their own learning rate or weight decay: PATTERN:lr-scale=X,weight-decay=X, "
      "separated by spaces; a parameter belongs to the last group whose pattern (* ? [..]) matches "
      "its name",
      "GROUPS", .note = "none", .optional = true },
    { OPTION_NUMBER, 0, "label-smoothing", AT(label_smoothing), "label smoothing", "X", 0, 0.99,
      .fallback = "0.1" },
    { OPTION_CHOICE, 0, "class-weights", AT(class_weights),
      "weights of the classes in the loss: none = 1 for each; balanced = by the inverse number of "
      "their training images",
      "none|balanced", .fallback = "none", .optional = true },
    { OPTION_NUMBER, 0, "clip-grad-norm", AT(clip_norm),
      "maximum norm of the gradients; 0 = no limit", "X", 0, 1e9, .fallback = "0" },
    { OPTION_NUMBER, 0, "clip-value", AT(clip_value),
      "maximum absolute value of each gradient element, after --clip-grad-norm; 0 = no limit", "X",
      0, 1e9, .fallback = "0", .optional = true },
    { OPTION_NUMBER, 0, "model-ema", AT(ema_decay),
      "decay of exponential moving averages of the weights, which are validated and saved as the "
      "best weights; 0 = none",
      "D", 0, 0.9999999, .fallback = "0", .optional = true },
    { OPTION_INTEGER, 0, "patience", AT(patience), "stop after N epochs without a better top-1",
      "N", 1, 1e5, .note = "off" },

    { OPTION_HEADING, .help = "Learning rate schedule:" },
    { OPTION_CHOICE, 0, "lr-scheduler", AT(schedule), "learning rate schedule",
      "cosine|constant|step|exponential|polynomial|onecycle|plateau|multistep|cosine-restarts",
      .fallback = "cosine" },
    { OPTION_INTEGER, 0, "lr-warmup-epochs", AT(warmup_epochs),
      "warm-up epochs, in which the learning rate increases to its maximum", "N", 0, 1e5,
      .note = "epochs / 10, at least 1; 0 with one epoch or onecycle" },
    { OPTION_NUMBER, 0, "lr-min", AT(min_lr),
      "minimum learning rate (cosine, cosine-restarts, polynomial, plateau)", "X", 0, 1e3,
      .note = "0" },
    { OPTION_INTEGER, 0, "lr-step-size", AT(step_size), "epochs between two decays (step)", "N", 1,
      1e5, .note = "30" },
    { OPTION_TEXT, 0, "lr-milestones", AT(milestones),
      "epochs before which the learning rate decays, counted from the end of the warm-up "
      "(multistep)",
      "N,N,...", .note = "required by multistep", .optional = true },
    { OPTION_INTEGER, 0, "lr-restart-epochs", AT(restart_epochs),
      "length of the first cosine (cosine-restarts); PyTorch: T_0", "N", 1, 1e5, .note = "10",
      .optional = true },
    { OPTION_INTEGER, 0, "lr-restart-mult", AT(restart_mult),
      "length of each cosine relative to the one before it (cosine-restarts); PyTorch: T_mult", "N",
      1, 1e5, .note = "2", .optional = true },
    { OPTION_NUMBER, 0, "lr-gamma", AT(gamma),
      "decay factor (step, multistep, exponential, plateau)", "X", 1e-6, 1,
      .note = "0.1; exponential: 0.95" },
    { OPTION_CHOICE, 0, "plateau-metric", AT(plateau_loss),
      "metric that must improve: validation top-1 or loss, or without validation that of training "
      "(plateau)",
      "top1|loss", .fallback = "top1", .optional = true },
    { OPTION_NUMBER, 0, "lr-power", AT(power), "exponent (polynomial)", "X", 0.01, 100,
      .note = "1" },

    { OPTION_HEADING, .help = "Execution:" },
    { OPTION_TEXT, 0, "device", AT(device), DEVICE_HELP, "NAME", .fallback = "cpu" },
    { OPTION_CHOICE, 0, "precision", AT(precision), PRECISION_HELP, PRECISION_NAMES,
      .fallback = "f32" },
    { OPTION_INTEGER, 0, "threads", AT(threads), THREADS_HELP, "N", 0, 1024,
      .note = "one per processor", .execution = true },
    { OPTION_CHOICE, 0, "deterministic", AT(deterministic), DETERMINISTIC_HELP, "strict|warn|off",
      .fallback = "strict" },
    { OPTION_SWITCH, 0, "benchmark", AT(benchmark), BENCHMARK_HELP },
    { OPTION_TEXT, 0, "algorithm-cache", AT(algorithm_cache),
      "algorithm cache file of a new run: read if it exists; with --benchmark, written after "
      "timing",
      "FILE", .note = "none" },
    { OPTION_SWITCH, 0, "nvtx", AT(nvtx),
      "run op by op with a named NVTX range for each, for NVIDIA's profilers; CUDA only",
      .execution = true },

    { OPTION_HEADING, .help = "Run:" },
    { OPTION_INTEGER, 0, "seed", AT(seed), "random seed", "S", 0, 9e18, .fallback = "0",
      .images = true },
    { OPTION_INTEGER, 0, "steps", AT(steps),
      "complete the run after N steps; the learning rate schedule still covers --epochs", "N", 1,
      1e12, .note = "all epochs", .execution = true },
    { OPTION_INTEGER, 0, "stop-at", AT(stop_at),
      "save and interrupt the run after N steps, as a signal would; --resume RUN continues it", "N",
      1, 1e12, .note = "none", .execution = true },
    { OPTION_TEXT, 0, "inject-fault", AT(fault),
      "add one ulp to one element of one op's output in one step, to test 'lockstep compare'",
      "STEP:OP:ELEMENT", .note = "none", .execution = true },

    { OPTION_HEADING, .help = "Output and checkpoints:" },
    { OPTION_TEXT, 0, "out", AT(out), "new folder for the run", "RUN",
      .note = "run, or run-2, run-3, ...", .execution = true },
    { OPTION_INTEGER, 0, "checkpoint-every", AT(checkpoint_every),
      "save every N steps, and after each epoch", "N", 1, 1e12, .note = "after each epoch",
      .execution = true },
    { OPTION_SWITCH, 0, "keep-checkpoints", AT(keep_checkpoints),
      "keep each checkpoint as checkpoint-STEP.safetensors", .execution = true },
    { OPTION_TEXT, 0, "resume", AT(resume), "resume the run in this folder", "RUN", .note = "none",
      .execution = true },
    { OPTION_SWITCH, 0, "force", AT(force),
      "resume although dataset, kernels, libraries or processor differ", .execution = true },
    { .kind = OPTION_END },
};

/* ---- Defaults, and options without an effect ---- */

enum { MAX_MILESTONES = 64 };

/* Reads "30,60,90" and returns the number of epochs; on failure prints the reason and returns 0. */
static int read_milestones(const char *text, int out[MAX_MILESTONES])
{
    if (!text) return fail_with(0, "--lr-scheduler multistep requires --lr-milestones N,N,...");
    const char *at = text;
    for (int n = 0, last = 0, length = 0; n < MAX_MILESTONES; at += length + 1, last = out[n++]) {
        if (sscanf(at, "%6d%n", &out[n], &length) != 1 || out[n] <= last) break;
        if (at[length] == '\0') return n + 1;
        if (at[length] != ',') break;
    }
    return fail_with(
        0, "--lr-milestones '%s': expected at most %d ascending epochs above 0, such as 30,60,80",
        text, (int)MAX_MILESTONES);
}

/* 1 for 'augment', which has no --accumulate, and for runs of versions without it. */
static int64_t batches_per_update(const recipe *r)
{
    return r->accumulate > 1 ? r->accumulate : 1;
}

/* Values that exclude each other, and limits that are not in the table. */
static bool check_values(const recipe *r)
{
    if (r->lr < 1e-12 || r->lr > 1e3)
        return fail_with(false,
                         "%s: the learning rate for %lld images per update would be %g, expected "
                         "1e-12 to 1000",
                         r->lr_per_256 > 0 ? "--lr-per-256" : "without --lr",
                         (long long)(r->batch * batches_per_update(r)), r->lr);
    if (r->sampler == LS_SAMPLER_BALANCED && r->class_weights)
        return fail_with(false,
                         "--sampler balanced and --class-weights balanced exclude each other: "
                         "together they would overweight rare classes");
    const struct {
        const char *option;
        double value, least;
    } limits[] = { { "mixup-alpha", r->mixup_alpha, 0.001 },
                   { "cutmix-alpha", r->cutmix_alpha, 0.001 },
                   { "clip-grad-norm", r->clip_norm, 1e-30 }, /* smaller ones are 0 as floats */
                   { "clip-value", r->clip_value, 1e-30 } };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i].value > 0 && limits[i].value < limits[i].least)
            return fail_with(false, "--%s %g: expected 0, or at least %g", limits[i].option,
                             limits[i].value, limits[i].least);
    if (r->min_lr > r->lr)
        return fail_with(false, "--lr-min %g is above --lr %g", r->min_lr, r->lr);
    if (r->schedule == LS_SCHEDULE_REDUCE_ON_PLATEAU && r->gamma >= 1)
        return fail_with(false,
                         "--lr-gamma %g: expected less than 1, because plateau would never lower "
                         "the learning rate",
                         r->gamma);
    return true;
}

static bool check_options(const cli_parsed *parsed, const recipe *r)
{
    const bool sgd = r->optimizer == OPT_SGD, small = r->image_size < SMALL_IMAGE_SIZE;
    const bool plateau = r->schedule == LS_SCHEDULE_REDUCE_ON_PLATEAU;
    const bool step = r->schedule == LS_SCHEDULE_STEP;
    const bool polynomial = r->schedule == LS_SCHEDULE_POLYNOMIAL;
    const bool cosine = r->schedule == LS_SCHEDULE_COSINE;
    const ls_model *model = ls_model_find(r->model);
    const bool multi_step = r->schedule == LS_SCHEDULE_MULTI_STEP;
    const bool restarts = r->schedule == LS_SCHEDULE_COSINE_RESTARTS;
    const struct {
        const char *option;
        bool has_effect;
        const char *when;
    } table[] = {
        { "val-split", !r->no_val, "validation, without --no-val" },
        { "val-split-seed", r->val_split > 0, "--val-split" },
        { "crop-padding", small, "images under 64 pixels" },
        { "scale-min", !small, "images of 64 pixels or more" },
        { "new-head", r->weights != NULL, "--weights" },
        { "momentum", sgd || r->optimizer == OPT_RMSPROP, "--opt sgd or rmsprop" },
        { "nesterov", sgd && r->momentum > 0, "--opt sgd and a momentum" },
        { "lr-warmup-epochs", r->schedule != LS_SCHEDULE_ONE_CYCLE,
          "an --lr-scheduler other than onecycle" },
        { "lr-min", cosine || restarts || polynomial || plateau,
          "--lr-scheduler cosine, cosine-restarts, polynomial or plateau" },
        { "lr-step-size", step, "--lr-scheduler step" },
        { "lr-milestones", multi_step, "--lr-scheduler multistep" },
        { "lr-restart-epochs", restarts, "--lr-scheduler cosine-restarts" },
        { "lr-restart-mult", restarts, "--lr-scheduler cosine-restarts" },
        { "lr-gamma", step || multi_step || plateau || r->schedule == LS_SCHEDULE_EXPONENTIAL,
          "--lr-scheduler step, multistep, exponential or plateau" },
        { "plateau-metric", plateau, "--lr-scheduler plateau" },
        { "lr-power", polynomial, "--lr-scheduler polynomial" },
    };
    if (model && !check_resnet_options(parsed, model)) return false;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (options_given(parsed, table[i].option) && !table[i].has_effect)
            return fail_with(false, "--%s has no effect here: it requires %s", table[i].option,
                             table[i].when);
    if (r->new_head && !r->weights)
        return fail_with(false, "--recipe finetune requires --weights FILE");
    if (options_given(parsed, "lr") && options_given(parsed, "lr-per-256"))
        return fail_with(false, "--lr and --lr-per-256 exclude each other");
    if (!check_values(r)) return false;
    parameter_groups groups;
    if (!parameter_groups_read(r->groups, &groups)) return false;
    int milestones[MAX_MILESTONES];
    return !multi_step || read_milestones(r->milestones, milestones) > 0;
}

bool recipe_resolve(cli_parsed *parsed, recipe *r)
{
    recipe_apply_preset(parsed, r);
    const ls_model *model = find_model(r->model);
    if (!model) return false;
    if (!r->image_size) r->image_size = model->image_size;
    const bool sgd = r->optimizer == OPT_SGD, small = r->image_size < SMALL_IMAGE_SIZE;
    static const double weight_decay[] = { 5e-4, 0, 0.01, 0 }; /* by cli_optimizer */
    const int64_t warmup = r->epochs / 10 > 1 ? r->epochs / 10 : r->epochs > 1;

#define DEFAULT(option, member, value)                                                             \
    if (!options_is_set(parsed, option)) r->member = (value)
    DEFAULT("workers", workers, default_workers());
    DEFAULT("crop-padding", crop_padding, small ? 4 : 0);
    DEFAULT("scale-min", scale_min, small ? 0 : 0.35);
    const double images = (double)(r->batch * batches_per_update(r));
    DEFAULT("lr", lr,
            options_round(r->lr_per_256 > 0 ? r->lr_per_256 * images / 256
                          : sgd             ? 0.1 * images / 128
                                            : 0.001));
    DEFAULT("momentum", momentum, sgd ? 0.9 : 0);
    DEFAULT("weight-decay", weight_decay, weight_decay[r->optimizer]);
    DEFAULT("lr-warmup-epochs", warmup_epochs, r->schedule == LS_SCHEDULE_ONE_CYCLE ? 0 : warmup);
    DEFAULT("lr-step-size", step_size, 30);
    DEFAULT("lr-restart-epochs", restart_epochs, 10);
    DEFAULT("lr-restart-mult", restart_mult, 2);
    DEFAULT("lr-gamma", gamma, r->schedule == LS_SCHEDULE_EXPONENTIAL ? 0.95 : 0.1);
    DEFAULT("lr-power", power, 1);
#undef DEFAULT
    if (r->warmup_epochs >= r->epochs)
        return fail_with(false, "--lr-warmup-epochs %lld: expected less than --epochs %lld",
                         (long long)r->warmup_epochs, (long long)r->epochs);
    if (!check_options(parsed, r)) return false;
    recipe_print_preset(parsed, r);
    return true;
}

bool recipe_can_be_extended(const recipe *r)
{
    return r->schedule != LS_SCHEDULE_COSINE && r->schedule != LS_SCHEDULE_POLYNOMIAL &&
           r->schedule != LS_SCHEDULE_ONE_CYCLE;
}

bool recipe_may_resume(const json_t *stored, const recipe *r)
{
    const long long epochs = ls__json_get_integer(stored, "epochs");
    if (r->epochs < epochs)
        return fail_with(false,
                         "--epochs %lld: the run has %lld; a run can be extended, not shortened; "
                         "--stop-at ends it earlier",
                         (long long)r->epochs, epochs);
    if (r->epochs == epochs || recipe_can_be_extended(r)) return true;
    const char *schedule = ls__json_get_string(stored, "lr-scheduler");
    return fail_with(
        false,
        "--epochs %lld: the learning rates of --lr-scheduler %s depend on the number of epochs, "
        "%lld, so the completed steps would differ; start a new run with --epochs %lld (runs with "
        "constant, step, multistep, exponential, plateau and cosine-restarts can be extended)",
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

bool recipe_mixes(const recipe *r)
{
    return r->mixup_alpha > 0 || r->cutmix_alpha > 0;
}

ls_loader_config recipe_train_loader(const recipe *r)
{
    const bool small = r->image_size < SMALL_IMAGE_SIZE;
    return (ls_loader_config){
        .batch_size = r->batch,
        .workers = (int)r->workers,
        .shuffle = true,
        .sampler = (ls_sampler)r->sampler,
        .drop_last = true,
        .honour_exif = r->exif,
        .decode = (ls_decode)r->decode,
        .on_bad_image = (ls_bad_image)r->on_bad_image,
        .max_pixels = r->max_pixels,
        .grey = r->grey,
        .seeding = (ls_seeding)r->seeding,
        .resize = small ? r->image_size : 0,
        .crop = r->image_size,
        .crop_padding = r->crop_padding,
        .random_resized_crop = !small,
        .scale_min = (float)r->scale_min,
        .scale_max = small ? 0 : 1,
        .flip_probability = (float)r->flip,
        .vertical_flip_probability = (float)r->vertical_flip,
        .auto_augment = (ls_auto_augment)r->auto_augment,
        .brightness = (float)r->brightness,
        .contrast = (float)r->contrast,
        .saturation = (float)r->saturation,
        .hue = (float)r->hue,
        .random_erase = (float)r->random_erase,
        .mixup_alpha = (float)r->mixup_alpha,
        .cutmix_alpha = (float)r->cutmix_alpha,
    };
}

ls_loader_config recipe_val_loader(const recipe *r, const ls_model_info *info)
{
    ls_loader_config config = ls_model_info_loader_config(info, r->batch);
    config.workers = (int)r->workers;
    config.on_bad_image = (ls_bad_image)r->on_bad_image;
    config.max_pixels = r->max_pixels;
    return config;
}

ls_optimizer *recipe_open_optimizer(const recipe *r, ls_net *net)
{
    const float weight_decay = (float)r->weight_decay, clip_norm = (float)r->clip_norm,
                clip_value = (float)r->clip_value, ema_decay = (float)r->ema_decay;
    parameter_groups groups;
    if (!parameter_groups_read(r->groups, &groups)) return NULL;
    const ls_parameter_group *items = groups.n > 0 ? groups.items : NULL;
    const ls_sgd_config sgd = { .momentum = (float)r->momentum,
                                .nesterov = r->nesterov,
                                .weight_decay = weight_decay,
                                .weight_decay_scope = LS_WEIGHT_DECAY_WEIGHTS,
                                .groups = items,
                                .n_groups = groups.n,
                                .clip_norm = clip_norm,
                                .clip_value = clip_value,
                                .ema_decay = ema_decay,
                                .accumulate = r->accumulate };
    const ls_adam_config adam = { .weight_decay = weight_decay > 0 ? weight_decay : LS_ZERO,
                                  .weight_decay_scope = LS_WEIGHT_DECAY_WEIGHTS,
                                  .groups = items,
                                  .n_groups = groups.n,
                                  .clip_norm = clip_norm,
                                  .clip_value = clip_value,
                                  .ema_decay = ema_decay,
                                  .accumulate = r->accumulate };
    const ls_rmsprop_config rmsprop = { .momentum = (float)r->momentum,
                                        .weight_decay = weight_decay,
                                        .weight_decay_scope = LS_WEIGHT_DECAY_WEIGHTS,
                                        .groups = items,
                                        .n_groups = groups.n,
                                        .clip_norm = clip_norm,
                                        .clip_value = clip_value,
                                        .ema_decay = ema_decay,
                                        .accumulate = r->accumulate };
    switch ((cli_optimizer)r->optimizer) {
    case OPT_SGD: return ls_sgd(net, &sgd);
    case OPT_ADAM: return ls_adam(net, &adam);
    case OPT_ADAMW: return ls_adamw(net, &adam);
    case OPT_RMSPROP: return ls_rmsprop(net, &rmsprop);
    }
    return NULL;
}

ls_schedule *recipe_open_schedule(const recipe *r, ls_context *ctx, int64_t steps_per_epoch)
{
    const bool plateau = r->schedule == LS_SCHEDULE_REDUCE_ON_PLATEAU;
    const bool step = r->schedule == LS_SCHEDULE_STEP;
    const bool multi_step = r->schedule == LS_SCHEDULE_MULTI_STEP;
    const bool restarts = r->schedule == LS_SCHEDULE_COSINE_RESTARTS;
    const bool has_gamma = step || multi_step || plateau || r->schedule == LS_SCHEDULE_EXPONENTIAL;
    const int64_t updates = (steps_per_epoch + batches_per_update(r) - 1) / batches_per_update(r);
    int milestones[MAX_MILESTONES];
    const int n_milestones = multi_step ? read_milestones(r->milestones, milestones) : 0;
    const ls_schedule_config config = {
        .kind = (ls_schedule_kind)r->schedule,
        .lr = r->lr,
        .min_lr = r->min_lr,
        .gamma = has_gamma ? r->gamma : 0,
        .step_size = step ? r->step_size : 0,
        .milestones = n_milestones > 0 ? milestones : NULL,
        .n_milestones = n_milestones,
        .t_0 = restarts ? r->restart_epochs : 0,
        .t_mult = restarts ? r->restart_mult : 0,
        .power = r->schedule == LS_SCHEDULE_POLYNOMIAL ? r->power : 0,
        .epochs = recipe_can_be_extended(r) ? 0 : r->epochs,
        .maximize = plateau && !r->plateau_loss,
        .steps_per_epoch = updates,
        .warmup_epochs = r->warmup_epochs,
    };
    return ls_schedule_open(ctx, &config);
}
