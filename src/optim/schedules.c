/* schedules.c: the kinds of learning-rate schedules. Conventions and constants are PyTorch's. The
 * formulas are in closed form, so that the lr of a step does not depend on earlier calls. */
#include "optim/schedule.h"

#include "base/alloc.h"
#include "base/element.h"
#include "base/error.h"
#include "base/functions.h"

#include <math.h>
#include <string.h>

/* True if there is a config and a context without an unread error. */
static bool enter(ls_context *ctx, const ls__schedule_kind *kind, const void *config)
{
    if (!ctx || ls__has_error(ctx)) return false;
    if (!config) ls__fail(ctx, LS_ERR_INVALID, "%s: config is NULL", kind->call);
    return config != NULL;
}

static double or_default(double value, double fallback)
{
    if (value != 0) return value;
    return signbit(value) ? 0 : fallback;
}

#define CHECK(ctx, kind, ...)                                                                      \
    ls__check_fields(ctx, (kind).call, (const ls__field[]){ __VA_ARGS__ },                         \
                     sizeof((const ls__field[]){ __VA_ARGS__ }) / sizeof(ls__field))

/* ---- Constant ---- */

static double constant_rate(const ls_schedule *s, ls__schedule_time t)
{
    (void)t;
    return s->base;
}

static const ls__schedule_kind constant = { "constant", "ls_schedule_constant", constant_rate,
                                            NULL };

ls_schedule *ls_schedule_constant(ls_context *ctx, const ls_schedule_constant_config *config)
{
    if (!enter(ctx, &constant, config)) return NULL;
    const ls_schedule s = { .kind = &constant, .base = config->lr };
    return ls__schedule_open(ctx, &s, config->steps_per_epoch, config->warmup);
}

/* ---- Step, multi-step, exponential: lr gamma^n ---- */

static double step_rate(const ls_schedule *s, ls__schedule_time t)
{
    return s->base * ls__power(s->gamma, t.epoch / s->step_size);
}

static const ls__schedule_kind step_decay = { "step", "ls_schedule_step", step_rate, NULL };

ls_schedule *ls_schedule_step(ls_context *ctx, const ls_schedule_step_config *config)
{
    if (!enter(ctx, &step_decay, config)) return NULL;
    const ls_schedule s = { .kind = &step_decay,
                            .base = config->lr,
                            .step_size = config->step_size,
                            .gamma = or_default(config->gamma, 0.1) };
    if (!CHECK(ctx, step_decay, { "step_size", config->step_size, LS__SOME_EPOCHS },
               { "gamma", s.gamma, LS__POSITIVE }))
        return NULL;
    return ls__schedule_open(ctx, &s, config->steps_per_epoch, config->warmup);
}

static double multi_step_rate(const ls_schedule *s, ls__schedule_time t)
{
    int n = 0;
    while (n < s->n_milestones && s->milestones[n] <= t.epoch) n++;
    return s->base * ls__power(s->gamma, n);
}

static const ls__schedule_kind multi_step = { "multi_step", "ls_schedule_multi_step",
                                              multi_step_rate, NULL };

static bool check_milestones(ls_context *ctx, const ls_schedule_multi_step_config *config)
{
    if (config->n_milestones > 0 && !config->milestones) {
        ls__fail(ctx, LS_ERR_INVALID, "%s: n_milestones is %d, but milestones is NULL",
                 multi_step.call, config->n_milestones);
        return false;
    }
    for (int i = 0; i < config->n_milestones; i++) {
        const int at = config->milestones[i], last = i > 0 ? config->milestones[i - 1] : 0;
        if (at > last) continue;
        ls__fail(ctx, LS_ERR_INVALID, "%s: milestone %d is epoch %d, wanted one after epoch %d",
                 multi_step.call, i, at, last);
        return false;
    }
    return true;
}

ls_schedule *ls_schedule_multi_step(ls_context *ctx, const ls_schedule_multi_step_config *config)
{
    if (!enter(ctx, &multi_step, config)) return NULL;
    ls_schedule s = { .kind = &multi_step,
                      .base = config->lr,
                      .gamma = or_default(config->gamma, 0.1),
                      .n_milestones = config->n_milestones };
    if (!CHECK(ctx, multi_step, { "n_milestones", config->n_milestones, LS__EPOCHS },
               { "gamma", s.gamma, LS__POSITIVE }) ||
        !check_milestones(ctx, config))
        return NULL;
    const size_t bytes = (size_t)config->n_milestones * sizeof *s.milestones;
    s.milestones = ls__alloc(ctx, bytes);
    if (!s.milestones) {
        ls__fail_memory(ctx, multi_step.call, bytes);
        return NULL;
    }
    if (bytes > 0) memcpy(s.milestones, config->milestones, bytes);
    ls_schedule *opened = ls__schedule_open(ctx, &s, config->steps_per_epoch, config->warmup);
    if (!opened) ls__free(ctx, s.milestones);
    return opened;
}

