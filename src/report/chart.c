/* chart.c: charts as SVG text; see chart.h. */
#include "report/chart.h"

#include "base/error.h"
#include "base/file.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Pixels. */
enum { RIGHT = 24, TOP = 52, TOP_WITHOUT_TITLE = 8 };
enum { GAP = 36, BOTTOM = 52, PLOT_HEIGHT = 250 };
enum { ROW_HEIGHT = 18, LEGEND_LINE = 22, MIN_LEFT = 72 };
enum { MAX_DOTS = 40, Y_TICKS = 5, X_TICK_DISTANCE = 75 };

/* Colours for colour-blind readers (Okabe and Ito 2008). */
static const char *const colours[LS__CHART_COLOURS] = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#785e28", "#5a5a5a"
};

typedef struct scale {
    bool is_log;            /* low, high and tick are those of log10 of the values */
    double low, high, tick; /* tick: the distance of two ticks */
    double begin, end;      /* pixels of low and high */
} scale;

typedef struct drawing {
    const ls__chart *chart;
    ls__html *out;
    scale x;
    double width, left;
} drawing;

/* ---- Scales ---- */

static double position(const scale *s, double value)
{
    const double at = s->is_log ? log10(value) : value;
    return s->begin + (at - s->low) / (s->high - s->low) * (s->end - s->begin);
}

/* On a y axis: of values beyond a cut, its end. */
static double y_position(const scale *s, double value)
{
    return fmax(position(s, value), s->end);
}

static double x_of(const ls__chart_line *line, int64_t i)
{
    return line->x ? line->x[i] : (double)i;
}

/* Ticks of larger values would overflow. */
#define HUGE_Y 1e300

static bool can_draw(const ls__chart_panel *p, double y)
{
    return fabs(y) < HUGE_Y && (!p->log_y || y > 1 / HUGE_Y);
}

/* All panels' x, from half a cell before the first to half a cell after the last; on a logarithmic
 * axis whole powers of ten. */
static scale x_scale(const ls__chart *chart, double left, double width)
{
    double low = INFINITY, high = -INFINITY;
    for (int k = 0; k < chart->n_panels; k++) {
        const ls__chart_panel *p = &chart->panels[k];
        for (int i = 0; i < p->n_rows; i++) {
            low = fmin(low, 0);
            high = fmax(high, (double)p->rows[i].spans[p->rows[i].n_spans - 1].end - 1);
        }
        for (int i = 0; i < p->n_lines; i++) {
            if (p->lines[i].n == 0) continue;
            low = fmin(low, x_of(&p->lines[i], 0));
            high = fmax(high, x_of(&p->lines[i], p->lines[i].n - 1));
        }
    }
    if (!(low <= high)) low = high = 0;
    const double n_ticks = floor(width / X_TICK_DISTANCE);
    scale s = { .is_log = chart->log_x, .begin = left, .end = width - RIGHT };
    if (s.is_log) {
        s.low = low > 0 ? floor(log10(low)) : 0;
        s.high = fmax(s.low + 1, high > 0 ? ceil(log10(high)) : 0);
        s.tick = ceil((s.high - s.low) / n_ticks);
        return s;
    }
    const double half = fmax(0.5, 1e-9 * fabs(high)); /* larger values have no halves */
    s.low = low - half;
    s.high = high + half;
    s.tick = fmax(1, ls__svg_tick_distance(s.high - s.low, n_ticks));
    return s;
}

/* The range of all lines' values, extended to whole ticks. */
static scale y_scale(const ls__chart_panel *p, double top)
{
    scale s = { .is_log = p->log_y, .tick = 1, .begin = top + PLOT_HEIGHT, .end = top };
    double low = p->from_zero && !p->log_y ? 0 : INFINITY,
           high = p->up_to > 0 && !p->log_y ? p->up_to : -INFINITY;
    for (int i = 0; i < p->n_lines; i++)
        for (int64_t k = 0; k < p->lines[i].n; k++) {
            if (!can_draw(p, p->lines[i].y[k])) continue;
            const double at = p->log_y ? log10(p->lines[i].y[k]) : p->lines[i].y[k];
            low = fmin(low, at);
            high = fmax(high, at);
        }
    if (p->cut_at > 0 && !p->log_y) high = fmin(high, p->cut_at);
    if (!(low <= high)) low = high = 0;
    if (!(high - low > 1e-9 * fabs(high) && high - low > 1 / HUGE_Y))
        high = low + (p->log_y ? 1 : fmax(1, fabs(low)));
    if (!p->log_y) s.tick = ls__svg_tick_distance(high - low, Y_TICKS);
    s.low = floor(low / s.tick) * s.tick;
    s.high = ceil(high / s.tick) * s.tick;
    return s;
}

