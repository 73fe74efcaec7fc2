/* corpus_images.c: image files of each kind, from synthetic images. */
#include "corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void make_jpegs(void)
{
    static const struct {
        const char *name;
        int height, width;
        jpeg_options options;
    } all[] = {
        { "420", 33, 37, { .quality = 60 } },
        { "422_turned", 19, 40, { .down = 1, .orientation = 6, .quality = 60 } },
        { "444_restart", 17, 24, { .across = 1, .down = 1, .restart = 1, .quality = 60 } },
        { "410", 30, 60, { .across = 4, .down = 2, .quality = 60 } },
        { "grey", 9, 30, { .channels = 1 } },
        { "cmyk", 16, 20, { .channels = 4, .adobe = true, .quality = 60 } },
        { "progressive", 33, 20, { .progressive = true, .quality = 60 } },
        { "unfinished", 20, 33, { .progressive = true, .unfinished = true, .quality = 60 } },
        { "separate",
          20,
          20,
          { .separate = true, .quality = 60, .orientation = 8, .big_endian = true } },
        { "arithmetic", 20, 20, { .arithmetic = true, .progressive = true, .quality = 60 } },
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const int channels = all[i].options.channels ? all[i].options.channels : 3;
        uint8_t *pixels = draw_image(all[i].height, all[i].width, channels, 1);
        size_t n;
        unsigned char *bytes = make_jpeg(all[i].height, all[i].width, pixels, all[i].options, &n);
        put("jpeg", all[i].name, bytes, n);
        free(bytes), free(pixels);
    }
}

enum { MAX_PNG = 1024 };

static uint8_t *put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) *at++ = (uint8_t)(value >> (24 - 8 * i));
    return at;
}

/* Without its checksum, which the target repairs. */
static uint8_t *put_chunk(uint8_t *at, const char *type, const uint8_t *data, uint32_t n)
{
    at = put32(at, n);
    memcpy(at, type, 4);
    if (n > 0) memcpy(at + 4, data, n);
    return put32(at + 4 + n, 0);
}

/* A PNG of 8 x 8 pixels with this compressed data. */
static void put_png(const char *name, int depth, int colour, bool interlaced, const uint8_t *data,
                    uint32_t n)
{
    enum { SIDE = 8 };
    static const uint8_t palette[] = { 0, 0, 0, 255, 0, 0, 0, 255, 0, 9, 9, 9 };
    uint8_t file[MAX_PNG], header[13] = { 0 }, *at = file + 8;
    memcpy(file, "\x89PNG\r\n\x1a\n", 8);
    put32(put32(header, SIDE), SIDE);
    header[8] = (uint8_t)depth, header[9] = (uint8_t)colour, header[12] = interlaced;
    at = put_chunk(at, "IHDR", header, sizeof(header));
    if (colour == 3) at = put_chunk(at, "PLTE", palette, sizeof(palette));
    if (colour == 3) at = put_chunk(at, "tRNS", palette, 3);
    at = put_chunk(at, "IDAT", data, n);
    at = put_chunk(at, "IEND", NULL, 0);
    put("png", name, file, (size_t)(at - file));
}

/* With n bytes of rows in one block that is stored, not compressed. */
static void make_stored_png(const char *name, int depth, int colour, bool interlaced, uint32_t n)
{
    uint8_t data[MAX_PNG] = { 0x78, 0x01, 1, (uint8_t)n, (uint8_t)(n >> 8) };
    data[5] = (uint8_t)~data[3], data[6] = (uint8_t)~data[4];
    for (uint32_t i = 0; i < n; i++) data[7 + i] = i % 5;
    put_png(name, depth, colour, interlaced, data, 7 + n + 4);
}

/* As zlib compresses 8 rows of random RGB pixels: a block with Huffman codes of its own, which
 * stb_image_write does not make. */
static const uint8_t dynamic_codes[] = {
    0x78, 0xda, 0x35, 0x4e, 0x39, 0x12, 0x00, 0x31, 0x08, 0x72, 0xfc, 0xff, 0xc3, 0xac, 0xa9,
    0x79, 0x09, 0xd5, 0x0a, 0x6e, 0xd2, 0xc8, 0x3d, 0x29, 0xcc, 0x3d, 0x0e, 0x95, 0x6b, 0x41,
    0x64, 0x0f, 0x38, 0xc6, 0x64, 0xcc, 0x3f, 0xc5, 0xa9, 0xd1, 0x9e, 0x57, 0x33, 0x09, 0x06,
    0x7a, 0x04, 0x18, 0x6c, 0x16, 0xaf, 0x67, 0x52, 0xca, 0xe6, 0xcd, 0x8b, 0xee, 0x24, 0xc8,
    0x46, 0x22, 0xca, 0xfa, 0x4a, 0x57, 0x5c, 0xbb, 0x74, 0xcc, 0x9e, 0x22, 0x4a, 0x41, 0xbd,
    0x53, 0xc8, 0x2c, 0x20, 0x21, 0x93, 0xf2, 0x07, 0x3e, 0x69, 0x1d, 0x9e, 0x65
};

