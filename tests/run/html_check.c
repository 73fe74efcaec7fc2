/* html_check.c: see html_check.h. */
#include "html_check.h"
#include "../suite.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int count_parts(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) n++;
    return n;
}

/* Each element is closed by its own end tag. */
static void expect_balanced(const char *html)
{
    enum { MOST = 64, NAME = 16 };
    char open[MOST][NAME];
    int n = 0;
    for (const char *at = strstr(html, "<html"); at && (at = strchr(at, '<')); at++) {
        char name[NAME];
        const char *end = strchr(at, '>');
        ck_assert_ptr_nonnull(end);
        if (at[1] == '/') {
            ck_assert_int_eq(sscanf(at, "</%15[a-z0-9]>", name), 1);
            ck_assert_msg(n > 0 && strcmp(open[n - 1], name) == 0, "</%s> in <%s>: %.80s", name,
                          n > 0 ? open[n - 1] : "", at);
            n--;
            continue;
        }
        ck_assert_int_eq(sscanf(at, "<%15[a-z0-9]", name), 1);
        const bool is_void = strcmp(name, "meta") == 0 || strcmp(name, "img") == 0 ||
                             strcmp(name, "br") == 0 || end[-1] == '/';
        ck_assert_int_lt(n, MOST);
        if (!is_void) strcpy(open[n++], name);
    }
    ck_assert_int_eq(n, 0);
}

void expect_page(const char *html)
{
    expect_balanced(html);
    ck_assert_ptr_null(strstr(html, "<script"));
    ck_assert_int_eq(count_parts(html, "http"), count_parts(html, "http://www.w3.org/2000/svg"));
    ck_assert_int_eq(count_parts(html, "<table"), count_parts(html, "<caption"));
}
