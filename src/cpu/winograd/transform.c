/* transform.c: the linear maps of F(4x4, 3x3), eight channels at a time, first along one axis, then
 * along the other.
 *
 *        4  0 -5  0  1  0          1/4    0    0            1  1  1  1  1  0
 *        0 -4 -4  1  1  0         -1/6  -1/6 -1/6     A' =  0  1 -1  2 -2  0
 *   B' = 0  4 -4 -1  1  0     G = -1/6   1/6 -1/6           0  1  1  4  4  0
 *        0 -2 -1  2  1  0         1/24  1/12  1/6           0  1 -1  8 -8  1
 *        0  2 -1 -2  1  0         1/24 -1/12  1/6
 *        0  4  0 -5  0  1           0     0    1
 *
 * (Lavin & Gray 2016) */
#include "cpu/winograd/winograd.h"

#include <immintrin.h>

typedef __m256 vec;

static inline vec times(float a, vec x)
{
    return _mm256_mul_ps(_mm256_set1_ps(a), x);
}

/* a x + y */
static inline vec fma_of(float a, vec x, vec y)
{
    return _mm256_fmadd_ps(_mm256_set1_ps(a), x, y);
}

static inline vec add(vec x, vec y)
{
    return _mm256_add_ps(x, y);
}

static inline vec sub(vec x, vec y)
{
    return _mm256_sub_ps(x, y);
}

/* out = B' d for one column; `step` apart. */
static inline void map_b(const vec *d, int d_step, vec *out, int out_step)
{
    const vec d0 = d[0], d1 = d[d_step], d2 = d[2 * d_step], d3 = d[3 * d_step], d4 = d[4 * d_step],
              d5 = d[5 * d_step];
    const vec even = fma_of(-4, d2, d4), odd = fma_of(-4, d1, d3);
    const vec near_even = sub(d4, d2), near_odd = times(2, sub(d3, d1));
    out[0] = fma_of(4, d0, fma_of(-5, d2, d4));
    out[out_step] = add(even, odd);
    out[2 * out_step] = sub(even, odd);
    out[3 * out_step] = add(near_even, near_odd);
    out[4 * out_step] = sub(near_even, near_odd);
    out[5 * out_step] = fma_of(4, d1, fma_of(-5, d3, d5));
}

/* out = A' m */
static inline void map_a(const vec *m, int m_step, vec *out, int out_step)
{
    const vec m0 = m[0], m5 = m[5 * m_step];
    const vec sum1 = add(m[m_step], m[2 * m_step]), difference1 = sub(m[m_step], m[2 * m_step]);
    const vec sum2 = add(m[3 * m_step], m[4 * m_step]),
              difference2 = sub(m[3 * m_step], m[4 * m_step]);
    out[0] = add(m0, add(sum1, sum2));
    out[out_step] = fma_of(2, difference2, difference1);
    out[2 * out_step] = fma_of(4, sum2, sum1);
    out[3 * out_step] = add(fma_of(8, difference2, difference1), m5);
}

/* out = A y: the transpose of map_a */
static inline void map_a_transposed(const vec *y, int y_step, vec *out, int out_step)
{
    const vec y0 = y[0], y1 = y[y_step], y2 = y[2 * y_step], y3 = y[3 * y_step];
    const vec even1 = add(y0, y2), odd1 = add(y1, y3);
    const vec even2 = fma_of(4, y2, y0), odd2 = fma_of(8, y3, times(2, y1));
    out[0] = y0;
    out[out_step] = add(even1, odd1);
    out[2 * out_step] = sub(even1, odd1);
    out[3 * out_step] = add(even2, odd2);
    out[4 * out_step] = sub(even2, odd2);
    out[5 * out_step] = y3;
}

/* out = G g */
static inline void map_g(const vec *g, int g_step, vec *out, int out_step)
{
    const vec g0 = g[0], g1 = g[g_step], g2 = g[2 * g_step];
    const vec even1 = times(-1.0f / 6, add(g0, g2)), odd1 = times(1.0f / 6, g1);
    const vec even2 = fma_of(1.0f / 24, g0, times(1.0f / 6, g2)), odd2 = times(1.0f / 12, g1);
    out[0] = times(0.25f, g0);
    out[out_step] = sub(even1, odd1);
    out[2 * out_step] = add(even1, odd1);
    out[3 * out_step] = add(even2, odd2);
    out[4 * out_step] = sub(even2, odd2);
    out[5 * out_step] = g2;
}

/* out = G' u: the transpose of map_g */
static inline void map_g_transposed(const vec *u, int u_step, vec *out, int out_step)
{
    const vec sum1 = add(u[u_step], u[2 * u_step]), difference1 = sub(u[2 * u_step], u[u_step]);
    const vec sum2 = add(u[3 * u_step], u[4 * u_step]),
              difference2 = sub(u[3 * u_step], u[4 * u_step]);
    const vec base = fma_of(-1.0f / 6, sum1, times(1.0f / 24, sum2));
    out[0] = fma_of(0.25f, u[0], base);
    out[out_step] = fma_of(1.0f / 6, difference1, times(1.0f / 12, difference2));
    out[2 * out_step] = fma_of(-1.0f / 6, sum1, fma_of(1.0f / 6, sum2, u[5 * u_step]));
}

