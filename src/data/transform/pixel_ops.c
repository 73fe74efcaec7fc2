/* pixel_ops.c: the formulas of Pillow's ImageEnhance, ImageOps and libImaging (Blend.c, Convert.c,
 * Filter.c). Floating-point numbers are float where Pillow's are. */
#include "data/transform/pixel_ops.h"

#include "base/minmax.h"
#include <math.h>
#include <string.h>

/* ImagingBlend of two bytes: from + alpha (to - from), clipped, rounded down. */
static inline uint8_t blend(int from, int to, float alpha)
{
    const float value = (float)from + alpha * (float)(to - from);
    const float above = value > 0 ? value : 0;
    return (uint8_t)(int)(above < 255 ? above : 255);
}

/* ---- Functions of one byte ---- */

typedef uint8_t byte_table[256];

static void map_bytes(const byte_table *tables, int64_t n_pixels, int channels, uint8_t *pixels)
{
    if (channels == 1) {
        for (int64_t i = 0; i < n_pixels; i++) pixels[i] = tables[0][pixels[i]];
        return;
    }
    for (int64_t i = 0; i < n_pixels; i++, pixels += 3)
        for (int c = 0; c < 3; c++) pixels[c] = tables[c][pixels[c]];
}

/* Several sums per channel, because consecutive pixels are often equal. */
static void count_bytes(int64_t n_pixels, int channels, const uint8_t *pixels, int channel,
                        int64_t counts[256])
{
    enum { N = 4 };
    uint32_t sums[N][256] = { { 0 } };
    for (int64_t i = 0; i < n_pixels; i++) sums[i % N][pixels[i * channels + channel]]++;
    for (int v = 0; v < 256; v++)
        counts[v] = (int64_t)sums[0][v] + sums[1][v] + sums[2][v] + sums[3][v];
}

/* The mean luma, rounded to nearest. */
static int mean_luma(int64_t n_pixels, int channels, const uint8_t *pixels)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n_pixels; i++)
        sum += channels == 3 ? ls__luma(pixels + 3 * i) : pixels[i];
    return (int)((2 * sum + n_pixels) / (2 * n_pixels));
}

