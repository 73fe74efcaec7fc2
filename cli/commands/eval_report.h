/* eval_report.h: the results of 'lockstep eval': for the classes of a model, or the targets of one
 * with several labels or numbers. */
#ifndef LS_CLI_COMMANDS_EVAL_REPORT_H
#define LS_CLI_COMMANDS_EVAL_REPORT_H

#include "terminal/events.h"

/* ---- Classes ---- */

/* The scores, the confusion matrix, or with more than 20 classes the most confused ones, and the
 * table of the classes; the latter for more classes only with `all`. has_auc: the evaluation
 * computed the areas under the ROC curves. */
void eval_print_classes(const ls_evaluation *evaluation, const ls_model_info *info, bool all,
                        bool has_auc);

/* One JSON object. On failure, also of the next one, prints the reason and returns false. */
bool eval_print_json(ls_evaluation *evaluation, const ls_dataset *dataset, double loss);
/* The table of the classes. */
bool eval_write_csv(const ls_evaluation *evaluation, const char *path);

/* ---- Targets ---- */

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
