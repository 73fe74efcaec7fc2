/* resize.c: each output pixel is a mean of input pixels, weighted by a triangle that reaches one
 * output pixel (at least one input pixel) to each side: first along rows, then along columns, with
 * bytes between. Weights have 22 fractional bits, so the sums are exact in any order. The bits are
 * those of Image.resize, BILINEAR, of Pillow 9.4 to 12.2. */
#include "data/transform/resize.h"

#include "base/isa.h"
#include "data/transform/resize_kernels.h"

#include <math.h>
#include <stdio.h>

/* Half the width, in input pixels, of the triangle. */
static double axis_support(const ls__resize_axis *axis)
{
    const double scale = axis->length / (double)axis->out;
    return scale < 1 ? 1 : scale;
}

/* The largest number of inputs of one output. */
static int64_t axis_stride(const ls__resize_axis *axis)
{
    return 2 * (int64_t)ceil(axis_support(axis)) + 1;
}

/* Uses only +, -, *, / of doubles, which have the same bits everywhere. */
static double output_centre(const ls__resize_axis *axis, int64_t i)
{
    const double scale = axis->length / (double)axis->out;
    return axis->begin + ((double)(axis->from + i) + 0.5) * scale;
}

static void output_inputs(const ls__resize_axis *axis, int64_t i, int64_t *begin, int64_t *end)
{
    const double centre = output_centre(axis, i), support = axis_support(axis);
    *begin = (int64_t)(centre - support + 0.5);
    *end = (int64_t)(centre + support + 0.5);
    if (*begin < 0) *begin = 0;
    if (*end > axis->limit) *end = axis->limit;
}

ls__resize_axis ls__axis_of(int64_t size, int reduction, int64_t at, int64_t out, int64_t from,
                            int64_t n)
{
    return (ls__resize_axis){ .length = (double)size / reduction,
                              .limit = (size + reduction - 1) / reduction,
                              .at = at,
                              .out = out,
                              .from = from,
                              .n = n };
}

void ls__axis_inputs(const ls__resize_axis *axis, int64_t *first, int64_t *n)
{
    int64_t end, unused;
    output_inputs(axis, 0, first, &unused);
    output_inputs(axis, axis->n - 1, &unused, &end);
    *n = end - *first;
}

/* Weights in groups of taps; the last group is filled up with zeros. */
static void pack_weights(const int32_t *weights, int64_t count, int16_t *packed)
{
    for (int64_t k = 0; k < count; k += LS__TAPS_AT_ONCE, packed += LS__GROUP_WORDS) {
        int16_t low[LS__TAPS_AT_ONCE] = { 0 }, high[LS__TAPS_AT_ONCE] = { 0 };
        for (int64_t t = 0; t < LS__TAPS_AT_ONCE && k + t < count; t++) {
            low[t] = (int16_t)(weights[k + t] & ((1 << LS__LOW_BITS) - 1));
            high[t] = (int16_t)(weights[k + t] >> LS__LOW_BITS);
        }
        for (int i = 0; i < LS__GROUP_WORDS / 2; i++) {
            const int tap = i / 8 * 2 + i % 2;
            packed[i] = low[tap];
            packed[i + LS__GROUP_WORDS / 2] = high[tap];
        }
    }
}

/* raw is room for axis.stride doubles. */
static void axis_fill(ls__axis_weights *self, const ls__resize_axis *axis, double *raw)
{
    const double shrink = 1 / axis_support(axis);
    for (int64_t i = 0; i < axis->n; i++) {
        const double centre = output_centre(axis, i);
        int64_t begin, end;
        output_inputs(axis, i, &begin, &end);
        double sum = 0;
        for (int64_t k = 0; k < end - begin; k++) {
            const double x = fabs(((double)(begin + k) - centre + 0.5) * shrink);
            raw[k] = x < 1 ? 1 - x : 0;
            sum += raw[k];
        }
        const int64_t to = axis->mirror ? axis->n - 1 - i : i;
        int32_t *weights = self->weights + to * self->stride;
        for (int64_t k = 0; k < end - begin; k++)
            weights[k] = (int32_t)(0.5 + raw[k] / sum * (1 << LS__WEIGHT_BITS));
        self->first[to] = begin - axis->at;
        self->count[to] = end - begin;
        if (self->packed)
            pack_weights(weights, end - begin,
                         self->packed + to * self->group_stride * LS__GROUP_WORDS);
    }
}