static double exponential_rate(const ls_schedule *s, ls__schedule_time t)
{
    return s->base * ls__power(s->gamma, t.epoch);
}

static const ls__schedule_kind exponential = { "exponential", "ls_schedule_exponential",
                                               exponential_rate, NULL };

ls_schedule *ls_schedule_exponential(ls_context *ctx, const ls_schedule_exponential_config *config)
{
    if (!enter(ctx, &exponential, config)) return NULL;
    const ls_schedule s = { .kind = &exponential, .base = config->lr, .gamma = config->gamma };
    if (!CHECK(ctx, exponential, { "gamma", s.gamma, LS__POSITIVE })) return NULL;
    return ls__schedule_open(ctx, &s, config->steps_per_epoch, config->warmup);
}

/* ---- Cosine: min_lr + (lr - min_lr) (1 + cos(pi t / T)) / 2 ---- */

static double cosine_rate(const ls_schedule *s, ls__schedule_time t)
{
    if (t.epoch >= s->epochs) return s->min_lr;
    const double total = (double)(s->by_step ? s->epochs * s->steps_per_epoch : s->epochs);
    const double now = (double)(s->by_step ? t.step : t.epoch);
    if (now >= total) return s->min_lr;
    return s->min_lr + (s->base - s->min_lr) * (1 + ls__cos_pi(now / total)) / 2;
}

static const ls__schedule_kind cosine = { "cosine", "ls_schedule_cosine", cosine_rate, NULL };

/* The epochs after the warm-up; `epochs` includes it. */
static bool check_epochs(ls_context *ctx, const ls__schedule_kind *kind, int epochs, int warmup)
{
    if (!CHECK(ctx, *kind, { "epochs", epochs, LS__SOME_EPOCHS },
               { "warm-up epochs", warmup, LS__EPOCHS }))
        return false;
    if (warmup < epochs) return true;
    ls__fail(ctx, LS_ERR_INVALID, "%s: %d warm-up epochs leave none of %d epochs", kind->call,
             warmup, epochs);
    return false;
}

ls_schedule *ls_schedule_cosine(ls_context *ctx, const ls_schedule_cosine_config *config)
{
    if (!enter(ctx, &cosine, config)) return NULL;
    if (!check_epochs(ctx, &cosine, config->epochs, config->warmup_epochs)) return NULL;
    const ls_schedule s = { .kind = &cosine,
                            .base = config->max_lr,
                            .min_lr = config->min_lr,
                            .by_step = !config->by_epoch,
                            .epochs = config->epochs - config->warmup_epochs };
    return ls__schedule_open(ctx, &s, config->steps_per_epoch,
                             (ls_schedule_warmup){ config->warmup_epochs, config->warmup_start });
}

/* ---- Polynomial: min_lr + (lr - min_lr) (1 - t / T)^power, t counted in epochs ---- */

static double polynomial_rate(const ls_schedule *s, ls__schedule_time t)
{
    if (t.epoch >= s->epochs) return s->min_lr;
    const double left = 1 - (double)t.epoch / (double)s->epochs;
    return s->min_lr + (s->base - s->min_lr) * ls__power_of(left, s->power);
}

static const ls__schedule_kind polynomial = { "polynomial", "ls_schedule_polynomial",
                                              polynomial_rate, NULL };

ls_schedule *ls_schedule_polynomial(ls_context *ctx, const ls_schedule_polynomial_config *config)
{
    if (!enter(ctx, &polynomial, config)) return NULL;
    const ls_schedule s = { .kind = &polynomial,
                            .base = config->lr,
                            .min_lr = config->min_lr,
                            .power = or_default(config->power, 1),
                            .epochs = (int64_t)config->epochs - config->warmup.epochs };
    if (!check_epochs(ctx, &polynomial, config->epochs, config->warmup.epochs) ||
        !CHECK(ctx, polynomial, { "power", s.power, LS__POSITIVE }))
        return NULL;
    return ls__schedule_open(ctx, &s, config->steps_per_epoch, config->warmup);
}

