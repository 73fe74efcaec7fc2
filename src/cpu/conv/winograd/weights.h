/* weights.h: weights to the transformed domain, and their gradients back. */
#ifndef LS_CPU_CONV_WINOGRAD_WEIGHTS_H
#define LS_CPU_CONV_WINOGRAD_WEIGHTS_H

#include "cpu/conv/winograd/transform.h"

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
            const int64_t rows = ls__min(g->out_channels - k, LANES),
                          n = ls__min(i_stride - c, LANES);
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
