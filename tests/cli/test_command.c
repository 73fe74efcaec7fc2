/* test_command.c: the command line: help, invalid command lines, standard files, exit statuses and
 * messages. */
#include "command.h"
#include "one_epoch.h"

#include "../suite.h"
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(help_and_version)
{
    begin_folder();
    expect(0, "--help");
    static const char *const commands[] = {
        "train",  "eval",      "predict", "describe", "compare", "repro",  "plot",      "pack",
        "export", "demo-data", "augment", "check",    "lr-find", "report", "completion"
    };
    const size_t n_commands = sizeof(commands) / sizeof(commands[0]);
    for (size_t i = 0; i < n_commands; i++) expect_out(commands[i]);
    expect(0, "--version");
    expect_out("lockstep 0.");
    static const char *const flags[] = {
        "--data-dir", "--model",       "--image-size", "--epochs",       "-b, --batch-size",
        "--threads",  "-j, --workers", "--lr",         "--weight-decay", "--config",
        "--seed",     "--device",      "--out",        "--resume",       "--help-all"
    };
    expect(0, "train --help");
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) expect_out(flags[i]);
    ck_assert_ptr_null(strstr(said_out, "--max-pixels"));
    expect_out("\n'lockstep train --help-all' shows all options and further details.\n");
    expect(0, "train --help-all");
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) expect_out(flags[i]);
    expect_out("--on-bad-image");
    expect(0, "eval --data-dir x --help");
    expect_out("--checkpoint FILE");
    expect(0, "predict --help");
    expect_out("PATH...");
    expect(0, "describe --help");
    expect_out("--inference");
    expect(0, "demo-data --help");
    expect_out("DIR");
    for (size_t i = 0; i < n_commands; i++) {
        char usage[64];
        snprintf(usage, sizeof(usage), "usage: lockstep %s", commands[i]);
        static const char *const words[] = { "-h", "--help" };
        for (size_t w = 0; w < 2; w++) {
            expect(0, "%s %s", commands[i], words[w]);
            expect_out(usage);
            ck_assert_str_eq(said_err, "");
        }
        snprintf(usage, sizeof(usage), "lockstep %s: unknown option '--frobnicate'", commands[i]);
        expect(2, "%s --frobnicate", commands[i]);
        expect_err(usage);
        snprintf(usage, sizeof(usage), "lockstep %s: unknown option '-Q'", commands[i]);
        expect(2, "%s -Q", commands[i]);
        expect_err(usage);
    }
    end_folder();
}
END_TEST

static void expect_narrow(const char *what)
{
    enum { COLUMNS = 80 };
    for (const char *line = said_out; *line; line += strcspn(line, "\n") + 1) {
        const int length = (int)strcspn(line, "\n");
        ck_assert_msg(length <= COLUMNS, "%s: %d columns: %.*s", what, length, length, line);
        ck_assert_msg(length == 0 || line[length - 1] != ' ', "%s: '%.*s'", what, length, line);
    }
}

/* In lines of 80 columns, by either spelling; and mistyped options are recognized by each command.
 */
START_TEST(help_of_each_command)
{
    static const struct {
        const char *command, *mistake, *meant;
    } commands[] = {
        { "train", "--ephocs", "--epochs" },       { "eval", "--per-clas", "--per-class" },
        { "predict", "--tpo", "--top" },           { "describe", "--infrence", "--inference" },
        { "compare", "--jsno", "--json" },         { "repro", "--restrat", "--restart" },
        { "pack", "--overwrit", "--overwrite" },   { "demo-data", "--tarin", "--train" },
        { "augment", "--girt", "--grid" },         { "check", "--jsno", "--json" },
        { "lr-find", "--strat-lr", "--start-lr" },
    };
    static char help[sizeof(said_out)];
    begin_folder();
    expect(0, "help");
    expect_narrow("help");
    memcpy(help, said_out, sizeof(help));
    expect(0, "--help");
    ck_assert_str_eq(said_out, help);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        expect(0, "%s --help", commands[i].command);
        expect_narrow(commands[i].command);
        memcpy(help, said_out, sizeof(help));
        expect(0, "help %s", commands[i].command);
        ck_assert_str_eq(said_out, help);
        expect(0, "%s --help-all", commands[i].command);
        expect_narrow(commands[i].command);
        ck_assert_uint_ge(strlen(said_out), strlen(help));
        char meant[64];
        snprintf(meant, sizeof(meant), "'%s'; did you mean '%s'?\n", commands[i].mistake,
                 commands[i].meant);
        expect(2, "%s %s", commands[i].command, commands[i].mistake);
        expect_err(meant);
    }
    expect(0, "train --help");
    static const char *const groups[] = { "Data",      "Augmentation",
                                          "Model",     "Optimization",
                                          "Execution", "Learning rate schedule",
                                          "Run",       "Output and checkpoints" };
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        char line[64];
        snprintf(line, sizeof(line), "\n\n%s:\n", groups[i]);
        expect_out(line);
    }
    expect(2, "help trian");
    expect_err("did you mean 'train'?");
    end_folder();
}
END_TEST

