/* page.h: the frame of a report: one HTML file with its style sheet, without scripts and references
 * to other files. */
#ifndef LS_RUN_PAGE_H
#define LS_RUN_PAGE_H

#include "run/html.h"

/* The style sheet (report_style.c). */
extern const char ls__report_style[];

/* The head of the file, and the title as its heading. The caller may put paragraphs below the
 * heading, then calls ls__page_main and puts the sections. */
void ls__page_begin(ls__html *html, const char *title);
void ls__page_main(ls__html *html);

/* An SVG of size bytes, which is freed, as an image with a name for screen readers. class: other
 * classes of the element, or "". */
void ls__page_put_svg(ls__html *html, const char *class, const char *label, char *svg, size_t size);

/* A table in a region that scrolls sideways. The caller puts the cells of the head, then
 * </tr></thead><tbody> and the rows. The caption must not be a text of users. */
void ls__page_begin_table(ls__html *html, const char *caption);
void ls__page_end_table(ls__html *html);

/* Ends the page and writes it: to `path`, else to report.html in the folder. */
ls_status ls__page_save(ls__html *html, const char *dir, const char *path);

#endif
