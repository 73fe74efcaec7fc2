/* html_check.h: checks of the pages that reports are, and what a reader sees of them. */
#ifndef LS_TESTS_HTML_CHECK_H
#define LS_TESTS_HTML_CHECK_H

int count_parts(const char *text, const char *part);

/* Each element is closed by its own end tag, each table has a caption, and there are no scripts and
 * no references to the outside. */
void expect_page(const char *html);
/* The file of such a page. The caller frees it. */
char *read_page(const char *path);

/* Returns the text of a page as its readers see it, without its style: one line for each block and
 * row, cells between " | ", tips in braces, and "[chart: LABEL]" or "[image: TEXT]" for charts and
 * images. The caller frees it. */
char *page_text(const char *html);

/* Fails the test unless the text of the page in this file has the part. */
void expect_seen(const char *path, const char *part);
void expect_part(const char *text, const char *part);

/* Fails the test unless the page's text equals `file` in tests/fixtures, after `program`, if not
 * NULL, is replaced by "lockstep". LOCKSTEP_WRITE_FIXTURES=1 writes the file first. */
void expect_page_text(const char *html, const char *program, const char *file);

#endif
