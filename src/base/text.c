/* text.c: see text.h. */
#include "base/text.h"

#include "base/c_locale.h"
#include <lockstep/text.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ls__vsnprintf(char *buffer, size_t size, const char *format, va_list args)
{
    const int n = vsnprintf(buffer, size, format, args);
    if (size > 0 && n >= 0 && (size_t)n >= size)
        buffer[ls_utf8_whole_length(buffer, size - 1)] = '\0';
    return n;
}

int ls__snprintf(char *buffer, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = ls__vsnprintf(buffer, size, format, args);
    va_end(args);
    return n;
}

bool ls__ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

int ls__parse_digits(const char *text, size_t max_digits)
{
    const size_t n = strlen(text);
    return n > 0 && n <= max_digits && strspn(text, "0123456789") == n ? atoi(text) : -1;
}

int ls__cut_length(const char *text, int max)
{
    const size_t length = strnlen(text, (size_t)max + 1);
    return (int)(length > (size_t)max ? ls_utf8_whole_length(text, (size_t)max) : length);
}

void ls__text_put(ls__text *text, const char *format, ...)
{
    const bool fits = text->length < text->size;
    va_list args;
    va_start(args, format);
    const int n = ls__vsnprintf(fits ? text->buffer + text->length : NULL,
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

double ls__shortest(float value)
{
    /* 9 digits are always exact. Writes and reads in one locale, so its decimal point does not
     * matter. */
    char text[32];
    double out = (double)value;
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        out = strtod(text, NULL);
        if ((float)out == value) break;
    }
    return out;
}
