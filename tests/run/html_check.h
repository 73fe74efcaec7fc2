/* html_check.h: checks of the pages that reports are, and what a reader sees of them. */
#ifndef LS_TESTS_HTML_CHECK_H
#define LS_TESTS_HTML_CHECK_H

int count_parts(const char *text, const char *part);

/* Each element is closed by its own end tag, each table has a caption, and there are no scripts and
 * no references to the outside. */
void expect_page(const char *html);
/* The file of such a page. The caller frees it. */
char *read_page(const char *path);

/* What a reader sees of a page, without its style: a line for each block and row, cells between
 * " | ", tips in braces, and "[chart: LABEL]" or "[image: TEXT]" for pictures. The caller frees it.
 */
char *page_text(const char *html);

/* The test fails unless what a reader sees of the page in this file has the part. */
void expect_seen(const char *path, const char *part);
void expect_part(const char *text, const char *part);

/* page_text, with "lockstep" for the path `program` if there is one, is the contents of `file` in
 * tests/fixtures. With LOCKSTEP_WRITE_FIXTURES set, it is written there. */
void expect_page_text(const char *html, const char *program, const char *file);

#endif
