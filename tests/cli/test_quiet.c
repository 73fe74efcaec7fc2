/* test_quiet.c: --quiet, and the levels of messages by LOCKSTEP_LOG. */
#include "command.h"
#include "one_epoch.h"

#include "../suite.h"
#include <stdlib.h>
#include <string.h>

/* In all tests: images that are larger than the model's input, on which the command itself warns,
 * and a second dataset of one class, on which the library warns. */
static void begin(void)
{
    unsetenv("LOCKSTEP_LOG");
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    ck_assert_int_eq(system("mkdir -p one/train && cp -r data/train/$(ls data/train | head -1) "
                            "one/train/"),
                     0);
}

static const char library_warning[] =
    "lockstep pack: warning: image folder 'one/train': one class only";
static const char own_warning[] = "lockstep train: warning: most training images are much larger";

START_TEST(quiet_runs)
{
    begin();
    expect(0, TRAIN "--epochs 2 --lr-warmup-epochs 0 -q");
    ck_assert_str_eq(said_err, "");
    ck_assert_ptr_eq(strstr(said_out, "total time 0:0"), said_out);
    expect_out("  weights run/best.safetensors\n");
    ck_assert_ptr_eq(strchr(said_out, '\n') + 1, said_out + strlen(said_out));
    expect(0, "train --resume run --quiet --steps 3");
    ck_assert_str_eq(said_err, "");
    expect(2, "train --quiet --data-dir data --epochs 0");
    expect_err("lockstep train: --epochs: expected");
    expect(3, "train --quiet --data-dir none");
    expect_err("lockstep train: none: no such folder");
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --quiet");
    expect_out("top-1");
    ck_assert_str_eq(said_err, "");
    expect(0, "pack one one.pack --quiet");
    ck_assert_str_eq(said_err, "");
    write_text("quiet.conf", "quiet = true\n");
    expect(2, "train --config quiet.conf");
    expect_err("quiet.conf:1: unknown option 'quiet'");
    end_folder();
}
END_TEST

START_TEST(levels)
{
    begin();
    static const struct {
        const char *levels;
        bool own, library;
    } cases[] = { { "", true, true },
                  { "warn", true, true },
                  { "error", false, false },
                  { "data=error", true, false },
                  { "run=error", false, true },
                  { "error,data=warn", false, true },
                  { "data=warn,error", false, false },
                  { "info", true, true } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv("LOCKSTEP_LOG", cases[i].levels, 1);
        expect(0, TRAIN "--steps 1");
        ck_assert_msg(!strstr(said_err, own_warning) == !cases[i].own, "'%s': %s", cases[i].levels,
                      said_err);
        ck_assert_int_eq(system("rm -r run"), 0);
        expect(0, "pack one one.pack --overwrite");
        ck_assert_msg(!strstr(said_err, library_warning) == !cases[i].library, "'%s': %s",
                      cases[i].levels, said_err);
    }
    setenv("LOCKSTEP_LOG", "net=info", 1);
    expect(0, "describe --image-size 8 -b 1");
    expect_err("lockstep describe: net: conv2d 'conv1'");
    expect(0, "describe --image-size 8 -b 1 --quiet");
    ck_assert_str_eq(said_err, "");
    unsetenv("LOCKSTEP_LOG");
    end_folder();
}
END_TEST

START_TEST(unknown_levels)
{
    static const struct {
        const char *levels, *said;
    } cases[] = {
        { "wran", "LOCKSTEP_LOG: unknown level 'wran'; did you mean 'warn'?\n" },
        { "zzz", "LOCKSTEP_LOG: unknown level 'zzz'; expected error, warn or info\n" },
        { "warn,loader=info",
          "LOCKSTEP_LOG: unknown category 'loader'; expected context, data, net, "
          "run or command\n" },
        { "dat=info", "LOCKSTEP_LOG: unknown category 'dat'; did you mean 'data'?\n" },
        { "net=", "LOCKSTEP_LOG: unknown level ''; expected error, warn or info\n" },
    };
    begin_folder();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv("LOCKSTEP_LOG", cases[i].levels, 1);
        expect(2, "describe");
        expect_err(cases[i].said);
    }
    unsetenv("LOCKSTEP_LOG");
    end_folder();
}
END_TEST

TEST_PROGRAM(quiet)
{
    return RUN_SUITE("quiet", quiet_runs, levels, unknown_levels);
}
