/* test_sweep.c: 'lockstep sweep': tables that do not depend on interruptions and on the number of
 * simultaneous trials, resumed trials, errors of the file. */
#include "../report/html_check.h"
#include "command.h"
#include <jansson.h>

#include "../suite.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TRAIN                                                                                      \
    "[train]\ndata-dir = data # tiny\nimage-size = 8\nbatch-size = 8\ncrop-padding = 2\n"          \
    "workers = 0\nthreads = 1\n"
#define HALVING                                                                                    \
    "method = halving\ntrials = 5\neta = 2\nmetric = val-loss\n" TRAIN                             \
    "epochs = 4\n[search]\nlr = log(0.001, 0.1)\nopt = sgd, 'adamw'\n"

static void begin(void)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 2");
}

START_TEST(a_grid_has_all_combinations)
{
    begin();
    write_text("grid.sweep",
               "\xef\xbb\xbfmethod = 'grid'\nout = \"a/b\" # there\n" TRAIN "epochs = 1\n[search]\n"
               "lr = log(0.01, 0.1, 2) # two\nnesterov = 'true', \"false\"\n");
    expect(0, "sweep grid.sweep");
    expect_out("trial    lr  nesterov  epochs  val_top1  best_epoch\n    0  0.01      true ");
    expect_out("\n    3   0.1     false       1 ");
    expect_out("the same run: ");
    ck_assert(exists("a/b/trial-003/config.json") && !exists("a/b/trial-004"));
    size_t size;
    char *csv = read_file("a/b/sweep.csv", &size);
    ck_assert_int_eq(
        strncmp(csv, "trial,lr,nesterov,epochs,val_top1,best_epoch,error\n0,0.01,true,1,", 65), 0);
    free(csv);
    end_folder();
}
END_TEST

/* A sweep that has 12 trials, some of which diverge, and what `lockstep report` writes of it. */
START_TEST(a_sweep_has_a_report)
{
    begin();
    write_text("a.sweep", "method = grid\n" TRAIN "epochs = 1\n[search]\nopt = sgd\n"
                          "lr = 0.01, 0.05, 1000\nflip = linear(0, 0.5, 4)\n");
    expect(0, "sweep a.sweep --out a&b");
    char *html = read_page("a&b/report.html");
    ck_assert_int_eq(count_parts(html, "<title>trial "), 2 * 12); /* wide and narrow */
    ck_assert_int_eq(count_parts(html, "<title>trial 8: failed</title>"), 2);
    char *seen = page_text(html);
    expect_part(seen, "a&b\nsweep of 12 trials, method grid, 4 failed\n");
    expect_part(seen, "\n[chart: The metric of each trial by epoch]\n");
    expect_part(seen, "\n| lr | ");                 /* has a share */
    expect_part(seen, "\n| opt | \xe2\x80\x93 | "); /* has none */
    expect_part(seen, " | 1000 | 0.5 | 1 | \xe2\x80\x93 | ");
    ck_assert_int_eq(count_parts(strstr(seen, "\nTrials, from the best"), "\n| "), 1 + 12);
    free(seen);
    free(html);

    expect(0, "report a&b --out again.html");
    ck_assert(same_files("a&b/report.html", "again.html"));
    expect(2, "report a&b data --out two.html");
    expect_err("a&b: the folder of a sweep; expected no other folder");
    end_folder();
}
END_TEST

