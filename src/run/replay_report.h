/* replay_report.h: the result of replaying two runs, as JSON. */
#ifndef LS_RUN_REPLAY_REPORT_H
#define LS_RUN_REPLAY_REPORT_H

#include "run/replay_side.h"

/* {"found": "op", "step", "epoch", "step_in_epoch", "reproduced": {"a", "b"}, "from": [file, file],
 * and, depending on "found", "learning_rates", "batch", "ops", "element"}. "step" is counted from 0
 * over the run, as in the run log; "epoch" and "step_in_epoch" from 1, as `train` shows them. NULL
 * without memory. */
json_t *ls__replay_report(const ls__replay_side runs[2], const ls__compare_side sides[2],
                          const ls__finding *finding);

#endif
