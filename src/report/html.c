/* html.c: see html.h. */
#include "report/html.h"

#include <lockstep/text.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ls__html_put(ls__html *html, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text)
        html->failed = true;
    else
        ls__bytes_put(html, text, (size_t)n);
}

/* Puts the next character of a text that has not ended. Returns its bytes in the text. */
static int put_character(ls__html *html, const char *text)
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
    if (name)
        ls__bytes_put(html, name, strlen(name));
    else if (ls_utf8_is_hidden(code))
        ls__html_put(html, "\\u%04x", (unsigned)code);
    else
        ls__bytes_put(html, text, (size_t)n);
    return is_bad ? 1 : n;
}

static void put_wrapped(ls__html *html, const char *before, const char *text, const char *after,
                        size_t max_bytes)
{
    size_t at = 0;
    ls__bytes_put(html, before, strlen(before));
    while (text && text[at]) {
        const size_t begin = html->size;
        at += (size_t)put_character(html, text + at);
        if (at <= max_bytes) continue;
        html->size = begin;
        ls__bytes_put(html, "...", 3);
        break;
    }
    ls__bytes_put(html, after, strlen(after));
}

enum { MAX_TEXT_BYTES = 4096, MAX_CELL_BYTES = 512 };

void ls__html_text(ls__html *html, const char *text)
{
    put_wrapped(html, "", text, "", MAX_TEXT_BYTES);
}

void ls__html_wrap(ls__html *html, const char *before, const char *text, const char *after)
{
    put_wrapped(html, before, text, after, MAX_TEXT_BYTES);
}

void ls__html_cell(ls__html *html, const char *before, const char *text, const char *after)
{
    put_wrapped(html, before, text, after, MAX_CELL_BYTES);
}

const char *ls__html_count(int64_t n, char out[LS__COUNT_SIZE])
{
    char digits[LS__COUNT_SIZE];
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)n);
    int at = 0;
    for (int i = 0; i < length; i++) {
        const int left = length - i;
        if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

void ls__html_left_out(ls__html *html, const char *what, int64_t n, int64_t max)
{
    char left[LS__COUNT_SIZE], all[LS__COUNT_SIZE];
    if (n > max)
        ls__html_put(html, "<p class=\"note\">Left out: %s of %s %s.</p>\n",
                     ls__html_count(n - max, left), ls__html_count(n, all), what);
}
