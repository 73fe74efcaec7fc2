/* image.h: pixels in memory, as the decoders write them and the transforms read them. */
#ifndef LS_DATA_DECODE_IMAGE_H
#define LS_DATA_DECODE_IMAGE_H

#include "base/alloc.h"
#include <lockstep/data.h>

enum {
    LS__REASON_SIZE = 256, /* text of an error, without the file's name */
    LS__MAX_PIXELS = LS_LARGEST_MAX_PIXELS,
    LS__KEEP_BYTES = 64 << 20 /* larger buffers are released after use */
};

/* Memory that grows. Begins with all zero. */
typedef struct ls__buffer {
    uint8_t *bytes;
    size_t capacity;
} ls__buffer;

/* Room for n bytes; the contents are lost. */
bool ls__buffer_reserve(const ls_context *ctx, ls__buffer *buffer, size_t n);
void ls__buffer_free(const ls_context *ctx, ls__buffer *buffer);

/* u8 [height,width,channels], rows without gaps, in memory that grows. */
typedef struct ls__image {
    uint8_t *pixels;
    size_t capacity;
    int64_t height, width;
    int channels;
} ls__image;

/* Room for an image of that size; its pixels are undefined. On failure the old one is gone. */
bool ls__image_reserve(const ls_context *ctx, ls__image *image, int64_t height, int64_t width,
                       int channels);
void ls__image_free(const ls_context *ctx, ls__image *image);

/* Borrowed pixels: u8 [height,width,channels], channels 1 or 3, rows row_bytes apart. */
typedef struct ls__image_view {
    const uint8_t *pixels;
    int64_t row_bytes, height, width;
    int channels;
} ls__image_view;

/* Whether no channel's samples differ by more than 2 of 255: one colour, also after a JPEG encoder
 * rounded it. */
bool ls__view_is_uniform(const ls__image_view *view);

/* A rectangle of an image. */
typedef struct ls__window {
    int64_t top, left, height, width;
} ls__window;

/* The pixels of an upright image that are to be decoded, at least. */
typedef struct ls__region {
    ls__window window; /* inside the image; in pixels that are not reduced */
    int reduction;     /* the image may be reduced by as much: 1, 2, 4 or 8 */
    bool known_whole; /* an earlier decode found no damage: data after the window are not checked */
} ls__region;

/* Decoded pixels of a window of an image, which may have been reduced. */
typedef struct ls__source {
    ls__image_view view;
    int64_t top, left;     /* of the view in the reduced image */
    int64_t height, width; /* of the whole image before it was reduced */
    int reduction; /* 1, 2, 4 or 8: a reduced pixel is the mean of a square of that side, or of the
                      rest of it at the image's ends */
} ls__source;

static inline ls__source ls__source_of_all(const ls__image_view *view)
{
    return (ls__source){ *view, 0, 0, view->height, view->width, 1 };
}
static inline ls__source ls__source_of_image(const ls__image *image)
{
    const int64_t row_bytes = image->width * image->channels;
    return ls__source_of_all(&(ls__image_view){ image->pixels, row_bytes, image->height,
                                                image->width, image->channels });
}

#endif
