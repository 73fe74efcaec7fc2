/* html.h: HTML and SVG under construction: markup, and texts that are escaped. */
#ifndef LS_REPORT_HTML_H
#define LS_REPORT_HTML_H

#include "io/bytes.h"
#include <lockstep/export.h>

/* `failed`: memory was short, so that a part is missing. */
typedef ls__bytes ls__html;

/* Markup, printf style. The arguments must not be texts of users. */
void ls__html_put(ls__html *html, const char *format, ...) LS_PRINTF(2, 3);
/* A text, escaped for elements and for attributes in double quotes: & < > and ", hidden characters
 * (ls_utf8_is_hidden) as \u202e and the like, and U+FFFD for what is not UTF-8 and for characters
 * that XML cannot hold. NULL: nothing. Texts come from files that others may have written, so what
 * is beyond 4096 bytes is left out: "...". */
void ls__html_text(ls__html *html, const char *text);
/* BEFORE, the escaped text, AFTER. */
void ls__html_wrap(ls__html *html, const char *before, const char *text, const char *after);
/* The same for a cell of a table that can have many rows, such as a name: 512 bytes. */
void ls__html_cell(ls__html *html, const char *before, const char *text, const char *after);
/* A number with separators: "11,689,512". Returns out. */
enum { LS__COUNT_SIZE = 32 };
const char *ls__html_count(int64_t n, char out[LS__COUNT_SIZE]);
/* A table of users' texts that has become larger gets no more rows. */
enum { LS__TABLE_BYTES = 8 << 20 };
/* A line about the rows beyond `max` of n, if there are such. what: "classes". */
void ls__html_left_out(ls__html *html, const char *what, int64_t n, int64_t max);

#endif
