/* demo_image.c: the demo's images; see demo_image.h. A shape is a predicate over the plane, inside
 * or not, about as large as the unit disc; a pixel's colour is the share of its 4x4 sub-pixels
 * inside. */
#include "commands/demo_image.h"
#include <lockstep/random.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SUBPIXELS = 4, MAX_CLUTTER = 2 };

/* ---- The shapes. u to the right, v down. ---- */

static bool in_disc(double u, double v, double radius)
{
    return u * u + v * v < radius * radius;
}

static bool arrow(double u, double v)
{
    const bool shaft = fabs(v) < 0.22 && u > -1 && u < 0.2;
    const bool head = u > 0.1 && fabs(v) < 0.75 * (1 - u) / 0.9;
    return shaft || head;
}

static bool checker(double u, double v)
{
    const int column = (int)floor((u + 0.9) / 0.6), row = (int)floor((v + 0.9) / 0.6);
    return fabs(u) < 0.9 && fabs(v) < 0.9 && (column + row) % 2 == 0;
}

static bool circle(double u, double v)
{
    return in_disc(u, v, 0.95);
}

static bool crescent(double u, double v)
{
    return in_disc(u, v, 1) && !in_disc(u - 0.5, v, 0.8);
}

static bool cross(double u, double v)
{
    return (fabs(u) < 0.27 && fabs(v) < 1) || (fabs(v) < 0.27 && fabs(u) < 1);
}

/* (x^2 + y^2 - 1)^3 < x^2 y^3 with y upwards. */
static bool heart(double u, double v)
{
    const double x = 1.2 * u, y = -1.2 * v + 0.1;
    const double a = x * x + y * y - 1;
    return a * a * a < x * x * y * y * y;
}

static bool ring(double u, double v)
{
    return in_disc(u, v, 1) && !in_disc(u, v, 0.58);
}

static bool square(double u, double v)
{
    return fabs(u) < 0.8 && fabs(v) < 0.8;
}

/* Five points: folded into one tenth of the turn, a side is a straight line from (1, 0) to the
 * inner corner at radius 0.42. */
static bool star(double u, double v)
{
    const double pi = 3.14159265358979323846;
    double angle = fmod(atan2(v, u) + 2 * pi, 2 * pi / 5);
    if (angle > pi / 5) angle = 2 * pi / 5 - angle;
    const double radius = sqrt(u * u + v * v), x = radius * cos(angle), y = radius * sin(angle);
    const double corner_x = 0.42 * cos(pi / 5), corner_y = 0.42 * sin(pi / 5);
    return corner_y * (1 - x) > y * (1 - corner_x);
}

static bool triangle(double u, double v)
{
    return v < 0.55 && 1.732 * fabs(u) < v + 1;
}

static bool (*const shapes[DEMO_CLASSES])(double u, double v) = { arrow, checker, circle, crescent,
                                                                  cross, heart,   ring,   square,
                                                                  star,  triangle };

const char *const demo_class_names[DEMO_CLASSES] = { "arrow", "checker", "circle", "crescent",
                                                     "cross", "heart",   "ring",   "square",
                                                     "star",  "triangle" };

/* ---- Random numbers of one image, in the order of the calls. No expression contains two calls,
 * because C does not define their order. ---- */

typedef struct dice {
    uint64_t seed;
    ls_draw draw;
    uint32_t words[4];
    int used;
} dice;

static uint32_t next_word(dice *d)
{
    if (d->used == 4) {
        ls_random_words(d->seed, &d->draw, d->words);
        d->draw.step++;
        d->used = 0;
    }
    return d->words[d->used++];
}

static double uniform(dice *d, double low, double high)
{
    return low + (high - low) * ls_random_uniform(next_word(d));
}

static int below(dice *d, int n)
{
    const uint32_t high = next_word(d);
    return (int)ls_random_below(high, next_word(d), (uint64_t)n);
}

/* ---- An image. ---- */

typedef struct colour {
    double channel[3];
} colour;

static colour any_colour(dice *d)
{
    colour c;
    for (int i = 0; i < 3; i++) c.channel[i] = uniform(d, 0, 255);
    return c;
}

static double distance(const colour *a, const colour *b)
{
    double sum = 0;
    for (int i = 0; i < 3; i++) sum += fabs(a->channel[i] - b->channel[i]);
    return sum;
}

/* Far enough from both ends of the background to be seen: of a few tries the first that is, else
 * black or white. */