/* ---- Pictures ---- */

/* Where a tile begins in the results: picture, row, column. */
typedef struct place {
    int64_t n, row, column;
} place;

static place place_of(const ls__wino_geometry *g, int64_t tile)
{
    const int64_t per_picture = g->tiles_h * g->tiles_w;
    return (place){ tile / per_picture, tile % per_picture / g->tiles_w * LS__WINO_OUT,
                    tile % g->tiles_w * LS__WINO_OUT };
}

/* Pointers to a side x side piece of a picture; NULL where it lies outside. */
static void point(const float *x, place at, int64_t height, int64_t width, int64_t channels,
                  int side, const float **pieces)
{
    for (int i = 0; i < side; i++) {
        for (int j = 0; j < side; j++) {
            const int64_t row = at.row + i, column = at.column + j;
            const bool inside = row >= 0 && row < height && column >= 0 && column < width;
            pieces[i * side + j] =
                inside ? x + ((at.n * height + row) * width + column) * channels : NULL;
        }
    }
}

static inline vec load_piece(const float *piece, int64_t c)
{
    return piece ? _mm256_loadu_ps(piece + c) : _mm256_setzero_ps();
}

static void clear_tile(float *v, int64_t channels, int64_t xi_stride)
{
    for (int xi = 0; xi < LS__WINO_XI; xi++)
        for (int64_t c = 0; c < channels; c += LS__WINO_VECTOR)
            _mm256_storeu_ps(v + xi * xi_stride + c, _mm256_setzero_ps());
}

void ls__wino_input(const ls__wino_geometry *g, const float *x, int64_t first, int64_t count,
                    int64_t c0, int64_t c1, float *v, int64_t xi_stride, int64_t tile_stride)
{
    for (int64_t t = 0; t < count; t++, v += tile_stride) {
        if (first + t >= g->n_tiles) {
            clear_tile(v, c1 - c0, xi_stride);
            continue;
        }
        const float *pieces[LS__WINO_XI];
        place at = place_of(g, first + t);
        at.row -= g->pad_h;
        at.column -= g->pad_w;
        point(x, at, g->in_h, g->in_w, g->in_channels, LS__WINO_IN, pieces);
        for (int64_t c = c0; c < c1; c += LS__WINO_VECTOR) {
            vec d[LS__WINO_XI], half[LS__WINO_XI];
            for (int i = 0; i < LS__WINO_XI; i++) d[i] = load_piece(pieces[i], c);
            for (int j = 0; j < LS__WINO_IN; j++) map_b(d + j, LS__WINO_IN, half + j, LS__WINO_IN);
            for (int i = 0; i < LS__WINO_IN; i++)
                map_b(half + i * LS__WINO_IN, 1, d + i * LS__WINO_IN, 1);
            for (int xi = 0; xi < LS__WINO_XI; xi++)
                _mm256_storeu_ps(v + xi * xi_stride + (c - c0), d[xi]);
        }
    }
}

void ls__wino_output(const ls__wino_geometry *g, const float *m, int64_t xi_stride,
                     int64_t tile_stride, int64_t first, int64_t count, int64_t k0, int64_t k1,
                     const float *bias, float *y)
{
    for (int64_t t = 0; t < count && first + t < g->n_tiles; t++, m += tile_stride) {
        const float *pieces[LS__WINO_OUT * LS__WINO_OUT];
        point(y, place_of(g, first + t), g->out_h, g->out_w, g->out_channels, LS__WINO_OUT, pieces);
        for (int64_t k = k0; k < k1; k += LS__WINO_VECTOR) {
            vec in[LS__WINO_XI], half[LS__WINO_OUT * LS__WINO_IN], out[LS__WINO_OUT * LS__WINO_OUT];
            for (int xi = 0; xi < LS__WINO_XI; xi++)
                in[xi] = _mm256_loadu_ps(m + xi * xi_stride + (k - k0));
            for (int j = 0; j < LS__WINO_IN; j++) map_a(in + j, LS__WINO_IN, half + j, LS__WINO_IN);
            for (int i = 0; i < LS__WINO_OUT; i++)
                map_a(half + i * LS__WINO_IN, 1, out + i * LS__WINO_OUT, 1);
            const vec offset = bias ? _mm256_loadu_ps(bias + k) : _mm256_setzero_ps();
            for (int i = 0; i < LS__WINO_OUT * LS__WINO_OUT; i++)
                if (pieces[i])
                    _mm256_storeu_ps(y + (pieces[i] - y) + k, bias ? add(out[i], offset) : out[i]);
        }
    }
}

