/* curves.h: the training curves of a run as a chart. */
#ifndef LS_REPORT_CURVES_H
#define LS_REPORT_CURVES_H

#include <lockstep/context.h>

/* Writes DIR/curves.svg: loss and top-1 accuracy of each epoch in DIR/metrics.jsonl, of training
 * and of validation if the run has it. log_loss: a logarithmic axis for the loss. LS_ERR_DATA if no
 * epoch is complete. */
ls_status ls__curves_save(ls_context *ctx, const char *dir, const char *title, bool log_loss);

#endif
