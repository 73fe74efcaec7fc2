/* test_tensorboard.c: the event files of runs, of which a stopped, a resumed and a killed one. */
#include "command.h"
#include "run_files.h"
#include "three_epochs.h"

#include "../io/event_reader.h"
#include "../suite.h"
#include "io/event_file.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 4096 };

/* What TensorBoard shows: a session drops the events of its first step and of later steps. */
typedef struct shown {
    int n, n_sessions;
    double last_time; /* of all events in the order of files */
    event_value list[MAX_VALUES];
} shown;

static void add_value(void *user, const event_value *value)
{
    shown *s = user;
    ck_assert(value->wall_time >= s->last_time);
    s->last_time = value->wall_time;
    if (value->session_start) {
        int n = 0;
        for (int i = 0; i < s->n; i++)
            if (s->list[i].step < value->step) s->list[n++] = s->list[i];
        s->n = n;
        s->n_sessions++;
    } else if (*value->tag) {
        ck_assert_int_lt(s->n, MAX_VALUES);
        s->list[s->n++] = *value;
    }
}

static shown *read_shown(const char *run)
{
    static shown s;
    s = (shown){ 0 };
    ck_assert_int_gt(read_event_folder(run, add_value, &s), 0);
    return &s;
}

static const event_value *next_of(const shown *s, const char *tag, const event_value *after)
{
    for (const event_value *v = after ? after + 1 : s->list; v < s->list + s->n; v++)
        if (strcmp(v->tag, tag) == 0) return v;
    return NULL;
}

/* The steps of a tag: "5 10 15". */
static void expect_steps(const shown *s, const char *tag, const char *steps)
{
    char got[512] = "";
    for (const event_value *v = NULL; (v = next_of(s, tag, v));)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%lld", *got ? " " : "",
                 (long long)v->step);
    ck_assert_msg(strcmp(got, steps) == 0, "%s: steps %s, expected %s", tag, got, steps);
}

static void expect_rows(const shown *s, const char *run, int n_rows)
{
    static const char *const keys[] = { "train_loss", "train_top1", "val_loss",
                                        "val_top1",   "lr",         "images_per_second" };
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        char tag[64];
        snprintf(tag, sizeof(tag), "epoch/%s", keys[k]);
        const event_value *v = NULL;
        for (int i = 0; i < n_rows; i++) {
            char path[64];
            snprintf(path, sizeof(path), "%s/metrics.jsonl", run);
            json_t *row = read_row(path, i);
            v = next_of(s, tag, v);
            ck_assert_msg(v != NULL, "%s: no epoch %d", tag, i + 1);
            ck_assert_int_eq(v->step, 20 * (i + 1));
            ck_assert(v->scalar == (double)(float)number(row, keys[k]));
            json_decref(row);
        }
        ck_assert_ptr_null(next_of(s, tag, v));
    }
}

START_TEST(scalars)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --log-every 15");
    const shown *s = read_shown("run");
    ck_assert_int_eq(s->n_sessions, 1);
    expect_rows(s, "run", 3);
    static const char *const tags[] = { "step/loss", "step/top1", "step/top5", "step/lr" };
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
        expect_steps(s, tags[i], "15 30 45 60");
    ck_assert(next_of(s, "step/images_per_second", NULL)->scalar > 0);
    for (int i = 0; i < s->n; i++) ck_assert(s->list[i].has_scalar);
    expect(0, TRAIN "--out none --tensorboard none");
    ck_assert_int_ne(system("ls none/events* 2>/dev/null"), 0);
    ck_assert(same_files("run/run_log.txt", "none/run_log.txt"));
    expect(0, "compare run none");
    end_folder();
}
END_TEST

START_TEST(images_and_histograms)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --tensorboard all --epochs 2 --lr-warmup-epochs 0 "
                    "--freeze conv1.*,bn1.*");
    const shown *s = read_shown("run");
    for (int i = 0; i < 8; i++) {
        char tag[32];
        snprintf(tag, sizeof(tag), "first_batch/image/%d", i);
        const event_value *image = next_of(s, tag, NULL);
        ck_assert_ptr_nonnull(image);
        ck_assert(image->height == 8 && image->width == 8 && image->channels == 3);
        expect_steps(s, tag, "0");
    }
    ck_assert_ptr_null(next_of(s, "first_batch/image/8", NULL));
    expect_steps(s, "weights/fc.weight", "20 40");
    expect_steps(s, "gradients/fc.weight", "20 40");
    expect_steps(s, "weights/conv1.weight", "20 40");
    expect_steps(s, "gradients/conv1.weight", "");
    expect_steps(s, "weights/bn1.running_mean", "");
    const event_value *weights = next_of(s, "weights/fc.weight", NULL);
    ck_assert(weights->count == 640 && weights->min < 0 && weights->max > 0);
    const event_value *gradients = next_of(s, "gradients/fc.weight", NULL);
    ck_assert(gradients->count == 640 && gradients->squares > 0);
    end_folder();
}
END_TEST

/* The files of all processes together show the uninterrupted run. */
START_TEST(resumed_runs_continue)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --log-every 10 --stop-at 25");
    expect(0, "train --resume run --stop-at 40");
    expect(0, "train --resume run");
    const shown *s = read_shown("run");
    ck_assert_int_eq(s->n_sessions, 3);
    expect_rows(s, "run", 3);
    expect_steps(s, "step/loss", "10 20 30 40 50 60");
    expect(0, TRAIN "--out whole");
    expect(0, "compare run whole");
    end_folder();
}
END_TEST

/* As after a clock was set back: the first file has a name and times of the future. */
START_TEST(clocks_that_were_set_back)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --log-every 10 --stop-at 25");
    ck_assert_int_eq(system("mv run/events.out.tfevents.* run/events.out.tfevents.4000000000.0"),
                     0);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls__event_file *file;
    ck_assert_int_eq(
        ls__event_file_create(ctx, "run/events.out.tfevents.4000000001.0", 4e9 + 30, &file), LS_OK);
    ls__event_file_close(&file);
    ls_context_close(&ctx);
    expect(0, "train --resume run --stop-at 40");
    expect(0, "train --resume run");
    const shown *s = read_shown("run");
    expect_rows(s, "run", 3);
    expect_steps(s, "step/loss", "10 20 30 40 50 60");
    ck_assert(s->last_time >= 4e9 + 30 && s->last_time < 4e9 + 300);
    ck_assert(exists("run/events.out.tfevents.4000000003.0"));
    end_folder();
}
END_TEST

/* Killed at any time, a file ends with a whole record, and the resumed run replaces the events of
 * the steps that are trained again. */
START_TEST(killed_runs)
{
    begin_folder();
    draw_data();
    for (int i = 0; i < 5; i++) {
        const pid_t pid = start_command(0, TRAIN "--out run --log-every 1 --tensorboard all");
        while (count_steps("run") < 3 + 11 * i) sleep_ms(1);
        kill(pid, SIGKILL);
        wait_command(pid);
        expect(0, "train --resume run");
        const shown *s = read_shown("run");
        char steps[512] = "1";
        for (int k = 2; k <= 60; k++)
            snprintf(steps + strlen(steps), sizeof(steps) - strlen(steps), " %d", k);
        expect_steps(s, "step/loss", steps);
        expect_rows(s, "run", 3);
        ck_assert_int_eq(system("rm -rf run"), 0);
    }
    end_folder();
}
END_TEST

TEST_PROGRAM(tensorboard)
{
    return RUN_SUITE("tensorboard", scalars, images_and_histograms, resumed_runs_continue,
                     clocks_that_were_set_back, killed_runs);
}
