/* bmp.c: Windows and OS/2 bitmaps, uncompressed: 1, 4 and 8 bits with a palette, 16 and 32 bits
 * with masks, 24 bits. Rows lie bottom up unless the height is negative, each padded to 4 bytes.
 * An alpha mask is read where the header has one. Microsoft, "Bitmap Storage" and "BITMAPV5HEADER".
 */
#include "data/decode/decoder.h"

enum {
    FILE_HEADER = 14,
    CORE_HEADER = 12,  /* OS/2: 16-bit sizes, palette colours of 3 bytes */
    INFO_HEADER = 40,  /* followed by masks when compression is BITFIELDS */
    MASKS_HEADER = 52, /* from this size on the header holds the masks itself, */
    ALPHA_HEADER = 56, /* and from this one on alpha's, which may be 0 */
    NOT_COMPRESSED = 0,
    BITFIELDS = 3
};

typedef struct bitmap {
    int64_t height, width, row_bytes;
    bool top_down;
    int bits;
    int channels;            /* of a decoded row: 4 with alpha, else 3 */
    uint32_t masks[4];       /* red, green, blue, alpha */
    uint8_t palette[256][3]; /* black where the file has no colour */
    const uint8_t *rows;
    void (*decode_row)(const struct bitmap *self, const uint8_t *in, uint8_t *rgb);
} bitmap;

static void row_of_palette(const bitmap *self, const uint8_t *in, uint8_t *out)
{
    const int bits = self->bits, max = (1 << bits) - 1;
    for (int64_t x = 0; x < self->width; x++) {
        const int64_t bit = x * bits;
        const int index = in[bit / 8] >> (8 - bits - (int)(bit % 8)) & max;
        for (int c = 0; c < 3; c++) out[3 * x + c] = self->palette[index][c];
    }
}

/* A masked value of n bits becomes 8 bits by v 255 / (2^n - 1), rounded. */
static void row_of_masks(const bitmap *self, const uint8_t *in, uint8_t *out)
{
    const int step = self->bits / 8;
    for (int c = 0; c < self->channels; c++) {
        const int shift = __builtin_ctz(self->masks[c]);
        const uint64_t max = self->masks[c] >> shift;
        for (int64_t x = 0; x < self->width; x++) {
            const uint32_t word = step == 2 ? ls__le16(in + 2 * x) : ls__le32(in + 4 * x);
            const uint64_t value = (word & self->masks[c]) >> shift;
            out[self->channels * x + c] = (uint8_t)((value * 255 + max / 2) / max);
        }
    }
}

static void row_of_bgr(const bitmap *self, const uint8_t *in, uint8_t *out)
{
    for (int64_t x = 0; x < self->width; x++)
        for (int c = 0; c < 3; c++) out[3 * x + c] = in[3 * x + 2 - c];
}

static ls_status read_palette(ls__decoder *decoder, bitmap *self, size_t at, size_t colour_bytes,
                              size_t end)
{
    const uint8_t *file = decoder->file;
    const size_t max = (size_t)1 << self->bits;
    size_t n = end > at ? (end - at) / colour_bytes : 0;
    if (n > max) n = max;
    if (n == 0) return ls__undecodable(decoder, LS_ERR_DATA, "damaged BMP: no palette");
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) self->palette[i][c] = file[at + i * colour_bytes + 2 - c];
    return LS_OK;
}

static ls_status read_masks(ls__decoder *decoder, bitmap *self, size_t header_bytes,
                            uint32_t compression)
{
    static const uint32_t masks16[3] = { 0x7c00, 0x03e0, 0x001f };
    static const uint32_t masks32[3] = { 0xff0000, 0x00ff00, 0x0000ff };
    for (int c = 0; c < 3; c++) {
        self->masks[c] = self->bits == 16 ? masks16[c] : masks32[c];
        if (compression != BITFIELDS) continue;
        const size_t at = FILE_HEADER + INFO_HEADER + 4 * (size_t)c;
        if (header_bytes < MASKS_HEADER && header_bytes != INFO_HEADER)
            return ls__undecodable(decoder, LS_ERR_DATA, "damaged BMP: no masks");
        if (at + 4 > decoder->file_bytes)
            return ls__undecodable(decoder, LS_ERR_DATA, "truncated BMP file");
        self->masks[c] = ls__le32(decoder->file + at);
        if (self->masks[c] == 0)
            return ls__undecodable(decoder, LS_ERR_DATA, "damaged BMP: an empty mask");
    }
    if (compression == BITFIELDS && header_bytes >= ALPHA_HEADER)
        self->masks[3] = ls__le32(decoder->file + FILE_HEADER + MASKS_HEADER);
    if (self->masks[3] != 0) self->channels = 4;
    return LS_OK;
}

