/* resize.h: antialiased bilinear resize, bit for bit as Pillow's BILINEAR does it. */
#ifndef LS_DATA_RESIZE_H
#define LS_DATA_RESIZE_H

#include "base/alloc.h"

/* Pixels of somebody else: u8 [height,width,channels], channels 1 or 3, rows row_bytes apart. */
typedef struct ls__view {
    const uint8_t *pixels;
    int64_t row_bytes, height, width;
    int channels;
} ls__view;

/* A rectangle of a picture. */
typedef struct ls__window {
    int64_t top, left, height, width;
} ls__window;

/* Memory for weights and rows, kept from one picture to the next. Start with all zero but ctx. */
typedef struct ls__resizer {
    const ls_context *ctx;
    void *memory;
    size_t capacity;
} ls__resizer;

void ls__resizer_free(ls__resizer *resizer);

/* dst [window.height,window.width,channels], without gaps = that window of `from` resized to height
 * x width; only the window is computed. false when there is no memory. */
bool ls__resize(ls__resizer *resizer, const ls__view *from, int64_t height, int64_t width,
                const ls__window *window, uint8_t *dst);

#endif
