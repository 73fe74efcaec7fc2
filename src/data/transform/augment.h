/* augment.h: random changes of a sample's pixels after its geometry: automatic augmentation, colour
 * jitter, random erasing, in this order. */
#ifndef LS_DATA_TRANSFORM_AUGMENT_H
#define LS_DATA_TRANSFORM_AUGMENT_H

#include "data/transform/pixel_ops.h"
#include <lockstep/loader.h>
#include <lockstep/random.h>

enum { LS__RAND_AUGMENT_OPS = 2, LS__MAX_AUGMENT_OPS = LS__RAND_AUGMENT_OPS + 4 };

/* The drawn parameters of the augmentation of a sample, for one size of images. */
typedef struct ls__augment_plan {
    int n_ops;
    ls__pixel_op ops[LS__MAX_AUGMENT_OPS];
    ls__window erased; /* height 0: none */
} ls__augment_plan;

void ls__augment_choose(const ls_loader_config *config, uint64_t seed, const ls_draw *draw,
                        int64_t height, int64_t width, ls__augment_plan *out);

/* Changes u8 [height,width,channels]. fill: the bytes of erased pixels. `copy` is memory that it
 * may use. false: no memory. */
bool ls__augment_apply(const ls__augment_plan *plan, const ls_context *ctx, ls__buffer *copy,
                       int64_t height, int64_t width, int channels, const uint8_t *fill,
                       uint8_t *pixels);

/* ---- Automatic augmentation: auto_augment.c ---- */

/* The ops of torchvision's TrivialAugmentWide and RandAugment, in its order. */
typedef enum ls__auto_op {
    LS__AUTO_IDENTITY,
    LS__AUTO_SHEAR_X,
    LS__AUTO_SHEAR_Y,
    LS__AUTO_TRANSLATE_X,
    LS__AUTO_TRANSLATE_Y,
    LS__AUTO_ROTATE,
    LS__AUTO_BRIGHTNESS,
    LS__AUTO_COLOR,
    LS__AUTO_CONTRAST,
    LS__AUTO_SHARPNESS,
    LS__AUTO_POSTERIZE,
    LS__AUTO_SOLARIZE,
    LS__AUTO_AUTOCONTRAST,
    LS__AUTO_EQUALIZE,
    LS__N_AUTO_OPS
} ls__auto_op;
enum { LS__MAGNITUDE_BINS = 31, LS__RAND_AUGMENT_BIN = 9 };

/* The op at magnitude `bin` of 0..30 in an image of that size. negative: of the ops that have a
 * sign. false: the op is the identity. */
bool ls__auto_pixel_op(ls_auto_augment policy, ls__auto_op op, int bin, bool negative,
                       int64_t height, int64_t width, ls__pixel_op *out);

#endif
