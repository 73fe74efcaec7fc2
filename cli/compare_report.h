/* compare_report.h: the result of replaying two runs, as JSON and as text. */
#ifndef LS_CLI_COMPARE_REPORT_H
#define LS_CLI_COMPARE_REPORT_H

#include "compare_side.h"

/* {"found": "op", "step", "epoch", "step_in_epoch", "reproduced": {"a", "b"}, "from": [file, file],
 * and, depending on "found", "rates", "batch", "ops", "element"}. "step" is counted from 0 over the
 * run, as in the run log; "epoch" and "step_in_epoch" from 1, as `train` shows them. NULL without
 * memory. */
json_t *compare_report(const compare_side runs[2], const ls__compare_side sides[2],
                       const ls__finding *finding);

/* Prints a report to stdout. */
void compare_print(const json_t *report);

#endif
