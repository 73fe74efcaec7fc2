/* chart.h: charts as SVG, panels stacked over a common x axis. */
#ifndef LS_REPORT_CHART_H
#define LS_REPORT_CHART_H

#include "report/svg.h"

enum { LS__CHART_COLOURS = 8 }; /* colours repeat after these */

/* Points in order of x, joined by straight lines. A y that cannot be drawn (not finite or
 * above 1e300; on a logarithmic axis at most 1e-300) leaves a gap. */
typedef struct ls__chart_line {
    int64_t n;
    const double *x; /* NULL: 0, 1, 2, ... */
    const double *y;
    ls__svg_stroke stroke; /* 0 = the colour of the line's number, solid */
} ls__chart_line;

/* A span of a row: from the end of the span before it, or from 0, up to `end`. */
typedef struct ls__chart_span {
    int64_t end;
    int colour;
} ls__chart_span;

/* A row of coloured cells, one for each x = 0, 1, 2, ... */
typedef struct ls__chart_row {
    const char *name;
    int n_spans;
    const ls__chart_span *spans;
    int n_marks;
    const int64_t *marks; /* a stroke is drawn before the cell of each of these x */
} ls__chart_row;

typedef struct ls__chart_panel {
    const char *y_label;
    bool log_y;        /* of lines: logarithmic axis */
    bool from_zero;    /* of lines: the axis includes 0 */
    double up_to;      /* of lines: a linear axis includes this value; 0 = none */
    double cut_at;     /* of lines: a linear axis ends near this value, and larger ones are drawn at
                          its end; 0 = none */
    bool may_coincide; /* of lines: earlier lines are drawn thicker, so that they stay visible */
    const char *note;  /* last line of the legend; "" or NULL = none */
    int n_names;       /* of the legend, in the order of colours */
    const char *const *names;
    int n_lines; /* line i has colour i, unless it has a shade */
    const ls__chart_line *lines;
    int n_rows; /* a panel has either lines or rows */
    const ls__chart_row *rows;
} ls__chart_panel;

typedef struct ls__chart {
    const char *title; /* NULL = none */
    const char *x_label;
    bool log_x; /* logarithmic axis, for lines whose x are above 0 */
    int n_panels;
    const ls__chart_panel *panels;
} ls__chart;

/* Of an ls__chart. */
ls__svg_draw ls__chart_draw;
/* Writes the chart, 900 pixels wide, to a file of a run folder (ls__file_replace). */
ls_status ls__chart_save(ls_context *ctx, const char *path, const ls__chart *chart);

#endif
