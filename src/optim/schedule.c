/* schedule.c: learning-rate schedules. Each kind is one function of its own clock, counted in
 * epochs and steps after the warm-up; what is common (warm-up, checks, lifetime) stands once.
 * Formulas and conventions are PyTorch's, in closed form, so that any step's rate can be had
 * without having run those before. */
#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"
#include <lockstep/optim.h>

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

typedef struct clock_time {
    int64_t epoch; /* since the end of the warm-up */
    int64_t step;  /* steps since the end of the warm-up */
} clock_time;

struct ls_schedule {
    ls__owned owned;
    double (*rate)(const ls_schedule *s, clock_time t);
    double base, floor, gamma, power;
    double div, final_div, rise;
    int every_epochs;
    int *milestones;
    int n_milestones;
    int64_t total_steps; /* of the schedule's own clock */
    int64_t total_epochs;
    bool by_epoch;
    int64_t steps_per_epoch;
    int warmup_epochs;
    double warmup_start;
    /* Plateau */
    bool listens, maximize;
    int patience, cooldown;
    double threshold;
    double factor, best, n_bad, cooling; /* the state that reports change */
};

/* ---- The kinds ---- */

static double constant_rate(const ls_schedule *s, clock_time t)
{
    (void)t;
    return s->base;
}

static double step_rate(const ls_schedule *s, clock_time t)
{
    return s->base * pow(s->gamma, (double)(t.epoch / s->every_epochs));
}

static double multi_step_rate(const ls_schedule *s, clock_time t)
{
    int n = 0;
    while (n < s->n_milestones && s->milestones[n] <= t.epoch) n++;
    return s->base * pow(s->gamma, n);
}

static double exponential_rate(const ls_schedule *s, clock_time t)
{
    return s->base * pow(s->gamma, (double)t.epoch);
}

/* floor + (peak - floor) (1 + cos(pi t / T)) / 2 */
static double cosine_rate(const ls_schedule *s, clock_time t)
{
    const double total = s->by_epoch ? (double)s->total_epochs : (double)s->total_steps;
    const double now = s->by_epoch ? (double)t.epoch : (double)t.step;
    if (total <= 0 || now >= total) return s->floor;
    return s->floor + (s->base - s->floor) * (1 + cos(pi * now / total)) / 2;
}

/* floor + (rate - floor) (1 - t / T)^power, t counted in epochs */
static double polynomial_rate(const ls_schedule *s, clock_time t)
{
    if (t.epoch >= s->total_epochs) return s->floor;
    return s->floor +
           (s->base - s->floor) * pow(1 - (double)t.epoch / (double)s->total_epochs, s->power);
}

static double cosine_between(double start, double end, double share)
{
    return end + (start - end) / 2 * (1 + cos(pi * share));
}

/* The rise ends at step rise * T - 1, the fall at T - 1, as in PyTorch's OneCycleLR. */
static double one_cycle_rate(const ls_schedule *s, clock_time t)
{
    const double first = s->base / s->div, last = first / s->final_div;
    const double top = s->rise * (double)s->total_steps - 1, end = (double)s->total_steps - 1;
    const double now = (double)t.step < end ? (double)t.step : end;
    if (now <= top) return cosine_between(first, s->base, top > 0 ? now / top : 1);
    return cosine_between(s->base, last, (now - top) / (end - top));
}

static double plateau_rate(const ls_schedule *s, clock_time t)
{
    (void)t;
    const double rate = s->base * s->factor;
    return rate > s->floor ? rate : s->floor;
}

/* ---- What is common ---- */

double ls_schedule_rate(const ls_schedule *s, int64_t epoch, int64_t step)
{
    if (!s) return 0;
    if (epoch < 0) epoch = 0;
    if (step < 0) step = 0;
    const int64_t done = epoch * s->steps_per_epoch + step,
                  warmup = s->warmup_epochs * s->steps_per_epoch;
    if (done < warmup) {
        /* From start at step 0 towards the schedule's first rate, which the first step after the
         * warm-up has. */
        const double target = s->rate(s, (clock_time){ 0, 0 });
        const double share = (double)done / (double)warmup;
        return target * (s->warmup_start + (1 - s->warmup_start) * share);
    }
    return s->rate(s, (clock_time){ epoch - s->warmup_epochs, done - warmup });
}

ls_status ls_schedule_report(ls_schedule *s, double metric)
{
    if (!s) return LS_ERR_EARLIER;
    LS__ENTER(s->owned.ctx);
    if (!s->listens) return LS_OK;
    const double bar = s->best * (s->maximize ? 1 + s->threshold : 1 - s->threshold);
    const bool better = isinf(s->best) ? !isnan(metric) : s->maximize ? metric > bar : metric < bar;
    if (better) {
        s->best = metric;
        s->n_bad = 0;
    } else {
        s->n_bad++;
    }
    if (s->cooling > 0) {
        s->cooling--;
        s->n_bad = 0;
    }
    if (s->n_bad > s->patience) {
        s->factor *= s->gamma;
        s->cooling = s->cooldown;
        s->n_bad = 0;
    }
    return LS_OK;
}

