/* recipe.c: defaults of the options, options without an effect, and what may change on resume. */
#include "options/recipe.h"
#include "options/parameter_groups.h"
#include "io/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void recipe_select_options(const cli_option *own, bool (*selects)(const cli_option *option),
                           cli_option out[MAX_OPTIONS + 1])
{
    const cli_option *heading = NULL; /* of the section, until it has an option here */
    int n = 0;
    for (; own->kind != OPTION_END; own++) out[n++] = *own;
    for (const cli_option *o = recipe_options; o->kind != OPTION_END; o++) {
        if (n >= MAX_OPTIONS - 1) {
            print_warning("options from --%s on are left out: MAX_OPTIONS is %d",
                          o->name ? o->name : o[1].name, (int)MAX_OPTIONS);
            break;
        }
        if (o->kind == OPTION_HEADING) heading = o;
        if (o->kind == OPTION_HEADING || !selects(o)) continue;
        if (heading) out[n++] = *heading;
        heading = NULL;
        out[n++] = *o;
    }
    out[n] = (cli_option){ .kind = OPTION_END };
}

int recipe_milestones(const char *text, int out[MAX_MILESTONES])
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

/* Values that exclude each other, and limits that are not in the table. */
static bool check_values(const recipe *r)
{
    if (r->lr < 1e-12 || r->lr > 1e3)
        return fail_with(false,
                         "%s: the learning rate for %lld images per update would be %g, expected "
                         "1e-12 to 1000",
                         r->lr_per_256 > 0 ? "--lr-per-256" : "without --lr",
                         (long long)(r->batch * recipe_batches_per_update(r)), r->lr);
    if (r->shards > 1 && r->batch % r->shards != 0)
        return fail_with(false, "--batch-size %lld is not a multiple of --shards %lld",
                         (long long)r->batch, (long long)r->shards);
    if (r->audit_every > 0 && r->sync_batch_norm)
        return fail_with(false,
                         "--audit-every and --sync-batch-norm exclude each other: a shard whose "
                         "batch norms are synchronised can't be computed alone");
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
                   { "clip-value", r->clip_value, 1e-30 },
                   { "model-ema", r->ema_decay, 1e-30 },
                   { "dropout", r->dropout, 1e-30 } };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i].value > 0 && limits[i].value < limits[i].least)
            return fail_with(false, "--%s %g: expected 0, or at least %g", limits[i].option,
                             limits[i].value, limits[i].least);
    if (recipe_mixes(r) && r->batch == 1)
        return fail_with(false, "--%s has no effect with -b 1: it mixes the images of a batch",
                         r->mixup_alpha > 0 ? "mixup-alpha" : "cutmix-alpha");
    if (r->min_lr > r->lr)
        return fail_with(false, "--lr-min %g is above --lr %g", r->min_lr, r->lr);
    if (r->schedule == LS_SCHEDULE_REDUCE_ON_PLATEAU && r->gamma >= 1)
        return fail_with(false,
                         "--lr-gamma %g: expected less than 1, because plateau would never lower "
                         "the learning rate",
                         r->gamma);
    return true;
}

/* When an option has an effect. */
typedef struct effect {
    const char *option;
    bool has_effect;
    const char *when;
} effect;

static bool check_effects(const cli_parsed *parsed, size_t n, const effect *table)
{
    for (size_t i = 0; i < n; i++)
        if (options_given(parsed, table[i].option) && !table[i].has_effect)
            return fail_with(false, "--%s has no effect here: it requires %s", table[i].option,
                             table[i].when);
    return true;
}

/* Options that require one class for each image, unless they have the value that they then have. */
static bool check_loss_options(const cli_parsed *parsed, const recipe *r)
{
    static const char when[] = "--loss cross-entropy";
    const effect table[] = { { "label-smoothing", r->label_smoothing == 0, when },
                             { "class-weights", r->class_weights == 0, when },
                             { "sampler", r->sampler == LS_SAMPLER_ALL, when },
                             { "mixup-alpha", r->mixup_alpha == 0, when },
                             { "cutmix-alpha", r->cutmix_alpha == 0, when },
                             { "metric", r->metric == METRIC_LOSS, when },
                             { "plateau-metric", r->plateau_loss == 1, when } };
    return r->loss == LOSS_CROSS_ENTROPY ||
           check_effects(parsed, sizeof(table) / sizeof(table[0]), table);
}

