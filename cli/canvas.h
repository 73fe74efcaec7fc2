/* canvas.h: an image to draw lines and letters on. */
#ifndef LS_CLI_CANVAS_H
#define LS_CLI_CANVAS_H

#include <stdint.h>

typedef struct colour {
    uint8_t red, green, blue;
} colour;

typedef struct canvas {
    int width, height;
    uint8_t *pixels; /* [height][width][3]; the caller's */
} canvas;

enum { LETTER_WIDTH = 12, LETTER_HEIGHT = 14 }; /* a letter's place, its gap to the next within */

/* All are cut at the edges. */
void canvas_fill(canvas *c, int x, int y, int width, int height, colour ink);
/* Two pixels thick. */
void canvas_line(canvas *c, double x0, double y0, double x1, double y1, colour ink);
/* From its upper left corner. Capitals, x and digits; what there is no letter for is a space. */
void canvas_text(canvas *c, int x, int y, const char *text, colour ink);

#endif
