/* test_sync_batch_norm.c: synchronised batch norms: a step with shards changes the net as one
 * without shards does, but for rounding; on several numbers of threads to the bit. */
#include "sharded_net.h"
#include <math.h>
#include <stdio.h>

enum { N_SYNCED = N_SETTINGS - FIRST_SYNCED };
static const int shard_counts[] = { 2, 3, 4, 8 };
enum { N_COUNTS = sizeof shard_counts / sizeof shard_counts[0] };

/* Tolerance of all values that a step changes, relative to the largest: sums have another order. In
 * f16 the gradients are rounded at other places, and later steps amplify that. */
static double tolerance_of(const setting *s, int step)
{
    return s->precision != LS_PRECISION_F16 ? 5e-6 : step == 0 ? 2e-3 : INFINITY;
}

static void expect_near(const step_values *got, const step_values *wanted, double tolerance,
                        const char *what)
{
    double largest = 0;
    ck_assert_int_eq(got->n, wanted->n);
    for (int64_t i = 0; i < wanted->n; i++) largest = fmax(largest, fabs((double)wanted->of[i]));
    for (int64_t i = 0; i < got->n; i++)
        if (!(fabs((double)got->of[i] - (double)wanted->of[i]) <= tolerance * largest))
            ck_abort_msg("%s: value %lld of %lld is %.9g, expected %.9g", what, (long long)i,
                         (long long)got->n, (double)got->of[i], (double)wanted->of[i]);
}

START_TEST(a_step_is_that_of_the_whole_batch)
{
    static step_values got, wanted, first;
    const setting *s = &settings[FIRST_SYNCED + _i / N_COUNTS];
    const int n = shard_counts[_i % N_COUNTS];
    for (int threads = 1; threads <= 3; threads++) {
        trained t = open_net(s, n, BATCH, threads), whole = open_net(s, 1, BATCH, 1);
        for (int step = 0; step < STEPS; step++) {
            char what[96];
            snprintf(what, sizeof what, "%s, %d shards, step %d", s->name, n, step);
            got.n = wanted.n = 0;
            step_with_shards(s, &t, step, &got);
            step_with_shards(s, &whole, step, &wanted);
            expect_near(&got, &wanted, tolerance_of(s, step), what);
        }
        if (threads == 1)
            first = got;
        else
            expect_same(&got, &first, "threads");
        ls_context_close(&t.ctx);
        ls_context_close(&whole.ctx);
    }
}
END_TEST

/* ---- Other steps ---- */

typedef void change_fn(trained *t, ls_batch *b);

/* Three steps; the change happens before the second one. */
static void train_changed(const setting *s, int shards, change_fn *change, step_values *out)
{
    trained t = open_net(s, shards, BATCH, 2);
    for (int step = 0; step < 3; step++) {
        ls_batch b = part_of(t.ctx, s, step, 0, BATCH);
        if (step == 1 && change) change(&t, &b);
        out->n = 0;
        step_over(&t, &b, out);
        close_batch(&b);
    }
    ls_context_close(&t.ctx);
}

static void ignore_all(trained *t, ls_batch *b)
{
    int32_t labels[BATCH];
    (void)t;
    for (int i = 0; i < BATCH; i++) labels[i] = -1;
    ck_assert_int_eq(ls_tensor_write((ls_tensor *)b->labels, labels, sizeof labels), LS_OK);
}

/* Gradients of a shard must not stay behind. */
static void freeze_some(trained *t, ls_batch *b)
{
    (void)b;
    ck_assert_int_eq(ls_net_freeze(t->net, "conv2.*"), LS_OK);
    ck_assert_int_eq(ls_net_freeze(t->net, "bn1.*"), LS_OK);
}

START_TEST(changes_are_those_of_the_whole_batch)
{
    static change_fn *const changes[] = { ignore_all, freeze_some };
    static step_values got, wanted;
    const setting *s = &settings[FIRST_SYNCED];
    train_changed(s, 4, changes[_i], &got);
    train_changed(s, 1, changes[_i], &wanted);
    expect_near(&got, &wanted, tolerance_of(s, 2), "changed");
}
END_TEST

START_TEST(recomputation_changes_nothing)
{
    static step_values got, wanted;
    setting s = settings[FIRST_SYNCED];
    train_changed(&s, 4, NULL, &wanted);
    s.recompute = LS_RECOMPUTE_CHEAP;
    train_changed(&s, 4, NULL, &got);
    expect_same(&got, &wanted, "recomputed");
}
END_TEST

TEST_PROGRAM(sync_batch_norm)
{
    const int whole = run_loop("synchronised batch norms", a_step_is_that_of_the_whole_batch,
                               N_SYNCED * N_COUNTS);
    const int changed = run_loop("synchronised: changes", changes_are_those_of_the_whole_batch, 2);
    return both(both(whole, changed), RUN_SUITE("synchronised", recomputation_changes_nothing));
}
