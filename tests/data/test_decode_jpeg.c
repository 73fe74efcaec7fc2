/* JPEG: every variant against pixels that are known, EXIF, and what must be refused. */
#include "decode_support.h"
#include "../suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An image that JPEG keeps well: without noise. */
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

START_TEST(jpeg_variants_give_the_image)
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
        const int worst = worst_difference(&decoder.image, H, W, cases[i].expected);
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
        ck_assert_int_eq(decoder.image.pixels[0], 0);
        ck_assert_int_eq(decoder.image.pixels[1], 127);
        ck_assert_int_eq(decoder.image.pixels[2], 102);
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
    uint8_t *rgb = draw_image(20, 30, 3, 1);
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

/* The place of the first marker of that kind. */
static size_t find_marker(const unsigned char *bytes, size_t n_bytes, int marker)
{
    for (size_t at = 2; at + 1 < n_bytes; at++)
        if (bytes[at] == 0xff && bytes[at + 1] == marker) return at;
    ck_abort_msg("no marker 0x%02x", (unsigned)marker);
    return 0;
}

START_TEST(jpeg_warnings_that_no_pixel_depends_on_are_harmless)
{
    enum { H = 40, W = 24, APP1 = 0xe1, SOF0 = 0xc0, SOS = 0xda, RST1 = 0xd1, EOI = 0xd9 };
    static const unsigned char junk[] = { 0, 1, 0xff, 0, 9, 9, 9, 9, 9, 9, 9, 9 };
    const struct {
        int marker; /* junk stands before it */
        int major;  /* the version of JFIF, instead of 1 */
        bool harmless;
    } cases[] = {
        { .marker = APP1, .harmless = true },  { .marker = SOF0, .harmless = true },
        { .marker = SOS, .harmless = true },   { .marker = EOI, .harmless = true },
        { .marker = RST1, .harmless = false }, { .major = 9, .harmless = true },
    };
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    uint8_t *rgb = draw_image(H, W, 3, 5), *expected = malloc(H * W * 3);
    size_t n;
    unsigned char *bytes =
        make_jpeg(H, W, rgb, (jpeg_options){ .restart = 1, .orientation = 6 }, &n);
    unsigned char *changed = malloc(n + sizeof(junk));
    ck_assert_int_eq(decode(&decoder, bytes, n, true), LS_OK);
    memcpy(expected, decoder.image.pixels, H * W * 3);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int marker = cases[i].marker;
        const size_t at = marker ? find_marker(bytes, n, marker) : n;
        const size_t added = marker ? sizeof(junk) : 0;
        memcpy(changed, bytes, at);
        memcpy(changed + at, junk, added);
        memcpy(changed + at + added, bytes + at, n - at);
        if (cases[i].major) changed[11] = (unsigned char)cases[i].major;
        if (!cases[i].harmless) {
            expect_bad(&decoder, changed, n + added, "extraneous bytes before marker 0xd1");
            continue;
        }
        ck_assert_msg(decode(&decoder, changed, n + added, true) == LS_OK, "case %zu: %s", i,
                      decoder.reason);
        ck_assert_msg(worst_difference(&decoder.image, W, H, expected) == 0, "case %zu", i);
    }
    free(rgb), free(expected), free(bytes), free(changed);

    /* A transform that Adobe's marker does not define is taken for YCCK. */
    uint8_t cmyk[8 * 8 * 4] = { 0 };
    bytes = make_jpeg(8, 8, cmyk, (jpeg_options){ .channels = 4, .adobe = true }, &n);
    bytes[find_marker(bytes, n, 0xee) + 15] = 77;
    ck_assert_msg(decode(&decoder, bytes, n, true) == LS_OK, "%s", decoder.reason);
    free(bytes);
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
    uint8_t *rgb = draw_image(24, 24, 3, 2);
    size_t n, n_refused = 0;
    unsigned char *bytes = make_jpeg(24, 24, rgb, (jpeg_options){ .restart = 1 }, &n);
    for (size_t k = 0; k < n; k++) {
        const unsigned char before = bytes[k];
        bytes[k] ^= 0x55;
        ls__decoder fresh = { .ctx = ctx };
        const ls_status status = decode(&used, bytes, n, true);
        ck_assert_int_eq(decode(&fresh, bytes, n, true), status);
        if (status == LS_OK)
            ck_assert_mem_eq(used.image.pixels, fresh.image.pixels,
                             (size_t)(fresh.image.height * fresh.image.width * 3));
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
    uint8_t *rgb = draw_image(16, 16, 3, 3);
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
    uint8_t *grey = draw_image(16, 16, 1, 3);
    size_t n;
    unsigned char *bytes =
        make_jpeg(16, 16, grey, (jpeg_options){ .channels = 1, .scans = 704 }, &n);
    expect_bad(&decoder, bytes, n, "16 x 16 pixels in 501 scans or more");
    free(bytes), free(grey);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* A grey progressive image of side x side zeros, side a multiple of 1024: the DC scan, then
 * n_scans - 1 scans that each add nothing to one coefficient, in runs of 2^14 blocks. Every Huffman
 * table has one symbol, whose code is 0, so that all scans are zeros. */
static unsigned char *make_scan_bomb(int side, int n_scans, size_t *n)
{
    static const unsigned char quantization[] = { 0xff, 0xdb, 0, 67, 0 };
    static const unsigned char tables[] = {
        0xff, 0xc4, 0, 20, 0x00, 1, 0, 0, 0, 0, 0,
        0,    0,    0, 0,  0,    0, 0, 0, 0, 0, 0x00, /* DC: 0 */
        0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0,
        0,    0,    0, 0,  0,    0, 0, 0, 0, 0, 0xe0, /* AC: EOB14 */
    };
    const size_t n_blocks = (size_t)side / 8 * ((size_t)side / 8);
    const size_t dc_bytes = n_blocks / 8, ac_bytes = (n_blocks / 16384 * 15 + 7) / 8;
    unsigned char *bytes = calloc(1, 200 + dc_bytes + (size_t)n_scans * (10 + ac_bytes)),
                  *p = bytes;
    const unsigned char high = (unsigned char)(side >> 8), low = (unsigned char)side;
    const unsigned char frame[] = { 0xff, 0xc2, 0, 11, 8, high, low, high, low, 1, 1, 0x11, 0 };
    memcpy(p, "\xff\xd8", 2), p += 2;
    memcpy(p, quantization, 5), memset(p + 5, 1, 64), p += 69;
    memcpy(p, tables, sizeof(tables)), p += sizeof(tables);
    memcpy(p, frame, sizeof(frame)), p += sizeof(frame);
    for (int i = 0; i < n_scans; i++) {
        const unsigned char k = (unsigned char)(i == 0 ? 0 : 1 + (i - 1) % 63);
        const unsigned char bits = (unsigned char)(i == 0 ? 0 : i <= 63 ? 1 : 0x10);
        memcpy(p, (unsigned char[]){ 0xff, 0xda, 0, 8, 1, 1, 0, k, k, bits }, 10);
        p += 10 + (i == 0 ? dc_bytes : ac_bytes);
    }
    memcpy(p, "\xff\xd9", 2);
    *n = (size_t)(p + 2 - bytes);
    return bytes;
}

START_TEST(jpeg_scans_are_limited_by_their_work)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    size_t n;
    unsigned char *bytes = make_scan_bomb(1024, 100, &n);
    ck_assert_msg(decode(&decoder, bytes, n, false) == LS_OK, "%s", decoder.reason);
    free(bytes);
    bytes = make_scan_bomb(8192, 100, &n); /* 2^26 pixels: the 65th scan is beyond 2^32 */
    ck_assert_uint_le(n, 200000);
    expect_bad(&decoder, bytes, n, "8192 x 8192 pixels in");
    free(bytes);
    /* Arithmetic coding, of which a pixel counts as 8: 2^23 pixels. */
    uint8_t *grey = calloc(2048, 4096);
    jpeg_options options = { .channels = 1, .arithmetic = true, .scans = 66 };
    bytes = make_jpeg(2048, 4096, grey, options, &n);
    expect_bad(&decoder, bytes, n, "4096 x 2048 pixels in");
    free(bytes), free(grey);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* ---- EXIF. ---- */

/* Where the upright pixel (y, x) of an image of h x w is stored, by orientation: the EXIF
 * specification's table of which side of the stored image is the visual top and left. */
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

START_TEST(exif_orientations_turn_the_image_upright)
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
            const int worst = worst_difference(&decoder.image, H, W, upright);
            ck_assert_msg(worst <= 8, "orientation %d: %d levels off", orientation, worst);
            ck_assert_int_eq(decode(&decoder, bytes, n, false), LS_OK);
            ck_assert_int_le(worst_difference(&decoder.image, sh, sw, stored), 8);
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
    uint8_t *rgb = draw_image(8, 8, 3, 1);
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
    if (!folder) SKIP("no folder of decoder traps");
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
            /* The series bears its number, 0 to 8, in the image, so only most pixels are alike.
             */
            const uint8_t *p = ls_tensor_data_const(first), *q = ls_tensor_data_const(image);
            const int64_t count = ls_tensor_element_count(first);
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

TEST_PROGRAM(decode_jpeg)
{
    return RUN_SUITE(
        "decode_jpeg", jpeg_variants_give_the_image, jpeg_black_darkens_cmyk,
        jpeg_cut_anywhere_is_refused, jpeg_warnings_that_no_pixel_depends_on_are_harmless,
        jpeg_with_damage_anywhere_is_refused_or_whole,
        jpeg_without_tables_does_not_borrow_the_last_files, jpeg_of_too_many_scans_is_refused,
        jpeg_scans_are_limited_by_their_work, exif_orientations_turn_the_image_upright,
        exif_nonsense_is_no_orientation, exif_samples_are_all_alike_upright);
}
