/* gather.c: which pixels are the rows of a product, and their way to rows and back. */
#include "cpu/bf16.h"
#include "cpu/gemm/gemm.h"

#include <string.h>

/* ---- Phases ---- */

/* Adds a tap where there is room; false when there is none. */
static bool add_tap(ls__gemm_phase *phase, int64_t h, int64_t w, int64_t weight)
{
    if (phase->n_taps == LS__GEMM_MOST_TAPS) return false;
    phase->taps[phase->n_taps][0] = h;
    phase->taps[phase->n_taps][1] = w;
    phase->weight[phase->n_taps++] = weight;
    return true;
}

static void finish(ls__gemm_phase *phase, int64_t images, const int64_t source[2])
{
    phase->n_rows = images * phase->grid[0] * phase->grid[1];
    phase->plain = phase->n_taps == 1;
    for (int d = 0; d < 2; d++)
        phase->plain = phase->plain && phase->grid[d] == source[d] && phase->apart[d] == 1 &&
                       phase->taps[0][d] == 0;
}

static bool correlation(const ls__op *op, const int64_t *x, const int64_t *y, ls__gemm_phase *phase)
{
    *phase = (ls__gemm_phase){ .grid = { y[1], y[2] }, .step = { 1, 1 } };
    const int64_t *padding = op->u.conv.padding, *dilation = op->u.conv.dilation;
    memcpy(phase->apart, op->u.conv.stride, sizeof phase->apart);
    for (int64_t i = 0; i < op->u.conv.kernel[0]; i++)
        for (int64_t j = 0; j < op->u.conv.kernel[1]; j++)
            if (!add_tap(phase, i * dilation[0] - padding[0], j * dilation[1] - padding[1],
                         i * op->u.conv.kernel[1] + j))
                return false;
    finish(phase, x[0], &x[1]);
    return true;
}

/* Pixels (a, b) + stride (p, q) of dx. A tap reaches them where it leads to a whole place of dy. */
static bool one_phase(const ls__op *op, const int64_t *x, const int64_t *y, int64_t a, int64_t b,
                      ls__gemm_phase *phase)
{
    const int64_t *stride = op->u.conv.stride, *kernel = op->u.conv.kernel;
    *phase = (ls__gemm_phase){ .grid = { ls__divide_up(x[1] - a, stride[0]),
                                         ls__divide_up(x[2] - b, stride[1]) },
                               .first = { a, b },
                               .step = { stride[0], stride[1] },
                               .apart = { 1, 1 } };
    for (int64_t i = 0; i < kernel[0]; i++)
        for (int64_t j = 0; j < kernel[1]; j++) {
            const int64_t h = a + op->u.conv.padding[0] - i * op->u.conv.dilation[0];
            const int64_t w = b + op->u.conv.padding[1] - j * op->u.conv.dilation[1];
            if (h % stride[0] == 0 && w % stride[1] == 0 &&
                !add_tap(phase, h / stride[0], w / stride[1], i * kernel[1] + j))
                return false;
        }
    finish(phase, x[0], &y[1]);
    return true;
}

int ls__gemm_phases(const ls__op *op, ls__gemm_phase phases[LS__GEMM_MOST_PHASES])
{
    const bool data = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    const ls__operand *o = op->operands;
    const int64_t *x = o[data ? 2 : 0].shape.dims;
    const int64_t *y = o[data ? 0 : op->kind == LS__OP_CONV2D ? 3 : 1].shape.dims;
    if (!data) return correlation(op, x, y, phases);
    const int64_t n_h = ls__min(op->u.conv.stride[0], x[1]);
    const int64_t n_w = ls__min(op->u.conv.stride[1], x[2]);
    if (n_h > LS__GEMM_MOST_PHASES || n_w > LS__GEMM_MOST_PHASES / n_h) return 0;
    for (int64_t i = 0; i < n_h * n_w; i++)
        if (!one_phase(op, x, y, i / n_w, i % n_w, &phases[i])) return 0;
    return (int)(n_h * n_w);
}

/* ---- Rows ---- */

typedef struct pixel {
    int64_t image, p, q;
} pixel;

static pixel pixel_at(const ls__gemm_phase *phase, int64_t row)
{
    const int64_t in_picture = row % (phase->grid[0] * phase->grid[1]);
    return (pixel){ row / (phase->grid[0] * phase->grid[1]), in_picture / phase->grid[1],
                    in_picture % phase->grid[1] };
}

