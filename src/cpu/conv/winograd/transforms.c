/* transforms.c: inputs, gradients and weights to the transformed domain, results and gradients of
 * weights back, a vector of channels at a time; compiled for each vector width and each type in
 * memory.
 *
 * Tiles side by side form a strip. First each of its columns is mapped once, although tiles of
 * inputs overlap by two columns, then the tiles, row by row. */
#include "cpu/conv/winograd/transform.h"
#include "cpu/simd/transpose.h"

enum { STRIP_TILES = 8, STRIP_COLUMNS = STRIP_TILES * OUT + IN - OUT };

/* The position in the results at which a tile begins: image, row, column. */
typedef struct place {
    int64_t n, row, column;
} place;

static inline place place_of(const ls__winograd_geometry *g, int64_t t)
{
    const int64_t in_image = t % (g->tiles_h * g->tiles_w);
    return (place){ t / (g->tiles_h * g->tiles_w), in_image / g->tiles_w * OUT,
                    in_image % g->tiles_w * OUT };
}

/* The number of tiles of the strip that begins there, at most `count`. */
static inline int64_t strip_tiles(const ls__winograd_geometry *g, const place *at, int64_t count)
{
    return ls__min_i64(ls__min_i64(count, STRIP_TILES), g->tiles_w - at->column / OUT);
}

/* The rows and columns of an image that a strip reads, which may be outside of the image. */
typedef struct strip {
    const ls__element *rows[IN]; /* each at the first column inside; NULL: outside */
    int64_t begin, end;          /* the columns inside */
    int64_t columns, channels;
} strip;

