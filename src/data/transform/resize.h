/* resize.h: antialiased bilinear resize, bit for bit as BILINEAR of Pillow 9.4 to 12.2. */
#ifndef LS_DATA_TRANSFORM_RESIZE_H
#define LS_DATA_TRANSFORM_RESIZE_H

#include "base/alloc.h"
#include "base/strict_math.h"

/* Pixels of somebody else: u8 [height,width,channels], channels 1 or 3, rows row_bytes apart. */
typedef struct ls__view {
    const uint8_t *pixels;
    int64_t row_bytes, height, width;
    int channels;
} ls__view;

/* A rectangle of an image. */
typedef struct ls__window {
    int64_t top, left, height, width;
} ls__window;

/* Pixels that are a part of an image, which may have been reduced. */
typedef struct ls__part {
    ls__view view;
    int64_t top, left;     /* of the view in the reduced image */
    int64_t height, width; /* of the whole image before it was reduced */
    int reduction; /* 1, 2, 4 or 8: a reduced pixel is the mean of a square of that side; where the
                      image's sides are no multiples, the last ones are of less */
} ls__part;

static inline ls__part ls__part_of_all(const ls__view *view)
{
    return (ls__part){ *view, 0, 0, view->height, view->width, 1 };
}

/* One direction of a resize: of the `out` pixels that the interval begin .. begin + length of the
 * input's pixels is resized to, those from .. from + n - 1 are made. Only the input's pixels 0 ..
 * limit - 1 count, and the view that is read begins at pixel `at` of them (or before, below 0). */
typedef struct ls__stretch {
    double begin, length;
    int64_t limit, at;
    int64_t out, from, n;
    bool mirror; /* the last output comes first; not of rows */
} ls__stretch;

/* The input's pixels that those outputs are made of. */
void ls__stretch_needs(const ls__stretch *stretch, int64_t *first, int64_t *n);

/* Memory for weights and rows, kept from one image to the next. Start with all zero but ctx. */
typedef struct ls__resizer {
    const ls_context *ctx;
    const struct ls__resize_kernels *kernels; /* NULL: the fastest */
    void *memory;
    size_t capacity;
} ls__resizer;

void ls__resizer_free(ls__resizer *resizer);

/* Whether an image of from_height x from_width may be resized to height x width: it has at most
 * LS__MAX_PIXELS then, and ls__resizer.memory at most LS__MAX_RESIZE_BYTES. The memory grows with
 * the sides, not with the pixels: from 3 x 3 to a height of 2^28 takes 7.5 GB of weights. Weights
 * are counted as the kernels with the largest ones need them, so that the answer does not depend on
 * the processor. The reason, where it is false: "3 x 3 pixels resized to ...". */
enum { LS__MAX_RESIZE_BYTES = 1 << 30 };
bool ls__resize_fits(int64_t from_height, int64_t from_width, int64_t height, int64_t width,
                     char *reason, size_t reason_size);

/* dst [window.height,window.width,channels], without gaps = that window of `from` resized to height
 * x width; only the window is computed. false when there is no memory. */
bool ls__resize(ls__resizer *resizer, const ls__view *from, int64_t height, int64_t width,
                const ls__window *window, uint8_t *dst);

/* The same, with both directions spelled out; dst [rows->n,columns->n,channels]. */
bool ls__resize_part(ls__resizer *resizer, const ls__view *from, const ls__stretch *rows,
                     const ls__stretch *columns, uint8_t *dst);

#endif
