/* data_uri.c: see data_uri.h. */
#include "io/data_uri.h"

#include "base/alloc.h"
#include <stdio.h>
#include <string.h>

char *ls__data_uri(const ls_context *ctx, const char *type, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t head = strlen("data:;base64,") + strlen(type);
    char *out = ls__alloc(ctx, head + (n + 2) / 3 * 4 + 1);
    if (!out) return NULL;
    char *at = out + sprintf(out, "data:%s;base64,", type);
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const uint32_t word = (uint32_t)bytes[i] << 16 |
                              (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                              (left > 2 ? bytes[i + 2] : 0u);
        *at++ = digits[word >> 18];
        *at++ = digits[word >> 12 & 63];
        *at++ = left > 1 ? digits[word >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[word & 63] : '=';
    }
    *at = '\0';
    return out;
}
