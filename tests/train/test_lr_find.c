/* test_lr_find.c: the learning rate range test: its steps, its ends, the suggestions on known
 * curves, and the same bits for any number of threads and workers. */
#include "../suite.h"
#include "train/lr_find.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 26, SIDE = 8, BATCH = 4, CLASSES = 3, STEPS = 12 };

typedef struct objects {
    ls_context *ctx;
    ls_loader *loader;
    ls_net *net;
    ls_optimizer *optimizer;
} objects;

static objects open_objects(int threads, int workers, int64_t accumulate)
{
    uint8_t images[N * SIDE * SIDE * 3];
    int32_t labels[N];
    for (int i = 0; i < N; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < SIDE * SIDE * 3; k++)
            images[i * SIDE * SIDE * 3 + k] = (uint8_t)(60 * labels[i] + (7 * i + k * k) % 90);
    }
    objects o = { .ctx = ls_context_open(&(ls_context_config){ .threads = threads, .seed = 1 }) };
    ls_dataset *data =
        ls_dataset_from_memory(o.ctx, images, LS_SHAPE(N, SIDE, SIDE, 3), labels, CLASSES);
    o.loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = BATCH,
                                                         .workers = workers,
                                                         .shuffle = true,
                                                         .drop_last = true,
                                                         .crop = SIDE,
                                                         .crop_padding = 2,
                                                         .flip_probability = 0.5f });
    const ls_model_options options = { .n_classes = CLASSES };
    o.net = ls_net_build(o.ctx, ls_model_find("mlp")->function, &options,
                         &(ls_net_config){ .input = ls_loader_input_spec(o.loader),
                                           .loss.kind = LS_LOSS_CROSS_ENTROPY });
    o.optimizer = ls_sgd(o.net, &(ls_sgd_config){ .momentum = 0.9f, .accumulate = accumulate });
    expect_ok(o.ctx);
    return o;
}

static const ls_lr_find_config usual = { .min_lr = 1e-5, .max_lr = 0.1, .steps = STEPS };

/* ---- The rule ---- */

static void expect_suggestion(const ls_lr_point *points, int64_t n, double steepest, double tenth)
{
    const ls_lr_suggestion s = ls_lr_suggest(points, n);
    ck_assert_double_eq(s.steepest, steepest);
    ck_assert_double_eq(s.tenth_of_min, tenth);
}

/* 101 learning rates from 1e-6 to 1e4, ten for each power of ten. */
enum { N_KNOWN = 101 };
static void fill_known(ls_lr_point points[N_KNOWN], double (*loss)(double exponent))
{
    for (int i = 0; i < N_KNOWN; i++) {
        const double exponent = -6 + i / 10.0;
        points[i] = (ls_lr_point){ pow(10, exponent), loss(exponent), loss(exponent) };
    }
}

/* Falls fastest at 1e-2, is lowest at about 1, and rises. */
static double usual_loss(double exponent)
{
    return 2.3 - 2 / (1 + exp(-4 * (exponent + 2))) + (exponent > 0 ? exponent : 0);
}

/* Convex: falls fastest where it begins. */
static double convex_loss(double exponent)
{
    return 1 + (exponent - 1) * (exponent - 1);
}

static double rising_loss(double exponent)
{
    return exponent;
}

START_TEST(suggestions_on_known_curves)
{
    ls_lr_point points[N_KNOWN];
    fill_known(points, usual_loss);
    expect_suggestion(points, N_KNOWN, points[40].lr, points[60].lr / 10);
    /* Steep noise in the first tenth does not count, nor any after the minimum. */
    points[3].smoothed_loss += 40;
    points[80].smoothed_loss += 40;
    expect_suggestion(points, N_KNOWN, points[40].lr, points[60].lr / 10);
    fill_known(points, convex_loss);
    expect_suggestion(points, N_KNOWN, points[10].lr, points[70].lr / 10);
    expect_suggestion(points, 50, points[5].lr, points[49].lr / 10); /* still falls at its end */
    fill_known(points, rising_loss);
    expect_suggestion(points, N_KNOWN, 0, 0);
    fill_known(points, usual_loss);
    for (int64_t n = 0; n < 3; n++) expect_suggestion(points, n, 0, 0);
    expect_suggestion(NULL, 10, 0, 0);
}
END_TEST

