/* test_metric_command.c: 'lockstep train' with --metric, sweeps by a metric, and losses that do not
 * depend on the batch size. */
#include "command.h"
#include "run_files.h"

#include "../suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAIN                                                                                      \
    "train --data-dir data --model mlp --image-size 8 -j 0 --threads 1 --label-smoothing 0 "

static void begin(void)
{
    begin_folder();
    expect(0, "demo-data data --train 6 --val 3");
    ck_assert_int_eq(system("cd data && for c in ring star; do for s in train val; do (cd $s/$c && "
                            "rm $(ls | tail -2)); done; done"),
                     0);
}

static double loss_of(const char *run)
{
    json_t *row = read_row(path_in(run, "metrics.jsonl"), 0);
    const double loss = number(row, "val_loss");
    json_decref(row);
    return loss;
}

/* The report of a program's run reads the metric in evaluation.json; NULL: the default. */
static void expect_metric(const char *run, const char *metric)
{
    json_t *evaluation = json_load_file(path_in(run, "evaluation.json"), 0, NULL);
    const char *text = json_string_value(json_object_get(evaluation, "metric"));
    ck_assert_ptr_nonnull(json_object_get(evaluation, "classes"));
    ck_assert(metric ? text && strcmp(text, metric) == 0 : !text);
    json_decref(evaluation);
}

START_TEST(a_metric_decides)
{
    begin();
    expect(0, TRAIN "--epochs 3 -b 8 --metric macro_recall --out run");
    expect_out("\nmetric  macro_recall; it decides which weights are the best\n");
    expect_out("  val macro_recall 0.");
    expect_out("  best val macro_recall 0.");
    int best = 0;
    double highest = -1, lowest = 0;
    for (int i = 0; i < 3; i++) {
        json_t *row = read_row("run/metrics.jsonl", i);
        const double value = number(row, "val_macro_recall"), loss = number(row, "val_loss");
        if (value > highest || (value == highest && loss < lowest)) {
            best = i + 1;
            highest = value;
            lowest = loss;
        }
        ck_assert_double_eq(number(row, "best_epoch"), best);
        json_decref(row);
    }
    json_t *identity = read_identity("run/manifest.json");
    ck_assert_str_eq(json_string_value(json_object_get(identity, "metric")), "macro_recall");
    json_decref(identity);
    expect(2, "train --resume run --metric auc");
    expect_err("--metric can't be changed on resume: the run has \"macro_recall\"");
    expect(0, "report run --out r.html");
    size_t size;
    char *html = read_file("r.html", &size);
    ck_assert(strstr(html, "deciding metric") && strstr(html, "Macro recall"));
    free(html);
    expect(0, TRAIN "--epochs 3 -b 8 --metric macro_recall --stop-at 8 --out parts");
    expect(0, "train --resume parts");
    expect_same_tensors("run/best.safetensors", "parts/best.safetensors");
    expect(0, TRAIN "--epochs 1 -b 8 --metric top1 --out usual"); /* the default */
    expect_metric("run", "macro_recall");
    expect_metric("usual", NULL);
    identity = read_identity("usual/manifest.json");
    ck_assert_ptr_null(json_object_get(identity, "metric"));
    json_decref(identity);
    end_folder();
}
END_TEST

START_TEST(losses_do_not_depend_on_the_batch_size)
{
    begin();
    static const int batches[] = { 1, 5, 16 };
    double losses[3];
    for (int i = 0; i < 3; i++) {
        char run[16];
        snprintf(run, sizeof(run), "run%d", i);
        expect(0,
               TRAIN "--epochs 1 --lr 1e-12 --lr-warmup-epochs 0 --class-weights balanced -b %d "
                     "--out %s",
               batches[i], run);
        losses[i] = loss_of(run);
        ck_assert_double_eq_tol(losses[i], losses[0], 1e-6);
    }
    expect(0, TRAIN "--epochs 1 -b 7 --out plain"); /* the same batches, and so the same bits */
    expect(0, "eval --checkpoint plain/best.safetensors --data-dir data --json -b 7 --threads 2");
    json_t *result = json_loads(said_out, 0, NULL);
    ck_assert_double_eq(number(result, "loss"), loss_of("plain"));
    json_decref(result);
    end_folder();
}
END_TEST