void ls_schedule_get_state(const ls_schedule *s, double state[LS_SCHEDULE_STATE])
{
    const double values[LS_SCHEDULE_STATE] = { s ? s->factor : 1, s ? s->best : 0, s ? s->n_bad : 0,
                                               s ? s->cooling : 0 };
    memcpy(state, values, sizeof values);
}

ls_status ls_schedule_set_state(ls_schedule *s, const double state[LS_SCHEDULE_STATE])
{
    if (!s) return LS_ERR_EARLIER;
    LS__ENTER(s->owned.ctx);
    if (!(state[0] > 0 && state[0] <= 1) || !(state[2] >= 0) || !(state[3] >= 0))
        return ls__fail(s->owned.ctx, LS_ERR_INVALID,
                        "ls_schedule_set_state: %g, %g, %g, %g is no schedule's state", state[0],
                        state[1], state[2], state[3]);
    s->factor = state[0];
    s->best = state[1];
    s->n_bad = state[2];
    s->cooling = state[3];
    return LS_OK;
}

static void close_schedule(ls__owned *owned)
{
    ls_schedule *s = (ls_schedule *)owned;
    ls__free(owned->ctx, s->milestones);
    ls__free(owned->ctx, s);
}

void ls_schedule_close(ls_schedule **schedule)
{
    if (!schedule || !*schedule) return;
    ls__disown_and_close(&(*schedule)->owned);
    *schedule = NULL;
}

/* Keeps an error unless the value is at least `low` (above it, when `above`) and finite. */
static bool check(ls_context *ctx, const char *call, const char *field, double value, double low,
                  bool above)
{
    if ((above ? value > low : value >= low) && value < 1e30) return true;
    ls__fail(ctx, LS_ERR_INVALID, "%s: %s is %g, wanted %s %g", call, field, value,
             above ? "above" : "at least", low);
    return false;
}

/* Checks what all kinds have, copies it and hands over to the context. */
static ls_schedule *open(ls_context *ctx, const char *call, const ls_schedule *prototype,
                         int64_t steps_per_epoch, ls_warmup warmup)
{
    const double start = warmup.start == 0 && !signbit(warmup.start) ? 0.01 : (double)warmup.start;
    const bool needs_steps = warmup.epochs > 0 ||
                             (prototype->rate == cosine_rate && !prototype->by_epoch) ||
                             prototype->rate == one_cycle_rate;
    if (!check(ctx, call, "the rate", prototype->base, 0, true) ||
        !check(ctx, call, "floor", prototype->floor, 0, false) ||
        !check(ctx, call, "warmup.epochs", warmup.epochs, 0, false) ||
        !check(ctx, call, "warmup.start", start, 0, false) ||
        !check(ctx, call, "steps_per_epoch", (double)steps_per_epoch, needs_steps ? 1 : 0, false))
        return NULL;
    ls_schedule *s = ls__alloc(ctx, sizeof *s);
    if (!s) {
        ls__fail_memory(ctx, call, sizeof *s);
        return NULL;
    }
    *s = *prototype;
    s->steps_per_epoch = steps_per_epoch;
    s->warmup_epochs = warmup.epochs;
    s->warmup_start = start;
    s->factor = 1;
    s->total_steps = s->total_epochs * steps_per_epoch;
    ls__own(ctx, &s->owned, close_schedule);
    return s;
}

/* Is there a context without a waiting error, and a config? */
static bool enter(ls_context *ctx, const char *call, const void *config)
{
    if (!ctx || ls__has_error(ctx)) return false;
    if (!config) ls__fail(ctx, LS_ERR_INVALID, "%s: a config is required", call);
    return config != NULL;
}

static double or_default(double value, double fallback)
{
    return value == 0 ? fallback : value;
}

ls_schedule *ls_constant(ls_context *ctx, const ls_constant_config *config)
{
    if (!enter(ctx, "ls_constant", config)) return NULL;
    const ls_schedule s = { .rate = constant_rate, .base = config->rate };
    return open(ctx, "ls_constant", &s, config->steps_per_epoch, config->warmup);
}

ls_schedule *ls_step_decay(ls_context *ctx, const ls_step_config *config)
{
    const char *call = "ls_step_decay";
    if (!enter(ctx, call, config)) return NULL;
    const ls_schedule s = { .rate = step_rate,
                            .base = config->rate,
                            .gamma = or_default(config->gamma, 0.1),
                            .every_epochs = config->every_epochs };
    if (!check(ctx, call, "every_epochs", s.every_epochs, 1, false) ||
        !check(ctx, call, "gamma", s.gamma, 0, true))
        return NULL;
    return open(ctx, call, &s, config->steps_per_epoch, config->warmup);
}

