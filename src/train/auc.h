/* auc.h: the area under the ROC curve. */
#ifndef LS_TRAIN_AUC_H
#define LS_TRAIN_AUC_H

#include <lockstep/context.h>

/* The mean over the classes, as ls_evaluation_result.auc: labels [n], probabilities [n][n_classes],
 * without NaN. The result does not depend on the order of the rows. LS_ERR_MEMORY. */
ls_status ls__auc(ls_context *ctx, int64_t n, int n_classes, const int32_t *labels,
                  const float *probabilities, double *out);

#endif
