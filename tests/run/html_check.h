/* html_check.h: checks of the pages that reports are. */
#ifndef LS_TESTS_HTML_CHECK_H
#define LS_TESTS_HTML_CHECK_H

int count_parts(const char *text, const char *part);

/* Each element is closed by its own end tag, each table has a caption, and there are no scripts and
 * no references to the outside. */
void expect_page(const char *html);

#endif
