/* schedule.h: what a schedule is made of: schedule.c has what all have in common, schedules.c the
 * kinds. */
#ifndef LS_OPTIM_SCHEDULE_H
#define LS_OPTIM_SCHEDULE_H

#include "base/context.h"
#include "optim/config.h"
#include <lockstep/optim.h>

/* Time on a schedule's own clock, which starts when the warm-up is over. */
typedef struct ls__schedule_time {
    int64_t epoch, step; /* step: of all epochs together */
} ls__schedule_time;

typedef struct ls__schedule_kind {
    const char *name, *call; /* "cosine", "ls_schedule_cosine" */
    double (*lr)(const ls_schedule *s, ls__schedule_time t);
    void (*report)(ls_schedule *s, double metric); /* NULL = does not listen */
} ls__schedule_kind;

struct ls_schedule {
    ls__owned owned;
    const ls__schedule_kind *kind;

    /* What was configured; each kind uses some of it and leaves the rest 0. */
    double base, min_lr, gamma, power;
    double pct_start, div_factor, final_div_factor;
    int64_t step_size, epochs; /* epochs: of the schedule's own clock */
    int *milestones;
    int n_milestones;
    int64_t patience, cooldown;
    double threshold;
    bool maximize;
    bool by_step; /* the rate changes within an epoch */
    int64_t steps_per_epoch, warmup_epochs;
    double warmup_start;

    /* What reports have left. */
    double factor, best, n_bad, n_cooling;
};

/* Checks what all kinds have, copies the prototype and hands it over to ctx. */
ls_schedule *ls__schedule_open(ls_context *ctx, const ls_schedule *prototype,
                               int64_t steps_per_epoch, ls_schedule_warmup warmup);

const char *ls__schedule_name(const ls_schedule *s);
/* All that tells two schedules of one kind apart. */
void ls__schedule_settings(const ls_schedule *s, ls__setting_fn put, void *user);

/* Whether ls_schedule_set_state takes it. */
bool ls__schedule_is_state(const double state[LS_SCHEDULE_STATE]);

#endif