/* 13 trials after 1 epoch, of which four have trained for 3, and one failed before its first. */
START_TEST(a_report_by_the_first_rung)
{
    char text[8192];
    int n = snprintf(text, sizeof(text),
                     "{\"sweep\": {\"metric\": \"val-loss\", \"method\": \"halving\", \"train\": "
                     "{\"data-dir\": \"my data\"}, \"search\": [{\"option\": \"lr\", \"values\": "
                     "\"linear(0, 1)\"}]}, \"results\": [{\"trial\": 0, \"epochs\": 1, \"value\": "
                     "null, \"error\": \"<no> memory\"}");
    begin_folder();
    make_folder("x");
    for (int i = 1; i < 14; i++) {
        make_folder(path_in("x", "trial-%03d", i));
        write_text(path_in("x", "trial-%03d/config.json", i),
                   "{\"options\": {\"epochs\": 3, \"metric\": \"loss\", \"alpha\": \"white\"}}");
        for (int epochs = 1; epochs <= (i < 5 ? 3 : 1); epochs += 2)
            n += snprintf(text + n, sizeof(text) - (size_t)n,
                          ", {\"trial\": %d, \"epochs\": %d, \"value\": %g, \"best_epoch\": 1, "
                          "\"options\": {\"lr\": \"%g\"}}",
                          i, epochs, i / 4.0 - epochs / 8.0, i / 16.0);
    }
    snprintf(text + n, sizeof(text) - (size_t)n, "]}");
    write_text("x/sweep.json", text);
    expect(0, "report x --out x.html");
    char *html = read_page("x.html");
    expect_page_text(html, LOCKSTEP_COMMAND, "report_of_a_sweep.txt");
    ck_assert_int_eq(count_parts(html, "<title>trial "), 2 * 13);
    ck_assert_int_eq(count_parts(html, " 3 epochs</title>"), 2 * 4);
    ck_assert_int_eq(count_parts(html, "stroke-dasharray=\"7 4\""), 2 * 9 + 1); /* and the legend */
    free(html);
    end_folder();
}
END_TEST

START_TEST(reports_of_damaged_sweeps)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "{", "x/sweep.json: " },
        { "{}", "x/sweep.json: expected 'metric' and a list 'search' in 'sweep'" },
        { "{\"sweep\": {\"metric\": \"val-loss\", \"search\": [{\"option\": \"lr\"}]}}",
          "x/sweep.json: element 1 of 'search' is malformed" },
        { "{\"sweep\": {\"metric\": \"val-loss\", \"search\": [{\"option\": \"lr\", "
          "\"values\": \"lag(1, 2)\"}]}}",
          "element 1 of 'search' is malformed" },
        { "{\"sweep\": {\"metric\": \"val-loss\", \"search\": [{\"option\": \"lr\", "
          "\"values\": \"log(0, 2)\"}]}}",
          "element 1 of 'search' is malformed" },
        { "{\"sweep\": {\"metric\": \"val-loss\", \"search\": [{\"option\": \"lr\", "
          "\"values\": \"linear(3, 2)\"}]}}",
          "element 1 of 'search' is malformed" },
        { "{\"sweep\": {\"metric\": \"val-loss\", \"search\": [{\"option\": \"lr\", "
          "\"values\": \"log(1, 2)\"}]}, \"results\": [{\"trial\": 1}, {\"trial\": 0}]}",
          "x/sweep.json: result 2 is malformed" },
        { "{\"sweep\": {\"metric\": \"val-loss\", \"search\": [{\"option\": \"lr\", "
          "\"values\": \"log(1, 2)\"}]}, \"results\": [{\"trial\": 0, \"epochs\": 1}, "
          "{\"trial\": 0, \"epochs\": 1}]}",
          "x/sweep.json: result 2 is malformed" },
    };
    begin_folder();
    make_folder("x");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_text("x/sweep.json", cases[i].text);
        expect(1, "report x");
        expect_err(cases[i].error);
        ck_assert(!exists("x/report.html"));
    }
    write_text("x/sweep.json", "{\"sweep\": {\"metric\": \"val-loss\", \"search\": [{\"option\": "
                               "\"<lr>\", \"values\": [\"1\"]}]}, \"results\": []}");
    expect(0, "report x");
    expect_seen("x/report.html", "No trial has a result yet.\n");
    write_text("x/sweep.json", "{\"sweep\": {\"metric\": \"val-loss\", \"search\": [{\"option\": "
                               "\"<lr>\", \"values\": [\"1\"]}]}, \"results\": [{\"trial\": 0, "
                               "\"epochs\": 1, \"value\": 0.5, \"best_epoch\": 1, \"options\": "
                               "{\"<lr>\": \"1\"}}]}");
    expect(0, "report x");
    expect_seen("x/report.html",
                "Too few trials: 1 with a result after epoch 1; expected 12 or more.\n");
    end_folder();
}
END_TEST

