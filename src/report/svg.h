/* svg.h: elements of charts as SVG text. report_style.c replaces their colours in dark mode, so it
 * must have each of them. */
#ifndef LS_REPORT_SVG_H
#define LS_REPORT_SVG_H

#include "report/html.h"

/* A character of the texts is at most LS__SVG_LETTER pixels wide on average. */
enum { LS__SVG_LETTER = 8, LS__SVG_BASELINE = 5 };

/* Shades of lines by how good they are; LS__SHADE_NONE: the chart chooses a colour. */
typedef enum ls__shade {
    LS__SHADE_NONE,
    LS__SHADE_FAILED,
    LS__SHADE_WORST,
    LS__SHADE_GOOD = LS__SHADE_WORST + 4,
    LS__SHADE_BEST
} ls__shade;

/* A line's look. The dashes tell lines apart without colours. */
typedef struct ls__svg_stroke {
    ls__shade shade;
    enum { LS__SOLID, LS__DASHED, LS__DOTTED } dash;
} ls__svg_stroke;

/* The colour of a line; `otherwise`: for LS__SHADE_NONE. */
const char *ls__svg_colour(const ls__svg_stroke *stroke, const char *otherwise);
/* Begins a path element up to the quote of its points: the caller puts the points, and ends the
 * attribute and the element. */
void ls__svg_begin_path(ls__html *out, const ls__svg_stroke *stroke, const char *otherwise,
                        double width);

/* Puts an escaped text. anchor: whether its "start", "middle" or "end" is at x. more: other
 * attributes, each after a space, or "". */
void ls__svg_text(ls__html *out, double x, double y, const char *anchor, const char *more,
                  const char *text);
void ls__svg_number(ls__html *out, double x, double y, const char *anchor, double value);
void ls__svg_rectangle(ls__html *out, double x, double y, double width, double height,
                       const char *fill);
/* 1, 2 or 5 times a power of ten, such that the range has about n ticks. */
double ls__svg_tick_distance(double range, double n);

/* Puts a chart's elements into an SVG of that width in pixels. Returns its height. */
typedef double ls__svg_draw(ls__html *out, const void *chart, double width);
/* Puts the chart as an SVG element, whose bytes depend on the chart alone, not on locale, fonts or
 * rounding mode. Texts may contain any bytes. */
void ls__svg_put(ls__html *out, ls__svg_draw *draw, const void *chart, double width);

#endif
