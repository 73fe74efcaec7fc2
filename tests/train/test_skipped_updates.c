/* test_skipped_updates.c: reports that loss scaling skips every update. */
#include "train/trainer.h"

#include "../suite.h"

/* Checks after each of n further updates, of which all are skipped, or none. Returns the number of
 * reports. */
static int look(ls__skipped_updates *last, int64_t *updates, int64_t *skipped, int n, bool skips)
{
    int n_told = 0;
    for (int i = 0; i < n; i++)
        n_told += ls__skipped_updates_check(last, ++*updates, *skipped += skips);
    return n_told;
}

START_TEST(reported_once_per_sequence)
{
    int64_t updates = 1000, skipped = 30;
    ls__skipped_updates last = { updates, skipped, false };
    /* as a scale that is found does it */
    ck_assert_int_eq(look(&last, &updates, &skipped, 16, true), 0);
    ck_assert_int_eq(look(&last, &updates, &skipped, 100, false), 0);
    ck_assert_int_eq(look(&last, &updates, &skipped, LS__HOPELESS_UPDATES - 1, true), 0);
    ck_assert_int_eq(look(&last, &updates, &skipped, 1, true), 1);
    ck_assert_int_eq(look(&last, &updates, &skipped, 1000, true), 0);
    ck_assert_int_eq(look(&last, &updates, &skipped, 1, false), 0);
    ck_assert_int_eq(look(&last, &updates, &skipped, 1000, true), 1);
}
END_TEST

/* Checks at longer intervals give the same reports. */
START_TEST(rare_checks)
{
    ls__skipped_updates last = { 0, 0, false };
    ck_assert(!ls__skipped_updates_check(&last, 50, 49));
    ck_assert(!ls__skipped_updates_check(&last, 99, 98));
    ck_assert(ls__skipped_updates_check(&last, 100, 99));
    ck_assert(!ls__skipped_updates_check(&last, 150, 149));
}
END_TEST

TEST_PROGRAM(skipped_updates)
{
    return RUN_SUITE("skipped_updates", reported_once_per_sequence, rare_checks);
}
