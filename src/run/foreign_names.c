/* foreign_names.c: which setting is meant by an unknown name; the names that other training
 * programs give to settings; see setting.h. */
#include "run/closest.h"
#include "run/setting.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { N_MEANT = 2 };

/* Names of PyTorch's and torchvision's reference scripts, timm, ultralytics, fastai, Keras,
 * Lightning and Hugging Face that edit distance does not lead to the right option. The first of the
 * settings that the table has is meant. */
static const struct {
    const char *name, *settings[N_MEANT];
} foreign[] = {
    { "accelerator", { "device" } },
    { "accumulate-grad-batches", { "accumulate" } },
    { "aa", { "auto-augment" } },
    { "amp", { "precision" } },
    { "arch", { "model" } },
    { "backbone", { "model" } },
    { "batch", { "batch-size" } },
    { "bf16", { "precision" } },
    { "bs", { "batch-size" } },
    { "ckpt", { "checkpoint", "weights" } },
    { "ckpt-path", { "checkpoint", "resume" } },
    { "clip-grad", { "clip-grad-norm" } },
    { "color-jitter", { "brightness" } },
    { "cos-lr", { "lr-scheduler" } },
    { "cuda", { "device" } },
    { "data", { "data-dir" } },
    { "data-path", { "data-dir" } },
    { "data-root", { "data-dir" } },
    { "dataset", { "data-dir" } },
    { "decay-rate", { "lr-gamma" } },
    { "degrees", { "auto-augment" } },
    { "devices", { "device" } },
    { "dtype", { "precision" } },
    { "early-stop", { "patience" } },
    { "early-stopping", { "patience" } },
    { "early-stopping-patience", { "patience" } },
    { "ema", { "model-ema" } },
    { "ema-decay", { "model-ema" } },
    { "erasing", { "random-erase" } },
    { "experiment", { "out" } },
    { "finetune", { "weights" } },
    { "fliplr", { "flip" } },
    { "flipud", { "vertical-flip" } },
    { "fp16", { "precision" } },
    { "from-pretrained", { "weights" } },
    { "gpu", { "device" } },
    { "gpus", { "device" } },
    { "grad-accum-steps", { "accumulate" } },
    { "gradient-accumulation-steps", { "accumulate" } },
    { "gradient-clip-val", { "clip-grad-norm" } },
    { "gradient-clip-value", { "clip-grad-norm" } },
    { "hflip", { "flip" } },
    { "hsv-h", { "hue" } },
    { "hsv-s", { "saturation" } },
    { "hsv-v", { "brightness" } },
    { "imgsz", { "image-size" } },
    { "img", { "image-size" } },
    { "initial-checkpoint", { "weights" } },
    { "input-size", { "image-size" } },
    { "learning-rate", { "lr" } },
    { "load", { "checkpoint", "weights" } },
    { "log-interval", { "log-every" } },
    { "logging-steps", { "log-every" } },
    { "lr-policy", { "lr-scheduler" } },
    { "lrf", { "lr-min" } },
    { "lrs", { "lr-scheduler" } },
    { "max-epochs", { "epochs" } },
    { "max-grad-norm", { "clip-grad-norm" } },
    { "max-lr", { "lr" } },
    { "max-steps", { "steps" } },
    { "min-lr", { "lr-min" } },
    { "monitor", { "metric" } },
    { "early-stopping-metric", { "metric" } },
    { "eval-metric", { "metric" } },
    { "mixed-precision", { "precision" } },
    { "mixup", { "mixup-alpha" } },
    { "cutmix", { "cutmix-alpha" } },
    { "model-path", { "checkpoint", "weights" } },
    { "name", { "out" } },
    { "net", { "model" } },
    { "network", { "model" } },
    { "no-validation", { "no-val" } },
    { "num-epochs", { "epochs" } },
    { "num-train-epochs", { "epochs" } },
    { "num-workers", { "workers" } },
    { "nw", { "workers" } },
    { "optim", { "opt" } },
    { "optimizer", { "opt" } },
    { "output", { "out" } },
    { "output-dir", { "out" } },
    { "per-device-train-batch-size", { "batch-size" } },
    { "pretrained", { "weights", "checkpoint" } },
    { "print-freq", { "log-every" } },
    { "project", { "out" } },
    { "random-state", { "seed" } },
    { "reprob", { "random-erase" } },
    { "root", { "data-dir" } },
    { "save-dir", { "out" } },
    { "save-every", { "checkpoint-every" } },
    { "save-period", { "checkpoint-every" } },
    { "save-steps", { "checkpoint-every" } },
    { "sched", { "lr-scheduler" } },
    { "scheduler", { "lr-scheduler" } },
    { "smoothing", { "label-smoothing" } },
    { "source", { "data-dir" } },
    { "split-ratio", { "val-split" } },
    { "train-dir", { "data-dir" } },
    { "valid-pct", { "val-split" } },
    { "validation-split", { "val-split" } },
    { "val-ratio", { "val-split" } },
    { "val-size", { "val-split" } },
    { "test-size", { "val-split" } },
    { "vflip", { "vertical-flip" } },
    { "warmup", { "lr-warmup-epochs" } },
    { "warmup-epochs", { "lr-warmup-epochs" } },
    { "wd", { "weight-decay" } },
    { "weights", { "checkpoint" } },
};

/* Whether both names are equal but for the case of letters, and _ for -. */
static bool is_same_name(const char *typed, const char *name)
{
    for (; *typed && *name; typed++, name++)
        if ((*typed == '_' ? '-' : tolower((unsigned char)*typed)) != *name) return false;
    return *typed == *name;
}

const char *ls__setting_meant(const ls__setting *table, const char *name)
{
    const size_t n = sizeof(foreign) / sizeof(foreign[0]);
    size_t i = 0;
    for (const ls__setting *s = table; s->kind != LS__SETTING_END; s++)
        if (s->name && is_same_name(name, s->name)) return s->name;
    while (i < n && !is_same_name(name, foreign[i].name)) i++;
    for (int k = 0; i < n && k < N_MEANT; k++) {
        const char *meant = foreign[i].settings[k];
        if (meant && ls__setting_find(table, meant, strlen(meant)) >= 0) return meant;
    }
    return NULL;
}

const char *ls__setting_hint(const ls__setting *table, const char *name, const char *dashes,
                             const char *otherwise, char out[LS__HINT_SIZE])
{
    const char *meant = ls__setting_meant(table, name), *words[LS__MAX_SETTINGS];
    int n = 0;
    if (meant) {
        snprintf(out, LS__HINT_SIZE, "; did you mean '%s%s'?", dashes, meant);
        return out;
    }
    for (const ls__setting *s = table; s->kind != LS__SETTING_END; s++)
        if (s->name) words[n++] = s->name;
    return ls__closest_hint(name, n, words, dashes, otherwise, out);
}
