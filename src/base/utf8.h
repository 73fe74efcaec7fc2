/* utf8.h: the characters of texts that may hold any bytes. base/text.h truncates such texts. */
#ifndef LS_BASE_UTF8_H
#define LS_BASE_UTF8_H

#include "base/text.h"
#include <stdbool.h>
#include <stdint.h>

/* Bytes of the character at `at`, which is not the end of the text: a whole UTF-8 sequence
 * (RFC 3629), or one byte that begins none, whose code is then -1. */
static inline int ls__utf8_next(const char *at, int32_t *code)
{
    static const int32_t min_code[] = { 0, 0, 0x80, 0x800,
                                        0x10000 }; /* by length: no longer forms */
    const unsigned char first = (unsigned char)*at;
    const int n = first < 0x80   ? 1
                  : first < 0xC2 ? 0
                  : first < 0xE0 ? 2
                  : first < 0xF0 ? 3
                  : first < 0xF5 ? 4
                                 : 0;
    *code = first;
    if (n == 1) return 1;
    *code &= 0xFF >> (n + 1);
    for (int i = 1; i < n; i++) {
        if (((unsigned char)at[i] & 0xC0) != 0x80) *code = -1;
        if (*code < 0) return 1;
        *code = *code << 6 | ((unsigned char)at[i] & 0x3F);
    }
    const bool ok = n > 0 && *code >= min_code[n] && *code <= 0x10FFFF &&
                    !(*code >= 0xD800 && *code <= 0xDFFF); /* surrogates */
    if (!ok) *code = -1;
    return ok ? n : 1;
}

/* Whether the whole text is UTF-8, which JSON and so all our files require. */
bool ls__utf8_is_valid(const char *text);

#endif