static int count_epochs(const char *out, int n_trials)
{
    int n = 0;
    for (int i = 0; i < n_trials; i++) {
        size_t size;
        char *text = read_file(path_in(out, "trial-%03d/metrics.jsonl", i), &size);
        for (size_t k = 0; k < size; k++) n += text[k] == '\n';
        free(text);
    }
    return n;
}

/* Also killed, resumed and with two trials at a time. Halving continues its best trials, whose run
 * logs are those of uninterrupted runs. */
START_TEST(interruptions_and_parallel_trials_change_nothing)
{
    begin();
    write_text("halving.sweep", HALVING);
    expect(0, "sweep halving.sweep --out one");
    expect(0, "sweep halving.sweep --out two --parallel 2");
    ck_assert(same_files("one/sweep.csv", "two/sweep.csv"));
    ck_assert(same_files("one/sweep.json", "two/sweep.json"));
    ck_assert_int_eq(count_epochs("one", 5), 5 * 1 + 2 * (2 - 1) + 1 * (4 - 2)); /* the rungs */
    int n_kills = 0;
    for (int ms = 30;; ms += 40) {
        const pid_t pid = start_command(0, "sweep halving.sweep --out killed --parallel 2");
        sleep_ms(ms);
        kill(pid, SIGKILL);
        if (wait_command(pid) == 0) break;
        n_kills++;
    }
    ck_assert_int_gt(n_kills, 0);
    expect(0, "sweep halving.sweep --out killed");
    ck_assert(same_files("one/sweep.csv", "killed/sweep.csv"));
    ck_assert(same_files("one/sweep.json", "killed/sweep.json"));

    char best[16], *at = strstr(said_out, "weights killed/trial-");
    ck_assert_ptr_nonnull(at);
    snprintf(best, sizeof(best), "%.9s", at + 15);
    ck_assert(exists(path_in("killed", "%s/best.safetensors", best)));
    char *command = strstr(said_out, "the same run: ");
    command = strstr(command, " train ") + 1;
    *strchr(command, '\n') = '\0';
    char line[1024];
    snprintf(line, sizeof(line), "%s", command);
    expect(0, "%s --out full", line);
    ck_assert(same_files("full/run_log.txt", path_in("one", "%s/run_log.txt", best)));
    ck_assert(same_files("full/run_log.txt", path_in("killed", "%s/run_log.txt", best)));
    end_folder();
}
END_TEST

START_TEST(a_signal_stops_and_more_trials_extend)
{
    begin();
    write_text("random.sweep", "trials = 2\n" TRAIN "epochs = 2\n[search]\nlr = log(0.001, 0.1)\n");
    const pid_t pid = start_command(0, "sweep random.sweep --trials 4 --out long --parallel 2");
    while (!exists("long/trial-001.log") && kill(pid, 0) == 0) sleep_ms(5);
    kill(pid, SIGTERM);
    const int answer = wait_command(pid);
    ck_assert(answer == 128 + SIGTERM || answer == 0); /* or it was done */
    if (answer) expect_err("the same command continues the sweep");
    expect(0, "sweep random.sweep --trials 4 --out long");
    expect(0, "sweep random.sweep --out short");
    ck_assert(!exists("short/trial-002"));
    expect(0, "sweep random.sweep --out short --trials 4");
    ck_assert(same_files("short/sweep.csv", "long/sweep.csv"));
    expect(2, "sweep random.sweep --out short --trials 3");
    expect_err("short/sweep.json has results of trials 0 to 3: expected trials = 4 or more, got 3");
    ck_assert(same_files("short/sweep.csv", "long/sweep.csv"));
    expect(2, "sweep random.sweep --out short --seed 1");
    expect_err("short/sweep.json: seed is 0 in the sweep, 1 now");
    expect_err("short/sweep.json: the folder contains another sweep; choose another --out");
    write_text("random.sweep",
               "trials = 4\n" TRAIN "epochs = 2\nflip = 0\n[search]\nlr = log(0.001, 0.1)\n");
    expect(2, "sweep random.sweep --out short");
    expect_err("short/sweep.json: train.flip is missing in the sweep, \"0\" now");
    write_text("random.sweep", "trials = 4\n" TRAIN "epochs = 2\n[search]\nflip = 0, 1\n"
                               "lr = log(0.001, 0.2)\n");
    expect(2, "sweep random.sweep --out short");
    expect_err("search.flip is missing in the sweep, [\"0\", \"1\"] now");
    expect_err("search.lr is \"log(0.001, 0.1)\" in the sweep, \"log(0.001, 0.2)\" now");
    expect_err("order of [search] is [\"lr\"] in the sweep, [\"flip\", \"lr\"] now");
    end_folder();
}
END_TEST

