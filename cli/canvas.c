/* canvas.c: see canvas.h. */
#include "canvas.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

void canvas_fill(canvas *c, int x, int y, int width, int height, colour ink)
{
    for (int i = y < 0 ? 0 : y; i < y + height && i < c->height; i++)
        for (int j = x < 0 ? 0 : x; j < x + width && j < c->width; j++) {
            uint8_t *pixel = &c->pixels[3 * ((int64_t)i * c->width + j)];
            pixel[0] = ink.red;
            pixel[1] = ink.green;
            pixel[2] = ink.blue;
        }
}

void canvas_line(canvas *c, double x0, double y0, double x1, double y1, colour ink)
{
    const double length = fmax(fabs(x1 - x0), fabs(y1 - y0));
    const int n = (int)fmin(ceil(length), 1e5);
    for (int i = 0; i <= n; i++) {
        const double at = n > 0 ? (double)i / n : 0;
        canvas_fill(c, (int)lround(x0 + at * (x1 - x0)), (int)lround(y0 + at * (y1 - y0)), 2, 2,
                    ink);
    }
}

/* Five rows of three dots, each row an octal digit, from the top. */
static const struct {
    char letter;
    uint16_t dots;
} letters[] = {
    { '0', 075557 }, { '1', 026227 }, { '2', 071747 }, { '3', 071717 }, { '4', 055711 },
    { '5', 074717 }, { '6', 074757 }, { '7', 071122 }, { '8', 075757 }, { '9', 075717 },
    { 'A', 025755 }, { 'B', 065656 }, { 'C', 034443 }, { 'D', 065556 }, { 'E', 074647 },
    { 'F', 074644 }, { 'G', 034553 }, { 'H', 055755 }, { 'I', 072227 }, { 'J', 011152 },
    { 'K', 055655 }, { 'L', 044447 }, { 'M', 057755 }, { 'N', 065555 }, { 'O', 025552 },
    { 'P', 065644 }, { 'Q', 025563 }, { 'R', 065655 }, { 'S', 034216 }, { 'T', 072222 },
    { 'U', 055557 }, { 'V', 055552 }, { 'W', 055775 }, { 'X', 055255 }, { 'Y', 055222 },
    { 'Z', 071247 }, { '.', 000002 }, { ',', 000024 }, { ':', 002020 }, { '-', 000700 },
    { '@', 075547 },
};

void canvas_text(canvas *c, int x, int y, const char *text, colour ink)
{
    enum { N = sizeof(letters) / sizeof(letters[0]), DOT = 2 };
    for (; *text; text++, x += LETTER_WIDTH) {
        int k = 0;
        while (k < N && letters[k].letter != toupper((unsigned char)*text)) k++;
        for (int bit = 0; k < N && bit < 15; bit++)
            if (letters[k].dots >> (14 - bit) & 1)
                canvas_fill(c, x + bit % 3 * DOT, y + bit / 3 * DOT, DOT, DOT, ink);
    }
}
