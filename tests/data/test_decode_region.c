/* Decoding regions of a JPEG file: the pixels of the whole image, and the same files are refused.
 */
#include "decode_support.h"
#include "../failing_allocator.h"
#include "../suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A window of the reduced image that holds this one of the whole. */
static ls__window reduced(const ls__window *w, int reduction)
{
    const int64_t bottom = (w->top + w->height + reduction - 1) / reduction;
    const int64_t right = (w->left + w->width + reduction - 1) / reduction;
    const int64_t top = w->top / reduction, left = w->left / reduction;
    return (ls__window){ top, left, bottom - top, right - left };
}

/* Fails the test unless the source holds at least the window, with the pixels of the whole image.
 */
static void expect_same(const ls__source *source, const ls__source *whole, const ls__window *window,
                        const char *what)
{
    const ls__image_view *view = &source->view, *all = &whole->view;
    ck_assert_int_eq(source->height, whole->height);
    ck_assert_int_eq(source->width, whole->width);
    ck_assert_int_eq(source->reduction, whole->reduction);
    ck_assert(source->top >= 0 && source->left >= 0);
    ck_assert(source->top <= window->top && source->left <= window->left);
    ck_assert(source->top + view->height >= window->top + window->height);
    ck_assert(source->left + view->width >= window->left + window->width);
    for (int64_t y = window->top; y < window->top + window->height; y++)
        ck_assert_msg(memcmp(view->pixels + (y - source->top) * view->row_bytes +
                                 (window->left - source->left) * 3,
                             all->pixels + y * all->row_bytes + window->left * 3,
                             (size_t)window->width * 3) == 0,
                      "%s: window %lld x %lld at (%lld, %lld), row %lld", what,
                      (long long)window->width, (long long)window->height, (long long)window->left,
                      (long long)window->top, (long long)y);
}

static int64_t below(uint32_t *state, int64_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (int64_t)((uint64_t)(*state >> 4) * (uint64_t)n >> 28);
}

static ls__window random_window(uint32_t *state, int64_t height, int64_t width)
{
    ls__window out;
    out.height = 1 + below(state, height);
    out.width = 1 + below(state, below(state, 4) ? width : width < 9 ? width : 9);
    out.top = below(state, height - out.height + 1);
    out.left = below(state, width - out.width + 1);
    return out;
}

static void expect_regions(ls__decoder *decoder, const uint8_t *bytes, size_t n, int n_windows,
                           const char *what)
{
    ls__decoder full = { .ctx = decoder->ctx };
    ck_assert_msg(decode(&full, bytes, n, true) == LS_OK, "%s: %s", what, full.reason);
    const int64_t height = full.source.height, width = full.source.width;
    uint32_t state = (uint32_t)n;
    for (int reduction = 1; reduction <= 8; reduction *= 2) {
        const ls__region all = { { 0, 0, height, width }, reduction, false };
        ck_assert_int_eq(decode_region(&full, bytes, n, true, &all), LS_OK);
        for (int i = 0; i < n_windows / reduction; i++) {
            const ls__region one = { random_window(&state, height, width), reduction, i & 1 };
            ck_assert_msg(decode_region(decoder, bytes, n, true, &one) == LS_OK, "%s: %s", what,
                          decoder->reason);
            const ls__window window = reduced(&one.window, full.source.reduction);
            expect_same(&decoder->source, &full.source, &window, what);
        }
    }
    ls__decoder_free(&full);
}

static const jpeg_options variants[] = {
    { .across = 2, .down = 2 },
    { .across = 2, .down = 1 },
    { .across = 1, .down = 2 },
    { .across = 1, .down = 1 },
    { .across = 4, .down = 1 },
    { .across = 4, .down = 2 },
    { .across = 1, .down = 4 },
    { .across = 2, .down = 4 },
    { .channels = 1 },
    { .channels = 1, .across = 2, .down = 2 },
    { .channels = 4 },
    { .channels = 4, .adobe = true, .across = 2, .down = 2 },
    { .restart = 1 },
    { .restart = 2, .across = 1, .down = 1 },
    { .separate = true },
    { .separate = true, .across = 2, .down = 1, .restart = 1 },
    { .progressive = true },
    { .progressive = true, .across = 2, .down = 1 },
    { .progressive = true, .across = 1, .down = 1, .restart = 1 },
    { .progressive = true, .channels = 1 },
    { .progressive = true, .unfinished = true },
    { .progressive = true, .unfinished = true, .channels = 1, .quality = 20 },
    { .arithmetic = true },
    { .arithmetic = true, .progressive = true },
};
enum { N_VARIANTS = sizeof(variants) / sizeof(variants[0]) };

