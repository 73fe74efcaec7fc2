/* test_report_command.c: the report that training writes, and 'lockstep report'. */
#include "../report/html_check.h"
#include "command.h"
#include "one_epoch.h"

#include "../suite.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void expect_same_bytes(const char *a, const char *b)
{
    ck_assert_msg(same_files(a, b), "%s and %s differ", a, b);
}

/* The report changes nothing else, and needs no data. */
START_TEST(a_run_with_and_without_a_report)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 3");
    expect(0, TRAIN);
    expect(0, TRAIN "--no-report --out plain");
    expect_same_bytes("run/run_log.txt", "plain/run_log.txt");
    expect_same_bytes("run/best.safetensors", "plain/best.safetensors");
    ck_assert(exists("run/report.html") && exists("run/first_batch.jpg"));
    ck_assert(!exists("plain/report.html") && !exists("plain/first_batch.jpg") &&
              !exists("plain/evaluation.json"));

    /* the numbers of eval */
    expect(0, "eval --checkpoint run/last.safetensors --data-dir data -b 8 --json");
    json_t *eval = json_loads(said_out, 0, NULL);
    json_t *stored = json_load_file("run/evaluation.json", 0, NULL);
    static const char *const keys[] = { "images",  "top1",      "top5",       "macro",
                                        "classes", "confusion", "calibration" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        ck_assert_msg(json_equal(json_object_get(eval, keys[i]), json_object_get(stored, keys[i])),
                      "%s", keys[i]);
    const json_t *mistake = json_array_get(json_object_get(stored, "mistakes"), 0);
    const char *image = json_string_value(json_object_get(mistake, "image"));
    ck_assert(image && strncmp(image, "data:image/jpeg;base64,/9j/", 27) == 0);
    json_decref(eval);
    json_decref(stored);

    ck_assert_int_eq(system("rm -r data && cp run/report.html before.html"), 0);
    expect(0, "report run");
    ck_assert_str_eq(said_out, "run/report.html\n");
    expect_seen("run/report.html", "\nMost confident mistakes\n");
    expect(0, "report run plain --out both.html");
    ck_assert_str_eq(said_out, "both.html\n");
    ck_assert_int_eq(
        system(LOCKSTEP_COMMAND " report run --out /dev/stdout | cmp - run/report.html"), 0);
    write_text("plain/metrics.jsonl", "damaged\n");
    expect(0, "report run plain --out both.html");
    expect_err("warning: plain/metrics.jsonl: line 1 is damaged");
    expect(2, "report");
    expect_err("no run folder given");
    expect(2, "report run plain");
    expect_err("--out FILE is required with several runs");
    expect(2, "report run --out run/last.safetensors");
    expect_err("expected a name that ends in .html");
    expect(1, "report none");
    expect_err("none: not a folder");
    expect(1, "report plain before.html");
    end_folder();
}
END_TEST

/* A run of several sessions has the same report as one of one session, except for times. */
START_TEST(a_resumed_run)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 3");
    expect(0, TRAIN "--epochs 2");
    expect(0, TRAIN "--epochs 2 --stop-at 3 --out cut");
    ck_assert(exists("cut/first_batch.jpg") && !exists("cut/evaluation.json"));
    expect(0, "train --resume cut --stop-at 12 --threads 2 -j 0");
    expect(0, "train --resume cut");
    expect_same_bytes("run/evaluation.json", "cut/evaluation.json");
    expect_same_bytes("run/first_batch.jpg", "cut/first_batch.jpg");
    end_folder();
}
END_TEST

/* Numbers have no classes to confuse, runs without validation none that were validated. */
START_TEST(runs_without_an_evaluation)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN "--no-val");
    ck_assert(exists("run/report.html") && !exists("run/evaluation.json"));
    ck_assert_int_eq(system("(echo path,target; for f in data/train/*/*; do echo $f,1.5; done) "
                            ">n.csv"),
                     0);
    expect(0, TRAIN "--data-dir n.csv --no-val --loss mse --out numbers");
    ck_assert(exists("numbers/report.html") && exists("numbers/first_batch.jpg") &&
              !exists("numbers/evaluation.json"));
    end_folder();
}
END_TEST

TEST_PROGRAM(report_command)
{
    return RUN_SUITE("report_command", a_run_with_and_without_a_report, a_resumed_run,
                     runs_without_an_evaluation);
}
