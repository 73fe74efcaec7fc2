/* test_matrix.c: one run has one result: for any number of data-loader workers and threads, and
 * however often it was killed and resumed on other numbers of them. What is wrong on purpose must
 * be seen. LOCKSTEP_MATRIX=corners runs the corners of the matrix only. */
#include "../data/loader_support.h"
#include "../suite.h"
#include "experiment.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int all_workers[] = { 0, 1, 2, 4, 8 }, all_threads[] = { 1, 2, 3, 4, 8 };
static const int corner_workers[] = { 0, 4 }, corner_threads[] = { 1, 3 };

typedef struct axes {
    int n_workers, n_threads;
    const int *workers, *threads;
} axes;

static axes matrix_axes(void)
{
    const char *which = getenv("LOCKSTEP_MATRIX");
    if (which && strcmp(which, "corners") == 0)
        return (axes){ 2, 2, corner_workers, corner_threads };
    return (axes){ 5, 5, all_workers, all_threads };
}

/* ---- Comparing. ---- */

enum { WHAT_SIZE = 96 };

/* Names the first step in which two histories differ and what differs there: "step 7: loss
 * weights"; false when all is the same. */
static bool first_difference(const history *a, const history *b, char text[WHAT_SIZE])
{
    for (int i = 0; i < STEPS; i++) {
        const struct step_result *x = &a->steps[i], *y = &b->steps[i];
        const ls_step_digest *p = &x->digest, *q = &y->digest;
        if (memcmp(x, y, sizeof(*x)) == 0) continue;
        snprintf(text, WHAT_SIZE, "step %d:%s%s%s%s", i,
                 ls_digest_equal(p->batch, q->batch) ? "" : " batch",
                 p->loss == q->loss && x->top1 == y->top1 ? "" : " loss",
                 ls_digest_equal(p->gradients, q->gradients) ? "" : " gradients",
                 ls_digest_equal(p->weights, q->weights) ? "" : " weights");
        return true;
    }
    const bool validation = memcmp(a->epochs, b->epochs, sizeof(a->epochs)) != 0;
    snprintf(text, WHAT_SIZE, "%s", validation ? "validation" : "the optimizer's state");
    return memcmp(a, b, sizeof(*a)) != 0;
}

static void describe_legs(int n, const leg *legs, char *out, size_t size)
{
    static const char *const moments[] = { "", " (batch in hand)", " (step done)", " (in a save)" };
    size_t at = 0;
    for (int i = 0; i < n && at < size; i++) {
        at += (size_t)snprintf(out + at, size - at, "%s%d workers, %d threads", i ? "; " : "",
                               legs[i].workers, legs[i].threads);
        if (legs[i].killed == NEVER || at >= size) continue;
        at += (size_t)snprintf(out + at, size - at, ", killed at step %d%s", (int)legs[i].kill_step,
                               moments[legs[i].killed]);
    }
}

static void expect_same(const outcome *first, const outcome *other, int n, const leg *legs)
{
    char what[WHAT_SIZE], how[512];
    describe_legs(n, legs, how, sizeof(how));
    ck_assert_msg(!first_difference(&first->history, &other->history, what), "%s: differs in %s",
                  how, what);
    ck_assert_msg(other->first_different < 0, "%s: step %d was repeated with other bits", how,
                  (int)other->first_different);
}

/* ---- Being killed. ---- */

/* Legs for one cell: it begins on the cell's workers and threads, is killed once to three times, at
 * steps and moments drawn by the cell's number, and goes on with the others in turn. */
static int killed_legs(const axes *a, int cell, leg legs[MAX_LEGS])
{
    uint32_t dice[4];
    int n_kills = 0;
    for (int64_t at = 0; n_kills < MAX_LEGS - 1; n_kills++) {
        ls_random_words(3,
                        &(ls_draw){ .stream = LS_RANDOM_USER,
                                    .layer = (uint32_t)n_kills,
                                    .sample = (uint64_t)cell },
                        dice);
        at += 1 + (int64_t)ls_random_below(dice[0], dice[1], 2 * STEPS / 3);
        if (at >= STEPS - SAVE_EVERY) break;
        legs[n_kills].killed = WITH_BATCH + (moment)(dice[2] % 3);
        legs[n_kills].kill_step = at;
    }
    for (int i = 0; i <= n_kills; i++) {
        legs[i].workers = a->workers[(cell / a->n_threads + i) % a->n_workers];
        legs[i].threads = a->threads[(cell + i) % a->n_threads];
    }
    legs[n_kills].killed = NEVER;
    return n_kills + 1;
}

/* ---- The matrix. ---- */

