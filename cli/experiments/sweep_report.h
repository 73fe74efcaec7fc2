/* sweep_report.h: the report of a sweep: its best trial, the trials as parallel coordinates, curves
 * and a table, and the importance of the parameters. */
#ifndef LS_CLI_EXPERIMENTS_SWEEP_REPORT_H
#define LS_CLI_EXPERIMENTS_SWEEP_REPORT_H

#include "experiments/sweep_history.h"
#include "report/html.h"

/* Whether the folder is that of a sweep. */
bool sweep_report_is_sweep(const char *dir);

/* Writes the report of the sweep in DIR to `path`, else to DIR/report.html. The trials may still be
 * training. On failure prints the reason and returns false. */
bool sweep_report_write(ls_context *ctx, const char *dir, const char *path);

/* ---- sweep_charts.c ---- */

/* The trials as parallel coordinates. */
ls_status sweep_put_parallel(ls__html *html, const sweep_history *h);
/* The metric of each trial by epoch. */
ls_status sweep_put_curves(ls__html *html, const sweep_history *h);
/* The meaning of the lines of both. */
void sweep_put_legend(ls__html *html, const sweep_history *h);

#endif
