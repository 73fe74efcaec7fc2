/* transform.h: the linear maps of F(4x4, 3x3) for a vector of channels, along one axis.
 *
 * They are Cook and Toom's (Lavin & Gray 2016) for the points 0, a, -a, b, -b and infinity, with
 * a = 3/4 and b = 3/2, which give half the error of a = 1 and b = 2. Column p of A' holds the
 * powers 1, p, p^2, p^3. Row p of B' holds the coefficients of M(x) / (x - p), with
 * M(x) = x (x^2 - a^2) (x^2 - b^2), and row p of G is (1, p, p^2) / M'(p). Infinity has
 * x^3, M(x) and (0, 0, 1).
 *
 *        a^2 b^2   0    -a^2-b^2     0      1  0         64/81      0      0
 *           0   -a b^2    -b^2       a      1  0       -128/243  -32/81  -8/27
 *   B' =    0    a b^2    -b^2      -a      1  0   G = -128/243   32/81  -8/27
 *           0   -a^2 b    -a^2       b      1  0         32/243   16/81   8/27
 *           0    a^2 b    -a^2      -b      1  0         32/243  -16/81   8/27
 *           0   a^2 b^2     0    -a^2-b^2   0  1          0         0      1
 *
 *        1   1    1    1    1   0
 *   A' = 0   a   -a    b   -b   0
 *        0  a^2  a^2  b^2  b^2  0
 *        0  a^3 -a^3  b^3 -b^3  1
 *
 * A and B are exact in f32. The rows of p and -p share an even and an odd part, and each product
 * is one multiplication or one FMA that is written as such, so that every width rounds alike. */
#ifndef LS_CPU_CONV_WINOGRAD_TRANSFORM_H
#define LS_CPU_CONV_WINOGRAD_TRANSFORM_H

#include "cpu/conv/winograd/winograd.h"
#include "cpu/simd/vector.h"

enum {
    IN = LS__WINOGRAD_IN,
    OUT = LS__WINOGRAD_OUT,
    XI = LS__WINOGRAD_XI,
    PANEL = LS__PANEL_VECTORS * LS__WIDTH
};

/* The points, their powers, and the coefficients of (x^2 - a^2) (x^2 - b^2). */
#define A1            0.75f
#define A2            0.5625f
#define A3            0.421875f
#define B1            1.5f
#define B2            2.25f
#define B3            3.375f
#define SUM_A2_B2     2.8125f
#define PRODUCT_A2_B2 1.265625f

/* The number of a vector's elements if `left` channels are left. */
static inline int elements_of(int64_t left)
{
    return (int)ls__min_i64(left, LS__WIDTH);
}

/* out = B' d for one column, whose elements are d_step apart. */
LS__ALWAYS_INLINE void map_b(const ls__vf *d, int d_step, ls__vf *out, int out_step)
{
    const ls__vf d0 = d[0], d1 = d[d_step], d2 = d[2 * d_step], d3 = d[3 * d_step],
                 d4 = d[4 * d_step], d5 = d[5 * d_step];
    const ls__vf even_a = ls__scale_add(-B2, d2, d4), odd_a = ls__scale_add(-B2, d1, d3);
    const ls__vf even_b = ls__scale_add(-A2, d2, d4), odd_b = ls__scale_add(-A2, d1, d3);
    out[0] = ls__scale_add(PRODUCT_A2_B2, d0, ls__scale_add(-SUM_A2_B2, d2, d4));
    out[out_step] = ls__scale_add(A1, odd_a, even_a);
    out[2 * out_step] = ls__scale_add(-A1, odd_a, even_a);
    out[3 * out_step] = ls__scale_add(B1, odd_b, even_b);
    out[4 * out_step] = ls__scale_add(-B1, odd_b, even_b);
    out[5 * out_step] = ls__scale_add(PRODUCT_A2_B2, d1, ls__scale_add(-SUM_A2_B2, d3, d5));
}

