/* images.h: inputs and gradients to the transformed domain, results back, a vector of channels at
 * a time.
 *
 * Tiles that lie side by side form a strip. Its columns are mapped one by one, each once, although
 * tiles of inputs overlap by two of them; then the tiles, row by row. */
#ifndef LS_CPU_CONV_WINOGRAD_IMAGES_H
#define LS_CPU_CONV_WINOGRAD_IMAGES_H

#include "cpu/conv/winograd/transform.h"

enum { STRIP_TILES = 8, STRIP_COLUMNS = STRIP_TILES * OUT + IN - OUT };

/* Where a tile begins in the results: image, row, column. */
typedef struct place {
    int64_t n, row, column;
} place;

static inline place place_of(const ls__winograd_geometry *g, int64_t t)
{
    const int64_t in_image = t % (g->tiles_h * g->tiles_w);
    return (place){ t / (g->tiles_h * g->tiles_w), in_image / g->tiles_w * OUT,
                    in_image % g->tiles_w * OUT };
}

/* How many of `count` tiles from there on are one strip. */
static inline int64_t strip_tiles(const ls__winograd_geometry *g, const place *at, int64_t count)
{
    return ls__min(ls__min(count, STRIP_TILES), g->tiles_w - at->column / OUT);
}

/* ---- To the transformed domain ---- */

/* A image's rows and columns under a strip, which may lie outside. */
typedef struct strip {
    const ls__element *rows[IN]; /* each at the first column inside; NULL: outside */
    int64_t begin, end;          /* the columns inside */
    int64_t columns, channels;
} strip;

/* `side` rows from `row` on, `columns` columns from `column` on. */
static void find_strip(const ls__element *x, int64_t n, int64_t row, int64_t column, int64_t height,
                       int64_t width, int64_t channels, int side, int64_t columns, strip *s)
{
    s->columns = columns;
    s->channels = channels;
    s->begin = column < 0 ? -column : 0;
    s->end = ls__min(columns, width - column);
    for (int i = 0; i < side; i++)
        s->rows[i] = row + i >= 0 && row + i < height
                         ? x + ((n * height + row + i) * width + column + s->begin) * channels
                         : NULL;
}

/* B' for tiles of inputs, A for tiles of gradients. */
LS__ALWAYS_INLINE void map_forward(int side, const ls__vf *d, ls__vf *out, int out_step)
{
    if (side == IN)
        map_b(d, 1, out, out_step);
    else
        map_a_transposed(d, 1, out, out_step);
}

/* The strip's columns, of n channels from c on. Outside are zeros, and so is what they become. */
LS__ALWAYS_INLINE void map_columns(int side, const strip *s, int64_t c, int n,
                                   ls__vf half[IN][STRIP_COLUMNS])
{
    static const ls__element zeros[LS__WIDTH] = { 0 };
    const ls__element *from[IN];
    int64_t step[IN];
    for (int i = 0; i < side; i++) {
        from[i] = s->rows[i] ? s->rows[i] + c : zeros;
        step[i] = s->rows[i] ? s->channels : 0;
    }
    for (int i = 0; i < IN; i++) {
        for (int64_t j = 0; j < s->begin; j++) half[i][j] = ls__broadcast(0);
        for (int64_t j = s->end; j < s->columns; j++) half[i][j] = ls__broadcast(0);
    }
    for (int64_t j = s->begin; j < s->end; j++) {
        ls__vf d[IN];
        for (int i = 0; i < side; from[i] += step[i], i++) d[i] = ls__load_first(from[i], n);
        map_forward(side, d, &half[0][j], STRIP_COLUMNS);
    }
}

/* Channels c0..c1-1 of a strip of tiles; the last vector may reach past them, with zeros. */
LS__ALWAYS_INLINE void transform_strip(int side, const strip *s, int64_t tiles, int64_t c0,
                                       int64_t c1, float *v, int64_t xi_stride, int64_t tile_stride)
{
    ls__vf half[IN][STRIP_COLUMNS];
    for (int64_t c = c0; c < c1; c += LS__WIDTH, v += LS__WIDTH) {
        if (c + LS__WIDTH <= c1)
            map_columns(side, s, c, LS__WIDTH, half);
        else
            map_columns(side, s, c, (int)(c1 - c), half);
        for (int64_t t = 0; t < tiles; t++) {
            float *to = v + t * tile_stride;
            LS__ROLLED
            for (int i = 0; i < IN; i++, to += IN * xi_stride) {
                ls__vf out[IN];
                map_forward(side, &half[i][t * OUT], out, 1);
                for (int j = 0; j < IN; j++) ls__store_f32(to + j * xi_stride, out[j]);
            }
        }
    }
}