static ls_status read_header(ls__decoder *decoder, bitmap *self)
{
    const uint8_t *file = decoder->file;
    const size_t bytes = decoder->file_bytes;
    if (bytes < FILE_HEADER + CORE_HEADER)
        return ls__undecodable(decoder, LS_ERR_DATA, "truncated BMP file");
    const size_t offset = ls__le32(file + 10), header_bytes = ls__le32(file + FILE_HEADER);
    if (header_bytes != CORE_HEADER && (header_bytes < INFO_HEADER || header_bytes > 1024))
        return ls__undecodable(decoder, LS_ERR_DATA, "BMP header of %zu bytes", header_bytes);
    if (bytes < FILE_HEADER + header_bytes)
        return ls__undecodable(decoder, LS_ERR_DATA, "truncated BMP file");

    const bool core = header_bytes == CORE_HEADER;
    uint32_t compression = NOT_COMPRESSED;
    if (core) {
        self->width = ls__le16(file + 18);
        self->height = ls__le16(file + 20);
        self->bits = (int)ls__le16(file + 24);
    } else {
        self->width = (int32_t)ls__le32(file + 18);
        self->height = (int32_t)ls__le32(file + 22);
        self->bits = (int)ls__le16(file + 28);
        compression = ls__le32(file + 30);
        self->top_down = self->height < 0;
        if (self->top_down) self->height = -self->height;
    }
    const bool masked = self->bits == 16 || self->bits == 32;
    if (compression != NOT_COMPRESSED && !(compression == BITFIELDS && masked))
        return ls__undecodable(decoder, LS_ERR_DATA, "compressed BMP (type %u) is not read",
                               compression);
    self->decode_row = masked ? row_of_masks : self->bits == 24 ? row_of_bgr : row_of_palette;
    if (masked) {
        LS_TRY(read_masks(decoder, self, header_bytes, compression));
    } else if (self->bits == 1 || self->bits == 4 || self->bits == 8) {
        const size_t end = offset < bytes ? offset : bytes;
        LS_TRY(read_palette(decoder, self, FILE_HEADER + header_bytes, core ? 3 : 4, end));
    } else if (self->bits != 24) {
        return ls__undecodable(decoder, LS_ERR_DATA, "BMP of %d bits per pixel", self->bits);
    }
    LS_TRY(ls__decoder_check(decoder, self->height, self->width));
    self->row_bytes = (self->width * self->bits + 31) / 32 * 4;
    if (offset > bytes || (int64_t)(bytes - offset) / self->row_bytes < self->height)
        return ls__undecodable(decoder, LS_ERR_DATA, "truncated BMP file");
    self->rows = file + offset;
    return LS_OK;
}

/* The rows with alpha become RGB. Programs that do not use alpha may leave it 0. */
static void compose(ls__decoder *decoder, int64_t n, uint8_t *pixels)
{
    uint8_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= pixels[4 * i + 3];
    for (int64_t i = 0; i < n && any == 0; i++) pixels[4 * i + 3] = 255;
    ls__decoder_compose(decoder, n, pixels);
}

ls_status ls__bmp_probe(ls__decoder *decoder)
{
    bitmap self = { .channels = 3 };
    ls__image *image = &decoder->image;
    LS_TRY(read_header(decoder, &self));
    LS_TRY(ls__decoder_begin(decoder, self.channels));
    for (int64_t y = 0; y < self.height; y++) {
        const int64_t from = self.top_down ? y : self.height - 1 - y;
        self.decode_row(&self, self.rows + from * self.row_bytes,
                        image->pixels + self.channels * y * self.width);
    }
    if (self.channels == 4) compose(decoder, self.height * self.width, image->pixels);
    image->channels = 3;
    return LS_OK;
}
