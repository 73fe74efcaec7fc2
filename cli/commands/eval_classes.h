/* eval_classes.h: the results of 'lockstep eval' for the classes of a model. */
#ifndef LS_CLI_COMMANDS_EVAL_CLASSES_H
#define LS_CLI_COMMANDS_EVAL_CLASSES_H

#include "cli.h"

/* The scores, the confusion matrix, or with more than 20 classes the most confused ones, and the
 * table of the classes; the latter for more classes only with `all`. has_auc: the evaluation
 * computed the areas under the ROC curves. */
void eval_print_classes(const ls_evaluation *evaluation, bool all, bool has_auc);

/* One JSON object. On failure, also of the next one, prints the reason and returns false. */
bool eval_print_json(ls_evaluation *evaluation, const ls_dataset *dataset, double loss);
/* The table of the classes. */
bool eval_write_csv(const ls_evaluation *evaluation, const char *path);

#endif
