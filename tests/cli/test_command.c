/* test_command.c: the command's manners: help, mistakes on the command line, unusable pictures and
 * checkpoints; exit statuses and what is said. */
#include "command.h"

#include "../suite.h"
#include <jansson.h>
#include <signal.h>
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

static void expect_narrow(const char *what)
{
    enum { COLUMNS = 80 };
    for (const char *line = said_out; *line; line += strcspn(line, "\n") + 1) {
        const int length = (int)strcspn(line, "\n");
        ck_assert_msg(length <= COLUMNS, "%s: %d columns: %.*s", what, length, length, line);
        ck_assert_msg(length == 0 || line[length - 1] != ' ', "%s: '%.*s'", what, length, line);
    }
}

/* In lines of 80 columns, by either spelling; and mistyped options are recognized by each verb. */
START_TEST(help_of_each_verb)
{
    static const struct {
        const char *verb, *mistake, *meant;
    } verbs[] = {
        { "train", "--ephocs", "--epochs" },     { "eval", "--per-clas", "--per-class" },
        { "predict", "--tpo", "--top" },         { "describe", "--infrence", "--inference" },
        { "compare", "--jsno", "--json" },       { "repro", "--restrat", "--restart" },
        { "pack", "--overwrit", "--overwrite" }, { "demo-data", "--tarin", "--train" },
    };
    static char help[sizeof(said_out)];
    begin_folder();
    expect(0, "help");
    expect_narrow("help");
    memcpy(help, said_out, sizeof(help));
    expect(0, "--help");
    ck_assert_str_eq(said_out, help);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        expect(0, "%s --help", verbs[i].verb);
        expect_narrow(verbs[i].verb);
        memcpy(help, said_out, sizeof(help));
        expect(0, "help %s", verbs[i].verb);
        ck_assert_str_eq(said_out, help);
        char meant[64];
        snprintf(meant, sizeof(meant), "'%s'; did you mean '%s'?\n", verbs[i].mistake,
                 verbs[i].meant);
        expect(2, "%s %s", verbs[i].verb, verbs[i].mistake);
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
        { "predict --checkpoint x", "no image given" },
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

/* Those that 'train --help' and the README list. */
START_TEST(exit_statuses)
{
    static const struct {
        int status;
        const char *line, *said;
    } cases[] = {
        { 0, TRAIN "--steps 1", "" },
        { 1, "train --resume none", "none: no such folder" },
        { 2, "train --data-dir data --epochs many", "--epochs wants" },
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
    expect(0, "train --help");
    expect_out("Exit status: 0 done, 1 failed, 2 wrong command line, 3 unusable images or data\n"
               "folder, 4 the loss is not finite, 128+n stopped by signal n after saving\n"
               "(SIGINT, SIGTERM, SIGHUP; SIGQUIT ends the process without saving).\n");
    expect_out("[epochs / 10, at least 1; 0 with one epoch\n");
    json_t *config = json_load_file("run/config.json", 0, NULL); /* of one epoch */
    const json_t *options = json_object_get(config, "options");
    ck_assert_int_eq(json_integer_value(json_object_get(options, "lr-warmup-epochs")), 0);
    json_decref(config);
    end_folder();
}
END_TEST

/* Each wants "data" in another state of disrepair. */
START_TEST(unusable_folders)
{
    begin_folder();
    expect(3, TRAIN);
    expect_err("data: no such folder; expected data/train/<class>/<image>");
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
    expect_err("16 training images do not fill one batch of 17");
    expect(0, TRAIN);
    expect(0, TRAIN "--no-val --out without");
    end_folder();
}
END_TEST

/* What --data-dir names is no dataset: what was found, what was expected, what to give instead. */
START_TEST(data_folders_of_the_wrong_kind)
{
    static const struct {
        const char *place, *said;
    } cases[] = {
        { "pipe", "pipe: a pipe; expected a folder or a pack\n" },
        { "/dev/null", "/dev/null: a device; expected a folder or a pack\n" },
        { "image.png", "image.png: a single image; expected a folder or a pack\n" },
        { "notes.txt", "file 'notes.txt': neither a folder nor a whole pack" },
    };
    begin_folder();
    expect(0, "demo-data data --train 8 --val 1");
    expect(0, TRAIN "--steps 1");
    ck_assert_int_eq(system("cp $(ls data/val/*/*.png | head -1) image.png"), 0);
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    write_text("notes.txt", "no pack");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(3, TRAIN "--data-dir %s --out none", cases[i].place);
        expect_err(cases[i].said);
        expect(3, "eval --checkpoint run/last.safetensors --data-dir %s", cases[i].place);
        expect_err(cases[i].said);
        expect(3, "pack %s p", cases[i].place);
        expect_err(cases[i].said);
    }

    /* one level too low */
    expect(3, TRAIN "--data-dir data/train --out none");
    expect_err("data/train: has no folder 'train'; expected data/train/train/<class>/<image>; the "
               "folder above has one: --data-dir data\n");
    expect(3, TRAIN "--data-dir ./data/train/ --out none");
    expect_err("the folder above has one: --data-dir ./data\n");
    ck_assert_int_eq(chdir("data"), 0);
    expect(3, TRAIN "--data-dir train --out none");
    expect_err("the folder above has one: --data-dir .\n");
    ck_assert_int_eq(chdir(".."), 0);
    expect(3, TRAIN "--data-dir data/val --out none");
    ck_assert_ptr_null(strstr(said_err, "the folder above"));
    ck_assert(!exists("none") && !exists("p"));
    end_folder();
}
END_TEST

static int count_said(const char *text)
{
    int n = 0;
    for (const char *at = said_err; (at = strstr(at, text)); at++) n++;
    return n;
}

/* What is possible but hardly intended is a warning, once, when a run is begun. */
START_TEST(warnings_before_training)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1"); /* 40 images of 32 to 48 pixels */
    expect(0, TRAIN "--image-size 16 --steps 1");
    ck_assert_int_eq(count_said("warning"), 0);
    ck_assert_int_eq(system("rm -r run"), 0);
    expect(0, TRAIN "--steps 1");
    expect_err("warning: most training images are much larger than --image-size 8 (median shorter "
               "side of 15 files: ");
    ck_assert_int_eq(count_said("warning"), 1);
    expect(0, "train --resume run --steps 2");
    ck_assert_int_eq(count_said("warning"), 0);

    expect(0, TRAIN "--image-size 16 -b 10 --steps 1 --out quarter");
    ck_assert_int_eq(count_said("warning"), 0);
    expect(0, TRAIN "--image-size 16 -b 11 --steps 1 --out more");
    expect_err("warning: -b 11 is more than a quarter of the 40 training images: 3 steps per "
               "epoch; -b 4 makes 10\n");
    expect(0, TRAIN "--image-size 16 -b 40 --steps 1 --out all");
    expect_err("1 step per epoch; -b 4 makes 10\n");

    ck_assert_int_eq(system("mkdir up && mv data up/train"), 0);
    expect(0, TRAIN "--image-size 16 --data-dir up --no-val --steps 1 --out high");
    expect_err(
        "up/train looks like a dataset's folder: --data-dir up/train trains on the classes in "
        "up/train/train\n");
    ck_assert_int_eq(system("mv up/train up/photos"), 0);
    expect(3, TRAIN "--data-dir up --out none");
    expect_err("up: has no folder 'train'; expected up/train/<class>/<image>; up/photos has one: "
               "--data-dir up/photos\n");
    end_folder();
}
END_TEST