START_TEST(errors_name_the_metrics)
{
    static const struct {
        int status;
        const char *arguments, *error;
    } cases[] = {
        { 2, "--metric accuracy", "expected one of top1|loss|macro_recall|macro_f1|auc|" },
        { 2, "--metric auc --no-val", "--metric has no effect here: it requires validation" },
        { 2, "--metric macro_f1 --loss bce", "--metric has no effect here: it requires --loss" },
        { 2, "--metric auc --lr-scheduler plateau --plateau-metric top1",
          "it requires --metric top1, loss or cross_entropy" },
        { 2, "--metric cross_entropy --lr-scheduler plateau --plateau-metric loss",
          "it requires another --metric than cross_entropy" },
    };
    begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(cases[i].status, TRAIN "-b 8 --out none %s", cases[i].arguments);
        expect_err(cases[i].error);
        ck_assert(!exists("none"));
    }
    ck_assert_int_eq(system("cd data && rm -r train/[d-z]* val/[d-z]*"), 0); /* 5 classes */
    expect(1, TRAIN "-b 8 --out none --metric top5");
    expect_err("metric is 'top5', expected one of loss, top1, macro_recall");
    ck_assert(!exists("none"));
    end_folder();
}
END_TEST

#define SWEEP                                                                                      \
    "[train]\ndata-dir = data\nmodel = mlp\nimage-size = 8\nbatch-size = 8\nworkers = 0\n"         \
    "threads = 1\nepochs = 2\n"

/* The trial's best weights are those of the epoch in the table, and have its value. */
START_TEST(a_sweep_compares_one_metric)
{
    begin();
    write_text("s.sweep",
               "method = grid\nmetric = val-loss\n" SWEEP "[search]\nlabel-smoothing = 0, 0.2\n");
    expect(0, "sweep s.sweep --out s");
    expect_err("so trials are compared by cross_entropy");
    expect_out("trial  label-smoothing  epochs  val_cross_entropy  best_epoch\n");
    json_t *sweep = json_load_file("s/sweep.json", 0, NULL), *row;
    size_t i;
    json_array_foreach(json_object_get(sweep, "results"), i, row)
    {
        expect(0, "eval --checkpoint s/trial-00%zu/best.safetensors --data-dir data --json -b 8",
               i);
        json_t *result = json_loads(said_out, 0, NULL);
        ck_assert_double_eq_tol(number(result, "loss"), number(row, "value"), 1e-5);
        json_decref(result);
    }
    json_decref(sweep);
    expect(0, "sweep s.sweep --out s"); /* complete */

    write_text("t.sweep", "method = grid\n" SWEEP "metric = auc\n[search]\nlr = 0.01, 0.1\n");
    expect(0, "sweep t.sweep --out t");
    expect_out("  val_auc  best_epoch\n");
    expect_out("weights t/trial-00");
    expect(2, "sweep t.sweep --metric loss --out u");
    expect_err("got loss for the sweep, and auc in [train]");
    write_text("u.sweep", "method = grid\n" SWEEP "metric = loss\n[search]\nlabel-smoothing = 0, "
                          "0.2\n");
    expect(2, "sweep u.sweep --out u");
    expect_err("expected metric = cross_entropy");
    write_text("v.sweep", "method = grid\n" SWEEP "[search]\nmetric = auc, loss\n");
    expect(2, "sweep v.sweep --out u");
    expect_err("'metric' is not accepted in [search]");
    ck_assert(!exists("u"));
    end_folder();
}
END_TEST

TEST_PROGRAM(metric_command)
{
    return RUN_SUITE("metric command", a_metric_decides, losses_do_not_depend_on_the_batch_size,
                     errors_name_the_metrics, a_sweep_compares_one_metric);
}
