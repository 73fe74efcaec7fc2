/* resize_kernels.h: the inner loops of resize.c, in plain C and per instruction set. They sum
 * integers, so all give the same bits. */
#ifndef LS_DATA_TRANSFORM_RESIZE_KERNELS_H
#define LS_DATA_TRANSFORM_RESIZE_KERNELS_H

#include "base/alloc.h"
#include "base/strict_math.h"

enum {
    LS__WEIGHT_BITS = 22, /* 8 bits of a pixel + 22 + 1 of rounding fit an int32_t */
    LS__WEIGHT_HALF = 1 << (LS__WEIGHT_BITS - 1),
    LS__ROWS_AT_ONCE = 4,
    LS__ROW_ROUNDING = 32, /* rows between the passes have room for a multiple of so many bytes, and
                              for at least one more than they hold */

    /* Packed weights: four taps together, each weight as low and high bits that fit a signed
     * 16-bit word with room for sums. A group is 16 words of low bits, then 16 of high ones, in
     * the order of the pixels in resize_avx2.c. */
    LS__TAPS_AT_ONCE = 4,
    LS__LOW_BITS = 11,
    LS__GROUP_WORDS = 32
};

/* Output i is the sum over k < count[i] of input[first[i] + k] * weights[i * stride
 * + k]. */
typedef struct ls__axis_weights {
    int64_t *first, *count;
    int32_t *weights;
    int64_t stride;
    int16_t *packed; /* the same weights, group_stride groups per output; NULL = none */
    int64_t group_stride;
} ls__axis_weights;

typedef struct ls__resize_kernels {
    const char *name;
    bool packed; /* rgb_rows reads packed weights */
    /* Along LS__ROWS_AT_ONCE rows of in_width RGB pixels, to n. May write one byte more. */
    void (*rgb_rows)(const ls__axis_weights *columns, int64_t n, int64_t in_width,
                     const uint8_t *const *in, uint8_t *const *out);
    /* One output row of n bytes from `count` rows between the passes. */
    void (*add_rows)(int64_t n, const uint8_t *const *rows, const int32_t *weights, int64_t count,
                     uint8_t *out);
} ls__resize_kernels;

static inline uint8_t ls__weighed_byte(int32_t sum)
{
    const int32_t value = sum >> LS__WEIGHT_BITS;
    return (uint8_t)(value > 255 ? 255 : value);
}

/* One output pixel of `channels`, which is a constant where this is inlined. */
static inline void ls__weigh_pixel(const ls__axis_weights *columns, int64_t x, int channels,
                                   const uint8_t *in, uint8_t *out)
{
    const uint8_t *pixel = in + columns->first[x] * channels;
    const int32_t *weights = columns->weights + x * columns->stride;
    int32_t sums[3] = { LS__WEIGHT_HALF, LS__WEIGHT_HALF, LS__WEIGHT_HALF };
    for (int64_t k = 0; k < columns->count[x]; k++, pixel += channels)
        for (int c = 0; c < channels; c++) sums[c] += pixel[c] * weights[k];
    for (int c = 0; c < channels; c++) out[c] = ls__weighed_byte(sums[c]);
}

/* The kernels of this machine, fastest first; NULL at the end. The last ones are plain C. */
const ls__resize_kernels *ls__resize_kernels_at(int i);

#if defined(__x86_64__)
extern const ls__resize_kernels ls__resize_avx2;
#endif

#endif
