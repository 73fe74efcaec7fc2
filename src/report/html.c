/* html.c: see html.h. */
#include "report/html.h"

#include "base/alloc.h"
#include "report/xml_text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ls__html_bytes(ls__html *html, const char *bytes, size_t n)
{
    if (html->failed) return;
    if (html->capacity - html->size < n) {
        const size_t capacity = 2 * (html->size + n) + 4096;
        char *larger = ls__realloc(html->ctx, html->text, html->size, capacity);
        html->failed = !larger;
        if (!larger) return;
        html->text = larger;
        html->capacity = capacity;
    }
    memcpy(html->text + html->size, bytes, n);
    html->size += n;
}

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
        ls__html_bytes(html, text, (size_t)n);
}

enum { MAX_TEXT_BYTES = 4096, MAX_CELL_BYTES = 512 };

static void put_text(ls__html *html, const char *text, size_t max_bytes)
{
    const char *begin = text;
    while (text && *text) {
        const ls__xml_character c = ls__xml_next(text);
        if ((size_t)(text - begin) + (size_t)c.bytes > max_bytes) {
            ls__html_bytes(html, "...", 3);
            return;
        }
        ls__html_bytes(html, c.out, (size_t)c.length);
        text += c.bytes;
    }
}

void ls__html_text(ls__html *html, const char *text)
{
    put_text(html, text, MAX_TEXT_BYTES);
}

void ls__html_cell(ls__html *html, const char *before, const char *text, const char *after)
{
    ls__html_bytes(html, before, strlen(before));
    put_text(html, text, MAX_CELL_BYTES);
    ls__html_bytes(html, after, strlen(after));
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

void ls__html_wrap(ls__html *html, const char *before, const char *text, const char *after)
{
    ls__html_bytes(html, before, strlen(before));
    ls__html_text(html, text);
    ls__html_bytes(html, after, strlen(after));
}

void ls__html_left_out(ls__html *html, const char *what, int64_t n, int64_t most)
{
    char left[LS__COUNT_SIZE], all[LS__COUNT_SIZE];
    if (n > most)
        ls__html_put(html, "<p class=\"note\">Left out: %s of %s %s.</p>\n",
                     ls__html_count(n - most, left), ls__html_count(n, all), what);
}

void ls__html_free(ls__html *html)
{
    ls__free(html->ctx, html->text);
    *html = (ls__html){ .ctx = html->ctx };
}
