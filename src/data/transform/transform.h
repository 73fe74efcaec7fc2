/* transform.h: from a decoded image to a sample of fixed size. */
#ifndef LS_DATA_TRANSFORM_TRANSFORM_H
#define LS_DATA_TRANSFORM_TRANSFORM_H

#include "data/transform/resize.h"
#include <lockstep/random.h>

/* As ls_loader_config says, with defaults filled in. */
typedef struct ls__transform {
    uint64_t seed;
    ls_decode decode;
    int64_t resize, crop, padding;
    bool random_resized_crop;
    double scale_min, scale_max, ratio_min, ratio_max;
    float flip;
    int64_t height, width; /* of the result, whose channels are the image's */
} ls__transform;

/* What one thread needs. Start with all zero but resizer.ctx. */
typedef struct ls__transformer {
    ls__resizer resizer;
    ls__image resized;
} ls__transformer;

void ls__transformer_free(ls__transformer *self);

/* The size of an image after `resize`: its shorter side becomes that, the longer one keeps the
 * aspect ratio, rounded down, as torchvision's Resize. 0 changes nothing. */
void ls__resized_size(int64_t resize, int64_t *height, int64_t *width);

/* The box that a random resized crop cuts from an image of that size; draw as below. */
ls__window ls__random_box(const ls__transform *transform, const ls_draw *draw, int64_t height,
                          int64_t width);

/* What a decoder needs to decode of an image for the sample: an ls__want's ask, whose arg is an
 * ls__transform_want. */
typedef struct ls__transform_want {
    const ls__transform *transform;
    ls_draw draw; /* as below */
} ls__transform_want;
ls_status ls__transform_ask(const void *want, int64_t height, int64_t width, ls__window *part,
                            int *reduction, char reason[LS__REASON_SIZE]);

/* dst [height,width,channels] = the sample; image: at least what was asked for. What is random is
 * the words of the draw's blocks. LS_ERR_DATA: the image does not fit the configuration;
 * LS_ERR_MEMORY. */
ls_status ls__transform_run(const ls__transform *transform, ls__transformer *self,
                            const ls__source *image, const ls_draw *draw, uint8_t *dst,
                            char reason[LS__REASON_SIZE]);

#endif
