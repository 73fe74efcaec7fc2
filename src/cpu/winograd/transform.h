/* transform.h: the linear maps of F(4x4, 3x3), a vector of channels at a time, first along one
 * axis, then along the other.
 *
 *        4  0 -5  0  1  0          1/4    0    0            1  1  1  1  1  0
 *        0 -4 -4  1  1  0         -1/6  -1/6 -1/6     A' =  0  1 -1  2 -2  0
 *   B' = 0  4 -4 -1  1  0     G = -1/6   1/6 -1/6           0  1  1  4  4  0
 *        0 -2 -1  2  1  0         1/24  1/12  1/6           0  1 -1  8 -8  1
 *        0  2 -1 -2  1  0         1/24 -1/12  1/6
 *        0  4  0 -5  0  1           0     0    1
 *
 * (Lavin & Gray 2016) */
#ifndef LS_CPU_WINOGRAD_TRANSFORM_H
#define LS_CPU_WINOGRAD_TRANSFORM_H

#include "cpu/winograd/element.h"
#include "cpu/winograd/winograd.h"

/* out = B' d for one column; `step` apart. */
LS__ALWAYS_INLINE void map_b(const vec *d, int d_step, vec *out, int out_step)
{
    const vec d0 = d[0], d1 = d[d_step], d2 = d[2 * d_step], d3 = d[3 * d_step], d4 = d[4 * d_step],
              d5 = d[5 * d_step];
    const vec even = times_add(-4, d2, d4), odd = times_add(-4, d1, d3);
    const vec near_even = sub(d4, d2), near_odd = times(2, sub(d3, d1));
    out[0] = times_add(4, d0, times_add(-5, d2, d4));
    out[out_step] = add(even, odd);
    out[2 * out_step] = sub(even, odd);
    out[3 * out_step] = add(near_even, near_odd);
    out[4 * out_step] = sub(near_even, near_odd);
    out[5 * out_step] = times_add(4, d1, times_add(-5, d3, d5));
}

/* out = A' m */
LS__ALWAYS_INLINE void map_a(const vec *m, int m_step, vec *out, int out_step)
{
    const vec m0 = m[0], m5 = m[5 * m_step];
    const vec sum1 = add(m[m_step], m[2 * m_step]), difference1 = sub(m[m_step], m[2 * m_step]);
    const vec sum2 = add(m[3 * m_step], m[4 * m_step]),
              difference2 = sub(m[3 * m_step], m[4 * m_step]);
    out[0] = add(m0, add(sum1, sum2));
    out[out_step] = times_add(2, difference2, difference1);
    out[2 * out_step] = times_add(4, sum2, sum1);
    out[3 * out_step] = add(times_add(8, difference2, difference1), m5);
}

/* out = A y: the transpose of map_a */
LS__ALWAYS_INLINE void map_a_transposed(const vec *y, int y_step, vec *out, int out_step)
{
    const vec y0 = y[0], y1 = y[y_step], y2 = y[2 * y_step], y3 = y[3 * y_step];
    const vec even1 = add(y0, y2), odd1 = add(y1, y3);
    const vec even2 = times_add(4, y2, y0), odd2 = times_add(8, y3, times(2, y1));
    out[0] = y0;
    out[out_step] = add(even1, odd1);
    out[2 * out_step] = sub(even1, odd1);
    out[3 * out_step] = add(even2, odd2);
    out[4 * out_step] = sub(even2, odd2);
    out[5 * out_step] = y3;
}

/* out = G g */
LS__ALWAYS_INLINE void map_g(const vec *g, int g_step, vec *out, int out_step)
{
    const vec g0 = g[0], g1 = g[g_step], g2 = g[2 * g_step];
    const vec even1 = times(-1.0f / 6, add(g0, g2)), odd1 = times(1.0f / 6, g1);
    const vec even2 = times_add(1.0f / 24, g0, times(1.0f / 6, g2)), odd2 = times(1.0f / 12, g1);
    out[0] = times(0.25f, g0);
    out[out_step] = sub(even1, odd1);
    out[2 * out_step] = add(even1, odd1);
    out[3 * out_step] = add(even2, odd2);
    out[4 * out_step] = sub(even2, odd2);
    out[5 * out_step] = g2;
}