static void draw_y_tick(const drawing *d, const scale *y, double value)
{
    const double at = position(y, value);
    ls__svg_rectangle(d->out, d->left, at - 0.5, d->width - RIGHT - d->left, 1, "#dddddd");
    ls__svg_number(d->out, d->left - 8, at + LS__SVG_BASELINE, "end", value);
}

/* A logarithmic axis has ticks at powers of ten: some of many, or of few also their 2- and 5-fold.
 */
static void draw_y_ticks(const drawing *d, const scale *y)
{
    const double first = round(y->low / y->tick), last = round(y->high / y->tick);
    const double step = ceil((last - first) / (2 * Y_TICKS));
    for (double k = first; k <= last; k += step) {
        draw_y_tick(d, y, y->is_log ? pow(10, k) : k * y->tick);
        for (int times = 2; y->is_log && times <= 5 && last - first <= 2 && k < last; times += 3)
            draw_y_tick(d, y, pow(10, k) * times);
    }
}

static void draw_x_ticks(const drawing *d, double bottom)
{
    for (double k = ceil(d->x.low / d->x.tick) + 0.0; k * d->x.tick <= d->x.high; k++) {
        const double value = d->x.is_log ? pow(10, k * d->x.tick) : k * d->x.tick;
        ls__svg_rectangle(d->out, position(&d->x, value) - 0.5, bottom, 1, 5, "#222222");
        ls__svg_number(d->out, position(&d->x, value), bottom + 19, "middle", value);
    }
}

/* ---- Panels ---- */

/* Draws each point, or the lowest and highest point of a pixel column. */
static void draw_path(const drawing *d, const ls__chart_panel *p, const ls__chart_line *line,
                      const scale *y)
{
    const double max_points = 2 * (d->x.end - d->x.begin);
    double low = INFINITY, high = -INFINITY;
    char pen = 'M';
    for (int64_t i = 0; i < line->n; i++) {
        const double x = position(&d->x, x_of(line, i));
        if (!can_draw(p, line->y[i])) {
            pen = 'M';
            continue;
        }
        const double at = y_position(y, line->y[i]);
        low = fmin(low, at);
        high = fmax(high, at);
        const bool drawn_next = i + 1 < line->n && can_draw(p, line->y[i + 1]);
        if ((double)line->n > max_points && drawn_next &&
            floor(position(&d->x, x_of(line, i + 1))) == floor(x))
            continue;
        ls__html_put(d->out, "%c%.1f %.1f", pen, x, low);
        if (high > low) ls__html_put(d->out, "V%.1f", high);
        pen = 'L';
        low = INFINITY;
        high = -INFINITY;
    }
}

static void draw_lines(const drawing *d, const ls__chart_panel *p, double top)
{
    const scale y = y_scale(p, top);
    draw_y_ticks(d, &y);
    for (int i = 0; i < p->n_lines; i++) {
        const ls__chart_line *line = &p->lines[i];
        const char *colour = ls__svg_colour(&line->stroke, colours[i % LS__CHART_COLOURS]);
        const int below = p->may_coincide ? p->n_lines - 1 - i : 0; /* lines above this one */
        const bool is_best = line->stroke.shade == LS__SHADE_BEST;
        ls__svg_begin_path(d->out, &line->stroke, colour, is_best ? 4 : 2 + 3 * fmin(below, 3));
        draw_path(d, p, line, &y);
        ls__html_put(d->out, "\"/>\n");
        const int64_t max_dots = line->stroke.shade ? 1 : MAX_DOTS;
        for (int64_t k = 0; k < line->n && line->n <= max_dots; k++)
            if (can_draw(p, line->y[k]))
                ls__html_put(d->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n",
                             position(&d->x, x_of(line, k)), y_position(&y, line->y[k]),
                             3.5 + 1.5 * fmin(below, 3), colour);
    }
}

/* Characters of the longest tick of an axis of lines. */
static int longest_tick(const ls__chart_panel *p)
{
    const scale y = y_scale(p, 0);
    const double first = round(y.low / y.tick), last = round(y.high / y.tick);
    int longest = 0;
    for (double k = first; k <= last && k - first <= 100; k++) {
        const int length = snprintf(NULL, 0, "%.9g", y.is_log ? pow(10, k) : k * y.tick);
        if (length > longest) longest = length;
    }
    return longest;
}

