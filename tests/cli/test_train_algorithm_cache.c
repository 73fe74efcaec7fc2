/* test_train_algorithm_cache.c: training runs keep the kernels that an algorithm cache named or
 * that were timed. */
#include "command.h"
#include "run_files.h"
#include "three_epochs.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Portable arithmetic has no kernels to time. */
#define TIMED TRAIN "--benchmark --arithmetic native "

/* Another kernel for a convolution of the residual net whose own one is `kernel`, if it has one. */
static const char *other_kernel(const char *op, const char *kernel)
{
    const bool has_winograd =
        strstr(op, "x3x3x") && !strstr(op, "x3x3x3 ") && !strstr(op, "stride");
    return has_winograd && strcmp(kernel, "implicit gemm") == 0 ? "winograd 4x4" : "implicit gemm";
}

/* Whether two runs have other kernels for an op whose text begins with `start`. */
static bool have_other_kernels(json_t *a, json_t *b, const char *start)
{
    json_t *other = json_object_get(b, "kernels"), *kernel;
    const char *op;
    json_object_foreach(json_object_get(a, "kernels"), op, kernel)
    {
        if (strncmp(op, start, strlen(start)) == 0 &&
            !json_equal(kernel, json_object_get(other, op)))
            return true;
    }
    return false;
}

/* Writes an algorithm cache that names another kernel for each op of a run whose text begins with
 * `start`, if it has one. With `all` it names the run's own kernels for the other ops. Returns its
 * number of ops.
 */
static int write_others(const char *path, const char *manifest, const char *start, bool all)
{
    json_t *identity = read_identity(manifest), *kernels = json_object();
    json_t *processor = json_object_get(identity, "processor");
    const char *op;
    json_t *kernel;
    json_object_foreach(json_object_get(identity, "kernels"), op, kernel)
    {
        if (strncmp(op, start, strlen(start)) == 0)
            json_object_set_new(kernels, op,
                                json_string(other_kernel(op, json_string_value(kernel))));
        else if (all)
            json_object_set(kernels, op, kernel);
    }
    const int n = (int)json_object_size(kernels);
    json_t *cache = json_pack(
        "{s:s, s:s, s:s, s:O, s:s, s:o}", "format", "lockstep algorithm cache 1", "lockstep",
        ls_version(), "device", "cpu", "libraries", json_object_get(identity, "libraries"),
        "processor", processor ? json_string_value(processor) : "", "kernels", kernels);
    ck_assert_int_eq(json_dump_file(cache, path, 0), 0);
    json_decref(cache);
    json_decref(identity);
    return n;
}

/* The last validation batch is the first one of size 8. Its kernels come from the algorithm cache
 * that the run loaded at its start, even if the file is gone or has changed since. */
START_TEST(a_run_resumes_without_its_algorithm_cache)
{
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    begin_folder();
    draw_data();
    expect(0, TRAIN "--arithmetic native -b 16 --epochs 1 --out plain");
    ck_assert_int_gt(write_others("kernels.json", "plain/manifest.json", "conv2d x=8x", false), 2);
    expect(0, TRAIN "--arithmetic native -b 16 --algorithm-cache kernels.json --out whole");
    json_t *whole = read_identity("whole/manifest.json");
    json_t *plain = read_identity("plain/manifest.json");
    ck_assert(have_other_kernels(plain, whole, "conv2d x=8x"));
    json_decref(plain);
    for (int i = 0; i < 2; i++) {
        write_others("kernels.json", "plain/manifest.json", "conv2d x=8x", false);
        expect(
            0,
            TRAIN
            "--arithmetic native -b 16 --algorithm-cache kernels.json --out stopped%d --stop-at 3",
            i);
        if (i == 0)
            ck_assert_int_eq(remove("kernels.json"), 0);
        else
            write_text("kernels.json", "no JSON");
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
    expect(2, "train --resume stopped1 --algorithm-cache other.json");
    expect_err("--algorithm-cache can't be changed on resume: the run has \"kernels.json\"");
    end_folder();
}
END_TEST

/* A resumed run keeps its kernels with any number of threads and workers. The file names all ops,
 * so nothing depends on time. */
START_TEST(timed_runs_resume_with_their_kernels)
{
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    begin_folder();
    draw_data();
    expect(0, TIMED "--out plain");
    ck_assert_int_gt(write_others("kernels.json", "plain/manifest.json", "conv2d x=8x", true), 10);
    expect(0, TIMED "--algorithm-cache kernels.json --out whole");
    ck_assert(!same_files("plain/run_log.txt", "whole/run_log.txt"));
    expect(0, TIMED "--algorithm-cache kernels.json --out stopped --stop-at 7");
    ck_assert_int_eq(remove("kernels.json"), 0);
    expect(0, "train --resume stopped --stop-at 33 -j 3 --threads 1");
    write_others("kernels.json", "plain/manifest.json", "no such op", true);
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

/* With --force a run ignores the algorithm cache of another machine and does not change it. */
START_TEST(unusable_algorithm_caches)
{
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    begin_folder();
    draw_data();
    expect(0, TIMED "--algorithm-cache kernels.json --out run --stop-at 2");
    ck_assert_int_eq(system("sed 's/\"processor\": \"/&another /' kernels.json >foreign.json && "
                            "cp foreign.json before.json"),
                     0);
    expect(1, TIMED "--algorithm-cache foreign.json --out other --stop-at 2");
    expect_err("processor is 'another ");
    expect_err("must be set as they were; --force ignores these kernels and selects new ones\n");
    expect(0, TIMED "--algorithm-cache foreign.json --out other --stop-at 2 --force");
    expect_err("warning: 'foreign.json'");
    ck_assert(same_files("foreign.json", "before.json"));

    /* no run begins if the file can't be written */
    expect(1, TIMED "--algorithm-cache nowhere/kernels.json --out none");
    expect_err("writing 'nowhere/kernels.json': No such file or directory");
    ck_assert(!exists("none"));
    end_folder();
}
END_TEST

TEST_PROGRAM(train_algorithm_cache)
{
    return RUN_SUITE("train_algorithm_cache", unusable_algorithm_caches,
                     a_run_resumes_without_its_algorithm_cache,
                     timed_runs_resume_with_their_kernels);
}
