/* Decoding BMP and PNM against pixels that are known, and files that are no images. */
#include "decode_support.h"
#include "../suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

START_TEST(bmp_variants_give_the_image)
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
        { .bmp = { .header = 40, .width = 2, .height = 2, .bits = 24 },
          .rows = { 7, 8, 9, 10, 11, 12, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0 },
          .row_bytes = 8,
          .rgb = { 3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10 } },
        { .bmp = { .header = 40, .width = 2, .height = -2, .bits = 24 },
          .rows = { 7, 8, 9, 10, 11, 12, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0 },
          .row_bytes = 8,
          .rgb = { 9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4 } },
        { .bmp = { .header = 40, .width = 2, .height = 2, .bits = 32 },
          .rows = { 7, 8, 9, 0, 10, 11, 12, 0, 1, 2, 3, 99, 4, 5, 6, 99 },
          .row_bytes = 8,
          .rgb = { 3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10 } },
        { .bmp = { .header = 40,
                   .width = 2,
                   .height = 2,
                   .bits = 1,
                   .tables = quads,
                   .table_bytes = 8 },
          .rows = { 0x40, 0, 0, 0, 0x80, 0, 0, 0 },
          .row_bytes = 4,
          .rgb = { 40, 50, 60, 10, 20, 30, 10, 20, 30, 40, 50, 60 } },
        { .bmp = { .header = 40,
                   .width = 2,
                   .height = 2,
                   .bits = 4,
                   .tables = quads,
                   .table_bytes = 8 },
          .rows = { 0x01, 0, 0, 0, 0x1f, 0, 0, 0 }, /* 15 is beyond the palette */
          .row_bytes = 4,
          .rgb = { 40, 50, 60, 0, 0, 0, 10, 20, 30, 40, 50, 60 } },
        { .bmp = { .header = 12,
                   .width = 2,
                   .height = 2,
                   .bits = 8,
                   .tables = triples,
                   .table_bytes = 6 },
          .rows = { 0, 1, 0, 0, 1, 0, 0, 0 },
          .row_bytes = 4,
          .rgb = { 40, 50, 60, 10, 20, 30, 10, 20, 30, 40, 50, 60 } },
        { .bmp = { .header = 40, .width = 2, .height = 2, .bits = 16 },
          .rows = { 0x1f, 0, 0xe0, 0x03, 0, 0x7c, 0xff, 0x7f },
          .row_bytes = 4,
          .rgb = { 255, 0, 0, 255, 255, 255, 0, 0, 255, 0, 255, 0 } },
        { .bmp = { .header = 40,
                   .width = 2,
                   .height = 2,
                   .bits = 16,
                   .compression = 3,
                   .tables = masks565,
                   .table_bytes = 12 },
          .rows = { 0x1f, 0, 0xe0, 0x07, 0, 0xf8, 0x20, 0x04 },
          .row_bytes = 4,
          .rgb = { 255, 0, 0, 0, 134, 0, 0, 0, 255, 0, 255, 0 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char bytes[256];
        const size_t n = make_bmp(cases[i].bmp, cases[i].rows, cases[i].row_bytes, bytes);
        ck_assert_msg(decode(&decoder, bytes, n, false) == LS_OK, "case %zu: %s", i,
                      decoder.reason);
        const uint8_t *p = decoder.image.pixels;
        ck_assert_msg(worst_difference(&decoder.image, 2, 2, cases[i].rgb) == 0,
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
    const size_t n = make_bmp(
        (raw_bmp){
            .header = 40, .width = 2, .height = 2, .bits = 8, .tables = quads, .table_bytes = 8 },
        rows, 4, bytes);
    for (size_t k = 2; k < n; k++) {
        const unsigned char before = bytes[k];
        for (int value = 0; value < 256; value++) {
            bytes[k] = (unsigned char)value;
            const ls_status status = decode(&decoder, bytes, n, true);
            ck_assert(status == LS_OK || status == LS_ERR_DATA);
        }
        bytes[k] = before;
    }
    const size_t m = make_bmp((raw_bmp){ .header = 40,
                                         .width = 2,
                                         .height = 2,
                                         .bits = 8,
                                         .compression = 1,
                                         .tables = quads,
                                         .table_bytes = 8 },
                              rows, 4, bytes);
    expect_bad(&decoder, bytes, m, "compressed BMP");
    put_le(bytes + 22, 4, 0x80000000u); /* height -2^31 */
    put_le(bytes + 30, 4, 0);
    expect_bad(&decoder, bytes, m, "pixels");
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(pnm_variants_give_the_image)
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
        ck_assert_msg(worst_difference(&decoder.image, 1, 2, cases[i].rgb) == 0, "case %zu", i);
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
    expect_bad(&decoder, "RIFF\0\0\0\0WEBPVP8 ", 16, "damaged WebP");
    expect_bad(&decoder, "GIF89a....", 10, "GIF");
    expect_bad(&decoder, "II*\0....", 8, "TIFF");
    expect_bad(&decoder, "<!DOCTYPE html>", 15, "HTML");
    expect_bad(&decoder, "hello, world", 12, "not a JPEG, PNG, WebP, BMP or PNM");
    expect_bad(&decoder, "\xff", 1, "not a JPEG, PNG, WebP, BMP or PNM");
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(files_that_cannot_be_read_say_why)
{
    char *folder = new_folder();
    ls_context *ctx = open_context();
    uint8_t *rgb = draw_image(9, 7, 3, 1);
    write_png(path_in(folder, "really.jpg"), 9, 7, 3, rgb); /* the content decides */
    ls_tensor *image = ls_image_load(ctx, path_in(folder, "really.jpg"), false);
    expect_ok(ctx);
    ck_assert_mem_eq(ls_tensor_data(image), rgb, 9 * 7 * 3);
    ck_assert_int_eq(ls_tensor_shape(image)->dims[0], 9);

    ck_assert_ptr_null(ls_image_load(ctx, path_in(folder, "none.jpg"), false));
    expect_error(ctx, LS_ERR_NOT_FOUND, "none.jpg", "No such file");
    make_folder(path_in(folder, "folder.jpg"));
    ck_assert_ptr_null(ls_image_load(ctx, path_in(folder, "folder.jpg"), false));
    expect_error(ctx, LS_ERR_DATA, "folder.jpg", "not a regular file");
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

TEST_PROGRAM(decode)
{
    return RUN_SUITE("decode", bmp_variants_give_the_image, bmp_headers_of_any_content_do_no_harm,
                     pnm_variants_give_the_image, other_kinds_are_named,
                     files_that_cannot_be_read_say_why);
}