static void autocontrast_table(const int64_t counts[256], byte_table table)
{
    int low = 0, high = 255;
    while (low < 255 && counts[low] == 0) low++;
    while (high > 0 && counts[high] == 0) high--;
    if (high <= low) return;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    for (int v = 0; v < 256; v++) {
        const int value = (int)(v * scale + offset);
        table[v] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

static void equalize_table(const int64_t counts[256], byte_table table)
{
    int64_t total = 0, last = 0;
    for (int v = 0; v < 256; v++) {
        total += counts[v];
        if (counts[v] > 0) last = counts[v];
    }
    const int64_t step = (total - last) / 255;
    if (step == 0) return;
    int64_t n = step / 2;
    for (int v = 0; v < 256; v++) {
        table[v] = (uint8_t)(n / step > 255 ? 255 : n / step);
        n += counts[v];
    }
}

static void apply_table(const ls__pixel_op *op, int64_t n_pixels, int channels, uint8_t *pixels)
{
    byte_table tables[3];
    const int mean = op->kind == LS__PIXEL_CONTRAST ? mean_luma(n_pixels, channels, pixels) : 0;
    for (int c = 0; c < channels; c++) {
        uint8_t *table = tables[c];
        for (int v = 0; v < 256; v++) {
            table[v] = (uint8_t)v;
            if (op->kind == LS__PIXEL_BRIGHTNESS || op->kind == LS__PIXEL_CONTRAST)
                table[v] = blend(mean, v, op->factor);
            if (op->kind == LS__PIXEL_POSTERIZE)
                table[v] = (uint8_t)(v >> (8 - op->amount) << (8 - op->amount));
            if (op->kind == LS__PIXEL_SOLARIZE && v >= op->amount) table[v] = (uint8_t)(255 - v);
        }
        if (op->kind != LS__PIXEL_AUTOCONTRAST && op->kind != LS__PIXEL_EQUALIZE) continue;
        int64_t counts[256];
        count_bytes(n_pixels, channels, pixels, c, counts);
        if (op->kind == LS__PIXEL_AUTOCONTRAST)
            autocontrast_table(counts, table);
        else
            equalize_table(counts, table);
    }
    map_bytes(tables, n_pixels, channels, pixels);
}

/* ---- Colour ---- */

static void apply_saturation(float factor, int64_t n_pixels, uint8_t *pixels)
{
    enum { MAX_PIXELS = 256 }; /* pixels at a time, so that the second loop is vectorized */
    uint8_t grey[3 * MAX_PIXELS];
    for (int64_t n; n_pixels > 0; n_pixels -= n, pixels += 3 * n) {
        n = n_pixels < MAX_PIXELS ? n_pixels : MAX_PIXELS;
        for (int64_t i = 0; i < n; i++) memset(grey + 3 * i, ls__luma(pixels + 3 * i), 3);
        for (int64_t i = 0; i < 3 * n; i++) pixels[i] = blend(grey[i], pixels[i], factor);
    }
}

/* convert("HSV"): hsv[0] is the hue. */
static void to_hsv(const uint8_t rgb[3], uint8_t hsv[3])
{
    const int r = rgb[0], g = rgb[1], b = rgb[2];
    const int max = ls__max_int(r, ls__max_int(g, b)), min = ls__min_int(r, ls__min_int(g, b));
    hsv[0] = hsv[1] = 0;
    hsv[2] = (uint8_t)max;
    if (max == min) return;
    const float range = (float)(max - min);
    const float red = (float)(max - r) / range;
    const float green = (float)(max - g) / range;
    const float blue = (float)(max - b) / range;
    float hue; /* in sixths of the circle */
    if (r == max)
        hue = blue - green;
    else if (g == max)
        hue = (float)(2.0 + (double)red - (double)blue);
    else
        hue = (float)(4.0 + (double)green - (double)red);
    hue = (float)fmod((double)hue / 6.0 + 1.0, 1.0);
    hsv[0] = (uint8_t)((double)hue * 255.0);
    hsv[1] = (uint8_t)((double)(range / (float)max) * 255.0);
}

/* convert("RGB") */
static void from_hsv(const uint8_t hsv[3], uint8_t rgb[3])
{
    const uint8_t v = hsv[2];
    if (hsv[1] == 0) {
        rgb[0] = rgb[1] = rgb[2] = v;
        return;
    }
    const double sixths = (double)hsv[0] * 6.0 / 255.0;
    const int sector = (int)sixths;
    const float f = (float)(sixths - (double)(float)sector);
    const float s = (float)((double)(float)hsv[1] / 255.0);
    const uint8_t p = (uint8_t)round((double)v * (1.0 - (double)s));
    const uint8_t q = (uint8_t)round((double)v * (1.0 - (double)(s * f)));
    const uint8_t t = (uint8_t)round((double)v * (1.0 - (double)s * (1.0 - (double)f)));
    const uint8_t all[6][3] = { { v, t, p }, { q, v, p }, { p, v, t },
                                { p, q, v }, { t, p, v }, { v, p, q } };
    memcpy(rgb, all[sector % 6], 3);
}

static void apply_hue(int amount, int64_t n_pixels, uint8_t *pixels)
{
    for (int64_t i = 0; i < n_pixels; i++, pixels += 3) {
        uint8_t hsv[3];
        to_hsv(pixels, hsv);
        hsv[0] = (uint8_t)(hsv[0] + amount);
        from_hsv(hsv, pixels);
    }
}

/* ---- Sharpness ---- */

/* ImageFilter.SMOOTH: (sum of the 3 x 3 neighbours + 4 times the pixel) / 13, rounded to nearest:
 * floor((2 sum + 13) / 26), by a multiplication that is exact up to 2^13 (40330 = 2^20 / 26 rounded
 * up). Pixels at the edges stay as they are. */
static void apply_sharpness(float factor, int64_t height, int64_t width, int channels,
                            const uint8_t *restrict from, uint8_t *restrict to)
{
    const int64_t row_bytes = width * channels;
    if (height < 3 || width < 3) return;
    for (int64_t y = 1; y < height - 1; y++) {
        const uint8_t *row = from + y * row_bytes;
        const uint8_t *above = row - row_bytes, *below = row + row_bytes;
        uint8_t *out = to + y * row_bytes;
        for (int64_t i = channels; i < row_bytes - channels; i++) {
            const int64_t l = i - channels, r = i + channels;
            const int sum = above[l] + above[i] + above[r] + row[l] + 5 * row[i] + row[r] +
                            below[l] + below[i] + below[r];
            const int smooth = (int)(((unsigned)(2 * sum + 13) * 40330u) >> 20);
            out[i] = blend(smooth, row[i], factor);
        }
    }
}

bool ls__apply_pixel_op(const ls__pixel_op *op, const ls_context *ctx, ls__buffer *copy,
                        int64_t height, int64_t width, int channels, uint8_t *pixels)
{
    const int64_t n_pixels = height * width;
    const size_t n_bytes = (size_t)(n_pixels * channels);
    switch (op->kind) {
    case LS__PIXEL_SATURATION:
        if (channels == 3) apply_saturation(op->factor, n_pixels, pixels);
        return true;
    case LS__PIXEL_HUE:
        if (channels == 3) apply_hue(op->amount, n_pixels, pixels);
        return true;
    case LS__PIXEL_SHARPNESS:
    case LS__PIXEL_AFFINE:
        if (!ls__buffer_reserve(ctx, copy, n_bytes)) return false;
        memcpy(copy->bytes, pixels, n_bytes);
        if (op->kind == LS__PIXEL_SHARPNESS)
            apply_sharpness(op->factor, height, width, channels, copy->bytes, pixels);
        else
            ls__apply_affine(&op->affine, height, width, channels, copy->bytes, pixels);
        return true;
    default: apply_table(op, n_pixels, channels, pixels); return true;
    }
}
