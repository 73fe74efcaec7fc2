/* text.h: appends text to a caller's buffer. As with snprintf, the text is truncated to the buffer,
 * but its length is counted in full. */
#ifndef LS_BASE_TEXT_H
#define LS_BASE_TEXT_H

#include <lockstep/export.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls__text {
    char *buffer; /* terminated if size > 0 */
    size_t size;
    size_t length; /* of the whole text, even if truncated */
} ls__text;

void ls__text_put(ls__text *text, const char *format, ...) LS_PRINTF(2, 3);

/* An exact number, as printf's "%a" writes it in the "C" locale: "0x1.8p+0". */
void ls__text_put_exact(ls__text *text, double value);

/* " 1 2 3". */
void ls__text_put_integers(ls__text *text, int n, const int64_t *values);
/* Exact floats, each after a space. */
void ls__text_put_floats(ls__text *text, int n, const float *values);

#endif
