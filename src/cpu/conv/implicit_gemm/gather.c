/* gather.c: pixels to the rows of a product, and rows back to pixels. */
#include "arith/element.h"
#include "cpu/conv/implicit_gemm/implicit_gemm.h"

#include <string.h>

typedef struct pixel {
    int64_t image, p, q;
} pixel;

static pixel pixel_at(const ls__implicit_gemm_phase *phase, int64_t row)
{
    const int64_t in_image = row % (phase->grid[0] * phase->grid[1]);
    return (pixel){ row / (phase->grid[0] * phase->grid[1]), in_image / phase->grid[1],
                    in_image % phase->grid[1] };
}

static void pixel_advance(const ls__implicit_gemm_phase *phase, pixel *at)
{
    if (++at->q < phase->grid[1]) return;
    at->q = 0;
    if (++at->p < phase->grid[0]) return;
    at->p = 0;
    at->image++;
}

ls__prefetch ls__implicit_gemm_prefetch(const ls__conv_call *call,
                                        const ls__implicit_gemm_phase *phase, int64_t first,
                                        int64_t n, int64_t k0, int64_t k1, int64_t tiles)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    enum { LINE = 64 / sizeof(float) };
    const int64_t channels = k->source.channels, lines = n * ls__divide_up(k1 - k0, LINE);
    if (k->bf16 || !phase->plain || n <= 0) return (ls__prefetch){ .n_rows = 0 };
    return (ls__prefetch){ .row = (const float *)call->x + first * channels + k0,
                           .n_rows = n,
                           .floats = k1 - k0,
                           .stride = channels,
                           .lines_per_tile = ls__divide_up(lines, tiles) };
}

void ls__implicit_gemm_read(const ls__implicit_gemm_kernel *k, const void *from, int64_t offset,
                            int64_t n, float *to)
{
    if (k->bf16)
        k->micro->read_bf16((const uint16_t *)from + offset, n, to);
    else
        memcpy(to, (const float *)from + offset, (size_t)n * sizeof *to);
}

/* Adds the bias, if there is one, to columns c0..c1-1 of n rows; then their ReLU. */
static void finish_rows(const ls__conv_call *call, float *rows, int64_t stride, int64_t n,
                        int64_t c0, int64_t c1)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    enum { COLUMNS = 64 };
    float bias[COLUMNS];
    for (int64_t c = c0; c < c1 && (call->bias || k->relu); c += COLUMNS) {
        const int64_t count = ls__min_i64(COLUMNS, c1 - c);
        if (call->bias) ls__implicit_gemm_read(k, call->bias, c, count, bias);
        for (int64_t r = 0; r < n; r++) {
            float *row = rows + r * stride + (c - c0);
            for (int64_t i = 0; call->bias && i < count; i++) row[i] += bias[i];
            for (int64_t i = 0; k->relu && i < count; i++) row[i] = ls__relu(row[i]);
        }
    }
}

void ls__implicit_gemm_gather(const ls__conv_call *call, const ls__implicit_gemm_phase *phase,
                              int64_t first, int64_t n, int64_t k0, int64_t k1, float *rows,
                              int64_t stride)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t channels = k->source.channels, *size = k->source.size;
    pixel at = pixel_at(phase, first);
    for (int64_t r = 0; r < n; r++, rows += stride, pixel_advance(phase, &at)) {
        float *to = rows;
        for (int64_t t = k0 / channels; t * channels < k1; t++) {
            const int64_t h = at.p * phase->source_step[0] + phase->taps[t][0];
            const int64_t w = at.q * phase->source_step[1] + phase->taps[t][1];
            const int64_t c0 = k0 > t * channels ? k0 - t * channels : 0;
            const int64_t count = ls__min_i64(k1 - t * channels, channels) - c0;
            if (h >= 0 && h < size[0] && w >= 0 && w < size[1])
                ls__implicit_gemm_read(k, call->x,
                                       ((at.image * size[0] + h) * size[1] + w) * channels + c0,
                                       count, to);
            else
                memset(to, 0, (size_t)count * sizeof *to);
            to += count;
        }
    }
}

void ls__implicit_gemm_scatter(const ls__conv_call *call, const ls__implicit_gemm_phase *phase,
                               float *rows, int64_t stride, int64_t first, int64_t n, int64_t c0,
                               int64_t c1)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t *size = k->result.size, count = c1 - c0;
    const size_t value_bytes = k->bf16 ? sizeof(uint16_t) : sizeof(float);
    if (rows) finish_rows(call, rows, stride, n, c0, c1);
    pixel at = pixel_at(phase, first);
    for (int64_t r = 0; r < n; r++, pixel_advance(phase, &at)) {
        const int64_t h = phase->first[0] + at.p * phase->step[0];
        const int64_t w = phase->first[1] + at.q * phase->step[1];
        const int64_t place = (at.image * size[0] + h) * size[1] + w;
        void *to = (char *)call->y + (size_t)(place * k->result.channels + c0) * value_bytes;
        if (!rows)
            memset(to, 0, (size_t)count * value_bytes);
        else if (k->bf16)
            k->micro->write_bf16(rows + r * stride, count, to);
        else
            memcpy(to, rows + r * stride, (size_t)count * value_bytes);
    }
}
