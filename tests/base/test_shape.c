/* Data types, shapes, and conversions of 16-bit floats. */
#include "arith/half.h"
#include <lockstep/tensor.h>

#include "../suite.h"
#include <math.h>
#include <string.h>

START_TEST(data_types)
{
    static const struct {
        ls_dtype dtype;
        const char *name;
        size_t bytes;
    } cases[] = { { LS_F32, "F32", 4 }, { LS_BF16, "BF16", 2 }, { LS_F16, "F16", 2 },
                  { LS_I64, "I64", 8 }, { LS_I32, "I32", 4 },   { LS_U8, "U8", 1 } };
    ck_assert_int_eq(sizeof(cases) / sizeof(cases[0]), LS_N_DTYPES);
    for (int i = 0; i < LS_N_DTYPES; i++) {
        ck_assert_str_eq(ls_dtype_name(cases[i].dtype), cases[i].name);
        ck_assert_uint_eq(ls_dtype_bytes(cases[i].dtype), cases[i].bytes);
    }
    ck_assert_str_eq(ls_dtype_name((ls_dtype)99), "no type");
    ck_assert_uint_eq(ls_dtype_bytes((ls_dtype)-1), 0);
}
END_TEST

START_TEST(counts)
{
    const int64_t large = INT64_C(1) << 32;
    ck_assert_int_eq(ls_shape_element_count(&(ls_shape){ 0 }), 1);
    ck_assert_int_eq(ls_shape_element_count(&LS_SHAPE(32, 28, 28, 1)), 25088);
    ck_assert_int_eq(ls_shape_element_count(&LS_SHAPE(32, 0, 28)), 0);
    ck_assert_int_eq(ls_shape_element_count(&LS_SHAPE(INT64_MAX)), INT64_MAX);
    ck_assert_int_eq(ls_shape_element_count(&LS_SHAPE(large, large)), -1);
    ck_assert_int_eq(ls_shape_element_count(&LS_SHAPE(large, 0, large)),
                     -1); /* also beside a zero */
    ck_assert_int_eq(ls_shape_element_count(&LS_SHAPE(2, -1)), -1);
    ck_assert_int_eq(ls_shape_element_count(&LS_SHAPE(0, -1)), -1);
    ck_assert_int_eq(ls_shape_element_count(&(ls_shape){ .n_dims = 7 }), -1);
    ck_assert_int_eq(ls_shape_element_count(&(ls_shape){ .n_dims = -1 }), -1);
    ck_assert_int_eq(ls_shape_element_count(NULL), -1);
}
END_TEST

START_TEST(equality)
{
    ck_assert(ls_shape_equal(&LS_SHAPE(2, 3), &LS_SHAPE(2, 3)));
    ck_assert(!ls_shape_equal(&LS_SHAPE(2, 3), &LS_SHAPE(3, 2)));
    ck_assert(!ls_shape_equal(&LS_SHAPE(2, 3), &LS_SHAPE(2, 3, 1)));
    ck_assert(ls_shape_equal(&(ls_shape){ 0 }, &(ls_shape){ 0 }));
    ck_assert(!ls_shape_equal(NULL, &(ls_shape){ 0 }));
    /* what lies beyond n_dims does not count */
    ck_assert(ls_shape_equal(&(ls_shape){ 1, { 5, 6 } }, &(ls_shape){ 1, { 5, 7 } }));
}
END_TEST

START_TEST(texts)
{
    char buffer[LS_SHAPE_TEXT_SIZE];
    ck_assert_str_eq(ls_shape_text(&LS_SHAPE(32, 28, 28, 1), buffer, sizeof(buffer)),
                     "[32,28,28,1]");
    ck_assert_str_eq(ls_shape_text(&(ls_shape){ 0 }, buffer, sizeof(buffer)), "[]");
    ls_shape longest = { .n_dims = 6 };
    for (int i = 0; i < 6; i++) longest.dims[i] = INT64_MIN;
    ls_shape_text(&longest, buffer, sizeof(buffer));
    ck_assert_uint_eq(strlen(buffer), 2 + 5 + 6 * 20); /* the buffer is large enough for all */

    char small[64];
    for (size_t size = 1; size <= 13; size++) {
        memset(small, 'x', sizeof(small));
        ls_shape_text(&LS_SHAPE(32, 28, 28, 1), small, size);
        ck_assert_uint_eq(strlen(small), size - 1);
        ck_assert_int_eq(strncmp(small, "[32,28,28,1]", size - 1), 0);
        ck_assert_int_eq(small[size], 'x');
    }
}
END_TEST

