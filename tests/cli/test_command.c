/* test_command.c: the command's manners: help, mistakes on the command line, unusable pictures and
 * checkpoints; exit statuses and what is said. */
#include "command.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Small enough for a test: 8x8 pixels, one epoch. */
#define TRAIN "train --data-dir data --image-size 8 --epochs 1 -b 8 -j 1 --threads 1 --out run "

START_TEST(help_and_version)
{
    begin_folder();
    expect(0, "--help");
    static const char *const verbs[] = { "train",   "eval",  "predict",  "describe",
                                         "compare", "repro", "demo-data" };
    const size_t n_verbs = sizeof(verbs) / sizeof(verbs[0]);
    for (size_t i = 0; i < n_verbs; i++) expect_out(verbs[i]);
    expect(0, "--version");
    expect_out("lockstep 0.");
    static const char *const flags[] = {
        "--data-dir", "--model",       "--image-size", "--epochs",       "-b, --batch-size",
        "--threads",  "-j, --workers", "--lr",         "--weight-decay", "--on-bad-image",
        "--seed",     "--device",      "--out",        "--resume",       "--label-smoothing"
    };
    expect(0, "train --help");
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) expect_out(flags[i]);
    expect(0, "eval --data-dir x --help");
    expect_out("--checkpoint FILE");
    expect(0, "predict --help");
    expect_out("IMAGE...");
    expect(0, "describe --help");
    expect_out("--inference");
    expect(0, "demo-data --help");
    expect_out("DIR");
    for (size_t i = 0; i < n_verbs; i++) {
        char usage[64];
        snprintf(usage, sizeof(usage), "usage: lockstep %s", verbs[i]);
        static const char *const words[] = { "-h", "--help" };
        for (size_t w = 0; w < 2; w++) {
            expect(0, "%s %s", verbs[i], words[w]);
            expect_out(usage);
            ck_assert_str_eq(said_err, "");
        }
        snprintf(usage, sizeof(usage), "lockstep %s: unknown option '--frobnicate'", verbs[i]);
        expect(2, "%s --frobnicate", verbs[i]);
        expect_err(usage);
        snprintf(usage, sizeof(usage), "lockstep %s: unknown option '-Q'", verbs[i]);
        expect(2, "%s -Q", verbs[i]);
        expect_err(usage);
    }
    end_folder();
}
END_TEST

