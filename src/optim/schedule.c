/* schedule.c: learning-rate schedules: formulas, settings and their checks, warm-up, state. */
#include "optim/schedule.h"

#include "arith/element.h"
#include "arith/functions.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The lr is constant beyond these, and the sum of steps cannot overflow. */
static const int64_t MAX_EPOCHS = INT64_C(1) << 22, MAX_STEPS = INT64_C(1) << 61;

/* ---- Formulas. Conventions and constants are PyTorch's. They are in closed form, so that the lr
 * of a step does not depend on earlier calls. ---- */

/* Time since the end of the warm-up. */
typedef struct schedule_time {
    int64_t epoch, step; /* step: of all epochs together */
} schedule_time;

static double constant_lr(const ls_schedule *s, schedule_time t)
{
    (void)t;
    return s->config.lr;
}

static double step_lr(const ls_schedule *s, schedule_time t)
{
    return s->config.lr * ls__power(s->config.gamma, t.epoch / s->config.step_size);
}

static double multi_step_lr(const ls_schedule *s, schedule_time t)
{
    int n = 0;
    while (n < s->config.n_milestones && s->milestones[n] <= t.epoch) n++;
    return s->config.lr * ls__power(s->config.gamma, n);
}

static double exponential_lr(const ls_schedule *s, schedule_time t)
{
    return s->config.lr * ls__power(s->config.gamma, t.epoch);
}

static double cosine_lr(const ls_schedule *s, schedule_time t)
{
    const ls_schedule_config *c = &s->config;
    const int64_t epochs = c->epochs - c->warmup_epochs;
    if (t.epoch >= epochs) return c->min_lr;
    const double total = (double)(c->by_epoch ? epochs : epochs * c->steps_per_epoch);
    const double now = (double)(c->by_epoch ? t.epoch : t.step);
    if (now >= total) return c->min_lr;
    return c->min_lr + (c->lr - c->min_lr) * (1 + ls__cos_pi(now / total)) / 2;
}

static double cosine_restarts_lr(const ls_schedule *s, schedule_time t)
{
    const ls_schedule_config *c = &s->config;
    double period = (double)(c->by_epoch ? c->t_0 : c->t_0 * c->steps_per_epoch);
    double now = (double)(c->by_epoch ? t.epoch : t.step);
    if (c->t_mult == 1) now = fmod(now, period); /* exact */
    for (; now >= period; period *= (double)c->t_mult) now -= period;
    return c->min_lr + (c->lr - c->min_lr) * (1 + ls__cos_pi(now / period)) / 2;
}

static double polynomial_lr(const ls_schedule *s, schedule_time t)
{
    const ls_schedule_config *c = &s->config;
    const int64_t epochs = c->epochs - c->warmup_epochs;
    if (t.epoch >= epochs) return c->min_lr;
    const double left = 1 - (double)t.epoch / (double)epochs;
    return c->min_lr + (c->lr - c->min_lr) * ls__power_of(left, c->power);
}

static double cosine_between(double start, double end, double share)
{
    return end + (start - end) / 2 * (1 + ls__cos_pi(share));
}

/* Half a cosine up to step pct_start T - 1, half a cosine down to step T - 1. */
static double one_cycle_lr(const ls_schedule *s, schedule_time t)
{
    const ls_schedule_config *c = &s->config;
    const double first = c->lr / c->div_factor, last = first / c->final_div_factor;
    const double total = (double)(c->epochs * c->steps_per_epoch);
    const double top = c->pct_start * total - 1, end = total - 1;
    const double now = (double)t.step < end ? (double)t.step : end;
    if (now <= top) return cosine_between(first, c->lr, top > 0 ? now / top : 1);
    return cosine_between(c->lr, last, (now - top) / (end - top));
}

static double plateau_lr(const ls_schedule *s, schedule_time t)
{
    (void)t;
    const double lr = s->config.lr * s->factor;
    return lr > s->config.min_lr ? lr : s->config.min_lr;
}