/* out = G' u: the transpose of map_g */
LS__ALWAYS_INLINE void map_g_transposed(const vec *u, int u_step, vec *out, int out_step)
{
    const vec sum1 = add(u[u_step], u[2 * u_step]), difference1 = sub(u[2 * u_step], u[u_step]);
    const vec sum2 = add(u[3 * u_step], u[4 * u_step]),
              difference2 = sub(u[3 * u_step], u[4 * u_step]);
    const vec base = times_add(-1.0f / 6, sum1, times(1.0f / 24, sum2));
    out[0] = times_add(0.25f, u[0], base);
    out[out_step] = times_add(1.0f / 6, difference1, times(1.0f / 12, difference2));
    out[2 * out_step] = times_add(-1.0f / 6, sum1, times_add(1.0f / 6, sum2, u[5 * u_step]));
}

/* ---- Pictures ---- */

enum {
    IN = LS__WINO_IN,
    OUT = LS__WINO_OUT,
    XI = LS__WINO_XI,
    CHUNK = 64 /* channels between two looks at which places are inside the picture */
};

/* Read where a piece lies outside of its picture. */
static const element nothing[CHUNK] = { 0 };

/* A side x side piece of a picture whose rows and columns may lie outside. */
typedef struct piece {
    const element *first; /* of its first place, which may be outside */
    int64_t row_elements, channels;
    bool whole; /* all of it is inside */
    bool inside[XI];
} piece;

static void find_piece(const element *x, int64_t n, int64_t row, int64_t column, int64_t height,
                       int64_t width, int64_t channels, int side, piece *p)
{
    p->channels = channels;
    p->row_elements = width * channels;
    p->first = x + ((n * height + row) * width + column) * channels;
    p->whole = row >= 0 && row + side <= height && column >= 0 && column + side <= width;
    for (int i = 0; !p->whole && i < side; i++)
        for (int j = 0; j < side; j++)
            p->inside[i * side + j] =
                row + i >= 0 && row + i < height && column + j >= 0 && column + j < width;
}

/* Where a tile begins in the results: picture, row, column. */
typedef struct place {
    int64_t n, row, column;
} place;

static inline place place_of(const ls__wino_geometry *g, int64_t t)
{
    const int64_t in_picture = t % (g->tiles_h * g->tiles_w);
    return (place){ t / (g->tiles_h * g->tiles_w), in_picture / g->tiles_w * OUT,
                    in_picture % g->tiles_w * OUT };
}

/* side x side vectors -> XI of them, by one map along both axes: B' d B, or A y A'. */
LS__ALWAYS_INLINE void forward_map(int side, const vec *d, float *v, int64_t xi_stride)
{
    vec half[IN * IN], out[IN];
    for (int j = 0; j < side; j++) {
        if (side == IN)
            map_b(d + j, side, half + j, side);
        else
            map_a_transposed(d + j, side, half + j, side);
    }
    for (int i = 0; i < IN; i++) {
        if (side == IN)
            map_b(half + i * side, 1, out, 1);
        else
            map_a_transposed(half + i * side, 1, out, 1);
        for (int j = 0; j < IN; j++) store(v + (i * IN + j) * xi_stride, out[j]);
    }
}

