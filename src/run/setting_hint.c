/* setting_hint.c: which setting was meant, also by the names of other training programs; see
 * lockstep/settings.h. */
#include <lockstep/settings.h>

#include "base/text.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Names of PyTorch's and torchvision's reference scripts, timm, ultralytics, fastai, Keras,
 * Lightning and Hugging Face that edit distance does not lead to the right option. The first row
 * whose setting the table has is meant. */
static const struct {
    const char *option, *names; /* "|NAME|NAME|" */
} foreign[] = {
    { "accumulate", "|accumulate-grad-batches|grad-accum-steps|gradient-accumulation-steps|" },
    { "auto-augment", "|aa|degrees|" },
    { "batch-size", "|batch|bs|per-device-train-batch-size|" },
    { "brightness", "|color-jitter|hsv-v|" },
    { "checkpoint", "|ckpt|ckpt-path|load|model-path|pretrained|weights|" },
    { "checkpoint-every", "|save-every|save-period|save-steps|" },
    { "clip-grad-norm", "|clip-grad|gradient-clip-val|gradient-clip-value|max-grad-norm|" },
    { "cutmix-alpha", "|cutmix|" },
    { "data-dir", "|data|data-path|data-root|dataset|root|source|train-dir|" },
    { "device", "|accelerator|cuda|devices|gpu|gpus|" },
    { "epochs", "|max-epochs|num-epochs|num-train-epochs|" },
    { "flip", "|fliplr|hflip|" },
    { "hue", "|hsv-h|" },
    { "image-size", "|img|imgsz|input-size|" },
    { "label-smoothing", "|smoothing|" },
    { "log-every", "|log-interval|logging-steps|print-freq|" },
    { "lr", "|learning-rate|max-lr|" },
    { "lr-gamma", "|decay-rate|" },
    { "lr-min", "|lrf|min-lr|" },
    { "lr-scheduler", "|cos-lr|lr-policy|lrs|sched|scheduler|" },
    { "lr-warmup-epochs", "|warmup|warmup-epochs|" },
    { "metric", "|early-stopping-metric|eval-metric|monitor|" },
    { "mixup-alpha", "|mixup|" },
    { "model", "|arch|backbone|net|network|" },
    { "model-ema", "|ema|ema-decay|" },
    { "no-val", "|no-validation|" },
    { "opt", "|optim|optimizer|" },
    { "out", "|experiment|name|output|output-dir|project|save-dir|" },
    { "patience", "|early-stop|early-stopping|early-stopping-patience|" },
    { "precision", "|amp|bf16|dtype|fp16|mixed-precision|" },
    { "random-erase", "|erasing|reprob|" },
    { "resume", "|ckpt-path|" },
    { "saturation", "|hsv-s|" },
    { "seed", "|random-state|" },
    { "steps", "|max-steps|" },
    { "val-split", "|split-ratio|test-size|val-ratio|val-size|valid-pct|validation-split|" },
    { "vertical-flip", "|flipud|vflip|" },
    { "weight-decay", "|wd|" },
    { "weights", "|ckpt|finetune|from-pretrained|initial-checkpoint|load|model-path|pretrained|" },
    { "workers", "|num-workers|nw|" },
};

/* Whether both names are equal but for the case of letters, and _ for -. */
static bool is_same_name(const char *typed, const char *name)
{
    for (; *typed && *name; typed++, name++)
        if ((*typed == '_' ? '-' : tolower((unsigned char)*typed)) != *name) return false;
    return *typed == *name;
}

/* Whether "|NAME|NAME|" has the name. */
static bool has_name(const char *names, const char *typed)
{
    char name[40];
    for (const char *at = names; at[1]; at += strlen(name) + 1) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 1, "|"), at + 1);
        if (is_same_name(typed, name)) return true;
    }
    return false;
}

/* The setting of the table that is meant by another program's name, or NULL. */
static const char *find_foreign(const ls_setting *table, const char *name)
{
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        const char *option = foreign[i].option;
        if (ls_setting_find(table, option, strlen(option)) >= 0 && has_name(foreign[i].names, name))
            return option;
    }
    return NULL;
}

const char *ls_setting_hint(const ls_setting *table, const char *name, const char *dashes,
                            const char *otherwise, char out[LS_HINT_SIZE])
{
    const char *words[LS_MAX_SETTINGS], *meant = NULL;
    int n = 0;
    for (const ls_setting *s = table; s->kind != LS_SETTING_END && n < LS_MAX_SETTINGS; s++) {
        if (!s->name) continue;
        if (!meant && is_same_name(name, s->name)) meant = s->name;
        words[n++] = s->name;
    }
    if (!meant) meant = find_foreign(table, name);
    if (!meant) return ls_closest_hint(name, n, words, dashes, otherwise, out);
    ls__snprintf(out, LS_HINT_SIZE, "; did you mean '%s%s'?", dashes, meant);
    return out;
}
