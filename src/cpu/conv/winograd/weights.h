/* weights.h: weights to the transformed domain, and their gradients back. */
#ifndef LS_CPU_CONV_WINOGRAD_WEIGHTS_H
#define LS_CPU_CONV_WINOGRAD_WEIGHTS_H

#include "cpu/conv/winograd/transform.h"
#include "cpu/simd/transpose.h"

/* G g G' of nine taps of n channels, to XI places. */
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

/* Vectors run over I, which is along the panel if the weights are rotated. */
static void rotated_weights(const ls__winograd_geometry *g, const ls__element *w, int64_t panel,
                            float *u)
{
    const int64_t i_stride = g->out_channels, xi_stride = g->in_channels * PANEL;
    for (int64_t c = 0; c < g->in_channels; c++)
        for (int64_t k = panel * PANEL, column = 0; column < PANEL && k < i_stride;
             k += LS__WIDTH, column += LS__WIDTH)
            transform_taps(w + c * 9 * i_stride + k, i_stride, true, elements_of(i_stride - k),
                           u + c * PANEL + column, xi_stride);
}

/* Otherwise I is across the panel, and squares of LS__WIDTH output and input channels are
 * transposed.
 */
static void straight_weights(const ls__winograd_geometry *g, const ls__element *w, int64_t panel,
                             float *u)
{
    float square[XI][LS__WIDTH][LS__WIDTH], columns[LS__WIDTH][LS__WIDTH];
    const int64_t i_stride = g->in_channels;
    for (int64_t k = panel * PANEL, column = 0; column < PANEL && k < g->out_channels;
         k += LS__WIDTH, column += LS__WIDTH)
        for (int64_t c = 0; c < i_stride; c += LS__WIDTH) {
            const int rows = elements_of(g->out_channels - k), n = elements_of(i_stride - c);
            if (rows < LS__WIDTH) memset(square, 0, sizeof square);
            for (int64_t row = 0; row < rows; row++)
                transform_taps(w + (k + row) * 9 * i_stride + c, i_stride, false, n, square[0][row],
                               LS__WIDTH * LS__WIDTH);
            for (int xi = 0; xi < XI; xi++) {
                for (int i = 0; i < LS__WIDTH; i += 8)
                    for (int j = 0; j < LS__WIDTH; j += 8)
                        ls__transpose_8x8(&square[xi][i][j], LS__WIDTH, &columns[j][i], LS__WIDTH);
                for (int64_t j = 0; j < n; j++)
                    ls__store_f32(u + (xi * i_stride + c + j) * PANEL + column,
                                  ls__load_f32(columns[j]));
            }
        }
}

static void weights(const ls__winograd_geometry *g, const void *w, bool rotated, int64_t panel,
                    float *u)
{
    (rotated ? rotated_weights : straight_weights)(g, w, panel, u);
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

#endif
