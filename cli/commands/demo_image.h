/* demo_image.h: the demo's images: ten classes of shapes with random colour, size, position and
 * rotation, on backgrounds with clutter and noise, so that a network has to learn the shapes. */
#ifndef LS_CLI_COMMANDS_DEMO_IMAGE_H
#define LS_CLI_COMMANDS_DEMO_IMAGE_H

#include <stdint.h>

enum { DEMO_CLASSES = 10, DEMO_MIN_SIDE = 32, DEMO_MAX_SIDE = 48 };

/* Names in byte order. */
extern const char *const demo_class_names[DEMO_CLASSES];

typedef struct demo_image {
    int width, height;
    uint8_t pixels[DEMO_MAX_SIDE * DEMO_MAX_SIDE * 3]; /* [height][width][3] */
    int quality;                                       /* of a JPEG file; 0 = PNG */
} demo_image;

/* One image: a function of its arguments alone. */
void demo_image_make(uint64_t seed, int split, int label, int64_t number, demo_image *out);

#endif
