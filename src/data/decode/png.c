/* png.c: PNG through stb_image, after checks of our own.
 *
 * stb_image checks neither checksums nor the end of a palette (an index beyond it reads undefined
 * bytes of the stack), and keeps the name of an unknown chunk in a variable that all threads share.
 * So the chunks are checked first: all critical ones are known, their checksums are right, and IEND
 * is reached. A palette is filled up. Grey becomes RGB, 16 bits become 8, transparent pixels are
 * composed. */
#include "data/decode/decoder.h"

#include "base/crc.h"
#include <string.h>

/* stb_image has no argument for the allocator's state. The budget stops files whose data expand far
 * beyond the image that the header claims. */
typedef struct scope {
    const ls_context *ctx;
    size_t budget; /* largest single block that decoding may need */
    bool refused;  /* beyond the budget */
    bool starved;  /* no memory */
} scope;
static _Thread_local scope *current;

static void *scoped_realloc(void *old, size_t old_bytes, size_t bytes)
{
    if (bytes > current->budget) {
        current->refused = true;
        return NULL;
    }
    void *memory =
        old ? ls__realloc(current->ctx, old, old_bytes, bytes) : ls__alloc(current->ctx, bytes);
    if (!memory) current->starved = true;
    return memory;
}

static void scoped_free(void *memory)
{
    ls__free(current->ctx, memory);
}

#define STBI_ASSERT(x) ((void)sizeof(x)) /* the library never aborts */
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_MAX_DIMENSIONS               LS__MAX_PIXELS
#define STBI_MALLOC(bytes)                scoped_realloc(NULL, 0, bytes)
#define STBI_REALLOC_SIZED(p, old, bytes) scoped_realloc(p, old, bytes)
#define STBI_FREE(p)                      scoped_free(p)
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#pragma GCC diagnostic ignored "-Wunused-function" /* at the end of the file, hence no pop */
#include <stb/stb_image.h>

enum {
    SIGNATURE_BYTES = 8,
    CHUNK_BYTES = 12,
    HEADER_BYTES = 13,
    SPARE_DATA_BYTES = 1 << 16 /* compressed data that an image of any size may hold */
};
static const char too_much_data[] = "holds more data than its size allows";

typedef struct chunks {
    int64_t height, width;
    int depth, colour_type;
    size_t palette_at, palette_bytes; /* of its chunk's data; 0 = no palette */
    size_t data_bytes;                /* of all IDAT chunks */
    bool has_transparency;            /* a tRNS chunk */
} chunks;

/* One critical chunk, whose checksum is right. */
static ls_status check_chunk(ls__decoder *decoder, chunks *self, const char *type, size_t at,
                             size_t bytes)
{
    const uint8_t *data = decoder->file + at;
    if (memcmp(type, "IHDR", 4) == 0) {
        if (bytes != HEADER_BYTES)
            return ls__undecodable(decoder, LS_ERR_DATA, "damaged PNG: header of %zu bytes", bytes);
        self->width = ls__be32(data);
        self->height = ls__be32(data + 4);
        self->depth = data[8];
        self->colour_type = data[9];
    } else if (memcmp(type, "PLTE", 4) == 0) {
        self->palette_at = at;
        self->palette_bytes = bytes;
    } else if (memcmp(type, "IDAT", 4) == 0) {
        self->data_bytes += bytes;
    } else if (memcmp(type, "CgBI", 4) == 0) {
        return ls__undecodable(decoder, LS_ERR_DATA, "Apple's CgBI variant of PNG is not read");
    } else if (memcmp(type, "IEND", 4) != 0) {
        return ls__undecodable(decoder, LS_ERR_DATA, "damaged PNG: unknown critical chunk");
    }
    return LS_OK;
}

/* Chunks: length, type, data, checksum over type and data. Critical types begin with a capital. */
static ls_status check_chunks(ls__decoder *decoder, chunks *self)
{
    const uint8_t *file = decoder->file;
    const size_t bytes = decoder->file_bytes;
    size_t at = SIGNATURE_BYTES;
    for (bool first = true, last = false; !last; first = false) {
        if (bytes - at < CHUNK_BYTES)
            return ls__undecodable(decoder, LS_ERR_DATA, "truncated PNG file");
        const size_t length = ls__be32(file + at);
        const char *type = (const char *)file + at + 4;
        const bool critical = (type[0] & 32) == 0;
        if (memcmp(type, "tRNS", 4) == 0) self->has_transparency = true;
        if (first && memcmp(type, "IHDR", 4) != 0 && memcmp(type, "CgBI", 4) != 0)
            return ls__undecodable(decoder, LS_ERR_DATA, "damaged PNG: does not begin with IHDR");
        if (length > bytes - at - CHUNK_BYTES)
            return ls__undecodable(decoder, LS_ERR_DATA, "truncated PNG file");
        if (critical) {
            if (ls__crc_add(LS__CRC32, 0, file + at + 4, length + 4) !=
                ls__be32(file + at + 8 + length))
                return ls__undecodable(decoder, LS_ERR_DATA, "damaged PNG: wrong checksum");
            LS_TRY(check_chunk(decoder, self, type, at + 8, length));
        }
        last = memcmp(type, "IEND", 4) == 0;
        at += CHUNK_BYTES + length;
    }
    return LS_OK;
}

