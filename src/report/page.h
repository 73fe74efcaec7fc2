/* page.h: the frame of a report: one HTML file with its style sheet, without scripts and references
 * to other files. */
#ifndef LS_REPORT_PAGE_H
#define LS_REPORT_PAGE_H

#include "report/html.h"

/* The style sheet (report_style.c). */
extern const char ls__report_style[];

/* Puts the head of the file, and the title as its heading. The caller may put paragraphs below the
 * heading, then calls ls__page_main and puts the sections. */
void ls__page_begin(ls__html *html, const char *title);
void ls__page_main(ls__html *html);

/* Widths of charts in pixels. Of charts of the classes "wide" and "narrow" screens of at most 700
 * pixels show the narrow one, all others the wide one (report_style.c). */
enum { LS__PAGE_WIDE = 1000, LS__PAGE_NARROW = 360 };

/* An SVG of size bytes, which is freed, as an image with a name for screen readers. class: more
 * classes of the element, separated by spaces, or "". */
void ls__page_put_svg(ls__html *html, const char *class, const char *label, char *svg, size_t size);

/* Begins a list of n tiles, whose last row is not much shorter than the others. The caller puts
 * <li><span>NAME</span> <b>VALUE</b></li>, and </ul>. */
void ls__page_begin_tiles(ls__html *html, int n);

/* Begins a table in a region that scrolls sideways. The caller puts the cells of the head, then
 * </tr></thead><tbody> and the rows. The caption must not be a text of users. */
void ls__page_begin_table(ls__html *html, const char *caption);
void ls__page_end_table(ls__html *html);

/* Puts a command line, which breaks before options only. Changes the text. */
void ls__page_put_command(ls__html *html, char *text);
/* Puts the command line of these words, which end with NULL, quoted for a shell. */
void ls__page_put_words(ls__html *html, const char *const *words);

/* Ends the page and writes it to `path`, or, if that is NULL, replaces report.html in the folder.
 * LS_ERR_MEMORY also if an earlier call lacked memory. */
ls_status ls__page_save(ls__html *html, const char *dir, const char *path);

#endif
