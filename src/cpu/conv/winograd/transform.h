/* transform.h: the linear maps of F(4x4, 3x3) for a vector of channels, along one axis.
 *
 *        4  0 -5  0  1  0          1/4    0    0            1  1  1  1  1  0
 *        0 -4 -4  1  1  0         -1/6  -1/6 -1/6     A' =  0  1 -1  2 -2  0
 *   B' = 0  4 -4 -1  1  0     G = -1/6   1/6 -1/6           0  1  1  4  4  0
 *        0 -2 -1  2  1  0         1/24  1/12  1/6           0  1 -1  8 -8  1
 *        0  2 -1 -2  1  0         1/24 -1/12  1/6
 *        0  4  0 -5  0  1           0     0    1
 *
 * (Lavin & Gray 2016) */
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
    const ls__vf even = ls__scale_add(-4, d2, d4), odd = ls__scale_add(-4, d1, d3);
    const ls__vf near_even = ls__sub(d4, d2), near_odd = ls__scale(2, ls__sub(d3, d1));
    out[0] = ls__scale_add(4, d0, ls__scale_add(-5, d2, d4));
    out[out_step] = ls__add(even, odd);
    out[2 * out_step] = ls__sub(even, odd);
    out[3 * out_step] = ls__add(near_even, near_odd);
    out[4 * out_step] = ls__sub(near_even, near_odd);
    out[5 * out_step] = ls__scale_add(4, d1, ls__scale_add(-5, d3, d5));
}

/* out = A' m */
LS__ALWAYS_INLINE void map_a(const ls__vf *m, int m_step, ls__vf *out, int out_step)
{
    const ls__vf m0 = m[0], m5 = m[5 * m_step];
    const ls__vf sum1 = ls__add(m[m_step], m[2 * m_step]),
                 difference1 = ls__sub(m[m_step], m[2 * m_step]);
    const ls__vf sum2 = ls__add(m[3 * m_step], m[4 * m_step]),
                 difference2 = ls__sub(m[3 * m_step], m[4 * m_step]);
    out[0] = ls__add(m0, ls__add(sum1, sum2));
    out[out_step] = ls__scale_add(2, difference2, difference1);
    out[2 * out_step] = ls__scale_add(4, sum2, sum1);
    out[3 * out_step] = ls__add(ls__scale_add(8, difference2, difference1), m5);
}

/* out = A y: the transpose of map_a */
LS__ALWAYS_INLINE void map_a_transposed(const ls__vf *y, int y_step, ls__vf *out, int out_step)
{
    const ls__vf y0 = y[0], y1 = y[y_step], y2 = y[2 * y_step], y3 = y[3 * y_step];
    const ls__vf even1 = ls__add(y0, y2), odd1 = ls__add(y1, y3);
    const ls__vf even2 = ls__scale_add(4, y2, y0), odd2 = ls__scale_add(8, y3, ls__scale(2, y1));
    out[0] = y0;
    out[out_step] = ls__add(even1, odd1);
    out[2 * out_step] = ls__sub(even1, odd1);
    out[3 * out_step] = ls__add(even2, odd2);
    out[4 * out_step] = ls__sub(even2, odd2);
    out[5 * out_step] = y3;
}

/* out = G g */
LS__ALWAYS_INLINE void map_g(const ls__vf *g, int g_step, ls__vf *out, int out_step)
{
    const ls__vf g0 = g[0], g1 = g[g_step], g2 = g[2 * g_step];
    const ls__vf even1 = ls__scale(-1.0f / 6, ls__add(g0, g2)), odd1 = ls__scale(1.0f / 6, g1);
    const ls__vf even2 = ls__scale_add(1.0f / 24, g0, ls__scale(1.0f / 6, g2)),
                 odd2 = ls__scale(1.0f / 12, g1);
    out[0] = ls__scale(0.25f, g0);
    out[out_step] = ls__sub(even1, odd1);
    out[2 * out_step] = ls__add(even1, odd1);
    out[3 * out_step] = ls__add(even2, odd2);
    out[4 * out_step] = ls__sub(even2, odd2);
    out[5 * out_step] = g2;
}

/* out = G' u: the transpose of map_g */
LS__ALWAYS_INLINE void map_g_transposed(const ls__vf *u, int u_step, ls__vf *out, int out_step)
{
    const ls__vf sum1 = ls__add(u[u_step], u[2 * u_step]),
                 difference1 = ls__sub(u[2 * u_step], u[u_step]);
    const ls__vf sum2 = ls__add(u[3 * u_step], u[4 * u_step]),
                 difference2 = ls__sub(u[3 * u_step], u[4 * u_step]);
    const ls__vf base = ls__scale_add(-1.0f / 6, sum1, ls__scale(1.0f / 24, sum2));
    out[0] = ls__scale_add(0.25f, u[0], base);
    out[out_step] = ls__scale_add(1.0f / 6, difference1, ls__scale(1.0f / 12, difference2));
    out[2 * out_step] =
        ls__scale_add(-1.0f / 6, sum1, ls__scale_add(1.0f / 6, sum2, u[5 * u_step]));
}

#endif
