/* test_parallel.c: parallel coordinates: places of values on linear, logarithmic, turned and named
 * axes, upright and stacked; looks without colours; texts are escaped. */
#include "html_check.h"
#include "../log/own_folder.h"
#include "report/parallel.h"
#include <math.h>
#include <string.h>

static const char *const names[] = { "sgd", "<adamw> & a very long name" };
static const ls__parallel_axis axes[] = {
    { .name = "linear", .low = 0, .high = 4 },
    { .name = "log", .low = 0.001, .high = 10, .is_log = true },
    { .name = "list", .n_names = 2, .names = names },
    { .name = "turned", .low = 8, .high = 2, .beyond = "failed" },
};
enum { N_AXES = sizeof(axes) / sizeof(axes[0]) };

/* The caller frees it. */
static char *format(const ls__parallel *chart, double width)
{
    ls__html html = { .ctx = ctx };
    ls__html_put(&html, "<html>");
    ls__svg_put(&html, ls__parallel_draw, chart, width);
    ls__html_put(&html, "</html>");
    ck_assert(!html.failed);
    char *page = strndup((const char *)html.data, html.size);
    ck_assert_uint_eq(strlen(page), html.size);
    ls__bytes_free(&html);
    expect_page(page);
    ck_assert_ptr_null(strstr(page, "nan"));
    ck_assert_ptr_null(strstr(page, "inf"));
    return page;
}

static const double low[] = { 0, 0.001, 0, 8 }, high[] = { 4, 10, 1, 2 },
                    failed[] = { 2, 0.1, 1, NAN };
static const ls__parallel_line lines[] = {
    { "a \"bad\" one", failed, { LS__SHADE_FAILED, LS__DOTTED } },
    { "low", low, { LS__SHADE_WORST, LS__DASHED } },
    { "high", high, { LS__SHADE_BEST, LS__SOLID } },
};

START_TEST(upright_axes)
{
    begin();
    char *text = format(
        &(ls__parallel){ .n_axes = N_AXES, .axes = axes, .n_lines = 3, .lines = lines }, 768);
    /* x from 84 to 768 - 84; y from 52 down to 352, where failed values are; 52 pixels above are
     * the other values of that axis */
    expect_part(text, "d=\"M84.0 352.0L284.0 352.0L484.0 277.0L684.0 300.0\"><title>low</title>");
    expect_part(text, "d=\"M84.0 52.0L284.0 52.0L484.0 127.0L684.0 52.0\"><title>high</title>");
    expect_part(text, "d=\"M84.0 202.0L284.0 202.0L484.0 127.0L684.0 352.0\"><title>a &quot;bad");
    ck_assert_int_eq(count_parts(text, "<path"), 3);
    ck_assert_int_eq(count_parts(text, "stroke-dasharray=\"2 4\""), 1);
    ck_assert_int_eq(count_parts(text, "stroke-dasharray=\"7 4\""), 1);
    expect_part(text, ">&lt;adamw&gt; &amp; a very\xe2\x80\xa6</text>");
    expect_part(text, ">failed</text>");
    static const char *const ticks[] = { ">0.001<", ">0.01<", ">0.1<", ">10<", ">4<", ">8<" };
    for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) expect_part(text, ticks[i]);
    free(text);
    end();
}
END_TEST

START_TEST(stacked_axes)
{
    begin();
    char *text = format(
        &(ls__parallel){ .n_axes = N_AXES, .axes = axes, .n_lines = 3, .lines = lines }, 344);
    /* x from 22 to 322 */
    expect_part(text, "d=\"M22.0 30.0L22.0 ");
    expect_part(text, "d=\"M322.0 30.0L322.0 ");
    expect_part(text, "<title>a &quot;bad&quot; one</title>");
    free(text);
    end();
}
END_TEST

START_TEST(ends_that_are_equal_or_far_away)
{
    begin();
    const double values[] = { 3, 1e-12, 0.05, 1e17 };
    const ls__parallel_axis few[] = {
        { .name = "point", .low = 3, .high = 3 },
        { .name = "far", .low = 1e-12, .high = 1000, .is_log = true },
        { .name = "near", .low = 0.02, .high = 0.07, .is_log = true },
        { .name = "neighbours", .low = 1e17, .high = 1e17 + 16 },
    };
    const ls__parallel_line line = { .title = "", .values = values };
    for (int n = 1; n <= 4; n++) {
        char *text =
            format(&(ls__parallel){ .n_axes = n, .axes = few, .n_lines = 1, .lines = &line }, 700);
        if (n == 1) expect_part(text, "M350.0 202.0");
        if (n == 3) expect_part(text, ">0.02<");
        if (n == 3) expect_part(text, ">0.05<");
        ck_assert_int_lt(count_parts(text, "<text"), 30);
        free(text);
    }
    char *text = format(&(ls__parallel){ .n_axes = 3, .axes = few }, 700);
    ck_assert_int_eq(count_parts(text, "<path"), 0);
    free(text);
    end();
}
END_TEST

TEST_PROGRAM(parallel)
{
    return RUN_SUITE("parallel", upright_axes, stacked_axes, ends_that_are_equal_or_far_away);
}
