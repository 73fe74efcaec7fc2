/* utf8.c: see utf8.h. */
#include "base/utf8.h"

bool ls__utf8_is_valid(const char *text)
{
    int32_t code = 0;
    while (*text && code >= 0) text += ls__utf8_next(text, &code);
    return code >= 0;
}