/* A trial that continues would fail, and a new one would train on other images than the others. */
START_TEST(a_sweep_has_the_same_images)
{
    begin();
    write_text("random.sweep", "trials = 1\n" TRAIN "epochs = 1\n[search]\nlr = log(0.001, 0.1)\n");
    expect(0, "sweep random.sweep --out s");
    const char *const splits[] = { "train", "val" };
    const char *const fields[] = { "data: train.samples is ", "data: validation.samples is " };
    for (int i = 0; i < 2; i++) {
        char other[64];
        snprintf(other, sizeof(other), "data/%s/star/another.png", splits[i]);
        write_text(other, "one more file");
        expect(3, "sweep random.sweep --out s --trials 2");
        expect_err(fields[i]);
        expect_err("data: the images are not those that the sweep in s has trained on; restore "
                   "them, or choose another --out");
        ck_assert(!exists("s/trial-001"));
        remove(other);
    }
    expect(0, "sweep random.sweep --out s --trials 2");
    size_t size;
    char *sweep = read_file("s/sweep.json", &size),
         *run = read_file("s/trial-000/manifest.json", &size);
    const char *digest = strstr(sweep, "\"digest\": ");
    ck_assert_ptr_nonnull(digest);
    char line[64];
    snprintf(line, sizeof(line), "%.44s", digest);
    ck_assert_ptr_nonnull(strstr(run, line));
    free(sweep);
    free(run);
    end_folder();
}
END_TEST

static void copy_file(const char *from, const char *to)
{
    size_t size;
    void *bytes = read_file(from, &size);
    write_file(to, bytes, size);
    free(bytes);
}

/* Trial 0 does not read the unreadable image. Trial 1 fails on it, and begins again with --force:
 * the results are those of a sweep whose images were readable from the beginning. */
START_TEST(a_sweep_continues_after_an_image_was_repaired)
{
    begin();
    write_text("grid.sweep",
               "method = grid\n[train]\ndata-dir = data\nimage-size = 8\ncrop-padding = 2\n"
               "workers = 0\nthreads = 1\nepochs = 2\nseed = 4\n[search]\nbatch-size = 21, 8\n");
    write_text("data/train/star/bad.png", "no image");
    expect(3, "sweep grid.sweep --out s");
    expect_err("trial 1 failed with status 3; s/trial-001.log ends with:");
    expect_err("if images are repaired, the same command with --force continues the sweep");
    expect(3, "sweep grid.sweep --out s"); /* not repaired yet */
    expect_err("trial 1 failed with status 3");
    expect(0, "train --resume s/trial-001 --on-bad-image skip"); /* as the log suggests */
    expect(3, "sweep grid.sweep --out s");
    expect_err("note: trial 1 begins again, because its run has other images");
    copy_file("data/train/star/000000.png", "data/train/star/bad.png");
    expect(3, "sweep grid.sweep --out s");
    expect_err("repaired, --force continues");
    expect(0, "sweep grid.sweep --out s --force");
    expect_err("warning: data: train.digest is ");
    expect_err("note: trial 1 begins again");
    ck_assert_ptr_null(strstr(said_err, "trial 0"));
    expect(0, "sweep grid.sweep --out s");
    expect(0, "sweep grid.sweep --out fresh");
    ck_assert(same_files("s/sweep.csv", "fresh/sweep.csv"));
    ck_assert(same_files("s/trial-001/run_log.txt", "fresh/trial-001/run_log.txt"));
    end_folder();
}
END_TEST