/* A 16-bit float type under test. */
typedef struct half_type {
    float (*to_f32)(uint16_t bits);
    uint16_t (*from_f32)(float value);
    uint16_t infinity;
} half_type;

static const half_type half_types[2] = { { ls__bf16_to_f32, ls__f32_to_bf16, 0x7f80 },
                                         { ls__f16_to_f32, ls__f32_to_f16, 0x7c00 } };

/* Rounding is monotone, so it is right everywhere when it is right at every value, at the middle of
 * every two neighbours and right beside it. */
START_TEST(halves_round_to_nearest_even)
{
    for (int t = 0; t < 2; t++) {
        const half_type *type = &half_types[t];
        for (uint16_t bits = 0; bits < type->infinity; bits++) {
            const float low = type->to_f32(bits);
            ck_assert_uint_eq(type->from_f32(low), bits);
            ck_assert_uint_eq(type->from_f32(-low), bits | 0x8000u);
            /* above the largest number lies what would be next, where infinity begins to be nearer
             */
            const float step = low - type->to_f32(bits ? bits - 1 : 0);
            const bool last = bits + 1 == type->infinity;
            const double high = last ? (double)low + (double)step : (double)type->to_f32(bits + 1);
            const float middle = (float)(((double)low + high) / 2.0);
            ck_assert_double_eq((double)middle, ((double)low + high) / 2.0);
            ck_assert_uint_eq(type->from_f32(middle), bits % 2 ? bits + 1 : bits);
            ck_assert_uint_eq(type->from_f32(-middle), (bits % 2 ? bits + 1u : bits) | 0x8000u);
            ck_assert_uint_eq(type->from_f32(nextafterf(middle, 0.0f)), bits);
            ck_assert_uint_eq(type->from_f32(nextafterf(middle, INFINITY)), bits + 1);
        }
        ck_assert_uint_eq(type->from_f32(INFINITY), type->infinity);
        ck_assert_uint_eq(type->from_f32(-INFINITY), type->infinity | 0x8000u);
        ck_assert(isinf(type->to_f32(type->infinity)));
    }
    ck_assert_float_eq(ls__f16_to_f32(0x3c00), 1.0f);
    ck_assert_float_eq(ls__f16_to_f32(0x0001), 0x1p-24f);
    ck_assert_float_eq(ls__f16_to_f32(0x7bff), 65504.0f);
    ck_assert_float_eq(ls__bf16_to_f32(0x3f80), 1.0f);
    ck_assert_uint_eq(ls__f32_to_f16(3.4e38f), 0x7c00);
}
END_TEST

START_TEST(next_halves)
{
    for (int t = 0; t < 2; t++) {
        const half_type *type = &half_types[t];
        const uint16_t infinity = type->infinity;
        for (uint32_t i = 0; i < 0x10000; i++) {
            const uint16_t bits = (uint16_t)i, next = ls__next_half(bits, infinity);
            const float value = type->to_f32(bits), larger = type->to_f32(next);
            if (isnan(value) || bits == infinity) {
                ck_assert_uint_eq(next, bits);
                continue;
            }
            ck_assert(larger > value);
            /* the way back is the same with the signs turned */
            if (larger != 0)
                ck_assert_float_eq(type->to_f32(ls__next_half(next ^ 0x8000u, infinity)), -value);
        }
    }
}
END_TEST

START_TEST(halves_keep_nan_and_sign)
{
    for (int t = 0; t < 2; t++) {
        const half_type *type = &half_types[t];
        for (uint32_t bits = 0x7f800001; bits < 0x80000000; bits += 0x1fff) {
            float value;
            memcpy(&value, &bits, sizeof(value));
            const uint16_t half = type->from_f32(value);
            ck_assert(isnan(type->to_f32(half)));
            ck_assert_uint_eq(type->from_f32(-value), half | 0x8000u);
        }
        for (unsigned half = type->infinity + 1u; half < 0x8000; half++) {
            ck_assert(isnan(type->to_f32((uint16_t)half)));
            ck_assert(signbit(type->to_f32((uint16_t)(half | 0x8000u))));
        }
        ck_assert(signbit(type->to_f32(0x8000)));
    }
}
END_TEST

TEST_PROGRAM(shape)
{
    return RUN_SUITE("shape", data_types, counts, equality, texts, halves_round_to_nearest_even,
                     next_halves, halves_keep_nan_and_sign);
}
