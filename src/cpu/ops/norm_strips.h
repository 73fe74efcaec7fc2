/* norm_strips.h: the two sums per channel of batch norm's statistics and gradients, of a strip of
 * columns (channel_sums.h); included by norm.c only. */
#ifndef LS_CPU_OPS_NORM_STRIPS_H
#define LS_CPU_OPS_NORM_STRIPS_H

#include "arith/activation.h"
#include "cpu/ops/channel_sums.h"

/* The options of an op, as bits. The lowest bits are an ls__activation. */
enum { ACTIVATION = 3, ADD = 4, DY2 = 4, DADD = 8, FROM_X = 16 };

typedef struct moments_operands {
    const ls__element *x, *origin;
} moments_operands;

/* add_moments for 4 rows at a time; returns the number of rows. */
LS__ALWAYS_INLINE int64_t add_4_moments(const ls__element *x, const ls__element *origin, strip t,
                                        double *s1, double *s2)
{
    ls__wide o[STRIP_VECTORS], sum1[STRIP_VECTORS], sum2[STRIP_VECTORS];
    load_strip(t, s1, s2, sum1, sum2);
    LS__UNROLL
    for (int v = 0; v < t.n_vectors; v++) o[v] = ls__widen_from(origin + v * LS__WIDTH);
    int64_t r = 0;
    for (; r + 4 <= t.rows; r += 4, x += 4 * t.pitch) {
        prefetch_rows(x, t);
        LS__UNROLL
        for (int v = 0; v < t.n_vectors; v++) {
            ls__wide d[4], square[4];
            LS__UNROLL
            for (int j = 0; j < 4; j++) {
                d[j] = ls__widen_from(x + j * t.pitch + v * LS__WIDTH);
                d[j] = ls__wide_sub(d[j], o[v]);
                square[j] = ls__wide_mul(d[j], d[j]);
            }
            sum1[v] = ls__wide_add_4(sum1[v], d);
            sum2[v] = ls__wide_add_4(sum2[v], square);
        }
    }
    store_strip(t, s1, s2, sum1, sum2);
    return r;
}

/* s1 += d, s2 += d^2 with d = x - origin: accurate in double however far the mean is from 0. */
LS__ALWAYS_INLINE void add_moments(const void *operands, strip t, double *s1, double *s2)
{
    const moments_operands *m = operands;
    const ls__element *x = m->x + t.first, *origin = m->origin + t.column;
    int64_t r = t.n_vectors > 0 ? add_4_moments(x, origin, t, s1, s2) : 0;
    x += r * t.pitch;
    for (; r + 4 <= t.rows; r += 4, x += 4 * t.pitch)
        for (int64_t c = 0; c < t.width; c++) {
            const double o = ls__get(origin[c]);
            const double d0 = ls__get(x[c]) - o, d1 = ls__get(x[c + t.pitch]) - o;
            const double d2 = ls__get(x[c + 2 * t.pitch]) - o;
            const double d3 = ls__get(x[c + 3 * t.pitch]) - o;
            s1[c] += (d0 + d1) + (d2 + d3);
            s2[c] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
        }
    for (; r < t.rows; r++, x += t.pitch)
        for (int64_t c = 0; c < t.width; c++) {
            const double d = (double)ls__get(x[c]) - (double)ls__get(origin[c]);
            s1[c] += d;
            s2[c] += d * d;
        }
}

/* With FROM_X, y is not read; the activation's argument is computed from x,
 * which is read anyway, as the forward pass does. */
typedef struct gradient_operands {
    const ls__element *x, *y, *dy1, *dy2;
    ls__element *dadd, *dx;
    const float *mean, *invstd, *scale, *shift;
    unsigned with;
} gradient_operands;

LS__ALWAYS_INLINE bool reads_y(unsigned with)
{
    return with & ACTIVATION && !(with & FROM_X);
}

/* An argument above and below these is stored as a y above 0 and below 6: with bf16, those that are
 * rounded to 0 or to 6 are not. */
#if defined(LS__ELEMENT_BF16)
#define STORED_ABOVE_0 0x1p-134f
#define STORED_BELOW_6 5.984375f
#else
#define STORED_ABOVE_0 0.0f
#define STORED_BELOW_6 6.0f
#endif

/* `argument` is the activation's; it is used with FROM_X alone. */
LS__ALWAYS_INLINE float gradient_at(const gradient_operands *s, int64_t i, float argument,
                                    unsigned with)
{
    float dy = ls__get(s->dy1[i]);
    if (with & DY2) dy += ls__get(s->dy2[i]);
    if (!(with & ACTIVATION)) return dy;
    if (!(with & FROM_X))
        return ls__activation_gradient((ls__activation)(with & ACTIVATION), ls__get(s->y[i]), dy);
    return ls__where((argument > STORED_ABOVE_0) & (((with & ACTIVATION) != LS__ACTIVATION_RELU6) |
                                                    (argument < STORED_BELOW_6)),
                     dy);
}

/* The coefficients of the norms of LS__WIDTH channels. */
typedef struct norm_vectors {
    ls__vf mean, factor, shift;
} norm_vectors;