static void input(const ls__winograd_geometry *g, const void *x, int64_t first, int64_t count,
                  int64_t c0, int64_t c1, float *v, int64_t xi_stride, int64_t tile_stride)
{
    for (int64_t t = 0, n; t < count; t += n, v += n * tile_stride) {
        const place at = place_of(g, first + t);
        strip s;
        n = strip_tiles(g, &at, count - t);
        find_strip(x, at.n, at.row - g->pad_h, at.column - g->pad_w, g->in_h, g->in_w,
                   g->in_channels, IN, n * OUT + IN - OUT, &s);
        transform_strip(IN, &s, n, c0, c1, v, xi_stride, tile_stride);
    }
}

static void gradient(const ls__winograd_geometry *g, const void *dy, int64_t first, int64_t count,
                     int64_t k0, int64_t k1, float *d, int64_t xi_stride, int64_t tile_stride)
{
    for (int64_t t = 0, n; t < count; t += n, d += n * tile_stride) {
        const place at = place_of(g, first + t);
        strip s;
        n = strip_tiles(g, &at, count - t);
        find_strip(dy, at.n, at.row, at.column, g->out_h, g->out_w, g->out_channels, OUT, n * OUT,
                   &s);
        transform_strip(OUT, &s, n, k0, k1, d, xi_stride, tile_stride);
    }
}

/* ---- Back ---- */

/* Where a tile's results go: how many rows and columns of it there are. */
typedef struct target {
    int64_t row_elements, channels, rows, columns;
} target;

/* The last step of A' m A, along a row: OUT results, with an offset where there is one. */
LS__ALWAYS_INLINE void map_row(const ls__vf half[IN], const ls__vf *offset, ls__vf out[OUT])
{
    map_a(half, 1, out, 1);
    for (int j = 0; offset && j < OUT; j++) out[j] = ls__add(out[j], *offset);
}

/* A' m A of one vector at its channels, of which n are left. */
LS__ALWAYS_INLINE void map_back(const float *m, int64_t xi_stride, const ls__vf *offset, int n,
                                ls__element *to, const target *y)
{
    ls__vf half[OUT][IN], out[OUT];
    LS__ROLLED
    for (int j = 0; j < IN; j++, m += xi_stride) {
        ls__vf in[IN];
        for (int i = 0; i < IN; i++) in[i] = ls__load_f32(m + i * IN * xi_stride);
        map_a(in, 1, &half[0][j], IN);
    }
    if (y->rows == OUT && y->columns == OUT && n == LS__WIDTH) {
        for (int i = 0; i < OUT; i++, to += y->row_elements) {
            map_row(half[i], offset, out);
            for (int j = 0; j < OUT; j++) ls__store(to + j * y->channels, out[j]);
        }
        return;
    }
    for (int64_t i = 0; i < y->rows; i++, to += y->row_elements) {
        map_row(half[i], offset, out);
        for (int64_t j = 0; j < y->columns; j++) ls__store_first(to + j * y->channels, out[j], n);
    }
}

static void output(const ls__winograd_geometry *g, const float *m, int64_t xi_stride,
                   int64_t tile_stride, int64_t first, int64_t count, int64_t k0, int64_t k1,
                   const void *bias, void *y)
{
    const int64_t channels = g->out_channels;
    target to = { .row_elements = g->out_w * channels, .channels = channels };
    for (int64_t t = 0; t < count; t++, m += tile_stride) {
        const place at = place_of(g, first + t);
        to.rows = ls__min(g->out_h - at.row, OUT);
        to.columns = ls__min(g->out_w - at.column, OUT);
        ls__element *const corner =
            (ls__element *)y + ((at.n * g->out_h + at.row) * g->out_w + at.column) * channels;
        for (int64_t k = k0; k < k1; k += LS__WIDTH) {
            const int n = elements_of(k1 - k);
            const ls__vf offset =
                bias ? ls__load_first((const ls__element *)bias + k, n) : ls__broadcast(0);
            map_back(m + (k - k0), xi_stride, bias ? &offset : NULL, n, corner + k, &to);
        }
    }
}

#endif
