/* PNG: every depth and colour type against pixels that are known, and what must be refused. */
#include "decode_support.h"
#include "../suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

START_TEST(png_depths_and_colours_give_the_image)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx, .alpha = LS_ALPHA_IGNORE };
    static const unsigned char palette[] = { 10, 20, 30, 40, 50, 60, 70, 80, 90 };
    const struct {
        raw_png png;
        unsigned char row[16];
        size_t row_bytes;
        uint8_t rgb[6]; /* of two pixels */
    } cases[] = {
        { .png = { .width = 2, .height = 1, .depth = 1 },
          .row = { 0x40 },
          .row_bytes = 1,
          .rgb = { 0, 0, 0, 255, 255, 255 } },
        { .png = { .width = 2, .height = 1, .depth = 2 },
          .row = { 0x60 },
          .row_bytes = 1,
          .rgb = { 85, 85, 85, 170, 170, 170 } },
        { .png = { .width = 2, .height = 1, .depth = 4 },
          .row = { 0x1f },
          .row_bytes = 1,
          .rgb = { 17, 17, 17, 255, 255, 255 } },
        { .png = { .width = 2, .height = 1, .depth = 8 },
          .row = { 7, 9 },
          .row_bytes = 2,
          .rgb = { 7, 7, 7, 9, 9, 9 } },
        { .png = { .width = 2, .height = 1, .depth = 16 },
          .row = { 7, 200, 9, 1 },
          .row_bytes = 4,
          .rgb = { 7, 7, 7, 9, 9, 9 } },
        { .png = { .width = 2, .height = 1, .depth = 8, .colour = 2 },
          .row = { 1, 2, 3, 4, 5, 6 },
          .row_bytes = 6,
          .rgb = { 1, 2, 3, 4, 5, 6 } },
        { .png = { .width = 2, .height = 1, .depth = 16, .colour = 2 },
          .row = { 1, 255, 2, 0, 3, 9, 4, 0, 5, 0, 6, 0 },
          .row_bytes = 12,
          .rgb = { 1, 2, 3, 4, 5, 6 } },
        { .png = { .width = 2, .height = 1, .depth = 8, .colour = 4 },
          .row = { 7, 0, 9, 128 },
          .row_bytes = 4,
          .rgb = { 7, 7, 7, 9, 9, 9 } },
        { .png = { .width = 2, .height = 1, .depth = 8, .colour = 6 },
          .row = { 1, 2, 3, 0, 4, 5, 6, 7 },
          .row_bytes = 8,
          .rgb = { 1, 2, 3, 4, 5, 6 } },
        { .png = { .width = 2,
                   .height = 1,
                   .depth = 2,
                   .colour = 3,
                   .palette = palette,
                   .palette_bytes = 9 },
          .row = { 0x20 },
          .row_bytes = 1,
          .rgb = { 10, 20, 30, 70, 80, 90 } },
        { .png = { .width = 2,
                   .height = 1,
                   .depth = 8,
                   .colour = 3,
                   .palette = palette,
                   .palette_bytes = 9 },
          .row = { 1, 2 },
          .row_bytes = 2,
          .rgb = { 40, 50, 60, 70, 80, 90 } },
        /* beyond the palette: black, not whatever lies in memory */
        { .png = { .width = 2,
                   .height = 1,
                   .depth = 8,
                   .colour = 3,
                   .palette = palette,
                   .palette_bytes = 9 },
          .row = { 2, 200 },
          .row_bytes = 2,
          .rgb = { 70, 80, 90, 0, 0, 0 } },
        { .png = { .width = 2,
                   .height = 1,
                   .depth = 2,
                   .colour = 3,
                   .palette = palette,
                   .palette_bytes = 9 },
          .row = { 0x30 },
          .row_bytes = 1,
          .rgb = { 10, 20, 30, 0, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n;
        unsigned char *bytes = make_png(cases[i].png, cases[i].row, cases[i].row_bytes, 1, &n);
        ck_assert_msg(decode(&decoder, bytes, n, false) == LS_OK, "case %zu: %s", i,
                      decoder.reason);
        ck_assert_msg(worst_difference(&decoder.image, 1, 2, cases[i].rgb) == 0, "case %zu", i);
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
    unsigned char *bytes =
        make_png((raw_png){ .width = 5, .height = 2, .depth = 8, .colour = 2 }, rows, 15, 2, &n);
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
        make_png((raw_png){ .width = 65535, .height = 65535, .depth = 8 }, row, 10, 1, &n);
    expect_bad(&decoder, bytes, n, "pixels");
    free(bytes);
    /* Too large is not damaged: 2^31 bytes, which stb_image does not decode. */
    bytes = make_png((raw_png){ .width = 16384, .height = 16384, .depth = 16, .colour = 6 }, row,
                     10, 1, &n);
    decoder.max_pixels = LS_LARGEST_MAX_PIXELS;
    expect_bad(&decoder, bytes, n, "claims 16384 x 16384 pixels, more than the limit of 268435455");
    ck_assert_ptr_null(strstr(decoder.reason, "max_pixels")); /* no larger limit can be asked for */
    decoder.max_pixels = 0;
    expect_bad(&decoder, bytes, n, "claims 16384 x 16384 pixels, more than the limit of 89478485");
    free(bytes);
    bytes = make_png((raw_png){ .width = 0, .height = 5, .depth = 8 }, row, 10, 1, &n);
    expect_bad(&decoder, bytes, n, "0 x 5");
    free(bytes);
    bytes = make_png((raw_png){ .width = 100, .height = 100, .depth = 8 }, row, 10, 1, &n);
    expect_bad(&decoder, bytes, n, "not enough pixels");
    free(bytes);
    bytes = make_png((raw_png){ .width = 4, .height = 1, .depth = 8, .colour = 3 }, row, 4, 1, &n);
    expect_bad(&decoder, bytes, n, "palette");
    free(bytes);
    unsigned char extra[12];
    put_chunk(extra, "WOOD", NULL, 0);
    bytes = make_png(
        (raw_png){ .width = 4, .height = 1, .depth = 8, .extra = extra, .extra_bytes = 12 }, row, 4,
        1, &n);
    expect_bad(&decoder, bytes, n, "unknown critical chunk");
    free(bytes);
    put_chunk(extra, "wood", NULL, 0); /* not critical */
    bytes = make_png(
        (raw_png){ .width = 4, .height = 1, .depth = 8, .extra = extra, .extra_bytes = 12 }, row, 4,
        1, &n);
    ck_assert_int_eq(decode(&decoder, bytes, n, false), LS_OK);
    free(bytes);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* Refused: an image of 1 x 1 pixel whose compressed data are in one chunk, or with `second` > 0 in
 * two of so many bytes. */
static void expect_too_much_data(ls__decoder *decoder, const unsigned char *z, size_t first,
                                 size_t second)
{
    const unsigned char header[13] = { 0, 0, 0, 1, 0, 0, 0, 1, 8 };
    unsigned char *bytes = malloc(first + second + 1000);
    memcpy(bytes, "\x89PNG\r\n\x1a\n", 8);
    size_t n = 8;
    n += put_chunk(bytes + n, "IHDR", header, 13);
    n += put_chunk(bytes + n, "IDAT", z, first);
    if (second > 0) n += put_chunk(bytes + n, "IDAT", z + first, second);
    n += put_chunk(bytes + n, "IEND", NULL, 0);
    expect_bad(decoder, bytes, n, "more data than its size allows");
    free(bytes);
}

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
    expect_too_much_data(&decoder, z, bit / 8 + 5, 0);
    free(z);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(png_of_empty_blocks_is_refused)
{
    /* Deflate blocks of fixed codes that hold nothing: a header of 3 bits and an end code of 7. */
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    enum { BYTES = 70000 };
    unsigned char *z = calloc(BYTES, 1);
    z[0] = 0x78, z[1] = 0x01;
    for (size_t bit = 16; bit + 10 <= 8 * BYTES; bit += 10)
        z[(bit + 1) / 8] |= (unsigned char)(1 << (bit + 1) % 8);
    expect_too_much_data(&decoder, z, BYTES / 2, BYTES / 2);
    free(z);
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
    unsigned char *bytes = make_png(
        (raw_png){
            .width = 2, .height = 1, .depth = 8, .extra = extra, .extra_bytes = extra_bytes },
        row, 2, 1, &n);
    ck_assert_int_eq(decode(&decoder, bytes, n, true), LS_OK);
    ck_assert_int_eq(worst_difference(&decoder.image, 2, 1, (uint8_t[]){ 10, 10, 10, 20, 20, 20 }),
                     0);
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

/* PngSuite: "primary" holds all kinds, "primary_check" the same images as plain 8-bit files. */
START_TEST(png_suite_decodes_and_its_corrupt_files_do_not)
{
    const char *folder = trap_images();
    if (!folder) SKIP("no folder of decoder traps");
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
        if (!b) ls_context_clear_error(ctx); /* a few have no partner */
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

TEST_PROGRAM(decode_png)
{
    return RUN_SUITE("decode_png", png_depths_and_colours_give_the_image,
                     png_cut_or_damaged_anywhere_is_refused, png_bombs_and_oddities_are_refused,
                     png_that_swells_beyond_its_size_is_cut_off, png_of_empty_blocks_is_refused,
                     png_exif_chunk_is_honoured, png_suite_decodes_and_its_corrupt_files_do_not);
}
