/* Decoding: every format and variant against pixels that are known, and what must be refused. */
#include "data/image.h"
#include "../suite.h"
#include "support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static ls_context *open_context(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    expect_ok(ctx);
    return ctx;
}

/* Decodes bytes; the result is decoder->picture. A fresh copy, for PNG changes them. */
static ls_status decode(ls__decoder *decoder, const void *bytes, size_t n, bool honour_exif)
{
    ls__free(decoder->ctx, decoder->file);
    decoder->file = ls__alloc(decoder->ctx, n);
    memcpy(decoder->file, bytes, n);
    decoder->file_bytes = decoder->file_capacity = n;
    return ls__decode_bytes(decoder, honour_exif);
}

static void expect_bad(ls__decoder *decoder, const void *bytes, size_t n, const char *word)
{
    const ls_status status = decode(decoder, bytes, n, false);
    ck_assert_msg(status == LS_ERR_DATA, "status %s, wanted unusable data (%s)",
                  ls_status_text(status), word);
    ck_assert_msg(strstr(decoder->reason, word), "reason '%s', wanted '%s'", decoder->reason, word);
}

static int worst_difference(const ls__picture *picture, int h, int w, const uint8_t *rgb)
{
    ck_assert_int_eq(picture->height, h);
    ck_assert_int_eq(picture->width, w);
    int worst = 0;
    for (int i = 0; i < h * w * 3; i++) {
        const int d = abs(picture->pixels[i] - rgb[i]);
        if (d > worst) worst = d;
    }
    return worst;
}

/* ---- JPEG. ---- */

/* A picture that JPEG keeps well: without noise. */
static uint8_t *draw_smooth(int h, int w)
{
    uint8_t *pixels = malloc((size_t)(h * w * 3));
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            pixels[(y * w + x) * 3] = (uint8_t)(40 + 150 * y / h);
            pixels[(y * w + x) * 3 + 1] = (uint8_t)(60 + 150 * x / w);
            pixels[(y * w + x) * 3 + 2] = 90;
        }
    }
    return pixels;
}