START_TEST(mistakes_on_the_command_line)
{
    static const struct {
        const char *line, *said;
    } cases[] = {
        { "", "usage: lockstep COMMAND" },
        { "trian", "unknown command 'trian'; did you mean 'train'?" },
        { "frobnicate", "unknown command 'frobnicate'; 'lockstep --help' lists the commands" },
        { "train", "--data-dir DIR is required" },
        { "train --data-dri x", "did you mean '--data-dir'?" },
        { "train --imgsz 32", "unknown option '--imgsz'; did you mean '--image-size'?" },
        { "train --Num_Workers=2", "'--Num_Workers'; did you mean '--workers'?" },
        { "train -lr 0.1", "unknown option '-lr'; did you mean '--lr'?" },
        { "train --pretrained", "did you mean '--weights'?" },
        { "eval --weights x", "did you mean '--checkpoint'?" },
        { "eval --wd 1", "unknown option '--wd'; 'lockstep eval --help-all' lists" },
        { "train --data-dir x --epochs 0", "--epochs: expected an integer from 1" },
        { "train --data-dir x --lr 0", "--lr: expected a number from" },
        { "train --data-dir x --on-bad-image ignore", "expected one of fail|skip" },
        { "train --data-dir x --model resnet19", "unknown model 'resnet19'; did you mean" },
        { "train --data-dir x extra", "unexpected argument 'extra'\n" },
        { "train /", "unexpected argument '/'; did you mean --data-dir /?" },
        { "lr-find / --lr 1", "unexpected argument '/'; did you mean --data-dir /?" },
        { "export / out.onnx", "unexpected argument '/'; did you mean --checkpoint /?" },
        { "train --data-dir x --scale-min 0.5", "--scale-min has no effect here" },
        { "train --data-dir x --image-size 64 --crop-padding 4", "--crop-padding has no effect" },
        { "train --data-dir x --opt adam --momentum 0.9", "--momentum has no effect here" },
        { "train --data-dir x --lr-milestones 3", "--lr-milestones has no effect here" },
        { "train --data-dir x --lr-restart-mult 3", "--lr-restart-mult has no effect here" },
        { "train --data-dir x --lr-scheduler multistep", "requires --lr-milestones N,N,..." },
        { "train --data-dir x --lr-scheduler multistep --lr-milestones 5,3",
          "--lr-milestones '5,3': expected at most 64 ascending epochs" },
        { "train --data-dir x --lr-scheduler multistep --lr-milestones 5,", "'5,': expected" },
        { "train --data-dir x --lr-scheduler multistep --lr-milestones 0,5x", "'0,5x': expected" },
        { "train --data-dir x --param-groups fc.*", "expected PATTERN:lr-scale=X,weight-decay=X" },
        { "train --data-dir x --param-groups fc.*:lr=2", "got 'fc.*:lr=2'" },
        { "train --data-dir x --param-groups fc.*:lr-scale=x", "got 'fc.*:lr-scale=x'" },
        { "train --data-dir x --param-groups :lr-scale=2", "got ':lr-scale=2'" },
        { "train --data-dir x --param-groups fc.*:", "got 'fc.*:'" },
        { "train --data-dir x --lr 1 --lr-per-256 1", "--lr and --lr-per-256 exclude each other" },
        { "train --data-dir x --lr-per-256 900 -b 512",
          "--lr-per-256: the learning rate for 512 images per update would be 1800" },
        { "train --data-dir x --plateau-metric loss", "--plateau-metric has no effect here" },
        { "train --data-dir x --clip-value -1", "--clip-value: expected a number from 0" },
        { "train --data-dir x --lr-gamma 0.5", "--lr-gamma has no effect here" },
        { "train --data-dir x --lr 0.1 --lr-min 0.2", "--lr-min 0.2 is above --lr 0.1" },
        { "train --data-dir x --lr-scheduler plateau --lr-gamma 1",
          "--lr-gamma 1: expected less than 1" },
        { "train --data-dir x --epochs 5 --lr-warmup-epochs 5",
          "--lr-warmup-epochs 5: expected less than --epochs 5" },
        { "train --data-dir x --epochs 1 --lr-warmup-epochs 1",
          "--lr-warmup-epochs 1: expected less than --epochs 1" },
        { "train --resume a --out b", "--out and --resume exclude each other" },
        { "eval --data-dir x", "--checkpoint FILE is required" },
        { "eval --checkpoint x", "--data-dir DIR is required" },
        { "predict --checkpoint x", "no image given" },
        { "predict x.png", "--checkpoint FILE is required" },
        { "describe --model vgg", "unknown model 'vgg'" },
        { "describe --model mobilenet_v2 --stem large",
          "--stem has no effect here: it requires a resnet" },
        { "predict --checkpoint x --model mlp --parameter-free-shortcuts x.png",
          "--parameter-free-shortcuts has no effect here: it requires a resnet" },
        { "demo-data", "expected one folder" },
        { "demo-data a b", "expected one folder" },
        { "demo-data a --train 0", "--train: expected an integer" },
    };
    begin_folder();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(2, "%s", cases[i].line);
        expect_err(cases[i].said);
    }
    ck_assert(!exists("run") && !exists("a"));
    end_folder();
}
END_TEST

