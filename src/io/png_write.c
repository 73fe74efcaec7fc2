/* png_write.c: see png_write.h. The deflate stream (RFC 1951) stores the bytes without compression:
 * 16 images of 224 pixels are 2.4 MB. */
#include "io/png_write.h"

#include "base/crc.h"

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
    if (!out->failed)
        put_number(out, ls__crc_add(LS__CRC32, 0, out->data + begin, out->size - begin));
}

/* The rows, each after the number of its filter, 0 = none. */
static void put_rows(ls__bytes *rows, int64_t height, size_t row_bytes, const unsigned char *pixels)
{
    for (int64_t y = 0; y < height; y++) {
        ls__bytes_put(rows, "", 1);
        ls__bytes_put(rows, pixels + (size_t)y * row_bytes, row_bytes);
    }
}

/* The checksum Adler-32 (RFC 1950). */
static uint32_t adler32(const unsigned char *bytes, size_t size)
{
    enum { PRIME = 65521 }; /* the largest one below 2^16 */
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < size; i++) {
        a = (a + bytes[i]) % PRIME;
        b = (b + a) % PRIME;
    }
    return b << 16 | a;
}

/* A zlib stream of stored blocks. */
static void store(ls__bytes *out, const unsigned char *bytes, size_t size)
{
    enum { MAX_BLOCK = 65535 };
    static const unsigned char header[] = { 0x78, 0x01 }; /* deflate, a window of 32 KiB */
    ls__bytes_put(out, header, sizeof(header));
    size_t at = 0;
    do {
        const size_t n = size - at < MAX_BLOCK ? size - at : MAX_BLOCK;
        const unsigned char block[] = { at + n == size, n & 255, n >> 8, ~n & 255, ~n >> 8 & 255 };
        ls__bytes_put(out, block, sizeof(block));
        ls__bytes_put(out, bytes + at, n);
        at += n;
    } while (at < size);
    put_number(out, adler32(bytes, size));
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
    if (!rows.failed) store(&packed, rows.data, rows.size);
    ls__bytes_put(out, signature, sizeof(signature));
    put_chunk(out, "IHDR", header.data, header.size);
    put_chunk(out, "IDAT", packed.data, packed.size);
    put_chunk(out, "IEND", NULL, 0);
    out->failed |= header.failed || rows.failed || packed.failed;
    ls__bytes_free(&header);
    ls__bytes_free(&rows);
    ls__bytes_free(&packed);
}