START_TEST(mistakes_on_the_command_line)
{
    static const struct {
        const char *line, *said;
    } cases[] = {
        { "", "usage: lockstep VERB" },
        { "trian", "unknown verb 'trian'; did you mean 'train'?" },
        { "frobnicate", "unknown verb 'frobnicate'; 'lockstep --help' lists them" },
        { "train", "--data-dir DIR is needed" },
        { "train --data-dri x", "did you mean '--data-dir'?" },
        { "train --data-dir x --epochs 0", "--epochs wants a whole number from 1" },
        { "train --data-dir x --lr 0", "--lr wants a number from" },
        { "train --data-dir x --on-bad-image ignore", "wants one of fail|skip" },
        { "train --data-dir x --model resnet19", "no model is called 'resnet19'; did you mean" },
        { "train --data-dir x extra", "unexpected argument 'extra'" },
        { "train --data-dir x --scale-min 0.5", "--scale-min does nothing here" },
        { "train --data-dir x --image-size 64 --crop-padding 4", "--crop-padding does nothing" },
        { "train --data-dir x --opt adam --momentum 0.9", "--momentum does nothing here" },
        { "train --data-dir x --lr-gamma 0.5", "--lr-gamma does nothing here" },
        { "train --data-dir x --lr 0.1 --lr-min 0.2", "--lr-min 0.2 is above --lr 0.1" },
        { "train --data-dir x --lr-scheduler plateau --lr-gamma 1", "--lr-gamma 1 would never" },
        { "train --data-dir x --epochs 5 --lr-warmup-epochs 5", "leaves nothing of 5 epochs" },
        { "train --data-dir x --epochs 1 --lr-warmup-epochs 1", "leaves nothing of 1 epochs" },
        { "train --resume a --out b", "--out and --resume exclude each other" },
        { "eval --data-dir x", "--checkpoint FILE is needed" },
        { "eval --checkpoint x", "--data-dir DIR is needed" },
        { "predict --checkpoint x", "no picture given" },
        { "predict x.png", "--checkpoint FILE is needed" },
        { "describe --model vgg", "no model is called 'vgg'" },
        { "demo-data", "wants one folder" },
        { "demo-data a b", "wants one folder" },
        { "demo-data a --train 0", "--train wants a whole number" },
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
    char *said = read_text("said", &size);
    ck_assert_msg(strstr(said, "writing standard output: "), "%s", said);
    free(said);
    ck_assert_int_ne(system(LOCKSTEP_COMMAND " --version >/dev/full 2>said"), 0);
    said = read_text("said", &size);
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
    ck_assert(same_files("open/record.txt", "closed/record.txt"));
    ck_assert(same_files("open/last.safetensors", "closed/last.safetensors"));
    ck_assert_int_eq(shell(LOCKSTEP_COMMAND " describe --image-size 8 -b 1 >&- 2>said"), 1);
    size_t size;
    char *said = read_text("said", &size);
    ck_assert_msg(strstr(said, "writing standard output: "), "%s", said);
    free(said);
    ck_assert_int_eq(shell(LOCKSTEP_COMMAND " repro --data-dir data --image-size 8 -b 8 --epochs 1 "
                                            "--no-val --steps 3 --workers 0,1 --threads 1 "
                                            "--out repro <&- >&- 2>&-"),
                     5);
    ck_assert(exists("repro/repro.csv"));
    ck_assert(same_files("repro/w0-t1/record.txt", "repro/w1-t1/record.txt"));
    end_folder();
}
END_TEST

START_TEST(failures_at_run_time)
{
    begin_folder();
    expect(1, "train --resume nothing");
    expect_err("nothing: no such folder: no run was begun there; --out nothing begins one");
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
    expect_err("run/config.json: no options with a data-dir in it");
    expect(2, "train --data-dir x --out run");
    expect_err("holds a run already");
    end_folder();
}
END_TEST

/* Each wants "data" in another state of disrepair. */
START_TEST(unusable_folders)
{
    begin_folder();
    expect(3, TRAIN);
    expect_err("data: no such folder; expected data/train/<class>/<picture>");
    mkdir("data", 0777);
    expect(3, TRAIN);
    expect_err("has no folder 'train'");
    mkdir("data/train", 0777);
    expect(3, TRAIN);
    expect_err("data/train");
    mkdir("data/train/a", 0777);
    expect(3, TRAIN);
    expect_err("data/train");
    expect(0, "demo-data drawn --train 8 --val 2 --seed 3");
    ck_assert_int_eq(system("rm -r data/train/a && cp -r drawn/train/star data/train"), 0);
    expect(3, TRAIN);
    expect_err("only one class, 'star'");
    ck_assert_int_eq(system("cp -r drawn/train/ring data/train"), 0);
    expect(3, TRAIN);
    expect_err("has no folder 'val', 'validation', 'valid' or 'test'; --no-val trains without one");
    ck_assert_int_eq(system("cp -r drawn/val data/test"), 0);
    expect(3, TRAIN);
    expect_err("arrow"); /* a class that training does not have */
    ck_assert_int_eq(system("rm -r data/test && mkdir data/test && cp -r drawn/val/ring data/test"),
                     0);
    expect(3, TRAIN "-b 17");
    expect_err("16 training pictures do not fill one batch of 17");
    expect(0, TRAIN);
    expect(0, TRAIN "--no-val --out without");
    end_folder();
}
END_TEST

START_TEST(unusable_pictures)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    ck_assert_int_eq(
        system("f=$(ls data/train/star/*.png | head -1);"
               "head -c 100 $f > data/train/star/cut.png; rm $f;"
               "f=$(ls data/train/ring/*.jpg | head -1); rm $f;"
               ": > data/train/ring/empty.jpg; echo hello > data/train/ring/notes.txt"),
        0);
    expect(3, TRAIN);
    ck_assert(strstr(said_err, "data/train/star/cut.png") ||
              strstr(said_err, "data/train/ring/empty.jpg"));
    ck_assert_ptr_null(strstr(said_err, "left out: ")); /* the run ended instead */
    expect_err("data/train: left out 1 file of no known kind of picture, such as");
    expect(0, TRAIN "--on-bad-image skip --out skipped");
    expect_err("left out: data/train/star/cut.png");
    expect_err("left out: data/train/ring/empty.jpg");
    size_t size;
    char *metrics = read_text("skipped/metrics.jsonl", &size);
    ck_assert_ptr_nonnull(strstr(metrics, "\"bad_images\": 2"));
    free(metrics);
    end_folder();
}
END_TEST

