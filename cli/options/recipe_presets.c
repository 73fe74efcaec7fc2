/* recipe_presets.c: the values that --recipe sets. */
#include "options/recipe.h"
#include <string.h>

typedef struct preset_value {
    const char *name, *value; /* as typed; "" for a switch */
    const char *unless[2];    /* not set if one of these options is given */
} preset_value;

enum { MAX_VALUES = 16 };

#define MOMENTUM_ONLY .unless = { "opt", "momentum" }
#define SGD_ONLY      .unless = { "opt" }
#define LR_ONLY       .unless = { "opt", "lr" }
#define SIZE_ONLY     .unless = { "image-size", "resize" }
#define STEP_ONLY     .unless = { "lr-scheduler" }

/* By the words of --recipe. Values that belong to an optimizer, a schedule, an image size or a
 * resize are not set if another one is given. */
static const preset_value presets[][MAX_VALUES] = {
    { { NULL } }, /* none */
    {             /* cifar: small images, from random weights */
      { "model", "resnet20" },
      { "image-size", "32" },
      { "crop-padding", "4", SIZE_ONLY },
      { "epochs", "30" },
      { "batch-size", "128" },
      { "opt", "sgd" },
      { "lr-per-256", "0.4", LR_ONLY },
      { "momentum", "0.9", SGD_ONLY },
      { "nesterov", "", MOMENTUM_ONLY },
      { "weight-decay", "0.0005", SGD_ONLY },
      { "label-smoothing", "0" },
      { "lr-scheduler", "cosine" } },
    { /* imagenet: as torchvision's reference training of ResNet-50 */
      { "model", "resnet50" },
      { "image-size", "224" },
      { "scale-min", "0.08", SIZE_ONLY },
      { "epochs", "90" },
      { "batch-size", "256" },
      { "opt", "sgd" },
      { "lr-per-256", "0.1", LR_ONLY },
      { "momentum", "0.9", SGD_ONLY },
      { "weight-decay", "0.0001", SGD_ONLY },
      { "label-smoothing", "0" },
      { "lr-scheduler", "step" },
      { "lr-warmup-epochs", "0", STEP_ONLY },
      { "lr-step-size", "30", STEP_ONLY },
      { "lr-gamma", "0.1", STEP_ONLY } },
    { /* finetune: photographs, from the weights of --weights */
      { "model", "resnet18" },
      { "image-size", "224" },
      { "scale-min", "0.35", SIZE_ONLY },
      { "new-head", "" },
      { "epochs", "10" },
      { "batch-size", "32" },
      { "opt", "sgd" },
      { "lr-per-256", "0.04", LR_ONLY },
      { "momentum", "0.9", SGD_ONLY },
      { "weight-decay", "0.0001", SGD_ONLY },
      { "label-smoothing", "0.1" },
      { "lr-scheduler", "cosine" } },
    { /* small: a few thousand photographs or fewer, from random weights */
      { "model", "resnet18" },
      { "image-size", "128" },
      { "scale-min", "0.25", SIZE_ONLY },
      { "auto-augment", "trivial" },
      { "random-erase", "0.1" },
      { "epochs", "60" },
      { "batch-size", "32" },
      { "opt", "sgd" },
      { "lr-per-256", "0.1", LR_ONLY },
      { "momentum", "0.9", SGD_ONLY },
      { "nesterov", "", MOMENTUM_ONLY },
      { "weight-decay", "0.0005", SGD_ONLY },
      { "label-smoothing", "0.1" },
      { "lr-scheduler", "cosine" } },
};

/* Whether the value is one of the recipe: it or what excludes it is not given. */
static bool applies(const cli_parsed *parsed, const recipe *r, const preset_value *v)
{
    if (r->loss != LOSS_CROSS_ENTROPY && strcmp(v->name, "label-smoothing") == 0) return false;
    bool given = options_given(parsed, v->name);
    for (int i = 0; i < 2 && v->unless[i]; i++) given |= options_given(parsed, v->unless[i]);
    return !given;
}

void recipe_apply_preset(cli_parsed *parsed, recipe *r)
{
    for (const preset_value *v = presets[r->preset]; v->name; v++)
        if (applies(parsed, r, v)) options_preset(parsed, v->name, v->value, r);
}

void recipe_print_preset(const cli_parsed *parsed, const recipe *r)
{
    if (print_is_quiet() || !options_given(parsed, "recipe")) return;
    field_line line = begin_fields(stdout);
    print_field(&line, "recipe  %s", parsed->given[option_find(parsed->options, "recipe", 6)]);
    for (const preset_value *v = presets[r->preset]; v->name; v++)
        if (options_is_set(parsed, v->name) && applies(parsed, r, v))
            print_field(&line, "--%s%s%s", v->name, *v->value ? " " : "", v->value);
    end_fields(&line);
}
