/* test_png_write.c: PNG files of the library's writer, read by zlib. */
#include "io/png_write.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static uint32_t be32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The data of the chunk at *at, whose type and checksum are compared; moves *at behind it. */
static const unsigned char *next_chunk(const ls__bytes *file, size_t *at, const char *type,
                                       size_t *bytes)
{
    const unsigned char *chunk = file->data + *at;
    *bytes = be32(chunk);
    ck_assert_uint_le(*at + 12 + *bytes, file->size);
    ck_assert(memcmp(chunk + 4, type, 4) == 0);
    ck_assert_uint_eq(be32(chunk + 8 + *bytes), crc32_z(0, chunk + 4, *bytes + 4));
    *at += 12 + *bytes;
    return chunk + 8;
}

static void check(ls_context *ctx, int64_t height, int64_t width, int64_t channels)
{
    const size_t row = (size_t)(width * channels), n = row * (size_t)height;
    unsigned char *pixels = malloc(n), *rows = malloc(n + (size_t)height);
    for (size_t i = 0; i < n; i++) pixels[i] = (unsigned char)(i * i / 7 + i);
    ls__bytes file = { .ctx = ctx };
    ls__png_write(&file, height, width, channels, pixels);
    ck_assert(!file.failed && memcmp(file.data, "\x89PNG\r\n\x1a\n", 8) == 0);
    size_t at = 8, bytes;
    const unsigned char *header = next_chunk(&file, &at, "IHDR", &bytes);
    ck_assert(bytes == 13 && be32(header) == width && be32(header + 4) == height);
    ck_assert(header[8] == 8 && header[9] == (channels == 1 ? 0 : 2));
    const unsigned char *data = next_chunk(&file, &at, "IDAT", &bytes);
    uLongf size = (uLongf)n + (uLongf)height;
    ck_assert_int_eq(uncompress(rows, &size, data, (uLong)bytes), Z_OK); /* compares Adler-32 */
    ck_assert_uint_eq(size, n + (size_t)height);
    for (size_t y = 0; y < (size_t)height; y++) {
        ck_assert_int_eq(rows[y * (row + 1)], 0);
        ck_assert(memcmp(rows + y * (row + 1) + 1, pixels + y * row, row) == 0);
    }
    next_chunk(&file, &at, "IEND", &bytes);
    ck_assert(bytes == 0 && at == file.size);
    ls__bytes_free(&file);
    free(pixels);
    free(rows);
}

/* A block of deflate stores up to 65535 bytes. */
START_TEST(sizes_around_a_block)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    check(ctx, 1, 1, 1);
    check(ctx, 3, 5, 3);
    check(ctx, 1, 65533, 1);
    check(ctx, 1, 65534, 1);
    check(ctx, 1, 65535, 1);
    check(ctx, 2, 65534, 1);
    check(ctx, 256, 256, 3);
    expect_ok(ctx);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(png_write)
{
    return RUN_SUITE("png_write", sizes_around_a_block);
}