static double custom_lr(const ls_schedule *s, schedule_time t)
{
    const ls_schedule_config *c = &s->config;
    return c->lr * c->factor(t.epoch, t.step - t.epoch * c->steps_per_epoch, c->user);
}

static const struct {
    const char *name;
    double (*lr)(const ls_schedule *s, schedule_time t);
} formulas[] = {
    [LS_SCHEDULE_COSINE] = { "cosine", cosine_lr },
    [LS_SCHEDULE_CONSTANT] = { "constant", constant_lr },
    [LS_SCHEDULE_STEP] = { "step", step_lr },
    [LS_SCHEDULE_EXPONENTIAL] = { "exponential", exponential_lr },
    [LS_SCHEDULE_POLYNOMIAL] = { "polynomial", polynomial_lr },
    [LS_SCHEDULE_ONE_CYCLE] = { "one_cycle", one_cycle_lr },
    [LS_SCHEDULE_REDUCE_ON_PLATEAU] = { "reduce_on_plateau", plateau_lr },
    [LS_SCHEDULE_MULTI_STEP] = { "multi_step", multi_step_lr },
    [LS_SCHEDULE_COSINE_RESTARTS] = { "cosine_restarts", cosine_restarts_lr },
    [LS_SCHEDULE_CUSTOM] = { "custom", custom_lr },
};

/* ---- Settings ---- */

typedef struct field {
    const char *name;
    size_t at; /* in ls_schedule_config */
    enum { REAL, COUNT, FLAG } type;
    ls__range range;
    unsigned kinds; /* schedules that use it */
    double fallback;
} field;

#define AT(name)   #name, offsetof(ls_schedule_config, name)
#define KIND(name) (1u << LS_SCHEDULE_##name)
#define GAMMAS     (KIND(STEP) | KIND(MULTI_STEP) | KIND(EXPONENTIAL) | KIND(REDUCE_ON_PLATEAU))
#define COSINES    (KIND(COSINE) | KIND(COSINE_RESTARTS))
#define MIN_LRS    (COSINES | KIND(POLYNOMIAL) | KIND(REDUCE_ON_PLATEAU))
#define ENDING     (KIND(COSINE) | KIND(POLYNOMIAL) | KIND(ONE_CYCLE))