static bool check_options(const cli_parsed *parsed, const recipe *r)
{
    const bool sgd = r->optimizer == OPT_SGD, small = recipe_is_small(r);
    const bool plateau = r->schedule == LS_SCHEDULE_REDUCE_ON_PLATEAU;
    const bool step = r->schedule == LS_SCHEDULE_STEP;
    const bool polynomial = r->schedule == LS_SCHEDULE_POLYNOMIAL;
    const bool cosine = r->schedule == LS_SCHEDULE_COSINE;
    const ls_model *model = ls_model_find(r->model);
    const bool multi_step = r->schedule == LS_SCHEDULE_MULTI_STEP;
    const bool restarts = r->schedule == LS_SCHEDULE_COSINE_RESTARTS;
    const effect table[] = {
        { "recipe", !parsed->from_run, "values that are not those of a run's config.json" },
        { "dropout", !model || model->dropout >= 0, "a --model with dropout" },
        { "val-split", !r->no_val, "validation, without --no-val" },
        { "val-split-seed", r->val_split > 0, "--val-split" },
        { "group-column", !r->no_val, "validation, without --no-val" },
        { "group-pattern", !r->no_val, "validation, without --no-val" },
        { "crop-padding", small, "images under 64 pixels" },
        { "scale-min", !small, "images of 64 pixels or more" },
        { "new-head", r->weights != NULL, "--weights" },
        { "weights-key", r->weights != NULL, "--weights" },
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
        { "plateau-metric",
          r->plateau_loss ? r->metric != METRIC_CROSS_ENTROPY
                          : r->metric == METRIC_TOP1 || metric_is_minimized(r->metric),
          r->plateau_loss ? "another --metric than cross_entropy"
                          : "--metric top1, loss or cross_entropy" },
        { "metric",
          !r->no_val || r->metric == METRIC_LOSS || r->metric == METRIC_TOP1 ||
              r->metric == METRIC_TOP5,
          "validation, without --no-val" },
        { "lr-power", polynomial, "--lr-scheduler polynomial" },
    };
    if (model && !check_resnet_options(parsed, model)) return false;
    if (!check_effects(parsed, sizeof(table) / sizeof(table[0]), table)) return false;
    if (!check_loss_options(parsed, r)) return false;
    if (r->new_head && !r->weights)
        return fail_with(false, "--recipe finetune requires --weights FILE");
    if (options_given(parsed, "lr") && options_given(parsed, "lr-per-256"))
        return fail_with(false, "--lr and --lr-per-256 exclude each other");
    if (!check_values(r) || !data_options_check(&r->data)) return false;
    parameter_groups groups;
    if (!parameter_groups_read(r->groups, &groups)) return false;
    int milestones[MAX_MILESTONES];
    return !multi_step || recipe_milestones(r->milestones, milestones) > 0;
}

double recipe_default_lr(const recipe *r)
{
    const double images = (double)(r->batch * recipe_batches_per_update(r));
    return options_round(r->lr_per_256 > 0         ? r->lr_per_256 * images / 256
                         : r->optimizer == OPT_SGD ? 0.1 * images / 128
                                                   : 0.001);
}

/* --lr and --lr-per-256 exclude each other; that of the command line replaces that of a file. */
static void replace_lr_of_file(cli_parsed *parsed, recipe *r)
{
    const int lr = option_find(parsed->options, "lr", strlen("lr"));
    const int per_256 = option_find(parsed->options, "lr-per-256", strlen("lr-per-256"));
    if (lr < 0 || per_256 < 0 || !parsed->given[lr] || !parsed->given[per_256]) return;
    if (parsed->in_file[lr] && !parsed->in_file[per_256]) parsed->given[lr] = NULL;
    if (parsed->in_file[lr] || !parsed->in_file[per_256]) return;
    parsed->given[per_256] = NULL;
    r->lr_per_256 = 0;
}

bool recipe_resolve(cli_parsed *parsed, recipe *r)
{
    replace_lr_of_file(parsed, r);
    recipe_apply_preset(parsed, r);
    const ls_model *model = find_model(r->model);
    if (!model) return false;
    if (!r->image_size.height) r->image_size = (cli_size){ model->image_size, model->image_size };
    const bool sgd = r->optimizer == OPT_SGD, small = recipe_is_small(r);
    static const double weight_decay[] = { 5e-4, 0, 0.01, 0 }; /* by cli_optimizer */
    const int64_t warmup = r->epochs / 10 > 1 ? r->epochs / 10 : r->epochs > 1;

    if (r->loss != LOSS_CROSS_ENTROPY) {
        if (!options_given(parsed, "label-smoothing")) r->label_smoothing = 0;
        if (!options_given(parsed, "plateau-metric")) r->plateau_loss = 1;
        if (!options_given(parsed, "metric")) r->metric = METRIC_LOSS;
    }
#define DEFAULT(option, member, value)                                                             \
    if (!options_is_set(parsed, option)) r->member = (value)
    DEFAULT("workers", workers, default_workers());
    DEFAULT("dropout", dropout, fmax(model->dropout, 0));
    const bool whole = r->resize_mode == LS_RESIZE_PAD; /* nothing is cut off a padded image */
    DEFAULT("crop-padding", crop_padding, small && !whole ? 4 : 0);
    DEFAULT("scale-min", scale_min, small ? 0 : whole ? 1 : 0.35);
    DEFAULT("lr", lr, recipe_default_lr(r));
    else if (options_given(parsed, "lr-per-256") && !options_given(parsed, "lr")) /* of the run */
        r->lr = recipe_default_lr(r);
    else if (options_given(parsed, "lr") && !options_given(parsed, "lr-per-256")) r->lr_per_256 = 0;
    DEFAULT("momentum", momentum, sgd ? 0.9 : 0);
    DEFAULT("weight-decay", weight_decay, weight_decay[r->optimizer]);
    DEFAULT("lr-warmup-epochs", warmup_epochs, r->schedule == LS_SCHEDULE_ONE_CYCLE ? 0 : warmup);
    DEFAULT("lr-step-size", step_size, 30);
    DEFAULT("lr-restart-epochs", restart_epochs, 10);
    DEFAULT("lr-restart-mult", restart_mult, 2);
    DEFAULT("lr-gamma", gamma, r->schedule == LS_SCHEDULE_EXPONENTIAL ? 0.95 : 0.1);
    DEFAULT("lr-power", power, 1);
    DEFAULT("plateau-metric", plateau_loss, metric_is_minimized(r->metric));
#undef DEFAULT
    /* Of a run with images of another size. */
    if (!small && !options_given(parsed, "crop-padding")) r->crop_padding = 0;
    if (small && !options_given(parsed, "scale-min")) r->scale_min = 0;
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

bool recipe_may_resume(const json_t *stored, const recipe *r, const char *dir)
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
        "%lld, so the completed steps would differ; start a new run with --epochs %lld, or one "
        "from "
        "these weights with --weights %s/last.safetensors (runs with constant, step, multistep, "
        "exponential, plateau and cosine-restarts can be extended)",
        (long long)r->epochs, schedule, epochs, (long long)r->epochs, dir);
}
