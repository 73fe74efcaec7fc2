/* resize_support.h: resizes a window of an image. */
#ifndef LS_TESTS_DATA_RESIZE_SUPPORT_H
#define LS_TESTS_DATA_RESIZE_SUPPORT_H

#include "data/transform/resize.h"

/* dst [window.height,window.width,channels] = the window of `from` resized to height x width. */
static inline bool resize_window(ls__resizer *resizer, const ls__image_view *from, int64_t height,
                                 int64_t width, const ls__window *window, uint8_t *dst)
{
    const ls__resize_axis rows =
        ls__axis_of(from->height, 1, 0, height, window->top, window->height);
    const ls__resize_axis columns =
        ls__axis_of(from->width, 1, 0, width, window->left, window->width);
    return ls__resize_region(resizer, from, &rows, &columns, dst);
}

#endif