/* Copies the file with a palette of 256 colours, the added ones black. The chunk's checksum, now
 * wrong, is not read again. */
static ls_status fill_palette(ls__decoder *decoder, const chunks *self)
{
    enum { INDEXED = 3, FULL_BYTES = 3 * 256 };
    if (self->colour_type != INDEXED || self->palette_bytes >= FULL_BYTES) return LS_OK;
    if (self->palette_bytes == 0 || self->palette_bytes % 3 != 0)
        return ls__undecodable(decoder, LS_ERR_DATA, "damaged PNG: palette of %zu bytes",
                               self->palette_bytes);
    const size_t added = FULL_BYTES - self->palette_bytes;
    const size_t bytes = decoder->file_bytes + added;
    uint8_t *filled = ls__alloc(decoder->ctx, bytes);
    if (!filled) return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory for a palette");
    const size_t end = self->palette_at + self->palette_bytes;
    memcpy(filled, decoder->file, end);
    memset(filled + end, 0, added);
    memcpy(filled + end + added, decoder->file + end, decoder->file_bytes - end);
    uint8_t *length = filled + self->palette_at - 8;
    length[2] = FULL_BYTES >> 8;
    length[3] = FULL_BYTES & 255;
    ls__free(decoder->ctx, decoder->buffer.bytes); /* it may hold the file */
    decoder->buffer = (ls__buffer){ filled, bytes };
    decoder->file = filled;
    decoder->file_bytes = bytes;
    return LS_OK;
}

/* Samples of 16 bits become bytes in the same memory. */
static void reduce(ls__decoder *decoder, int64_t n_pixels, int channels, uint16_t *samples)
{
    const int shift = ls__decoder_shift(decoder);
    uint8_t *out = (uint8_t *)samples;
    uint16_t min = UINT16_MAX, max = 0;
    for (int64_t i = 0; i < n_pixels * channels; i++) {
        const uint16_t sample = samples[i];
        const bool is_alpha = channels == 4 && i % 4 == 3;
        const int byte = sample >> (is_alpha ? 8 : shift);
        if (!is_alpha && sample < min) min = sample;
        if (!is_alpha && sample > max) max = sample;
        out[i] = (uint8_t)(byte < 255 ? byte : 255);
    }
    decoder->min_sample = min;
    decoder->max_sample = max;
}

/* The file's pixels, RGB, in a block of the decoder's allocator, of *capacity bytes; NULL on
 * failure. */
static uint8_t *decode(ls__decoder *decoder, const chunks *self, size_t *capacity)
{
    enum { HAS_ALPHA = 4 }; /* a bit of the colour type */
    const int channels = self->colour_type & HAS_ALPHA || self->has_transparency ? 4 : 3;
    const int bytes = (int)decoder->file_bytes;
    const int64_t n_pixels = self->height * self->width;
    int width, height, stored;
    uint8_t *pixels = NULL;
    *capacity = (size_t)(channels * n_pixels) * (self->depth == 16 ? 2 : 1);
    if (self->depth == 16) {
        uint16_t *samples =
            stbi_load_16_from_memory(decoder->file, bytes, &width, &height, &stored, channels);
        if (samples) reduce(decoder, n_pixels, channels, samples);
        pixels = (uint8_t *)samples;
    } else {
        pixels = stbi_load_from_memory(decoder->file, bytes, &width, &height, &stored, channels);
    }
    if (pixels && channels == 4) ls__decoder_compose(decoder, n_pixels, pixels);
    return pixels;
}

ls_status ls__png_probe(ls__decoder *decoder)
{
    chunks self = { 0 };
    LS_TRY(check_chunks(decoder, &self));
    LS_TRY(fill_palette(decoder, &self));
    LS_TRY(ls__decoder_check(decoder, self.height, self.width));
    ls__image_free(decoder->ctx, &decoder->image); /* stb_image's block takes its place */

    /* At most 4 channels and a filter byte per row. stb_image doubles blocks. */
    const size_t n_pixels = (size_t)self.height * (size_t)self.width;
    const size_t image_bytes = (self.depth == 16 ? 8 : 4) * n_pixels + 8 * (size_t)self.height;
    /* No encoder doubles the image's size, but a megabyte of empty deflate blocks takes 2 s. */
    if (self.data_bytes > 2 * image_bytes + SPARE_DATA_BYTES)
        return ls__undecodable(decoder, LS_ERR_DATA, "damaged PNG: %s", too_much_data);
    scope here = { .ctx = decoder->ctx, .budget = 2 * (image_bytes + decoder->file_bytes) + 4096 };
    current = &here;
    size_t capacity;
    uint8_t *pixels = decode(decoder, &self, &capacity);
    current = NULL;
    if (pixels) {
        decoder->image = (ls__image){ pixels, capacity, self.height, self.width, 3 };
        return LS_OK;
    }
    if (here.starved) return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory to decode a PNG");
    return ls__undecodable(decoder, LS_ERR_DATA, "damaged PNG: %s",
                           here.refused ? too_much_data : stbi_failure_reason());
}
