/* test_transparency.c: transparent pixels, and samples of 16 bits, in files of all formats. */
#include "data/dataset/packs/pack.h"
#include "decode_support.h"
#include "support.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- Making files ---- */

static uint8_t *put_be(uint8_t *out, uint32_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--) *out++ = (uint8_t)(value >> 8 * i);
    return out;
}

static uint8_t *put_chunk(uint8_t *out, const char *type, const void *data, size_t n)
{
    out = put_be(out, (uint32_t)n, 4);
    memcpy(out, type, 4);
    if (n) memcpy(out + 4, data, n);
    const uint32_t crc = (uint32_t)crc32(0, out, (uInt)(n + 4));
    return put_be(out + 4 + n, crc, 4);
}

typedef struct png {
    int height, width, depth, colour_type; /* 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA */
    size_t row_bytes;
    const uint8_t *rows;
    size_t n_palette, n_transparency; /* bytes */
    const uint8_t *palette, *transparency;
} png;

/* Returns the number of bytes. */
static size_t make_png(const png *p, uint8_t out[4096])
{
    uint8_t raw[2048], packed[2048], header[13];
    uint8_t *end = raw;
    uLongf n_packed = sizeof(packed);
    for (int y = 0; y < p->height; y++, end += p->row_bytes) {
        *end++ = 0; /* no filter */
        memcpy(end, p->rows + (size_t)y * p->row_bytes, p->row_bytes);
    }
    ck_assert_int_eq(compress(packed, &n_packed, raw, (uLong)(end - raw)), Z_OK);
    end = put_be(put_be(header, (uint32_t)p->width, 4), (uint32_t)p->height, 4);
    const uint8_t rest[] = { (uint8_t)p->depth, (uint8_t)p->colour_type, 0, 0, 0 };
    memcpy(end, rest, sizeof(rest));
    memcpy(out, "\x89PNG\r\n\x1a\n", 8);
    end = put_chunk(out + 8, "IHDR", header, sizeof(header));
    if (p->palette) end = put_chunk(end, "PLTE", p->palette, p->n_palette);
    if (p->transparency) end = put_chunk(end, "tRNS", p->transparency, p->n_transparency);
    end = put_chunk(end, "IDAT", packed, n_packed);
    return (size_t)(put_chunk(end, "IEND", NULL, 0) - out);
}

typedef struct wanted {
    uint8_t white[6], black[6], ignored[6]; /* two pixels */
    bool transparent;
} wanted;

static void check_alpha(ls__decoder *decoder, const char *what, const uint8_t *file, size_t n,
                        const wanted *w)
{
    const uint8_t *const pixels[] = { w->white, w->black, w->ignored };
    for (int alpha = LS_ALPHA_WHITE; alpha <= LS_ALPHA_IGNORE; alpha++) {
        decoder->alpha = (ls_alpha)alpha;
        ck_assert_msg(decode(decoder, file, n, false) == LS_OK, "%s: %s", what, decoder->reason);
        ck_assert_int_eq(decoder->image.channels, 3);
        ck_assert_msg(worst_difference(&decoder->image, 1, 2, pixels[alpha]) == 0,
                      "%s, alpha %d: %d %d %d, %d %d %d", what, alpha, decoder->image.pixels[0],
                      decoder->image.pixels[1], decoder->image.pixels[2], decoder->image.pixels[3],
                      decoder->image.pixels[4], decoder->image.pixels[5]);
        ck_assert_msg(decoder->transparent == w->transparent, "%s: transparent", what);
    }
    decoder->alpha = LS_ALPHA_WHITE;
}

