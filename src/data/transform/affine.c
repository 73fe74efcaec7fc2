/* affine.c: affine maps of an image to the nearest pixel, in the fixed-point numbers of Pillow's
 * affine_fixed (libImaging/Geometry.c). */
#include "arith/functions.h"
#include "data/transform/pixel_ops.h"

#include <math.h>
#include <string.h>

enum { FRACTION_BITS = 16 };

static int64_t fixed(double x)
{
    return (int64_t)floor(x * (1 << FRACTION_BITS) + 0.5);
}

ls__affine ls__affine_of(const double m[6])
{
    return (ls__affine){ .x0 = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5),
                         .xx = fixed(m[0]),
                         .xy = fixed(m[1]),
                         .y0 = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5),
                         .yx = fixed(m[3]),
                         .yy = fixed(m[4]) };
}

ls__affine ls__affine_rotation(double degrees, int64_t height, int64_t width)
{
    const double turn = fabs(degrees) / 180;
    const double cosine = ls__cos_pi(turn), positive = ls__cos_pi(fabs(turn - 0.5));
    const double sine = degrees < 0 ? -positive : positive;
    const double x = (double)width / 2, y = (double)height / 2;
    const double matrix[6] = { cosine, -sine,  cosine * -x + -sine * -y + x,
                               sine,   cosine, sine * -x + cosine * -y + y };
    return ls__affine_of(matrix);
}

/* One row from `in`, whose outputs' coordinates begin at (x, y). Those inside of the image are
 * consecutive, because the coordinates are linear. Inlined, with constant channels. */
static inline void map_row(const ls__affine *map, int64_t height, int64_t width, int channels,
                           int64_t x, int64_t y, const uint8_t *from, uint8_t *to)
{
    const uint64_t x_end = (uint64_t)width << FRACTION_BITS;
    const uint64_t y_end = (uint64_t)height << FRACTION_BITS;
    int64_t begin = 0, end = width;
#define INSIDE(i) ((uint64_t)(x + (i)*map->xx) < x_end && (uint64_t)(y + (i)*map->yx) < y_end)
    while (begin < end && !INSIDE(begin)) begin++;
    while (begin < end && !INSIDE(end - 1)) end--;
#undef INSIDE
    memset(to, 0, (size_t)(begin * channels));
    memset(to + end * channels, 0, (size_t)((width - end) * channels));
    x += begin * map->xx;
    y += begin * map->yx;
    if (map->xx == 1 << FRACTION_BITS && map->yx == 0) { /* consecutive inputs, too */
        if (begin < end)
            memcpy(to + begin * channels,
                   from + ((y >> FRACTION_BITS) * width + (x >> FRACTION_BITS)) * channels,
                   (size_t)((end - begin) * channels));
        return;
    }
    for (int64_t i = begin; i < end; i++, x += map->xx, y += map->yx) {
        const uint8_t *pixel =
            from + ((y >> FRACTION_BITS) * width + (x >> FRACTION_BITS)) * channels;
        for (int c = 0; c < channels; c++) to[i * channels + c] = pixel[c];
    }
}

void ls__apply_affine(const ls__affine *map, int64_t height, int64_t width, int channels,
                      const uint8_t *from, uint8_t *to)
{
    int64_t x = map->x0, y = map->y0;
    for (int64_t row = 0; row < height; row++, x += map->xy, y += map->yy) {
        uint8_t *out = to + row * width * channels;
        if (channels == 3)
            map_row(map, height, width, 3, x, y, from, out);
        else
            map_row(map, height, width, 1, x, y, from, out);
    }
}