/* Statistics over few values: one warning for all layers, naming the first. */
START_TEST(one_warning_of_small_batches)
{
    begin_folder();
    expect(0, "describe --image-size 8 -b 1");
    ck_assert_int_eq(count_said("batch_norm"), 1);
    expect_err("warning: batch_norm 'layer3.0.bn1': statistics over 4 values a channel; below 8 "
               "they are poor: use a larger batch (also in 6 more layers)\n");
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
    expect_err("data/train: left out 1 file of no known image format, such as");
    expect(0, TRAIN "--on-bad-image skip --out skipped");
    expect_err("left out: data/train/star/cut.png");
    expect_err("left out: data/train/ring/empty.jpg");
    size_t size;
    char *metrics = read_text("skipped/metrics.jsonl", &size);
    ck_assert_ptr_nonnull(strstr(metrics, "\"bad_images\": 2"));
    free(metrics);

    write_text("data/val/star/bad.png", "no image");
    expect(3, "eval --checkpoint skipped/last.safetensors --data-dir data -b 4");
    expect_err("lockstep eval: batch 5: image 'data/val/star/bad.png': ");
    expect_err("--on-bad-image skip takes other images in place of bad ones\n");
    expect(0, "eval --checkpoint skipped/last.safetensors --data-dir data --on-bad-image skip");
    end_folder();
}
END_TEST

/* Two losses of one checkpoint that differ by definition must not look like an error. */
START_TEST(losses_name_their_label_smoothing)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN);
    expect_out(
        "loss    cross-entropy with label smoothing 0.1  also in validation  'lockstep eval' "
        "leaves it out\n");
    expect(0, "eval --checkpoint run/last.safetensors --data-dir data");
    ck_assert_ptr_nonnull(strstr(strstr(said_out, ": loss "), " without label smoothing, top-1 "));
    char plain[32];
    expect(0, TRAIN "--label-smoothing 0 --out plain");
    ck_assert_ptr_null(strstr(said_out, "smoothing"));
    const char *loss = strstr(said_out, "val loss ") + strlen("val loss ");
    snprintf(plain, sizeof(plain), ": loss %.6s without", loss);
    expect(0, "eval --checkpoint plain/last.safetensors --data-dir data");
    expect_out(plain);
    end_folder();
}
END_TEST

