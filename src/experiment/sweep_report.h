/* sweep_report.h: the report of a sweep (ls_sweep_report_write), and what it shows: the parameters,
 * and the trials with their values and results, as the sweep's folder contains them. */
#ifndef LS_EXPERIMENT_SWEEP_REPORT_H
#define LS_EXPERIMENT_SWEEP_REPORT_H

#include "experiment/sweep.h"
#include "report/html.h"

/* A trial that has begun. */
typedef struct ls__sweep_past {
    ls_sweep_trial last; /* with the most epochs; its error is borrowed */
    /* Of each axis, of a list the index, NaN = unknown; then that of the metric. */
    double values[LS__SWEEP_MAX_PARAMETERS + 1];
} ls__sweep_past;

typedef struct ls__sweep_history {
    ls_context *ctx;
    const char *dir;
    json_t *file;             /* DIR/sweep.json; texts of parameters are borrowed from it */
    const json_t *definition; /* in it */
    int metric;               /* ls__run_metric_kind */
    int64_t epochs;           /* of a complete trial */
    int n_axes;
    ls__sweep_parameter axes[LS__SWEEP_MAX_PARAMETERS];
    ls__sweep_results results;
    int64_t n_trials;
    ls__sweep_past *trials;        /* by number */
    const ls__sweep_past **ranked; /* from the best to the worst; failed ones last */
} ls__sweep_history;

/* ---- sweep_history.c ---- */

/* Reads DIR/sweep.json, and the number of epochs from a trial's config.json. LS_ERR_FORMAT for a
 * damaged file. The caller must call ls__sweep_history_close in any case. */
ls_status ls__sweep_history_read(ls_context *ctx, const char *dir, ls__sweep_history *out);
void ls__sweep_history_close(ls__sweep_history *h);

bool ls__sweep_history_has_values(const ls__sweep_history *h, const ls__sweep_past *trial);

/* The importance of all axes by the results after *epochs epochs, of the *n trials that have known
 * values: of the epochs that most trials have reached. */
ls_status ls__sweep_history_importance(const ls__sweep_history *h, int64_t *epochs, int64_t *n,
                                       ls_search_effect effects[LS__SWEEP_MAX_PARAMETERS]);

/* ---- sweep_charts.c ---- */

/* The trials as parallel coordinates. */
void ls__sweep_put_parallel(ls__html *html, const ls__sweep_history *h);
/* The metric of each trial by epoch. */
ls_status ls__sweep_put_curves(ls__html *html, const ls__sweep_history *h);
/* The meaning of the lines of both. */
void ls__sweep_put_legend(ls__html *html, const ls__sweep_history *h);

#endif
