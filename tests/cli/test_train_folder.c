/* test_train_folder.c: which folder a run takes, and the log that it writes there. */
#include "command.h"
#include "run_files.h"
#include "three_epochs.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Messages and results with their times, also those that --quiet hides. */
START_TEST(the_log_of_a_run)
{
    begin_folder();
    draw_data();
    ck_assert_int_eq(system("rm -r data/val/ring"), 0);
    expect(0, TRAIN "--out run -q --stop-at 21");
    ck_assert_str_eq(said_err, "");
    expect(0, "train --resume run");
    expect_out("epoch 2/3");
    size_t size;
    char *text = read_file("run/log.txt", &size), *rest = text;
    static const char *const parts[] = {
        " command: ",          " train --data-dir data ",
        " --out run -q ",      " warning: data: no validation images of 1 of 10 classes",
        " command: ",          " train --resume run\n",
        " epoch 2/3  train",   " epoch 3/3  train",
        "Z time since resume "
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        rest = strstr(rest, parts[i]);
        ck_assert_msg(rest != NULL, "%s: %s", parts[i], text);
    }
    int year, n;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        ck_assert_msg(sscanf(line, "%d-%*d-%*dT%*d:%*d:%*dZ %n", &year, &n) == 1 && n == 21, "%s",
                      line);
    free(text);
    char *html = read_file("run/report.html", &size);
    ck_assert_ptr_nonnull(strstr(html, "<h2>Warnings</h2>"));
    ck_assert_ptr_nonnull(strstr(html, "<h2>Command</h2>"));
    ck_assert_ptr_nonnull(strstr(html, "<h2>Training images of each class</h2>"));
    ck_assert_ptr_nonnull(strstr(html, "<ol class=\"images batch-images\""));
    free(html);
    ck_assert_int_eq(system("rm run/log.txt && ln -s target run/log.txt"), 0);
    expect(0, "train --resume run --epochs 3");
    expect_err("run/log.txt is not written");
    ck_assert(!exists("target"));
    end_folder();
}
END_TEST

/* Each takes a folder of its own. */
START_TEST(runs_that_start_together)
{
    enum { N = 4 };
    begin_folder();
    draw_data();
    ck_assert_int_eq(system("mkdir run-2 && touch run-3"), 0);
    pid_t pids[N];
    for (int i = 0; i < N; i++)
        pids[i] = start_command(0, TRAIN "--steps 1 --no-report --seed %d", i);
    for (int i = 0; i < N; i++) ck_assert_int_eq(wait_command(pids[i]), 0);
    static const char *const names[] = { "run", "run-4", "run-5", "run-6" };
    for (int i = 0; i < N; i++) ck_assert_int_eq(count_steps(names[i]), 1);
    ck_assert(!exists("run-7") && !exists("run-2/config.json"));
    expect(3, "train --data-dir absent");
    ck_assert(!exists("run-7"));
    end_folder();
}
END_TEST

TEST_PROGRAM(train_folder)
{
    return RUN_SUITE("train_folder", the_log_of_a_run, runs_that_start_together);
}