#define BYTES(...)                                                                                 \
    (const uint8_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* 128 of 255: (c 128 + 255 127 + 127) / 255. */
START_TEST(png_files_are_composed)
{
    const struct {
        const char *what;
        png file;
        wanted wanted;
    } cases[] = {
        { "RGBA, transparent",
          { 1, 2, 8, 6, 8, (const uint8_t[]){ 10, 20, 30, 128, 200, 100, 50, 0 }, 0, 0, 0, 0 },
          { { 132, 137, 142, 255, 255, 255 },
            { 5, 10, 15, 0, 0, 0 },
            { 10, 20, 30, 200, 100, 50 },
            true } },
        { "RGBA, opaque",
          { 1, 2, 8, 6, 8, (const uint8_t[]){ 10, 20, 30, 255, 200, 100, 50, 255 }, 0, 0, 0, 0 },
          { { 10, 20, 30, 200, 100, 50 },
            { 10, 20, 30, 200, 100, 50 },
            { 10, 20, 30, 200, 100, 50 },
            false } },
        { "grey and alpha",
          { 1, 2, 8, 4, 4, (const uint8_t[]){ 10, 128, 0, 255 }, 0, 0, 0, 0 },
          { { 132, 132, 132, 0, 0, 0 }, { 5, 5, 5, 0, 0, 0 }, { 10, 10, 10, 0, 0, 0 }, true } },
        { "grey of 4 bits with a transparent value",
          { 1, 2, 4, 0, 1, (const uint8_t[]){ 0x3f }, 0, 2, 0, (const uint8_t[]){ 0, 3 } },
          { { 255, 255, 255, 255, 255, 255 },
            { 0, 0, 0, 255, 255, 255 },
            { 51, 51, 51, 255, 255, 255 },
            true } },
        { "RGB with a transparent colour",
          { 1, 2, 8, 2, 6, (const uint8_t[]){ 1, 2, 3, 1, 2, 4 }, 0, 6, 0,
            (const uint8_t[]){ 0, 1, 0, 2, 0, 4 } },
          { { 1, 2, 3, 255, 255, 255 }, { 1, 2, 3, 0, 0, 0 }, { 1, 2, 3, 1, 2, 4 }, true } },
        { "palette, a transparent colour",
          { 1, 2, 8, 3, 2, (const uint8_t[]){ 1, 0 }, 6, 1, (const uint8_t[]){ 9, 8, 7, 6, 5, 4 },
            (const uint8_t[]){ 128 } },
          { { 6, 5, 4, 132, 131, 131 }, { 6, 5, 4, 5, 4, 4 }, { 6, 5, 4, 9, 8, 7 }, true } },
        { "palette, opaque",
          { 1, 2, 8, 3, 2, (const uint8_t[]){ 1, 0 }, 6, 2, (const uint8_t[]){ 9, 8, 7, 6, 5, 4 },
            (const uint8_t[]){ 255, 255 } },
          { { 6, 5, 4, 9, 8, 7 }, { 6, 5, 4, 9, 8, 7 }, { 6, 5, 4, 9, 8, 7 }, false } },
        { "RGBA of 16 bits",
          { 1, 2, 16, 6, 16,
            (const uint8_t[]){ 10, 99, 20, 99, 30, 99, 128, 9, 1, 255, 2, 255, 3, 255, 255, 255 },
            0, 0, 0, 0 },
          { { 132, 137, 142, 1, 2, 3 }, { 5, 10, 15, 1, 2, 3 }, { 10, 20, 30, 1, 2, 3 }, true } },
    };
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t file[4096];
        const size_t n = make_png(&cases[i].file, file);
        check_alpha(&decoder, cases[i].what, file, n, &cases[i].wanted);
    }
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* A bitmap of two pixels of 32 bits with a BITMAPV3INFOHEADER: masks of red, green, blue, alpha. */
static size_t make_bmp(uint32_t alpha_mask, const uint8_t bgra[8], uint8_t out[128])
{
    const uint32_t masks[4] = { 0xff0000, 0xff00, 0xff, alpha_mask };
    const uint32_t header[] = { 56, 2, 1, 1 | 32 << 16, 3, 8, 0, 0, 0, 0 };
    const size_t n = 14 + 56 + 8;
    memset(out, 0, n);
    memcpy(out, "BM", 2);
    out[2] = (uint8_t)n;
    out[10] = 14 + 56;
    memcpy(out + 14, header, sizeof(header));
    memcpy(out + 14 + 40, masks, sizeof(masks));
    memcpy(out + 14 + 56, bgra, 8);
    return n;
}

START_TEST(bmp_files_are_composed)
{
    static const struct {
        uint32_t mask;
        uint8_t bgra[8];
        wanted wanted;
    } cases[] = {
        { 0xff000000,
          { 30, 20, 10, 128, 50, 100, 200, 255 },
          { { 132, 137, 142, 200, 100, 50 },
            { 5, 10, 15, 200, 100, 50 },
            { 10, 20, 30, 200, 100, 50 },
            true } },
        { 0, /* the fourth byte is unused */
          { 30, 20, 10, 128, 50, 100, 200, 255 },
          { { 10, 20, 30, 200, 100, 50 },
            { 10, 20, 30, 200, 100, 50 },
            { 10, 20, 30, 200, 100, 50 },
            false } },
        { 0xff000000, /* alpha is 0 everywhere: a program that does not use it */
          { 30, 20, 10, 0, 50, 100, 200, 0 },
          { { 10, 20, 30, 200, 100, 50 },
            { 10, 20, 30, 200, 100, 50 },
            { 10, 20, 30, 200, 100, 50 },
            false } },
    };
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t file[128];
        const size_t n = make_bmp(cases[i].mask, cases[i].bgra, file);
        check_alpha(&decoder, "BMP", file, n, &cases[i].wanted);
    }
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* ---- 16 bits ---- */

static void check_depth(ls__decoder *decoder, int depth, const uint8_t *file, size_t n,
                        const uint8_t rgb[6], uint32_t min, uint32_t max)
{
    decoder->depth = depth;
    ck_assert_msg(decode(decoder, file, n, false) == LS_OK, "%s", decoder->reason);
    ck_assert_msg(worst_difference(&decoder->image, 1, 2, rgb) == 0, "depth %d: %d, %d", depth,
                  decoder->image.pixels[0], decoder->image.pixels[3]);
    ck_assert_int_eq(decoder->min_sample, min);
    ck_assert_int_eq(decoder->max_sample, max);
}

START_TEST(samples_of_16_bits_use_their_depth)
{
    const uint8_t rows[] = { 2, 88, 8, 151 }; /* 600 and 2199 */
    const png grey = { 1, 2, 16, 0, 4, rows, 0, 0, 0, 0 };
    uint8_t file[4096];
    size_t n = make_png(&grey, file);
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    check_depth(&decoder, 0, file, n, BYTES(2, 2, 2, 8, 8, 8), 600, 2199);
    check_depth(&decoder, 16, file, n, BYTES(2, 2, 2, 8, 8, 8), 600, 2199);
    check_depth(&decoder, 12, file, n, BYTES(37, 37, 37, 137, 137, 137), 600, 2199);
    check_depth(&decoder, 10, file, n, BYTES(150, 150, 150, 255, 255, 255), 600, 2199);

    static const char pgm[] = "P5 2 1 65535 \x02\x58\x08\x97";
    n = sizeof(pgm) - 1;
    check_depth(&decoder, 0, (const uint8_t *)pgm, n, BYTES(2, 2, 2, 9, 9, 9), 600, 2199);
    check_depth(&decoder, 12, (const uint8_t *)pgm, n, BYTES(37, 37, 37, 137, 137, 137), 600, 2199);
    check_depth(&decoder, 10, (const uint8_t *)pgm, n, BYTES(150, 150, 150, 255, 255, 255), 600,
                2199);
    static const char ppm[] = "P3 2 1 4095 0 600 4095 2199 4095 1";
    n = sizeof(ppm) - 1;
    check_depth(&decoder, 0, (const uint8_t *)ppm, n, BYTES(0, 37, 255, 137, 255, 0), 0, 0);

    /* 8 bits do not have another depth */
    static const char eight[] = "P5 2 1 255 \x10\xff";
    check_depth(&decoder, 12, (const uint8_t *)eight, 13, BYTES(16, 16, 16, 255, 255, 255), 0, 0);
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* ---- Loaders and packs ---- */

/* An image folder in "train" with one transparent PNG file in each of two classes. */
static char *write_folder(void)
{
    const png file = { 1, 2, 8, 6, 8, (const uint8_t[]){ 10, 20, 30, 128, 200, 100, 50, 0 },
                       0, 0, 0, 0 };
    uint8_t bytes[4096];
    const size_t n = make_png(&file, bytes);
    char *folder = new_folder();
    make_folder(path_in(folder, "a"));
    make_folder(path_in(folder, "b"));
    write_file(path_in(folder, "a/1.png"), bytes, n);
    write_file(path_in(folder, "b/1.png"), bytes, n);
    return folder;
}

static uint8_t first_byte(ls_context *ctx, const char *dir, ls_alpha alpha)
{
    ls_dataset *data = ls_image_folder_open(ctx, dir);
    ls_loader *loader =
        ls_loader_open(data, &(ls_loader_config){ .batch_size = 1, .alpha = alpha });
    ls_batch batch;
    expect_ok(ctx);
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
    ck_assert(ls_loader_next(loader, &batch));
    const uint8_t out = *(const uint8_t *)ls_tensor_data_const(batch.images);
    ls_loader_close(&loader);
    ls_dataset_close(&data);
    return out;
}

START_TEST(packs_of_pixels_keep_how_they_were_decoded)
{
    char *folder = write_folder();
    ls_context *ctx = open_context();
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    const ls_pack_split split = { "", data };
    const char *const black = strdup(path_in(folder, "black.pack"));
    const char *const files = strdup(path_in(folder, "files.pack"));
    const ls_pack_config config = { .pixels = true, .alpha = LS_ALPHA_BLACK };
    ck_assert_int_eq(ls_pack_write(ctx, black, 1, &split, &config, NULL), LS_OK);
    ck_assert_int_eq(ls_pack_write(ctx, files, 1, &split, NULL, NULL), LS_OK);
    ck_assert_int_eq(first_byte(ctx, folder, LS_ALPHA_WHITE), 132);
    ck_assert_int_eq(first_byte(ctx, folder, LS_ALPHA_BLACK), 5);
    ck_assert_int_eq(first_byte(ctx, files, LS_ALPHA_IGNORE), 10);
    ck_assert_int_eq(first_byte(ctx, black, LS_ALPHA_BLACK), 5);

    ls_dataset *packed = ls_image_folder_open(ctx, black);
    ck_assert_ptr_null(ls_loader_open(packed, &(ls_loader_config){ .batch_size = 1 }));
    expect_error(ctx, LS_ERR_INVALID, "alpha is white and depth 16, but the pixels of '",
                 "alpha black and depth 16");
    /* The header of older versions, which ignored alpha. */
    const ls_pack_config ignoring = { .pixels = true, .alpha = LS_ALPHA_IGNORE };
    const char *const old = path_in(folder, "old.pack");
    ls__pack_header header;
    ck_assert_int_eq(ls_pack_write(ctx, old, 1, &split, &ignoring, NULL), LS_OK);
    FILE *file = fopen(old, "rb");
    ck_assert_uint_eq(fread(&header, sizeof(header), 1, file), 1);
    fclose(file);
    ck_assert_uint_eq(header.alpha, 0);
    ck_assert_int_eq(first_byte(ctx, old, LS_ALPHA_IGNORE), 10);

    const ls_pack_config wrong[] = { { .alpha = LS_ALPHA_BLACK },
                                     { .depth = 12 },
                                     { .pixels = true, .depth = 8 },
                                     { .pixels = true, .alpha = (ls_alpha)3 } };
    for (int i = 0; i < 4; i++)
        expect_failure(ls_pack_write(ctx, path_in(folder, "wrong"), 1, &split, &wrong[i], NULL),
                       ctx, LS_ERR_INVALID, "ls_pack_write: alpha");
    ls_context_close(&ctx);
    free((char *)black);
    free((char *)files);
    remove_folder(folder);
}
END_TEST

/* 4x4 RGBA of one colour, whose left half has another alpha than the other one. */
static void write_halves(const char *path, uint8_t colour, uint8_t left, uint8_t right)
{
    uint8_t pixels[4 * 4 * 4];
    for (int i = 0; i < 16; i++)
        for (int c = 0; c < 4; c++) pixels[4 * i + c] = c < 3 ? colour : i % 4 < 2 ? left : right;
    write_png(path, 4, 4, 4, pixels);
}

START_TEST(image_info_finds_one_colour)
{
    static const struct {
        uint8_t colour, left, right;
        bool uniform[3]; /* by ls_alpha */
    } cases[] = {
        { 255, 255, 0, { true, false, true } }, /* white on white */
        { 0, 255, 0, { false, true, true } },   /* black on black */
        { 90, 255, 0, { false, false, true } }, /* grey, visible on both */
        { 90, 255, 255, { true, true, true } }, /* opaque */
        { 254, 100, 0, { true, false, true } }, /* a difference of less than 3 of 255 */
        { 90, 0, 0, { true, true, true } },     /* transparent everywhere */
    };
    char *folder = new_folder();
    ls_context *ctx = open_context();
    make_folder(path_in(folder, "a"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        write_halves(path_in(folder, "a/%d.png", (int)i), cases[i].colour, cases[i].left,
                     cases[i].right);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_image_info info;
        ck_assert_int_eq(ls_dataset_image_info(data, (int64_t)i, &info), LS_OK);
        for (int k = 0; k < 3; k++)
            ck_assert_msg(info.uniform[k] == cases[i].uniform[k], "case %zu alpha %d", i, k);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(image_info_says_what_was_found)
{
    char *folder = write_folder();
    ls_context *ctx = open_context();
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ls_image_info info;
    ck_assert_int_eq(ls_dataset_image_info(data, 0, &info), LS_OK);
    ck_assert(info.transparent && info.max_sample == 0);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(pixels_have_no_alpha_or_depth)
{
    const uint8_t pixels[12] = { 0 };
    const int32_t label = 0;
    ls_context *ctx = open_context();
    ls_dataset *data = ls_dataset_from_memory(ctx, pixels, LS_SHAPE(1, 2, 2, 3), &label, 1);
    static const struct {
        ls_loader_config config;
        const char *word;
    } cases[] = {
        { { .batch_size = 1, .alpha = LS_ALPHA_BLACK },
          "alpha is black, but the data in memory are" },
        { { .batch_size = 1, .depth = 12 }, "depth is set, but the data in memory are" },
        { { .batch_size = 1, .depth = 8 }, "depth is 8, expected 9 to 16" },
        { { .batch_size = 1, .depth = 17 }, "depth is 17, expected 9 to 16" },
        { { .batch_size = 1, .alpha = (ls_alpha)-1 }, "alpha is" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_ptr_null(ls_loader_open(data, &cases[i].config));
        expect_error(ctx, LS_ERR_INVALID, cases[i].word);
    }
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(transparency)
{
    return RUN_SUITE("transparency", png_files_are_composed, bmp_files_are_composed,
                     samples_of_16_bits_use_their_depth, packs_of_pixels_keep_how_they_were_decoded,
                     image_info_finds_one_colour, image_info_says_what_was_found,
                     pixels_have_no_alpha_or_depth);
}
