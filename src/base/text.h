/* text.h: text that is written piece by piece into a caller's buffer, cut to it but counted whole,
 * as snprintf does. */
#ifndef LS_BASE_TEXT_H
#define LS_BASE_TEXT_H

#include <lockstep/export.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls__text {
    char *buffer; /* always terminated when size > 0 */
    size_t size;
    size_t length; /* of the whole text, also where it was cut */
} ls__text;

void ls__text_put(ls__text *text, const char *format, ...) LS_PRINTF(2, 3);

/* A number exactly, as printf's "%a" of the "C" locale whatever the program's: "0x1.8p+0". */
void ls__text_put_exact(ls__text *text, double value);

/* " 1 2 3". */
void ls__text_put_integers(ls__text *text, int n, const int64_t *values);
/* The same of floats, exactly. */
void ls__text_put_floats(ls__text *text, int n, const float *values);

#endif
