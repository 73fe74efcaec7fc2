/* text.c: see text.h. */
#include "base/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void ls__text_put(ls__text *text, const char *format, ...)
{
    const bool fits = text->length < text->size;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(fits ? text->buffer + text->length : NULL,
                            fits ? text->size - text->length : 0, format, args);
    va_end(args);
    if (n > 0) text->length += (size_t)n;
}
