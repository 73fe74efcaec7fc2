/* test_chart.c: charts are well-formed XML of numbers with decimal points, with gaps where there is
 * nothing to draw; training curves are drawn from what a run left. */
#include "../log/own_folder.h"
#include "report/chart.h"
#include <lockstep/report.h>
#include <fenv.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Elements are closed in order, attributes quoted, and the only entities those of the chart. */
static void expect_well_formed(const char *text)
{
    char open[16][16];
    int depth = 0, n_roots = 0;
    for (const char *at = text; *at;) {
        ck_assert_msg((unsigned char)*at >= ' ' || *at == '\n', "byte %d", *at);
        if (*at == '&')
            ck_assert_msg(strncmp(at, "&amp;", 5) == 0 || strncmp(at, "&lt;", 4) == 0 ||
                              strncmp(at, "&gt;", 4) == 0 || strncmp(at, "&quot;", 6) == 0 ||
                              strncmp(at, "&#xFFFD;", 8) == 0,
                          "%.20s", at);
        if (*at++ != '<') continue;
        const char *end = at + strcspn(at, "<>");
        ck_assert_msg(*end == '>', "%.40s", at);
        const bool closes = *at == '/', is_empty = end[-1] == '/';
        const int length = (int)strcspn(at + closes, " />");
        int n_quotes = 0;
        for (const char *c = at; c < end; c++) n_quotes += *c == '"';
        ck_assert_int_eq(n_quotes % 2, 0);
        if (closes) {
            ck_assert_int_gt(depth--, 0);
            ck_assert_int_eq((int)strlen(open[depth]), length);
            ck_assert_msg(strncmp(open[depth], at + 1, (size_t)length) == 0, "%.40s", at);
        } else if (!is_empty) {
            ck_assert_int_lt(depth, 16);
            n_roots += depth == 0;
            snprintf(open[depth++], sizeof(open[0]), "%.*s", length, at);
        }
        at = end + 1;
    }
    ck_assert_int_eq(depth, 0);
    ck_assert_int_eq(n_roots, 1);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    while ((text = strstr(text, part))) {
        text += strlen(part);
        n++;
    }
    return n;
}

/* Valid until the second call from here. */
static const char *format(const ls__chart *chart)
{
    static char kept[2][1 << 16];
    static int n_calls;
    char *text = kept[n_calls++ % 2];
    ls__html svg = { .ctx = ctx };
    ls__svg_put(&svg, ls__chart_draw, chart, 900);
    ck_assert(!svg.failed);
    ck_assert_uint_lt(svg.size, sizeof(kept[0]));
    memcpy(text, svg.data, svg.size);
    text[svg.size] = '\0';
    ck_assert_uint_eq(strlen(text), svg.size);
    ls__bytes_free(&svg);
    expect_well_formed(text);
    return text;
}

static const char *format_panel(const ls__chart_panel *panel)
{
    return format(
        &(ls__chart){ .title = "loss", .x_label = "step", .n_panels = 1, .panels = panel });
}

START_TEST(texts_are_escaped)
{
    static const struct {
        const char *title, *expected;
    } cases[] = {
        { "a<b> & \"c\"", ">a&lt;b&gt; &amp; &quot;c&quot;</text>" },
        { "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
          ">caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80<" },
        { "\x01|\x1b[0m|\x7f", ">&#xFFFD;|&#xFFFD;[0m|&#xFFFD;<" },
        { "\xff|\xc3|\xc0\xaf|\xed\xa0\x80", ">&#xFFFD;|&#xFFFD;|&#xFFFD;&#xFFFD;|&#xFFFD;" },
        { "\xef\xbf\xbf", ">&#xFFFD;&#xFFFD;&#xFFFD;<" }, /* U+FFFF */
        { "\xe2\x82", ">&#xFFFD;&#xFFFD;<" },             /* cut */
        { "a\xe2\x80\xae"
          "b\xe2\x81\xa9|\xef\xbb\xbf|\xf3\xa0\x81\xa1|\xc2\xad",
          ">a\\u202eb\\u2069|\\ufeff|\\ue0061|\\u00ad<" }, /* hidden */
        { "\xd8\xb9\xe2\x80\x8c|\xef\xb8\x8f", ">\xd8\xb9\xe2\x80\x8c|\xef\xb8\x8f<" },
    };
    begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *text = format(&(ls__chart){ .title = cases[i].title, .x_label = "&" });
        ck_assert_msg(strstr(text, cases[i].expected), "case %d: %s", (int)i, text);
    }
    end();
}
END_TEST

