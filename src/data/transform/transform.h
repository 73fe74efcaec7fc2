/* transform.h: from a decoded image to a sample of fixed size. */
#ifndef LS_DATA_TRANSFORM_TRANSFORM_H
#define LS_DATA_TRANSFORM_TRANSFORM_H

#include "data/transform/augment.h"
#include "data/transform/resize.h"
#include <lockstep/loader.h>
#include <lockstep/random.h>

/* As ls_loader_config says, with defaults filled in. */
typedef struct ls__transform {
    uint64_t seed;
    ls_decode decode;
    int64_t resize, crop, crop_width, padding;
    ls_resize_mode resize_mode;
    bool random_resized_crop;
    double scale_min, scale_max, ratio_min, ratio_max;
    float flip, vertical_flip;
    const ls_loader_config *augment; /* its random changes of the pixels; NULL = none */
    uint8_t fill[3];                 /* the colour of padding and of erased boxes */
    int64_t height, width;           /* of the result, whose channels are the image's */
} ls__transform;

/* For one thread. Start with all zero but resizer.ctx. */
typedef struct ls__transformer {
    ls__resizer resizer;
    ls__image resized, padded;
    ls__buffer copy; /* for the augmentation */
} ls__transformer;

void ls__transformer_free(ls__transformer *self);

/* The size of an image after `resize`, in its mode; the default is torchvision's Resize for a
 * square crop and without a crop. *content: the window of it in which the image lies, without the
 * padding. */
void ls__transformed_size(const ls__transform *transform, int64_t *height, int64_t *width,
                          ls__window *content);

/* The box that a random resized crop cuts from an image of that size. */
ls__window ls__random_box(const ls__transform *transform, const ls_draw *draw, int64_t height,
                          int64_t width);

/* How an image of one size becomes a sample. */
typedef struct ls__sample_plan {
    int64_t resized_height, resized_width; /* of the image after `resize` */
    ls__window content;                    /* of it: without the padding */
    uint8_t fill[3];                       /* the colour of padding and of erased boxes */
    bool resize_first;                     /* the whole image is resized before it is cropped */
    enum {
        LS__CROP_COPY,    /* the crop window is copied */
        LS__CROP_RESIZE,  /* the window is cut, then resized to the sample */
        LS__CROP_RESIZED, /* the window lies in the resized image, and only it is computed */
    } mode;
    ls__window crop; /* of the resized image; it may reach into the padding */
    bool flip, vertical_flip;
    ls__augment_plan augment;
    int64_t height, width; /* of the sample */
    ls__region region;     /* of the image: the pixels that the sample depends on */
} ls__sample_plan;

/* Makes the plan for an upright image of that size. The random numbers are the words of the draw's
 * blocks. LS_ERR_DATA, with a reason: the image does not fit the configuration. */
ls_status ls__transform_plan(const ls__transform *transform, const ls_draw *draw, int64_t height,
                             int64_t width, ls__sample_plan *out, char reason[LS__REASON_SIZE]);

/* dst [height,width,channels] = the sample, from at least the plan's region. false: no memory. */
bool ls__transform_apply(const ls__sample_plan *plan, ls__transformer *self,
                         const ls__source *source, uint8_t *dst);

#endif