/* The fields have the order of checkpoints. */
static const field fields[] = {
    { AT(lr), REAL, LS__POSITIVE, ~0u, 0 },
    { AT(min_lr), REAL, LS__NOT_NEGATIVE, MIN_LRS, 0 },
    { AT(gamma), REAL, LS__POSITIVE, GAMMAS, 0.1 },
    { AT(power), REAL, LS__POSITIVE, KIND(POLYNOMIAL), 1 },
    { AT(pct_start), REAL, LS__SHARE, KIND(ONE_CYCLE), 0.3 },
    { AT(div_factor), REAL, LS__POSITIVE, KIND(ONE_CYCLE), 25 },
    { AT(final_div_factor), REAL, LS__POSITIVE, KIND(ONE_CYCLE), 1e4 },
    { AT(step_size), COUNT, LS__SOME_EPOCHS, KIND(STEP), 0 },
    { AT(epochs), COUNT, LS__SOME_EPOCHS, ENDING, 0 },
    { AT(patience), COUNT, LS__EPOCHS, KIND(REDUCE_ON_PLATEAU), 10 },
    { AT(cooldown), COUNT, LS__EPOCHS, KIND(REDUCE_ON_PLATEAU), 0 },
    { AT(threshold), REAL, LS__BELOW_ONE, KIND(REDUCE_ON_PLATEAU), 1e-4 },
    { AT(maximize), FLAG, LS__UNIT, KIND(REDUCE_ON_PLATEAU), 0 },
    { AT(t_0), COUNT, LS__SOME_EPOCHS, KIND(COSINE_RESTARTS), 0 },
    { AT(t_mult), COUNT, LS__SOME_EPOCHS, KIND(COSINE_RESTARTS), 1 },
    { AT(by_epoch), FLAG, LS__UNIT, COSINES, 0 },
    { AT(steps_per_epoch), COUNT, LS__COUNT, ~0u, 0 },
    { AT(warmup_epochs), COUNT, LS__EPOCHS, ~KIND(ONE_CYCLE), 0 },
    { AT(warmup_start), REAL, LS__UNIT, ~KIND(ONE_CYCLE), 0.01 },
    { AT(n_milestones), COUNT, LS__EPOCHS, KIND(MULTI_STEP), 0 },
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static bool is(const field *f, const char *name)
{
    return strcmp(f->name, name) == 0;
}

static double field_value(const ls_schedule_config *c, const field *f)
{
    const void *at = (const char *)c + f->at;
    if (f->type == FLAG) return *(const bool *)at;
    return f->type == REAL ? *(const double *)at : (double)*(const int64_t *)at;
}

static void set_default(ls_schedule_config *c, const field *f)
{
    void *at = (char *)c + f->at;
    double *real = at;
    int64_t *count = at;
    if (f->type == REAL && *real == 0) *real = signbit(*real) ? 0 : f->fallback;
    if (f->type == COUNT && f->fallback > 0)
        *count = *count == 0 ? (int64_t)f->fallback : *count == LS_ZERO_INT ? 0 : *count;
}

/* Checks a field that its kind does not use. */
static ls_status check_unused_fields(ls_context *ctx, const char *call, const ls_schedule_config *c,
                                     const field *f)
{
    const double value = field_value(c, f);
    if (value == 0 && !signbit(value)) return LS_OK;
    return ls__fail(ctx, LS_ERR_INVALID, "%s: %s is %.9g, but %s", call, f->name, value,
                    is(f, "warmup_start") ? "there is no warm-up epoch" : "has no effect here");
}

static ls_status check_custom(ls_context *ctx, const char *call, const ls_schedule_config *c)
{
    const bool is_custom = c->kind == LS_SCHEDULE_CUSTOM;
    if (is_custom && (!c->factor || !c->settings || !*c->settings))
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %s is required", call,
                        c->factor ? "the text of settings" : "the function factor");
    if (!is_custom && (c->factor || c->user || c->settings))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: factor, user or settings is set, but has no effect here", call);
    return LS_OK;
}

static ls_status check_milestones(ls_context *ctx, const char *call, const ls_schedule_config *c)
{
    if ((c->n_milestones > 0) != (c->milestones != NULL))
        return ls__fail(ctx, LS_ERR_INVALID, "%s: n_milestones is %lld, but milestones is %s", call,
                        (long long)c->n_milestones, c->milestones ? "set" : "NULL");
    for (int64_t i = 0; i < c->n_milestones; i++) {
        const int at = c->milestones[i], last = i > 0 ? c->milestones[i - 1] : 0;
        if (at <= last)
            return ls__fail(ctx, LS_ERR_INVALID,
                            "%s: milestone %lld is epoch %d, expected one after epoch %d", call,
                            (long long)i, at, last);
    }
    return LS_OK;
}

/* True if the learning rate changes within an epoch. */
static bool is_by_step(const ls_schedule_config *c)
{
    return c->kind == LS_SCHEDULE_ONE_CYCLE || ((COSINES >> c->kind & 1) && !c->by_epoch);
}

static ls_status check_together(ls_context *ctx, const char *call, const ls_schedule_config *c)
{
    const bool by_step = is_by_step(c);
    if (c->kind == LS_SCHEDULE_REDUCE_ON_PLATEAU)
        LS_TRY(ls__check_fields(ctx, call, &(ls__field){ "gamma", c->gamma, LS__INSIDE_UNIT }, 1));
    if (c->min_lr > c->lr)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: min_lr is %.9g, above the learning rate %.9g",
                        call, c->min_lr, c->lr);
    if (c->epochs > 0 && c->warmup_epochs >= c->epochs)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: warmup_epochs is %lld, expected fewer than %lld",
                        call, (long long)c->warmup_epochs, (long long)c->epochs);
    if (c->steps_per_epoch == 0 && (by_step || c->warmup_epochs > 0))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: steps_per_epoch is required, because the learning rate changes from "
                        "step to step%s",
                        call, by_step ? "" : " while it warms up");
    LS_TRY(check_custom(ctx, call, c));
    return check_milestones(ctx, call, c);
}

