/* schedule.h: the struct of a schedule. schedule.c is the common part, schedules.c the kinds. */
#ifndef LS_OPTIM_SCHEDULE_H
#define LS_OPTIM_SCHEDULE_H

#include "base/context.h"
#include "optim/config.h"
#include <lockstep/optim.h>

/* Time since the end of the warm-up. */
typedef struct ls__schedule_time {
    int64_t epoch, step; /* step: of all epochs together */
} ls__schedule_time;

typedef struct ls__schedule_kind {
    const char *name, *call; /* "cosine", "ls_schedule_cosine" */
    double (*lr)(const ls_schedule *s, ls__schedule_time t);
    void (*report)(ls_schedule *s, double metric); /* NULL = ignores metrics */
} ls__schedule_kind;

struct ls_schedule {
    ls__owned owned;
    const ls__schedule_kind *kind;

    /* The configuration. Fields that a kind does not use are 0. */
    double base, min_lr, gamma, power;
    double pct_start, div_factor, final_div_factor;
    int64_t step_size, epochs; /* epochs: without the warm-up */
    int *milestones;
    int n_milestones;
    int64_t patience, cooldown;
    double threshold;
    bool maximize;
    bool by_step; /* lr changes within an epoch */
    int64_t steps_per_epoch, warmup_epochs;
    double warmup_start;

    /* The state that reports change. */
    double factor, best, n_bad, n_cooling;
};

/* Checks the common fields and copies the prototype; ctx owns the copy. */
ls_schedule *ls__schedule_open(ls_context *ctx, const ls_schedule *prototype,
                               int64_t steps_per_epoch, ls_schedule_warmup warmup);

const char *ls__schedule_name(const ls_schedule *s);
/* All settings of the schedule. */
void ls__schedule_settings(const ls_schedule *s, ls__setting_fn put, void *user);

/* True if ls_schedule_set_state accepts it. */
bool ls__schedule_is_state(const double state[LS_SCHEDULE_STATE]);

#endif
