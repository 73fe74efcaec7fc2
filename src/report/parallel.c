/* parallel.c: see parallel.h. */
#include "report/parallel.h"

#include <lockstep/text.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Pixels. Upright axes stand side by side. Stacked ones lie one above the other, with their name
 * above them and their ticks below. */
enum { SIDE = 84, TOP = 52, LENGTH = 300, BOTTOM = 24, BEYOND = 52, STACK_SIDE = 22 };
enum { NAME_HEIGHT = 30, TICK_HEIGHT = 16, STACK_GAP = 34, TICKS = 5, MAX_ROWS = 4 };
enum { MAX_CHARACTERS = 16, LABEL_SIZE = 4 * MAX_CHARACTERS + 4 };

typedef struct drawing {
    const ls__parallel *chart;
    ls__html *out;
    double width;
    bool is_stacked;
    int name_rows; /* of upright axes: names of neighbours are in different rows */
} drawing;

/* The first characters of a long text. */
static const char *shorten(const char *text, char out[LABEL_SIZE])
{
    size_t at = 0;
    int32_t code;
    for (int i = 0; text[at]; i++) {
        if (i == MAX_CHARACTERS) {
            snprintf(out, LABEL_SIZE, "%.*s\xe2\x80\xa6", (int)at, text);
            return out;
        }
        at += (size_t)ls_utf8_next(text + at, &code);
    }
    return text;
}

/* ---- Places ---- */

static double length_of(const drawing *d)
{
    return d->is_stacked ? d->width - 2 * STACK_SIDE : LENGTH;
}

/* Pixels from the low end of an axis. */
static double along(const drawing *d, const ls__parallel_axis *a, double value)
{
    if (!isfinite(value)) return 0;
    const double begin = a->beyond ? BEYOND : 0, length = length_of(d) - begin;
    if (a->n_names > 0) return begin + (value + 0.5) / (double)a->n_names * length;
    const double low = a->is_log ? log10(a->low) : a->low;
    const double high = a->is_log ? log10(a->high) : a->high;
    const double at = a->is_log ? log10(value) : value;
    return begin + (low == high ? 0.5 : fmin(fmax((at - low) / (high - low), 0), 1)) * length;
}

static int tick_rows(const drawing *d, const ls__parallel_axis *a)
{
    double width = 0;
    char label[LABEL_SIZE];
    for (int64_t i = 0; i < a->n_names; i++)
        width = fmax(width, LS__SVG_LETTER * (double)(strlen(shorten(a->names[i], label)) + 1));
    const double rows = ceil(width * (double)a->n_names / length_of(d));
    return (int)fmin(fmax(rows, 1), MAX_ROWS);
}

/* The place of an axis: x of an upright one, y of a stacked one. */
static double axis_at(const drawing *d, int axis)
{
    const ls__parallel *c = d->chart;
    double at = NAME_HEIGHT;
    if (!d->is_stacked)
        return c->n_axes == 1 ? d->width / 2
                              : SIDE + (double)axis / (c->n_axes - 1) * (d->width - 2 * SIDE);
    for (int i = 0; i < axis; i++)
        at += TICK_HEIGHT * tick_rows(d, &c->axes[i]) + STACK_GAP + NAME_HEIGHT;
    return at;
}

static double top_of(const drawing *d)
{
    return TOP + (d->name_rows - 1) * TICK_HEIGHT;
}

static void place(const drawing *d, int axis, double pixels, double *x, double *y)
{
    const bool is_stacked = d->is_stacked;
    *x = is_stacked ? STACK_SIDE + pixels : axis_at(d, axis);
    *y = is_stacked ? axis_at(d, axis) : top_of(d) + LENGTH - pixels;
}

/* ---- Axes ---- */

/* row: of the texts below a stacked axis. */
static void draw_tick(const drawing *d, int axis, double pixels, int row, const char *text)
{
    const bool is_last = axis == d->chart->n_axes - 1;
    double x, y;
    char label[LABEL_SIZE];
    place(d, axis, pixels, &x, &y);
    text = shorten(text, label);
    if (d->is_stacked) {
        const double end = length_of(d) - 24;
        ls__svg_rectangle(d->out, x - 0.5, y - 4, 1, 8, "#222222");
        ls__svg_text(d->out,
                     pixels < 24    ? x - 16
                     : pixels > end ? x + 16
                                    : x,
                     y + 20 + row * TICK_HEIGHT,
                     pixels < 24    ? "start"
                     : pixels > end ? "end"
                                    : "middle",
                     "", text);
    } else {
        ls__svg_rectangle(d->out, x - 4, y - 0.5, 8, 1, "#222222");
        ls__svg_text(d->out, is_last ? x + 9 : x - 9, y + LS__SVG_BASELINE,
                     is_last ? "start" : "end", "", text);
    }
}

