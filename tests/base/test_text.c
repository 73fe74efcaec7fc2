/* Text: exact numbers read as printf's %a in the "C" locale does them. */
#include "../suite.h"
#include "base/text.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void check(double value)
{
    char got[64], wanted[64];
    ls__text text = { got, sizeof got, 0 };
    ls__text_put_exact(&text, value);
    snprintf(wanted, sizeof wanted, "%a", value);
    ck_assert_str_eq(got, wanted);
}

START_TEST(exact_numbers_are_those_of_printf)
{
    static const double values[] = { 0,           -0.0,    1,      -1,        0.1,
                                     0.1f,        1e-5f,   1e300,  0x1p-1022, 0x1p-1074,
                                     0x1.8p-1060, 0x1.fp9, 65504., INFINITY,  -INFINITY };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) check(values[i]);
    uint64_t bits = 88172645463325252u; /* xorshift */
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isnan(value)) check(value);
        check((double)(float)value);
    }
}
END_TEST

TEST_PROGRAM(text)
{
    return RUN_SUITE("text", exact_numbers_are_those_of_printf);
}
