/* png_write.c: see png_write.h. Pixels are compressed by zlib without filters. */
#include "io/png_write.h"

#include <string.h>
#include <zlib.h>

static void put_number(ls__bytes *out, uint32_t n)
{
    const unsigned char bytes[] = { (unsigned char)(n >> 24), (unsigned char)(n >> 16),
                                    (unsigned char)(n >> 8), (unsigned char)n };
    ls__bytes_put(out, bytes, sizeof(bytes));
}

/* Length, type, data, and the CRC of type and data. */
static void put_chunk(ls__bytes *out, const char type[5], const unsigned char *data, size_t size)
{
    put_number(out, (uint32_t)size);
    const size_t begin = out->size;
    ls__bytes_put(out, type, 4);
    ls__bytes_put(out, data, size);
    if (!out->failed) put_number(out, (uint32_t)crc32_z(0, out->data + begin, out->size - begin));
}

/* The rows, each after the number of its filter, 0 = none. */
static void put_rows(ls__bytes *rows, int64_t height, size_t row_bytes, const unsigned char *pixels)
{
    for (int64_t y = 0; y < height; y++) {
        ls__bytes_put(rows, "", 1);
        ls__bytes_put(rows, pixels + (size_t)y * row_bytes, row_bytes);
    }
}

static void compress_rows(ls__bytes *out, const ls__bytes *rows)
{
    uLongf size = compressBound(rows->size);
    unsigned char *to = ls__bytes_extend(out, size);
    if (!to) return;
    out->failed |= compress(to, &size, rows->data, rows->size) != Z_OK;
    out->size = size;
}

void ls__png_write(ls__bytes *out, int64_t height, int64_t width, int64_t channels,
                   const unsigned char *pixels)
{
    enum { BIT_DEPTH = 8, GREY = 0, RGB = 2 };
    static const unsigned char signature[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n' };
    ls__bytes header = { .ctx = out->ctx }, rows = header, packed = header;
    put_number(&header, (uint32_t)width);
    put_number(&header, (uint32_t)height);
    const unsigned char rest[] = { BIT_DEPTH, channels == 1 ? GREY : RGB, 0, 0, 0 };
    ls__bytes_put(&header, rest, sizeof(rest));
    put_rows(&rows, height, (size_t)(width * channels), pixels);
    if (!rows.failed) compress_rows(&packed, &rows);
    ls__bytes_put(out, signature, sizeof(signature));
    put_chunk(out, "IHDR", header.data, header.size);
    put_chunk(out, "IDAT", packed.data, packed.size);
    put_chunk(out, "IEND", NULL, 0);
    out->failed |= header.failed || rows.failed || packed.failed;
    ls__bytes_free(&header);
    ls__bytes_free(&rows);
    ls__bytes_free(&packed);
}