/* ---- In plain C. ---- */

static inline void plain_rows(const ls__axis_weights *columns, int64_t n, int channels,
                              const uint8_t *const *in, uint8_t *const *out)
{
    for (int r = 0; r < LS__ROWS_AT_ONCE; r++)
        for (int64_t x = 0; x < n; x++)
            ls__weigh_pixel(columns, x, channels, in[r], out[r] + channels * x);
}

static void plain_rgb_rows(const ls__axis_weights *columns, int64_t n, int64_t in_width,
                           const uint8_t *const *in, uint8_t *const *out)
{
    (void)in_width;
    plain_rows(columns, n, 3, in, out);
}

static void add_row(int64_t n, const uint8_t *restrict in, int32_t weight, int32_t *restrict sums)
{
    for (int64_t i = 0; i < n; i++) sums[i] += in[i] * weight;
}

static void plain_add_rows(int64_t n, const uint8_t *const *rows, const int32_t *weights,
                           int64_t count, uint8_t *out)
{
    enum { BLOCK = 256 }; /* sums that stay in the first cache */
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t n_here = n - at < BLOCK ? n - at : BLOCK;
        int32_t sums[BLOCK];
        for (int64_t i = 0; i < BLOCK; i++) sums[i] = LS__WEIGHT_HALF;
        for (int64_t k = 0; k < count; k++) add_row(n_here, rows[k] + at, weights[k], sums);
        for (int64_t i = 0; i < n_here; i++) out[at + i] = ls__weighed_byte(sums[i]);
    }
}

static const ls__resize_kernels plain = { "plain C", false, plain_rgb_rows, plain_add_rows };

const ls__resize_kernels *ls__resize_kernels_at(int i)
{
#if defined(__x86_64__)
    const bool has_avx2 = ls__isa_detect() >= LS__ISA_AVX2;
    if (has_avx2 && i == 0) return &ls__resize_avx2;
    i -= has_avx2;
#endif
    return i == 0 ? &plain : NULL;
}

/* ---- A whole image. ---- */

/* The arrays in the one block of memory. */
typedef struct plan {
    const ls__resize_kernels *kernels;
    ls__axis_weights rows, columns;
    double *raw;
    const uint8_t **inputs; /* of an output row: longest */
    uint8_t *between;       /* the last n_between rows after the first pass, as a ring */
    int64_t n_between, between_bytes;
} plan;

/* A bump allocator; it only counts while memory is NULL. */
typedef struct block {
    uint8_t *memory;
    size_t used;
} block;

static void *take(block *from, int64_t n, size_t item_bytes)
{
    const size_t at = from->used;
    from->used += ls__round_up((size_t)n * item_bytes, 32);
    return from->memory ? from->memory + at : NULL;
}

static void axis_place(ls__axis_weights *self, const ls__resize_axis *axis, bool packed,
                       block *from)
{
    const int64_t n = axis->n;
    self->stride = axis_stride(axis);
    self->group_stride = (self->stride + LS__TAPS_AT_ONCE - 1) / LS__TAPS_AT_ONCE;
    self->first = take(from, n, sizeof(int64_t));
    self->count = take(from, n, sizeof(int64_t));
    self->weights = take(from, n * self->stride, sizeof(int32_t));
    self->packed =
        packed ? take(from, n * self->group_stride, LS__GROUP_WORDS * sizeof(int16_t)) : NULL;
}

/* No product here comes near 2^63: images have at most 2^28 pixels. */
static void plan_place(plan *self, const ls__resize_axis *rows, const ls__resize_axis *columns,
                       int channels, bool packed, block *from)
{
    axis_place(&self->rows, rows, false, from);
    axis_place(&self->columns, columns, packed, from);
    const int64_t longest =
        self->rows.stride > self->columns.stride ? self->rows.stride : self->columns.stride;
    self->raw = take(from, longest, sizeof(double));
    self->inputs = take(from, self->rows.stride, sizeof(uint8_t *));
    self->n_between = self->rows.stride + LS__ROWS_AT_ONCE;
    self->between_bytes =
        (int64_t)ls__round_up((size_t)(columns->n * channels + 1), LS__ROW_ROUNDING);
    self->between = take(from, self->n_between, (size_t)self->between_bytes);
}