/* On a terminal no line of results is wider than it. */
START_TEST(lines_fit_the_terminal)
{
    static const int widths[] = { 60, 80, 120 };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        char line[1024];
        snprintf(line, sizeof(line),
                 "script -qec 'stty cols %d; exec " LOCKSTEP_COMMAND " " TRAIN
                 " --out run%d 2>/dev/null' /dev/null </dev/null >said",
                 widths[i], widths[i]);
        ck_assert_int_eq(system(line), 0);
        size_t size;
        char *said = read_text("said", &size), *rest = said;
        ck_assert_ptr_nonnull(strstr(said, "'lockstep eval' leaves it out"));
        for (char *at; (at = strsep(&rest, "\r\n"));) {
            const bool is_command = strstr(at, LOCKSTEP_COMMAND) != NULL;
            ck_assert_msg(is_command || strlen(at) <= (size_t)widths[i], "%s", at);
        }
        free(said);
    }
    end_folder();
}
END_TEST

/* demo-data draws images of 32 x 32 pixels or more. */
START_TEST(images_beyond_max_pixels)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(3, TRAIN "--max-pixels 1000 --out small");
    expect_err("pixels, more than the limit of 1000 (max_pixels)");
    expect_err("larger images need a larger limit: begin a new run with --max-pixels N\n");
    expect(3, TRAIN "--max-pixels 1 --on-bad-image skip --out none");
    expect_err("larger images need a larger limit: begin a new run with --max-pixels N\n");
    expect_err("warning: left out: data/train/");
    ck_assert_int_eq(count_said("warning: left out: "), 6);
    expect_err(" images, among them:\n");
    expect(2, TRAIN "--max-pixels 268435456");
    expect_err("--max-pixels wants a whole number from 1 to 268435455");
    expect(0, TRAIN "--max-pixels 5000 --stop-at 1");
    expect(0, "train --resume run --stop-at 2"); /* the run's own limit */
    expect(2, "train --resume run --max-pixels 6000");
    expect_err("--max-pixels differs from the run's own 5000");
    expect(0, TRAIN "--stop-at 1 --out default");
    expect(2, "train --resume default --max-pixels 6000");
    expect_err("--max-pixels differs from the run's own default (89478485): a resumed run keeps");
    expect(0, "train --resume default --max-pixels 89478485 --stop-at 2");
    const char *with = "--checkpoint run/last.safetensors --max-pixels 1000";
    expect(3, "eval %s --data-dir data", with);
    expect_err("limit of 1000 (max_pixels)");
    expect_err("larger images need a larger limit: --max-pixels N\n");
    expect(3, "eval %s --data-dir data --on-bad-image skip", with);
    expect_err("larger images need a larger limit: --max-pixels N\n");
    ck_assert_int_eq(system("cp $(ls data/val/star/* | head -1) picture"), 0);
    expect(3, "predict %s picture", with);
    expect_err("limit of 1000 (max_pixels)");
    expect_err("larger images need a larger limit: --max-pixels N\n");
    expect(3, "pack data data.pack --max-pixels 1000");
    expect_err("limit of 1000 (max_pixels)");
    expect_err("larger images need a larger limit: --max-pixels N\n");

    /* a run of a version that had no such option */
    expect(0, TRAIN "--stop-at 1 --out old");
    ck_assert_int_eq(
        system("grep -v max-pixels old/config.json > config; mv config old/config.json"), 0);
    expect(0, "train --resume old");
    end_folder();
}
END_TEST

START_TEST(checkpoints_from_elsewhere)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, TRAIN);
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --per-class");
    expect_out("  class       images  top-1   most confused with\n");
    expect_out("20 images: loss");
    expect_out("triangle");
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data/val");
    expect(3, "eval --checkpoint run/best.safetensors --data-dir nowhere");
    expect(1, "eval --checkpoint run/config.json --data-dir data");
    expect_err("run/config.json");
    expect(1, "predict --checkpoint nothing.safetensors data/val/star/000000.png");
    expect_err("nothing.safetensors");

    expect(1, "eval --checkpoint run --data-dir data");
    expect_err("--checkpoint run: a folder; expected a file such as best.safetensors in a run's ");

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

