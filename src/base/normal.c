/* normal.c: the inverse of the normal distribution by Wichura's PPND16, "Algorithm AS 241: the
 * percentage points of the normal distribution", Applied Statistics 37 (1988) 477-484; relative
 * accuracy about 1e-16 in exact arithmetic. It uses plain IEEE operations only, so its bits are the
 * same on all machines. */
#include "base/random.h"

#include <math.h>
#include <string.h>

/* Coefficients of degree 0 to 7: numerator and denominator. */
typedef struct rational {
    double numerator[8], denominator[8];
} rational;

/* |p - 1/2| <= 0.425, in 0.425^2 - (p - 1/2)^2 */
static const rational centre = {
    { 3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
      1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
      3.3430575583588128105e+4, 2.5090809287301226727e+3 },
    { 1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
      2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
      5.2264952788528545610e+3 }
};
/* r = sqrt(-log(min(p, 1 - p))) <= 5, in r - 1.6 */
static const rational flank = {
    { 1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
      3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
      2.27238449892691845833e-2, 7.74545014278341407640e-4 },
    { 1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
      1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
      1.05075007164441684324e-9 }
};
/* r > 5, in r - 5 */
static const rational tail = {
    { 6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
      2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
      2.71155556874348757815e-5, 2.01033439929228813265e-7 },
    { 1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
      7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
      2.04426310338993978564e-15 }
};

static inline double rational_value(const rational *f, double x)
{
    double above = f->numerator[7], below = f->denominator[7];
    for (int i = 6; i >= 0; i--) {
        above = above * x + f->numerator[i];
        below = below * x + f->denominator[i];
    }
    return above / below;
}

static inline uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline double of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* An integer below 2^52 as a double, from the bits of 2^52 + k, because few processors can convert
 * vectors of integers. */
static inline double to_double(uint64_t k)
{
    return of_bits(UINT64_C(0x4330000000000000) | k) - 0x1p52;
}

static const double INVERSE_ODD[] = { 1.0 / 1,  1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                      1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21 };

/* The natural logarithm of a normal double in (0,1): x = 2^e m with m in [sqrt(1/2), sqrt(2)),
 * log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172, by the series up to s^21; the remainder
 * is below 1e-17. */
static inline double logarithm(double x)
{
    /* without the bits of sqrt(1/2), the exponent field is e; 2048 keeps it positive */
    const uint64_t above = bits_of(x) - UINT64_C(0x3fe6a09e667f3bcd);
    const uint64_t field = (above + (UINT64_C(2048) << 52)) >> 52;
    const double m = of_bits(bits_of(x) - ((field - 2048) << 52));
    const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
    double series = INVERSE_ODD[10];
    for (int i = 9; i >= 0; i--) series = series * s2 + INVERSE_ODD[i];
    return (to_double(field) - 2048.0) * 0.693147180559945309417 + 2.0 * s * series;
}

enum { BATCH = 128 };
static const double CENTRE = 0.425; /* the centre's formula is for |p - 1/2| up to this */

static inline double near_centre(double p)
{
    const double q = p - 0.5;
    return q * rational_value(&centre, 0.180625 - q * q);
}

/* n numbers, at most BATCH, in loops that compilers vectorize. The formula of the centre is
 * computed for all numbers and correct for 85 of 100; the formula of the flanks replaces the
 * others, and that of the tails one of 10^11. */
static void quantiles(const double *p, int n, double *z)
{
    int beyond[BATCH], n_beyond = 0;
    double lesser[BATCH], r[BATCH], far[BATCH]; /* lesser: min(p, 1 - p) */
    for (int i = 0; i < n; i++) z[i] = near_centre(p[i]);
    for (int i = 0; i < n; i++) {
        beyond[n_beyond] = i;
        lesser[n_beyond] = p[i] < 1.0 - p[i] ? p[i] : 1.0 - p[i];
        n_beyond += fabs(p[i] - 0.5) > CENTRE;
    }
    for (int j = 0; j < n_beyond; j++) {
        r[j] = sqrt(-logarithm(lesser[j]));
        far[j] = rational_value(&flank, r[j] - 1.6);
    }
    for (int j = 0; j < n_beyond; j++) {
        if (r[j] > 5.0) far[j] = rational_value(&tail, r[j] - 5.0);
        z[beyond[j]] = copysign(far[j], p[beyond[j]] - 0.5);
    }
}

double ls__normal_quantile(double p)
{
    double z;
    quantiles(&p, 1, &z);
    return z;
}

void ls__random_normals(const uint32_t *words, int64_t n, float *out)
{
    double p[BATCH], z[BATCH];
    for (int64_t done = 0; done < n; done += BATCH) {
        const int count = n - done < BATCH ? (int)(n - done) : BATCH;
        for (int i = 0; i < count; i++) {
            const uint64_t high = words[2 * (done + i)], low = words[2 * (done + i) + 1];
            p[i] = (to_double((high << 32 | low) >> 12) + 0.5) * 0x1p-52;
        }
        quantiles(p, count, z);
        for (int i = 0; i < count; i++) out[done + i] = (float)z[i];
    }
}

float ls__random_normal(uint32_t high, uint32_t low)
{
    const uint32_t words[2] = { high, low };
    float z;
    ls__random_normals(words, 1, &z);
    return z;
}
