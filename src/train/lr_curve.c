/* lr_curve.c: the curve of a learning rate range test: smoothing and suggestions. */
#include "train/lr_find.h"

#include "arith/functions.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include <math.h>

bool ls__lr_curve_add(ls_lr_curve *c, double lr, double loss, double smoothing)
{
    if (!isfinite(loss)) {
        c->end = LS_LR_FIND_NONFINITE;
        return true;
    }
    c->average = smoothing * c->average + (1 - smoothing) * loss;
    const double unseen = smoothing > 0 ? ls__power_of(smoothing, (double)(c->n + 1)) : 0;
    const double smoothed = c->average / (1 - unseen);
    c->points[c->n++] = (ls_lr_point){ lr, loss, smoothed };
    if (c->n == 1 || smoothed < c->lowest) c->lowest = smoothed;
    if (smoothed > LS__LR_FIND_DIVERGED * c->lowest) c->end = LS_LR_FIND_DIVERGED;
    return c->end == LS_LR_FIND_DIVERGED;
}

/* The standard deviation of the losses of points 0 to n - 1 about their trend. */
static double noise(const ls_lr_point *points, int64_t n)
{
    double sum = 0;
    for (int64_t i = 1; i + 1 < n; i++) {
        const double d = points[i + 1].loss - 2 * points[i].loss + points[i - 1].loss;
        sum += d * d;
    }
    return n > 2 ? sqrt(sum / (6 * (double)(n - 2))) : 0;
}

static double mean_loss(const ls_lr_point *points, int64_t begin, int64_t end)
{
    double sum = 0;
    for (int64_t i = begin; i < end; i++) sum += points[i].loss;
    return sum / (double)(end - begin);
}

/* The fall of the mean loss from the `width` points before the ones that end at i, fewer at the
 * beginning, in standard errors of the difference. i >= width. */
static double fall_at(const ls_lr_point *points, int64_t i, int64_t width, double sigma)
{
    const int64_t middle = i + 1 - width, begin = middle > width ? middle - width : 0;
    const double fall = mean_loss(points, begin, middle) - mean_loss(points, middle, i + 1);
    const double error = sigma * sqrt(1.0 / (double)(middle - begin) + 1.0 / (double)width);
    return fall > 0 ? fall / error : 0;
}

ls_lr_suggestion ls_lr_suggest(const ls_lr_point *points, int64_t n)
{
    LS__DEFAULT_FLOATS;
    ls_lr_suggestion out = { 0 };
    if (!points) n = 0;
    const int64_t first = n / 10, width = first > 0 ? first : 1;
    int64_t lowest = first;
    for (int64_t i = first; i < n; i++)
        if (points[i].smoothed_loss < points[lowest].smoothed_loss) lowest = i;
    const double sigma = noise(points, lowest + 1);
    double steepest = 0;
    for (int64_t i = width; i <= lowest && i + 1 < n; i++) {
        const double slope = (points[i + 1].smoothed_loss - points[i - 1].smoothed_loss) /
                             ((ls__log2(points[i + 1].lr) - ls__log2(points[i - 1].lr)) * M_LN2);
        if (!(slope < 0)) continue;
        const double fall = fall_at(points, i, width, sigma);
        out.fall = fmax(out.fall, fall);
        if (fall < LS_LR_FIND_MIN_FALL || slope >= steepest) continue;
        steepest = slope;
        out.steepest = points[i].lr;
    }
    if (out.steepest > 0) out.tenth_of_min = points[lowest].lr / 10;
    return out;
}

ls_lr_suggestion ls_lr_curve_suggestion(const ls_lr_curve *curve)
{
    return curve ? ls_lr_suggest(curve->points, curve->n) : (ls_lr_suggestion){ 0 };
}

int64_t ls_lr_curve_point_count(const ls_lr_curve *curve)
{
    return curve ? curve->n : 0;
}

ls_lr_point ls_lr_curve_point_at(const ls_lr_curve *curve, int64_t i)
{
    return curve && i >= 0 && i < curve->n ? curve->points[i] : (ls_lr_point){ 0 };
}

ls_lr_find_end ls_lr_curve_end(const ls_lr_curve *curve)
{
    return curve ? curve->end : LS_LR_FIND_DONE;
}