ls_schedule *ls_multi_step(ls_context *ctx, const ls_multi_step_config *config)
{
    const char *call = "ls_multi_step";
    if (!enter(ctx, call, config)) return NULL;
    ls_schedule prototype = { .rate = multi_step_rate,
                              .base = config->rate,
                              .gamma = or_default(config->gamma, 0.1),
                              .n_milestones = config->n_milestones };
    if (!check(ctx, call, "n_milestones", config->n_milestones, 0, false) ||
        !check(ctx, call, "gamma", prototype.gamma, 0, true))
        return NULL;
    for (int i = 0; i < config->n_milestones; i++)
        if (!config->milestones || config->milestones[i] < (i ? config->milestones[i - 1] : 0)) {
            ls__fail(ctx, LS_ERR_INVALID, "%s: milestones must be epochs in ascending order", call);
            return NULL;
        }
    const size_t bytes = (size_t)config->n_milestones * sizeof *prototype.milestones;
    prototype.milestones = ls__alloc(ctx, bytes);
    if (!prototype.milestones) {
        ls__fail_memory(ctx, call, bytes);
        return NULL;
    }
    if (bytes > 0) memcpy(prototype.milestones, config->milestones, bytes);
    ls_schedule *s = open(ctx, call, &prototype, config->steps_per_epoch, config->warmup);
    if (!s) ls__free(ctx, prototype.milestones);
    return s;
}

ls_schedule *ls_exponential(ls_context *ctx, const ls_exponential_config *config)
{
    const char *call = "ls_exponential";
    if (!enter(ctx, call, config)) return NULL;
    const ls_schedule s = { .rate = exponential_rate,
                            .base = config->rate,
                            .gamma = config->gamma };
    if (!check(ctx, call, "gamma", s.gamma, 0, true)) return NULL;
    return open(ctx, call, &s, config->steps_per_epoch, config->warmup);
}

ls_schedule *ls_cosine(ls_context *ctx, const ls_cosine_config *config)
{
    const char *call = "ls_cosine";
    if (!enter(ctx, call, config)) return NULL;
    const ls_schedule s = { .rate = cosine_rate,
                            .base = config->peak,
                            .floor = config->floor,
                            .by_epoch = config->by_epoch,
                            .total_epochs = config->epochs - config->warmup_epochs };
    if (!check(ctx, call, "epochs - warmup_epochs", (double)s.total_epochs, 1, false)) return NULL;
    return open(ctx, call, &s, config->steps_per_epoch,
                (ls_warmup){ config->warmup_epochs, config->warmup_start });
}

ls_schedule *ls_polynomial(ls_context *ctx, const ls_polynomial_config *config)
{
    const char *call = "ls_polynomial";
    if (!enter(ctx, call, config)) return NULL;
    const ls_schedule s = { .rate = polynomial_rate,
                            .base = config->rate,
                            .floor = config->floor,
                            .power = or_default(config->power, 1),
                            .total_epochs = config->epochs - config->warmup.epochs };
    if (!check(ctx, call, "epochs - warmup.epochs", (double)s.total_epochs, 1, false) ||
        !check(ctx, call, "power", s.power, 0, true))
        return NULL;
    return open(ctx, call, &s, config->steps_per_epoch, config->warmup);
}

ls_schedule *ls_one_cycle(ls_context *ctx, const ls_one_cycle_config *config)
{
    const char *call = "ls_one_cycle";
    if (!enter(ctx, call, config)) return NULL;
    const ls_schedule s = { .rate = one_cycle_rate,
                            .base = config->peak,
                            .rise = or_default(config->rise, 0.3),
                            .div = or_default(config->div, 25),
                            .final_div = or_default(config->final_div, 1e4),
                            .total_epochs = config->epochs };
    if (!check(ctx, call, "epochs", config->epochs, 1, false) ||
        !check(ctx, call, "rise", s.rise, 0, true) ||
        !check(ctx, call, "1 - rise", 1 - s.rise, 0, true) ||
        !check(ctx, call, "div", s.div, 0, true) ||
        !check(ctx, call, "final_div", s.final_div, 0, true))
        return NULL;
    return open(ctx, call, &s, config->steps_per_epoch, (ls_warmup){ 0 });
}

ls_schedule *ls_reduce_on_plateau(ls_context *ctx, const ls_plateau_config *config)
{
    const char *call = "ls_reduce_on_plateau";
    if (!enter(ctx, call, config)) return NULL;
    const ls_schedule s = { .rate = plateau_rate,
                            .base = config->rate,
                            .floor = config->floor,
                            .gamma = or_default(config->gamma, 0.1),
                            .listens = true,
                            .maximize = config->maximize,
                            .patience = config->patience == 0    ? 10
                                        : config->patience == -1 ? 0
                                                                 : config->patience,
                            .cooldown = config->cooldown,
                            .threshold = or_default(config->threshold, 1e-4),
                            .best = config->maximize ? -INFINITY : INFINITY };
    if (!check(ctx, call, "gamma", s.gamma, 0, true) ||
        !check(ctx, call, "1 - gamma", 1 - s.gamma, 0, true) ||
        !check(ctx, call, "patience", s.patience, 0, false) ||
        !check(ctx, call, "cooldown", s.cooldown, 0, false) ||
        !check(ctx, call, "threshold", s.threshold, 0, false))
        return NULL;
    return open(ctx, call, &s, config->steps_per_epoch, config->warmup);
}
