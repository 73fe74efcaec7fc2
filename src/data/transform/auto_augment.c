/* auto_augment.c: the ops of TrivialAugmentWide (Mueller and Hutter 2021) and RandAugment (Cubuk et
 * al. 2020), with the magnitudes of torchvision. */
#include "data/transform/augment.h"

/* torch.linspace(0, end, 31)[bin]: its products are not rounded before the subtraction. */
static float linspace(double end, int bin)
{
    const float last = (float)end, step = last / (LS__MAGNITUDE_BINS - 1);
    const int half = LS__MAGNITUDE_BINS / 2, from_end = LS__MAGNITUDE_BINS - 1 - bin;
    return (float)(bin < half ? (double)step * bin : (double)last - (double)step * from_end);
}

/* The largest magnitudes of a policy. */
typedef struct magnitudes {
    double shear, rotate, enhance;
    int posterize; /* bits that are dropped */
} magnitudes;

static const magnitudes trivial = { .shear = 0.99, .rotate = 135, .enhance = 0.99, .posterize = 6 };
static const magnitudes rand_augment = {
    .shear = 0.3, .rotate = 30, .enhance = 0.9, .posterize = 4
};

/* Pixels along a side, rounded down: 32 bin / 30, or 150 / 331 of the side bin / 30. (At bin 15
 * torch 2.15 has 15 instead of 16, because its float is below 16.) */
static double translation(ls_auto_augment policy, int bin, int64_t side)
{
    const int last = LS__MAGNITUDE_BINS - 1;
    return (double)(policy == LS_AUTO_AUGMENT_RAND ? 150 * side * bin / (331 * last)
                                                   : 32 * bin / last);
}

static ls__pixel_op affine_op(double shear_x, double shear_y, double left, double up)
{
    const double matrix[6] = { 1, shear_x, left, shear_y, 1, up };
    return (ls__pixel_op){ .kind = LS__PIXEL_AFFINE, .affine = ls__affine_of(matrix) };
}

static ls__pixel_op enhance_op(ls__pixel_op_kind kind, double magnitude)
{
    return (ls__pixel_op){ .kind = kind, .factor = (float)(1 + magnitude) };
}

bool ls__auto_pixel_op(ls_auto_augment policy, ls__auto_op op, int bin, bool negative,
                       int64_t height, int64_t width, ls__pixel_op *out)
{
    const magnitudes *max = policy == LS_AUTO_AUGMENT_RAND ? &rand_augment : &trivial;
    const double sign = negative ? -1 : 1;
    const double shear = sign * (double)linspace(max->shear, bin);
    const double enhance = sign * (double)linspace(max->enhance, bin);
    const int last = LS__MAGNITUDE_BINS - 1;
    switch (op) {
    case LS__AUTO_SHEAR_X: *out = affine_op(shear, 0, 0, 0); return true;
    case LS__AUTO_SHEAR_Y: *out = affine_op(0, shear, 0, 0); return true;
    case LS__AUTO_TRANSLATE_X:
        *out = affine_op(0, 0, -sign * translation(policy, bin, width), 0);
        return true;
    case LS__AUTO_TRANSLATE_Y:
        *out = affine_op(0, 0, 0, -sign * translation(policy, bin, height));
        return true;
    case LS__AUTO_ROTATE:
        *out = (ls__pixel_op){ .kind = LS__PIXEL_AFFINE,
                               .affine = ls__affine_rotation(
                                   sign * (double)linspace(max->rotate, bin), height, width) };
        return true;
    case LS__AUTO_BRIGHTNESS: *out = enhance_op(LS__PIXEL_BRIGHTNESS, enhance); return true;
    case LS__AUTO_COLOR: *out = enhance_op(LS__PIXEL_SATURATION, enhance); return true;
    case LS__AUTO_CONTRAST: *out = enhance_op(LS__PIXEL_CONTRAST, enhance); return true;
    case LS__AUTO_SHARPNESS: *out = enhance_op(LS__PIXEL_SHARPNESS, enhance); return true;
    case LS__AUTO_POSTERIZE: /* the quotient is never halfway between two integers */
        *out = (ls__pixel_op){ .kind = LS__PIXEL_POSTERIZE,
                               .amount = 8 - (2 * bin * max->posterize + last) / (2 * last) };
        return true;
    case LS__AUTO_SOLARIZE: /* bytes below 255 - 8.5 bin stay */
        *out = (ls__pixel_op){ .kind = LS__PIXEL_SOLARIZE, .amount = 255 - 17 * bin / 2 };
        return true;
    case LS__AUTO_AUTOCONTRAST:
        *out = (ls__pixel_op){ .kind = LS__PIXEL_AUTOCONTRAST };
        return true;
    case LS__AUTO_EQUALIZE: *out = (ls__pixel_op){ .kind = LS__PIXEL_EQUALIZE }; return true;
    case LS__AUTO_IDENTITY:
    case LS__N_AUTO_OPS: break;
    }
    return false;
}
