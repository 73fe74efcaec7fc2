/* Our own exp, activation functions and log against the C library's in double. */
#include "../suite.h"
#include "arith/activation.h"
#include "cpu/simd/math.h"
#include <math.h>
#include <stdlib.h>

/* Distance in units of the last place of the right result. */
static double ulps(float got, double wanted)
{
    const float near = (float)wanted;
    const double ulp = (double)nextafterf(near, INFINITY) - (double)near;
    return fabs((double)got - wanted) / ulp;
}

START_TEST(exp_within_two_ulp)
{
    double worst = 0;
    for (int i = 0; i <= 4000000; i++) {
        const float x = -87.3f + (float)i * (175.3f / 4000000);
        worst = fmax(worst, ulps(ls__exp(x), exp((double)x)));
    }
    for (float x = 1e-30f; x < 1; x *= 1.0001f) {
        worst = fmax(worst, ulps(ls__exp(x), exp((double)x)));
        worst = fmax(worst, ulps(ls__exp(-x), exp(-(double)x)));
    }
    ck_assert_double_le(worst, 2);
}
END_TEST

START_TEST(exp_at_the_edges)
{
    ck_assert(ls__exp(0) == 1);
    ck_assert(ls__exp(-87.4f) == 0);
    ck_assert(ls__exp(-1e30f) == 0);
    ck_assert(ls__exp(-INFINITY) == 0);
    ck_assert(isnan(ls__exp(NAN)));
}
END_TEST

/* The shared sigmoid: nothing overflows on the way, and it is symmetric but for rounding. */
START_TEST(sigmoid_within_three_ulp)
{
    double worst = 0;
    for (int i = 0; i <= 2000000; i++) {
        const float x = -87 + (float)i * (174.0f / 2000000);
        worst = fmax(worst, ulps(ls__sigmoid(x), 1 / (1 + exp(-(double)x))));
    }
    ck_assert_double_le(worst, 3);
    ck_assert(ls__sigmoid(0) == 0.5f);
    ck_assert(ls__sigmoid(-88) == 0 && ls__sigmoid(-1e30f) == 0 && ls__sigmoid(-INFINITY) == 0);
    ck_assert(ls__sigmoid(88) == 1 && ls__sigmoid(1e30f) == 1 && ls__sigmoid(INFINITY) == 1);
    ck_assert(isnan(ls__sigmoid(NAN)));
}
END_TEST

START_TEST(tanh_within_three_ulp)
{
    double worst = 0;
    for (int i = 0; i <= 2000000; i++) {
        const float x = -20 + (float)i * (40.0f / 2000000);
        worst = fmax(worst, ulps(ls__tanh(x), tanh((double)x)));
    }
    for (float x = 1e-30f; x < 1; x *= 1.0001f)
        worst = fmax(worst, ulps(ls__tanh(-x), tanh(-(double)x)));
    ck_assert_double_le(worst, 3);
    ck_assert(ls__tanh(0) == 0 && ls__tanh(-1e30f) == -1 && ls__tanh(INFINITY) == 1);
    ck_assert(isnan(ls__tanh(NAN)));
}
END_TEST

/* Absolute up to 0, relative in the lower tail. */
START_TEST(normal_distribution_within_one_in_a_million)
{
    double worst = 0, worst_in_tail = 0;
    for (int i = 0; i <= 2000000; i++) {
        const float x = -13 + (float)i * (26.0f / 2000000);
        float power;
        const double got = ls__normal_cdf(x, &power), wanted = erfc(-(double)x / sqrt(2)) / 2;
        worst = fmax(worst, fabs(got - wanted));
        worst_in_tail = fmax(worst_in_tail, x < 0 ? fabs(got / wanted - 1) : 0);
    }
    ck_assert_double_le(worst, 2.5e-7);
    ck_assert_double_le(worst_in_tail, 1e-5); /* x^2 / 2 is up to 84, and rounded */
    ck_assert(ls__gelu(0) == 0 && ls__gelu(-20) == 0 && ls__gelu(1e30f) == 1e30f);
    ck_assert(ls__gelu_gradient(1e30f, 1) == 1 && ls__gelu_gradient(-1e30f, 1) == 0);
    ck_assert(ls__silu_gradient(1e30f, 1) == 1 && ls__silu_gradient(-1e30f, 1) == 0);
    ck_assert(isnan(ls__gelu(NAN)) && isnan(ls__silu(NAN)) && isnan(ls__relu6(NAN)));
}
END_TEST

START_TEST(log_is_exact_to_1e15)
{
    double worst = 0;
    for (double x = 1e-300; x < 1e300; x *= 1.0007) {
        const double wanted = log(x);
        worst = fmax(worst, fabs(ls__log(x) - wanted) / fmax(1, fabs(wanted)));
    }
    for (int i = -1000; i <= 1000; i++) {
        const double x = 1 + i * 1e-4;
        worst = fmax(worst, fabs(ls__log(x) - log(x)));
    }
    ck_assert_double_le(worst, 1e-15);
    ck_assert(ls__log(1) == 0);
    ck_assert(isinf(ls__log(INFINITY)));
    ck_assert(isnan(ls__log(NAN)));
}
END_TEST

TEST_PROGRAM(simd_math)
{
    Suite *suite = suite_create("simd math");
    TCase *tcase = tcase_create("math");
    tcase_add_test(tcase, exp_within_two_ulp);
    tcase_add_test(tcase, exp_at_the_edges);
    tcase_add_test(tcase, sigmoid_within_three_ulp);
    tcase_add_test(tcase, tanh_within_three_ulp);
    tcase_add_test(tcase, normal_distribution_within_one_in_a_million);
    tcase_add_test(tcase, log_is_exact_to_1e15);
    suite_add_tcase(suite, tcase);
    return run_and_free(suite);
}
