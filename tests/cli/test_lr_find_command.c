/* test_lr_find_command.c: 'lockstep lr-find' writes the same bytes for any number of threads and
 * workers, and prints a command that trains. */
#include "../suite.h"
#include "command.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define FIND "lr-find --data-dir data --image-size 8 -b 8 --flip 0.25 --end-lr 1 --steps 12 "
/* The loss falls by more than its noise. */
#define FIND_FALL "lr-find --data-dir data --image-size 16 -b 40 --model mlp "

START_TEST(same_files_for_any_number_of_threads_and_workers)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(1, FIND "-j 0 --threads 1 --out a");
    expect_out("\nfiles   a/lr_find.csv, a/lr_find.svg\n");
    expect_out("        lr        loss  smoothed loss\n     1e-06  ");
    expect_out("ended after 12 of 12 steps: all are done\n");
    static const char *const others[] = { "-j 2 --threads 1", "-j 0 --threads 2",
                                          "-j 2 --threads 2" };
    for (int i = 0; i < 3; i++) {
        expect(1, FIND "%s --out b", others[i]);
        ck_assert(same_files("a/lr_find.csv", "b/lr_find.csv"));
        ck_assert(same_files("a/lr_find.svg", "b/lr_find.svg"));
    }
    run_command(FIND "--seed 1 --out b"); /* may have no suggestion */
    ck_assert(!same_files("a/lr_find.csv", "b/lr_find.csv"));
    end_folder();
}
END_TEST

/* The options of the test go into the command; those that have no meaning there do not. */
START_TEST(the_command_that_it_prints_trains)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, FIND_FALL "--recipe small --nesterov --accumulate 2 --smoothing 0.8 --out found");
    expect_out(
        "\nfiles   found/lr_find.csv, found/lr_find.svg\nsteepest descent of the loss at lr ");
    const char *begin = strstr(said_out, " train --recipe small ");
    ck_assert_ptr_nonnull(begin);
    char line[512];
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(begin + 1, "\n"), begin + 1);
    ck_assert_ptr_nonnull(strstr(line, " --nesterov --"));
    ck_assert_ptr_nonnull(strstr(line, " --accumulate 2 "));
    ck_assert_ptr_nonnull(strstr(line, " --lr "));
    ck_assert(!strstr(line, "--steps") && !strstr(line, "--out") && !strstr(line, "--smoothing"));
    expect(0, "%s --stop-at 2 --out run", line);
    /* Training images alone, in class folders, or split. */
    remove_folder(strdup("data/val"));
    expect(0, FIND_FALL "--flip 0 --out found");
    expect(0, "lr-find --data-dir data/train --val-split 0.5 --model mlp --image-size 16 -b 40 "
              "--out split");
    expect_out(" train --data-dir data/train --val-split 0.5 ");
    end_folder();
}
END_TEST

START_TEST(ends_of_a_test)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(1, "lr-find --data-dir data --model mlp --image-size 8 -b 8 --start-lr 100 "
              "--end-lr 1000");
    expect_out(": the smoothed loss exceeded 4 times its minimum\n");
    expect_err("no suggestion, because the loss did not fall; try other values of --start-lr");
    ck_assert(exists("lr-find/lr_find.csv") && exists("lr-find/lr_find.svg"));
    expect(1, "lr-find --data-dir data --model mlp --image-size 8 -b 8 --start-lr 100 "
              "--end-lr 1000");
    expect_out("files   lr-find-2/lr_find.csv, lr-find-2/lr_find.svg\n");
    ck_assert(same_files("lr-find/lr_find.csv", "lr-find-2/lr_find.csv"));
    expect(1, "lr-find --data-dir data --model mlp --image-size 8 -b 8 --end-lr 1 --out noise");
    expect_err("no suggestion, because the fall of the loss is within its noise: ");
    expect_err(" standard errors, expected at least 4; use a larger --batch-size, more --steps");
    ck_assert(!strstr(said_out, "steepest") && !strstr(said_out, " --lr "));
    ck_assert_int_eq(system("for f in data/train/*/*.png; do : > $f; done"), 0);
    expect(3, "lr-find --data-dir data --model mlp --image-size 8 -b 8"); /* nothing was written */
    ck_assert(!exists("lr-find-3"));
    end_folder();
}
END_TEST

/* A file for 'lockstep train', and a run's config.json: options that the test does not have are
 * ignored, and the command that it prints has them all. */
