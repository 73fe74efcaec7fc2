/* schedule.h: the struct of a schedule, and its settings and state for checkpoints. */
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

const char *ls__schedule_name(const ls_schedule *s);
/* All settings of the schedule that are numbers. */
void ls__schedule_settings(const ls_schedule *s, ls__setting_fn put, void *user);

/* True if ls_schedule_set_state accepts it. */
bool ls__schedule_is_state(const double state[LS_SCHEDULE_STATE_SIZE]);

#endif
