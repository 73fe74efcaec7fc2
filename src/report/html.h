/* html.h: HTML under construction: markup, and texts that are escaped. */
#ifndef LS_REPORT_HTML_H
#define LS_REPORT_HTML_H

#include <lockstep/context.h>
#include <lockstep/export.h>
#include <stdint.h>

/* Begins with all zero but ctx. */
typedef struct ls__html {
    ls_context *ctx;
    char *text;
    size_t size, capacity;
    bool failed; /* memory was short; nothing more is added */
} ls__html;

/* Markup, printf style. The arguments must not be texts of users. */
void ls__html_put(ls__html *html, const char *format, ...) LS_PRINTF(2, 3);
/* A text, escaped for elements and for attributes in double quotes. NULL: nothing. Texts come from
 * files that others may have written, so what is beyond 4096 bytes is left out: "...". */
void ls__html_text(ls__html *html, const char *text);
/* The same for a cell of a table that can have many rows, such as a name: 512 bytes. */
void ls__html_cell(ls__html *html, const char *before, const char *text, const char *after);
/* A number with separators: "11,689,512". Returns out. */
enum { LS__COUNT_SIZE = 32 };
const char *ls__html_count(int64_t n, char out[LS__COUNT_SIZE]);
/* BEFORE, the escaped text, AFTER. */
void ls__html_wrap(ls__html *html, const char *before, const char *text, const char *after);
/* A table of users' texts that has become larger gets no more rows. */
enum { LS__TABLE_BYTES = 8 << 20 };
/* A line about the rows beyond `most` of n, if there are such. what: "classes". */
void ls__html_left_out(ls__html *html, const char *what, int64_t n, int64_t most);
/* Bytes as they are. */
void ls__html_bytes(ls__html *html, const char *bytes, size_t n);
void ls__html_free(ls__html *html);

#endif
