/* test_progress.c: the estimated time left of a run. */
#include "terminal/progress.h"

#include "../suite.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* At second 100 of a part of `work` that began at second 0. */
static progress in_part(progress_work work)
{
    return (progress){ .title = "part", .work = work };
}

START_TEST(no_estimate_before_the_first_step)
{
    progress p = in_part(WORK_TRAIN);
    p.works[WORK_TRAIN].left = 10;
    ck_assert(progress_seconds_left(&p, 100) < 0);
}
END_TEST

/* Also of its last epoch's last steps, when the validation is all that is left. */
START_TEST(validation_time_is_estimated)
{
    progress p = in_part(WORK_TRAIN);
    p.works[WORK_TRAIN].done = 50; /* 2 s each */
    p.works[WORK_TRAIN].left = 10;
    p.works[WORK_EVALUATE].left = 30;
    ck_assert_double_eq_tol(progress_seconds_left(&p, 100), 10 * 2 + 30 * 2.0 / 3, 1e-9);
    p.works[WORK_EVALUATE].done = 15; /* now it is known: 4 s each */
    p.works[WORK_EVALUATE].seconds = 60;
    p.works[WORK_TRAIN].left = 0;
    ck_assert_double_eq_tol(progress_seconds_left(&p, 100), 30 * 4, 1e-9);
}
END_TEST

/* As in a run that resumes with the validation of an epoch. */
START_TEST(validation_before_training)
{
    progress p = in_part(WORK_EVALUATE);
    p.works[WORK_EVALUATE].done = 50;
    p.works[WORK_EVALUATE].left = 10;
    ck_assert_double_eq_tol(progress_seconds_left(&p, 100), 10 * 2, 1e-9);
    p.works[WORK_TRAIN].left = 5;
    ck_assert_double_eq_tol(progress_seconds_left(&p, 100), 10 * 2 + 5 * 6, 1e-9);
}
END_TEST

START_TEST(other_work_gives_no_estimate)
{
    progress p = in_part(WORK_OTHER);
    p.works[WORK_OTHER].done = 50;
    p.works[WORK_OTHER].left = 10;
    ck_assert(progress_seconds_left(&p, 100) < 0);
    p.works[WORK_TRAIN].done = 5;
    p.works[WORK_TRAIN].left = 5;
    p.works[WORK_TRAIN].seconds = 15;
    ck_assert_double_eq_tol(progress_seconds_left(&p, 100), 5 * 3, 1e-9);
}
END_TEST

/* Where stderr is no terminal: a line of its own, and nothing on stdout, which is for results. */
START_TEST(progress_goes_to_stderr)
{
    int files[2], saved[2];
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        FILE *file = tmpfile();
        files[fd - 1] = dup(fileno(file));
        fclose(file);
        saved[fd - 1] = dup(fd);
        dup2(files[fd - 1], fd);
    }
    progress p;
    progress_open(&p, 10, 0);
    progress_begin(&p, "epoch 1/1", WORK_TRAIN, 0, 10);
    p.shown -= 1e6; /* so long ago that it is time again */
    progress_step(&p, 32, 0, 1.5, 0.25);
    progress_clear(&p);
    fflush(stdout);
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        dup2(saved[fd - 1], fd);
        char said[256] = "";
        ck_assert_int_ge(pread(files[fd - 1], said, sizeof(said) - 1, 0), 0);
        if (fd == STDOUT_FILENO)
            ck_assert_str_eq(said, "");
        else
            ck_assert_msg(strstr(said, "epoch 1/1  step 1/10  loss 1.5000  top-1 0.2500  ") == said,
                          "%s", said);
        close(saved[fd - 1]);
        close(files[fd - 1]);
    }
}
END_TEST

TEST_PROGRAM(progress)
{
    return RUN_SUITE("progress", no_estimate_before_the_first_step, validation_time_is_estimated,
                     validation_before_training, other_work_gives_no_estimate,
                     progress_goes_to_stderr);
}
