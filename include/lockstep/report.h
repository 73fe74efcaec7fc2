/* report.h: the results of runs as one HTML file. */
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

LS_END_DECLARATIONS

#endif
