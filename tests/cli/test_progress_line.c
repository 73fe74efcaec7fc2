/* test_progress_line.c: the contents of the progress line by width. */
#include "terminal/progress.h"

#include "../suite.h"
#include <string.h>

static const progress_numbers usual = {
    .title = "epoch 3/30",
    .step = 123,
    .n_steps = 391,
    .loss = 1.23456,
    .top1 = 0.56789,
    .images_per_second = 1234.5,
    .data_wait = 0.034,
    .seconds_left = 3723,
};

static const progress_numbers large = {
    .title = "val 100/100",
    .step = 12345,
    .n_steps = 12345,
    .loss = 12.34567,
    .top1 = 0.56789,
    .images_per_second = 12345.6,
    .data_wait = 1,
    .seconds_left = 359999,
};

START_TEST(widths)
{
    static const struct {
        const progress_numbers *numbers;
        int columns;
        const char *line;
    } cases[] = {
        { &usual, 200,
          "epoch 3/30 [######              ]  31%  step 123/391  loss 1.2346  top-1 0.5679  "
          "1234 images/s  data wait 3%  ETA 1:02:03" },
        { &usual, 120,
          "epoch 3/30 [#####             ]  31%  step 123/391  loss 1.2346  top-1 0.5679  "
          "1234 images/s  data wait 3%  ETA 1:02:03" },
        { &usual, 80,
          "epoch 3/30 [#     ]  31%  loss 1.2346  top-1 0.5679  1234 images/s  ETA 1:02:03" },
        { &usual, 60, "epoch 3/30  31%  loss 1.2346  1234 img/s  ETA 1:02:03" },
        { &usual, 40, "epoch 3/30  1234 img/s  ETA 1:02:03" },
        { &usual, 20, "1234 img/s  ETA 1:0" },
        { &usual, 1, "" },
        { &large, 200,
          "val 100/100 [####################] 100%  step 12345/12345  loss 12.3457  "
          "top-1 0.5679  12346 images/s  data wait 100%  ETA 99:59:59" },
        { &large, 120,
          "val 100/100 [########] 100%  step 12345/12345  loss 12.3457  top-1 0.5679  12346 "
          "images/s  "
          "data wait 100%  ETA 99:59:59" },
        { &large, 80, "val 100/100 100%  loss 12.3457  top-1 0.5679  12346 img/s  ETA 99:59:59" },
        { &large, 60, "val 100/100 100%  loss 12.3457  12346 img/s  ETA 99:59:59" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[PROGRESS_LINE_SIZE];
        progress_bar(cases[i].numbers, cases[i].columns, line);
        ck_assert_str_eq(line, cases[i].line);
    }
}
END_TEST

/* Whatever the numbers are. */
START_TEST(fits_every_width)
{
    static const double times[] = { -1, 0, 59.6, 3599, 86400, 1e7 };
    char line[PROGRESS_LINE_SIZE];
    for (int columns = 0; columns <= 300; columns++)
        for (size_t t = 0; t < sizeof(times) / sizeof(times[0]); t++)
            for (int i = 0; i < 2; i++) {
                progress_numbers p = i ? large : usual;
                p.seconds_left = times[t];
                progress_bar(&p, columns, line);
                const int length = (int)strlen(line);
                ck_assert_msg(length < columns || length == 0, "%d: %s", columns, line);
                if (columns >= 60) ck_assert_msg(strstr(line, "  ETA "), "%s", line);
                if (columns >= 60) ck_assert_msg(strstr(line, "/s  "), "%s", line);
                if (columns >= 120) ck_assert_msg(strstr(line, "  data wait "), "%s", line);
                if (columns >= 120) ck_assert_msg(strstr(line, "  step "), "%s", line);
            }
}
END_TEST

START_TEST(log_lines_have_all_fields)
{
    char line[PROGRESS_LINE_SIZE];
    progress_log(&large, line);
    ck_assert_str_eq(line, "val 100/100  step 12345/12345  loss 12.3457  top-1 0.5679  "
                           "12346 images/s  data wait 100%  ETA 99:59:59");
    progress_numbers p = usual;
    p.seconds_left = -1;
    p.images_per_second = 2.25;
    progress_log(&p, line);
    ck_assert_str_eq(line, "epoch 3/30  step 123/391  loss 1.2346  top-1 0.5679  2.2 images/s  "
                           "data wait 3%  ETA -");
}
END_TEST

START_TEST(durations)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = { { 0, "0:00" },         { 0.6, "0:01" },        { 59.4, "0:59" },
                  { 61, "1:01" },        { 3599.4, "59:59" },    { 3599.6, "1:00:00" },
                  { 90061, "25:01:01" }, { 1e30, "27777:46:40" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[DURATION_SIZE];
        duration(cases[i].seconds, text);
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

TEST_PROGRAM(progress_line)
{
    return RUN_SUITE("progress_line", widths, fits_every_width, log_lines_have_all_fields,
                     durations);
}
