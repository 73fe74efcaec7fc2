/* test_emulated_graphs.c: the emulated device's captures of several streams, through the driver's
 * table: which orders a graph runs in, and what CUDA refuses. */
#include "../suite.h"
#include "cuda/device/driver.h"
#include "emulator/driver.h"
#include "emulator/streams.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPTURE_INVALIDATED = 901, CAPTURE_UNJOINED = 904, CAPTURED_EVENT = 907 };

extern emulate_beside_fn emulate_beside;
static const ls__cuda_driver *const driver = &ls__cuda_driver_table;

/* Work that writes a letter. */
static char done[64];
static int n_done;

static void run_letter(void *arg)
{
    done[n_done++] = *(const char *)arg;
    done[n_done] = '\0';
}

static void queue(ls__cuda_stream stream, char letter)
{
    char *arg = emulated_queue(stream, run_letter, 1);
    ck_assert_ptr_nonnull(arg);
    *arg = letter;
    emulated_streams_advance();
}

typedef struct streams {
    ls__cuda_stream main, side;
    ls__cuda_event fork, join;
} streams;

static streams open_streams(const char *order)
{
    streams s;
    setenv("LOCKSTEP_EMULATED_STREAMS", order, 1);
    ck_assert_int_eq(driver->stream_open(&s.main), 0);
    ck_assert_int_eq(driver->stream_open(&s.side), 0);
    ck_assert_int_eq(driver->event_open(&s.fork), 0);
    ck_assert_int_eq(driver->event_open(&s.join), 0);
    n_done = 0;
    done[0] = '\0';
    return s;
}

static void close_streams(const streams *s)
{
    ck_assert_int_eq(driver->stream_close(s->main), 0);
    ck_assert_int_eq(driver->stream_close(s->side), 0);
    ck_assert_int_eq(driver->event_close(s->fork), 0);
    ck_assert_int_eq(driver->event_close(s->join), 0);
}

/* a, then b and c beside x and y, then d. */
static void queue_both(const streams *s)
{
    queue(s->main, 'a');
    ck_assert_int_eq(driver->event_record(s->fork, s->main), 0);
    ck_assert_int_eq(driver->stream_wait_event(s->side, s->fork), 0);
    queue(s->side, 'x');
    queue(s->main, 'b');
    queue(s->side, 'y');
    queue(s->main, 'c');
    ck_assert_int_eq(driver->event_record(s->join, s->side), 0);
    ck_assert_int_eq(driver->stream_wait_event(s->main, s->join), 0);
    queue(s->main, 'd');
}

static ls__cuda_replay capture(const streams *s)
{
    ls__cuda_graph graph;
    ls__cuda_replay replay;
    ck_assert_int_eq(driver->capture_begin(s->main), 0);
    queue_both(s);
    ck_assert_str_eq(done, "");
    ck_assert_int_eq(driver->capture_end(s->main, &graph), 0);
    ck_assert_int_eq(emulate_beside(), 2);
    ck_assert_int_eq(driver->replay_open(graph, &replay), 0);
    ck_assert_int_eq(driver->graph_close(graph), 0);
    return replay;
}

static const char *launch(const streams *s, ls__cuda_replay replay)
{
    n_done = 0;
    ck_assert_int_eq(driver->replay_launch(replay, s->main), 0);
    ck_assert_int_eq(driver->stream_wait(s->main), 0);
    return done;
}

START_TEST(late_and_at_once)
{
    for (int now = 0; now < 2; now++) {
        const streams s = open_streams(now ? "now" : "late");
        const ls__cuda_replay replay = capture(&s);
        for (int i = 0; i < 2; i++) ck_assert_str_eq(launch(&s, replay), now ? "axybcd" : "abcxyd");
        ck_assert_int_eq(driver->replay_close(replay), 0);
        close_streams(&s);
    }
}
END_TEST

/* Outside of a capture it is so, too. */
START_TEST(late_without_a_capture)
{
    const streams s = open_streams("late");
    queue_both(&s);
    ck_assert_str_eq(done, "");
    ck_assert_int_eq(driver->stream_wait(s.main), 0);
    ck_assert_str_eq(done, "abcxyd");
    close_streams(&s);
}
END_TEST

static bool is_before(const char *order, char first, char second)
{
    return strchr(order, first) < strchr(order, second);
}

