/* repro_picture.c: the losses of all runs as a picture; see repro.h. */
#include "canvas.h"
#include "repro.h"
#include "write_image.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1000, LEFT = 110, RIGHT = 20, TOP = 40, BOTTOM = 64, LINE = 22, MAX_LINES = 12 };
enum { PLOT_WIDTH = WIDTH - LEFT - RIGHT, PLOT_HEIGHT = 440 };

static const colour white = { 255, 255, 255 }, black = { 30, 30, 30 }, grey = { 225, 225, 225 };

/* Told apart by most eyes (Okabe and Ito 2008). */
static const colour inks[] = { { 0, 114, 178 },   { 213, 94, 0 },  { 0, 158, 115 },
                               { 204, 121, 167 }, { 230, 159, 0 }, { 86, 180, 233 },
                               { 120, 94, 40 },   { 90, 90, 90 } };
enum { N_INKS = sizeof(inks) / sizeof(inks[0]) };

typedef struct plot {
    const repro *r;
    canvas canvas;
    int64_t shared;   /* steps that all runs have in common */
    int top;          /* of the plot, below the legend */
    double low, high; /* of the losses */
} plot;

static double x_of(const plot *p, double step)
{
    const double last = p->r->steps > 1 ? (double)(p->r->steps - 1) : 1;
    return LEFT + step / last * PLOT_WIDTH;
}

static double y_of(const plot *p, double loss)
{
    return p->top + (p->high - loss) / (p->high - p->low) * PLOT_HEIGHT;
}

static void find_range(plot *p)
{
    p->low = INFINITY;
    p->high = -INFINITY;
    for (int i = 0; i < p->r->n_runs; i++)
        for (int64_t k = 0; k < p->r->steps; k++) {
            p->low = fmin(p->low, p->r->runs[i].losses[k]);
            p->high = fmax(p->high, p->r->runs[i].losses[k]);
        }
    if (p->high <= p->low) p->high = p->low + 1;
}

/* 1, 2 or 5 times a power of ten: about `wanted` of them in the range. */
static double tick_distance(double range, double wanted)
{
    const double rough = range / wanted, power = pow(10, floor(log10(rough)));
    const double times = rough / power;
    return power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

static void draw_axes(plot *p)
{
    canvas *c = &p->canvas;
    const int bottom = p->top + PLOT_HEIGHT;
    char text[32];
    const double dy = tick_distance(p->high - p->low, 6);
    for (double y = ceil(p->low / dy) * dy; y <= p->high; y += dy) {
        const int at = (int)lround(y_of(p, y));
        canvas_fill(c, LEFT, at, PLOT_WIDTH, 1, grey);
        snprintf(text, sizeof(text), "%7.4g", y);
        canvas_text(c, LEFT - 8 * LETTER_WIDTH, at - LETTER_HEIGHT / 2, text, black);
    }
    const double dx = fmax(1, tick_distance((double)p->r->steps, 10));
    for (double x = 0; x < (double)p->r->steps; x += dx) {
        const int at = (int)lround(x_of(p, x));
        canvas_fill(c, at, bottom, 1, 6, black);
        snprintf(text, sizeof(text), "%.0f", x);
        canvas_text(c, at - (int)strlen(text) * LETTER_WIDTH / 2, bottom + 12, text, black);
    }
    canvas_fill(c, LEFT, p->top, 1, PLOT_HEIGHT, black);
    canvas_fill(c, LEFT, bottom, PLOT_WIDTH, 1, black);
    canvas_text(c, LEFT + PLOT_WIDTH / 2, bottom + 38, "STEP", black);
}

static void draw_curve(plot *p, const repro_run *run, int64_t first, int64_t last, colour ink)
{
    for (int64_t k = first > 0 ? first : 0; k < last; k++)
        canvas_line(&p->canvas, x_of(p, (double)k), y_of(p, run->losses[k]), x_of(p, (double)k + 1),
                    y_of(p, run->losses[k + 1]), ink);
}

static void draw_legend(plot *p, int line, colour ink, const char *text)
{
    const int y = TOP + line * LINE;
    canvas_fill(&p->canvas, LEFT, y + LETTER_HEIGHT / 2 - 2, 24, 4, ink);
    canvas_text(&p->canvas, LEFT + 36, y, text, black);
}

/* One curve up to the step at which results differ, then one for each result. */
static void draw_results(plot *p)
{
    const repro *r = p->r;
    char text[128], members[64];
    const bool one = r->n_results == 1;
    int at = snprintf(text, sizeof(text), "ALL %d RUNS: THE SAME ", r->n_runs);
    if (one)
        snprintf(text + at, sizeof(text) - (size_t)at, "IN EVERY STEP");
    else
        snprintf(text + at, sizeof(text) - (size_t)at, "BEFORE STEP %lld", (long long)p->shared);
    draw_legend(p, 0, one ? inks[0] : black, text);
    for (int result = r->n_results - 1; result >= 0 && !one; result--) {
        const repro_run *first = repro_first_of(r, result);
        const int64_t split = result > 0 ? first->split.step : p->shared;
        const colour ink = inks[result % N_INKS];
        draw_curve(p, first, split - 1, r->steps - 1, ink);
        const int x = (int)lround(x_of(p, (double)split));
        for (int y = p->top; result > 0 && y < p->top + PLOT_HEIGHT; y += 12)
            canvas_fill(&p->canvas, x, y, 1, 6, ink);
        if (result + 1 >= MAX_LINES) continue;
        const int n = repro_members(r, result, ", ", members, sizeof(members));
        at = snprintf(text, sizeof(text), "%s: %d RUN%s", members, n, n > 1 ? "S" : "");
        if (result > 0)
            snprintf(text + at, sizeof(text) - (size_t)at, ", DIFFERENT FROM STEP %lld ON",
                     (long long)split);
        draw_legend(p, result + 1, ink, text);
    }
    draw_curve(p, &r->runs[0], 0, p->shared - 1, one ? inks[0] : black);
}

int repro_draw(const repro *r)
{
    char path[REPRO_PATH_SIZE + 16];
    const int n_lines = r->n_results == 1 ? 1 : r->n_results + 1;
    plot p = { .r = r, .shared = r->steps };
    for (int i = 0; i < r->n_runs; i++)
        if (r->runs[i].split.step >= 0 && r->runs[i].split.step < p.shared)
            p.shared = r->runs[i].split.step;
    p.top = TOP + (n_lines < MAX_LINES ? n_lines : MAX_LINES) * LINE + 10;
    p.canvas = (canvas){ .width = WIDTH, .height = p.top + PLOT_HEIGHT + BOTTOM };
    p.canvas.pixels = malloc((size_t)3 * WIDTH * (size_t)p.canvas.height);
    if (!p.canvas.pixels) return print_error(r->verb, NULL, EXIT_NO_VERDICT);
    canvas_fill(&p.canvas, 0, 0, WIDTH, p.canvas.height, white);
    canvas_text(&p.canvas, LEFT, 12, "LOSS OF EACH STEP, RUNS AS WORKERS x THREADS", black);
    find_range(&p);
    draw_axes(&p);
    draw_results(&p);
    snprintf(path, sizeof(path), "%s/repro.png", r->out);
    const bool good = write_image(path, WIDTH, p.canvas.height, p.canvas.pixels, 0);
    if (!good) print_text(stderr, "lockstep %s: %s: %s\n", r->verb->name, path, strerror(errno));
    free(p.canvas.pixels);
    return good ? EXIT_DONE : EXIT_NO_VERDICT;
}
