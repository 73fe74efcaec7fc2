/* test_print.c: control characters are escaped, columns are counted, lines wrap between fields. */
#include "terminal/print.h"
#include <lockstep/text.h>

#include "../suite.h"
#include <stdlib.h>
#include <string.h>

/* What print_text prints for "[%s]\n". To be freed. */
static char *printed(const char *text)
{
    char *out = NULL;
    size_t size;
    FILE *file = open_memstream(&out, &size);
    print_text(file, "[%s]\n", text);
    fclose(file);
    return out;
}

typedef struct sample {
    const char *text, *escaped;
    int columns; /* of the escaped text */
} sample;

static const sample samples[] = {
    { "", "", 0 },
    { "cat", "cat", 3 },
    { "a\nb\r\tc", "a\\nb\\r\\tc", 9 },
    { "\033[31mred\007\b", "\\x1b[31mred\\x07\\x08", 19 },
    { "\177", "\\x7f", 4 },
    { "back\\slash 'quote'", "back\\slash 'quote'", 18 },
    { "\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9", 3 },               /* Latin */
    { "e\xcc\x81t", "e\xcc\x81t", 2 },                             /* a combining accent */
    { "\xe7\x8c\xab\xe3\x81\xa8", "\xe7\x8c\xab\xe3\x81\xa8", 4 }, /* Chinese, Japanese */
    { "\xf0\x9f\x90\xb1", "\xf0\x9f\x90\xb1", 2 },                 /* a cat's face */
    { "\xc2\x9b"
      "31m",
      "\\xc2\\x9b31m", 11 }, /* CSI of C1 in UTF-8 */
    { "\x9b"
      "31m",
      "\\x9b31m", 7 },                     /* and as a byte */
    { "\xc2\xa0", "\xc2\xa0", 1 },         /* the first after C1 */
    { "\xe9\xff\xa0", "\xe9\xff\xa0", 3 }, /* Latin-1: stays */
    { "\xe2\x80\xae"
      "gpj",
      "\\xe2\\x80\\xaegpj", 15 },                                      /* right-to-left override */
    { "\xe2\x80\xa7\xe2\x80\xaf", "\xe2\x80\xa7\xe2\x80\xaf", 2 },     /* neighbours of these */
    { "\xe2\x80\x8f\xe2\x80\x8d", "\\xe2\\x80\\x8f\xe2\x80\x8d", 12 }, /* a mark, a joiner */
    { "\xef\xbb\xbf", "\\xef\\xbb\\xbf", 12 },                         /* byte order mark */
    { "\xe2\x81\xa6\xe2\x81\xa9", "\\xe2\\x81\\xa6\\xe2\\x81\\xa9", 24 }, /* isolates */
    { "\xe2\x81\x9f\xe2\x81\xb0", "\xe2\x81\x9f\xe2\x81\xb0", 2 },
    { "\xe2\x80", "\xe2\\x80", 5 },          /* cut off */
    { "\xc0\x9b", "\xc0\\x9b", 5 },          /* too long a form */
    { "\xe0\x82\x9b", "\xe0\\x82\\x9b", 9 }, /* the same in three bytes */
    { "\xed\xa0\x80", "\xed\xa0\\x80", 6 },  /* a surrogate */
    { "\xf8\x90\x80\x80", "\xf8\\x90\\x80\\x80", 13 },
};

static bool is_utf8(const char *text)
{
    int32_t code = 0;
    while (*text && code >= 0) text += ls_utf8_next(text, &code);
    return code >= 0;
}

START_TEST(escapes)
{
    const sample *s = &samples[_i];
    char wanted[128];
    snprintf(wanted, sizeof(wanted), "[%s]\n", s->escaped);
    char *out = printed(s->text);
    ck_assert_str_eq(out, wanted);
    free(out);
    ck_assert_int_eq(text_columns(s->text), s->columns);
    char *word = ls_shell_word(s->text);
    ck_assert_int_eq(strncmp(word, "$'", 2) == 0, strcmp(s->text, s->escaped) != 0);
    free(word);
}
END_TEST

/* Only newlines of the format end lines, and long texts are whole. */
START_TEST(formats)
{
    char *out = NULL;
    size_t size;
    FILE *file = open_memstream(&out, &size);
    print_text(file, "\n\n%d: %s\n\n", 1, "\n");
    print_text(file, "%s", "\n");
    print_text(file, "\n");
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_str_eq(out, "\n\n1: \\n\n\n\\n\n");
    free(out);

    enum { LONG = 20000 };
    static char text[LONG + 1];
    memset(text, '\033', LONG);
    out = printed(text);
    ck_assert_uint_eq(strlen(out), 4 * LONG + 3);
    ck_assert_str_eq(out + 4 * LONG - 3, "\\x1b]\n");
    free(out);
}
END_TEST

START_TEST(fields_wrap)
{
    static const char *const fields[] = { "epoch 1/2", "\xe7\x8c\xab\xe7\x8c\xab", "a\nb",
                                          "longer than any line" };
    static const struct {
        int columns;
        const char *text;
    } cases[] = {
        { 0, "epoch 1/2  \xe7\x8c\xab\xe7\x8c\xab  a\\nb  longer than any line\n" },
        { 43, "epoch 1/2  \xe7\x8c\xab\xe7\x8c\xab  a\\nb  longer than any line\n" },
        { 42, "epoch 1/2  \xe7\x8c\xab\xe7\x8c\xab  a\\nb\n    longer than any line\n" },
        { 15, "epoch 1/2  \xe7\x8c\xab\xe7\x8c\xab\n    a\\nb\n    longer than any line\n" },
        { 14, "epoch 1/2\n    \xe7\x8c\xab\xe7\x8c\xab  a\\nb\n    longer than any line\n" },
        { 1, "epoch 1/2\n    \xe7\x8c\xab\xe7\x8c\xab\n    a\\nb\n    longer than any line\n" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *out = NULL;
        size_t size;
        FILE *file = open_memstream(&out, &size);
        field_line line = { .out = file, .columns = cases[i].columns };
        for (int k = 0; k < 4; k++) print_field(&line, "%s", fields[k]);
        end_fields(&line);
        fclose(file);
        ck_assert_msg(strcmp(out, cases[i].text) == 0, "%d columns: %s", cases[i].columns, out);
        free(out);
    }
}
END_TEST

START_TEST(utf8_is_recognised)
{
    static const struct {
        const char *text;
        bool good;
    } cases[] = { { .text = "", .good = true },
                  { .text = "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80", .good = true },
                  { .text = "caf\xe9", .good = false },
                  { .text = "\xc3", .good = false },
                  { .text = "a\xc0\x80z", .good = false },       /* longer form of 0 */
                  { .text = "a\xed\xa0\x80z", .good = false } }; /* surrogate */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_msg(is_utf8(cases[i].text) == cases[i].good, "case %zu", i);
}
END_TEST

TEST_PROGRAM(print)
{
    Suite *suite = suite_create("print");
    TCase *one = tcase_create("print");
    tcase_add_loop_test(one, escapes, 0, (int)(sizeof(samples) / sizeof(samples[0])));
    tcase_add_test(one, formats);
    tcase_add_test(one, fields_wrap);
    tcase_add_test(one, utf8_is_recognised);
    suite_add_tcase(suite, one);
    return run_and_free(suite);
}