/* By chance, every order that the events leave open comes up, and no other. */
START_TEST(orders_by_chance)
{
    bool between = false, early = false, late = false;
    for (int seed = 1; seed <= 20; seed++) {
        char text[12];
        snprintf(text, sizeof(text), "%d", seed);
        const streams s = open_streams(text);
        const ls__cuda_replay replay = capture(&s);
        for (int i = 0; i < 5; i++) {
            const char *order = launch(&s, replay);
            ck_assert_int_eq(strlen(order), 6);
            ck_assert(order[0] == 'a' && order[5] == 'd');
            ck_assert(is_before(order, 'b', 'c') && is_before(order, 'x', 'y'));
            early |= strcmp(order, "axybcd") == 0;
            late |= strcmp(order, "abcxyd") == 0;
            between |= is_before(order, 'b', 'y') && is_before(order, 'x', 'c');
        }
        ck_assert_int_eq(driver->replay_close(replay), 0);
        close_streams(&s);
    }
    ck_assert(early && late && between);
}
END_TEST

START_TEST(work_that_nobody_waits_for)
{
    const streams s = open_streams("late");
    ls__cuda_graph graph = NULL;
    ck_assert_int_eq(driver->capture_begin(s.main), 0);
    ck_assert_int_eq(driver->event_record(s.fork, s.main), 0);
    ck_assert_int_eq(driver->stream_wait_event(s.side, s.fork), 0);
    queue(s.side, 'x');
    ck_assert_int_eq(driver->event_record(s.join, s.side), 0);
    ck_assert_int_eq(driver->stream_wait_event(s.main, s.join), 0);
    queue(s.side, 'y');
    ck_assert_int_eq(driver->capture_end(s.main, &graph), CAPTURE_UNJOINED);
    ck_assert_ptr_null(graph);
    queue(s.side, 'z'); /* its capture is over as well */
    ck_assert_int_eq(driver->stream_wait(s.side), 0);
    ck_assert_str_eq(done, "z");
    close_streams(&s);
}
END_TEST

/* What an event stands for that was recorded in a capture is nothing outside of it. */
START_TEST(events_of_a_capture)
{
    const streams s = open_streams("late");
    const ls__cuda_replay replay = capture(&s);
    ls__cuda_graph graph;
    ck_assert_int_eq(driver->stream_wait_event(s.side, s.fork), CAPTURED_EVENT);
    ck_assert_int_eq(driver->event_wait(s.fork), CAPTURED_EVENT);
    ck_assert_int_eq(driver->capture_begin(s.main), 0);
    ck_assert_int_eq(driver->stream_wait_event(s.main, s.join), CAPTURED_EVENT);
    ck_assert_int_eq(driver->capture_end(s.main, &graph), CAPTURE_INVALIDATED);
    ck_assert_int_eq(driver->event_record(s.fork, s.main), 0);
    ck_assert_int_eq(driver->event_wait(s.fork), 0);
    /* Nor the other way round. */
    ck_assert_int_eq(driver->capture_begin(s.main), 0);
    ck_assert_int_ne(driver->stream_wait_event(s.main, s.fork), 0);
    ck_assert_int_eq(driver->capture_end(s.main, &graph), CAPTURE_INVALIDATED);
    ck_assert_int_eq(driver->replay_close(replay), 0);
    close_streams(&s);
}
END_TEST

/* By the device's clock b and c run while x and y do, unless one stream takes all of the device. */
START_TEST(clock_of_a_graph)
{
    const streams s = open_streams("late");
    const ls__cuda_replay replay = capture(&s);
    ls__cuda_event timer[2];
    for (int i = 0; i < 2; i++) ck_assert_int_eq(driver->timer_open(&timer[i]), 0);
    for (int full = 0; full < 2; full++) {
        float ms = 0;
        if (full) setenv("LOCKSTEP_EMULATED_FULL", "1", 1);
        ck_assert_int_eq(driver->event_record(timer[0], s.main), 0);
        (void)launch(&s, replay);
        ck_assert_int_eq(driver->event_record(timer[1], s.main), 0);
        ck_assert_int_eq(driver->event_wait(timer[1]), 0);
        ck_assert_int_eq(driver->elapsed(&ms, timer[0], timer[1]), 0);
        ck_assert_float_eq_tol(ms, full ? 0.6f : 0.4f, 1e-4f);
    }
    for (int i = 0; i < 2; i++) ck_assert_int_eq(driver->event_close(timer[i]), 0);
    ck_assert_int_eq(driver->replay_close(replay), 0);
    close_streams(&s);
}
END_TEST

TEST_PROGRAM(emulated_graphs)
{
    return RUN_SUITE("emulated graphs", late_and_at_once, late_without_a_capture, orders_by_chance,
                     work_that_nobody_waits_for, events_of_a_capture, clock_of_a_graph);
}
