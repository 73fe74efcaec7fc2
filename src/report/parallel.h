/* parallel.h: parallel coordinates as SVG: an axis per dimension, and a line across all axes
 * per point (Inselberg 1985, "The plane with parallel coordinates"). */
#ifndef LS_REPORT_PARALLEL_H
#define LS_REPORT_PARALLEL_H

#include "report/svg.h"
#include <stdbool.h>

typedef struct ls__parallel_axis {
    const char *name;
    double low, high; /* its ends; low > high: the axis is turned round */
    bool is_log;
    int64_t n_names; /* above 0: evenly spaced names of the values 0, 1, ... in place of numbers */
    const char *const *names;
    const char *beyond; /* name of the place before `low`, of values that are not finite; NULL =
                           there is none, and all values are finite */
} ls__parallel_axis;

typedef struct ls__parallel_line {
    const char *title;    /* shown by browsers when the pointer is over the line */
    const double *values; /* one per axis */
    ls__svg_stroke stroke;
} ls__parallel_line;

typedef struct ls__parallel {
    int n_axes; /* at least 1 */
    const ls__parallel_axis *axes;
    int64_t n_lines; /* later lines are above earlier ones */
    const ls__parallel_line *lines;
} ls__parallel;

/* Of an ls__parallel. The axes stand side by side, or if there are many, or in a chart for a narrow
 * screen, lie one above the other. */
ls__svg_draw ls__parallel_draw;

#endif
