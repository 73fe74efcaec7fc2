/* utf8.c: see utf8.h. */
#include "report/utf8.h"

bool ls__utf8_is_hidden(int32_t code)
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