/* No file may grow beyond a size, as on a full disk. */
START_TEST(a_sweep_continues_after_the_disk_was_full)
{
    begin();
    write_text("halving.sweep", HALVING);
    ck_assert_int_eq(
        wait_command(start_command(100000, "sweep halving.sweep --out s --parallel 2")), 1);
    expect_err("the same command continues the sweep");
    ck_assert_ptr_null(strstr(said_err, "signal 15")); /* of the other trial */
    expect(0, "sweep halving.sweep --out s");
    expect(0, "sweep halving.sweep --out fresh");
    ck_assert(same_files("s/sweep.csv", "fresh/sweep.csv"));
    end_folder();
}
END_TEST

/* lenet5 requires larger images. */
START_TEST(a_failed_trial_is_ranked_last)
{
    begin();
    write_text("models.sweep",
               "method = grid\n" TRAIN "epochs = 1\n[search]\nmodel = lenet5, resnet20\n");
    expect(1, "sweep models.sweep --out s");
    expect_err("trial 0 failed with status 1; s/trial-000.log ends with:");
    for (int i = 0; i < 2; i++) { /* also from sweep.json */
        expect(0, "sweep models.sweep --out s --on-failed-trial %s", i == 0 ? "skip" : "stop");
        expect_out("    0    lenet5       1         -           -  failed: lenet5: images of 8 x 8 "
                   "pixels, expected sides of at least 12\n");
        expect_out("best: trial 1, ");
    }
    size_t size;
    char *csv = read_file("s/sweep.csv", &size);
    ck_assert_ptr_nonnull(
        strstr(csv, "\n0,lenet5,1,,,\"lenet5: images of 8 x 8 pixels, expected sides of"));
    free(csv);
    end_folder();
}
END_TEST

/* Names of files hold any bytes, and long ones are truncated; sweep.json is UTF-8. */
START_TEST(errors_of_trials_hold_any_bytes)
{
    char names[3][256] = { "caf\xe9.png", "",
                           "x" }; /* one of the long ones is cut in a character */
    for (int k = 1; k < 3; k++) {
        for (int i = 0; i < 120; i++) strcat(names[k], "\xc3\xa9");
        strcat(names[k], ".png");
    }
    for (int k = 0; k < 3; k++) {
        begin();
        write_text("grid.sweep",
                   "method = grid\n[train]\ndata-dir = data\nimage-size = 8\nworkers = 0\n"
                   "threads = 1\nepochs = 1\nseed = 4\n[search]\nbatch-size = 21, 8\n");
        const char *image = path_in("data/train/star", "%s", names[k]);
        write_text(image, "no image");
        for (int i = 0; i < 2; i++) { /* also from sweep.json */
            expect(0, "sweep grid.sweep --out s --on-failed-trial skip");
            expect_out("  failed: ");
            expect_out("data/train/star/");
            ck_assert_int_eq(strstr(said_out, names[k]) != NULL, k == 0);
        }
        json_error_t error;
        json_t *json = json_load_file("s/sweep.json", 0, &error);
        ck_assert_msg(json != NULL, "%s", error.text);
        json_decref(json);
        size_t size;
        char *text = read_file("s/sweep.json", &size);
        ck_assert_int_eq(strstr(text, "caf\\\\xE9") != NULL,
                         k == 0); /* as ls__json_text writes it */
        ck_assert_int_eq(strstr(text, "\\\\xC3") != NULL, false);
        free(text);
        end_folder();
    }
}
END_TEST

/* Suggestions of a round come from completed rounds, and from the stored results of a sweep that is
 * extended. */