START_TEST(jpeg_variants_give_the_picture)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    enum { H = 45, W = 70 };
    uint8_t *rgb = draw_smooth(H, W), *grey = malloc(H * W), *grey_rgb = malloc(H * W * 3);
    uint8_t *cmyk = malloc(H * W * 4);
    for (int i = 0; i < H * W; i++) {
        grey[i] = rgb[3 * i];
        for (int c = 0; c < 3; c++) {
            grey_rgb[3 * i + c] = rgb[3 * i];
            cmyk[4 * i + c] = (uint8_t)(255 - rgb[3 * i + c]); /* with black 0: the same colour */
        }
        cmyk[4 * i + 3] = 0;
    }
    const struct {
        const uint8_t *pixels, *expected;
        jpeg_options options;
    } cases[] = {
        { rgb, rgb, { .quality = 98 } },
        { rgb, rgb, { .quality = 98, .progressive = true } },
        { rgb, rgb, { .quality = 98, .restart = 1 } },
        { grey, grey_rgb, { .quality = 98, .channels = 1 } },
        { cmyk, rgb, { .quality = 98, .channels = 4 } },
        { cmyk, rgb, { .quality = 98, .channels = 4, .adobe = true } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n;
        unsigned char *bytes = make_jpeg(H, W, cases[i].pixels, cases[i].options, &n);
        ck_assert_msg(decode(&decoder, bytes, n, false) == LS_OK, "case %zu: %s", i,
                      decoder.reason);
        const int worst = worst_difference(&decoder.picture, H, W, cases[i].expected);
        ck_assert_msg(worst <= 5, "case %zu: %d levels off", i, worst);
        free(bytes);
    }
    free(rgb), free(grey), free(grey_rgb), free(cmyk);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(jpeg_black_darkens_cmyk)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    uint8_t cmyk[16 * 16 * 4];
    for (int i = 0; i < 16 * 16; i++) memcpy(cmyk + 4 * i, (uint8_t[]){ 255, 0, 51, 128 }, 4);
    for (int adobe = 0; adobe < 2; adobe++) {
        size_t n;
        unsigned char *bytes = make_jpeg(
            16, 16, cmyk, (jpeg_options){ .quality = 100, .channels = 4, .adobe = adobe }, &n);
        ck_assert_int_eq(decode(&decoder, bytes, n, false), LS_OK);
        /* (255 - C) (255 - K) / 255 */
        ck_assert_int_eq(decoder.picture.pixels[0], 0);
        ck_assert_int_eq(decoder.picture.pixels[1], 127);
        ck_assert_int_eq(decoder.picture.pixels[2], 102);
        free(bytes);
    }
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(jpeg_cut_anywhere_is_refused)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    uint8_t *rgb = draw_picture(20, 30, 3, 1);
    for (int progressive = 0; progressive < 2; progressive++) {
        size_t n;
        unsigned char *bytes =
            make_jpeg(20, 30, rgb, (jpeg_options){ .progressive = progressive }, &n);
        for (size_t k = 3; k < n; k++) {
            ck_assert_msg(decode(&decoder, bytes, k, false) == LS_ERR_DATA,
                          "%zu of %zu bytes are enough", k, n);
            ck_assert_msg(strstr(decoder.reason, "JPEG"), "%zu bytes: %s", k, decoder.reason);
        }
        ck_assert_int_eq(decode(&decoder, bytes, n, false), LS_OK);
        free(bytes);
    }
    free(rgb);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(jpeg_with_damage_anywhere_is_refused_or_whole)
{
    /* JPEG has no checksum, so some damage cannot be seen. But nothing may crash, and the same
     * bytes must always give the same answer, whatever was decoded before. */
    ls_context *ctx = open_context();
    ls__decoder used = { .ctx = ctx };
    uint8_t *rgb = draw_picture(24, 24, 3, 2);
    size_t n, n_refused = 0;
    unsigned char *bytes = make_jpeg(24, 24, rgb, (jpeg_options){ .restart = 1 }, &n);
    for (size_t k = 0; k < n; k++) {
        const unsigned char before = bytes[k];
        bytes[k] ^= 0x55;
        ls__decoder fresh = { .ctx = ctx };
        const ls_status status = decode(&used, bytes, n, true);
        ck_assert_int_eq(decode(&fresh, bytes, n, true), status);
        if (status == LS_OK)
            ck_assert_mem_eq(used.picture.pixels, fresh.picture.pixels,
                             (size_t)(fresh.picture.height * fresh.picture.width * 3));
        else
            ck_assert_str_eq(used.reason, fresh.reason);
        n_refused += status != LS_OK;
        ls__decoder_free(&fresh);
        bytes[k] = before;
    }
    ck_assert_uint_ge(n_refused, n / 8);
    free(bytes), free(rgb);
    ls__decoder_free(&used);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(jpeg_without_tables_does_not_borrow_the_last_files)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    uint8_t *rgb = draw_picture(16, 16, 3, 3);
    size_t n_whole, n_bare;
    unsigned char *whole = make_jpeg(16, 16, rgb, (jpeg_options){ .quality = 50 }, &n_whole);
    unsigned char *bare = make_jpeg(16, 16, rgb, (jpeg_options){ .no_tables = true }, &n_bare);
    ck_assert_int_eq(decode(&decoder, whole, n_whole, false), LS_OK);
    expect_bad(&decoder, bare, n_bare, "uantization table");
    free(whole), free(bare), free(rgb);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(jpeg_of_too_many_scans_is_refused)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    uint8_t *grey = draw_picture(16, 16, 1, 3);
    size_t n;
    unsigned char *bytes =
        make_jpeg(16, 16, grey, (jpeg_options){ .channels = 1, .many_scans = true }, &n);
    expect_bad(&decoder, bytes, n, "progressi");
    free(bytes), free(grey);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* ---- EXIF. ---- */

/* Where the upright pixel (y, x) of a picture of h x w is stored, by orientation: the EXIF
 * specification's table of which side of the stored picture is the visual top and left. */
static void stored_place(int orientation, int h, int w, int y, int x, int *sy, int *sx)
{
    const int places[9][2] = { { y, x },         { y, x },
                               { y, w - 1 - x }, { h - 1 - y, w - 1 - x },
                               { h - 1 - y, x }, { x, y },
                               { w - 1 - x, y }, { w - 1 - x, h - 1 - y },
                               { x, h - 1 - y } };
    *sy = places[orientation][0];
    *sx = places[orientation][1];
}

START_TEST(exif_orientations_turn_the_picture_upright)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    enum { H = 24, W = 40 };
    uint8_t *upright = draw_smooth(H, W), stored[H * W * 3];
    for (int orientation = 1; orientation <= 8; orientation++) {
        const bool across = orientation >= 5;
        const int sh = across ? W : H, sw = across ? H : W;
        for (int y = 0; y < H; y++) {
            for (int x = 0; x < W; x++) {
                int sy, sx;
                stored_place(orientation, H, W, y, x, &sy, &sx);
                memcpy(stored + (sy * sw + sx) * 3, upright + (y * W + x) * 3, 3);
            }
        }
        for (int big = 0; big < 2; big++) {
            size_t n;
            unsigned char *bytes = make_jpeg(
                sh, sw, stored,
                (jpeg_options){ .quality = 98, .orientation = orientation, .big_endian = big }, &n);
            ck_assert_int_eq(ls__exif_orientation(bytes, n), orientation);
            ck_assert_int_eq(decode(&decoder, bytes, n, true), LS_OK);
            const int worst = worst_difference(&decoder.picture, H, W, upright);
            ck_assert_msg(worst <= 8, "orientation %d: %d levels off", orientation, worst);
            ck_assert_int_eq(decode(&decoder, bytes, n, false), LS_OK);
            ck_assert_int_le(worst_difference(&decoder.picture, sh, sw, stored), 8);
            free(bytes);
        }
    }
    free(upright);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(exif_nonsense_is_no_orientation)
{
    uint8_t *rgb = draw_picture(8, 8, 3, 1);
    size_t n;
    unsigned char *bytes =
        make_jpeg(8, 8, rgb, (jpeg_options){ .orientation = 6, .big_endian = true }, &n);
    ck_assert_int_eq(ls__exif_orientation(bytes, n), 6);
    /* No damage and no cut leads outside of the bytes (the sanitizer looks on) or range. */
    for (size_t k = 0; k < 80; k++) {
        unsigned char *cut = malloc(k);
        memcpy(cut, bytes, k);
        ck_assert_int_ge(ls__exif_orientation(cut, k), 1);
        free(cut);
        for (int value = 0; value < 256; value++) {
            const unsigned char before = bytes[k];
            bytes[k] = (unsigned char)value;
            const int got = ls__exif_orientation(bytes, n);
            ck_assert_int_ge(got, 1);
            ck_assert_int_le(got, 8);
            bytes[k] = before;
        }
    }
    free(bytes), free(rgb);

    /* A directory that lies in the file but outside of the note. */
    const unsigned char outside[] = { 0xff, 0xd8, 0xff, 0xe1, 0, 16,  'E', 'x', 'i', 'f',
                                      0,    0,    'M',  'M',  0, '*', 0,   0,   0,   8,
                                      0,    1,    0x01, 0x12, 0, 3,   0,   0,   0,   1,
                                      0,    6,    0,    0,    0, 0,   0,   0 };
    ck_assert_int_eq(ls__exif_orientation(outside, sizeof(outside)), 1);
    unsigned char *end = malloc(20); /* and outside of the file */
    memcpy(end, outside, 20);
    ck_assert_int_eq(ls__exif_orientation(end, 20), 1);
    free(end);
}
END_TEST

START_TEST(exif_samples_are_all_alike_upright)
{
    const char *folder = trap_images();
    if (!folder) return;
    ls_context *ctx = open_context();
    static const char *const series[] = { "Landscape", "Portrait" };
    for (int s = 0; s < 2; s++) {
        ls_tensor *first = NULL;
        for (int i = 0; i <= 8; i++) {
            ls_tensor *image =
                ls_image_load(ctx, path_in(folder, "exif/%s_%d.jpg", series[s], i), true);
            expect_ok(ctx);
            if (!first) {
                first = image;
                continue;
            }
            const ls_shape *a = ls_tensor_shape(first), *b = ls_tensor_shape(image);
            ck_assert_msg(ls_shape_equal(a, b), "%s_%d has another shape", series[s], i);
            /* The series bears its number, 0 to 8, in the picture, so only most pixels are alike.
             */
            const uint8_t *p = ls_tensor_data_const(first), *q = ls_tensor_data_const(image);
            const int64_t count = ls_tensor_count(first);
            int64_t n_far = 0;
            for (int64_t k = 0; k < count; k++) n_far += abs(p[k] - q[k]) > 24;
            ck_assert_msg(n_far < count / 20, "%s_%d: %lld of %lld differ", series[s], i,
                          (long long)n_far, (long long)count);
            ls_tensor_close(&image);
        }
        ls_tensor_close(&first);
    }
    ls_context_close(&ctx);
}
END_TEST

/* ---- PNG. ---- */

static uint32_t crc_of(const unsigned char *p, size_t n)
{
    uint32_t c = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    }
    return ~c;
}

static void put_be32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (24 - 8 * i));
}

