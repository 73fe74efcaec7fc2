/* decoder.h: decodes image files, one at a time, in memory that is reused: the probe reads the file
 * and its size, then a region of it is decoded. A failure is a status and a text in the decoder.
 * The library's own threads decode, too, so of the context only the allocator is used. */
#ifndef LS_DATA_DECODE_DECODER_H
#define LS_DATA_DECODE_DECODER_H

#include "data/decode/image.h"

enum { LS__MAX_FILE_BYTES = 1 << 30 }; /* an uncompressed image of LS__MAX_PIXELS */

/* For one thread. Start with all zero but ctx and, where there is a limit, max_pixels. */
typedef struct ls__decoder {
    const ls_context *ctx;
    int64_t max_pixels; /* a larger image is refused; 0 = LS_DEFAULT_MAX_PIXELS */
    ls_alpha alpha;     /* these two as in ls_loader_config */
    int depth;
    const uint8_t *file; /* the file's bytes: in the buffer, or borrowed; NULL: not read */
    size_t file_bytes;
    ls__buffer buffer;
    int orientation;  /* EXIF's, or 1 */
    bool is_cmyk;     /* a JPEG file of CMYK or YCCK, set by the probe */
    bool transparent; /* some pixel is not opaque, set by the probe */
    /* The smallest and largest sample of 16 bits, set by the probe; else, and in PNM files with a
     * maxval below 65535, 0. */
    uint32_t min_sample, max_sample;
    int64_t height, width; /* of the upright image, set by the probe */
    struct ls__jpeg *jpeg; /* a JPEG file between probe and decoding, else NULL */
    ls__image image;       /* the decoded pixels */
    ls__source source;     /* the same with their place in the whole image */
    ls__image scratch;     /* a copy while it is turned, a row of CMYK */
    char reason[LS__REASON_SIZE];
} ls__decoder;

void ls__decoder_free(ls__decoder *decoder);

/* Whether the status is about this image, and not about the machine (no memory, no file handles).
 * LS_ERR_DATA is about its contents; the others are about reading them, and may pass. */
bool ls__is_bad_image(ls_status status);

/* Reads a file and sets decoder->height and width. A JPEG file is read up to its pixels. The other
 * formats are decoded here, and always whole. LS_ERR_NOT_FOUND and LS_ERR_IO: could not be read, in
 * four attempts where the error may pass; LS_ERR_DATA: no regular file, empty, damaged, too large,
 * or not an image of a known format; LS_ERR_MEMORY; LS_ERR_DEVICE: no file handle left. The reason
 * does not name the file: "truncated PNG file". */
ls_status ls__decoder_probe(ls__decoder *decoder, const char *path, bool honour_exif);
/* The same for a file in memory, which is not changed and must stay until it is decoded. */
ls_status ls__decoder_probe_memory(ls__decoder *decoder, const void *file, size_t bytes,
                                   bool honour_exif);
/* The same for RGB pixels that are stored without a format: sets the upright size. */
ls_status ls__decoder_probe_pixels(ls__decoder *decoder, int64_t height, int64_t width,
                                   int orientation);

/* After a probe, once: decodes into decoder->source at least the region, RGB. NULL: the whole
 * image. Errors as the probe's; where the probe is not followed by this, the next probe or
 * ls__decoder_free cleans up. */
ls_status ls__decode_region(ls__decoder *decoder, const ls__region *region);
/* After ls__decoder_probe_pixels: turns a copy of these pixels upright, into decoder->source. */
ls_status ls__decode_pixels(ls__decoder *decoder, const ls__image_view *stored);

/* Reads a file into decoder->file. */
ls_status ls__decoder_read(ls__decoder *decoder, const char *path);

/* "JPEG pixels 3f2a..., WebP pixels 9c41...", the latter only if `webp`: digests of what the
 * libraries decode test images to. Equal texts stand for decoders with equal pixels. Computed by
 * the first call of a process; returns buffer. NULL if memory is short. */
enum { LS__DECODERS_SIZE = 96 };
#define LS__WEBP_DECODER ", WebP pixels "
const char *ls__decoders(bool webp, char buffer[LS__DECODERS_SIZE]);

/* "libjpeg-turbo 2.1.5": the version at compile time, because the library does not report its own.
 */
const char *ls__jpeg_version(void);
/* "libwebp 1.2.4": the version of the library that is loaded. */
enum { LS__WEBP_VERSION_SIZE = 32 };
void ls__webp_version(char out[LS__WEBP_VERSION_SIZE]);

/* ---- For the formats ---- */

/* Probes: each checks the size, and all but JPEG's decode decoder->file to decoder->image, as
 * stored. */
ls_status ls__jpeg_probe(ls__decoder *decoder);
ls_status ls__png_probe(ls__decoder *decoder);
ls_status ls__webp_probe(ls__decoder *decoder);
ls_status ls__bmp_probe(ls__decoder *decoder);
ls_status ls__pnm_probe(ls__decoder *decoder);
/* After its probe: decodes the region, which is one of the stored image. */
ls_status ls__jpeg_decode(ls__decoder *decoder, const ls__region *stored);
void ls__jpeg_close(ls__decoder *decoder);

/* Keeps the reason and returns the status. */
ls_status ls__undecodable(ls__decoder *decoder, ls_status status, const char *format, ...)
    LS_PRINTF(3, 4);
/* Checks a size that a header claims; decoder->source becomes the whole image. */
ls_status ls__decoder_check(ls__decoder *decoder, int64_t height, int64_t width);
/* After ls__decoder_check: makes room in decoder->image for the whole image, of 3 or 4 channels, or
 * for a window of the reduced image, RGB. */
ls_status ls__decoder_begin(ls__decoder *decoder, int channels);
ls_status ls__decoder_begin_window(ls__decoder *decoder, const ls__window *window, int reduction);

/* Turns n pixels RGBA into RGB in the same memory, as decoder->alpha says, and sets
 * decoder->transparent. */
void ls__decoder_compose(ls__decoder *decoder, int64_t n, uint8_t *pixels);
/* The shift by which the samples of 16 bits become 8 bits: those above 255 become 255. */
static inline int ls__decoder_shift(const ls__decoder *decoder)
{
    return decoder->depth > 0 ? decoder->depth - 8 : 8;
}

/* The EXIF orientation, 1 to 8, in a JPEG, PNG or WebP file; 1 where there is none or an invalid
 * one. */
int ls__exif_orientation(const uint8_t *file, size_t bytes);
/* Turns decoder->image upright, and the offsets and sizes in decoder->source. */
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
