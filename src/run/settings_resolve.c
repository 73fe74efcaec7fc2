/* settings_resolve.c: computed defaults, settings without an effect, and what may change on resume.
 */
#include "base/error.h"
#include "base/minmax.h"
#include "io/json.h"
#include "run/settings.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

int ls__run_milestones(ls_context *ctx, const char *text, int out[LS__MAX_MILESTONES])
{
    if (!text) return ls__refuse(ctx, "--lr-scheduler multistep requires --lr-milestones N,N,...");
    const char *at = text;
    for (int n = 0, last = 0, length = 0; n < LS__MAX_MILESTONES;
         at += length + 1, last = out[n++]) {
        if (sscanf(at, "%6d%n", &out[n], &length) != 1 || out[n] <= last) break;
        if (at[length] == '\0') return n + 1;
        if (at[length] != ',') break;
    }
    return ls__refuse(
        ctx, "--lr-milestones '%s': expected at most %d ascending epochs above 0, such as 30,60,80",
        text, (int)LS__MAX_MILESTONES);
}

/* Values that exclude each other, and limits that are not in the table. */
static bool check_values(ls_context *ctx, const ls__run_settings *r)
{
    if (r->lr < 1e-12 || r->lr > 1e3)
        return ls__refuse(ctx,
                          "%s: the learning rate for %lld images per update would be %g, expected "
                          "1e-12 to 1000",
                          r->lr_per_256 > 0 ? "--lr-per-256" : "without --lr",
                          (long long)(r->batch * ls__run_batches_per_update(r)), r->lr);
    if (r->shards > 1 && r->batch % r->shards != 0)
        return ls__refuse(ctx, "--batch-size %lld is not a multiple of --shards %lld",
                          (long long)r->batch, (long long)r->shards);
    if (r->audit_every > 0 && r->sync_batch_norm)
        return ls__refuse(ctx,
                          "--audit-every and --sync-batch-norm exclude each other: a shard whose "
                          "batch norms are synchronised can't be computed alone");
    if (r->sampler == LS_SAMPLER_BALANCED && r->class_weights)
        return ls__refuse(ctx,
                          "--sampler balanced and --class-weights balanced exclude each other: "
                          "together they would overweight rare classes");
    const struct {
        const char *name;
        double value, min;
    } limits[] = { { "mixup-alpha", r->mixup_alpha, 0.001 },
                   { "cutmix-alpha", r->cutmix_alpha, 0.001 },
                   { "clip-grad-norm", r->clip_norm, 1e-30 }, /* smaller ones are 0 as floats */
                   { "clip-value", r->clip_value, 1e-30 },
                   { "model-ema", r->ema_decay, 1e-30 },
                   { "dropout", r->dropout, 1e-30 } };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i].value > 0 && limits[i].value < limits[i].min)
            return ls__refuse(ctx, "--%s %g: expected 0, or at least %g", limits[i].name,
                              limits[i].value, limits[i].min);
    if (ls__run_mixes(r) && r->batch == 1)
        return ls__refuse(ctx, "--%s has no effect with -b 1: it mixes the images of a batch",
                          r->mixup_alpha > 0 ? "mixup-alpha" : "cutmix-alpha");
    if (r->min_lr > r->lr) return ls__refuse(ctx, "--lr-min %g is above --lr %g", r->min_lr, r->lr);
    if (r->schedule == LS_SCHEDULE_REDUCE_ON_PLATEAU && r->gamma >= 1)
        return ls__refuse(ctx,
                          "--lr-gamma %g: expected less than 1, because plateau would never lower "
                          "the learning rate",
                          r->gamma);
    return true;
}

/* When a setting has an effect. */
typedef struct effect {
    const char *name;
    bool has_effect;
    const char *when;
} effect;

static bool check_effects(ls_context *ctx, const ls_given *given, size_t n, const effect *table)
{
    for (size_t i = 0; i < n; i++)
        if (ls_given_has(given, table[i].name) && !table[i].has_effect)
            return ls__refuse(ctx, "--%s has no effect here: it requires %s", table[i].name,
                              table[i].when);
    return true;
}

/* Options that require one class for each image, unless they have the value that they then have. */
static bool check_loss_settings(ls_context *ctx, const ls_given *given, const ls__run_settings *r)
{
    static const char when[] = "--loss cross-entropy";
    const effect table[] = { { "label-smoothing", r->label_smoothing == 0, when },
                             { "class-weights", r->class_weights == 0, when },
                             { "sampler", r->sampler == LS_SAMPLER_ALL, when },
                             { "mixup-alpha", r->mixup_alpha == 0, when },
                             { "cutmix-alpha", r->cutmix_alpha == 0, when },
                             { "metric", r->metric == LS__METRIC_LOSS, when },
                             { "plateau-metric", r->plateau_loss == 1, when } };
    return r->loss == LS__LOSS_CROSS_ENTROPY ||
           check_effects(ctx, given, sizeof(table) / sizeof(table[0]), table);
}