/* ---- One cycle: half a cosine up, half a cosine down. The first ends at step pct_start T - 1,
 * the second at T - 1, as in PyTorch's OneCycleLR. ---- */

static double cosine_between(double start, double end, double share)
{
    return end + (start - end) / 2 * (1 + ls__cos_pi(share));
}

static double one_cycle_rate(const ls_schedule *s, ls__schedule_time t)
{
    const double first = s->base / s->div_factor, last = first / s->final_div_factor;
    const double total = (double)(s->epochs * s->steps_per_epoch);
    const double top = s->pct_start * total - 1, end = total - 1;
    const double now = (double)t.step < end ? (double)t.step : end;
    if (now <= top) return cosine_between(first, s->base, top > 0 ? now / top : 1);
    return cosine_between(s->base, last, (now - top) / (end - top));
}

static const ls__schedule_kind one_cycle = { "one_cycle", "ls_schedule_one_cycle", one_cycle_rate,
                                             NULL };

ls_schedule *ls_schedule_one_cycle(ls_context *ctx, const ls_schedule_one_cycle_config *config)
{
    if (!enter(ctx, &one_cycle, config)) return NULL;
    const ls_schedule s = { .kind = &one_cycle,
                            .base = config->max_lr,
                            .by_step = true,
                            .pct_start = or_default(config->pct_start, 0.3),
                            .div_factor = or_default(config->div_factor, 25),
                            .final_div_factor = or_default(config->final_div_factor, 1e4),
                            .epochs = config->epochs };
    if (!CHECK(ctx, one_cycle, { "epochs", config->epochs, LS__SOME_EPOCHS },
               { "pct_start", s.pct_start, LS__SHARE },
               { "div_factor", s.div_factor, LS__POSITIVE },
               { "final_div_factor", s.final_div_factor, LS__POSITIVE }))
        return NULL;
    return ls__schedule_open(ctx, &s, config->steps_per_epoch, (ls_schedule_warmup){ 0 });
}

/* ---- Reduce on plateau ---- */

static double plateau_rate(const ls_schedule *s, ls__schedule_time t)
{
    (void)t;
    const double lr = s->base * s->factor;
    return lr > s->min_lr ? lr : s->min_lr;
}

/* PyTorch's ReduceLROnPlateau with a relative threshold, but without its eps, which suppresses
 * changes of lr below 1e-8. */
static void plateau_report(ls_schedule *s, double metric)
{
    const double bar = s->best * (s->maximize ? 1 + s->threshold : 1 - s->threshold);
    if (s->maximize ? metric > bar : metric < bar) { /* false for NaN */
        s->best = metric;
        s->n_bad = 0;
    } else {
        s->n_bad++;
    }
    if (s->n_cooling > 0) {
        s->n_cooling--;
        s->n_bad = 0;
    }
    if (s->n_bad > (double)s->patience) {
        s->factor *= s->gamma;
        s->n_cooling = (double)s->cooldown;
        s->n_bad = 0;
    }
}

static const ls__schedule_kind plateau = { "reduce_on_plateau", "ls_schedule_reduce_on_plateau",
                                           plateau_rate, plateau_report };

ls_schedule *ls_schedule_reduce_on_plateau(ls_context *ctx,
                                           const ls_schedule_plateau_config *config)
{
    if (!enter(ctx, &plateau, config)) return NULL;
    const int patience = config->patience == 0         ? 10
                         : config->patience == LS_NONE ? 0
                                                       : config->patience;
    const ls_schedule s = { .kind = &plateau,
                            .base = config->lr,
                            .min_lr = config->min_lr,
                            .gamma = or_default(config->gamma, 0.1),
                            .patience = patience,
                            .cooldown = config->cooldown,
                            .threshold = or_default(config->threshold, 1e-4),
                            .maximize = config->maximize,
                            .best = config->maximize ? -INFINITY : INFINITY };
    if (!CHECK(ctx, plateau, { "gamma", s.gamma, LS__INSIDE_UNIT },
               { "patience", patience, LS__EPOCHS }, { "cooldown", config->cooldown, LS__EPOCHS },
               { "threshold", s.threshold, LS__BELOW_ONE }))
        return NULL;
    return ls__schedule_open(ctx, &s, config->steps_per_epoch, config->warmup);
}
