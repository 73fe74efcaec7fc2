/* text.c: see text.h. */
#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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
    enum { FRACTION_BITS = 52, BIAS = 1023, MOST = 0x7ff };
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const int field = (int)(bits >> FRACTION_BITS) & MOST;
    uint64_t fraction = bits & ((UINT64_C(1) << FRACTION_BITS) - 1);
    const char *sign = bits >> 63 ? "-" : "";
    if (field == MOST) {
        ls__text_put(text, "%s%s", sign, fraction ? "nan" : "inf");
        return;
    }
    int digits = FRACTION_BITS / 4;
    for (; digits > 0 && fraction % 16 == 0; digits--) fraction /= 16;
    const int exponent = field > 0 ? field - BIAS : digits > 0 ? 1 - BIAS : 0;
    ls__text_put(text, "%s0x%d", sign, field > 0);
    if (digits > 0) ls__text_put(text, ".%0*" PRIx64, digits, fraction);
    ls__text_put(text, "p%+d", exponent);
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