/* Values beyond the cut are drawn at the end of the axis, which leaves room for its ticks. */
START_TEST(axes_that_are_cut)
{
    const double y[] = { 900, 2.5, 1.5, 1 };
    const ls__chart_line line = { .n = 4, .y = y };
    begin();
    const char *text = format_panel(&(ls__chart_panel){
        .y_label = "y", .from_zero = true, .cut_at = 2.5, .n_lines = 1, .lines = &line });
    ck_assert_ptr_nonnull(strstr(text, ">2.5</text>"));
    ck_assert_ptr_null(strstr(text, ">900<"));
    ck_assert_int_eq(count(text, "cy=\"58.0\""), 2);
    ck_assert_ptr_nonnull(strstr(text, "<text x=\"64.0\""));
    const double small[] = { 0.00125, 0.00375 };
    const ls__chart_line low = { .n = 2, .y = small };
    text = format_panel(&(ls__chart_panel){ .y_label = "y", .n_lines = 1, .lines = &low });
    ck_assert_ptr_nonnull(strstr(text, ">0.0015</text>"));
    ck_assert_ptr_nonnull(strstr(text, "<text x=\"78.0\"")); /* 6 characters and the label fit */
    end();
}
END_TEST

/* Also where there is nothing but gaps, or nothing. */
START_TEST(values_that_cannot_be_drawn_are_gaps)
{
    const double y[] = { NAN, 3, 2, INFINITY, 1, 0, 0.5 }, gaps[] = { NAN, NAN };
    const ls__chart_line lines[] = { { .n = 7, .y = y }, { .n = 2, .y = gaps }, { .n = 0 } };
    begin();
    const char *text =
        format_panel(&(ls__chart_panel){ .y_label = "y", .n_lines = 3, .lines = lines });
    ck_assert_int_eq(count(text, "<path"), 3);
    ck_assert_int_eq(count(text, "<circle"), 5);
    ck_assert_int_eq(count(text, "d=\"M"), 1);
    ck_assert_int_eq(count(text, "M"), 2); /* before and after the gap */
    ck_assert_ptr_null(strstr(text, "nan"));
    ck_assert_ptr_null(strstr(text, "inf"));
    text = format_panel(&(ls__chart_panel){ .y_label = "y", .n_lines = 1, .lines = &lines[1] });
    ck_assert_ptr_null(strstr(text, "nan"));
    text = format_panel(
        &(ls__chart_panel){ .y_label = "y", .log_y = true, .n_lines = 1, .lines = lines });
    ck_assert_int_eq(count(text, "<circle"), 4); /* 0 has no place there */
    end();
}
END_TEST

/* Lines of shades have their own look, and a dot only where a line has one point. */
START_TEST(shades)
{
    const double x[] = { 10, 20 }, y[] = { 1, 2 };
    const ls__chart_line lines[] = {
        { .n = 0 },
        { .n = 1, .x = x, .y = y, .stroke = { LS__SHADE_WORST, LS__DASHED } },
        { .n = 2, .x = x, .y = y, .stroke = { LS__SHADE_BEST, LS__SOLID } },
    };
    begin();
    const char *text =
        format_panel(&(ls__chart_panel){ .y_label = "y", .n_lines = 3, .lines = lines });
    ck_assert_int_eq(count(text, "<circle"), 1);
    ck_assert_int_eq(count(text, "stroke-dasharray=\"7 4\""), 1);
    ck_assert_int_eq(count(text, "stroke-width=\"4.0\""), 1);
    ck_assert_ptr_nonnull(strstr(text, ">20</text>"));
    end();
}
END_TEST