START_TEST(shares_config_files_with_train)
{
    static const char *const files[] = { "train.conf", "run/config.json" };
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    write_text("train.conf", "data-dir = data\nmodel = mlp\nimage-size = 16\nbatch-size = 40\n"
                             "epochs = 3\nlr-scheduler = constant\nlr-per-256 = 0.1\nflip = 0.5\n");
    expect(0, "train --config train.conf --out run");
    for (int i = 0; i < 2; i++) {
        expect(0, "lr-find --config %s --flip 0 --out found", files[i]);
        const char *begin = strstr(said_out, " train --config ");
        ck_assert_ptr_nonnull(begin);
        char line[512];
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(begin + 1, "\n"), begin + 1);
        ck_assert(strstr(line, files[i]) && strstr(line, " --flip 0 --lr "));
        ck_assert(!strstr(line, "--model"));
        expect(0, "%s --stop-at 1 --out again%d", line, i);
        expect(0, "train --resume again%d --stop-at 2 --lr-scheduler constant --epochs 3", i);
    }
    ck_assert(same_files("again0/run_log.txt", "again1/run_log.txt"));
    write_text("train.conf", "data-dir = data\nepoch = 3\n");
    expect(2, "lr-find --config train.conf");
    expect_err("train.conf:2: unknown option 'epoch'");
    end_folder();
}
END_TEST

/* The points before the signal are written. */
START_TEST(an_interrupted_test_saves_its_curve)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    const pid_t pid = start_command(0, FIND_FALL "--steps 1000000 --end-lr 1e-3 --out found");
    while (!exists("found")) sleep_ms(2);
    sleep_ms(300); /* some steps */
    kill(pid, SIGINT);
    const int status = wait_command(pid);
    ck_assert_msg(status == 128 + SIGINT, "status %d: %s%s", status, said_out, said_err);
    expect_out(" of 1000000 steps: interrupted\nfiles   found/lr_find.csv, found/lr_find.svg\n");
    ck_assert(exists("found/lr_find.csv") && exists("found/lr_find.svg"));
    ck_assert(!strstr(said_out, "steepest"));
    end_folder();
}
END_TEST

START_TEST(misuse)
{
    static const struct {
        int status;
        const char *line, *said;
    } cases[] = {
        { 2, "", "--data-dir DIR is required" },
        { 2, "--data-dir data --start-lr 1 --end-lr 1", "--start-lr 1 is not below --end-lr 1" },
        { 2, "--data-dir data --steps 9", "--steps: expected an integer from 10" },
        { 2, "--data-dir data --lr 1", "unknown option '--lr'" },
        { 2, "--data-dir data --epochs 1", "unknown option '--epochs'" },
        { 2, "--data-dir data --patience 3", "unknown option '--patience'" },
        { 2, "--data-dir data --scale-min 0.5 --image-size 32", "--scale-min has no effect here" },
        { 2, "--data-dir data --out run", "--out run: contains a run" },
        { 1, "--data-dir data --image-size 8 -b 8 --out file/in", "Not a directory" },
        { 3, "--data-dir none", "none: no such folder" },
        { 3, "--data-dir data --image-size 8 -b 1000", "do not fill one batch of 1000" },
        { 3, "--data-dir bad --image-size 8 -b 4", "batch 1: image 'bad/train/" },
    };
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    make_folder("run");
    write_text("run/config.json", "{}");
    write_text("file", "");
    for (int i = 0; i < 2; i++) {
        if (i == 0) make_folder("bad");
        if (i == 0) make_folder("bad/train");
        make_folder(i ? "bad/train/b" : "bad/train/a");
        for (int k = 1; k <= 2; k++)
            write_text(path_in("bad/train", "%s/%d.png", i ? "b" : "a", k), "no image");
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(cases[i].status, "lr-find %s", cases[i].line);
        expect_err(cases[i].said);
    }
    expect(0, "lr-find --help");
    ck_assert(strstr(said_out, "--start-lr") && strstr(said_out, "--weight-decay"));
    ck_assert(!strstr(said_out, "--lr-scheduler") && !strstr(said_out, "--resume"));
    end_folder();
}
END_TEST

TEST_PROGRAM(lr_find_command)
{
    return RUN_SUITE("lr-find command", same_files_for_any_number_of_threads_and_workers,
                     the_command_that_it_prints_trains, ends_of_a_test,
                     shares_config_files_with_train, an_interrupted_test_saves_its_curve, misuse);
}