/* The strip of `side` rows from `row` on and `columns` columns from `column` on. */
static void find_strip(const ls__element *x, int64_t n, int64_t row, int64_t column, int64_t height,
                       int64_t width, int64_t channels, int side, int64_t columns, strip *s)
{
    s->columns = columns;
    s->channels = channels;
    s->begin = column < 0 ? -column : 0;
    s->end = ls__min_i64(columns, width - column);
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

/* Maps the strip's columns, of n channels from c on. Columns outside the image are zeros. */
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

/* Channels c0..c1-1 of a strip of tiles; the last vector is filled with zeros. */
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

/* A tile's rows and columns that are inside the image, and the image's strides. */
typedef struct target {
    int64_t row_elements, channels, rows, columns;
} target;

/* The last step of A' m A, along a row: OUT results, plus an offset if there is one. */
LS__ALWAYS_INLINE void map_row(const ls__vf half[IN], const ls__vf *offset, ls__vf out[OUT])
{
    map_a(half, 1, out, 1);
    for (int j = 0; offset && j < OUT; j++) out[j] = ls__add(out[j], *offset);
}

/* A' m A of one vector, of which n channels are written. */
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
        to.rows = ls__min_i64(g->out_h - at.row, OUT);
        to.columns = ls__min_i64(g->out_w - at.column, OUT);
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

/* G g G' of nine taps of n channels, to XI positions. */
LS__ALWAYS_INLINE void transform_taps(const ls__element *w, int64_t tap_stride, bool rotated, int n,
                                      float *to, int64_t xi_stride)
{
    ls__vf taps[9], half[IN * 3], out[IN];
    for (int tap = 0; tap < 9; tap++)
        taps[rotated ? 8 - tap : tap] = ls__load_first(w + tap * tap_stride, n);
    for (int j = 0; j < 3; j++) map_g(taps + j, 3, half + j, 3);
    for (int i = 0; i < IN; i++) {
        map_g(half + i * 3, 1, out, 1);
        for (int j = 0; j < IN; j++) ls__store_f32(to + (i * IN + j) * xi_stride, out[j]);
    }
}

/* Prefetches into the second-level cache. */
static inline void prefetch(const ls__element *at)
{
    __builtin_prefetch(at, 0, 2);
}

/* Vectors run over I, which is the axis of the panel. */
static void rotated_weights(const ls__winograd_geometry *g, const ls__element *w, int64_t panel,
                            float *u, int64_t xi_stride)
{
    const int64_t i_stride = g->out_channels;
    for (int64_t c = 0; c < g->in_channels; c++)
        for (int64_t k = panel * PANEL, column = 0; column < PANEL && k < i_stride;
             k += LS__WIDTH, column += LS__WIDTH)
            transform_taps(w + c * 9 * i_stride + k, i_stride, true, elements_of(i_stride - k),
                           u + c * PANEL + column, xi_stride);
}

/* n columns of a square become rows of a panel: blocks of 8 x 8, the rest one by one. */
LS__ALWAYS_INLINE void transpose(const float square[LS__WIDTH][LS__WIDTH], int n, float *to)
{
    int j = 0;
    for (; j + 8 <= n; j += 8)
        for (int i = 0; i < LS__WIDTH; i += 8)
            ls__transpose_8x8(&square[i][j], LS__WIDTH, to + j * PANEL + i, PANEL);
    for (; j < n; j++)
        for (int i = 0; i < LS__WIDTH; i++) to[j * PANEL + i] = square[i][j];
}

/* The axis of the panel is O, so squares of LS__WIDTH output and input channels are transposed. */
static void straight_weights(const ls__winograd_geometry *g, const ls__element *w, int64_t panel,
                             float *u, int64_t xi_stride)
{
    float square[XI][LS__WIDTH][LS__WIDTH];
    const int64_t i_stride = g->in_channels;
    for (int64_t k = panel * PANEL, column = 0; column < PANEL && k < g->out_channels;
         k += LS__WIDTH, column += LS__WIDTH)
        for (int64_t c = 0; c < i_stride; c += LS__WIDTH) {
            const int rows = elements_of(g->out_channels - k), n = elements_of(i_stride - c);
            if (rows < LS__WIDTH) memset(square, 0, sizeof square);
            const int64_t ahead = c + LS__WIDTH < i_stride ? LS__WIDTH : 0;
            for (int64_t row = 0; row < rows; row++) {
                const ls__element *taps = w + (k + row) * 9 * i_stride + c;
                for (int tap = 0; tap < 9; tap++) prefetch(taps + tap * i_stride + ahead);
                transform_taps(taps, i_stride, false, n, square[0][row], LS__WIDTH * LS__WIDTH);
            }
            for (int xi = 0; xi < XI; xi++)
                transpose(square[xi], n, u + xi * xi_stride + c * PANEL + column);
        }
}

static void weights(const ls__winograd_geometry *g, const void *w, bool rotated, int64_t panel,
                    float *u, int64_t xi_stride)
{
    (rotated ? rotated_weights : straight_weights)(g, w, panel, u, xi_stride);
}

static void weight_gradient(const ls__winograd_geometry *g, const float *u, int64_t xi_stride,
                            int64_t k, void *dw)
{
    const int64_t channels = g->in_channels;
    for (int64_t c = 0; c < channels; c += LS__WIDTH) {
        ls__vf half[3 * IN];
        for (int j = 0; j < IN; j++) {
            ls__vf in[IN];
            for (int i = 0; i < IN; i++) in[i] = ls__load_f32(u + (i * IN + j) * xi_stride + c);
            map_g_transposed(in, 1, half + j, IN);
        }
        for (int i = 0; i < 3; i++) {
            ls__vf taps[3];
            map_g_transposed(half + i * IN, 1, taps, 1);
            for (int j = 0; j < 3; j++)
                ls__store_first_f32((float *)dw + (k * 9 + i * 3 + j) * channels + c, taps[j],
                                    elements_of(channels - c));
        }
    }
}

extern const ls__microkernels LS__ISA_NAME(ls__microkernels);

const ls__winograd_transforms LS__ELEMENT_NAME(ls__winograd) = {
    .micro = &LS__ISA_NAME(ls__microkernels),
    .input = input,
    .output = output,
    .gradient = gradient,
    .weights = weights,
    .weight_gradient = weight_gradient,
};