/* Channels c0..c1-1 of one piece; the last vector may reach past them, with zeros. */
LS__ALWAYS_INLINE void transform_piece(int side, const piece *p, int64_t c0, int64_t c1, float *v,
                                       int64_t xi_stride)
{
    const int64_t channels = p->channels, row = p->row_elements;
    vec d[IN * IN];
    int64_t c = c0;
    for (; p->whole && c + LANES <= c1; c += LANES, v += LANES) {
        for (int i = 0; i < side * side; i++)
            d[i] = get(p->first + i / side * row + i % side * channels + c);
        forward_map(side, d, v, xi_stride);
    }
    while (c < c1) {
        const int64_t end = c + CHUNK < c1 ? c + CHUNK : c1;
        const element *from[IN * IN];
        for (int i = 0; i < side * side; i++)
            from[i] = p->whole || p->inside[i] ? p->first + i / side * row + i % side * channels + c
                                               : nothing;
        int64_t j = 0;
        for (; c + j + LANES <= end; j += LANES, v += LANES) {
            for (int i = 0; i < side * side; i++) d[i] = get(from[i] + j);
            forward_map(side, d, v, xi_stride);
        }
        if (c + j < end) {
            for (int i = 0; i < side * side; i++) d[i] = get_part(from[i] + j, end - c - j);
            forward_map(side, d, v, xi_stride);
        }
        c = end;
    }
}

static void input(const ls__wino_geometry *g, const void *x, int64_t first, int64_t count,
                  int64_t c0, int64_t c1, float *v, int64_t xi_stride, int64_t tile_stride)
{
    for (int64_t t = 0; t < count; t++, v += tile_stride) {
        const place at = place_of(g, first + t);
        piece p;
        find_piece(x, at.n, at.row - g->pad_h, at.column - g->pad_w, g->in_h, g->in_w,
                   g->in_channels, IN, &p);
        transform_piece(IN, &p, c0, c1, v, xi_stride);
    }
}

static void gradient(const ls__wino_geometry *g, const void *dy, int64_t first, int64_t count,
                     int64_t k0, int64_t k1, float *d, int64_t xi_stride, int64_t tile_stride)
{
    for (int64_t t = 0; t < count; t++, d += tile_stride) {
        const place at = place_of(g, first + t);
        piece p;
        find_piece(dy, at.n, at.row, at.column, g->out_h, g->out_w, g->out_channels, OUT, &p);
        transform_piece(OUT, &p, k0, k1, d, xi_stride);
    }
}

/* A' m A of one vector, plus an offset where there is one. */
LS__ALWAYS_INLINE void backward_map(const float *m, int64_t xi_stride, const element *bias,
                                    int64_t n, vec out[OUT * OUT])
{
    vec half[OUT * IN];
    for (int j = 0; j < IN; j++) {
        vec in[IN];
        for (int i = 0; i < IN; i++) in[i] = load(m + (i * IN + j) * xi_stride);
        map_a(in, 1, half + j, IN);
    }
    for (int i = 0; i < OUT; i++) map_a(half + i * IN, 1, out + i * OUT, 1);
    if (!bias) return;
    const vec offset = get_part(bias, n);
    for (int i = 0; i < OUT * OUT; i++) out[i] = add(out[i], offset);
}

static void output(const ls__wino_geometry *g, const float *m, int64_t xi_stride,
                   int64_t tile_stride, int64_t first, int64_t count, int64_t k0, int64_t k1,
                   const void *bias, void *y)
{
    const element *const offset = bias;
    const int64_t channels = g->out_channels, row = g->out_w * channels;
    for (int64_t t = 0; t < count; t++, m += tile_stride) {
        const place at = place_of(g, first + t);
        const int64_t rows = least(g->out_h - at.row, OUT),
                      columns = least(g->out_w - at.column, OUT);
        element *const to =
            (element *)y + ((at.n * g->out_h + at.row) * g->out_w + at.column) * channels;
        for (int64_t k = k0; k < k1; k += LANES) {
            vec out[OUT * OUT];
            backward_map(m + (k - k0), xi_stride, offset ? offset + k : NULL, k1 - k, out);
            if (rows == OUT && columns == OUT && k + LANES <= k1) {
                for (int i = 0; i < OUT * OUT; i++)
                    put(to + i / OUT * row + i % OUT * channels + k, out[i]);
                continue;
            }
            for (int i = 0; i < OUT * OUT; i++)
                if (i / OUT < rows && i % OUT < columns)
                    put_part(to + i / OUT * row + i % OUT * channels + k, out[i], k1 - k);
        }
    }
}

