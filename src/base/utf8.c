/* utf8.c: the characters of texts, and plain messages; see <lockstep/text.h>. */
#include "base/utf8.h"

#include <string.h>

int ls_utf8_next(const char *at, int32_t *code)
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

bool ls__utf8_is_valid(const char *text)
{
    int32_t code = 0;
    while (*text && code >= 0) text += ls_utf8_next(text, &code);
    return code >= 0;
}

size_t ls_utf8_whole_length(const char *text, size_t length)
{
    enum { MAX_BYTES = 4 }; /* of a sequence (RFC 3629) */
    for (size_t n = 1; n < MAX_BYTES && n <= length; n++) {
        const unsigned char byte = (unsigned char)text[length - n];
        if ((byte & 0xC0) == 0x80) continue;
        const size_t needed = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
        return n < needed ? length - n : length;
    }
    return length;
}

bool ls_utf8_is_hidden(int32_t code)
{
    static const struct {
        int32_t first, last;
    } ranges[] = {
        { 0x00, 0x1F },     { 0x7F, 0x9F },       /* controls */
        { 0xAD, 0xAD },                           /* soft hyphen */
        { 0x61C, 0x61C },                         /* Arabic letter mark */
        { 0x115F, 0x1160 }, { 0x17B4, 0x17B5 },   /* fillers, inherent vowels */
        { 0x180E, 0x180E }, { 0x200B, 0x200B },   /* separators without width */
        { 0x200E, 0x200F }, { 0x2028, 0x202E },   /* marks and overrides of direction, separators */
        { 0x2060, 0x206F }, { 0x3164, 0x3164 },   /* invisible operators, isolates, filler */
        { 0xFEFF, 0xFEFF }, { 0xFFA0, 0xFFA0 },   /* byte order mark, filler */
        { 0xFFF9, 0xFFFB }, { 0xE0000, 0xE007F }, /* annotations, tags */
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

const char *ls_plain_message(const char *message)
{
    const size_t n = strspn(message, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const bool names_call = strncmp(message, "ls_", 3) == 0 && strncmp(message + n, ": ", 2) == 0;
    return message + (names_call ? n + 2 : 0);
}
