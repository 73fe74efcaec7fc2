/* text.h: texts in fixed buffers. As with snprintf, a text is truncated to its buffer, but its
 * length is counted in full. A truncated text ends with a whole character: the bytes of an
 * incomplete UTF-8 sequence are removed, because JSON cannot hold them. Texts that are not UTF-8,
 * such as names of files, may be cut anywhere. */
#ifndef LS_BASE_TEXT_H
#define LS_BASE_TEXT_H

#include <lockstep/export.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int ls__snprintf(char *buffer, size_t size, const char *format, ...) LS_PRINTF(3, 4);
int ls__vsnprintf(char *buffer, size_t size, const char *format, va_list args);

/* The end of a plural: "1 step", "2 steps". */
static inline const char *ls__plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

bool ls__ends_with(const char *text, const char *end);

/* The number that a text of digits alone stands for; -1: another text, or more than max_digits,
 * which is at most 9. */
int ls__parse_digits(const char *text, size_t max_digits);

/* Two arguments for "%.*s": at most the first `max` bytes of a text. */
#define LS__CUT(text, max) ls__cut_length(text, max), text
int ls__cut_length(const char *text, int max);

/* Appends to a caller's buffer. */
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

/* The double whose text is the shortest decimal of this float: 0.9, not 0.899999976. */
double ls__shortest(float value);

#endif
