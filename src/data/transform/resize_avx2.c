/* resize_avx2.c: resize.c's kernels for AVX2. This file alone is compiled for it. */
#include "data/transform/resize_kernels.h"

#include <immintrin.h>
#include <string.h>

/* Four neighbouring pixels in both halves, to 16-bit words: pixels 0 and 1 side by side, channel by
 * channel, in the lower half; 2 and 3 in the upper one. */
static inline __m256i spread_pixels(const uint8_t *pixels)
{
    const __m256i order =
        _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7,
                         -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)pixels));
    return _mm256_shuffle_epi8(both, order);
}

/* Sums of two rows: of low and of high bits, taps 0, 1 in the lower half and 2, 3 in the upper one.
 * Result: bytes' values, row a in the lower half, row b in the upper one. */
static inline __m256i finish_pair(__m256i low_a, __m256i high_a, __m256i low_b, __m256i high_b)
{
    const __m256i a = _mm256_add_epi32(low_a, _mm256_slli_epi32(high_a, LS__LOW_BITS));
    const __m256i b = _mm256_add_epi32(low_b, _mm256_slli_epi32(high_b, LS__LOW_BITS));
    const __m256i sum = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                         _mm256_permute2x128_si256(a, b, 0x31));
    const __m256i rounded = _mm256_add_epi32(sum, _mm256_set1_epi32(LS__WEIGHT_HALF));
    return _mm256_srai_epi32(rounded, LS__WEIGHT_BITS);
}

static inline void store_pixel(uint8_t *out, int32_t pixel)
{
    memcpy(out, &pixel, sizeof pixel); /* and a byte that the next one overwrites */
}

/* Sums over one group of taps, added to those before. */
static inline void add_group(const int16_t *packed, const uint8_t *pixels, __m256i *low,
                             __m256i *high)
{
    const __m256i spread = spread_pixels(pixels);
    const __m256i low_weights = _mm256_loadu_si256((const __m256i *)packed);
    const __m256i high_weights = _mm256_loadu_si256((const __m256i *)(packed + 16));
    *low = _mm256_add_epi32(*low, _mm256_madd_epi16(spread, low_weights));
    *high = _mm256_add_epi32(*high, _mm256_madd_epi16(spread, high_weights));
}

/* Pointers by value, because stores of bytes may alias anything in memory. */
typedef struct four_rows {
    const uint8_t *in0, *in1, *in2, *in3;
    uint8_t *out0, *out1, *out2, *out3;
} four_rows;

static inline void four_pixels(const int16_t *packed, int64_t n_groups, int64_t at, four_rows rows,
                               int64_t to)
{
    __m256i low0 = _mm256_setzero_si256(), high0 = low0, low1 = low0, high1 = low0;
    __m256i low2 = low0, high2 = low0, low3 = low0, high3 = low0;
    do {
        add_group(packed, rows.in0 + at, &low0, &high0);
        add_group(packed, rows.in1 + at, &low1, &high1);
        add_group(packed, rows.in2 + at, &low2, &high2);
        add_group(packed, rows.in3 + at, &low3, &high3);
        packed += LS__GROUP_WORDS;
        at += 3 * LS__TAPS_AT_ONCE;
    } while (--n_groups > 0);
    const __m256i rows01 = finish_pair(low0, high0, low1, high1);
    const __m256i rows23 = finish_pair(low2, high2, low3, high3);
    /* Bytes of rows 0, 2 in the lower half, of 1, 3 in the upper one. */
    const __m256i words = _mm256_packs_epi32(rows01, rows23);
    const __m256i bytes = _mm256_packus_epi16(words, words);
    store_pixel(rows.out0 + to, _mm256_extract_epi32(bytes, 0));
    store_pixel(rows.out1 + to, _mm256_extract_epi32(bytes, 4));
    store_pixel(rows.out2 + to, _mm256_extract_epi32(bytes, 1));
    store_pixel(rows.out3 + to, _mm256_extract_epi32(bytes, 5));
}

_Static_assert(LS__ROWS_AT_ONCE == 4, "four_rows has as many");

static void rgb_rows(const ls__axis_weights *columns, int64_t n, int64_t in_width,
                     const uint8_t *const *in, uint8_t *const *out)
{
    const four_rows rows = { in[0], in[1], in[2], in[3], out[0], out[1], out[2], out[3] };
    const ls__axis_weights axis = *columns;
    const int64_t group_stride = axis.group_stride * LS__GROUP_WORDS;
    for (int64_t x = 0; x < n; x++) {
        const int64_t n_groups = (axis.count[x] + LS__TAPS_AT_ONCE - 1) / LS__TAPS_AT_ONCE;
        const int64_t first = axis.first[x];
        /* 16 bytes are loaded for 12. */
        if (3 * (first + LS__TAPS_AT_ONCE * n_groups) + 4 <= 3 * in_width) {
            four_pixels(axis.packed + x * group_stride, n_groups, 3 * first, rows, 3 * x);
        } else {
            for (int r = 0; r < LS__ROWS_AT_ONCE; r++)
                ls__weigh_pixel(columns, x, 3, in[r], out[r] + 3 * x);
        }
    }
}

static inline __m256i load_bytes(const uint8_t *from)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
}

/* LS__ROW_ROUNDING bytes. */
static inline __m256i add_block(const uint8_t *const *rows, const int32_t *weights, int64_t count,
                                int64_t at)
{
    __m256i sums[4];
    for (int i = 0; i < 4; i++) sums[i] = _mm256_set1_epi32(LS__WEIGHT_HALF);
    for (int64_t k = 0; k < count; k++) {
        const __m256i weight = _mm256_set1_epi32(weights[k]);
        for (int i = 0; i < 4; i++)
            sums[i] = _mm256_add_epi32(
                sums[i], _mm256_mullo_epi32(load_bytes(rows[k] + at + 8 * i), weight));
    }
    for (int i = 0; i < 4; i++) sums[i] = _mm256_srai_epi32(sums[i], LS__WEIGHT_BITS);
    const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]),
                                              _mm256_packs_epi32(sums[2], sums[3]));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static void add_rows(int64_t n, const uint8_t *const *rows, const int32_t *weights, int64_t count,
                     uint8_t *out)
{
    int64_t at = 0;
    for (; at + LS__ROW_ROUNDING <= n; at += LS__ROW_ROUNDING)
        _mm256_storeu_si256((__m256i *)(out + at), add_block(rows, weights, count, at));
    if (at == n) return;
    const __m256i last = add_block(rows, weights, count, at);
    memcpy(out + at, &last, (size_t)(n - at));
}

const ls__resize_kernels ls__resize_avx2 = { "AVX2", true, rgb_rows, add_rows };
