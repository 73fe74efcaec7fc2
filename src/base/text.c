/* text.c: see text.h. */
#include "base/text.h"

#include "base/c_locale.h"
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

void ls__text_put_exact(ls__text *text, double value)
{
    LS__IN_C_LOCALE;
    ls__text_put(text, "%a", value);
}

void ls__text_put_integers(ls__text *text, int n, const int64_t *values)
{
    for (int i = 0; i < n; i++) ls__text_put(text, " %lld", (long long)values[i]);
}

void ls__text_put_floats(ls__text *text, int n, const float *values)
{
    for (int i = 0; i < n; i++) {
        ls__text_put(text, " ");
        ls__text_put_exact(text, (double)values[i]);
    }
}