/* ---- Weights ---- */

/* G g G' of nine taps of n channels, to XI places. */
LS__ALWAYS_INLINE void transform_taps(const element *w, int64_t tap_stride, bool turned, int64_t n,
                                      float *to, int64_t xi_stride)
{
    vec taps[9], half[IN * 3], out[IN];
    for (int tap = 0; tap < 9; tap++)
        taps[turned ? 8 - tap : tap] = get_part(w + tap * tap_stride, n);
    for (int j = 0; j < 3; j++) map_g(taps + j, 3, half + j, 3);
    for (int i = 0; i < IN; i++) {
        map_g(half + i * 3, 1, out, 1);
        for (int j = 0; j < IN; j++) store(to + (i * IN + j) * xi_stride, out[j]);
    }
}

/* Vectors run over I. Turned, that is along the panel. */
static void turned_weights(const ls__wino_geometry *g, const element *w, int64_t panel, float *u)
{
    const int64_t i_stride = g->out_channels, xi_stride = g->in_channels * PANEL;
    for (int64_t c = 0; c < g->in_channels; c++)
        for (int64_t k = panel * PANEL, lane = 0; lane < PANEL && k < i_stride;
             k += LANES, lane += LANES)
            transform_taps(w + c * 9 * i_stride + k, i_stride, true, i_stride - k,
                           u + c * PANEL + lane, xi_stride);
}

/* Otherwise it is across, and squares of LANES output and input channels are transposed. */
static void straight_weights(const ls__wino_geometry *g, const element *w, int64_t panel, float *u)
{
    float square[XI][LANES][LANES], columns[LANES][LANES];
    const int64_t i_stride = g->in_channels;
    for (int64_t k = panel * PANEL, lane = 0; lane < PANEL && k < g->out_channels;
         k += LANES, lane += LANES)
        for (int64_t c = 0; c < i_stride; c += LANES) {
            const int64_t rows = least(g->out_channels - k, LANES), n = least(i_stride - c, LANES);
            if (rows < LANES) memset(square, 0, sizeof square);
            for (int64_t row = 0; row < rows; row++)
                transform_taps(w + (k + row) * 9 * i_stride + c, i_stride, false, n, square[0][row],
                               LANES * LANES);
            for (int xi = 0; xi < XI; xi++) {
                for (int i = 0; i < LANES; i += 8)
                    for (int j = 0; j < LANES; j += 8)
                        transpose_8x8(&square[xi][i][j], LANES, &columns[j][i], LANES);
                for (int64_t j = 0; j < n; j++)
                    store(u + (xi * i_stride + c + j) * PANEL + lane, load(columns[j]));
            }
        }
}

static void weights(const ls__wino_geometry *g, const void *w, bool turned, int64_t panel, float *u)
{
    (turned ? turned_weights : straight_weights)(g, w, panel, u);
}

static void weight_gradient(const ls__wino_geometry *g, const float *u, int64_t xi_stride,
                            int64_t k, void *dw)
{
    const int64_t channels = g->in_channels;
    for (int64_t c = 0; c < channels; c += LANES) {
        vec half[3 * IN];
        for (int j = 0; j < IN; j++) {
            vec in[IN];
            for (int i = 0; i < IN; i++) in[i] = load(u + (i * IN + j) * xi_stride + c);
            map_g_transposed(in, 1, half + j, IN);
        }
        for (int i = 0; i < 3; i++) {
            vec taps[3];
            map_g_transposed(half + i * IN, 1, taps, 1);
            for (int j = 0; j < 3; j++)
                store_part((float *)dw + (k * 9 + i * 3 + j) * channels + c, taps[j], channels - c);
        }
    }
}

#endif
