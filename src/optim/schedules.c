/* schedules.c: the formulas of learning-rate schedules. Conventions and constants are PyTorch's.
 * They are in closed form, so that the lr of a step does not depend on earlier calls. */
#include "arith/element.h"
#include "arith/functions.h"
#include "optim/schedule.h"
#include <math.h>

static double constant_lr(const ls_schedule *s, ls__schedule_time t)
{
    (void)t;
    return s->config.lr;
}

static double step_lr(const ls_schedule *s, ls__schedule_time t)
{
    return s->config.lr * ls__power(s->config.gamma, t.epoch / s->config.step_size);
}

static double multi_step_lr(const ls_schedule *s, ls__schedule_time t)
{
    int n = 0;
    while (n < s->config.n_milestones && s->milestones[n] <= t.epoch) n++;
    return s->config.lr * ls__power(s->config.gamma, n);
}

static double exponential_lr(const ls_schedule *s, ls__schedule_time t)
{
    return s->config.lr * ls__power(s->config.gamma, t.epoch);
}

static double cosine_lr(const ls_schedule *s, ls__schedule_time t)
{
    const ls_schedule_config *c = &s->config;
    const int64_t epochs = c->epochs - c->warmup_epochs;
    if (t.epoch >= epochs) return c->min_lr;
    const double total = (double)(c->by_epoch ? epochs : epochs * c->steps_per_epoch);
    const double now = (double)(c->by_epoch ? t.epoch : t.step);
    if (now >= total) return c->min_lr;
    return c->min_lr + (c->lr - c->min_lr) * (1 + ls__cos_pi(now / total)) / 2;
}

static double cosine_restarts_lr(const ls_schedule *s, ls__schedule_time t)
{
    const ls_schedule_config *c = &s->config;
    double period = (double)(c->by_epoch ? c->t_0 : c->t_0 * c->steps_per_epoch);
    double now = (double)(c->by_epoch ? t.epoch : t.step);
    if (c->t_mult == 1) now = fmod(now, period); /* exact */
    for (; now >= period; period *= (double)c->t_mult) now -= period;
    return c->min_lr + (c->lr - c->min_lr) * (1 + ls__cos_pi(now / period)) / 2;
}

static double polynomial_lr(const ls_schedule *s, ls__schedule_time t)
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
static double one_cycle_lr(const ls_schedule *s, ls__schedule_time t)
{
    const ls_schedule_config *c = &s->config;
    const double first = c->lr / c->div_factor, last = first / c->final_div_factor;
    const double total = (double)(c->epochs * c->steps_per_epoch);
    const double top = c->pct_start * total - 1, end = total - 1;
    const double now = (double)t.step < end ? (double)t.step : end;
    if (now <= top) return cosine_between(first, c->lr, top > 0 ? now / top : 1);
    return cosine_between(c->lr, last, (now - top) / (end - top));
}

static double plateau_lr(const ls_schedule *s, ls__schedule_time t)
{
    (void)t;
    const double lr = s->config.lr * s->factor;
    return lr > s->config.min_lr ? lr : s->config.min_lr;
}

const ls__schedule_formula ls__schedule_formulas[] = {
    [LS_SCHEDULE_COSINE] = { "cosine", cosine_lr },
    [LS_SCHEDULE_CONSTANT] = { "constant", constant_lr },
    [LS_SCHEDULE_STEP] = { "step", step_lr },
    [LS_SCHEDULE_EXPONENTIAL] = { "exponential", exponential_lr },
    [LS_SCHEDULE_POLYNOMIAL] = { "polynomial", polynomial_lr },
    [LS_SCHEDULE_ONE_CYCLE] = { "one_cycle", one_cycle_lr },
    [LS_SCHEDULE_REDUCE_ON_PLATEAU] = { "reduce_on_plateau", plateau_lr },
    [LS_SCHEDULE_MULTI_STEP] = { "multi_step", multi_step_lr },
    [LS_SCHEDULE_COSINE_RESTARTS] = { "cosine_restarts", cosine_restarts_lr },
};
