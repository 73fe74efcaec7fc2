/* test_sync_batch_norm.c: synchronised batch norms: a step with shards changes the net as one
 * without shards does, but for rounding; on several numbers of threads to the bit. */
#include "sharded_net.h"
#include <math.h>
#include <stdio.h>

enum { N_SYNCED = N_SETTINGS - FIRST_SYNCED };
static const int shard_counts[] = { 2, 3, 4, 8 };
enum { N_COUNTS = sizeof shard_counts / sizeof shard_counts[0] };

/* Of all values that a step changes, relative to the largest: sums in another order. In f16 the
 * gradients are rounded at other places, and later steps amplify that. */
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

int main(void)
{
    return run_loop("synchronised batch norms", a_step_is_that_of_the_whole_batch,
                    N_SYNCED * N_COUNTS);
}
