/* The command on the emulated device: what it says when a GPU can't be opened, or its libraries
 * fail, and on which device a run resumes. */
#include "../cli/command.h"
#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRAIN                                                                                      \
    "train --data-dir data --image-size 8 --epochs 1 -b 2 --threads 1 -j 1 --no-val --stop-at 1 "
/* The time for timing kernels is a share of the run's: enough for the slowest machine. */
#define TRAIN_LONG                                                                                 \
    "train --data-dir data --image-size 8 --epochs 3000 -b 2 --threads 1 -j 1 --no-val "           \
    "--stop-at 1 --device cuda --benchmark --algorithm-cache kernels.json "

static void begin(void)
{
    begin_folder();
    expect(0, "demo-data data --train 1 --val 1");
}

static int count_said(const char *text)
{
    int n = 0;
    for (const char *at = said_err; (at = strstr(at, text)); at++) n++;
    return n;
}

START_TEST(runs_stay_on_the_device_that_auto_took)
{
    static const char no_device[] = "LOCKSTEP_EMULATED_DEVICES";
    begin();
    setenv(no_device, "0", 1);
    expect(0, TRAIN "--device auto --out cpu");
    expect_err(
        "lockstep train: warning: device 'auto' is the cpu: device 'cuda': emulated error\n");
    ck_assert_int_eq(count_said("device 'auto'"), 1);
    expect(0, TRAIN "--device auto --inject-fault 0:sgd@optimizer:3 --out faulty");
    unsetenv(no_device);
    expect(1, "compare cpu faulty");
    expect_out(", sgd of 'optimizer'");
    expect(0, "train --resume cpu --stop-at 2");
    expect_err(
        "lockstep train: note: cpu resumes on cpu, the device that --device auto selected\n");
    expect(0, TRAIN "--device cpu --out plain");
    expect(0, "train --resume plain --stop-at 2");
    ck_assert(same_files("plain/run_log.txt", "cpu/run_log.txt"));

    expect(0, TRAIN "--device auto --out gpu");
    expect_out("device  cuda:0, emulated GPU");
    ck_assert_int_eq(count_said("auto"), 0);
    setenv(no_device, "0", 1);
    expect(1, "train --resume gpu --stop-at 2");
    expect_err(
        "lockstep train: note: gpu resumes on cuda, the device that --device auto selected\n");
    expect_err("lockstep train: device 'cuda': emulated error\n");
    unsetenv(no_device);
    expect(0, "train --resume gpu --stop-at 2");
    end_folder();
}
END_TEST

START_TEST(libraries_whose_kernels_fail)
{
    begin();
    setenv("LOCKSTEP_EMULATED_FAILING", "cudnn", 1);
    expect(0, TRAIN_LONG "--out failing");
    expect_err(" ops fail when they are run, and slow 'own direct' runs instead: conv2d 'conv1': ");
    ck_assert_int_eq(count_said("own direct"), 1);
    unsetenv("LOCKSTEP_EMULATED_FAILING");
    unlink("kernels.json");

    setenv("LOCKSTEP_CUDA_LIBRARIES", "none", 1); /* leaves one kernel for each op */
    expect(0, TRAIN_LONG "--out own");
    expect_err("lockstep train: warning: --algorithm-cache kernels.json is not written: no kernel "
               "was timed\n");
    ck_assert(!exists("kernels.json"));
    unsetenv("LOCKSTEP_CUDA_LIBRARIES");

    expect(0, TRAIN_LONG "--out good");
    ck_assert(exists("kernels.json"));
    ck_assert_int_eq(count_said("kernels.json"), 0);
    end_folder();
}
END_TEST

TEST_PROGRAM(cuda_command)
{
    if (getenv("LOCKSTEP_TEST_LIBRARIES"))
        return RUN_SUITE("cuda command, libraries", libraries_whose_kernels_fail);
    return RUN_SUITE("cuda command", runs_stay_on_the_device_that_auto_took);
}