START_TEST(suggestions_are_the_same_in_parallel_and_extended)
{
    begin();
    write_text("tpe.sweep", "method = tpe\nstartup = 2\nbatch = 2\nmetric = val-loss\n" TRAIN
                            "epochs = 1\n[search]\nlr = log(0.001, 0.1)\nflip = linear(0, 1)\n");
    expect(0, "sweep tpe.sweep --trials 5 --out one");
    expect(0, "sweep tpe.sweep --trials 5 --out two --parallel 3");
    expect(0, "sweep tpe.sweep --trials 2 --out more");
    expect(0, "sweep tpe.sweep --trials 5 --out more");
    ck_assert(same_files("one/sweep.csv", "two/sweep.csv"));
    ck_assert(same_files("one/sweep.csv", "more/sweep.csv"));
    end_folder();
}
END_TEST

START_TEST(a_failed_trial_stops_and_a_diverged_one_does_not)
{
    begin();
    write_text("bad.sweep", "trials = 2\n" TRAIN "epochs = 1\n[search]\nlr = log(0.001, 0.1)\n");
    write_text("data/train/star/bad.png", "no image");
    expect(3, "sweep bad.sweep --out failed");
    expect_err("trial 0 failed with status 3; failed/trial-000.log ends with:");
    expect_err("data/train/star/bad.png");
    write_text("diverged.sweep", "method = grid\n" TRAIN "epochs = 1\non-bad-image = skip\n"
                                 "[search]\nlr = 1000, 0.01\nopt = sgd\n");
    expect(0, "sweep diverged.sweep --out diverged");
    expect_out("    0  1000  sgd       1         -           -\n");
    expect_out("best: trial 1, ");
    expect(0, "sweep diverged.sweep --out diverged"); /* from sweep.json */
    expect_out("    0  1000  sgd       1         -           -\n");
    end_folder();
}
END_TEST

static int count_rows(const char *csv)
{
    size_t size;
    char *text = read_file(csv, &size);
    int n = -1; /* the head */
    for (const char *at = text; (at = strchr(at, '\n')); at++) n++;
    free(text);
    return n;
}

#define EQUAL TRAIN "epochs = 1\n[search]\nopt = sgd, adam\nflip = 0, 0.5\n"

/* Each combination is one trial, and a larger number extends the sweep until all are done. */
START_TEST(no_trial_repeats_another_one)
{
    begin();
    write_text("equal.sweep", "trials = 3\nmetric = val-loss\n" EQUAL);
    expect(0, "sweep equal.sweep --out s");
    ck_assert_ptr_null(strstr(said_err, "combinations"));
    ck_assert_int_eq(count_rows("s/sweep.csv"), 3);
    expect(0, "sweep equal.sweep --out s --trials 9");
    expect_err("note: all 4 combinations of [search] are done, so 'trials = 9' has no others\n");
    ck_assert_int_eq(count_rows("s/sweep.csv"), 4);
    for (int i = 0; i < 4; i++) ck_assert(exists(path_in("s", "trial-%03d", i)));
    expect(0, "sweep equal.sweep --out two --trials 9 --parallel 2");
    ck_assert(same_files("s/sweep.json", "two/sweep.json"));
    write_text("equal.sweep", "trials = 5\nmethod = halving\neta = 2\nmetric = val-loss\n" TRAIN
                              "epochs = 2\n[search]\nopt = sgd, adam\n");
    expect(0, "sweep equal.sweep --out halving");
    expect_err("all 2 combinations of [search] are done");
    end_folder();
}
END_TEST

