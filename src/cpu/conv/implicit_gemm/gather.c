/* gather.c: pixels to the rows of a product, and rows back to pixels. */
#include "arith/element.h"
#include "cpu/conv/implicit_gemm/implicit_gemm.h"

#include <string.h>

typedef struct pixel {
    int64_t image, p, q;
} pixel;

static pixel pixel_at(const ls__implicit_gemm_phase *phase, int64_t row)
{
    const int64_t height = phase->axes[0].grid, width = phase->axes[1].grid;
    const int64_t in_image = row % (height * width);
    return (pixel){ row / (height * width), in_image / width, in_image % width };
}

static void pixel_advance(const ls__implicit_gemm_phase *phase, pixel *at)
{
    if (++at->q < phase->axes[1].grid) return;
    at->q = 0;
    if (++at->p < phase->axes[0].grid) return;
    at->p = 0;
    at->image++;
}

ls__prefetch ls__implicit_gemm_prefetch_rows(const ls__implicit_gemm_kernel *k, const void *operand,
                                             int64_t offset, int64_t stride, int64_t n,
                                             int64_t floats, int64_t tiles)
{
    enum { LINE = 64 / sizeof(float) };
    if (k->bf16 || n <= 0 || floats <= 0) return (ls__prefetch){ .n_rows = 0 };
    return (ls__prefetch){ .row = (const float *)operand + offset,
                           .n_rows = n,
                           .floats = floats,
                           .stride = stride,
                           .lines_per_tile =
                               ls__divide_up(n * ls__divide_up(floats, LINE), tiles) };
}

ls__prefetch ls__implicit_gemm_prefetch(const ls__conv_call *call,
                                        const ls__implicit_gemm_phase *phase, int64_t first,
                                        int64_t n, int64_t k0, int64_t k1, int64_t tiles)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t apart = k->shape.source.pixel;
    return ls__implicit_gemm_prefetch_rows(k, call->x, first * apart + k0, apart,
                                           phase->plain ? n : 0, k1 - k0, tiles);
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

/* Copies places begin..end-1 of (tap, channel) of a line of n taps that are neighbours in an image;
 * the first is pixel w of the image's line, which begins at `line`. inside: whether the line is in
 * the image. */
static void gather_line(const ls__conv_call *call, bool inside, int64_t line, int64_t w, int64_t n,
                        int64_t begin, int64_t end, float *to)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t channels = k->shape.source.channels, width = k->shape.source.size[1];
    const int64_t left = inside ? ls__max_i64(-w, 0) : n, right = ls__min_i64(width - w, n);
    const int64_t first = ls__min_i64(ls__max_i64(left * channels, begin), end);
    const int64_t last = ls__min_i64(ls__max_i64(right * channels, first), end);
    if (first > begin) memset(to, 0, (size_t)(first - begin) * sizeof *to);
    if (last > first)
        ls__implicit_gemm_read(k, call->x, (line + w) * k->shape.source.pixel + first, last - first,
                               to + (first - begin));
    if (end > last) memset(to + (last - begin), 0, (size_t)(end - last) * sizeof *to);
}

void ls__implicit_gemm_gather(const ls__conv_call *call, const ls__implicit_gemm_phase *phase,
                              int64_t first, int64_t n, int64_t k0, int64_t k1, float *rows,
                              int64_t stride)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const ls__implicit_gemm_axis *v = &phase->axes[0], *h = &phase->axes[1];
    const ls__implicit_gemm_image *source = &k->shape.source;
    const bool neighbours = h->tap_step == 1 && source->pixel == source->channels;
    const int64_t n_taps = neighbours ? h->n_taps : 1, n_lines = neighbours ? 1 : h->n_taps;
    const int64_t floats = n_taps * source->channels; /* of a line of taps */
    pixel at = pixel_at(phase, first);
    for (int64_t r = 0; r < n; r++, rows += stride, pixel_advance(phase, &at)) {
        float *to = rows;
        int64_t i = k0 / floats / n_lines, j = k0 / floats % n_lines;
        for (int64_t place = k0 / floats * floats; place < k1; place += floats) {
            const int64_t y = at.p * v->source_step + v->tap + i * v->tap_step;
            const int64_t x = at.q * h->source_step + h->tap + j * h->tap_step;
            const int64_t begin = ls__max_i64(k0 - place, 0), end = ls__min_i64(k1 - place, floats);
            gather_line(call, y >= 0 && y < source->size[0],
                        (at.image * source->size[0] + y) * source->size[1], x, n_taps, begin, end,
                        to);
            to += end - begin;
            if (++j < n_lines) continue;
            j = 0;
            i++;
        }
    }
}

ls__conv_call ls__implicit_gemm_group(const ls__conv_call *call, int64_t group,
                                      int64_t workspace_floats)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const ls__implicit_gemm_shape *s = &k->shape;
    const int64_t value = k->bf16 ? sizeof(uint16_t) : sizeof(float);
    const int64_t weights =
        group * s->source.channels * s->result.channels * s->kernel[0] * s->kernel[1];
    const int64_t result = group * s->result.channels;
    const bool is_weights = k->base.kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    ls__conv_call of_group = *call;
    of_group.x = (const char *)call->x + group * s->source.channels * value;
    of_group.w = (const char *)call->w + (is_weights ? result : weights) * value;
    of_group.y = (char *)call->y + (is_weights ? weights * (int64_t)sizeof(float) : result * value);
    if (call->bias && !is_weights) of_group.bias = (char *)call->bias + result * value;
    of_group.workspace = call->workspace + group * workspace_floats;
    return of_group;
}

void ls__implicit_gemm_scatter(const ls__conv_call *call, const ls__implicit_gemm_phase *phase,
                               float *rows, int64_t stride, int64_t first, int64_t n, int64_t c0,
                               int64_t c1)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const ls__implicit_gemm_axis *v = &phase->axes[0], *h = &phase->axes[1];
    const int64_t *size = k->shape.result.size, count = c1 - c0;
    const size_t value_bytes = k->bf16 ? sizeof(uint16_t) : sizeof(float);
    if (rows) finish_rows(call, rows, stride, n, c0, c1);
    pixel at = pixel_at(phase, first);
    for (int64_t r = 0; r < n; r++, pixel_advance(phase, &at)) {
        const int64_t y = v->first + at.p * v->step, x = h->first + at.q * h->step;
        const int64_t place = (at.image * size[0] + y) * size[1] + x;
        void *to = (char *)call->y + (size_t)(place * k->shape.result.pixel + c0) * value_bytes;
        if (!rows)
            memset(to, 0, (size_t)count * value_bytes);
        else if (k->bf16)
            k->micro->write_bf16(rows + r * stride, count, to);
        else
            memcpy(to, rows + r * stride, (size_t)count * value_bytes);
    }
}
