/* schedule.h: the struct of a schedule, and the formulas (schedules.c). */
#ifndef LS_OPTIM_SCHEDULE_H
#define LS_OPTIM_SCHEDULE_H

#include "base/context.h"
#include "optim/config.h"
#include <lockstep/optim.h>

struct ls_schedule {
    ls__owned owned;
    ls_schedule_config config;             /* with the defaults of its kind; unused fields are 0 */
    double factor, best, n_bad, n_cooling; /* the state that reports change */
    int milestones[];
};

/* Time since the end of the warm-up. */
typedef struct ls__schedule_time {
    int64_t epoch, step; /* step: of all epochs together */
} ls__schedule_time;

typedef struct ls__schedule_formula {
    const char *name;
    double (*lr)(const ls_schedule *s, ls__schedule_time t);
} ls__schedule_formula;
extern const ls__schedule_formula ls__schedule_formulas[LS_SCHEDULE_COSINE_RESTARTS + 1];

const char *ls__schedule_name(const ls_schedule *s);
/* All settings of the schedule. */
void ls__schedule_settings(const ls_schedule *s, ls__setting_fn put, void *user);

/* True if ls_schedule_set_state accepts it. */
bool ls__schedule_is_state(const double state[LS_SCHEDULE_STATE_SIZE]);

#endif