START_TEST(a_damaged_sweep_is_an_error)
{
    static const char *const damages[] = { "", "[]", "{}", "{ \"sweep\": {}, \"images\": {} }" };
    begin();
    write_text("random.sweep", "trials = 1\n" TRAIN "epochs = 1\n[search]\nopt = sgd, adam\n");
    expect(0, "sweep random.sweep --out s");
    json_t *json = json_load_file("s/sweep.json", 0, NULL);
    const json_t *row = json_array_get(json_object_get(json, "results"), 0);
    ck_assert_ptr_nonnull(json_object_get(json_object_get(row, "options"), "opt"));
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        write_text("s/sweep.json", damages[i]);
        expect(1, "sweep random.sweep --out s");
        expect_err("lockstep sweep: s/sweep.json: ");
    }
    static const char *const names[] = { "trial", "epochs", "value", "best_epoch" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        json_t *damaged = json_deep_copy(json);
        json_object_set_new(json_array_get(json_object_get(damaged, "results"), 0), names[i],
                            json_string("1"));
        ck_assert_int_eq(json_dump_file(damaged, "s/sweep.json", 0), 0);
        expect(1, "sweep random.sweep --out s");
        expect_err("lockstep sweep: s/sweep.json: result 1 is malformed\n");
        json_decref(damaged);
    }
    json_object_set_new(json_array_get(json_object_get(json, "results"), 0), "trial",
                        json_integer(INT64_MAX));
    ck_assert_int_eq(json_dump_file(json, "s/sweep.json", 0), 0);
    expect(1, "sweep random.sweep --out s");
    expect_err("lockstep sweep: s/sweep.json: result 1 is malformed\n");
    json_decref(json);
    end_folder();
}
END_TEST

