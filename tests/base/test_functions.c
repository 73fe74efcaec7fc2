/* Elementary functions of our own against the C library's, and that they call none of it. */
#include "../suite.h"
#include "arith/functions.h"
#include <math.h>

START_TEST(cosine_and_powers_are_right)
{
    enum { N = 20000 };
    for (int i = 0; i <= N; i++) {
        const double x = (double)i / N;
        ck_assert_double_le(fabs(ls__cos_pi(x) - (double)cosl(3.14159265358979323846264L * x)),
                            3e-16);
    }
    ck_assert_double_eq(ls__cos_pi(0), 1);
    ck_assert_double_eq(ls__cos_pi(0.5), 0);
    ck_assert_double_eq(ls__cos_pi(1), -1);
    for (int i = 1; i < 300; i++)
        for (double y = 0.1; y < 3; y += 0.3) {
            const double x = i / 300.0;
            ck_assert_double_le(fabs(ls__power_of(x, y) / pow(x, y) - 1), 1e-14);
        }
    ck_assert_double_eq(ls__power_of(0.7, 1), 0.7);
    ck_assert_double_eq(ls__power_of(0.75, 2), 0.5625);
    ck_assert_double_eq(ls__power_of(0.5, 1e30), 0);
}
END_TEST

/* Fixed numbers: these must be the same bits on every machine and with every C library. */
START_TEST(bits_are_fixed)
{
    ck_assert_double_eq(ls__cos_pi(0.1), 0x1.e6f0e134454ffp-1);
    ck_assert_double_eq(ls__cos_pi(0.4), 0x1.3c6ef372fe94ep-2);
    ck_assert_double_eq(ls__cos_pi(0.9), -0x1.e6f0e134455p-1);
    ck_assert_double_eq(ls__power_of(0.3, 0.9), 0x1.5a8131b97fd82p-2);
}
END_TEST

TEST_PROGRAM(functions)
{
    return RUN_SUITE("functions", cosine_and_powers_are_right, bits_are_fixed);
}