/* The numbers of all classes stand below each other, whatever the names are. */
START_TEST(classes_are_aligned)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    ck_assert_int_eq(system("for d in data/train data/val; do"
                            " mv $d/ring $d/\xe7\x8c\xab\xe3\x81\xae\xe8\xbc\xaa;"
                            " mv $d/star $d/$(printf 'a%040d' 0); done"),
                     0);
    expect(0, TRAIN);
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --per-class");
    char line[128];
    snprintf(line, sizeof(line), "\n  %-40s    images  top-1   most confused with\n", "class");
    expect_out(line);
    snprintf(line, sizeof(line), "\n  %-40s         2  ", "triangle");
    expect_out(line);
    snprintf(line, sizeof(line), "\n  \xe7\x8c\xab\xe3\x81\xae\xe8\xbc\xaa%34s         2  ", "");
    expect_out(line);
    snprintf(line, sizeof(line), "\n  a%040d\n  %40s         2  ", 0, "");
    expect_out(line);
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

/* What was printed has no control character but newlines, and no line that a name has forged. */
static void expect_clean(void)
{
    static const char *const outputs[] = { said_out, said_err };
    for (int i = 0; i < 2; i++) {
        for (const char *at = outputs[i]; *at; at++)
            ck_assert_msg((*at & 0xE0) != 0 || *at == '\n', "\\x%02x in: %s", *at, outputs[i]);
        ck_assert_msg(!strstr(outputs[i], "\nforged"), "%s", outputs[i]);
        ck_assert_msg(!strstr(outputs[i], "\xc2\x9b"), "%s", outputs[i]);
    }
}

/* Names of folders, files and arguments, and metadata, must not reach a terminal as commands. */
START_TEST(hostile_names)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    ck_assert_int_eq(system("e=$(printf 'e\\033]0;t\\007\\nforged\\302\\233m');"
                            "for d in data/train data/val; do mv $d/ring $d/\"$e\"; done;"
                            "touch data/train/star/\"$e\"; mkdir damaged;"
                            "echo no image > damaged/\"$e\".jpg; ln -s data \"$e\";"
                            "cp $(ls data/val/star/* | head -1) image.png"),
                     0);
    expect(0, TRAIN);
    expect_err("left out 1 file of no known image format, such as");
    expect_clean();
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --per-class");
    expect_out("\n  e\\x1b]0;t\\x07\\nforged\\xc2\\x9bm ");
    expect_clean();
    expect(0, "predict --checkpoint run/best.safetensors --top 10 image.png");
    expect_out("  e\\x1b]0;t\\x07\\nforged\\xc2\\x9bm\n");
    expect_clean();
#define NAME "e\033]0;t\007\nforged\xc2\x9bm"
    expect(3, "predict --checkpoint run/best.safetensors damaged/" NAME ".jpg");
    expect_err("damaged/e\\x1b]0;t\\x07\\nforged\\xc2\\x9bm.jpg: ");
    expect_clean();
    expect(0, "pack data " NAME ".pack");
    expect_out("e\\x1b]0;t\\x07\\nforged\\xc2\\x9bm.pack: ");
    expect_out("--data-dir $'e\\x1b]0;t\\x07\\nforged\\xc2\\x9bm.pack'\n");
    expect_clean();
    expect(3, "eval --checkpoint run/best.safetensors --data-dir missing" NAME);
    expect_clean();
    expect(0, TRAIN "--data-dir " NAME " --stop-at 1 --out run" NAME);
    expect_clean();
    expect(2, NAME);
    expect_err("unknown verb 'e\\x1b");
    expect_clean();
    expect(2, "train --" NAME);
    expect_err("unknown option '--e\\x1b");
    expect_clean();
    expect(2, "train --model " NAME);
    expect_clean();
    expect(0, "compare run run" NAME);
    expect_out("B: rune\\x1b");
    expect_clean();

    /* a name in JSON's own escapes, of the same length */
    ck_assert_int_eq(system("sed 's/resnet20/\\\\u001b20/' run/best.safetensors > w.safetensors"),
                     0);
    expect(1, "predict --checkpoint w.safetensors image.png");
    expect_err("unusable 'model' in its metadata: \\x1b20");
    expect_clean();
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
    return RUN_SUITE("command", help_and_version, help_of_each_verb, mistakes_on_the_command_line,
                     full_standard_output, closed_standard_files, failures_at_run_time,
                     exit_statuses, unusable_folders, data_folders_of_the_wrong_kind,
                     warnings_before_training, one_warning_of_small_batches, unusable_pictures,
                     images_beyond_max_pixels, losses_name_their_label_smoothing,
                     lines_fit_the_terminal, checkpoints_from_elsewhere, classes_are_aligned,
                     predictions, hostile_names, demo_data);
}