START_TEST(ticks)
{
    const double y[] = { 0.02, 30 }, flat[] = { 2.5, 2.5 }, x[] = { 1, 8 };
    const ls__chart_line line = { .n = 2, .x = x, .y = y }, level = { .n = 2, .y = flat };
    begin();
    const char *text = format_panel(
        &(ls__chart_panel){ .y_label = "y", .log_y = true, .n_lines = 1, .lines = &line });
    static const char *const powers[] = { ">0.01<", ">0.1<", ">1<", ">10<", ">100<", ">8<" };
    for (int i = 0; i < 6; i++) ck_assert_msg(strstr(text, powers[i]), "%s: %s", powers[i], text);
    ck_assert_ptr_null(strstr(text, ">1000<"));
    text = format_panel(&(ls__chart_panel){ .y_label = "y",
                                            .from_zero = true,
                                            .up_to = 1,
                                            .n_lines = 1,
                                            .lines = &(ls__chart_line){ .n = 0 } });
    ck_assert(strstr(text, ">0<") && strstr(text, ">0.2<") && strstr(text, ">1<"));
    ck_assert_ptr_null(strstr(text, ">1.2<"));
    format_panel(&(ls__chart_panel){ .y_label = "y", .n_lines = 1, .lines = &level });
    end();
}
END_TEST

START_TEST(logarithmic_x)
{
    const double x[] = { 1e-3, 1e-2, 0.3 }, y[] = { 1, 2, 3 };
    const ls__chart_line line = { .n = 3, .x = x, .y = y };
    const ls__chart_panel panel = { .y_label = "y", .n_lines = 1, .lines = &line };
    begin();
    const char *text = format(&(ls__chart){
        .x_label = "x", .title = "t", .log_x = true, .n_panels = 1, .panels = &panel });
    /* Three powers of ten in 804 pixels from 72 on. */
    ck_assert_ptr_nonnull(strstr(text, "d=\"M72.0 "));
    ck_assert_ptr_nonnull(strstr(text, "L340.0 "));
    ck_assert_ptr_nonnull(strstr(text, "L735.9 ")); /* 72 + 268 log10(300) */
    ck_assert_ptr_nonnull(strstr(text, "x=\"876.0\""));
    static const char *const powers[] = { ">0.001<", ">0.01<", ">0.1<", ">1<" };
    for (int i = 0; i < 4; i++) ck_assert_msg(strstr(text, powers[i]), "%s: %s", powers[i], text);
    ck_assert_int_eq(count(text, ">10<"), 0);
    const ls__chart_panel none = { .y_label = "y" };
    text = format(&(ls__chart){
        .x_label = "x", .title = "t", .log_x = true, .n_panels = 1, .panels = &none });
    ck_assert_ptr_null(strstr(text, "nan"));
    end();
}
END_TEST

/* No range of values leads to endless or unnumbered ticks. */
START_TEST(extreme_values)
{
    static const double pairs[][2] = {
        { -1e299, 1e299 }, { 0, 5e-324 }, { 1, 1 + 1e-15 }, { 1e-299, 1e299 }, { -1e-300, 1e-300 }
    };
    begin();
    for (size_t i = 0; i < 2 * sizeof(pairs) / sizeof(pairs[0]); i++) {
        const ls__chart_line line = { .n = 2, .y = pairs[i / 2] };
        const char *text = format_panel(
            &(ls__chart_panel){ .y_label = "y", .log_y = i % 2, .n_lines = 1, .lines = &line });
        ck_assert_int_lt(count(text, "<text"), 60);
        ck_assert_ptr_null(strstr(text, "nan"));
    }
    end();
}
END_TEST

/* A million points are drawn by no more than the pixels need, and lose no extreme. */
START_TEST(many_points)
{
    enum { N = 1000000 };
    double *y = malloc(N * sizeof(*y));
    begin();
    ck_assert_ptr_nonnull(y);
    for (int i = 0; i < N; i++) y[i] = i == N / 2 ? 900 : i % 2;
    const ls__chart_line line = { .n = N, .y = y };
    const char *text =
        format_panel(&(ls__chart_panel){ .y_label = "y", .n_lines = 1, .lines = &line });
    ck_assert_uint_lt(strlen(text), 40000);
    const char *curve = strstr(text, "<path");
    ck_assert_ptr_nonnull(strstr(curve, " 83.0V")); /* the pixel of 900 in 0 to 1000 */
    free(y);
    end();
}
END_TEST

