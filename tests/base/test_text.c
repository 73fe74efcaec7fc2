/* test_text.c: exact numbers as printf's %a writes them in the "C" locale, and truncated texts. */
#include "../suite.h"
#include "base/text.h"
#include <lockstep/text.h>
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

/* Characters of 1, 2, 3 and 4 bytes, and where they end. */
static const char characters[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
static const size_t ends[] = { 0, 1, 3, 6, 10, 11 };

/* The largest end up to n. */
static size_t end_before(size_t n)
{
    size_t end = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i] <= n) end = ends[i];
    return end;
}

START_TEST(truncated_texts_end_with_a_whole_character)
{
    const size_t whole = sizeof characters - 1;
    for (size_t size = 1; size <= whole + 2; size++) {
        const size_t wanted = end_before(size - 1);
        char buffer[2][sizeof characters + 2];
        memset(buffer, 'x', sizeof buffer);
        ck_assert_int_eq(ls__snprintf(buffer[0], size, "%s", characters), whole);
        ls__text text = { buffer[1], size, 0 };
        for (size_t i = 0; i + 1 < sizeof ends / sizeof *ends; i++)
            ls__text_put(&text, "%.*s", (int)(ends[i + 1] - ends[i]), characters + ends[i]);
        ck_assert_uint_eq(text.length, whole);
        for (int i = 0; i < 2; i++) {
            ck_assert_uint_eq(strlen(buffer[i]), wanted);
            ck_assert_int_eq(memcmp(buffer[i], characters, wanted), 0);
            ck_assert_int_eq(buffer[i][size], 'x');
        }
        ck_assert_int_eq(ls__cut_length(characters, (int)size - 1), wanted);
    }
    ck_assert_int_eq(ls__snprintf(NULL, 0, "%s", characters), whole);
}
END_TEST

/* Nothing but the beginning of a sequence at the end is removed. */
START_TEST(other_bytes_may_be_cut_anywhere)
{
    static const struct {
        const char *text;
        int max, wanted;
    } cases[] = { { "\x80\x80\x80\x80\x80\x80", 5, 5 },
                  { "\xe9 \xe9 \xe9", 4, 4 },
                  { "\xe9 \xe9 \xe9", 3, 2 },
                  { "ab\xc3\xa9", 3, 2 },
                  { "ab\xc3\xa9", 4, 4 },
                  { "", 0, 0 },
                  { "\xc3\xa9", 1, 0 },
                  { "\xc3", 1, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_int_eq(ls__cut_length(cases[i].text, cases[i].max), cases[i].wanted);
}
END_TEST

START_TEST(characters_of_texts)
{
    static const int32_t codes[] = { 'a', 0xE9, 0x20AC, 0x1F600, 'z' };
    const char *at = characters;
    int32_t code;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        ck_assert_int_eq(ls_utf8_next(at, &code), ends[i + 1] - ends[i]);
        ck_assert_int_eq(code, codes[i]);
        at += ends[i + 1] - ends[i];
    }
    /* Not UTF-8: a byte that continues none, a longer form, a surrogate, an incomplete one. */
    static const char *const others[] = { "\x80", "\xc0\x80", "\xed\xa0\x80", "\xe2\x82", "\xff" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ck_assert_int_eq(ls_utf8_next(others[i], &code), 1);
        ck_assert_int_eq(code, -1);
    }
    ck_assert(ls_utf8_is_hidden('\n') && ls_utf8_is_hidden(0x202E) && !ls_utf8_is_hidden(0x200D));
    ck_assert(!ls_utf8_is_hidden('a') && !ls_utf8_is_hidden(-1));
    ck_assert_uint_eq(ls_utf8_whole_length(characters, 5), 3);
    ck_assert_uint_eq(ls_utf8_whole_length(characters, 6), 6);
}
END_TEST

START_TEST(plain_messages)
{
    ck_assert_str_eq(ls_plain_message("ls_net_build: layer 'a'"), "layer 'a'");
    ck_assert_str_eq(ls_plain_message("ls_net build: a"), "ls_net build: a");
    ck_assert_str_eq(ls_plain_message("net: a"), "net: a");
    ck_assert_str_eq(ls_plain_message(""), "");
}
END_TEST

TEST_PROGRAM(text)
{
    return RUN_SUITE("text", exact_numbers_are_those_of_printf,
                     truncated_texts_end_with_a_whole_character, other_bytes_may_be_cut_anywhere,
                     characters_of_texts, plain_messages);
}
