/* lanes.c: the kernels of one vector width. A generated file for each width defines LS__GEMM_LANES
 * and LS__GEMM_TABLE and includes this one. */
#include "cpu/conv/implicit_gemm/gemm.h"
#include "cpu/conv/implicit_gemm/product.h"

/* Squares of eight rows and eight places at a time; the rest one by one. */
static void pack(const float *w, int64_t w_stride, int64_t columns, int64_t n, float *u)
{
    for (int64_t lane = 0; lane < PANEL; lane += 8) {
        int64_t k = 0;
        for (; lane + 8 <= columns && k + 8 <= n; k += 8)
            transpose_8x8(w + lane * w_stride + k, w_stride, u + k * PANEL + lane, PANEL);
        for (; k < n; k++)
            for (int64_t j = lane; j < lane + 8; j++)
                u[k * PANEL + j] = j < columns ? w[j * w_stride + k] : 0;
    }
}

const ls__gemm_lanes LS__GEMM_TABLE = {
    .lanes = LANES, .panel = PANEL, .rows = ROWS, .pack = pack, .multiply = multiply, .outer = outer
};