static void run_matrix(recipe which, const axes *a)
{
    char *images = make_images(true);
    outcome *first = new_outcome(), *other = new_outcome();
    const leg plain = { .workers = a->workers[0], .threads = a->threads[0] };
    run_experiment(which, NO_MISTAKE, images, 1, &plain, first);
    int64_t n_repeated = 0, n_killed = 0;
    for (int cell = 0; cell < a->n_workers * a->n_threads; cell++) {
        leg legs[MAX_LEGS] = { { .workers = a->workers[cell / a->n_threads],
                                 .threads = a->threads[cell % a->n_threads] } };
        run_experiment(which, NO_MISTAKE, images, 1, legs, other);
        expect_same(first, other, 1, legs);
        const int n = killed_legs(a, cell, legs);
        run_experiment(which, NO_MISTAKE, images, n, legs, other);
        expect_same(first, other, n, legs);
        n_repeated += other->n_repeated;
        n_killed += n - 1;
    }
    const ls_digest d = first->history.steps[STEPS - 1].digest.weights;
    char text[LS_DIGEST_TEXT_SIZE];
    printf("recipe %d: %d numbers of workers x %d of threads, %d kills, %d steps repeated: %s\n",
           which, a->n_workers, a->n_threads, (int)n_killed, (int)n_repeated,
           ls_digest_text(d, text));
    fflush(stdout);
    for (int i = 0; i < STEPS; i++) {
        ck_assert(isfinite(first->history.steps[i].digest.loss));
        for (int k = 0; k < i; k++)
            ck_assert_double_ne(first->history.steps[i].digest.loss,
                                first->history.steps[k].digest.loss);
    }
    ck_assert_int_gt(n_killed, a->n_workers * a->n_threads / 2);
    ck_assert_int_gt(n_repeated, n_killed);
    remove_folder(images);
}

START_TEST(one_result_for_workers_threads_and_restarts)
{
    const axes a = matrix_axes();
    run_matrix(RECIPE_SGD, &a);
}
END_TEST

START_TEST(another_recipe)
{
    static const int workers[] = { 0, 3 }, threads[] = { 1, 5 };
    run_matrix(RECIPE_ADAMW, &(axes){ 2, 2, workers, threads });
}
END_TEST

/* ---- What must be seen. ---- */

static const leg alone = { .workers = 0, .threads = 1 };

/* Whether the histories of the same mistake with two sets of legs differ. Where is told in `what`.
 */
static bool differ(mistake wrong, int n_first, const leg *first_legs, int n_other,
                   const leg *other_legs, char what[WHAT_SIZE])
{
    char *images = make_images(true);
    outcome *first = new_outcome(), *other = new_outcome();
    run_experiment(RECIPE_SGD, wrong, images, n_first, first_legs, first);
    run_experiment(RECIPE_SGD, wrong, images, n_other, other_legs, other);
    const bool found = first_difference(&first->history, &other->history, what);
    remove_folder(images);
    return found;
}

static void expect_difference(mistake wrong, int n_first, const leg *first_legs, int n_other,
                              const leg *other_legs, char what[WHAT_SIZE])
{
    ck_assert_msg(differ(wrong, n_first, first_legs, n_other, other_legs, what),
                  "mistake %d went unseen", wrong);
}

START_TEST(an_order_of_sums_that_follows_the_threads_is_seen)
{
    char what[WHAT_SIZE];
    const leg other = { .workers = 0, .threads = 3 };
    expect_difference(SUM_BY_THREADS, 1, &alone, 1, &other, what);
    ck_assert_str_eq(what, "step 0: gradients");
}
END_TEST

/* The first batch that another worker makes. A fixed number of workers repeats, also from the
 * middle of an epoch. */
START_TEST(seeding_by_worker_is_seen)
{
    char what[WHAT_SIZE];
    const leg two = { .workers = 2, .threads = 1 }, four = { .workers = 4, .threads = 1 };
    const leg restarted[] = { { .workers = 2, .threads = 3, .killed = AFTER_STEP, .kill_step = 25 },
                              { .workers = 2, .threads = 2 } };
    expect_difference(SEED_BY_WORKER, 1, &two, 1, &four, what);
    ck_assert_str_eq(what, "step 2: batch loss gradients weights");
    char *images = make_images(true);
    outcome *first = new_outcome(), *other = new_outcome();
    run_experiment(RECIPE_SGD, SEED_BY_WORKER, images, 1, &two, first);
    run_experiment(RECIPE_SGD, SEED_BY_WORKER, images, 2, restarted, other);
    expect_same(first, other, 2, restarted);
    remove_folder(images);
}
END_TEST

START_TEST(a_restart_that_loses_something_is_seen)
{
    const leg restarted[] = { { .threads = 1, .killed = AFTER_STEP, .kill_step = 25 },
                              { .threads = 1 } };
    char what[WHAT_SIZE];
    expect_difference(FORGET_OPTIMIZER, 1, &alone, 2, restarted, what);
    ck_assert_str_eq(what,
                     "step 24: weights"); /* the checkpoint's, and the first without momentum */
    expect_difference(REPEAT_EPOCH, 1, &alone, 2, restarted, what);
    ck_assert_str_eq(what, "step 20: loss gradients weights");
}
END_TEST

TEST_PROGRAM(matrix)
{
    return RUN_SUITE("matrix", one_result_for_workers_threads_and_restarts, another_recipe,
                     an_order_of_sums_that_follows_the_threads_is_seen, seeding_by_worker_is_seen,
                     a_restart_that_loses_something_is_seen);
}
