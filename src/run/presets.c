/* presets.c: the values that --recipe sets. */
#include "run/settings.h"
#include <string.h>

typedef struct preset_value {
    const char *name, *value; /* as typed; "" for a switch */
    const char *unless[2];    /* not set if one of these settings is given */
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

/* Whether the preset sets the value: neither it nor what excludes it is given. */
static bool applies(const ls_given *given, const ls__run_settings *r, const preset_value *v)
{
    if (r->loss != LS__LOSS_CROSS_ENTROPY && strcmp(v->name, "label-smoothing") == 0) return false;
    bool excluded = ls_given_has(given, v->name);
    for (int i = 0; i < 2 && v->unless[i]; i++) excluded |= ls_given_has(given, v->unless[i]);
    return !excluded;
}

void ls__run_settings_apply_preset(ls_given *given, ls__run_settings *r)
{
    for (const preset_value *v = presets[r->preset]; v->name; v++)
        if (applies(given, r, v)) ls__given_preset(given, v->name, v->value, r);
}

bool ls__run_settings_preset_at(const ls_given *given, const ls__run_settings *r, int i,
                                const char **name, const char **value)
{
    for (const preset_value *v = presets[r->preset]; v->name; v++) {
        if (!ls__given_sets(given, v->name) || !applies(given, r, v) || i-- > 0) continue;
        *name = v->name;
        *value = v->value;
        return true;
    }
    return false;
}
