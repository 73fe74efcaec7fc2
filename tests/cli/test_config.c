/* test_config.c: config.json of a run that is resumed: values that no option has, options that no
 * version has, and the device of a run that left its choice to the library. */
#include "command.h"

#include "../suite.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAIN "train --data-dir data --image-size 8 -b 8 --epochs 1 --threads 1 -j 1 "
#define PATH  "run/config.json"

/* Sets a member of the config, and with `option` one of its options, to a JSON text. */
static void set(const char *member, bool option, const char *text)
{
    json_t *config = json_load_file("begun.json", 0, NULL);
    ck_assert_ptr_nonnull(config);
    json_t *object = option ? json_object_get(config, "options") : config;
    json_object_set_new(object, member, json_loads(text, JSON_DECODE_ANY, NULL));
    ck_assert_int_eq(json_dump_file(config, PATH, 0), 0);
    json_decref(config);
}

static void begin(const char *device)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN "--stop-at 1 --out run %s", device);
    ck_assert_int_eq(system("cp " PATH " begun.json"), 0);
}

START_TEST(unusable_values_are_named_with_usable_ones)
{
    static const struct {
        const char *option, *value, *said;
    } cases[] = {
        { "epochs", "\"many\"",
          "option 'epochs': expected an integer from 1 to 100000, got \"many\"" },
        { "epochs", "0", "option 'epochs': expected an integer from 1 to 100000, got 0\n" },
        { "lr", "-0.5", "option 'lr': expected a number from 1e-12 to 1000, got -0.5\n" },
        { "opt", "\"lion\"",
          "option 'opt': expected one of sgd|adam|adamw|rmsprop, got \"lion\"\n" },
        { "exif", "1", "option 'exif': expected true or false, got 1\n" },
        { "device", "null", "option 'device': expected a NAME, got null\n" },
        { "model", "\"vgg\"", "option 'model': expected one of resnet20, resnet32, " },
        { "max-pixels", "1e9", "option 'max-pixels': expected an integer from 1 to 268435455" },
    };
    begin("");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char said[256];
        snprintf(said, sizeof(said), "lockstep train: " PATH ": %s", cases[i].said);
        set(cases[i].option, true, cases[i].value);
        expect(2, "train --resume run");
        expect_err(said);
    }
    end_folder();
}
END_TEST

START_TEST(unknown_options_are_errors)
{
    begin("");
    set("epoch", true, "3");
    expect(2, "train --resume run");
    expect_err("lockstep train: " PATH ": unknown option 'epoch'; did you mean 'epochs'?\n");
    set("warp-factor", true, "9");
    expect(2, "train --resume run");
    expect_err("lockstep train: " PATH ": unknown option 'warp-factor'\n");
    set("epochs", true, "1");
    expect(0, "train --resume run");
    end_folder();
}
END_TEST

/* --device auto selects a device when the run begins; a resumed run keeps it. */
START_TEST(runs_stay_on_the_device_that_auto_took)
{
    setenv("LOCKSTEP_MODULES", "/nowhere", 1); /* without GPUs, whatever there is */
    begin("--device auto");
    ck_assert_ptr_null(strstr(said_err, "auto"));
    static const char *const options[] = { "", "--device auto", "--device cpu" };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        expect(0, "train --resume run --stop-at %zu %s", i + 2, options[i]);
        expect_err(
            "lockstep train: note: run resumes on cpu, the device that --device auto selected\n");
    }
    set("device", false, "\"cuda:0, NVIDIA H200, sm_90\"");
    expect(1, "train --resume run");
    expect_err(
        "lockstep train: note: run resumes on cuda, the device that --device auto selected\n");
    expect_err("device 'cuda': its module can't be loaded: ");
    expect(2, "train --resume run --device cpu");
    expect_err("--device can't be changed on resume: the run has \"cuda\"");
    ck_assert_ptr_null(strstr(said_err, "resumes on"));
    end_folder();
}
END_TEST

/* With the same device the run resumes and fails to load the missing module; another device is an
 * error before that. */
START_TEST(cuda_is_the_first_cuda_device)
{
    static const struct {
        const char *stored, *given;
        bool same;
    } cases[] = {
        { "\"auto\"", "cuda", true },    { "\"auto\"", "cuda:0", true },
        { "\"auto\"", "cuda:1", false }, { "\"cuda\"", "cuda:0", true },
        { "\"cuda:0\"", "cuda", true },  { "\"cuda:1\"", "cuda", false },
    };
    setenv("LOCKSTEP_MODULES", "/nowhere", 1);
    begin("");
    set("device", false, "\"cuda:0, NVIDIA H200, sm_90\"");
    ck_assert_int_eq(system("cp " PATH " begun.json"), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set("device", true, cases[i].stored);
        expect(cases[i].same ? 1 : 2, "train --resume run --device %s", cases[i].given);
        expect_err(cases[i].same ? "device 'cuda': its module can't be loaded: "
                                 : "--device can't be changed on resume: the run has \"cuda");
    }
    end_folder();
}
END_TEST

/* Kernels that these libraries lack: the message says how to continue. */
START_TEST(checkpoints_of_other_libraries)
{
    begin("");
    ck_assert_int_eq(system("sed -i 's/own kernels [0-9]/own kernels x/g' run/last.safetensors"),
                     0);
    expect(1, "train --resume run");
    expect_err("holds the kernels of another machine or version: libraries is 'own kernels x");
    expect_err("lockstep train: --force ignores these kernels and selects new ones\n");
    end_folder();
}
END_TEST

TEST_PROGRAM(config)
{
    return RUN_SUITE("config", unusable_values_are_named_with_usable_ones,
                     unknown_options_are_errors, runs_stay_on_the_device_that_auto_took,
                     cuda_is_the_first_cuda_device, checkpoints_of_other_libraries);
}