/* Sets the defaults, then checks all fields. */
static ls_status schedule_resolve(ls_context *ctx, ls_schedule_config *c)
{
    char call[64];
    if ((unsigned)c->kind > LS_SCHEDULE_CUSTOM)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_schedule_open: there is no kind %d", (int)c->kind);
    snprintf(call, sizeof call, "ls_schedule_open: %s", formulas[c->kind].name);
    for (int i = 0; i < N_FIELDS; i++) {
        const field *f = &fields[i];
        const bool no_warmup = is(f, "warmup_start") && c->warmup_epochs == 0;
        const bool required = is(f, "gamma") && c->kind == LS_SCHEDULE_EXPONENTIAL;
        if (!(f->kinds >> c->kind & 1) || no_warmup) {
            LS_TRY(check_unused_fields(ctx, call, c, f));
            continue;
        }
        if (!required) set_default(c, f);
        LS_TRY(
            ls__check_fields(ctx, call, &(ls__field){ f->name, field_value(c, f), f->range }, 1));
    }
    return check_together(ctx, call, c);
}

const char *ls__schedule_name(const ls_schedule *s)
{
    return formulas[s->config.kind].name;
}

void ls__schedule_settings(const ls_schedule *s, ls__setting_fn put, void *user)
{
    const ls_schedule_config *c = &s->config;
    for (const field *f = fields; !is(f, "n_milestones"); f++) {
        const bool steps = is(f, "by_epoch");
        ls__put_setting(put, user, steps ? "by_step" : f->name,
                        steps ? is_by_step(c) : field_value(c, f));
    }
    for (int i = 0; i < c->n_milestones; i++) {
        char name[32];
        snprintf(name, sizeof(name), "milestone%d", i + 1);
        ls__put_setting(put, user, name, s->milestones[i]);
    }
}

/* ---- Opening and closing ---- */

static void close_schedule(ls__owned *owned)
{
    ls__free(owned->ctx, (char *)((ls_schedule *)owned)->config.settings);
    ls__free(owned->ctx, owned);
}

ls_schedule *ls_schedule_open(ls_context *ctx, const ls_schedule_config *config)
{
    LS__DEFAULT_FLOATS;
    LS__ENTER_NULL(ctx);
    if (!config) return ls__fail(ctx, LS_ERR_INVALID, "ls_schedule_open: config is NULL"), NULL;
    ls_schedule_config c = *config;
    if (schedule_resolve(ctx, &c) != LS_OK) return NULL;
    const size_t milestone_bytes = (size_t)c.n_milestones * sizeof *c.milestones;
    ls_schedule *s = ls__zalloc(ctx, sizeof *s + milestone_bytes);
    if (!s) return ls__fail_memory(ctx, "ls_schedule_open", sizeof *s + milestone_bytes), NULL;
    s->config = c;
    s->factor = 1;
    if (c.kind == LS_SCHEDULE_REDUCE_ON_PLATEAU) s->best = c.maximize ? -INFINITY : INFINITY;
    if (milestone_bytes > 0) memcpy(s->milestones, c.milestones, milestone_bytes);
    s->config.milestones = s->milestones;
    if (c.settings) s->config.settings = ls__strdup(ctx, c.settings);
    if (c.settings && !s->config.settings) {
        ls__fail_memory(ctx, "ls_schedule_open", strlen(c.settings));
        ls__free(ctx, s);
        return NULL;
    }
    ls__own(ctx, &s->owned, close_schedule);
    return s;
}

void ls_schedule_close(ls_schedule **schedule)
{
    if (!schedule || !*schedule) return;
    ls__disown_and_close(&(*schedule)->owned);
    *schedule = NULL;
}

/* ---- The learning rate ---- */