/* out = A' m */
LS__ALWAYS_INLINE void map_a(const ls__vf *m, int m_step, ls__vf *out, int out_step)
{
    const ls__vf m0 = m[0], m5 = m[5 * m_step];
    const ls__vf sum_a = ls__add(m[m_step], m[2 * m_step]),
                 difference_a = ls__sub(m[m_step], m[2 * m_step]);
    const ls__vf sum_b = ls__add(m[3 * m_step], m[4 * m_step]),
                 difference_b = ls__sub(m[3 * m_step], m[4 * m_step]);
    out[0] = ls__add(m0, ls__add(sum_a, sum_b));
    out[out_step] = ls__scale_add(B1, difference_b, ls__scale(A1, difference_a));
    out[2 * out_step] = ls__scale_add(B2, sum_b, ls__scale(A2, sum_a));
    out[3 * out_step] = ls__scale_add(B3, difference_b, ls__scale_add(A3, difference_a, m5));
}

/* out = A y: the transpose of map_a */
LS__ALWAYS_INLINE void map_a_transposed(const ls__vf *y, int y_step, ls__vf *out, int out_step)
{
    const ls__vf y0 = y[0], y1 = y[y_step], y2 = y[2 * y_step], y3 = y[3 * y_step];
    const ls__vf even_a = ls__scale_add(A2, y2, y0), odd_a = ls__scale_add(A2, y3, y1);
    const ls__vf even_b = ls__scale_add(B2, y2, y0), odd_b = ls__scale_add(B2, y3, y1);
    out[0] = y0;
    out[out_step] = ls__scale_add(A1, odd_a, even_a);
    out[2 * out_step] = ls__scale_add(-A1, odd_a, even_a);
    out[3 * out_step] = ls__scale_add(B1, odd_b, even_b);
    out[4 * out_step] = ls__scale_add(-B1, odd_b, even_b);
    out[5 * out_step] = y3;
}

/* out = G g */
LS__ALWAYS_INLINE void map_g(const ls__vf *g, int g_step, ls__vf *out, int out_step)
{
    const ls__vf g0 = g[0], g1 = g[g_step], g2 = g[2 * g_step];
    const ls__vf even_a = ls__scale_add(-128.0f / 243, g0, ls__scale(-8.0f / 27, g2)),
                 even_b = ls__scale_add(32.0f / 243, g0, ls__scale(8.0f / 27, g2));
    out[0] = ls__scale(64.0f / 81, g0);
    out[out_step] = ls__scale_add(-32.0f / 81, g1, even_a);
    out[2 * out_step] = ls__scale_add(32.0f / 81, g1, even_a);
    out[3 * out_step] = ls__scale_add(16.0f / 81, g1, even_b);
    out[4 * out_step] = ls__scale_add(-16.0f / 81, g1, even_b);
    out[5 * out_step] = g2;
}

/* out = G' u: the transpose of map_g */
LS__ALWAYS_INLINE void map_g_transposed(const ls__vf *u, int u_step, ls__vf *out, int out_step)
{
    const ls__vf sum_a = ls__add(u[u_step], u[2 * u_step]),
                 difference_a = ls__sub(u[2 * u_step], u[u_step]);
    const ls__vf sum_b = ls__add(u[3 * u_step], u[4 * u_step]),
                 difference_b = ls__sub(u[3 * u_step], u[4 * u_step]);
    const ls__vf base = ls__scale_add(-128.0f / 243, sum_a, ls__scale(32.0f / 243, sum_b));
    out[0] = ls__scale_add(64.0f / 81, u[0], base);
    out[out_step] = ls__scale_add(32.0f / 81, difference_a, ls__scale(16.0f / 81, difference_b));
    out[2 * out_step] = ls__scale_add(8.0f / 27, ls__sub(sum_b, sum_a), u[5 * u_step]);
}

#endif
