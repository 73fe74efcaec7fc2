/* schedule.c: the common part of all learning-rate schedules: warm-up, state, checks, lifetime. */
#include "optim/schedule.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The lr is constant beyond these, and the sum of steps cannot overflow. */
static const int64_t MAX_EPOCHS = INT64_C(1) << 22, MAX_STEPS = INT64_C(1) << 61;

double ls_schedule_lr(const ls_schedule *s, int64_t epoch, int64_t step)
{
    LS__DEFAULT_FLOATS;
    if (!s) return 0;
    epoch = epoch < 0 ? 0 : epoch < MAX_EPOCHS ? epoch : MAX_EPOCHS;
    step = step < 0 ? 0 : step < MAX_STEPS ? step : MAX_STEPS;
    const int64_t now = epoch * s->steps_per_epoch + step;
    const int64_t warmup = s->warmup_epochs * s->steps_per_epoch;
    if (now < warmup) {
        const double target = s->kind->lr(s, (ls__schedule_time){ 0, 0 });
        const double share = (double)now / (double)warmup;
        return target * (s->warmup_start + (1 - s->warmup_start) * share);
    }
    /* `step` may count past an epoch's end while `epoch` stays */
    const int64_t since = epoch > s->warmup_epochs ? epoch - s->warmup_epochs : 0;
    return s->kind->lr(s, (ls__schedule_time){ since, now - warmup });
}

/* ---- State ---- */

ls_status ls_schedule_report(ls_schedule *s, double metric)
{
    LS__DEFAULT_FLOATS;
    if (!s) return LS_ERR_EARLIER;
    LS__ENTER(s->owned.ctx);
    if (s->kind->report) s->kind->report(s, metric);
    return LS_OK;
}

void ls_schedule_get_state(const ls_schedule *s, double state[LS_SCHEDULE_STATE])
{
    const double none[LS_SCHEDULE_STATE] = { 1, 0, 0, 0 };
    if (!state) return;
    memcpy(state, s ? (double[]){ s->factor, s->best, s->n_bad, s->n_cooling } : none,
           sizeof(none));
}

bool ls__schedule_is_state(const double state[LS_SCHEDULE_STATE])
{
    return ls__in_range(state[0], LS__UNIT) && !isnan(state[1]) &&
           ls__in_range(state[2], LS__COUNT) && ls__in_range(state[3], LS__COUNT);
}

ls_status ls_schedule_set_state(ls_schedule *s, const double state[LS_SCHEDULE_STATE])
{
    if (!s) return LS_ERR_EARLIER;
    LS__ENTER(s->owned.ctx);
    if (!state)
        return ls__fail(s->owned.ctx, LS_ERR_INVALID, "ls_schedule_set_state: state is NULL");
    const ls__field fields[] = { { "state[0], the factor,", state[0], LS__UNIT },
                                 { "state[2], the bad epochs,", state[2], LS__COUNT },
                                 { "state[3], the cooldown,", state[3], LS__COUNT } };
    if (!ls__check_fields(s->owned.ctx, "ls_schedule_set_state", fields, 3)) return LS_ERR_INVALID;
    if (isnan(state[1]))
        return ls__fail(s->owned.ctx, LS_ERR_INVALID,
                        "ls_schedule_set_state: state[1], the best metric, is not a number");
    s->factor = state[0];
    s->best = state[1];
    s->n_bad = state[2];
    s->n_cooling = state[3];
    return LS_OK;
}

/* ---- Opening and closing ---- */

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

static bool check(ls_context *ctx, const ls_schedule *s, bool start_given)
{
    const char *call = s->kind->call;
    const ls__field fields[] = { { "lr", s->base, LS__POSITIVE },
                                 { "min_lr", s->min_lr, LS__NOT_NEGATIVE },
                                 { "warm-up epochs", (double)s->warmup_epochs, LS__EPOCHS },
                                 { "warm-up start", s->warmup_start, LS__UNIT },
                                 { "steps_per_epoch", (double)s->steps_per_epoch, LS__COUNT } };
    if (!ls__check_fields(ctx, call, fields, sizeof fields / sizeof fields[0])) return false;
    if (s->min_lr > s->base) {
        ls__fail(ctx, LS_ERR_INVALID, "%s: min_lr is %.9g, above the learning rate %.9g", call,
                 s->min_lr, s->base);
        return false;
    }
    if (start_given && s->warmup_epochs == 0) {
        ls__fail(ctx, LS_ERR_INVALID, "%s: warm-up start is %.9g, but there is no warm-up epoch",
                 call, s->warmup_start);
        return false;
    }
    if (s->steps_per_epoch == 0 && (s->by_step || s->warmup_epochs > 0)) {
        ls__fail(ctx, LS_ERR_INVALID,
                 "%s: steps_per_epoch is required, because the learning rate changes from step to "
                 "step%s",
                 call, s->by_step ? "" : " while it warms up");
        return false;
    }
    return true;
}

ls_schedule *ls__schedule_open(ls_context *ctx, const ls_schedule *prototype,
                               int64_t steps_per_epoch, ls_schedule_warmup warmup)
{
    LS__DEFAULT_FLOATS;
    const bool start_given = warmup.start != 0 || signbit(warmup.start);
    ls_schedule *s = ls__alloc(ctx, sizeof *s);
    if (!s) {
        ls__fail_memory(ctx, prototype->kind->call, sizeof *s);
        return NULL;
    }
    *s = *prototype;
    s->steps_per_epoch = steps_per_epoch;
    s->warmup_epochs = warmup.epochs;
    s->warmup_start = ls__shortest(ls__or_default(warmup.start, 0.01f));
    s->factor = 1;
    if (!check(ctx, s, start_given)) {
        ls__free(ctx, s);
        return NULL;
    }
    ls__own(ctx, &s->owned, close_schedule);
    return s;
}

/* ---- For checkpoints ---- */

const char *ls__schedule_name(const ls_schedule *s)
{
    return s->kind->name;
}

void ls__schedule_settings(const ls_schedule *s, ls__setting_fn put, void *user)
{
    const struct {
        const char *name;
        double value;
    } settings[] = { { "lr", s->base },
                     { "min_lr", s->min_lr },
                     { "gamma", s->gamma },
                     { "power", s->power },
                     { "pct_start", s->pct_start },
                     { "div_factor", s->div_factor },
                     { "final_div_factor", s->final_div_factor },
                     { "step_size", (double)s->step_size },
                     /* as configured, warm-up included */
                     { "epochs", s->epochs > 0 ? (double)(s->epochs + s->warmup_epochs) : 0 },
                     { "patience", (double)s->patience },
                     { "cooldown", (double)s->cooldown },
                     { "threshold", s->threshold },
                     { "maximize", s->maximize },
                     { "by_step", s->by_step },
                     { "steps_per_epoch", (double)s->steps_per_epoch },
                     { "warmup_epochs", (double)s->warmup_epochs },
                     { "warmup_start", s->warmup_epochs > 0 ? s->warmup_start : 0 } };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        ls__put_setting(put, user, settings[i].name, settings[i].value);
    for (int i = 0; i < s->n_milestones; i++) {
        char name[32];
        snprintf(name, sizeof(name), "milestone%d", i + 1);
        ls__put_setting(put, user, name, s->milestones[i]);
    }
}