static size_t put_chunk(unsigned char *out, const char *type, const void *data, size_t n)
{
    put_be32(out, (uint32_t)n);
    memcpy(out + 4, type, 4);
    if (n > 0) memcpy(out + 8, data, n);
    put_be32(out + 8 + n, crc_of(out + 4, n + 4));
    return n + 12;
}

/* A PNG file of rows that are already packed, each with filter 0, in one stored zlib block. */
typedef struct raw_png {
    uint32_t width, height;
    int depth, colour;
    const unsigned char *palette;
    size_t palette_bytes;
    const unsigned char *extra; /* a whole chunk before the data */
    size_t extra_bytes;
} raw_png;

static unsigned char *make_png(raw_png png, const unsigned char *rows, size_t row_bytes,
                               size_t n_rows, size_t *n)
{
    const size_t raw = (row_bytes + 1) * n_rows;
    unsigned char *z = malloc(raw + 11), *out = malloc(raw + 1000 + png.extra_bytes);
    memcpy(z,
           (unsigned char[]){ 0x78, 0x01, 1, (unsigned char)raw, (unsigned char)(raw >> 8),
                              (unsigned char)~raw, (unsigned char)(~raw >> 8) },
           7);
    uint32_t a = 1, b = 0;
    for (size_t y = 0; y < n_rows; y++) {
        z[7 + y * (row_bytes + 1)] = 0;
        memcpy(z + 8 + y * (row_bytes + 1), rows + y * row_bytes, row_bytes);
    }
    for (size_t i = 0; i < raw; i++) {
        a = (a + z[7 + i]) % 65521;
        b = (b + a) % 65521;
    }
    put_be32(z + 7 + raw, b << 16 | a);
    unsigned char header[13] = { 0 };
    put_be32(header, png.width);
    put_be32(header + 4, png.height);
    header[8] = (unsigned char)png.depth;
    header[9] = (unsigned char)png.colour;
    memcpy(out, "\x89PNG\r\n\x1a\n", 8);
    size_t at = 8;
    at += put_chunk(out + at, "IHDR", header, 13);
    if (png.palette) at += put_chunk(out + at, "PLTE", png.palette, png.palette_bytes);
    if (png.extra) memcpy(out + at, png.extra, png.extra_bytes);
    at += png.extra_bytes;
    at += put_chunk(out + at, "IDAT", z, raw + 11);
    at += put_chunk(out + at, "IEND", NULL, 0);
    free(z);
    *n = at;
    return out;
}

