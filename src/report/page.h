/* page.h: the frame of a report: one HTML file with its style sheet, without scripts and references
 * to other files. */
#ifndef LS_REPORT_PAGE_H
#define LS_REPORT_PAGE_H

#include "report/command_line.h"
#include "report/svg.h"

/* The style sheet (report_style.c). */
extern const char ls__report_style[];

/* Puts the head of the file, and the title as its heading. The caller may put paragraphs below the
 * heading, then calls ls__page_main and puts the sections. */
void ls__page_begin(ls__html *html, const char *title);
void ls__page_main(ls__html *html);

/* Puts a chart of that width in pixels as an image with a name for screen readers. */
void ls__page_put_chart(ls__html *html, const char *label, ls__svg_draw *draw, const void *chart,
                        double width);
/* Puts a chart twice: screens of at most 700 pixels show the narrow one, all others the wide one
 * (report_style.c). class: another class of both, after a space, or "". */
void ls__page_put_charts(ls__html *html, const char *class, const char *label, ls__svg_draw *draw,
                         const void *chart);

/* Begins a list of n tiles, whose last row is not much shorter than the others. The caller puts the
 * tiles, and </ul>. */
void ls__page_begin_tiles(ls__html *html, int n);
void ls__page_put_tile(ls__html *html, const char *name, const char *value);

typedef enum ls__table_look {
    LS__TABLE_CARD,   /* on a card of its own */
    LS__TABLE_PLAIN,  /* on a card with other things */
    LS__TABLE_HIDDEN, /* the same, and its caption is for screen readers alone */
    LS__TABLE_FACTS,  /* names and values */
    LS__TABLE_MATRIX
} ls__table_look;
/* Begins a table in a region that scrolls sideways, and its head. The caption must not be a text of
 * users. */
void ls__page_begin_table(ls__html *html, const char *caption, ls__table_look look);
/* Puts columns of the head, "class|#images"; # = of numbers. Not texts of users. */
void ls__page_put_heads(ls__html *html, const char *heads);
/* Ends the head; the rows follow. */
void ls__page_begin_rows(ls__html *html);
void ls__page_end_table(ls__html *html);

/* Puts a command line, which breaks before options only. Changes the text. */
void ls__page_put_command(ls__html *html, char *text);
/* Puts the command line of these words, quoted for a shell, and frees them. */
void ls__page_put_words(ls__html *html, ls__words *words);

/* Ends the page and writes it to `path`, or, if that is NULL, replaces report.html in the folder.
 * LS_ERR_MEMORY also if an earlier call lacked memory. */
ls_status ls__page_save(ls__html *html, const char *dir, const char *path);

#endif