START_TEST(checkpoints_from_elsewhere)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, TRAIN);
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --per-class");
    expect_out("class                pictures  top-1   most often wrong");
    expect_out("20 pictures: loss");
    expect_out("triangle");
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data/val");
    expect(3, "eval --checkpoint run/best.safetensors --data-dir nowhere");
    expect(1, "eval --checkpoint run/config.json --data-dir data");
    expect_err("run/config.json");
    expect(1, "predict --checkpoint nothing.safetensors data/val/star/000000.png");
    expect_err("nothing.safetensors");

    /* cut off, or with other contents than its metadata says */
    ck_assert_int_eq(system("head -c 100000 run/best.safetensors > cut.safetensors;"
                            "sed s/resnet20/resnet21/ run/best.safetensors > named.safetensors;"
                            "sed s/resnet20/resnet32/ run/best.safetensors > other.safetensors"),
                     0);
    expect(1, "predict --checkpoint cut.safetensors data/val/star/000000.png");
    expect_err("cut.safetensors");
    expect(1, "predict --checkpoint named.safetensors data/val/star/000000.png");
    expect_err("unusable 'model' in its metadata: resnet21");
    expect(1, "predict --checkpoint other.safetensors data/val/star/000000.png");
    expect_err("other.safetensors");
    end_folder();
}
END_TEST

START_TEST(predictions)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, TRAIN);
    ck_assert_int_eq(system("mkdir elsewhere; cp run/best.safetensors elsewhere/w.safetensors;"
                            "cp $(ls data/val/star/* | head -1) elsewhere/picture;"
                            "echo no picture > elsewhere/text.jpg; rm -r data run"),
                     0);
    expect(0, "predict --checkpoint elsewhere/w.safetensors elsewhere/picture");
    double sum = 0, last = 1;
    int n = 0;
    const char *at = strchr(said_out, '\n');
    for (double p; at && sscanf(at, " %lf", &p) == 1; at = strchr(at + 1, '\n'), n++) {
        ck_assert(p <= last);
        sum += last = p;
    }
    ck_assert_int_eq(n, 5);
    ck_assert(sum > 0.5 && sum < 1.001);
    expect(0, "predict --checkpoint elsewhere/w.safetensors --top 99 elsewhere/picture");
    expect_out("triangle");
    /* one bad picture does not keep the others from being answered */
    expect(3, "predict --checkpoint elsewhere/w.safetensors elsewhere/text.jpg elsewhere/picture "
              "elsewhere/none.png");
    expect_out("elsewhere/picture\n  0.");
    expect_err("lockstep predict: elsewhere/text.jpg: ");
    ck_assert_ptr_null(strstr(said_err, "epoch"));
    expect_err("elsewhere/none.png");
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

int main(void)
{
    return RUN_SUITE("command", help_and_version, mistakes_on_the_command_line,
                     full_standard_output, closed_standard_files, failures_at_run_time,
                     unusable_folders, unusable_pictures, checkpoints_from_elsewhere, predictions,
                     demo_data);
}
