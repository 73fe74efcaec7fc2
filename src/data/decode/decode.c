/* decode.c: finds a file's format by its first bytes, calls that format's probe, which decodes all
 * formats but JPEG, and turns the image upright. */
#include "data/decode/decoder.h"

#include <string.h>

/* The first bytes of files that have an image's extension. Formats that are not read are listed so
 * that the error can name the real format of the file. */
#define CONVERT "; ImageMagick converts it: mogrify -format png FILE"
#ifdef LOCKSTEP_MINIMAL
#define READABLE "JPEG, PNG, BMP or PNM"
#define WEBP     NULL, CONVERT ", or use a build without LOCKSTEP_MINIMAL"
#else
#define READABLE "JPEG, PNG, WebP, BMP or PNM"
#define WEBP     ls__webp_probe, NULL
#endif

static const struct {
    const char *magic;
    size_t offset, n;
    const char *name;
    ls_status (*probe)(ls__decoder *decoder); /* NULL: not read */
    const char *advice;                       /* then: the way out */
} formats[] = {
    { "\xff\xd8\xff", 0, 3, "JPEG", ls__jpeg_probe, NULL },
    { "\x89PNG\r\n\x1a\n", 0, 8, "PNG", ls__png_probe, NULL },
    { "BM", 0, 2, "BMP", ls__bmp_probe, NULL },
    { "P2", 0, 2, "PNM", ls__pnm_probe, NULL },
    { "P3", 0, 2, "PNM", ls__pnm_probe, NULL },
    { "P5", 0, 2, "PNM", ls__pnm_probe, NULL },
    { "P6", 0, 2, "PNM", ls__pnm_probe, NULL },
    { "WEBP", 8, 4, "WebP", WEBP },
    { "GIF8", 0, 4, "GIF", NULL, CONVERT },
    { "II*\0", 0, 4, "TIFF", NULL, CONVERT },
    { "MM\0*", 0, 4, "TIFF", NULL, CONVERT },
    { "ftyp", 4, 4, "HEIF, AVIF or MP4", NULL, CONVERT },
    { "\xff\x0a", 0, 2, "JPEG XL", NULL, CONVERT },
    { "\0\0\0\x0cjP", 0, 6, "JPEG 2000", NULL, CONVERT },
    { "8BPS", 0, 4, "Photoshop", NULL, CONVERT },
    { "%PDF", 0, 4, "PDF", NULL, "" },
    { "P1", 0, 2, "PBM", NULL, CONVERT },
    { "P4", 0, 2, "PBM", NULL, CONVERT },
    { "<", 0, 1, "HTML, XML or SVG", NULL, "" },
};

void ls__decoder_free(ls__decoder *decoder)
{
    ls__jpeg_close(decoder);
    ls__buffer_free(decoder->ctx, &decoder->buffer);
    ls__image_free(decoder->ctx, &decoder->image);
    ls__image_free(decoder->ctx, &decoder->scratch);
    *decoder = (ls__decoder){ .ctx = decoder->ctx };
}

/* Ends the last image, whose pixels were borrowed until now. A huge one is freed. */
static void begin(ls__decoder *decoder)
{
    ls__jpeg_close(decoder);
    decoder->is_cmyk = decoder->transparent = false;
    decoder->min_sample = decoder->max_sample = 0;
    if (decoder->image.capacity > LS__KEEP_BYTES) ls__image_free(decoder->ctx, &decoder->image);
}

/* Releases all but the image. */
static void end(ls__decoder *decoder)
{
    ls__jpeg_close(decoder);
    if (decoder->buffer.capacity > LS__KEEP_BYTES) ls__buffer_free(decoder->ctx, &decoder->buffer);
    if (decoder->scratch.capacity > LS__KEEP_BYTES) ls__image_free(decoder->ctx, &decoder->scratch);
    decoder->file = NULL;
    decoder->file_bytes = 0;
}

static void set_orientation(ls__decoder *decoder, int orientation)
{
    const ls__source *stored = &decoder->source;
    const bool swap = ls__exif_swaps_sides(orientation);
    decoder->orientation = orientation;
    decoder->height = swap ? stored->width : stored->height;
    decoder->width = swap ? stored->height : stored->width;
}

static ls_status probe_bytes(ls__decoder *decoder, bool honour_exif)
{
    const size_t bytes = decoder->file_bytes;
    if (bytes == 0) return ls__undecodable(decoder, LS_ERR_DATA, "empty file");
    size_t i = 0;
    const size_t n = sizeof(formats) / sizeof(formats[0]);
    while (i < n &&
           (bytes < formats[i].offset + formats[i].n ||
            memcmp(decoder->file + formats[i].offset, formats[i].magic, formats[i].n) != 0))
        i++;
    if (i == n) return ls__undecodable(decoder, LS_ERR_DATA, "not a " READABLE " file");
    if (!formats[i].probe)
        return ls__undecodable(decoder, LS_ERR_DATA, "a file of type %s, expected " READABLE "%s",
                               formats[i].name, formats[i].advice);
    const int orientation = honour_exif ? ls__exif_orientation(decoder->file, bytes) : 1;
    LS_TRY(formats[i].probe(decoder));
    set_orientation(decoder, orientation);
    return LS_OK;
}

ls_status ls__decoder_probe_memory(ls__decoder *decoder, const void *file, size_t bytes,
                                   bool honour_exif)
{
    begin(decoder);
    decoder->file = file;
    decoder->file_bytes = bytes;
    const ls_status status = probe_bytes(decoder, honour_exif);
    if (status != LS_OK) end(decoder);
    return status;
}

ls_status ls__decoder_probe(ls__decoder *decoder, const char *path, bool honour_exif)
{
    LS_TRY(ls__decoder_read(decoder, path));
    return ls__decoder_probe_memory(decoder, decoder->file, decoder->file_bytes, honour_exif);
}

ls_status ls__decoder_probe_pixels(ls__decoder *decoder, int64_t height, int64_t width,
                                   int orientation)
{
    begin(decoder);
    LS_TRY(ls__decoder_check(decoder, height, width));
    set_orientation(decoder, orientation);
    return LS_OK;
}

static ls__region stored_region(const ls__decoder *decoder, const ls__region *upright)
{
    const int64_t height = decoder->source.height, width = decoder->source.width;
    const int orientation = decoder->orientation;
    if (!upright) return (ls__region){ { 0, 0, height, width }, 1, false };
    ls__region out = *upright;
    out.window = ls__exif_stored(orientation, height, width, &upright->window);
    /* Reduced pixels of a turned image match only where its sides are multiples of the reduction.
     */
    while (orientation > 1 && (height % out.reduction != 0 || width % out.reduction != 0))
        out.reduction /= 2;
    return out;
}

ls_status ls__decode_region(ls__decoder *decoder, const ls__region *region)
{
    ls_status status = LS_OK;
    if (decoder->jpeg) {
        const ls__region stored = stored_region(decoder, region);
        status = ls__jpeg_decode(decoder, &stored);
    }
    if (status == LS_OK) status = ls__exif_turn(decoder);
    decoder->source.view = ls__source_of_image(&decoder->image).view;
    end(decoder);
    return status;
}

ls_status ls__decode_pixels(ls__decoder *decoder, const ls__image_view *stored)
{
    LS_TRY(ls__decoder_begin(decoder, 3));
    for (int64_t y = 0; y < stored->height; y++)
        memcpy(decoder->image.pixels + y * 3 * stored->width,
               stored->pixels + y * stored->row_bytes, (size_t)(3 * stored->width));
    return ls__decode_region(decoder, NULL);
}