START_TEST(regions_have_the_pixels_of_the_whole)
{
    static const int sizes[][2] = { { 1, 1 },   { 7, 5 },    { 16, 16 },  { 17, 33 }, { 19, 21 },
                                    { 33, 37 }, { 48, 130 }, { 130, 48 }, { 97, 201 } };
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    const jpeg_options *variant = &variants[_i];
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        const int h = sizes[s][0], w = sizes[s][1];
        uint8_t *pixels = draw_image(h, w, variant->channels ? variant->channels : 3, 3);
        size_t n;
        unsigned char *bytes = make_jpeg(h, w, pixels, *variant, &n);
        char what[64];
        snprintf(what, sizeof what, "variant %d, %d x %d", _i, w, h);
        expect_regions(&decoder, bytes, n, 60, what);
        free(bytes), free(pixels);
    }
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(regions_of_turned_images_are_turned)
{
    enum { H = 75, W = 164 };
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    uint8_t *pixels = draw_image(H, W, 3, 8);
    for (int orientation = 1; orientation <= 8; orientation++) {
        size_t n;
        unsigned char *bytes =
            make_jpeg(H, W, pixels, (jpeg_options){ .orientation = orientation }, &n);
        char what[32];
        snprintf(what, sizeof what, "orientation %d", orientation);
        expect_regions(&decoder, bytes, n, 60, what);
        free(bytes);
    }
    free(pixels);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* A file that is refused as a whole is refused for the same reason whatever the region is. Where
 * damage cannot be detected, the region has the pixels of the whole. */
static size_t expect_same_fate(ls__decoder *full, ls__decoder *decoder, const uint8_t *bytes,
                               size_t n, size_t at)
{
    const ls_status status = decode(full, bytes, n, true);
    for (int i = 0; i < 3; i++) {
        const int64_t height = status == LS_OK ? full->source.height : 8;
        const int64_t width = status == LS_OK ? full->source.width : 8;
        const ls__region one = { { i == 1 ? height - 1 : 0, i == 2 ? width / 2 : 0,
                                   i == 0 ? height / 4 + 1 : 1, i == 2 ? 1 : width },
                                 1,
                                 false };
        const ls_status got = decode_region(decoder, bytes, n, true, &one);
        ck_assert_msg(got == status, "byte %zu: %s, of the whole: %s", at, ls_status_text(got),
                      ls_status_text(status));
        if (status == LS_OK)
            expect_same(&decoder->source, &full->source, &one.window, "damaged");
        else
            ck_assert_str_eq(decoder->reason, full->reason);
    }
    return status != LS_OK;
}

START_TEST(damage_anywhere_is_found_for_every_region)
{
    static const int kinds[] = { 0, 1, 3, 8, 10, 12, 14, 16, 20, 22 };
    enum { H = 56, W = 72 };
    ls_context *ctx = open_context();
    ls__decoder full = { .ctx = ctx }, decoder = { .ctx = ctx };
    for (size_t v = 0; v < sizeof(kinds) / sizeof(kinds[0]); v++) {
        jpeg_options options = variants[kinds[v]];
        options.quality = 50;
        uint8_t *pixels = draw_image(H, W, options.channels ? options.channels : 3, 6);
        size_t n, n_refused = 0;
        unsigned char *bytes = make_jpeg(H, W, pixels, options, &n);
        for (size_t k = 2; k < n; k += 3) {
            const unsigned char before = bytes[k];
            bytes[k] ^= k % 2 ? 0xff : 0x10;
            n_refused += expect_same_fate(&full, &decoder, bytes, n, k);
            bytes[k] = before;
        }
        ck_assert_uint_ge(n_refused, n / 60);
        for (size_t k = 3; k < n; k += 7)
            ck_assert_uint_eq(expect_same_fate(&full, &decoder, bytes, k, k), 1);
        free(bytes), free(pixels);
    }
    ls__decoder_free(&decoder);
    ls__decoder_free(&full);
    ls_context_close(&ctx);
}
END_TEST

/* Data below the region are checked for damage unless the file is known to be whole. */
START_TEST(a_file_known_to_be_whole_is_read_no_further_than_needed)
{
    enum { H = 200, W = 100 };
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    uint8_t *pixels = draw_image(H, W, 3, 2);
    size_t n;
    unsigned char *bytes = make_jpeg(H, W, pixels, (jpeg_options){ 0 }, &n);
    ls__region top = { { 0, 0, 40, W }, 1, false };
    const ls__region bottom = { { 150, 0, 40, W }, 1, true };
    ck_assert_int_eq(decode_region(&decoder, bytes, n * 3 / 4, true, &top), LS_ERR_DATA);
    top.known_whole = true;
    ck_assert_int_eq(decode_region(&decoder, bytes, n * 3 / 4, true, &top), LS_OK);
    ck_assert_int_eq(decode_region(&decoder, bytes, n * 3 / 4, true, &bottom), LS_ERR_DATA);
    free(bytes), free(pixels);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(only_the_region_takes_memory)
{
    enum { H = 600, W = 800 };
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    uint8_t *pixels = draw_image(H, W, 3, 2);
    size_t n;
    unsigned char *bytes = make_jpeg(H, W, pixels, (jpeg_options){ 0 }, &n);
    const ls__region one = { { 300, 300, 64, 64 }, 1, false };
    ck_assert_int_eq(decode_region(&decoder, bytes, n, true, &one), LS_OK);
    ck_assert_int_le(decoder.source.view.height, 64 + 4);
    ck_assert_int_le(decoder.source.view.width, 64 + 32);
    free(bytes), free(pixels);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* The mean of each square of pixels, or nearly: a reduction is made of the lower frequencies. */
START_TEST(a_reduced_image_shows_the_same)
{
    enum { H = 72, W = 104 };
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    uint8_t pixels[H * W * 3];
    for (int i = 0; i < H * W; i++) {
        pixels[3 * i] = (uint8_t)(20 + 3 * (i / W));
        pixels[3 * i + 1] = (uint8_t)(20 + 2 * (i % W));
        pixels[3 * i + 2] = 128;
    }
    const int orientations[] = { 1, 2, 3, 6 };
    for (int o = 0; o < 4; o++)
        for (int s = 2; s <= 8; s *= 2) {
            size_t n;
            const jpeg_options options = {
                .quality = 98, .across = 1, .down = 1, .orientation = orientations[o]
            };
            unsigned char *bytes = make_jpeg(H, W, pixels, options, &n);
            const ls__region one = { { 0, 0, 64, 64 }, s, false };
            ck_assert_int_eq(decode_region(&decoder, bytes, n, true, &one), LS_OK);
            const ls__source *source = &decoder.source;
            ck_assert_int_eq(source->reduction, s);
            const bool turned = orientations[o] == 6;
            ck_assert_int_eq(source->height, turned ? W : H);
            for (int64_t y = 0; y < 64 / s; y++)
                for (int64_t x = 0; x < 64 / s; x++) {
                    const uint8_t *pixel = source->view.pixels +
                                           (y - source->top) * source->view.row_bytes +
                                           (x - source->left) * 3;
                    const double middle_y = (double)(y * s) + (s - 1) / 2.0;
                    const double middle_x = (double)(x * s) + (s - 1) / 2.0;
                    const double rows[] = { middle_y, middle_y, H - 1 - middle_y,
                                            H - 1 - middle_x };
                    const double columns[] = { middle_x, W - 1 - middle_x, W - 1 - middle_x,
                                               middle_y };
                    ck_assert_double_le(fabs(pixel[0] - (20 + 3 * rows[o])), 4);
                    ck_assert_double_le(fabs(pixel[1] - (20 + 2 * columns[o])), 4);
                }
            free(bytes);
        }
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* A sample that does not fit is probed and not decoded; the decoder then takes the next file. */
START_TEST(a_probe_sets_the_upright_size_and_may_stand_alone)
{
    enum { H = 40, W = 56 };
    uint8_t *pixels = draw_image(H, W, 3, 9);
    size_t n;
    unsigned char *bytes = make_jpeg(H, W, pixels, (jpeg_options){ .orientation = 6 }, &n);
    for (int64_t fail_at = 1;; fail_at++) {
        failing_allocator a;
        failing_allocator_init(&a, fail_at);
        ls_context *ctx = ls_context_open(&(ls_context_config){ .allocator = &a.allocator });
        ls__decoder decoder = { .ctx = ctx };
        ls_status status = ctx ? LS_OK : LS_ERR_MEMORY;
        for (int turns = 0; turns < 2 && status == LS_OK; turns++) {
            status = ls__decoder_probe_memory(&decoder, bytes, n, turns);
            if (status != LS_OK) break;
            ck_assert_int_eq(decoder.height, turns ? W : H);
            ck_assert_int_eq(decoder.width, turns ? H : W);
        }
        if (status == LS_OK) status = ls__decode_region(&decoder, NULL);
        if (status == LS_OK) status = ls__decoder_probe_memory(&decoder, bytes, n, false);
        ck_assert(status == LS_OK || status == LS_ERR_MEMORY);
        ck_assert(status == LS_OK || !ctx || strstr(decoder.reason, "memory"));
        if (ctx) ls__decoder_free(&decoder);
        ls_context_close(&ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failing_allocator_failed(&a)) break;
    }
    free(bytes), free(pixels);
}
END_TEST

TEST_PROGRAM(decode_region)
{
    return both(run_loop("decode_region", regions_have_the_pixels_of_the_whole, N_VARIANTS),
                RUN_SUITE("decode_region", regions_of_turned_images_are_turned,
                          damage_anywhere_is_found_for_every_region,
                          a_file_known_to_be_whole_is_read_no_further_than_needed,
                          only_the_region_takes_memory, a_reduced_image_shows_the_same,
                          a_probe_sets_the_upright_size_and_may_stand_alone));
}
