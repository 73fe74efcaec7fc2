/* jpeg_write.h: encodes small images for reports. */
#ifndef LS_DATA_DECODE_JPEG_WRITE_H
#define LS_DATA_DECODE_JPEG_WRITE_H

#include "data/decode/image.h"

/* *out = *size bytes of a JPEG file (quality 90, colours at full resolution), from the context's
 * allocator. False if memory is short. Sides are 1 to 65500. */
bool ls__jpeg_write(const ls_context *ctx, const ls__image_view *image, uint8_t **out,
                    size_t *size);

#endif