ls_status ls__check_resize(int64_t from_height, int64_t from_width, int64_t height, int64_t width,
                           char reason[LS__REASON_SIZE])
{
    block counted = { 0 };
    if (width <= LS__MAX_PIXELS / height) {
        const ls__resize_axis rows = ls__axis_of(from_height, 1, 0, height, 0, height);
        const ls__resize_axis columns = ls__axis_of(from_width, 1, 0, width, 0, width);
        plan unused;
        plan_place(&unused, &rows, &columns, 3, true, &counted);
        if (counted.used <= LS__MAX_RESIZE_BYTES) return LS_OK;
    }
    char limit[96];
    if (counted.used > 0)
        snprintf(limit, sizeof(limit), " take %zu bytes of weights and rows, the limit is %d",
                 counted.used, LS__MAX_RESIZE_BYTES);
    else
        snprintf(limit, sizeof(limit), ", the limit is %d pixels in all", LS__MAX_PIXELS);
    snprintf(reason, LS__REASON_SIZE, "%lld x %lld pixels resized to %lld x %lld%s",
             (long long)from_width, (long long)from_height, (long long)width, (long long)height,
             limit);
    return LS_ERR_DATA;
}

static bool plan_open(ls__resizer *resizer, int channels, const ls__resize_axis *rows,
                      const ls__resize_axis *columns, plan *out)
{
    *out = (plan){ .kernels = resizer->kernels ? resizer->kernels : ls__resize_kernels_at(0) };
    const bool packed = out->kernels->packed && channels == 3;
    block from = { 0 };
    plan_place(out, rows, columns, channels, packed, &from);
    if (!ls__buffer_reserve(resizer->ctx, &resizer->memory, from.used)) return false;
    from = (block){ .memory = resizer->memory.bytes };
    plan_place(out, rows, columns, channels, packed, &from);
    axis_fill(&out->rows, rows, out->raw);
    axis_fill(&out->columns, columns, out->raw);
    return true;
}

static uint8_t *between_row(const plan *self, int64_t y)
{
    return self->between + y % self->n_between * self->between_bytes;
}

/* The first pass over LS__ROWS_AT_ONCE rows from y on; the last row stands for those beyond it. */
static void first_pass(const plan *self, const ls__image_view *from, int64_t n, int64_t y,
                       int64_t end)
{
    const uint8_t *in[LS__ROWS_AT_ONCE];
    uint8_t *out[LS__ROWS_AT_ONCE];
    for (int r = 0; r < LS__ROWS_AT_ONCE; r++) {
        const int64_t row = y + r < end ? y + r : end - 1;
        in[r] = from->pixels + row * from->row_bytes;
        out[r] = between_row(self, row);
    }
    if (from->channels == 3)
        self->kernels->rgb_rows(&self->columns, n, from->width, in, out);
    else
        plain_rows(&self->columns, n, 1, in, out);
}

bool ls__resize_region(ls__resizer *resizer, const ls__image_view *from,
                       const ls__resize_axis *rows, const ls__resize_axis *columns, uint8_t *dst)
{
    plan p;
    if (!plan_open(resizer, from->channels, rows, columns, &p)) return false;
    const int64_t row_bytes = columns->n * from->channels, last = rows->n - 1;
    const int64_t end = p.rows.first[last] + p.rows.count[last];
    int64_t done = p.rows.first[0]; /* the first pass is done up to this row */
    for (int64_t y = 0; y < rows->n; y++) {
        const int64_t first = p.rows.first[y], count = p.rows.count[y];
        for (; done < first + count; done += LS__ROWS_AT_ONCE)
            first_pass(&p, from, columns->n, done, end);
        for (int64_t k = 0; k < count; k++) p.inputs[k] = between_row(&p, first + k);
        p.kernels->add_rows(row_bytes, p.inputs, p.rows.weights + y * p.rows.stride, count,
                            dst + y * row_bytes);
    }
    return true;
}

bool ls__resize_image(ls__resizer *resizer, const ls__source *from, int64_t height, int64_t width,
                      ls__image *to)
{
    const ls__resize_axis rows =
        ls__axis_of(from->height, from->reduction, from->top, height, 0, height);
    const ls__resize_axis columns =
        ls__axis_of(from->width, from->reduction, from->left, width, 0, width);
    return ls__image_reserve(resizer->ctx, to, height, width, from->view.channels) &&
           ls__resize_region(resizer, &from->view, &rows, &columns, to->pixels);
}
