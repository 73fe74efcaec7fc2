/* slice.h: dense copies of some channels of an activation. */
#ifndef LS_CPU_ONEDNN_SLICE_H
#define LS_CPU_ONEDNN_SLICE_H

#include "backend/backend.h"

/* Channels first..first+count-1 of `images` images of [N][C/block][H][W][block]. The copy has the
 * same layout, or with `planar` (for N,H,W,C in f32 only) N,C,H,W. */
typedef struct ls__channels {
    int64_t images, pixels, channels, block;
    size_t element_bytes;
    int64_t image_bytes;
    int64_t first, count;
    bool planar;
} ls__channels;

/* All images, no channels. */
ls__channels ls__channels_of(const ls__operand *activation);
/* Size of the copy of n images. */
size_t ls__channels_bytes(const ls__channels *c, int64_t images);
/* gather: from the activation to the copy; else back. */
void ls__channels_copy(const ls__channels *c, void *whole, void *copy, bool gather);

#endif
