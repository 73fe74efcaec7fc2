/* test_train_plan.c: training runs whose kernels a plan file names, or were timed, and which keep
 * them. */
#include "command.h"
#include "run_files.h"
#include "three_epochs.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A plan file that wants the plain-C kernels for ops of a run that begin so, and with `all` for its
 * other ops those that they had. Returns how many it names. */
static int write_plan_of_references(const char *path, const char *manifest, const char *start,
                                    bool all)
{
    json_t *identity = read_identity(manifest), *choices = json_object();
    const char *op;
    json_t *kernel;
    json_object_foreach(json_object_get(identity, "kernels"), op, kernel)
    {
        if (strncmp(op, start, strlen(start)) == 0)
            json_object_set_new(choices, op, json_string("reference"));
        else if (all)
            json_object_set(choices, op, kernel);
    }
    const int n = (int)json_object_size(choices);
    json_t *plan = json_pack("{s:s, s:s, s:s, s:O, s:O, s:o}", "format", "lockstep plan 1",
                             "lockstep", ls_version(), "device", "cpu", "libraries",
                             json_object_get(identity, "libraries"), "processor",
                             json_object_get(identity, "processor"), "choices", choices);
    ck_assert_int_eq(json_dump_file(plan, path, 0), 0);
    json_decref(plan);
    json_decref(identity);
    return n;
}

/* The last batch of a validation is the first one of 8: what the plan says of it is known to the
 * run before it is needed, and stays so when the file is gone, or says something else. */
START_TEST(a_run_goes_on_without_its_plan_file)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "-b 16 --epochs 1 --out plain");
    ck_assert_int_gt(
        write_plan_of_references("plan.json", "plain/manifest.json", "conv2d x=8x", false), 4);
    expect(0, TRAIN "-b 16 --plan plan.json --out whole");
    json_t *whole = read_identity("whole/manifest.json");
    for (int i = 0; i < 2; i++) {
        write_plan_of_references("plan.json", "plain/manifest.json", "conv2d x=8x", false);
        expect(0, TRAIN "-b 16 --plan plan.json --out stopped%d --stop-at 3", i);
        if (i == 0)
            ck_assert_int_eq(remove("plan.json"), 0);
        else
            write_text("plan.json", "no plan");
        expect(0, "train --resume stopped%d", i);
        char metrics[64], manifest[64];
        snprintf(metrics, sizeof(metrics), "stopped%d/metrics.jsonl", i);
        snprintf(manifest, sizeof(manifest), "stopped%d/manifest.json", i);
        expect_same_metrics("whole/metrics.jsonl", metrics, 3);
        json_t *identity = read_identity(manifest);
        ck_assert(json_equal(identity, whole));
        json_decref(identity);
    }
    json_decref(whole);
    expect(2, "train --resume stopped1 --plan other.json");
    expect_err("--plan differs from the run's own \"plan.json\"");
    end_folder();
}
END_TEST

/* With benchmark on, a run whose first part has kernels that no timing would choose, since the
 * plain-C ones are not even tried, goes on with them, whatever threads and workers it has then. The
 * plan names all of its ops, so that nothing depends on time. */
START_TEST(timed_runs_go_on_with_their_kernels)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--benchmark --out plain");
    ck_assert_int_gt(
        write_plan_of_references("plan.json", "plain/manifest.json", "conv2d x=8x", true), 20);
    expect(0, TRAIN "--benchmark --plan plan.json --out whole");
    ck_assert(!same_files("plain/run_log.txt", "whole/run_log.txt"));
    expect(0, TRAIN "--benchmark --plan plan.json --out stopped --stop-at 7");
    ck_assert_int_eq(remove("plan.json"), 0);
    expect(0, "train --resume stopped --stop-at 33 -j 3 --threads 1");
    write_plan_of_references("plan.json", "plain/manifest.json", "no such op", true);
    expect(0, "train --resume stopped -j 1 --threads 3");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    ck_assert(same_files("whole/run_log.txt", "stopped/run_log.txt"));
    json_t *whole = read_identity("whole/manifest.json");
    json_t *stopped = read_identity("stopped/manifest.json");
    ck_assert(json_equal(whole, stopped));
    json_decref(whole);
    json_decref(stopped);
    end_folder();
}
END_TEST

/* A plan of another machine: with --force a run does without it, and the file stays as it is. */
START_TEST(unusable_plans)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--benchmark --plan plan.json --out run --stop-at 2");
    ck_assert_int_eq(system("sed 's/\"processor\": \"/&another /' plan.json >foreign.json && "
                            "cp foreign.json before.json"),
                     0);
    expect(1, TRAIN "--benchmark --plan foreign.json --out other --stop-at 2");
    expect_err("processor is 'another ");
    expect_err("lockstep train: --force continues anyway, with other kernels\n");
    expect(0, TRAIN "--benchmark --plan foreign.json --out other --stop-at 2 --force");
    expect_err("warning: 'foreign.json'");
    ck_assert(same_files("foreign.json", "before.json"));

    /* where no plan can be written nothing is begun */
    expect(1, TRAIN "--benchmark --plan nowhere/plan.json --out none");
    expect_err("writing 'nowhere/plan.json': No such file or directory");
    ck_assert(!exists("none"));
    end_folder();
}
END_TEST

int main(void)
{
    return RUN_SUITE("train_plan", unusable_plans, a_run_goes_on_without_its_plan_file,
                     timed_runs_go_on_with_their_kernels);
}