START_TEST(png_depths_and_colours_give_the_picture)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    static const unsigned char palette[] = { 10, 20, 30, 40, 50, 60, 70, 80, 90 };
    const struct {
        raw_png png;
        unsigned char row[16];
        size_t row_bytes;
        uint8_t rgb[6]; /* of two pixels */
    } cases[] = {
        { { 2, 1, 1, 0, NULL, 0, NULL, 0 }, { 0x40 }, 1, { 0, 0, 0, 255, 255, 255 } },
        { { 2, 1, 2, 0, NULL, 0, NULL, 0 }, { 0x60 }, 1, { 85, 85, 85, 170, 170, 170 } },
        { { 2, 1, 4, 0, NULL, 0, NULL, 0 }, { 0x1f }, 1, { 17, 17, 17, 255, 255, 255 } },
        { { 2, 1, 8, 0, NULL, 0, NULL, 0 }, { 7, 9 }, 2, { 7, 7, 7, 9, 9, 9 } },
        { { 2, 1, 16, 0, NULL, 0, NULL, 0 }, { 7, 200, 9, 1 }, 4, { 7, 7, 7, 9, 9, 9 } },
        { { 2, 1, 8, 2, NULL, 0, NULL, 0 }, { 1, 2, 3, 4, 5, 6 }, 6, { 1, 2, 3, 4, 5, 6 } },
        { { 2, 1, 16, 2, NULL, 0, NULL, 0 },
          { 1, 255, 2, 0, 3, 9, 4, 0, 5, 0, 6, 0 },
          12,
          { 1, 2, 3, 4, 5, 6 } },
        { { 2, 1, 8, 4, NULL, 0, NULL, 0 }, { 7, 0, 9, 128 }, 4, { 7, 7, 7, 9, 9, 9 } },
        { { 2, 1, 8, 6, NULL, 0, NULL, 0 }, { 1, 2, 3, 0, 4, 5, 6, 7 }, 8, { 1, 2, 3, 4, 5, 6 } },
        { { 2, 1, 2, 3, palette, 9, NULL, 0 }, { 0x20 }, 1, { 10, 20, 30, 70, 80, 90 } },
        { { 2, 1, 8, 3, palette, 9, NULL, 0 }, { 1, 2 }, 2, { 40, 50, 60, 70, 80, 90 } },
        /* beyond the palette: black, not whatever lies in memory */
        { { 2, 1, 8, 3, palette, 9, NULL, 0 }, { 2, 200 }, 2, { 70, 80, 90, 0, 0, 0 } },
        { { 2, 1, 2, 3, palette, 9, NULL, 0 }, { 0x30 }, 1, { 10, 20, 30, 0, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n;
        unsigned char *bytes = make_png(cases[i].png, cases[i].row, cases[i].row_bytes, 1, &n);
        ck_assert_msg(decode(&decoder, bytes, n, false) == LS_OK, "case %zu: %s", i,
                      decoder.reason);
        ck_assert_msg(worst_difference(&decoder.picture, 1, 2, cases[i].rgb) == 0, "case %zu", i);
        free(bytes);
    }
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(png_cut_or_damaged_anywhere_is_refused)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    const unsigned char rows[30] = { 1, 2, 3 };
    size_t n;
    unsigned char *bytes = make_png((raw_png){ 5, 2, 8, 2, NULL, 0, NULL, 0 }, rows, 15, 2, &n);
    ck_assert_int_eq(decode(&decoder, bytes, n, false), LS_OK);
    for (size_t k = 8; k < n; k++) expect_bad(&decoder, bytes, k, "truncated PNG");
    for (size_t k = 8; k < n; k++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[k] ^= (unsigned char)(1 << bit);
            expect_bad(&decoder, bytes, n, "PNG");
            bytes[k] ^= (unsigned char)(1 << bit);
        }
    }
    free(bytes);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(png_bombs_and_oddities_are_refused)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    const unsigned char row[60000] = { 0 };
    size_t n;
    unsigned char *bytes =
        make_png((raw_png){ 65535, 65535, 8, 0, NULL, 0, NULL, 0 }, row, 10, 1, &n);
    expect_bad(&decoder, bytes, n, "pixels");
    free(bytes);
    bytes = make_png((raw_png){ 0, 5, 8, 0, NULL, 0, NULL, 0 }, row, 10, 1, &n);
    expect_bad(&decoder, bytes, n, "0 x 5");
    free(bytes);
    bytes = make_png((raw_png){ 100, 100, 8, 0, NULL, 0, NULL, 0 }, row, 10, 1, &n);
    expect_bad(&decoder, bytes, n, "not enough pixels");
    free(bytes);
    bytes = make_png((raw_png){ 4, 1, 8, 3, NULL, 0, NULL, 0 }, row, 4, 1, &n);
    expect_bad(&decoder, bytes, n, "palette");
    free(bytes);
    unsigned char extra[12];
    put_chunk(extra, "WOOD", NULL, 0);
    bytes = make_png((raw_png){ 4, 1, 8, 0, NULL, 0, extra, 12 }, row, 4, 1, &n);
    expect_bad(&decoder, bytes, n, "unknown critical chunk");
    free(bytes);
    put_chunk(extra, "wood", NULL, 0); /* not critical */
    bytes = make_png((raw_png){ 4, 1, 8, 0, NULL, 0, extra, 12 }, row, 4, 1, &n);
    ck_assert_int_eq(decode(&decoder, bytes, n, false), LS_OK);
    free(bytes);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(png_that_swells_beyond_its_size_is_cut_off)
{
    /* 1 x 1 pixel, and 200 MB of zeros: deflate's blocks of fixed codes, runs of 258 at 13 bits or
     * less. Made by hand: literal 0 (00110000), then length 258, distance 1 (11000101 00000). */
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    enum { RUNS = 800000 };
    unsigned char *z = calloc(RUNS * 13 / 8 + 100, 1);
    z[0] = 0x78, z[1] = 0x01;
    size_t bit = 16;
#define PUT(text)                                                                                  \
    for (const char *t = text; *t; t++, bit++)                                                     \
        if (*t == '1') z[bit / 8] |= (unsigned char)(1 << bit % 8);
    PUT("1") PUT("10") PUT("00110000");
    for (int i = 0; i < RUNS; i++) PUT("1100010100000");
    PUT("0000000");
#undef PUT
    unsigned char *bytes = malloc(RUNS * 2 + 1000), header[13] = { 0, 0, 0, 1, 0, 0, 0, 1, 8 };
    memcpy(bytes, "\x89PNG\r\n\x1a\n", 8);
    size_t n = 8;
    n += put_chunk(bytes + n, "IHDR", header, 13);
    n += put_chunk(bytes + n, "IDAT", z, bit / 8 + 5);
    n += put_chunk(bytes + n, "IEND", NULL, 0);
    expect_bad(&decoder, bytes, n, "more data than its size allows");
    free(z), free(bytes);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(png_exif_chunk_is_honoured)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    const unsigned char note[] = { 'M',  'M', 0, '*', 0, 0, 0, 8, 0, 1, 0x01,
                                   0x12, 0,   3, 0,   0, 0, 1, 0, 6, 0, 0 };
    unsigned char extra[64], row[2] = { 10, 20 };
    const size_t extra_bytes = put_chunk(extra, "eXIf", note, sizeof(note));
    size_t n;
    unsigned char *bytes =
        make_png((raw_png){ 2, 1, 8, 0, NULL, 0, extra, extra_bytes }, row, 2, 1, &n);
    ck_assert_int_eq(decode(&decoder, bytes, n, true), LS_OK);
    ck_assert_int_eq(
        worst_difference(&decoder.picture, 2, 1, (uint8_t[]){ 10, 10, 10, 20, 20, 20 }), 0);
    free(bytes);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

static int is_png(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ".png") == 0;
}

/* PngSuite: "primary" holds all kinds, "primary_check" the same pictures as plain 8-bit files. */
START_TEST(png_suite_decodes_and_its_corrupt_files_do_not)
{
    const char *folder = trap_images();
    if (!folder) return;
    ls_context *ctx = open_context();
    struct dirent **names;
    int n = scandir(path_in(folder, "pngsuite/primary"), &names, is_png, alphasort);
    ck_assert_int_gt(n, 50);
    for (int i = 0; i < n; i++) {
        ls_tensor *a =
            ls_image_load(ctx, path_in(folder, "pngsuite/primary/%s", names[i]->d_name), false);
        expect_ok(ctx);
        ls_tensor *b = ls_image_load(
            ctx, path_in(folder, "pngsuite/primary_check/%s", names[i]->d_name), false);
        if (!b) ls_context_status(ctx); /* a few have no partner */
        ls_difference difference = { 0 };
        if (b) ck_assert_int_eq(ls_tensor_compare(a, b, &difference), LS_OK);
        ck_assert_msg(difference.n_different == 0, "%s", names[i]->d_name);
        ls_tensor_close(&a);
        ls_tensor_close(&b);
        free(names[i]);
    }
    free(names);
    n = scandir(path_in(folder, "pngsuite/corrupt"), &names, is_png, alphasort);
    ck_assert_int_gt(n, 10);
    for (int i = 0; i < n; i++) {
        ck_assert_ptr_null(
            ls_image_load(ctx, path_in(folder, "pngsuite/corrupt/%s", names[i]->d_name), false));
        expect_error(ctx, LS_ERR_DATA, names[i]->d_name, "PNG");
        free(names[i]);
    }
    free(names);
    ls_context_close(&ctx);
}
END_TEST

/* ---- BMP and PNM. ---- */

static void put_le(unsigned char *p, int n, uint32_t v)
{
    for (int i = 0; i < n; i++) p[i] = (unsigned char)(v >> (8 * i));
}

typedef struct raw_bmp {
    int header, width, height, bits, compression;
    const unsigned char *tables; /* masks and palette, after the header */
    size_t table_bytes;
} raw_bmp;

static size_t make_bmp(raw_bmp bmp, const unsigned char *rows, size_t row_bytes, unsigned char *out)
{
    const size_t offset = 14 + (size_t)bmp.header + bmp.table_bytes;
    memset(out, 0, offset);
    memcpy(out, "BM", 2);
    put_le(out + 10, 4, (uint32_t)offset);
    put_le(out + 14, 4, (uint32_t)bmp.header);
    if (bmp.header == 12) {
        put_le(out + 18, 2, (uint32_t)bmp.width);
        put_le(out + 20, 2, (uint32_t)bmp.height);
        put_le(out + 22, 2, 1);
        put_le(out + 24, 2, (uint32_t)bmp.bits);
    } else {
        put_le(out + 18, 4, (uint32_t)bmp.width);
        put_le(out + 22, 4, (uint32_t)bmp.height);
        put_le(out + 26, 2, 1);
        put_le(out + 28, 2, (uint32_t)bmp.bits);
        put_le(out + 30, 4, (uint32_t)bmp.compression);
    }
    if (bmp.table_bytes) memcpy(out + 14 + bmp.header, bmp.tables, bmp.table_bytes);
    const size_t n = row_bytes * (size_t)abs(bmp.height);
    memcpy(out + offset, rows, n);
    return offset + n;
}

START_TEST(bmp_variants_give_the_picture)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    static const unsigned char quads[] = { 30, 20, 10, 0, 60, 50, 40, 0 };
    static const unsigned char triples[] = { 30, 20, 10, 60, 50, 40 };
    static const unsigned char masks565[] = { 0, 0xf8, 0, 0, 0xe0, 0x07, 0, 0, 0x1f, 0, 0, 0 };
    const struct {
        raw_bmp bmp;
        unsigned char rows[16];
        size_t row_bytes;
        uint8_t rgb[12]; /* 2 x 2, top row first */
    } cases[] = {
        { { 40, 2, 2, 24, 0, NULL, 0 },
          { 7, 8, 9, 10, 11, 12, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0 },
          8,
          { 3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10 } },
        { { 40, 2, -2, 24, 0, NULL, 0 },
          { 7, 8, 9, 10, 11, 12, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0 },
          8,
          { 9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4 } },
        { { 40, 2, 2, 32, 0, NULL, 0 },
          { 7, 8, 9, 0, 10, 11, 12, 0, 1, 2, 3, 99, 4, 5, 6, 99 },
          8,
          { 3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10 } },
        { { 40, 2, 2, 1, 0, quads, 8 },
          { 0x40, 0, 0, 0, 0x80, 0, 0, 0 },
          4,
          { 40, 50, 60, 10, 20, 30, 10, 20, 30, 40, 50, 60 } },
        { { 40, 2, 2, 4, 0, quads, 8 },
          { 0x01, 0, 0, 0, 0x1f, 0, 0, 0 }, /* 15 is beyond the palette */
          4,
          { 40, 50, 60, 0, 0, 0, 10, 20, 30, 40, 50, 60 } },
        { { 12, 2, 2, 8, 0, triples, 6 },
          { 0, 1, 0, 0, 1, 0, 0, 0 },
          4,
          { 40, 50, 60, 10, 20, 30, 10, 20, 30, 40, 50, 60 } },
        { { 40, 2, 2, 16, 0, NULL, 0 },
          { 0x1f, 0, 0xe0, 0x03, 0, 0x7c, 0xff, 0x7f },
          4,
          { 255, 0, 0, 255, 255, 255, 0, 0, 255, 0, 255, 0 } },
        { { 40, 2, 2, 16, 3, masks565, 12 },
          { 0x1f, 0, 0xe0, 0x07, 0, 0xf8, 0x20, 0x04 },
          4,
          { 255, 0, 0, 0, 134, 0, 0, 0, 255, 0, 255, 0 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char bytes[256];
        const size_t n = make_bmp(cases[i].bmp, cases[i].rows, cases[i].row_bytes, bytes);
        ck_assert_msg(decode(&decoder, bytes, n, false) == LS_OK, "case %zu: %s", i,
                      decoder.reason);
        const uint8_t *p = decoder.picture.pixels;
        ck_assert_msg(worst_difference(&decoder.picture, 2, 2, cases[i].rgb) == 0,
                      "case %zu: %d %d %d, %d %d %d, ...", i, p[0], p[1], p[2], p[3], p[4], p[5]);
        for (size_t k = 2; k < n; k++) expect_bad(&decoder, bytes, k, "BMP");
    }
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(bmp_headers_of_any_content_do_no_harm)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    unsigned char bytes[256];
    const unsigned char rows[16] = { 1 }, quads[8] = { 9 };
    const size_t n = make_bmp((raw_bmp){ 40, 2, 2, 8, 0, quads, 8 }, rows, 4, bytes);
    for (size_t k = 2; k < n; k++) {
        const unsigned char before = bytes[k];
        for (int value = 0; value < 256; value++) {
            bytes[k] = (unsigned char)value;
            const ls_status status = decode(&decoder, bytes, n, true);
            ck_assert(status == LS_OK || status == LS_ERR_DATA);
        }
        bytes[k] = before;
    }
    const size_t m = make_bmp((raw_bmp){ 40, 2, 2, 8, 1, quads, 8 }, rows, 4, bytes);
    expect_bad(&decoder, bytes, m, "compressed BMP");
    put_le(bytes + 22, 4, 0x80000000u); /* height -2^31 */
    put_le(bytes + 30, 4, 0);
    expect_bad(&decoder, bytes, m, "pixels");
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(pnm_variants_give_the_picture)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
#define FILE_BYTES(text) text, sizeof(text) - 1
    const struct {
        const char *bytes;
        size_t n;
        uint8_t rgb[6];
    } cases[] = {
        { FILE_BYTES("P2\n2 1\n255\n7 9\n"), { 7, 7, 7, 9, 9, 9 } },
        { FILE_BYTES("P2 # two\n#more\n2\t1 15 # most\n0 15"), { 0, 0, 0, 255, 255, 255 } },
        { FILE_BYTES("P3\n2 1\n255\n1 2 3 4 5 6"), { 1, 2, 3, 4, 5, 6 } },
        { FILE_BYTES("P5\n2 1\n255\n\x07\x09"), { 7, 7, 7, 9, 9, 9 } },
        { FILE_BYTES("P5\n2 1\n3\n\x01\x03"), { 85, 85, 85, 255, 255, 255 } },
        { FILE_BYTES("P5\n2 1\n65535\n\x07\x07\xff\xff"), { 7, 7, 7, 255, 255, 255 } },
        { FILE_BYTES("P6\n2 1\n255\n\x01\x02\x03\x04\x05\x06"), { 1, 2, 3, 4, 5, 6 } },
        { FILE_BYTES("P6 2 1 100 \x00\x32\x64\x64\x32\xff"), { 0, 128, 255, 255, 128, 255 } },
    };
#undef FILE_BYTES
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(decode(&decoder, cases[i].bytes, cases[i].n, false) == LS_OK, "case %zu: %s",
                      i, decoder.reason);
        ck_assert_msg(worst_difference(&decoder.picture, 1, 2, cases[i].rgb) == 0, "case %zu", i);
    }
    for (size_t k = 2; k < cases[6].n; k++) expect_bad(&decoder, cases[6].bytes, k, "PNM");
    expect_bad(&decoder, "P6 9999999 9999999 255 ", 23, "pixels");
    expect_bad(&decoder, "P6 99999999999999999999 1 255 ", 30, "header");
    expect_bad(&decoder, "P6 2 1 0 ......", 15, "header");
    expect_bad(&decoder, "P6 -2 1 255 ......", 18, "header");
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* ---- What is not an image, or not a file. ---- */

START_TEST(other_kinds_are_named)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    expect_bad(&decoder, "", 0, "empty file");
    expect_bad(&decoder, "RIFF\0\0\0\0WEBPVP8 ", 16, "WebP");
    expect_bad(&decoder, "GIF89a....", 10, "GIF");
    expect_bad(&decoder, "II*\0....", 8, "TIFF");
    expect_bad(&decoder, "<!DOCTYPE html>", 15, "HTML");
    expect_bad(&decoder, "hello, world", 12, "not a JPEG, PNG, BMP or PNM");
    expect_bad(&decoder, "\xff", 1, "not a JPEG, PNG, BMP or PNM");
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(files_that_cannot_be_read_say_why)
{
    char *folder = new_folder();
    ls_context *ctx = open_context();
    uint8_t *rgb = draw_picture(9, 7, 3, 1);
    write_png(path_in(folder, "really.jpg"), 9, 7, 3, rgb); /* the content decides */
    ls_tensor *image = ls_image_load(ctx, path_in(folder, "really.jpg"), false);
    expect_ok(ctx);
    ck_assert_mem_eq(ls_tensor_data(image), rgb, 9 * 7 * 3);
    ck_assert_int_eq(ls_tensor_shape(image)->dims[0], 9);

    ck_assert_ptr_null(ls_image_load(ctx, path_in(folder, "none.jpg"), false));
    expect_error(ctx, LS_ERR_NOT_FOUND, "none.jpg", "No such file");
    make_folder(path_in(folder, "folder.jpg"));
    ck_assert_ptr_null(ls_image_load(ctx, path_in(folder, "folder.jpg"), false));
    expect_error(ctx, LS_ERR_DATA, "folder.jpg", "a folder");
    ck_assert_int_eq(mkfifo(path_in(folder, "pipe.jpg"), 0666), 0);
    ck_assert_ptr_null(ls_image_load(ctx, path_in(folder, "pipe.jpg"), false));
    expect_error(ctx, LS_ERR_DATA, "pipe.jpg", "not a regular file");
    write_file(path_in(folder, "empty.png"), "", 0);
    ck_assert_ptr_null(ls_image_load(ctx, path_in(folder, "empty.png"), false));
    expect_error(ctx, LS_ERR_DATA, "empty.png", "empty file");
    ck_assert_ptr_null(ls_image_load(ctx, NULL, false));
    expect_error(ctx, LS_ERR_INVALID, "ls_image_load", "path");
    ck_assert_ptr_null(ls_image_load(NULL, "x", false));
    free(rgb);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

int main(void)
{
    return RUN_SUITE("decode", jpeg_variants_give_the_picture, jpeg_black_darkens_cmyk,
                     jpeg_cut_anywhere_is_refused, jpeg_with_damage_anywhere_is_refused_or_whole,
                     jpeg_without_tables_does_not_borrow_the_last_files,
                     jpeg_of_too_many_scans_is_refused, exif_orientations_turn_the_picture_upright,
                     exif_nonsense_is_no_orientation, exif_samples_are_all_alike_upright,
                     png_depths_and_colours_give_the_picture,
                     png_cut_or_damaged_anywhere_is_refused, png_bombs_and_oddities_are_refused,
                     png_that_swells_beyond_its_size_is_cut_off, png_exif_chunk_is_honoured,
                     png_suite_decodes_and_its_corrupt_files_do_not, bmp_variants_give_the_picture,
                     bmp_headers_of_any_content_do_no_harm, pnm_variants_give_the_picture,
                     other_kinds_are_named, files_that_cannot_be_read_say_why);
}
