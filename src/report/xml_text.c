/* xml_text.c: see xml_text.h. */
#include "report/xml_text.h"

#include <stdio.h>

ls__xml_character ls__xml_next(const char *text)
{
    int32_t code;
    const int n = ls_utf8_next(text, &code);
    const bool is_control = code < ' ' || (code >= 0x7f && code < 0xa0);
    const bool is_bad = is_control || code == 0xfffe || code == 0xffff;
    const char *name = is_bad         ? "&#xFFFD;"
                       : *text == '&' ? "&amp;"
                       : *text == '<' ? "&lt;"
                       : *text == '>' ? "&gt;"
                       : *text == '"' ? "&quot;"
                                      : NULL;
    ls__xml_character c = { .bytes = is_bad || n < 1 ? 1 : n };
    if (name)
        c.length = snprintf(c.out, sizeof(c.out), "%s", name);
    else if (ls_utf8_is_hidden(code))
        c.length = snprintf(c.out, sizeof(c.out), "\\u%04x", (unsigned)code);
    else
        c.length = snprintf(c.out, sizeof(c.out), "%.*s", n, text);
    return c;
}