/* Whether kernels can be selected by timing them. */
static bool can_benchmark(const ls__run_settings *r)
{
    return r->arithmetic == LS_ARITHMETIC_NATIVE || strcmp(r->device, "cpu") != 0;
}

/* Settings that have no effect beside the others. */
static bool check_all_effects(ls_context *ctx, const ls_given *given, const ls_model *model,
                              const ls__run_settings *r)
{
    const bool sgd = r->optimizer == LS__OPT_SGD, small = ls__run_is_small(r);
    const bool plateau = r->schedule == LS_SCHEDULE_REDUCE_ON_PLATEAU;
    const bool step = r->schedule == LS_SCHEDULE_STEP;
    const bool polynomial = r->schedule == LS_SCHEDULE_POLYNOMIAL;
    const bool cosine = r->schedule == LS_SCHEDULE_COSINE;
    const bool multi_step = r->schedule == LS_SCHEDULE_MULTI_STEP;
    const bool restarts = r->schedule == LS_SCHEDULE_COSINE_RESTARTS;
    const effect table[] = {
        { "stem", model->resnet, "a resnet" },
        { "parameter-free-shortcuts", model->resnet, "a resnet" },
        { "zero-init-residual", model->resnet, "a resnet" },
        { "recipe", !given->run_file, "values that are not those of a run's config.json" },
        { "dropout", model->dropout >= 0, "a --model with dropout" },
        { "val-split", !r->no_val, "validation, without --no-val" },
        { "val-split-seed", r->val_split > 0, "--val-split" },
        { "group-column", !r->no_val, "validation, without --no-val" },
        { "group-pattern", !r->no_val, "validation, without --no-val" },
        { "crop-padding", small, "images under 64 pixels" },
        { "scale-min", !small, "images of 64 pixels or more" },
        { "new-head", r->weights != NULL, "--weights" },
        { "weights-key", r->weights != NULL, "--weights" },
        { "momentum", sgd || r->optimizer == LS__OPT_RMSPROP, "--opt sgd or rmsprop" },
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
        { "plateau-metric",
          r->plateau_loss ? r->metric != LS__METRIC_CROSS_ENTROPY
                          : r->metric == LS__METRIC_TOP1 || ls__run_metric_is_minimized(r->metric),
          r->plateau_loss ? "another --metric than cross_entropy"
                          : "--metric top1, loss or cross_entropy" },
        { "metric",
          !r->no_val || r->metric == LS__METRIC_LOSS || r->metric == LS__METRIC_TOP1 ||
              r->metric == LS__METRIC_TOP5,
          "validation, without --no-val" },
        { "lr-power", polynomial, "--lr-scheduler polynomial" },
        { "benchmark", can_benchmark(r),
          "--arithmetic native or a GPU, because portable arithmetic selects kernels by shape" },
    };
    return check_effects(ctx, given, sizeof(table) / sizeof(table[0]), table) &&
           check_loss_settings(ctx, given, r);
}

static bool check_settings(ls_context *ctx, const ls_given *given, const ls_model *model,
                           const ls__run_settings *r)
{
    if (!check_all_effects(ctx, given, model, r)) return false;
    if (r->new_head && !r->weights)
        return ls__refuse(ctx, "--recipe finetune requires --weights FILE");
    if (ls_given_has(given, "lr") && ls_given_has(given, "lr-per-256"))
        return ls__refuse(ctx, "--lr and --lr-per-256 exclude each other");
    if (!check_values(ctx, r) || !ls__data_settings_check(ctx, &r->data)) return false;
    ls__parameter_groups groups;
    if (!ls__parameter_groups_read(ctx, r->groups, &groups)) return false;
    int milestones[LS__MAX_MILESTONES];
    return r->schedule != LS_SCHEDULE_MULTI_STEP ||
           ls__run_milestones(ctx, r->milestones, milestones) > 0;
}

double ls__run_default_lr(const ls__run_settings *r)
{
    const double images = (double)(r->batch * ls__run_batches_per_update(r));
    return ls__setting_round(r->lr_per_256 > 0             ? r->lr_per_256 * images / 256
                             : r->optimizer == LS__OPT_SGD ? 0.1 * images / 128
                                                           : 0.001);
}

