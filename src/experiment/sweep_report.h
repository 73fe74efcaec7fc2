/* sweep_report.h: the report of a sweep: its best trial, the trials as parallel coordinates, curves
 * and a table, and the importance of the parameters; ls_sweep_report_write. */
#ifndef LS_EXPERIMENT_SWEEP_REPORT_H
#define LS_EXPERIMENT_SWEEP_REPORT_H

#include "experiment/sweep_history.h"
#include "report/html.h"

/* ---- sweep_charts.c ---- */

/* The trials as parallel coordinates. */
void ls__sweep_put_parallel(ls__html *html, const ls__sweep_history *h);
/* The metric of each trial by epoch. */
ls_status ls__sweep_put_curves(ls__html *html, const ls__sweep_history *h);
/* The meaning of the lines of both. */
void ls__sweep_put_legend(ls__html *html, const ls__sweep_history *h);

#endif
