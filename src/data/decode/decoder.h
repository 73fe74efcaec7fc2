/* decoder.h: from the bytes of a file to an image, one file at a time, in memory that is reused.
 *
 * Used by the library's own threads as well, so a failure is a status and a text in the decoder;
 * the context's error is never touched, only its allocator. */
#ifndef LS_DATA_DECODE_DECODER_H
#define LS_DATA_DECODE_DECODER_H

#include "data/decode/image.h"

enum { LS__MAX_FILE_BYTES = 1 << 30 }; /* an uncompressed image of LS__MAX_PIXELS */

/* What of an image is wanted, asked for when its size is known and its pixels are not. */
typedef struct ls__want {
    /* Of an upright image of that size: the part that will be looked at, which lies inside of it,
     * and how far it may be reduced: 1, 2, 4 or 8. LS_ERR_DATA, with a reason: it is of no use. */
    ls_status (*ask)(const void *arg, int64_t height, int64_t width, ls__window *part,
                     int *reduction, char reason[LS__REASON_SIZE]);
    const void *arg;
    /* The same file was decoded before without a complaint: what lies below the part need not be
     * checked for damage again. */
    bool known_whole;
} ls__want;

/* What one thread needs to decode images. Start with all zero but ctx, and max_pixels where it is
 * set. */
typedef struct ls__decoder {
    const ls_context *ctx;
    int64_t max_pixels;   /* a larger image is refused; 0 = LS_DEFAULT_MAX_PIXELS */
    const ls__want *want; /* NULL: all of it */
    const uint8_t *file;  /* the file's bytes: in the buffer, or somebody else's */
    size_t file_bytes;
    void *buffer;
    size_t buffer_capacity;
    ls__image image;   /* the result */
    ls__source source; /* its pixels and their place in the whole image */
    int orientation;   /* EXIF's, or 1 */
    ls__image spare;   /* a turned copy on its way, a row of CMYK */
    char reason[LS__REASON_SIZE];
} ls__decoder;

void ls__decoder_free(ls__decoder *decoder);

/* Statuses that speak of the image: a loader may go on without it. The others (no memory, no file
 * handles) speak of the machine. */
bool ls__is_bad_image(ls_status status);

/* Reads and decodes a file into decoder->source, RGB, at least what is wanted of it.
 * LS_ERR_NOT_FOUND and LS_ERR_IO: could not be read; LS_ERR_DATA: empty, damaged or not an image
 * that we know; LS_ERR_MEMORY; LS_ERR_DEVICE: no file handle to be had. The reason is a phrase
 * without the file's name: "truncated PNG file". */
ls_status ls__decode_file(ls__decoder *decoder, const char *path, bool honour_exif);

/* The same for the bytes of a file that lie in memory; they stay as they are. */
ls_status ls__decode_memory(ls__decoder *decoder, const void *file, size_t bytes, bool honour_exif);
/* The same for RGB pixels as a file holds them, which are turned upright. */
ls_status ls__decode_pixels(ls__decoder *decoder, const ls__image_view *stored, int orientation);
/* The first half of ls__decode_file: the file's bytes into decoder->file. */
ls_status ls__decoder_read(ls__decoder *decoder, const char *path);

/* Releases decoder->buffer. */
void ls__decoder_drop_buffer(ls__decoder *decoder);

/* "libjpeg-turbo 2.1.5": the decoders on which pixels may depend. */
const char *ls__decoders(void);

/* ---- For the decoders, one per format: from decoder->file to decoder->image, as stored. ---- */

ls_status ls__decode_jpeg(ls__decoder *decoder);
ls_status ls__decode_png(ls__decoder *decoder);
ls_status ls__decode_bmp(ls__decoder *decoder);
ls_status ls__decode_pnm(ls__decoder *decoder);

/* Keeps the reason and returns the status. */
ls_status ls__undecodable(ls__decoder *decoder, ls_status status, const char *format, ...)
    LS_PRINTF(3, 4);
/* Checks a size that a header claims; _begin then makes room for it in decoder->image, RGB. */
ls_status ls__decoder_check(ls__decoder *decoder, int64_t height, int64_t width);
ls_status ls__decoder_begin(ls__decoder *decoder, int64_t height, int64_t width);
/* For those that can decode a part: what is wanted of an image that is stored with that size. All
 * in pixels as stored and not reduced. */
ls_status ls__decoder_ask(ls__decoder *decoder, int64_t height, int64_t width, ls__window *part,
                          int *reduction);
/* Instead of _begin: room for a part, which lies at (top, left) of the reduced image. */
ls_status ls__decoder_begin_part(ls__decoder *decoder, const ls__window *part, int reduction);

/* The EXIF orientation, 1 to 8, in a JPEG or PNG file; 1 where there is none or it makes no sense.
 */
int ls__exif_orientation(const uint8_t *file, size_t bytes);
/* Turns decoder->image upright, and decoder->source's place with it. */
ls_status ls__exif_turn(ls__decoder *decoder);
/* Where a window of the upright image lies in the stored one, whose size is given. */
ls__window ls__exif_stored(int orientation, int64_t height, int64_t width,
                           const ls__window *upright);
bool ls__exif_swaps_sides(int orientation);

static inline uint32_t ls__be16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}
static inline uint32_t ls__be32(const uint8_t *p)
{
    return ls__be16(p) << 16 | ls__be16(p + 2);
}
static inline uint32_t ls__le16(const uint8_t *p)
{
    return (uint32_t)p[1] << 8 | p[0];
}
static inline uint32_t ls__le32(const uint8_t *p)
{
    return ls__le16(p + 2) << 16 | ls__le16(p);
}

#endif
