/* eval_targets.h: the errors of each target, for `lockstep eval` of models with several labels or
 * numbers. */
#ifndef LS_CLI_COMMANDS_EVAL_TARGETS_H
#define LS_CLI_COMMANDS_EVAL_TARGETS_H

#include "terminal/events.h"

/* Of one target, over all images. */
typedef struct target_sums {
    double errors;     /* absolute errors */
    int64_t n_correct; /* outputs above 0 where the target is above 0.5, or neither */
    int64_t n_present; /* targets above 0.5 */
} target_sums;

typedef struct target_report {
    run_report *report;
    const ls_model_info *info;
    ls_net *net;
    target_sums *sums;        /* [n_targets] */
    float *outputs, *targets; /* of a batch */
    size_t bytes;             /* of each */
    int64_t n_images;
} target_report;

/* False after printing that there is no memory. target_report_close frees it in any case. */
bool target_report_open(target_report *t, run_report *report, const ls_model_info *info,
                        ls_net *net, int64_t batch);
void target_report_close(target_report *t);
/* The ls_event_fn of a target_report. */
ls_status target_report_event(void *user, const ls_event *event);
/* The line of the result, and with `each` one for each target. */
void target_report_print(const target_report *t, const ls_averages *result, bool each);

#endif
