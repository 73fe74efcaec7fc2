/* draw.h: the demo's images: ten classes of shapes with random colour, size, position and rotation,
 * on backgrounds with clutter and noise, so that a network has to learn the shapes. */
#ifndef LS_CLI_DRAW_H
#define LS_CLI_DRAW_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAW_CLASSES = 10, DRAW_MIN_SIDE = 32, DRAW_MAX_SIDE = 48 };

/* Names in byte order. */
extern const char *const draw_class_names[DRAW_CLASSES];

typedef struct drawing {
    int width, height;
    uint8_t pixels[DRAW_MAX_SIDE * DRAW_MAX_SIDE * 3]; /* [height][width][3] */
    bool jpeg;                                         /* to be written as JPEG, else as PNG */
    int quality;                                       /* of the JPEG */
} drawing;

/* One image: a function of its arguments alone. */
void draw_image(uint64_t seed, int split, int label, int64_t number, drawing *out);

#endif