/* Text that could not be written is a failure, also when it stayed in the buffer to the end. */
START_TEST(full_standard_output)
{
    begin_folder();
    ck_assert_int_ne(system(LOCKSTEP_COMMAND " describe --image-size 8 -b 1 >/dev/full 2>said"), 0);
    size_t size;
    char *said = read_file("said", &size);
    ck_assert_msg(strstr(said, "writing standard output: No space left"), "%s", said);
    free(said);
    ck_assert_int_ne(system(LOCKSTEP_COMMAND " --version >/dev/full 2>said"), 0);
    said = read_file("said", &size);
    ck_assert_msg(strstr(said, "writing standard output: No space left"), "%s", said);
    free(said);
    end_folder();
}
END_TEST

static int shell(const char *line)
{
    return WEXITSTATUS(system(line));
}

/* No file of a run takes the place of standard files that were closed: those stay as they are. */
START_TEST(closed_standard_files)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN);
    ck_assert_int_eq(rename("run", "open"), 0);
    ck_assert_int_eq(shell(LOCKSTEP_COMMAND " " TRAIN "<&- >&- 2>&-"), 1);
    ck_assert_int_eq(rename("run", "closed"), 0);
    ck_assert(same_files("open/run_log.txt", "closed/run_log.txt"));
    ck_assert(same_files("open/last.safetensors", "closed/last.safetensors"));
    ck_assert_int_eq(shell(LOCKSTEP_COMMAND " describe --image-size 8 -b 1 >&- 2>said"), 1);
    size_t size;
    char *said = read_file("said", &size);
    ck_assert_msg(strstr(said, "writing standard output: "), "%s", said);
    free(said);
    ck_assert_int_eq(shell(LOCKSTEP_COMMAND " repro --data-dir data --image-size 8 -b 8 --epochs 1 "
                                            "--no-val --steps 3 --workers 0,1 --threads 1 "
                                            "--out repro <&- >&- 2>&-"),
                     5);
    ck_assert(exists("repro/repro.csv"));
    ck_assert(same_files("repro/w0-t1/run_log.txt", "repro/w1-t1/run_log.txt"));
    end_folder();
}
END_TEST

