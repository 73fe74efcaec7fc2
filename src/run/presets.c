/* presets.c: the values that --recipe sets. */
#include "run/settings.h"
#include <string.h>

/* A row has a setting's value in each preset, as typed, in the order of --recipe's words without
 * "none": cifar (small images, from random weights), imagenet (torchvision's reference training of
 * ResNet-50), finetune (photographs, from the weights of --weights), small (a few thousand
 * photographs or fewer, from random weights). NULL = not set; "" for a switch. Values that belong
 * to an optimizer, a schedule, an image size or a resize are not set if another one is given. */
static const struct preset_row {
    const char *name, *values[4];
    const char *unless[2]; /* not set if one of these settings is given */
} rows[] = {
    { "model", { "resnet20", "resnet50", "resnet18", "resnet18" } },
    { "image-size", { "32", "224", "224", "128" } },
    { "crop-padding", { "4" }, { "image-size", "resize" } },
    { "scale-min", { NULL, "0.08", "0.35", "0.25" }, { "image-size", "resize" } },
    { "new-head", { NULL, NULL, "" } },
    { "auto-augment", { NULL, NULL, NULL, "trivial" } },
    { "random-erase", { NULL, NULL, NULL, "0.1" } },
    { "epochs", { "30", "90", "10", "60" } },
    { "batch-size", { "128", "256", "32", "32" } },
    { "opt", { "sgd", "sgd", "sgd", "sgd" } },
    { "lr-per-256", { "0.4", "0.1", "0.04", "0.1" }, { "opt", "lr" } },
    { "momentum", { "0.9", "0.9", "0.9", "0.9" }, { "opt" } },
    { "nesterov", { "", NULL, NULL, "" }, { "opt", "momentum" } },
    { "weight-decay", { "0.0005", "0.0001", "0.0001", "0.0005" }, { "opt" } },
    { "label-smoothing", { "0", "0", "0.1", "0.1" } },
    { "lr-scheduler", { "cosine", "step", "cosine", "cosine" } },
    { "lr-warmup-epochs", { NULL, "0" }, { "lr-scheduler" } },
    { "lr-step-size", { NULL, "30" }, { "lr-scheduler" } },
    { "lr-gamma", { NULL, "0.1" }, { "lr-scheduler" } },
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* The value that the preset sets, or NULL: the setting and what excludes it are not given. */
static const char *value_of(const ls_given *given, const ls__run_settings *r, int i)
{
    const struct preset_row *row = &rows[i];
    if (r->preset == 0 || ls_given_has(given, row->name)) return NULL;
    if (r->loss != LS__LOSS_CROSS_ENTROPY && strcmp(row->name, "label-smoothing") == 0) return NULL;
    for (int k = 0; k < 2 && row->unless[k]; k++)
        if (ls_given_has(given, row->unless[k])) return NULL;
    return row->values[r->preset - 1];
}

void ls__run_settings_apply_preset(ls_given *given, ls__run_settings *r)
{
    for (int i = 0; i < N_ROWS; i++) {
        const char *value = value_of(given, r, i);
        if (value) ls__given_preset(given, rows[i].name, value, r);
    }
}

bool ls__run_settings_preset_at(const ls_given *given, const ls__run_settings *r, int i,
                                const char **name, const char **value)
{
    for (int k = 0; k < N_ROWS; k++) {
        *name = rows[k].name;
        *value = value_of(given, r, k);
        if (*value && ls__given_sets(given, *name) && i-- == 0) return true;
    }
    return false;
}
