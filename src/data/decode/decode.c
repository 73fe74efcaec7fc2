/* decode.c: reads a file, tells its format by its first bytes, and hands it to the format's
 * decoder.
 */
#include "data/decode/decoder.h"

#include <string.h>

void ls__decoder_free(ls__decoder *decoder)
{
    ls__free(decoder->ctx, decoder->buffer);
    ls__image_free(decoder->ctx, &decoder->image);
    ls__image_free(decoder->ctx, &decoder->spare);
    *decoder = (ls__decoder){ .ctx = decoder->ctx };
}

ls_status ls__decoder_ask(ls__decoder *decoder, int64_t height, int64_t width, ls__window *part,
                          int *reduction)
{
    LS_TRY(ls__decoder_check(decoder, height, width));
    decoder->source = (ls__source){ .height = height, .width = width };
    *part = (ls__window){ 0, 0, height, width };
    *reduction = 1;
    const ls__want *want = decoder->want;
    if (!want) return LS_OK;
    const int orientation = decoder->orientation;
    const bool swap = ls__exif_swaps_sides(orientation);
    ls__window upright;
    LS_TRY(want->ask(want->arg, swap ? width : height, swap ? height : width, &upright, reduction,
                     decoder->reason));
    *part = ls__exif_stored(orientation, height, width, &upright);
    /* From the far side, reduced pixels lie elsewhere unless they fit in. */
    while (orientation > 1 && (height % *reduction != 0 || width % *reduction != 0))
        *reduction /= 2;
    return LS_OK;
}

/* What stands at the front of files that bear an image's extension. Formats that we do not read are
 * here so that the error can say what the file really is. */
static const struct {
    const char *magic;
    size_t offset, n;
    const char *name;
    ls_status (*decode)(ls__decoder *decoder); /* NULL: not read */
} formats[] = {
    { "\xff\xd8\xff", 0, 3, "JPEG", ls__decode_jpeg },
    { "\x89PNG\r\n\x1a\n", 0, 8, "PNG", ls__decode_png },
    { "BM", 0, 2, "BMP", ls__decode_bmp },
    { "P2", 0, 2, "PNM", ls__decode_pnm },
    { "P3", 0, 2, "PNM", ls__decode_pnm },
    { "P5", 0, 2, "PNM", ls__decode_pnm },
    { "P6", 0, 2, "PNM", ls__decode_pnm },
    { "WEBP", 8, 4, "WebP", NULL },
    { "GIF8", 0, 4, "GIF", NULL },
    { "II*\0", 0, 4, "TIFF", NULL },
    { "MM\0*", 0, 4, "TIFF", NULL },
    { "ftyp", 4, 4, "HEIF, AVIF or MP4", NULL },
    { "\xff\x0a", 0, 2, "JPEG XL", NULL },
    { "\0\0\0\x0cjP", 0, 6, "JPEG 2000", NULL },
    { "8BPS", 0, 4, "Photoshop", NULL },
    { "%PDF", 0, 4, "PDF", NULL },
    { "P1", 0, 2, "PBM", NULL },
    { "P4", 0, 2, "PBM", NULL },
    { "<", 0, 1, "HTML, XML or SVG", NULL },
};

/* decoder->image, as stored, becomes decoder->source's pixels, upright. */
static ls_status turn(ls__decoder *decoder)
{
    LS_TRY(ls__exif_turn(decoder));
    const ls__image *image = &decoder->image;
    decoder->source.view = (ls__image_view){ image->pixels, image->width * image->channels,
                                             image->height, image->width, image->channels };
    return LS_OK;
}

static ls_status decode_bytes(ls__decoder *decoder, bool honour_exif)
{
    const size_t bytes = decoder->file_bytes;
    if (bytes == 0) return ls__undecodable(decoder, LS_ERR_DATA, "empty file");
    size_t i = 0;
    const size_t n = sizeof(formats) / sizeof(formats[0]);
    while (i < n &&
           (bytes < formats[i].offset + formats[i].n ||
            memcmp(decoder->file + formats[i].offset, formats[i].magic, formats[i].n) != 0))
        i++;
    if (i == n) return ls__undecodable(decoder, LS_ERR_DATA, "not a JPEG, PNG, BMP or PNM file");
    if (!formats[i].decode)
        return ls__undecodable(decoder, LS_ERR_DATA,
                               "a file of type %s, wanted JPEG, PNG, BMP or PNM", formats[i].name);
    decoder->orientation = honour_exif ? ls__exif_orientation(decoder->file, bytes) : 1;
    LS_TRY(formats[i].decode(decoder));
    return turn(decoder);
}

/* One huge image should not hold its memory for the rest of the run. */
static void give_back(ls__decoder *decoder)
{
    if (decoder->buffer_capacity > LS__KEEP_BYTES) ls__decoder_drop_buffer(decoder);
    if (decoder->spare.capacity > LS__KEEP_BYTES) ls__image_free(decoder->ctx, &decoder->spare);
    decoder->file = NULL;
    decoder->file_bytes = 0;
}

/* decoder->image outlives its decoding, so the last one's memory is given back here. */
static void begin(ls__decoder *decoder)
{
    if (decoder->image.capacity > LS__KEEP_BYTES) ls__image_free(decoder->ctx, &decoder->image);
}

ls_status ls__decode_file(ls__decoder *decoder, const char *path, bool honour_exif)
{
    begin(decoder);
    ls_status status = ls__decoder_read(decoder, path);
    if (status == LS_OK) status = decode_bytes(decoder, honour_exif);
    give_back(decoder);
    return status;
}

ls_status ls__decode_memory(ls__decoder *decoder, const void *file, size_t bytes, bool honour_exif)
{
    begin(decoder);
    decoder->file = file;
    decoder->file_bytes = bytes;
    const ls_status status = decode_bytes(decoder, honour_exif);
    give_back(decoder);
    return status;
}

ls_status ls__decode_pixels(ls__decoder *decoder, const ls__image_view *stored, int orientation)
{
    begin(decoder);
    ls_status status = ls__decoder_begin(decoder, stored->height, stored->width);
    if (status == LS_OK) {
        for (int64_t y = 0; y < stored->height; y++)
            memcpy(decoder->image.pixels + y * 3 * stored->width,
                   stored->pixels + y * stored->row_bytes, (size_t)(3 * stored->width));
        decoder->orientation = orientation;
        status = turn(decoder);
    }
    give_back(decoder);
    return status;
}