/* gradient_at for LS__WIDTH elements, which become dadd's if that is written. */
LS__ALWAYS_INLINE ls__vf gradients_at(const gradient_operands *s, int64_t i, const norm_vectors *of)
{
    typedef int32_t mask __attribute__((vector_size(sizeof(ls__vf))));
    const bool from_x = s->with & FROM_X;
    ls__vf dy = ls__load(s->dy1 + i);
    if (s->with & DY2) dy = ls__add(dy, ls__load(s->dy2 + i));
    if (s->with & ACTIVATION) {
        const ls__vf y = ls__load((from_x ? s->x : s->y) + i);
        const ls__vf argument = from_x ? (y - of->mean) * of->factor + of->shift : y;
        mask passes = argument > (from_x ? STORED_ABOVE_0 : 0);
        if ((s->with & ACTIVATION) == LS__ACTIVATION_RELU6)
            passes &= argument < (from_x ? STORED_BELOW_6 : 6);
        dy = (ls__vf)((mask)dy & passes);
    }
    if (s->with & DADD) ls__store(s->dadd + i, dy);
    return dy;
}

/* add_products for 4 rows at a time; returns the number of rows. */
LS__ALWAYS_INLINE int64_t add_4_products(const gradient_operands *s, strip t, double *s1,
                                         double *s2)
{
    ls__wide mean[STRIP_VECTORS], sum1[STRIP_VECTORS], sum2[STRIP_VECTORS];
    norm_vectors of[STRIP_VECTORS];
    load_strip(t, s1, s2, sum1, sum2);
    LS__UNROLL
    for (int v = 0; v < t.n_vectors; v++) {
        const int64_t c = t.column + v * LS__WIDTH;
        of[v].mean = ls__load_f32(s->mean + c);
        mean[v] = ls__widen(of[v].mean);
        if (!(s->with & FROM_X)) continue;
        of[v].factor = ls__load_f32(s->invstd + c) * ls__load_f32(s->scale + c);
        of[v].shift = ls__load_f32(s->shift + c);
    }
    int64_t r = 0, i = t.first;
    for (; r + 4 <= t.rows; r += 4, i += 4 * t.pitch) {
        prefetch_rows(s->x + i, t);
        prefetch_rows(s->dy1 + i, t);
        if (reads_y(s->with)) prefetch_rows(s->y + i, t);
        if (s->with & DY2) prefetch_rows(s->dy2 + i, t);
        LS__UNROLL
        for (int v = 0; v < t.n_vectors; v++) {
            ls__wide dy[4], product[4];
            LS__UNROLL
            for (int j = 0; j < 4; j++) {
                const int64_t at = i + j * t.pitch + v * LS__WIDTH;
                const ls__wide x = ls__widen_from(s->x + at);
                dy[j] = s->with == 0 ? ls__widen_from(s->dy1 + at)
                                     : ls__widen(gradients_at(s, at, &of[v]));
                product[j] = ls__wide_mul(dy[j], ls__wide_sub(x, mean[v]));
            }
            sum1[v] = ls__wide_add_4(sum1[v], dy);
            sum2[v] = ls__wide_add_4(sum2[v], product);
        }
    }
    store_strip(t, s1, s2, sum1, sum2);
    return r;
}

LS__ALWAYS_INLINE float argument_at(const gradient_operands *s, int64_t i, int64_t c)
{
    if (!(s->with & FROM_X)) return 0;
    return (ls__get(s->x[i]) - s->mean[c]) * (s->invstd[c] * s->scale[c]) + s->shift[c];
}

/* s1 += dy, s2 += dy (x - mean); dadd = dy */
LS__ALWAYS_INLINE void add_products(const void *operands, strip t, double *s1, double *s2)
{
    const gradient_operands s = *(const gradient_operands *)operands;
    const float *mean = s.mean + t.column;
    int64_t r = t.n_vectors > 0 ? add_4_products(&s, t, s1, s2) : 0;
    int64_t i = t.first + r * t.pitch;
    for (; r + 4 <= t.rows; r += 4, i += 4 * t.pitch) {
        LS__INDEPENDENT
        for (int64_t c = 0; c < t.width; c++) {
            double sum[4], product[4];
            for (int j = 0; j < 4; j++) {
                const int64_t at = i + j * t.pitch + c;
                const float dy = gradient_at(&s, at, argument_at(&s, at, t.column + c), s.with);
                if (s.with & DADD) s.dadd[at] = ls__put(dy);
                sum[j] = dy;
                product[j] = (double)dy * ((double)ls__get(s.x[at]) - (double)mean[c]);
            }
            s1[c] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
            s2[c] += (product[0] + product[1]) + (product[2] + product[3]);
        }
    }
    for (; r < t.rows; r++, i += t.pitch) {
        LS__INDEPENDENT
        for (int64_t c = 0; c < t.width; c++) {
            const float dy = gradient_at(&s, i + c, argument_at(&s, i + c, t.column + c), s.with);
            if (s.with & DADD) s.dadd[i + c] = ls__put(dy);
            s1[c] += (double)dy;
            s2[c] += (double)dy * ((double)ls__get(s.x[i + c]) - (double)mean[c]);
        }
    }
}

#endif
