/* Our own exp, activation functions and log against the C library's in double, and ls__fma against
 * its fmaf. */
#include "../suite.h"
#include "arith/activation.h"
#include "base/hash.h"
#include "cpu/cpu.h"
#include "cpu/simd/vector.h"
#include "cpu/simd/math.h"
#include <float.h>
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

START_TEST(exp_of_any_float)
{
    double worst = 0;
    for (int i = 0; i <= 4000000; i++) {
        const float x = -87.3f + (float)i * (176.02f / 4000000);
        const float got = ls__float_exp(x);
        if (got < FLT_MAX) worst = fmax(worst, ulps(got, exp((double)x)));
        ck_assert(got < FLT_MAX || x > 88.722f);
    }
    ck_assert_double_le(worst, 4);
    ck_assert(ls__float_exp(0) == 1 && ls__float_exp(-88) == 0 && ls__float_exp(-INFINITY) == 0);
    ck_assert(isinf(ls__float_exp(88.8f)) && isinf(ls__float_exp(1e30f)));
    ck_assert(isinf(ls__float_exp(INFINITY)) && isnan(ls__float_exp(NAN)));
}
END_TEST

START_TEST(log_of_any_float)
{
    double worst = 0;
    for (float x = 1e-44f; x < 3e38f; x = fmaxf(x * 1.00001f, nextafterf(x, INFINITY)))
        worst = fmax(worst, ulps(ls__float_log(x), log((double)x)));
    for (int i = -100000; i <= 100000; i++) {
        const float x = 1 + (float)i * 1e-6f;
        if (x != 1) worst = fmax(worst, ulps(ls__float_log(x), log((double)x)));
    }
    ck_assert_double_le(worst, 2);
    ck_assert(ls__float_log(1) == 0 && ls__float_log(INFINITY) == INFINITY);
    ck_assert(ls__float_log(0) == -INFINITY && ls__float_log(-0.0f) == -INFINITY);
    ck_assert(isnan(ls__float_log(-1)) && isnan(ls__float_log(-INFINITY)));
    ck_assert(isnan(ls__float_log(NAN)));
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

/* Kinds of operands of ls__fma. */
enum {
    ANY_BITS,  /* NaN, infinite and subnormal numbers among them */
    HALFWAY,   /* the product lies halfway between two floats, and z is small */
    NEAR,      /* z is of the product's magnitude */
    CANCELS,   /* z is minus the rounded product, or a unit in the last place beside it */
    SUBNORMAL, /* the product is */
    N_FMA_KINDS
};

static float with_exponent(uint32_t bits, int exponent)
{
    return ls__bits_float((bits & 0x807fffff) | (uint32_t)(exponent + 127) << 23);
}

static float any_float(uint64_t bits)
{
    static const float special[] = { 0, 1, INFINITY, NAN, FLT_MAX, FLT_MIN, FLT_TRUE_MIN };
    const float value = ls__bits_float((uint32_t)bits);
    if (bits >> 63) return value;
    return copysignf(special[(bits >> 32) % (sizeof special / sizeof special[0])], value);
}

static void draw_operands(uint64_t seed, int kind, float *x, float *y, float *z)
{
    const uint64_t a = ls__mix64(seed), b = ls__mix64(~seed);
    const uint32_t x_bits = (uint32_t)a, y_bits = (uint32_t)(a >> 32), z_bits = (uint32_t)b;
    const int e = (int)(b >> 32 & 15); /* of exponents */
    *x = with_exponent(x_bits, e - 8);
    *y = with_exponent(y_bits, 8 - e);
    *z = with_exponent(z_bits, (int)(b >> 36 & 63) - 32);
    switch (kind) {
    case ANY_BITS:
        *x = any_float(a);
        *y = any_float(b);
        *z = any_float(ls__mix64(a ^ b));
        break;
    case HALFWAY:
        /* odd numbers of 12 and 13 bits: half of the products have 25 bits */
        *x = (float)(x_bits & 0x7ff) + (x_bits & 1 ? 0x800 : 0x801);
        *y = (float)(y_bits & 0xfff) + (y_bits & 1 ? 0x1000 : 0x1001);
        *z = with_exponent(z_bits, -16 - 3 * e);
        break;
    case CANCELS: *z = ls__bits_float(ls__float_bits(-(*x * *y)) + (uint32_t)(e % 3) - 1); break;
    case SUBNORMAL:
        *x = with_exponent(x_bits, e - 70);
        *y = with_exponent(y_bits, -70);
        *z = z_bits & 1 ? ls__bits_float(z_bits & 0x807fffff) : 0;
        break;
    default: break;
    }
}

START_TEST(fma_rounds_once)
{
    enum { VECTORS = 400000 };
    for (uint64_t i = 0; i < VECTORS; i++) {
        float x[LS__WIDTH], y[LS__WIDTH], z[LS__WIDTH], got[LS__WIDTH];
        for (int j = 0; j < LS__WIDTH; j++)
            draw_operands(i * LS__WIDTH + (uint64_t)j, (int)(i % N_FMA_KINDS), &x[j], &y[j], &z[j]);
        ls__store_f32(got, ls__fma(ls__load_f32(x), ls__load_f32(y), ls__load_f32(z)));
        for (int j = 0; j < LS__WIDTH; j++) {
            const float wanted = fmaf(x[j], y[j], z[j]);
            if (isnan(wanted) ? !isnan(got[j]) : ls__float_bits(wanted) != ls__float_bits(got[j]))
                ck_abort_msg("%a * %a + %a: got %a, wanted %a", (double)x[j], (double)y[j],
                             (double)z[j], (double)got[j], (double)wanted);
        }
    }
}
END_TEST

TEST_PROGRAM(simd_math)
{
    Suite *suite = suite_create("simd math");
    TCase *tcase = tcase_create("math");
    tcase_add_test(tcase, exp_within_two_ulp);
    tcase_add_test(tcase, exp_at_the_edges);
    tcase_add_test(tcase, exp_of_any_float);
    tcase_add_test(tcase, log_of_any_float);
    tcase_add_test(tcase, sigmoid_within_three_ulp);
    tcase_add_test(tcase, tanh_within_three_ulp);
    tcase_add_test(tcase, normal_distribution_within_one_in_a_million);
    tcase_add_test(tcase, log_is_exact_to_1e15);
    tcase_add_test(tcase, fma_rounds_once);
    suite_add_tcase(suite, tcase);
    return run_and_free(suite);
}
