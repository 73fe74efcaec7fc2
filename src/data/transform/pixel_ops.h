/* pixel_ops.h: changes of an image's pixels in place. The bytes are those of Pillow 9.4 to 13
 * (ImageEnhance, ImageOps, Image.transform with NEAREST and fill 0). */
#ifndef LS_DATA_TRANSFORM_PIXEL_OPS_H
#define LS_DATA_TRANSFORM_PIXEL_OPS_H

#include "base/strict_math.h"
#include "data/decode/image.h"

typedef enum ls__pixel_op_kind {
    LS__PIXEL_BRIGHTNESS, /* ImageEnhance.Brightness(image).enhance(factor), and so on */
    LS__PIXEL_CONTRAST,
    LS__PIXEL_SATURATION, /* ImageEnhance.Color */
    LS__PIXEL_SHARPNESS,
    LS__PIXEL_HUE,          /* `amount` is added to the hue byte of Pillow's HSV, modulo 256 */
    LS__PIXEL_POSTERIZE,    /* the upper `amount` bits are kept */
    LS__PIXEL_SOLARIZE,     /* bytes of at least `amount` are inverted */
    LS__PIXEL_AUTOCONTRAST, /* ImageOps.autocontrast(image) */
    LS__PIXEL_EQUALIZE,     /* ImageOps.equalize(image) */
    LS__PIXEL_AFFINE
} ls__pixel_op_kind;

/* Output (x, y) is the input's pixel at (x0 + x xx + y xy, y0 + x yx + y yy) rounded down, or 0
 * outside of it; in units of 2^-16 pixels, as Pillow's for images of less than 2^15 pixels a side.
 */
typedef struct ls__affine {
    int64_t x0, xx, xy, y0, yx, yy;
} ls__affine;

typedef struct ls__pixel_op {
    ls__pixel_op_kind kind;
    float factor; /* of the first four */
    int amount;
    ls__affine affine;
} ls__pixel_op;

/* convert("L"): ITU-R 601-2 luma in 16-bit fixed-point numbers. */
static inline uint8_t ls__luma(const uint8_t rgb[3])
{
    return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

/* The map of Pillow's matrix (a, b, c, d, e, f): x = a x + b y + c, y = d x + e y + f. */
ls__affine ls__affine_of(const double matrix[6]);
/* Image.rotate: by `degrees` counterclockwise, from -180 to 180, about the centre. */
ls__affine ls__affine_rotation(double degrees, int64_t height, int64_t width);

/* Changes u8 [height,width,channels], channels 1 or 3. Saturation and hue do not change images of
 * one channel. `copy` is memory that it may use. false: no memory. */
bool ls__apply_pixel_op(const ls__pixel_op *op, const ls_context *ctx, ls__buffer *copy,
                        int64_t height, int64_t width, int channels, uint8_t *pixels);

/* The part of ls__apply_pixel_op in affine.c. */
void ls__apply_affine(const ls__affine *map, int64_t height, int64_t width, int channels,
                      const uint8_t *from, uint8_t *to);

#endif