/* The loss falls at one point, which is the minimum, and the smoothed loss rises right after it. */
START_TEST(no_suggestion_without_a_falling_slope)
{
    ls_lr_point points[N_KNOWN];
    for (int i = 0; i < N_KNOWN; i++) {
        const double loss = i == 60 ? 1 : 5;
        points[i] = (ls_lr_point){ pow(10, -6 + i / 10.0), loss, i == 60 ? 4.9 : 5 - i / 1000.0 };
        if (i > 60) points[i].smoothed_loss = 5;
    }
    const ls_lr_suggestion s = ls_lr_suggest(points, N_KNOWN);
    ck_assert(s.steepest == 0 && s.tenth_of_min == 0 && s.fall < LS_LR_FIND_MIN_FALL);
}
END_TEST

/* Losses without a trend, and the same with a fall that is larger than their noise. */
START_TEST(no_suggestion_within_the_noise)
{
    ls_lr_point points[N_KNOWN];
    ls_lr_suggestion s;
    for (int with_fall = 0; with_fall <= 1; with_fall++) {
        ls_lr_curve c = { .points = points };
        uint32_t random = 1;
        for (int i = 0; i < N_KNOWN; i++) {
            random = random * 1664525 + 1013904223;
            const double noise = (double)(random >> 8) / (1 << 24);
            ls__lr_curve_add(&c, pow(10, -6 + i / 10.0), 5 + noise - (with_fall && i > 50), 0.9);
        }
        s = ls_lr_suggest(points, N_KNOWN);
        if (!with_fall) ck_assert(s.fall > 0 && s.fall < LS_LR_FIND_MIN_FALL);
        if (!with_fall) ck_assert(s.steepest == 0 && s.tenth_of_min == 0);
    }
    ck_assert_double_ge(s.fall, LS_LR_FIND_MIN_FALL);
    ck_assert(s.steepest >= points[50].lr && s.steepest <= points[60].lr);
}
END_TEST

START_TEST(losses_are_smoothed_without_bias)
{
    ls_lr_point points[8];
    ls_lr_curve c = { .points = points };
    ck_assert(!ls__lr_curve_add(&c, 1, 4, 0.5));
    ck_assert(!ls__lr_curve_add(&c, 2, 2, 0.5));
    ck_assert(!ls__lr_curve_add(&c, 3, 1, 0.5));
    const double expected[] = { 4, 2 / 0.75, 1.5 / 0.875 };
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(points[i].smoothed_loss, expected[i], 1e-15);
    ck_assert_int_eq(c.end, LS_LR_FIND_DONE);
    ck_assert(ls__lr_curve_add(&c, 4, INFINITY, 0.5));
    ck_assert_int_eq(c.end, LS_LR_FIND_NONFINITE);
    ck_assert_int_eq(c.n, 3);

    c = (ls_lr_curve){ .points = points };
    ck_assert(!ls__lr_curve_add(&c, 1, 1, 0));
    ck_assert(!ls__lr_curve_add(&c, 2, 4, 0)); /* 4 times, but not more */
    ck_assert(ls__lr_curve_add(&c, 3, 4.001, 0));
    ck_assert_int_eq(c.end, LS_LR_FIND_DIVERGED);
    ck_assert_int_eq(c.n, 3);
}
END_TEST

/* ---- The steps ---- */

/* The same by the calls of a training loop. 26 images give 6 batches in an epoch. */
static void expect_own_steps(const ls_lr_curve *curve, int64_t accumulate)
{
    objects o = open_objects(1, 0, accumulate);
    int64_t epoch = 0;
    ls_batch batch;
    ls_results r;
    ls_loader_start(o.loader, 0);
    for (int i = 0; i < STEPS; i++) {
        const ls_lr_point p = ls_lr_curve_point_at(curve, i);
        double sum = 0;
        int64_t n = 0;
        do {
            if (!ls_loader_next(o.loader, &batch)) {
                ls_loader_start(o.loader, ++epoch);
                ck_assert(ls_loader_next(o.loader, &batch));
            }
            ck_assert_int_eq(ls_net_step(o.net, o.optimizer, &batch, p.lr), LS_OK);
            ck_assert_int_eq(ls_net_last_results(o.net, &r), LS_OK);
            sum += r.loss;
            n++;
        } while (n < accumulate && !batch.is_last);
        ck_assert_double_eq_tol(p.lr, 1e-5 * pow(10, 4.0 * i / (STEPS - 1)), 1e-12);
        ck_assert_double_eq(p.loss, sum / (double)n);
    }
    ls_context_close(&o.ctx);
}

