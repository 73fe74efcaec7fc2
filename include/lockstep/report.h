/* report.h: the results of runs as one HTML file, and their curves as a chart. */
#ifndef LOCKSTEP_REPORT_H
#define LOCKSTEP_REPORT_H

#include <lockstep/context.h>

LS_BEGIN_DECLARATIONS

/* Writes a report of n run folders, 1 or more: curves, settings, environment, and the results of
 * the last validation: the confusion matrix, the scores of the classes, the calibration and the
 * most confident mistakes. The file contains its images and styles, no scripts, and no reference to
 * other files. path NULL: report.html in the first folder. The datasets of the runs are not read.
 * A trainer writes the same file after each epoch (no_report of ls_trainer_config).
 *
 * Errors: LS_ERR_INVALID without folders; LS_ERR_DATA for a folder without a run, which has neither
 * config.json nor a complete epoch in metrics.jsonl; LS_ERR_IO; LS_ERR_MEMORY. After an error
 * `path` is unchanged. A damaged file of a run, or a run without a complete epoch, is a warning
 * (category run): the report says so in the place of what is missing. path may be /dev/stdout or
 * another file that is not regular, which is written directly. */
LS_API ls_status ls_report_write(ls_context *ctx, int n, const char *const *dirs, const char *path);

/* Writes DIR/curves.svg, a chart of the loss and the top-1 accuracy of each epoch in
 * DIR/metrics.jsonl, of training and, if the run has it, of validation. title: a text; log_loss:
 * the axis of the loss is logarithmic. Errors: LS_ERR_DATA if no epoch is complete; LS_ERR_FORMAT
 * or LS_ERR_IO for a file that can't be read or written; LS_ERR_MEMORY. */
LS_API ls_status ls_curves_write(ls_context *ctx, const char *dir, const char *title,
                                 bool log_loss);

LS_END_DECLARATIONS

#endif
