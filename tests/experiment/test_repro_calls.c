/* test_repro_calls.c: experiments that a program makes by lockstep/repro.h: the verdict, what each
 * run has, and errors of settings, of images and of the processes that train. */
#include "../cli/command.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <string.h>

#define COMMON                                                                                     \
    "data-dir=data", "image-size=8", "batch-size=8", "no-val", "epochs=2", "threads=1", "model=mlp"

static void draw_data(void)
{
    begin_folder();
    expect(0, "demo-data data --train 16 --val 1");
}

static ls_repro *open_repro(const char *dir, const char *program, const char *const *settings)
{
    return ls_repro_open(dir, &(ls_repro_config){ .settings = settings, .program = program });
}

static void fails_with(ls_repro *repro, ls_status status, const char *text)
{
    ls_context *ctx = ls_repro_context(repro);
    ls_repro_verdict verdict;
    ck_assert_int_eq(ls_repro_train(repro, &verdict), status);
    ck_assert_int_eq(verdict, LS_REPRO_ERROR);
    ck_assert_int_eq(ls_context_status(ctx), status);
    ck_assert_msg(strstr(ls_context_message(ctx), text) != NULL, "%s", ls_context_message(ctx));
}

/* Counts the calls, and checks what the run has by then. */
static void count_run(void *user, const ls_repro *repro, int i, bool has_trained)
{
    int *calls = user;
    const ls_repro_run *run = ls_repro_run_at(repro, i);
    ck_assert_int_eq(*calls, 2 * i + has_trained);
    ck_assert((run->losses != NULL) == has_trained);
    ck_assert_int_eq(run->result, has_trained ? 0 : -1);
    ++*calls;
}

START_TEST(identical)
{
    static const char *const settings[] = { COMMON, "workers=0,1", "steps=3", "restart=1", NULL };
    int calls = 0;
    draw_data();
    ls_repro *repro = ls_repro_open("a/b", &(ls_repro_config){ .settings = settings,
                                                               .program = LOCKSTEP_PROGRAM,
                                                               .program_name = "it's",
                                                               .on_run = count_run,
                                                               .user = &calls });
    ck_assert_int_eq(ls_repro_run_count(repro), 4);
    ck_assert_int_eq(ls_repro_step_count(repro), 3);
    ls_repro_verdict verdict;
    const ls_status status = ls_repro_train(repro, &verdict);
    ck_assert_msg(status == LS_OK, "%s", ls_context_message(ls_repro_context(repro)));
    ck_assert_int_eq(verdict, LS_REPRO_IDENTICAL);
    ck_assert_int_eq(ls_repro_result_count(repro), 1);
    ck_assert_int_eq(calls, 8);
    const ls_repro_run *first = ls_repro_run_at(repro, 0), *last = ls_repro_run_at(repro, 3);
    ck_assert_str_eq(first->name, "w0-t1");
    ck_assert_str_eq(last->name, "w1-t1-r1");
    ck_assert_int_eq(last->leg_count, 2);
    ck_assert_int_eq(last->legs[1].workers, 0);
    ck_assert(last->stops[0] > 0 && last->stops[0] < 3);
    ck_assert_int_eq(memcmp(first->losses, last->losses, 3 * sizeof(double)), 0);
    ck_assert_int_eq(last->divergence.step, -1);
    ck_assert_ptr_null(ls_repro_run_at(repro, 4));
    ck_assert_str_eq(ls_repro_dir(repro), "a/b");
    ck_assert(exists("a/b/repro.csv") && exists("a/b/losses.csv") && exists("a/b/repro.svg"));
    size_t size;
    char *page = read_file("a/b/report.html", &size);
    ck_assert_ptr_nonnull(strstr(page, ">'it'\\''s' repro<")); /* quoted for a shell */
    free(page);
    ls_repro_close(&repro);
    ck_assert_ptr_null(repro);
    end_folder();
}
END_TEST