static colour contrasting_colour(dice *d, const colour *a, const colour *b)
{
    enum { TRIES = 16, FAR = 250 };
    for (int i = 0; i < TRIES; i++) {
        const colour c = any_colour(d);
        if (distance(&c, a) > FAR && distance(&c, b) > FAR) return c;
    }
    const colour black = { { 0 } }, white = { { 255, 255, 255 } };
    const double to_black = fmin(distance(&black, a), distance(&black, b));
    return to_black > fmin(distance(&white, a), distance(&white, b)) ? black : white;
}

/* A shape's place: of an image's point (x, y), u = (c (x - x0) + s (y - y0)) / size, likewise v.
 */
typedef struct placement {
    double x, y, size, sine, cosine;
} placement;

/* Turned by up to 34 degrees, its middle within `spread` of (x, y) in each direction. */
static placement place(dice *d, double x, double y, double spread, double min_size, double max_size)
{
    placement p;
    p.x = x + uniform(d, -spread, spread);
    p.y = y + uniform(d, -spread, spread);
    p.size = uniform(d, min_size, max_size);
    const double angle = uniform(d, -0.6, 0.6);
    p.sine = sin(angle);
    p.cosine = cos(angle);
    return p;
}

/* Share of the pixel at (column, row) that the shape covers. */
static double coverage(bool (*shape)(double, double), const placement *p, int column, int row)
{
    int inside = 0;
    for (int i = 0; i < SUBPIXELS * SUBPIXELS; i++) {
        const double x = column + (i % SUBPIXELS + 0.5) / SUBPIXELS - p->x;
        const double y = row + (i / SUBPIXELS + 0.5) / SUBPIXELS - p->y;
        inside +=
            shape((p->cosine * x + p->sine * y) / p->size, (p->cosine * y - p->sine * x) / p->size);
    }
    return inside / (double)(SUBPIXELS * SUBPIXELS);
}

static bool bar(double u, double v)
{
    return fabs(u) < 1 && fabs(v) < 0.12;
}

static void blend(double *pixel, const colour *c, double share)
{
    for (int i = 0; i < 3; i++) pixel[i] += share * (c->channel[i] - pixel[i]);
}

void demo_image_make(uint64_t seed, int split, int label, int64_t number, demo_image *out)
{
    dice d = { .seed = seed,
               .draw = { .stream = LS_RANDOM_DEMO,
                         .layer = (uint32_t)label,
                         .epoch = (uint32_t)split,
                         .sample = (uint64_t)number },
               .used = 4 };
    out->width = DEMO_MIN_SIDE + below(&d, DEMO_MAX_SIDE - DEMO_MIN_SIDE + 1);
    out->height = DEMO_MIN_SIDE + below(&d, DEMO_MAX_SIDE - DEMO_MIN_SIDE + 1);
    const bool is_jpeg = below(&d, 2);
    const int quality = 75 + below(&d, 21); /* drawn for PNG, too: the later numbers depend on it */
    out->quality = is_jpeg ? quality : 0;
    const double side = out->width < out->height ? out->width : out->height;

    const colour from = any_colour(&d), to = any_colour(&d);
    const double slope = uniform(&d, 0, 1), noise = uniform(&d, 2, 15);
    const double x = out->width / 2.0, y = out->height / 2.0;
    const int n_clutter = below(&d, MAX_CLUTTER + 1);
    placement clutter[MAX_CLUTTER];
    colour clutter_colours[MAX_CLUTTER];
    for (int i = 0; i < n_clutter; i++) {
        clutter[i] = place(&d, x, y, 0.5 * side, 0.1 * side, 0.25 * side);
        clutter_colours[i] = any_colour(&d);
    }
    const colour ink = contrasting_colour(&d, &from, &to);
    const placement shape = place(&d, x, y, 0.1 * side, 0.28 * side, 0.44 * side);

    for (int row = 0; row < out->height; row++)
        for (int column = 0; column < out->width; column++) {
            const double along = slope * column / out->width + (1 - slope) * row / out->height;
            double pixel[3] = { from.channel[0], from.channel[1], from.channel[2] };
            blend(pixel, &to, along);
            for (int i = 0; i < n_clutter; i++)
                blend(pixel, &clutter_colours[i], coverage(bar, &clutter[i], column, row));
            blend(pixel, &ink, coverage(shapes[label], &shape, column, row));
            for (int i = 0; i < 3; i++) {
                const double value = pixel[i] + uniform(&d, -noise, noise);
                out->pixels[(row * out->width + column) * 3 + i] =
                    (uint8_t)lround(fmin(fmax(value, 0), 255));
            }
        }
}