void ls__wino_gradient(const ls__wino_geometry *g, const float *dy, int64_t first, int64_t count,
                       int64_t k0, int64_t k1, float *d, int64_t xi_stride, int64_t tile_stride)
{
    for (int64_t t = 0; t < count; t++, d += tile_stride) {
        if (first + t >= g->n_tiles) {
            clear_tile(d, k1 - k0, xi_stride);
            continue;
        }
        const float *pieces[LS__WINO_OUT * LS__WINO_OUT];
        point(dy, place_of(g, first + t), g->out_h, g->out_w, g->out_channels, LS__WINO_OUT,
              pieces);
        for (int64_t k = k0; k < k1; k += LS__WINO_VECTOR) {
            vec in[LS__WINO_OUT * LS__WINO_OUT], half[LS__WINO_IN * LS__WINO_OUT], out[LS__WINO_XI];
            for (int i = 0; i < LS__WINO_OUT * LS__WINO_OUT; i++) in[i] = load_piece(pieces[i], k);
            for (int j = 0; j < LS__WINO_OUT; j++)
                map_a_transposed(in + j, LS__WINO_OUT, half + j, LS__WINO_OUT);
            for (int i = 0; i < LS__WINO_IN; i++)
                map_a_transposed(half + i * LS__WINO_OUT, 1, out + i * LS__WINO_IN, 1);
            for (int xi = 0; xi < LS__WINO_XI; xi++)
                _mm256_storeu_ps(d + xi * xi_stride + (k - k0), out[xi]);
        }
    }
}

/* ---- Weights ---- */

/* Rows become columns: eight vectors of eight. */
static void transpose(vec r[LS__WINO_VECTOR])
{
    vec a[LS__WINO_VECTOR], b[LS__WINO_VECTOR];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
        b[4 * i + 1] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0xee);
        b[4 * i + 2] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
        b[4 * i + 3] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

/* G g G' of nine taps. */
static void transform_taps(const vec taps[9], vec out[LS__WINO_XI])
{
    vec half[LS__WINO_IN * 3];
    for (int j = 0; j < 3; j++) map_g(taps + j, 3, half + j, 3);
    for (int i = 0; i < LS__WINO_IN; i++) map_g(half + i * 3, 1, out + i * LS__WINO_IN, 1);
}

/* w is [O,3,3,I] with I along the vectors. Forward: rows are 8 output channels, transposed to stand
 * along the panel. Turned: the panel is along I already, and the taps are mirrored. */
void ls__wino_weights(const ls__wino_geometry *g, const float *w, bool turned, int64_t panel,
                      float *u)
{
    const int64_t columns = g->out_channels - panel * LS__WINO_PANEL;
    const int64_t i_stride = turned ? g->out_channels : g->in_channels; /* I, as w has it */
    for (int half = 0; half < LS__WINO_PANEL; half += LS__WINO_VECTOR) {
        const bool present = half < columns;
        const int64_t k = panel * LS__WINO_PANEL + half;
        for (int64_t c = 0; c < g->in_channels; c += LS__WINO_VECTOR) {
            vec block[LS__WINO_VECTOR][LS__WINO_XI];
            for (int row = 0; row < LS__WINO_VECTOR; row++) {
                const float *from =
                    turned ? w + (c + row) * 9 * i_stride + k : w + (k + row) * 9 * i_stride + c;
                vec taps[9];
                for (int tap = 0; tap < 9; tap++)
                    taps[turned ? 8 - tap : tap] =
                        present ? _mm256_loadu_ps(from + tap * i_stride) : _mm256_setzero_ps();
                transform_taps(taps, block[row]);
            }
            for (int xi = 0; xi < LS__WINO_XI; xi++) {
                vec rows[LS__WINO_VECTOR];
                for (int row = 0; row < LS__WINO_VECTOR; row++) rows[row] = block[row][xi];
                if (!turned) transpose(rows);
                float *to = u + (xi * g->in_channels + c) * LS__WINO_PANEL + half;
                for (int row = 0; row < LS__WINO_VECTOR; row++)
                    _mm256_storeu_ps(to + row * LS__WINO_PANEL, rows[row]);
            }
        }
    }
}

void ls__wino_weight_gradient(const ls__wino_geometry *g, const float *u, int64_t xi_stride,
                              int64_t row_stride, int64_t c, float *dw)
{
    for (int64_t k = 0; k < g->out_channels; k += LS__WINO_VECTOR) {
        vec block[9][LS__WINO_VECTOR]; /* per tap: rows are input channels, vectors run over k */
        for (int row = 0; row < LS__WINO_VECTOR; row++) {
            vec in[LS__WINO_XI], half[3 * LS__WINO_IN], taps[9];
            for (int xi = 0; xi < LS__WINO_XI; xi++)
                in[xi] = _mm256_loadu_ps(u + xi * xi_stride + row * row_stride + k);
            for (int j = 0; j < LS__WINO_IN; j++)
                map_g_transposed(in + j, LS__WINO_IN, half + j, LS__WINO_IN);
            for (int i = 0; i < 3; i++)
                map_g_transposed(half + i * LS__WINO_IN, 1, taps + i * 3, 1);
            for (int tap = 0; tap < 9; tap++) block[tap][row] = taps[tap];
        }
        for (int tap = 0; tap < 9; tap++) {
            transpose(block[tap]); /* now rows are k, vectors run over c */
            for (int row = 0; row < LS__WINO_VECTOR; row++)
                _mm256_storeu_ps(dw + ((k + row) * 9 + tap) * g->in_channels + c, block[tap][row]);
        }
    }
}