START_TEST(rows)
{
    const ls__chart_span spans[] = { { 3, 0 }, { 10, 2 } };
    const int64_t mark = 5;
    const ls__chart_row all[] = {
        { .name = "a<", .n_spans = 1, .spans = &spans[1] },
        { .name = "b", .n_spans = 2, .spans = spans, .n_marks = 1, .marks = &mark }
    };
    static const char *const names[] = { "one", "two", "three" };
    begin();
    const char *text = format_panel(&(ls__chart_panel){ .y_label = "run",
                                                        .note = "a note",
                                                        .n_names = 3,
                                                        .names = names,
                                                        .n_rows = 2,
                                                        .rows = all });
    ck_assert_int_eq(count(text, "fill=\"#0072b2\""), 2); /* legend, first span */
    ck_assert_int_eq(count(text, "fill=\"#d55e00\""), 1);
    ck_assert_int_eq(count(text, "fill=\"#009e73\""), 3);
    ck_assert(strstr(text, ">a&lt;</text>") && strstr(text, ">a note<") && strstr(text, ">three<"));
    end();
}
END_TEST

START_TEST(rounding_changes_nothing)
{
    const double y[] = { 0.1, 0.7, 1.0 / 3, 2.2 };
    const ls__chart_line line = { .n = 4, .y = y };
    const ls__chart_panel panel = { .y_label = "y", .n_lines = 1, .lines = &line };
    begin();
    const char *text = format_panel(&panel);
    fesetround(FE_UPWARD);
    const char *upward = format_panel(&panel);
    fesetround(FE_TONEAREST);
    ck_assert(strcmp(text, upward) == 0); /* too long to be printed */
    end();
}
END_TEST

/* ---- Training curves ---- */

static char *read_curves(void)
{
    size_t n;
    char *text = read_file(path("curves.svg"), &n);
    expect_well_formed(text);
    return text;
}

#define ROW(epoch, train, val)                                                                     \
    "{\"epoch\": " epoch ", \"train_loss\": " train ", \"train_top1\": 0.5, \"val_loss\": " val    \
    ", \"val_top1\": " val "}\n"

START_TEST(curves_of_a_run)
{
    begin();
    write_text(path("metrics.jsonl"),
               ROW("1", "2.5", "0.5") ROW("2", "1.5", "0.75") "{\"epoch\": 3, \"tra");
    ck_assert_int_eq(ls_curves_write(ctx, dir, "a run", false), LS_OK);
    char *text = read_curves();
    ck_assert(strstr(text, ">a run<") && strstr(text, ">validation<") && strstr(text, ">epoch<"));
    ck_assert_int_eq(count(text, "<path"), 4);
    ck_assert_int_eq(count(text, "<circle"), 8); /* the row that is cut is none */
    write_text(path("metrics.jsonl"), ROW("1", "2.5", "null") ROW("2", "1.5", "null"));
    ck_assert_int_eq(ls_curves_write(ctx, dir, "a run", true), LS_OK);
    free(text);
    text = read_curves();
    ck_assert_ptr_null(strstr(text, ">validation<"));
    ck_assert_int_eq(count(text, "<path"), 2);
    free(text);
    end();
}
END_TEST

START_TEST(no_curves)
{
    begin();
    for (int i = 0; i < 2; i++) {
        if (i > 0) write_text(path("metrics.jsonl"), "{\"epoch\": 1");
        expect_failure(ls_curves_write(ctx, dir, "a run", false), ctx, LS_ERR_DATA,
                       "metrics.jsonl: no epoch is complete");
    }
    expect_failure(ls_curves_write(ctx, NULL, "a run", false), ctx, LS_ERR_INVALID, "dir is NULL");
    ck_assert_int_ne(access(path("curves.svg"), F_OK), 0);
    end();
}
END_TEST

TEST_PROGRAM(chart)
{
    return RUN_SUITE("chart", axes_that_are_cut, texts_are_escaped,
                     values_that_cannot_be_drawn_are_gaps, shades, ticks, logarithmic_x,
                     extreme_values, many_points, rows, rounding_changes_nothing, curves_of_a_run,
                     no_curves);
}