START_TEST(errors_of_the_file)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "method = gird\n", "x.sweep:1: method: expected one of random|grid|" },
        { "\ntrails = 3\n", "x.sweep:2: unknown option 'trails'; did you mean 'trials'?" },
        { "lr = 3\n", "x.sweep:1: unknown option 'lr' of the sweep; options of 'lockstep train' " },
        { "trials = 3\ntrials = 4\n", "x.sweep:2: 'trials' is already in line 1" },
        { "[tarin]\n", "x.sweep:1: unknown section [tarin]; did you mean 'train'?" },
        { "[train\n", "x.sweep:1: expected [section], got '[train'" },
        { "[train]\nepocs = 3\n",
          "x.sweep:2: unknown option 'epocs' of 'lockstep train'; did you" },
        { "[train]\nepochs = 0\n",
          "x.sweep:2: epochs: expected an integer from 1 to 100000, got '0'" },
        { "[train]\nepochs\n", "x.sweep:2: expected 'key = value'" },
        { "[train]\nout = x\n", "x.sweep:2: 'out' is not accepted in [train]: the sweep sets it" },
        { "[train]\nlr = 1\n[search]\nlr = 1, 2\n", "x.sweep:4: 'lr' is already in line 2" },
        { "[search]\nthreads = 1, 2\n", "'threads' is not accepted in [search]: it cannot change" },
        { "[search]\nepochs = 1, 2\n", "'epochs' is not accepted in [search]: all trials have" },
        { "[search]\ndigest-contents = true, false\n", "x.sweep:2: 'digest-contents' is not" },
        { "[search]\nopt = sgd, adm\n",
          "x.sweep:2: opt: expected one of sgd|adam|adamw|rmsprop, got 'adm'" },
        { "[search]\nopt = sgd, sgd\n", "x.sweep:2: opt: the value 'sgd' occurs twice" },
        { "[search]\nopt = 'sgd\n", "x.sweep:2: the closing quote is missing" },
        { "[search]\nopt = 'sgd' 'adam'\n", "x.sweep:2: expected a comma after the closing quote" },
        { "[search]\nopt = sgd, # adam\n", "x.sweep:2: opt: expected one of sgd|adam|adamw|" },
        { "[train]\nmodel = it's # a comment\nepocs = 2\n", "x.sweep:3: unknown option 'epocs'" },
        { "\n[train]\ndata-dir = \xff\n", "x.sweep:3: expected a line of text in UTF-8" },
        { "[train]\nnesterov =\n", "x.sweep:2: nesterov: expected true or false, got ''" },
        { "force = true\n", "x.sweep:1: 'force' is for the command line alone" },
        { "out = 'a\n", "x.sweep:1: the closing quote is missing" },
        { "[search]\nopt = linear(0, 1)\n",
          "opt: expected a list of values, because it is no number" },
        { "[search]\nlr = integer(1, 2)\n", "lr: expected linear(LOW, HIGH) or log(LOW, HIGH)" },
        { "[search]\nlr = log(1)\n", "x.sweep:2: lr: expected KIND(LOW, HIGH)" },
        { "[search]\nlr = log(1, 1e9)\n",
          "lr: expected two ends, the lower one first, each a number from 1e-12 to 1000" },
        { "[search]\nlr = log(nan, 1)\n", "lr: expected two ends, the lower one first" },
        { "trials = 2\n", "x.sweep: expected a section [search]" },
        { "[search]\nlr = 1, 2\n", "x.sweep: method random requires 'trials = N'" },
        { "seed = 1\nmethod = tpe\n[search]\nlr = 1, 2\n",
          "x.sweep:2: method tpe requires 'trials = N'" },
        { "method = halving\ntrials = 2\nmin-epochs = 9\n" TRAIN
          "epochs = 4\n[search]\nlr = 1, 2\n",
          "x.sweep:3: min_epochs 9: expected 0 to 4" },
        { "method = grid\neta = 3\n[search]\nlr = 1, 2\n",
          "x.sweep:2: 'eta' has no effect with method grid" },
        { "method = grid\n[search]\nlr = 1, 2\n", "x.sweep: [train] requires 'data-dir = DIR'" },
        { "method = grid\n[train]\ndata-dir = data\nimage-size = 8\n[search]\nbatch-size = 8, 64\n",
          "x.sweep:6: batch-size: expected at most the number of training images, 40; got 64" },
        { "method = tpe\ntrials = 2\n[train]\ndata-dir = data\nimage-size = 8\n[search]\n"
          "batch-size = integer(1, 64)\n",
          "x.sweep:7: batch-size: expected at most the number of training images, 40; got 64" },
        { "method = tpe\ntrials = 2\n" TRAIN "[search]\nloss = cross-entropy, mse\n",
          "the loss of the trials requires 'metric = val-loss'" },
        { "method = grid\n" TRAIN "[search]\nlr = log(0.1, 1)\n",
          "x.sweep:10: 'lr': a range in a grid requires" },
        { "method = grid\n" TRAIN "opt = adam\n[search]\nmomentum = 0.1, 0.9\n",
          "--momentum has no effect here" },
        { "method = grid\n" TRAIN "[search]\nopt = sgd, adam\nmomentum = 0.1, 0.9\n",
          "x.sweep: in the trial: " },
    };
    begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_text("x.sweep", cases[i].text);
        expect(2, "sweep x.sweep");
        expect_err(cases[i].error);
        ck_assert(!exists("sweep/trial-000"));
    }
    expect(2, "sweep");
    expect_err("expected one FILE");
    expect(2, "sweep nowhere");
    expect_err("nowhere: No such file");
    write_text("x.sweep", HALVING);
    expect(2, "sweep x.sweep --out data");
    expect_err("--out data: the folder is not empty and contains no sweep");
    expect(0, "sweep --help");
    expect_out("lr = log(0.001, 1)");
    end_folder();
}
END_TEST

TEST_PROGRAM(sweep)
{
    return RUN_SUITE("sweep", a_grid_has_all_combinations, a_sweep_has_a_report,
                     a_report_by_the_first_rung, reports_of_damaged_sweeps,
                     interruptions_and_parallel_trials_change_nothing,
                     a_signal_stops_and_more_trials_extend, a_sweep_has_the_same_images,
                     a_sweep_continues_after_an_image_was_repaired,
                     a_sweep_continues_after_the_disk_was_full, a_failed_trial_is_ranked_last,
                     errors_of_trials_hold_any_bytes, no_trial_repeats_another_one,
                     a_damaged_sweep_is_an_error, suggestions_are_the_same_in_parallel_and_extended,
                     a_failed_trial_stops_and_a_diverged_one_does_not, errors_of_the_file);
}
