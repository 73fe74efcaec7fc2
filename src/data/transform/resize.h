/* resize.h: antialiased bilinear resize, bit for bit as BILINEAR of Pillow 9.4 to 12.2. */
#ifndef LS_DATA_TRANSFORM_RESIZE_H
#define LS_DATA_TRANSFORM_RESIZE_H

#include "base/strict_math.h"
#include "data/decode/image.h"

/* One axis of a resize: the interval begin .. begin + length of the input's pixels becomes `out`
 * pixels, of which from .. from + n - 1 are computed. Only the input's pixels 0 .. limit - 1 count,
 * and the view that is read begins at pixel `at` of them (or before, below 0). */
typedef struct ls__resize_axis {
    double begin, length;
    int64_t limit, at;
    int64_t out, from, n;
    bool mirror; /* the last output comes first; columns only */
} ls__resize_axis;

/* One axis of an image of `size` pixels before its reduction, resized to `out`. */
ls__resize_axis ls__axis_of(int64_t size, int reduction, int64_t at, int64_t out, int64_t from,
                            int64_t n);

/* The range of the input's pixels that the outputs depend on. */
void ls__axis_inputs(const ls__resize_axis *axis, int64_t *first, int64_t *n);

/* Memory for weights and rows, kept from one image to the next. Start with all zero but ctx. */
typedef struct ls__resizer {
    const ls_context *ctx;
    const struct ls__resize_kernels *kernels; /* NULL: the fastest */
    ls__buffer memory;
} ls__resizer;

/* LS_ERR_DATA, with a reason, where a resize from from_height x from_width to height x width has a
 * result beyond LS__MAX_PIXELS or takes more memory than LS__MAX_RESIZE_BYTES. The memory grows
 * with the sides: 3 x 3 to a height of 2^28 takes 7.5 GB of weights. It is that of the kernels with
 * the largest weights, so that the result does not depend on the processor. */
enum { LS__MAX_RESIZE_BYTES = 1 << 30 };
ls_status ls__check_resize(int64_t from_height, int64_t from_width, int64_t height, int64_t width,
                           char reason[LS__REASON_SIZE]);

/* *to = the whole source resized to height x width. false when there is no memory. */
bool ls__resize_image(ls__resizer *resizer, const ls__source *from, int64_t height, int64_t width,
                      ls__image *to);

/* dst [rows->n,columns->n,channels], without gaps; only these pixels are computed. */
bool ls__resize_region(ls__resizer *resizer, const ls__image_view *from,
                       const ls__resize_axis *rows, const ls__resize_axis *columns, uint8_t *dst);

#endif