static void draw_rows(const drawing *d, const ls__chart_panel *p, double top)
{
    for (int i = 0; i < p->n_rows; i++) {
        const ls__chart_row *row = &p->rows[i];
        const double y = top + i * ROW_HEIGHT;
        ls__svg_text(d->out, d->left - 8, y + ROW_HEIGHT / 2.0 + LS__SVG_BASELINE, "end", "",
                     row->name);
        int64_t begin = 0;
        for (int k = 0; k < row->n_spans; k++) {
            const double x = position(&d->x, (double)begin - 0.5);
            begin = row->spans[k].end;
            ls__svg_rectangle(d->out, x, y + 2, position(&d->x, (double)begin - 0.5) - x,
                              ROW_HEIGHT - 4, colours[row->spans[k].colour % LS__CHART_COLOURS]);
        }
        for (int k = 0; k < row->n_marks; k++)
            ls__svg_rectangle(d->out, position(&d->x, (double)row->marks[k] - 0.5) - 1.5, y, 3,
                              ROW_HEIGHT, "#ffffff");
    }
}

/* Draws names side by side, in as many lines as needed. Returns the height. */
static double draw_legend(const drawing *d, const ls__chart_panel *p, double top)
{
    double x = d->left, y = top;
    for (int i = 0; i < p->n_names; i++) {
        const double width = 44 + LS__SVG_LETTER * (double)strlen(p->names[i]);
        if (x > d->left && x + width > d->width - RIGHT) {
            x = d->left;
            y += LEGEND_LINE;
        }
        ls__svg_rectangle(d->out, x, y + 7, 22, 8, colours[i % LS__CHART_COLOURS]);
        ls__svg_text(d->out, x + 30, y + LEGEND_LINE / 2.0 + LS__SVG_BASELINE, "start", "",
                     p->names[i]);
        x += width;
    }
    if (p->n_names > 0) y += LEGEND_LINE;
    if (p->note && *p->note) {
        ls__svg_text(d->out, d->left, y + LEGEND_LINE / 2.0 + LS__SVG_BASELINE, "start", "",
                     p->note);
        y += LEGEND_LINE;
    }
    return y - top + 6;
}

/* Returns the panel's lower end. */
static double draw_panel(const drawing *d, const ls__chart_panel *p, double top)
{
    top += draw_legend(d, p, top);
    const double bottom = top + (p->n_rows > 0 ? p->n_rows * ROW_HEIGHT : PLOT_HEIGHT);
    char turned[64];
    snprintf(turned, sizeof(turned), " transform=\"rotate(-90 18 %.1f)\"", (top + bottom) / 2);
    ls__svg_text(d->out, 18, (top + bottom) / 2, "middle", turned, p->y_label);
    if (p->n_rows > 0)
        draw_rows(d, p, top);
    else
        draw_lines(d, p, top);
    ls__svg_rectangle(d->out, d->left, top, 1, bottom - top, "#222222");
    ls__svg_rectangle(d->out, d->left, bottom, d->width - RIGHT - d->left, 1, "#222222");
    draw_x_ticks(d, bottom);
    return bottom;
}

double ls__chart_draw(ls__html *out, const void *any, double width)
{
    const ls__chart *chart = any;
    double longest = 0;
    for (int k = 0; k < chart->n_panels; k++) {
        const ls__chart_panel *p = &chart->panels[k];
        if (p->n_rows == 0) longest = fmax(longest, longest_tick(p));
        for (int i = 0; i < p->n_rows; i++)
            longest = fmax(longest, (double)strlen(p->rows[i].name));
    }
    drawing d = { .chart = chart, .out = out, .width = width };
    d.left = fmax(MIN_LEFT, fmin(d.width / 3, 38 + LS__SVG_LETTER * longest));
    d.x = x_scale(chart, d.left, d.width);
    if (chart->title)
        ls__svg_text(out, d.width / 2, 28, "middle", " font-size=\"17\"", chart->title);
    double bottom = (chart->title ? TOP : TOP_WITHOUT_TITLE) - GAP;
    for (int k = 0; k < chart->n_panels; k++)
        bottom = draw_panel(&d, &chart->panels[k], bottom + GAP);
    ls__svg_text(out, (d.left + d.width - RIGHT) / 2, bottom + 42, "middle", "", chart->x_label);
    return bottom + BOTTOM;
}

ls_status ls__chart_save(ls_context *ctx, const char *path, const ls__chart *chart)
{
    enum { WIDTH = 900 };
    ls__html svg = { .ctx = ctx };
    ls__svg_put(&svg, ls__chart_draw, chart, WIDTH);
    const ls_status status = svg.failed ? ls__fail_memory(ctx, path, svg.capacity)
                                        : ls__file_replace(ctx, path, svg.data, svg.size);
    ls__bytes_free(&svg);
    return status;
}
