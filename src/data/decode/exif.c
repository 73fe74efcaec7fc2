/* exif.c: the orientation of an image. Cameras store the sensor's rows and write the orientation
 * into an EXIF tag of the first directory, in an APP1 segment of JPEG or the eXIf chunk of PNG.
 * Damaged EXIF data are ignored, because no pixel depends on them. */
#include "data/decode/decoder.h"

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, TYPE_LONG = 4 };

/* A TIFF structure: byte order, offset of the first directory, its fields of 12 bytes. */
static int orientation_in_tiff(const uint8_t *tiff, size_t bytes)
{
    if (bytes < 8) return 1;
    const bool big = memcmp(tiff, "MM\0*", 4) == 0;
    if (!big && memcmp(tiff, "II*\0", 4) != 0) return 1;
    uint32_t (*const u16)(const uint8_t *) = big ? ls__be16 : ls__le16;
    uint32_t (*const u32)(const uint8_t *) = big ? ls__be32 : ls__le32;

    const size_t directory = u32(tiff + 4);
    if (directory > bytes - 2) return 1;
    const size_t n = u16(tiff + directory);
    for (size_t i = 0; i < n; i++) {
        const size_t at = directory + 2 + 12 * i;
        if (at + 12 > bytes) return 1;
        if (u16(tiff + at) != TAG_ORIENTATION) continue;
        const uint32_t type = u16(tiff + at + 2);
        const uint32_t value = type == TYPE_SHORT  ? u16(tiff + at + 8)
                               : type == TYPE_LONG ? u32(tiff + at + 8)
                                                   : 0;
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Segments: 0xff, any more 0xff, marker, length (its own two bytes included), data. Scans begin at
 * SOS, and EXIF stands before it. Bytes between segments are skipped, as libjpeg does. */
static int orientation_in_jpeg(const uint8_t *file, size_t bytes)
{
    enum { MARKER_APP1 = 0xe1, MARKER_SOS = 0xda, MARKER_EOI = 0xd9 };
    size_t at = 2;
    while (at + 4 <= bytes) {
        const int marker = file[at + 1];
        if (file[at] != 0xff || marker == 0xff || marker == 0) {
            at++;
            continue;
        }
        if (marker == MARKER_SOS || marker == MARKER_EOI) return 1;
        const size_t length = ls__be16(file + at + 2);
        if (length < 2 || length > bytes - at - 2) return 1;
        if (marker == MARKER_APP1 && length >= 8 && memcmp(file + at + 4, "Exif\0\0", 6) == 0)
            return orientation_in_tiff(file + at + 10, length - 8);
        at += 2 + length;
    }
    return 1;
}

static int orientation_in_png(const uint8_t *file, size_t bytes)
{
    size_t at = 8;
    while (bytes >= 12 && at <= bytes - 12) {
        const size_t length = ls__be32(file + at);
        if (length > bytes - at - 12) return 1;
        if (memcmp(file + at + 4, "eXIf", 4) == 0)
            return orientation_in_tiff(file + at + 8, length);
        at += 12 + length;
    }
    return 1;
}

/* Chunks: type, length, data, filled up to an even length. Some programs begin the data as in
 * JPEG. */
static int orientation_in_webp(const uint8_t *file, size_t bytes)
{
    size_t at = 12;
    while (bytes >= 8 && at <= bytes - 8) {
        const size_t length = ls__le32(file + at + 4);
        const uint8_t *data = file + at + 8;
        if (length > bytes - at - 8) return 1;
        const size_t n_prefix = length >= 6 && memcmp(data, "Exif\0", 6) == 0 ? 6 : 0;
        if (memcmp(file + at, "EXIF", 4) == 0)
            return orientation_in_tiff(data + n_prefix, length - n_prefix);
        at += 8 + length + length % 2;
    }
    return 1;
}

int ls__exif_orientation(const uint8_t *file, size_t bytes)
{
    if (bytes >= 2 && file[0] == 0xff && file[1] == 0xd8) return orientation_in_jpeg(file, bytes);
    if (bytes >= 8 && file[0] == 0x89 && file[1] == 'P') return orientation_in_png(file, bytes);
    if (bytes >= 12 && memcmp(file + 8, "WEBP", 4) == 0) return orientation_in_webp(file, bytes);
    return 1;
}

/* How to make the upright image: swap rows and columns, then mirror. Index = orientation. */
static const struct {
    bool transpose, mirror_rows, mirror_columns;
} turns[9] = {
    [2] = { false, false, true }, [3] = { false, true, true }, [4] = { false, true, false },
    [5] = { true, false, false }, [6] = { true, false, true }, [7] = { true, true, true },
    [8] = { true, true, false },
};

bool ls__exif_swaps_sides(int orientation)
{
    return turns[orientation].transpose;
}

static ls__window mirrored(int orientation, int64_t height, int64_t width, ls__window window)
{
    if (turns[orientation].mirror_rows) window.top = height - window.top - window.height;
    if (turns[orientation].mirror_columns) window.left = width - window.left - window.width;
    return window;
}

static ls__window transposed(int orientation, ls__window window)
{
    if (!turns[orientation].transpose) return window;
    return (ls__window){ window.left, window.top, window.width, window.height };
}

ls__window ls__exif_stored(int orientation, int64_t height, int64_t width,
                           const ls__window *upright)
{
    const ls__window all = transposed(orientation, (ls__window){ 0, 0, height, width });
    return transposed(orientation, mirrored(orientation, all.height, all.width, *upright));
}

/* The sizes of a turned image that was reduced must be multiples of its reduction. */
static void turn_source(ls__source *source, int orientation, int64_t height, int64_t width)
{
    const ls__window all =
        transposed(orientation, (ls__window){ 0, 0, source->height, source->width });
    const ls__window window =
        mirrored(orientation, all.height / source->reduction, all.width / source->reduction,
                 transposed(orientation, (ls__window){ source->top, source->left, height, width }));
    source->height = all.height;
    source->width = all.width;
    source->top = window.top;
    source->left = window.left;
}

ls_status ls__exif_turn(ls__decoder *decoder)
{
    const int orientation = decoder->orientation;
    if (orientation <= 1) return LS_OK;
    const ls__image *from = &decoder->image;
    const bool transpose = turns[orientation].transpose;
    const int64_t height = transpose ? from->width : from->height;
    const int64_t width = transpose ? from->height : from->width;
    if (!ls__image_reserve(decoder->ctx, &decoder->scratch, height, width, 3))
        return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory to turn the image");
    turn_source(&decoder->source, orientation, from->height, from->width);

    /* Steps in bytes through the stored image for one row and one column of the upright one. */
    const int64_t row_bytes = 3 * from->width;
    int64_t down = transpose ? 3 : row_bytes, right = transpose ? row_bytes : 3;
    const uint8_t *start = from->pixels;
    if (turns[orientation].mirror_rows) {
        start += (height - 1) * down;
        down = -down;
    }
    if (turns[orientation].mirror_columns) {
        start += (width - 1) * right;
        right = -right;
    }
    uint8_t *out = decoder->scratch.pixels;
    for (int64_t y = 0; y < height; y++) {
        const uint8_t *in = start + y * down;
        for (int64_t x = 0; x < width; x++, in += right, out += 3) {
            out[0] = in[0];
            out[1] = in[1];
            out[2] = in[2];
        }
    }
    const ls__image upright = decoder->scratch;
    decoder->scratch = decoder->image;
    decoder->image = upright;
    return LS_OK;
}