START_TEST(same_bits_for_any_number_of_threads_and_workers)
{
    static const int64_t accumulates[] = { 1, 4 };
    for (int a = 0; a < 2; a++)
        for (int threads = 1; threads <= 2; threads++)
            for (int workers = 0; workers <= 2; workers += 2) {
                objects o = open_objects(threads, workers, accumulates[a]);
                ls_lr_curve *curve = ls_lr_find(o.net, o.optimizer, o.loader, &usual);
                expect_ok(o.ctx);
                ck_assert_int_eq(ls_lr_curve_point_count(curve), STEPS);
                ck_assert_int_eq(ls_lr_curve_end(curve), LS_LR_FIND_DONE);
                expect_own_steps(curve, accumulates[a]);
                ls_context_close(&o.ctx);
            }
}
END_TEST

typedef struct heard {
    int n_begins, n_steps, n_ends, stop_after;
    volatile sig_atomic_t stop;
    ls_averages last;
} heard;

static ls_status hear(void *user, const ls_event *e)
{
    heard *h = user;
    h->n_begins += e->kind == LS_EVENT_PASS_BEGIN && e->step_count == 2 * STEPS;
    h->n_steps += e->kind == LS_EVENT_STEP;
    h->n_ends += e->kind == LS_EVENT_PASS_END;
    if (e->kind == LS_EVENT_STEP) h->last = e->averages;
    if (e->kind == LS_EVENT_STEP && h->n_steps == h->stop_after) h->stop = 1;
    return h->stop_after == -h->n_steps ? LS_ERR_IO : LS_OK;
}

START_TEST(events_and_stop)
{
    objects o = open_objects(1, 0, 2);
    heard h = { .stop_after = 9 };
    ls_lr_find_config config = usual;
    config.on_event = hear;
    config.user = &h;
    config.stop = &h.stop;
    ls_lr_curve *curve = ls_lr_find(o.net, o.optimizer, o.loader, &config);
    expect_ok(o.ctx);
    ck_assert_int_eq(ls_lr_curve_end(curve), LS_LR_FIND_INTERRUPTED);
    ck_assert_int_eq(ls_lr_curve_point_count(curve), 4); /* of two batches each */
    ck_assert(h.n_begins == 1 && h.n_steps == 9 && h.n_ends == 1);
    ck_assert(h.last.n_images == 9 * BATCH && h.last.loss > 0.5 && h.last.loss < 3);
    ls_lr_curve_close(&curve);
    h = (heard){ .stop_after = -3 };
    ck_assert_ptr_null(ls_lr_find(o.net, o.optimizer, o.loader, &config));
    expect_error(o.ctx, LS_ERR_IO, "the callback for events returned");
    ck_assert_int_eq(h.n_ends, 1);
    ls_context_close(&o.ctx);
}
END_TEST

/* A learning rate that is far too large ends the test, without an error. */
START_TEST(ends_of_a_test)
{
    objects o = open_objects(1, 0, 1);
    ls_lr_find_config config = { .min_lr = 1e-3, .max_lr = 1e4, .steps = 50 };
    ls_lr_curve *curve = ls_lr_find(o.net, o.optimizer, o.loader, &config);
    expect_ok(o.ctx);
    ck_assert_int_eq(ls_lr_curve_end(curve), LS_LR_FIND_DIVERGED);
    ck_assert_int_lt(ls_lr_curve_point_count(curve), 50);
    ls_context_close(&o.ctx);

    o = open_objects(1, 0, 1);
    config.min_lr = 1e28;
    config.max_lr = 1e30;
    curve = ls_lr_find(o.net, o.optimizer, o.loader, &config);
    expect_ok(o.ctx);
    ck_assert_int_eq(ls_lr_curve_end(curve), LS_LR_FIND_NONFINITE);
    ck_assert_int_eq(ls_lr_curve_point_count(curve), 1);
    ls_context_close(&o.ctx);
}
END_TEST

