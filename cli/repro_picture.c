/* repro_picture.c: the losses of all runs as a picture; see repro.h. */
#include "canvas.h"
#include "repro.h"
#include "write_image.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1000, HEIGHT = 560, LEFT = 80, RIGHT = 20, TOP = 30, BOTTOM = 50 };
enum { PLOT_WIDTH = WIDTH - LEFT - RIGHT, PLOT_HEIGHT = HEIGHT - TOP - BOTTOM };

static const colour white = { 255, 255, 255 }, black = { 30, 30, 30 }, grey = { 225, 225, 225 };

/* Told apart by most eyes (Okabe and Ito 2008). */
static const colour inks[] = { { 0, 114, 178 },   { 213, 94, 0 },  { 0, 158, 115 },
                               { 204, 121, 167 }, { 230, 159, 0 }, { 86, 180, 233 },
                               { 120, 94, 40 },   { 90, 90, 90 } };
enum { N_INKS = sizeof(inks) / sizeof(inks[0]) };

typedef struct plot {
    const repro *r;
    canvas canvas;
    double low, high; /* of the losses */
} plot;

static double x_of(const plot *p, double step)
{
    const double last = p->r->steps > 1 ? (double)(p->r->steps - 1) : 1;
    return LEFT + step / last * PLOT_WIDTH;
}

static double y_of(const plot *p, double loss)
{
    return TOP + (p->high - loss) / (p->high - p->low) * PLOT_HEIGHT;
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
        canvas_fill(c, at, TOP + PLOT_HEIGHT, 1, 6, black);
        snprintf(text, sizeof(text), "%.0f", x);
        canvas_text(c, at - (int)strlen(text) * LETTER_WIDTH / 2, TOP + PLOT_HEIGHT + 10, text,
                    black);
    }
    canvas_fill(c, LEFT, TOP, 1, PLOT_HEIGHT, black);
    canvas_fill(c, LEFT, TOP + PLOT_HEIGHT, PLOT_WIDTH, 1, black);
    canvas_text(c, LEFT, TOP - 20, "LOSS OF EACH STEP", black);
    canvas_text(c, LEFT + PLOT_WIDTH / 2, HEIGHT - 20, "STEP", black);
}

/* A curve and a line of the legend for each result, where it leaves the first, and how many runs
 * have it. */
static void draw_results(plot *p)
{
    enum { LINE = 18, LEGEND = 330 };
    canvas *c = &p->canvas;
    const int x = WIDTH - RIGHT - LEGEND;
    for (int i = p->r->n_runs - 1; i >= 0; i--) {
        const repro_run *run = &p->r->runs[i];
        const colour ink = inks[run->result % N_INKS];
        for (int64_t k = 0; k + 1 < p->r->steps; k++)
            canvas_line(c, x_of(p, (double)k), y_of(p, run->losses[k]), x_of(p, (double)k + 1),
                        y_of(p, run->losses[k + 1]), ink);
    }
    for (int result = 0; result < p->r->n_results && result < 20; result++) {
        const colour ink = inks[result % N_INKS];
        const repro_run *first = NULL;
        int n = 0;
        for (int i = p->r->n_runs - 1; i >= 0; i--)
            if (p->r->runs[i].result == result) {
                first = &p->r->runs[i];
                n++;
            }
        char text[64];
        int at = snprintf(text, sizeof(text), "%c: %d RUN%s", 'A' + result, n, n > 1 ? "S" : "");
        if (result > 0) {
            const int split = (int)lround(x_of(p, (double)first->split.step));
            for (int y = TOP; y < TOP + PLOT_HEIGHT; y += 12) canvas_fill(c, split, y, 1, 6, ink);
            snprintf(text + at, sizeof(text) - (size_t)at, ", LEAVES A AT STEP %lld",
                     (long long)first->split.step);
        }
        canvas_fill(c, x, TOP + result * LINE + LETTER_HEIGHT / 2 - 1, 20, 3, ink);
        canvas_text(c, x + 28, TOP + result * LINE, text, black);
    }
}

int repro_draw(const repro *r)
{
    char path[REPRO_PATH_SIZE + 16];
    plot p = { .r = r, .canvas = { .width = WIDTH, .height = HEIGHT } };
    p.canvas.pixels = malloc((size_t)3 * WIDTH * HEIGHT);
    if (!p.canvas.pixels) return print_error(r->verb, NULL, EXIT_NO_VERDICT);
    canvas_fill(&p.canvas, 0, 0, WIDTH, HEIGHT, white);
    find_range(&p);
    draw_axes(&p);
    draw_results(&p);
    snprintf(path, sizeof(path), "%s/repro.png", r->out);
    const bool good = write_image(path, WIDTH, HEIGHT, p.canvas.pixels, 0);
    if (!good) print_text(stderr, "lockstep %s: %s: %s\n", r->verb->name, path, strerror(errno));
    free(p.canvas.pixels);
    return good ? EXIT_DONE : EXIT_NO_VERDICT;
}