START_TEST(failures_at_run_time)
{
    begin_folder();
    expect(1, "train --resume nothing");
    expect_err("nothing: no such folder; --out nothing starts a run there");
    expect(1, "train --data-dir x --device tpu");
    expect_err("lockstep train: there is no device 'tpu'");
    expect(1, "describe --device tpu");
    expect(1, "describe --image-size 4096 -b 100000");
    expect_err("out of device memory");
    mkdir("run", 0777);
    write_text("run/config.json", "{ not json");
    expect(1, "train --resume run");
    expect_err("run/config.json: line 1");
    write_text("run/config.json", "{\"options\": {\"data-dir\": null}}");
    expect(1, "train --resume run");
    expect_err("run/config.json: missing 'options' with 'data-dir'");
    expect(2, "train --data-dir x --out run");
    expect_err("already contains a run");
    end_folder();
}
END_TEST

/* Those that 'train --help-all' and docs/training.md list. */
START_TEST(exit_statuses)
{
    static const struct {
        int status;
        const char *line, *said;
    } cases[] = {
        { 0, TRAIN "--steps 1", "" },
        { 1, "train --resume none", "none: no such folder" },
        { 2, "train --data-dir data --epochs many", "--epochs: expected" },
        { 3, "train --data-dir none", "none: no such folder" },
        { 3, "eval --checkpoint run/last.safetensors --data-dir none", "none: no such folder" },
        { 3, "predict --checkpoint run/last.safetensors none.png", "none.png: " },
        { 3, "pack none out.pack", "none" },
        { 4, TRAIN "--lr 1000 --lr-scheduler constant --momentum 0.99 --epochs 9 --out nonfinite",
          "the loss is " },
    };
    begin_folder();
    expect(0, "demo-data data --train 8 --val 1");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(cases[i].status, "%s", cases[i].line);
        expect_err(cases[i].said);
    }
    const pid_t pid = start_command(0, TRAIN "--epochs 100000 --out stopped");
    while (!exists("stopped/best.safetensors")) usleep(1000);
    kill(pid, SIGTERM);
    ck_assert_int_eq(wait_command(pid), 128 + SIGTERM);
    expect(0, "train --help-all");
    expect_out("Exit status: 0 done, 1 failed, 2 wrong command line, 3 unreadable images or an\n"
               "unusable data folder, 4 the loss is not finite, 128+n stopped by signal n after\n"
               "saving (SIGINT, SIGTERM, SIGHUP; SIGQUIT ends the process without saving).\n");
    expect_out("[epochs / 10, at least 1; 0");
    json_t *config = json_load_file("run/config.json", 0, NULL); /* of one epoch */
    const json_t *options = json_object_get(config, "options");
    ck_assert_int_eq(json_integer_value(json_object_get(options, "lr-warmup-epochs")), 0);
    json_decref(config);
    end_folder();
}
END_TEST

START_TEST(demo_data)
{
    begin_folder();
    expect(0, "demo-data a --train 4 --val 2 --seed 5");
    expect(0, "demo-data b --train 4 --val 2 --seed 5");
    expect(0, "demo-data c --train 4 --val 2 --seed 6");
    ck_assert_int_eq(system("diff -r a b"), 0);
    ck_assert_int_ne(system("diff -rq a c > /dev/null"), 0);
    ck_assert_int_eq(system("test $(find a/train -type f | wc -l) = 40 &&"
                            "test $(find a/val -type f | wc -l) = 20 &&"
                            "test $(find a -name '*.jpg' | wc -l) -gt 10 &&"
                            "test $(find a -name '*.png' | wc -l) -gt 10"),
                     0);
    expect(0, "demo-data it's --train 1 --val 1");
    expect_out("next: " LOCKSTEP_COMMAND " train --data-dir 'it'\\''s' --model resnet20\n");
    expect(1, "demo-data a");
    expect_err("a is not empty");
    expect(1, "demo-data none/deep");
    expect_err("none/deep");
    end_folder();
}
END_TEST

TEST_PROGRAM(command)
{
    return RUN_SUITE("command", help_and_version, help_of_each_command,
                     mistakes_on_the_command_line, full_standard_output, closed_standard_files,
                     failures_at_run_time, exit_statuses, demo_data);
}
