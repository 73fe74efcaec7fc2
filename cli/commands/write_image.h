/* write_image.h: images as PNG and JPEG files. */
#ifndef LS_CLI_COMMANDS_WRITE_IMAGE_H
#define LS_CLI_COMMANDS_WRITE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

/* pixels [height][width][3]. quality: of a JPEG, 1 to 100; 0 = PNG. On failure errno holds the
 * reason. */
bool write_image(const char *path, int width, int height, const uint8_t *pixels, int quality);

/* The same for the grid of `lockstep augment`: a PNG with a text chunk that says so. */
bool write_grid(const char *path, int width, int height, const uint8_t *pixels);
/* Whether the regular file begins as write_grid's do, so that another grid may replace it. */
bool is_grid(const char *path);

#endif