START_TEST(wrong_settings)
{
    static const struct {
        const char *const settings[10];
        ls_status status;
        const char *message;
    } cases[] = {
        { { "workers=0,1" }, LS_ERR_SETTING, "--data-dir DIR is required" },
        { { COMMON, "workers=1" }, LS_ERR_SETTING, "give only one run" },
        { { COMMON, "workers=1,1" }, LS_ERR_SETTING, "--workers: expected at most 32 different" },
        { { COMMON, "steps=3", "restart=3" }, LS_ERR_SETTING, "expected less than --steps 3" },
        { { COMMON, "ranks=1,2" }, LS_ERR_SETTING, "2 ranks require --shards 2 or more" },
        { { COMMON, "steps=99" }, LS_ERR_SETTING, "use --epochs 5 or fewer steps" },
        { { COMMON, "patience=3" }, LS_ERR_SETTING, "unknown setting 'patience'" },
        { { COMMON, "out=x" }, LS_ERR_SETTING, "--out is an option of the command" },
        { { "data-dir=nowhere" }, LS_ERR_DATA, "nowhere" },
    };
    draw_data();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_repro *repro = open_repro("a", LOCKSTEP_PROGRAM, cases[i].settings);
        fails_with(repro, cases[i].status, cases[i].message);
        ls_repro_close(&repro);
    }
    ck_assert(!exists("a"));
    static const char *const settings[] = { COMMON, "workers=0,1", NULL };
    ls_repro *repro = open_repro("data", LOCKSTEP_PROGRAM, settings);
    fails_with(repro, LS_ERR_SETTING, "data exists already; expected a new folder");
    ls_repro_close(&repro);
    ck_assert_int_ge(ls_setting_find(ls_repro_settings(), "restart", strlen("restart")), 0);
    ck_assert_int_lt(ls_setting_find(ls_repro_settings(), "patience", strlen("patience")), 0);
    ck_assert_int_eq(ls_repro_train(NULL, NULL), LS_ERR_MEMORY);
    end_folder();
}
END_TEST

START_TEST(failed_processes)
{
    static const char *const settings[] = { COMMON, "workers=0,1", "steps=3", NULL };
    draw_data();
    ls_repro *repro = open_repro(NULL, "/nonexistent/lockstep", settings);
    fails_with(repro, LS_ERR_NOT_FOUND, "/nonexistent/lockstep could not be started");
    ck_assert_int_eq(ls_repro_exit_status(repro), 0);
    ls_repro_close(&repro);

    ck_assert_int_eq(system("printf '#!/bin/sh\\necho out of luck; exit 3\\n' >fails && "
                            "printf '#!/bin/sh\\nkill -9 $$\\n' >ends && chmod +x fails ends"),
                     0);
    repro = open_repro(NULL, "./fails", settings);
    fails_with(repro, LS_ERR_DATA, "run w0-t1 failed with status 3; repro-2/w0-t1.log ends with:");
    ck_assert_int_eq(ls_repro_exit_status(repro), 3);
    ck_assert_str_eq(ls_repro_output_end(repro), "out of luck\n");
    ls_repro_close(&repro);
    repro = open_repro(NULL, "./ends", settings);
    fails_with(repro, LS_ERR_IO, "run w0-t1 was ended by signal 9");
    ck_assert_int_eq(ls_repro_exit_status(repro), -9);
    ls_repro_close(&repro);
    end_folder();
}
END_TEST

/* Set when the first run has trained, so that the second one is not begun. */
static volatile sig_atomic_t stop;

static void stop_after_first(void *user, const ls_repro *repro, int i, bool has_trained)
{
    (void)user;
    (void)repro;
    if (i == 0 && has_trained) stop = 1;
}

START_TEST(stopped)
{
    static const char *const settings[] = { COMMON, "workers=0,1", "steps=3", NULL };
    draw_data();
    ls_repro *repro = ls_repro_open(NULL, &(ls_repro_config){ .settings = settings,
                                                              .program = LOCKSTEP_PROGRAM,
                                                              .stop = &stop,
                                                              .on_run = stop_after_first });
    ls_repro_verdict verdict;
    ck_assert_int_eq(ls_repro_train(repro, &verdict), LS_OK);
    ck_assert_int_eq(verdict, LS_REPRO_STOPPED);
    ck_assert(exists("repro/w0-t1/last.safetensors") && !exists("repro/w1-t1"));
    ck_assert_int_eq(ls_repro_train(repro, NULL), LS_ERR_INVALID); /* once */
    ls_repro_close(&repro);
    end_folder();
}
END_TEST

TEST_PROGRAM(repro_calls)
{
    return RUN_SUITE("repro_calls", identical, wrong_settings, failed_processes, stopped);
}