double ls_schedule_lr(const ls_schedule *s, int64_t epoch, int64_t step)
{
    LS__DEFAULT_FLOATS;
    if (!s) return 0;
    const ls_schedule_config *c = &s->config;
    double (*const lr)(const ls_schedule *, schedule_time) = formulas[c->kind].lr;
    epoch = epoch < 0 ? 0 : epoch < MAX_EPOCHS ? epoch : MAX_EPOCHS;
    step = step < 0 ? 0 : step < MAX_STEPS ? step : MAX_STEPS;
    const int64_t now = epoch * c->steps_per_epoch + step;
    const int64_t warmup = c->warmup_epochs * c->steps_per_epoch;
    if (now < warmup) {
        const double target = lr(s, (schedule_time){ 0, 0 });
        const double share = (double)now / (double)warmup;
        return target * (c->warmup_start + (1 - c->warmup_start) * share);
    }
    /* `step` may count past an epoch's end while `epoch` stays */
    const int64_t since = epoch > c->warmup_epochs ? epoch - c->warmup_epochs : 0;
    return lr(s, (schedule_time){ since, now - warmup });
}

/* ---- State ---- */

/* PyTorch's ReduceLROnPlateau with a relative threshold and eps = 0. */
static void report_to_plateau(ls_schedule *s, double metric)
{
    const ls_schedule_config *c = &s->config;
    const double bar = s->best * (c->maximize ? 1 + c->threshold : 1 - c->threshold);
    if (c->maximize ? metric > bar : metric < bar) { /* false for NaN */
        s->best = metric;
        s->n_bad = 0;
    } else {
        s->n_bad++;
    }
    if (s->n_cooling > 0) {
        s->n_cooling--;
        s->n_bad = 0;
    }
    if (s->n_bad > (double)c->patience) {
        s->factor *= c->gamma;
        s->n_cooling = (double)c->cooldown;
        s->n_bad = 0;
    }
}

ls_status ls_schedule_report(ls_schedule *s, double metric)
{
    LS__DEFAULT_FLOATS;
    if (!s) return LS_ERR_EARLIER;
    LS__ENTER(s->owned.ctx);
    if (s->config.kind == LS_SCHEDULE_REDUCE_ON_PLATEAU) report_to_plateau(s, metric);
    return LS_OK;
}

void ls_schedule_get_state(const ls_schedule *s, double state[LS_SCHEDULE_STATE_SIZE])
{
    const double none[LS_SCHEDULE_STATE_SIZE] = { 1, 0, 0, 0 };
    if (!state) return;
    memcpy(state, s ? (double[]){ s->factor, s->best, s->n_bad, s->n_cooling } : none,
           sizeof(none));
}

static ls_status check_state(ls_context *ctx, const double state[LS_SCHEDULE_STATE_SIZE])
{
    const ls__field numbers[] = { { "state[0], the factor,", state[0], LS__UNIT },
                                  { "state[2], the bad epochs,", state[2], LS__COUNT },
                                  { "state[3], the cooldown,", state[3], LS__COUNT } };
    LS_TRY(ls__check_fields(ctx, "ls_schedule_set_state", numbers, 3));
    if (!isnan(state[1])) return LS_OK;
    return ls__fail(ctx, LS_ERR_INVALID,
                    "ls_schedule_set_state: state[1], the best metric, is not a number");
}

bool ls__schedule_is_state(const double state[LS_SCHEDULE_STATE_SIZE])
{
    return check_state(NULL, state) == LS_OK;
}

ls_status ls_schedule_set_state(ls_schedule *s, const double state[LS_SCHEDULE_STATE_SIZE])
{
    if (!s) return LS_ERR_EARLIER;
    LS__ENTER(s->owned.ctx);
    if (!state)
        return ls__fail(s->owned.ctx, LS_ERR_INVALID, "ls_schedule_set_state: state is NULL");
    LS_TRY(check_state(s->owned.ctx, state));
    s->factor = state[0];
    s->best = state[1];
    s->n_bad = state[2];
    s->n_cooling = state[3];
    return LS_OK;
}
