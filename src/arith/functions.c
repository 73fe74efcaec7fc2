/* functions.c: see functions.h. */
#include "arith/functions.h"

#include "arith/element.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

double ls__log2(double x)
{
    /* x = 2^n m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh z with |z| < 0.172: the 13th term
     * is below 1e-20. */
    int n;
    double m = frexp(x, &n);
    if (m < 0.70710678118654752) {
        m *= 2;
        n--;
    }
    const double z = (m - 1) / (m + 1), square = z * z;
    double sum = 0;
    for (int k = 25; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return n + 2 * z * sum * 1.4426950408889634;
}

double ls__exp2(double x)
{
    /* 2^x = 2^n e^y with |y| < 0.347: the 16th term is below 1e-20. */
    const double n = floor(x + 0.5), y = (x - n) * 0.69314718055994531;
    double sum = 1;
    for (int k = 15; k >= 1; k--) sum = 1 + sum * y / k;
    return ldexp(sum, (int)n);
}

/* Taylor series for 0 <= y <= pi / 4; the next terms are below 1e-19. */
static double sine(double y)
{
    const double square = y * y;
    double sum = 1;
    for (int k = 16; k >= 2; k -= 2) sum = 1 - square * sum / (k * (k + 1));
    return y * sum;
}

static double cosine(double y)
{
    const double square = y * y;
    double sum = 1;
    for (int k = 17; k >= 1; k -= 2) sum = 1 - square * sum / (k * (k + 1));
    return sum;
}

double ls__cos_pi(double x)
{
    if (x > 0.5) return -ls__cos_pi(1 - x);
    return x > 0.25 ? sine(PI * (0.5 - x)) : cosine(PI * x);
}

double ls__power_of(double x, double y)
{
    enum { MOST = 64 };
    if (y >= 0 && y <= MOST && y == floor(y)) return ls__power(x, (int64_t)y);
    const double exponent = y * ls__log2(x), least = -1200; /* where the result is 0 */
    return ls__exp2(exponent > least ? exponent : least);
}