static void draw_number_tick(const drawing *d, int axis, double value)
{
    char text[32];
    snprintf(text, sizeof(text), "%.6g", value);
    draw_tick(d, axis, along(d, &d->chart->axes[axis], value), 0, text);
}

/* Powers of ten, some of many; of less than two decades also their 2- and 5-fold. */
static void draw_log_ticks(const drawing *d, int axis, double low, double high)
{
    static const double times[] = { 1, 2, 5 };
    const double decades = log10(high / low), step = fmax(1, ceil(decades / TICKS));
    for (double k = floor(log10(low)); k <= log10(high); k += step)
        for (int i = 0; i < (decades < 2 ? 3 : 1); i++) {
            const double value = pow(10, k) * times[i];
            if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9))
                draw_number_tick(d, axis, value);
        }
}

static void draw_ticks(const drawing *d, int axis)
{
    const ls__parallel_axis *a = &d->chart->axes[axis];
    const double low = fmin(a->low, a->high), high = fmax(a->low, a->high);
    const int rows = tick_rows(d, a);
    if (a->beyond) draw_tick(d, axis, 0, 0, a->beyond);
    for (int64_t i = 0; i < a->n_names; i++)
        draw_tick(d, axis, along(d, a, (double)i), (int)(i % rows), a->names[i]);
    if (a->n_names > 0) return;
    if (low == high) {
        draw_number_tick(d, axis, low);
    } else if (a->is_log) {
        draw_log_ticks(d, axis, low, high);
    } else {
        const double tick = ls__svg_tick_distance(high - low, TICKS), slack = 1e-9 * tick;
        const double first = ceil((low - slack) / tick);
        for (int i = 0; i <= 2 * TICKS && (first + i) * tick <= high + slack; i++)
            draw_number_tick(d, axis, (first + i) * tick + 0.0);
    }
}

static void draw_axis(const drawing *d, int axis)
{
    double x, y;
    place(d, axis, 0, &x, &y);
    if (d->is_stacked)
        ls__svg_rectangle(d->out, x, y - 0.5, length_of(d), 1, "#222222");
    else
        ls__svg_rectangle(d->out, x - 0.5, top_of(d), 1, LENGTH, "#222222");
}

static void draw_name(const drawing *d, int axis)
{
    const double at = axis_at(d, axis);
    const char *name = d->chart->axes[axis].name;
    if (d->is_stacked)
        ls__svg_text(d->out, 6, at - 12, "start", " font-weight=\"600\"", name);
    else
        ls__svg_text(d->out, at, 24 + axis % d->name_rows * TICK_HEIGHT, "middle",
                     " font-weight=\"600\"", name);
}

/* ---- Lines ---- */

static void draw_line(const drawing *d, const ls__parallel_line *line)
{
    const ls__parallel *c = d->chart;
    ls__svg_begin_path(d->out, &line->stroke, "", line->stroke.shade == LS__SHADE_BEST ? 4 : 1.8);
    for (int i = 0; i < c->n_axes; i++) {
        double x, y;
        place(d, i, along(d, &c->axes[i], line->values[i]), &x, &y);
        ls__html_put(d->out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x, y);
    }
    ls__html_wrap(d->out, "\"><title>", line->title, "</title></path>\n");
}

double ls__parallel_draw(ls__html *out, const void *any, double width)
{
    enum { MIN_UPRIGHT_WIDTH = 600, MAX_UPRIGHT_AXES = 12 };
    const ls__parallel *c = any;
    drawing d = { .chart = c, .out = out, .width = width, .name_rows = 1 };
    d.is_stacked = width < MIN_UPRIGHT_WIDTH || c->n_axes > MAX_UPRIGHT_AXES;
    const double distance = c->n_axes > 1 ? (width - 2 * SIDE) / (c->n_axes - 1) : width;
    for (int i = 0; i < c->n_axes; i++)
        if (LS__SVG_LETTER * (double)(strlen(c->axes[i].name) + 1) > distance) d.name_rows = 2;
    for (int i = 0; i < c->n_axes; i++) draw_axis(&d, i);
    for (int64_t i = 0; i < c->n_lines; i++) draw_line(&d, &c->lines[i]);
    for (int i = 0; i < c->n_axes; i++) {
        draw_name(&d, i);
        draw_ticks(&d, i);
    }
    return d.is_stacked ? axis_at(&d, c->n_axes) - NAME_HEIGHT - STACK_GAP + 14
                        : top_of(&d) + LENGTH + BOTTOM;
}