/* ---- Files and errors ---- */

START_TEST(files)
{
    char *dir = new_folder(), row[128];
    objects o = open_objects(1, 0, 1);
    ls_lr_curve *curve = ls_lr_find(o.net, o.optimizer, o.loader, &usual);
    for (int i = 0; i < STEPS; i++) /* so that there is a suggestion */
        curve->points[i].loss = curve->points[i].smoothed_loss = 3 - i * 0.1;
    for (int i = 0; i < 2; i++) /* replaces them */
        ck_assert_int_eq(ls_lr_curve_save(curve, path_in(dir, "a/b")), LS_OK);
    size_t n;
    char *csv = read_file(path_in(dir, "a/b/lr_find.csv"), &n);
    const ls_lr_point p = ls_lr_curve_point_at(curve, STEPS - 1);
    snprintf(row, sizeof(row), "\n%.17g,%.17g,%.17g\n", p.lr, p.loss, p.smoothed_loss);
    ck_assert_int_eq(strncmp(csv, "lr,loss,smoothed_loss\n1.0000000000000001e-05,", 45), 0);
    ck_assert_str_eq(csv + n - strlen(row), row);
    free(csv);
    char *svg = read_file(path_in(dir, "a/b/lr_find.svg"), &n);
    ck_assert(strstr(svg, ">steepest descent: ") && strstr(svg, ">minimum / 10: "));
    ck_assert(strstr(svg, ">0.001</text>") && strstr(svg, ">learning rate</text>"));
    free(svg);
    write_text(path_in(dir, "config.json"), "{}");
    expect_failure(ls_lr_curve_save(curve, dir), o.ctx, LS_ERR_INVALID, "holds a run already");
    expect_failure(ls_lr_curve_save(curve, NULL), o.ctx, LS_ERR_INVALID, "no folder given");
    ck_assert_int_eq(ls_lr_curve_save(NULL, dir), LS_ERR_EARLIER);
    ls_context_close(&o.ctx);
    remove_folder(dir);
}
END_TEST

START_TEST(misuse)
{
    static const struct {
        ls_lr_find_config config;
        const char *said;
    } cases[] = {
        { { .min_lr = 1, .max_lr = 1 }, "min_lr is 1 and max_lr 1" },
        { { .min_lr = -1 }, "min_lr is -1" },
        { { .max_lr = INFINITY }, "max_lr inf" },
        { { .steps = 9 }, "steps is 9, expected 10" },
        { { .steps = -1 }, "steps is -1" },
        { { .smoothing = 1 }, "smoothing is 1" },
        { { .smoothing = NAN }, "smoothing is nan" },
    };
    objects o = open_objects(1, 0, 1), other = open_objects(1, 0, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_ptr_null(ls_lr_find(o.net, o.optimizer, o.loader, &cases[i].config));
        expect_error(o.ctx, LS_ERR_INVALID, "ls_lr_find", cases[i].said);
    }
    ck_assert_ptr_null(ls_lr_find(o.net, o.optimizer, other.loader, NULL));
    expect_error(o.ctx, LS_ERR_MISMATCH, "different contexts");
    ck_assert_ptr_null(ls_lr_find(NULL, o.optimizer, o.loader, NULL));
    ls_lr_curve_close(NULL);
    ck_assert_int_eq(ls_lr_curve_point_count(NULL), 0);
    ck_assert_double_eq(ls_lr_curve_point_at(NULL, 0).lr, 0);
    ls_context_close(&o.ctx);
    ls_context_close(&other.ctx);
}
END_TEST

TEST_PROGRAM(lr_find)
{
    return RUN_SUITE("lr_find", suggestions_on_known_curves, no_suggestion_without_a_falling_slope,
                     no_suggestion_within_the_noise, losses_are_smoothed_without_bias,
                     same_bits_for_any_number_of_threads_and_workers, events_and_stop,
                     ends_of_a_test, files, misuse);
}