void make_pngs(void)
{
    for (int channels = 1; channels <= 4; channels++) {
        uint8_t *pixels = draw_image(12, 17, channels, 2);
        char name[32];
        snprintf(name, sizeof(name), "%d_channels", channels);
        put("png", name, "", 0);
        write_png(path_in(corpus_root, "png/%s", name), 12, 17, channels, pixels);
        free(pixels);
    }
    make_stored_png("1_bit", 1, 0, false, 8 * 2);
    make_stored_png("16_bits", 16, 2, false, 8 * 49);
    make_stored_png("palette", 2, 3, false, 8 * 3);
    make_stored_png("interlaced", 8, 6, true, 15 + 64 * 4);
    put_png("dynamic_codes", 8, 2, false, dynamic_codes, sizeof(dynamic_codes));
}

static void put_le(uint8_t *at, int n, uint32_t value)
{
    for (int i = 0; i < n; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static void make_bmp(const char *name, int bits, int height, uint32_t compression, uint32_t n_rest)
{
    uint8_t file[1024] = "BM";
    const uint32_t offset = 14 + 40 + n_rest, row_bytes = (uint32_t)(9 * bits + 31) / 32 * 4;
    const uint32_t size = offset + row_bytes * (uint32_t)abs(height);
    for (uint32_t i = 54; i < size; i++) file[i] = (uint8_t)(i * 7);
    put_le(file + 2, 4, size);
    put_le(file + 10, 4, offset);
    put_le(file + 14, 4, 40);
    put_le(file + 18, 4, 9);
    put_le(file + 22, 4, (uint32_t)height);
    put_le(file + 26, 2, 1);
    put_le(file + 28, 2, (uint32_t)bits);
    put_le(file + 30, 4, compression);
    if (compression == 3)
        for (int c = 0; c < 3; c++) put_le(file + 54 + 4 * c, 4, 0x1fu << 5 * c);
    put("bmp", name, file, size);
}

void make_bmps(void)
{
    make_bmp("1_bit", 1, 5, 0, 8);
    make_bmp("4_bits", 4, 5, 0, 64);
    make_bmp("8_bits", 8, -5, 0, 40);
    make_bmp("16_bits", 16, 4, 0, 0);
    make_bmp("16_bits_masks", 16, 4, 3, 12);
    make_bmp("24_bits", 24, 5, 0, 0);
    make_bmp("32_bits_masks", 32, -4, 3, 12);
    static const uint8_t core[] = { 'B', 'M', 0, 0, 0, 0, 0, 0,  0, 0, 26, 0, 0, 0, 12, 0, 0,
                                    0,   2,   0, 1, 0, 1, 0, 24, 0, 1, 2,  3, 4, 5, 6,  0, 0 };
    put("bmp", "core", core, sizeof(core));
}

/* Those of the decoder's test. */
void make_webps(void)
{
    static const char *const names[] = { "lossy_17x33", "lossless_17x33", "palette",
                                         "alpha_lossy", "alpha_lossless", "animated",
                                         "cut_pixels" };
    ls_context *ctx = ls_context_open(NULL);
    ls_tensor_file *file =
        ls_tensor_file_open(ctx, LOCKSTEP_SOURCE_DIR "/tests/fixtures/webp.safetensors");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[64];
        snprintf(name, sizeof(name), "webp/%s/file", names[i]);
        ls_tensor *bytes = ls_tensor_file_load(file, name);
        expect_ok(ctx);
        put("webp", names[i], ls_tensor_data_const(bytes), ls_tensor_bytes(bytes));
    }
    ls_context_close(&ctx);
}

void make_pnms(void)
{
    PUT_TEXT("pnm", "p2", "P2 # grey\n3 2\n15\n0 1 2\n13 14 15\n");
    PUT_TEXT("pnm", "p3", "P3\n2 2\n255\n1 2 3 4 5 6\n7 8 9 250 251 252\n");
    PUT_TEXT("pnm", "p5", "P5\n3 2\n255\nabcdef");
    PUT_TEXT("pnm", "p5_16_bits", "P5\n2 2\n65535\naabbccdd");
    PUT_TEXT("pnm", "p6", "P6\n#\n2 2 99\nabcdefghijkl");
}
