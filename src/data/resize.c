/* resize.c: each output pixel is a weighted mean of the input pixels under a triangle as wide as
 * the reduction (but at least one input pixel to each side), first along rows, then along columns,
 * with the rows between rounded to bytes. Weights are integers of 22 fractional bits, so the sums
 * are exact whatever their order, and the result equals Pillow's (Image.resize, BILINEAR) in every
 * bit. */
#include "data/resize.h"

#include "data/image.h"

#include <math.h>

enum {
    WEIGHT_BITS = 22, /* 8 bits of a pixel + 22 + 1 of rounding fit an int32_t */
    HALF = 1 << (WEIGHT_BITS - 1),
    BLOCK = 256 /* bytes of a row that are summed together: their sums stay in the first cache */
};

/* One direction: output i is the sum over k < count[i] of input[first[i] + k] * weights[i * stride
 * + k]. */
typedef struct axis {
    int64_t *first, *count;
    int32_t *weights;
    int64_t stride;
} axis;

/* How many input pixels an output one is wide; half of what it is made of. */
static double stretch_support(const ls__stretch *stretch)
{
    const double scale = stretch->length / (double)stretch->out;
    return scale < 1 ? 1 : scale;
}

/* The most inputs that one output may take in. */
static int64_t axis_stride(const ls__stretch *stretch)
{
    return 2 * (int64_t)ceil(stretch_support(stretch)) + 1;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Only +, -, *, / of doubles here and below: the same everywhere. */
static double output_centre(const ls__stretch *stretch, int64_t i)
{
    const double scale = stretch->length / (double)stretch->out;
    return stretch->begin + ((double)(stretch->from + i) + 0.5) * scale;
}

static void output_inputs(const ls__stretch *stretch, int64_t i, int64_t *begin, int64_t *end)
{
    const double centre = output_centre(stretch, i), support = stretch_support(stretch);
    *begin = (int64_t)(centre - support + 0.5);
    *end = (int64_t)(centre + support + 0.5);
    if (*begin < 0) *begin = 0;
    if (*end > stretch->limit) *end = stretch->limit;
}

void ls__stretch_needs(const ls__stretch *stretch, int64_t *first, int64_t *n)
{
    int64_t end, unused;
    output_inputs(stretch, 0, first, &unused);
    output_inputs(stretch, stretch->n - 1, &unused, &end);
    *n = end - *first;
}

/* raw is room for axis.stride doubles. */
static void axis_fill(axis *self, const ls__stretch *stretch, double *raw)
{
    const double shrink = 1 / stretch_support(stretch);
    for (int64_t i = 0; i < stretch->n; i++) {
        const double centre = output_centre(stretch, i);
        int64_t begin, end;
        output_inputs(stretch, i, &begin, &end);
        double sum = 0;
        for (int64_t k = 0; k < end - begin; k++) {
            raw[k] = triangle(((double)(begin + k) - centre + 0.5) * shrink);
            sum += raw[k];
        }
        int32_t *weights = self->weights + i * self->stride;
        for (int64_t k = 0; k < end - begin; k++)
            weights[k] = (int32_t)(0.5 + raw[k] / sum * (1 << WEIGHT_BITS));
        self->first[i] = begin - stretch->at;
        self->count[i] = end - begin;
    }
}

static inline uint8_t to_byte(int32_t sum)
{
    const int32_t value = sum >> WEIGHT_BITS;
    return (uint8_t)(value > 255 ? 255 : value);
}

/* `channels` is a constant where this is inlined. */
static inline void along_row(const axis *columns, int64_t n, int channels, const uint8_t *in,
                             uint8_t *out)
{
    for (int64_t x = 0; x < n; x++, out += channels) {
        const uint8_t *pixel = in + columns->first[x] * channels;
        const int32_t *weights = columns->weights + x * columns->stride;
        int32_t sums[3] = { HALF, HALF, HALF };
        for (int64_t k = 0; k < columns->count[x]; k++, pixel += channels)
            for (int c = 0; c < channels; c++) sums[c] += pixel[c] * weights[k];
        for (int c = 0; c < channels; c++) out[c] = to_byte(sums[c]);
    }
}

static void add_row(int64_t n, const uint8_t *restrict in, int32_t weight, int32_t *restrict sums)
{
    for (int64_t i = 0; i < n; i++) sums[i] += in[i] * weight;
}

/* One output row from `count` input rows. */
static void along_columns(int64_t row_bytes, const uint8_t *in, int64_t count,
                          const int32_t *weights, uint8_t *out)
{
    for (int64_t at = 0; at < row_bytes; at += BLOCK) {
        const int64_t n = row_bytes - at < BLOCK ? row_bytes - at : BLOCK;
        int32_t sums[BLOCK];
        for (int64_t i = 0; i < BLOCK; i++) sums[i] = HALF;
        for (int64_t k = 0; k < count; k++) add_row(n, in + k * row_bytes + at, weights[k], sums);
        for (int64_t i = 0; i < n; i++) out[at + i] = to_byte(sums[i]);
    }
}

void ls__resizer_free(ls__resizer *resizer)
{
    ls__free(resizer->ctx, resizer->memory);
    *resizer = (ls__resizer){ .ctx = resizer->ctx };
}

/* Parts of the one block of memory, in the order of their alignment. */
typedef struct plan {
    axis rows, columns;
    double *raw;
    uint8_t *between; /* rows after the first pass */
} plan;

static size_t axis_bytes(int64_t n, int64_t stride)
{
    return (size_t)n * (2 * sizeof(int64_t) + ls__round_up((size_t)stride * sizeof(int32_t), 8));
}

static uint8_t *axis_place(axis *self, int64_t n, int64_t stride, uint8_t *at)
{
    self->first = (int64_t *)at;
    self->count = self->first + n;
    self->weights = (int32_t *)(self->count + n);
    self->stride = stride;
    return at + axis_bytes(n, stride);
}

static bool plan_open(ls__resizer *resizer, const ls__view *from, const ls__stretch *rows,
                      const ls__stretch *columns, plan *out)
{
    const int64_t row_stride = axis_stride(rows), column_stride = axis_stride(columns);
    const int64_t longest = row_stride > column_stride ? row_stride : column_stride;
    /* No product here comes near 2^63: pictures have at most 2^28 pixels. */
    const size_t bytes = axis_bytes(rows->n, row_stride) + axis_bytes(columns->n, column_stride) +
                         (size_t)longest * sizeof(double) +
                         (size_t)(from->height * columns->n * from->channels);
    if (!ls__buffer_reserve(resizer->ctx, &resizer->memory, &resizer->capacity, bytes))
        return false;
    uint8_t *at = resizer->memory;
    out->raw = (double *)at;
    at = axis_place(&out->rows, rows->n, row_stride, at + longest * (int64_t)sizeof(double));
    out->between = axis_place(&out->columns, columns->n, column_stride, at);
    axis_fill(&out->rows, rows, out->raw);
    axis_fill(&out->columns, columns, out->raw);
    return true;
}

bool ls__resize_part(ls__resizer *resizer, const ls__view *from, const ls__stretch *rows,
                     const ls__stretch *columns, uint8_t *dst)
{
    plan p;
    if (!plan_open(resizer, from, rows, columns, &p)) return false;
    const int64_t row_bytes = columns->n * from->channels, last = rows->n - 1;
    const int64_t begin = p.rows.first[0], end = p.rows.first[last] + p.rows.count[last];
    for (int64_t y = begin; y < end; y++) {
        const uint8_t *in = from->pixels + y * from->row_bytes;
        uint8_t *out = p.between + (y - begin) * row_bytes;
        if (from->channels == 3)
            along_row(&p.columns, columns->n, 3, in, out);
        else
            along_row(&p.columns, columns->n, 1, in, out);
    }
    for (int64_t y = 0; y < rows->n; y++)
        along_columns(row_bytes, p.between + (p.rows.first[y] - begin) * row_bytes, p.rows.count[y],
                      p.rows.weights + y * p.rows.stride, dst + y * row_bytes);
    return true;
}

bool ls__resize(ls__resizer *resizer, const ls__view *from, int64_t height, int64_t width,
                const ls__window *window, uint8_t *dst)
{
    const ls__stretch rows = { .length = (double)from->height,
                               .limit = from->height,
                               .out = height,
                               .from = window->top,
                               .n = window->height };
    const ls__stretch columns = { .length = (double)from->width,
                                  .limit = from->width,
                                  .out = width,
                                  .from = window->left,
                                  .n = window->width };
    return ls__resize_part(resizer, from, &rows, &columns, dst);
}