ls_status ls__run_settings_resolve(ls_context *ctx, ls_given *given, const ls_model *model,
                                   ls__run_settings *r)
{
    ls__run_settings_apply_preset(given, r);
    if (!model && !(model = ls_model_require(ctx, r->model))) return LS_ERR_SETTING;
    if (!r->image_size.height) r->image_size = (ls_size){ model->image_size, model->image_size };
    const bool sgd = r->optimizer == LS__OPT_SGD, small = ls__run_is_small(r);
    static const double weight_decay[] = { 5e-4, 0, 0.01, 0 }; /* by ls__run_optimizer */
    const int64_t warmup = r->epochs / 10 > 1 ? r->epochs / 10 : r->epochs > 1;

    if (r->loss != LS__LOSS_CROSS_ENTROPY) {
        if (!ls_given_has(given, "label-smoothing")) r->label_smoothing = 0;
        if (!ls_given_has(given, "plateau-metric")) r->plateau_loss = 1;
        if (!ls_given_has(given, "metric")) r->metric = LS__METRIC_LOSS;
    }
#define DEFAULT(name, member, value)                                                               \
    if (!ls__given_sets(given, name)) r->member = (value)
    DEFAULT("workers", workers, ls_default_worker_count());
    DEFAULT("dropout", dropout, fmax(model->dropout, 0));
    const bool whole = r->resize_mode == LS_RESIZE_PAD; /* nothing is cut off a padded image */
    DEFAULT("crop-padding", crop_padding, small && !whole ? 4 : 0);
    DEFAULT("scale-min", scale_min, small ? 0 : whole ? 1 : 0.35);
    DEFAULT("lr", lr, ls__run_default_lr(r));
    else if (ls_given_has(given, "lr-per-256") && !ls_given_has(given, "lr")) /* of the run */
        r->lr = ls__run_default_lr(r);
    else if (ls_given_has(given, "lr") && !ls_given_has(given, "lr-per-256")) r->lr_per_256 = 0;
    DEFAULT("momentum", momentum, sgd ? 0.9 : 0);
    DEFAULT("weight-decay", weight_decay, weight_decay[r->optimizer]);
    DEFAULT("lr-warmup-epochs", warmup_epochs, r->schedule == LS_SCHEDULE_ONE_CYCLE ? 0 : warmup);
    DEFAULT("lr-step-size", step_size, 30);
    DEFAULT("lr-restart-epochs", restart_epochs, 10);
    DEFAULT("lr-restart-mult", restart_mult, 2);
    DEFAULT("lr-gamma", gamma, r->schedule == LS_SCHEDULE_EXPONENTIAL ? 0.95 : 0.1);
    DEFAULT("lr-power", power, 1);
    DEFAULT("plateau-metric", plateau_loss, ls__run_metric_is_minimized(r->metric));
#undef DEFAULT
    /* Of a run with images of another size. */
    if (!small && !ls_given_has(given, "crop-padding")) r->crop_padding = 0;
    if (small && !ls_given_has(given, "scale-min")) r->scale_min = 0;
    if (r->warmup_epochs >= r->epochs)
        ls__refuse(ctx, "--lr-warmup-epochs %lld: expected less than --epochs %lld",
                   (long long)r->warmup_epochs, (long long)r->epochs);
    else if (check_settings(ctx, given, model, r))
        return LS_OK;
    return LS_ERR_SETTING;
}

bool ls__run_can_be_extended(const ls__run_settings *r)
{
    return r->schedule != LS_SCHEDULE_COSINE && r->schedule != LS_SCHEDULE_POLYNOMIAL &&
           r->schedule != LS_SCHEDULE_ONE_CYCLE;
}

ls_status ls__run_settings_may_resume(ls_context *ctx, const json_t *stored,
                                      const ls__run_settings *r, const char *dir)
{
    const long long epochs = ls__json_get_integer(stored, "epochs");
    if (r->epochs < epochs)
        return ls__fail(ctx, LS_ERR_SETTING,
                        "--epochs %lld: the run has %lld; a run can be extended, not shortened; "
                        "--stop-at ends it earlier",
                        (long long)r->epochs, epochs);
    if (r->benchmark && !can_benchmark(r))
        return ls__fail(ctx, LS_ERR_SETTING,
                        "--arithmetic portable: the run has --benchmark, and portable arithmetic "
                        "selects kernels by shape; omit --arithmetic to resume the run as it is");
    if (r->epochs == epochs || ls__run_can_be_extended(r)) return LS_OK;
    return ls__fail(ctx, LS_ERR_SETTING,
                    "--epochs %lld: the learning rates of --lr-scheduler %s depend on the number "
                    "of epochs, %lld, so the completed steps would differ; start a new run with "
                    "--epochs %lld, or one from these weights with --weights %s/last.safetensors "
                    "(runs with constant, step, multistep, exponential, plateau and "
                    "cosine-restarts can be extended)",
                    (long long)r->epochs, ls__json_get_string(stored, "lr-scheduler"), epochs,
                    (long long)r->epochs, dir);
}

void ls__run_settings_hint_mismatch(ls_context *ctx, const ls__run_settings *r,
                                    const json_t *changed, const char *force)
{
    size_t i;
    const json_t *change;
    bool arithmetic_changed = false;
    json_array_foreach(changed, i, change)
    {
        const char *option = ls__json_get_string(change, "option");
        arithmetic_changed = arithmetic_changed || (option && strcmp(option, "arithmetic") == 0);
    }
    ls__error_hint(ctx, "%s%s",
                   arithmetic_changed ? "omit --arithmetic to resume with that of the run; "
                   : r->arithmetic == LS_ARITHMETIC_NATIVE
                       ? "where libraries or processor differ, LOCKSTEP_MAX_ISA and "
                         "ONEDNN_MAX_CPU_ISA must be set as they were; "
                       : "",
                   force);
}