static void advance(const ls__gemm_phase *phase, pixel *at)
{
    if (++at->q < phase->grid[1]) return;
    at->q = 0;
    if (++at->p < phase->grid[0]) return;
    at->p = 0;
    at->image++;
}

ls__ahead ls__gemm_ahead(const ls__gemm_phase *phase, const ls__gemm_picture *picture,
                         const void *x, int64_t first, int64_t n, int64_t k0, int64_t k1,
                         int64_t tiles)
{
    enum { LINE = 64 / sizeof(float) };
    const int64_t channels = picture->channels, lines = n * ls__divide_up(k1 - k0, LINE);
    if (picture->bf16 || !phase->plain || n <= 0) return (ls__ahead){ .n_rows = 0 };
    return (ls__ahead){ .row = (const float *)x + first * channels + k0,
                        .n_rows = n,
                        .floats = k1 - k0,
                        .stride = channels,
                        .lines_per_tile = ls__divide_up(lines, tiles) };
}

void ls__gemm_read(bool bf16, const void *from, int64_t offset, int64_t n, float *to)
{
    if (bf16)
        ls__bf16_read((const uint16_t *)from + offset, n, to);
    else
        memcpy(to, (const float *)from + offset, (size_t)n * sizeof *to);
}

/* from + bias?, or zeros where from is NULL */
static void write_f32(const float *restrict from, const float *restrict bias, int64_t n,
                      float *restrict to)
{
    if (!from)
        memset(to, 0, (size_t)n * sizeof *to);
    else if (!bias)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t c = 0; c < n; c++) to[c] = from[c] + bias[c];
}

static void write_bf16(const float *from, const float *bias, int64_t n, uint16_t *to)
{
    float sums[64];
    const int64_t most = sizeof sums / sizeof sums[0];
    if (!from) memset(to, 0, (size_t)n * sizeof *to);
    if (from && !bias) ls__bf16_write(from, n, to);
    for (int64_t c = 0; from && bias && c < n; c += most) {
        const int64_t count = ls__min(most, n - c);
        write_f32(from + c, bias + c, count, sums);
        ls__bf16_write(sums, count, to + c);
    }
}

void ls__gemm_gather(const ls__gemm_phase *phase, const ls__gemm_picture *picture, const void *x,
                     int64_t first, int64_t n, int64_t k0, int64_t k1, float *rows, int64_t stride)
{
    const int64_t channels = picture->channels, *size = picture->size;
    pixel at = pixel_at(phase, first);
    for (int64_t r = 0; r < n; r++, rows += stride, advance(phase, &at)) {
        float *to = rows;
        for (int64_t t = k0 / channels; t * channels < k1; t++) {
            const int64_t h = at.p * phase->apart[0] + phase->taps[t][0];
            const int64_t w = at.q * phase->apart[1] + phase->taps[t][1];
            const int64_t c0 = k0 > t * channels ? k0 - t * channels : 0;
            const int64_t count = ls__min(k1 - t * channels, channels) - c0;
            if (h >= 0 && h < size[0] && w >= 0 && w < size[1])
                ls__gemm_read(picture->bf16, x,
                              ((at.image * size[0] + h) * size[1] + w) * channels + c0, count, to);
            else
                memset(to, 0, (size_t)count * sizeof *to);
            to += count;
        }
    }
}

void ls__gemm_scatter(const ls__gemm_phase *phase, const ls__gemm_picture *picture,
                      const float *rows, int64_t stride, int64_t first, int64_t n, int64_t c0,
                      int64_t c1, const float *bias, void *y)
{
    const int64_t *size = picture->size, count = c1 - c0;
    pixel at = pixel_at(phase, first);
    for (int64_t r = 0; r < n; r++, advance(phase, &at)) {
        const int64_t h = phase->first[0] + at.p * phase->step[0];
        const int64_t w = phase->first[1] + at.q * phase->step[1];
        const int64_t to = ((at.image * size[0] + h) * size[1] + w) * picture->channels + c0;
        const float *from = rows ? rows + r * stride : NULL, *offset = bias ? bias + c0 : NULL;
        if (picture->bf16)
            write_bf16(from, offset, count, (uint16_t *)y + to);
        else
            write_f32(from, offset, count, (float *)y + to);
    }
}
