/* test_options.c: the option parser: every kind of value, ranges, both spellings, JSON and back. */
#include "../../cli/options/options.h"
#include "run/setting.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct values {
    bool loud;
    int64_t count;
    double rate;
    const char *name;
    int colour;
    int64_t threads, late;
} values;

#define AT(member) offsetof(values, member)
static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_SWITCH, 'l', "loud", AT(loud), "a switch" },
    { LS_SETTING_INTEGER, 'n', "count", AT(count), "an integer", "N", -5, 100, .fallback = "7" },
    { LS_SETTING_NUMBER, 0, "rate", AT(rate), "a number", "X", 0, 10, .fallback = "0.5" },
    { LS_SETTING_TEXT, 0, "name", AT(name), "a text", "NAME", .note = "none" },
    { LS_SETTING_CHOICE, 0, "colour", AT(colour), "a choice", "red|green|blue",
      .fallback = "green" },
    { LS_SETTING_INTEGER, 'j', "threads", AT(threads), "a setting", "N", 0, 8, .execution = true },
    { LS_SETTING_INTEGER, 0, "late", AT(late), "of later versions", "N", 1, 9, .note = "none" },
    { .kind = LS_SETTING_END },
};
static const cli_command command = { "try", "tries.", "FILE...", "More.\n", options };

/* What goes to stderr lands in `said`. */
static char said[4096];
static int parse(values *v, cli_parsed *parsed, int argc, const char *const *argv)
{
    static char *list[16]; /* the arguments' words stay borrowed from it */
    for (int i = 0; i < argc; i++) list[i] = (char *)argv[i];
    FILE *file = tmpfile();
    fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    *v = (values){ 0 };
    const int result = options_parse(&command, argc, list, v, parsed);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    said[fread(said, 1, sizeof(said) - 1, file)] = '\0';
    fclose(file);
    return result;
}

#define PARSE(v, parsed, ...)                                                                      \
    parse(v, parsed, (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)),              \
          (const char *const[]){ __VA_ARGS__ })

START_TEST(defaults)
{
    values v;
    cli_parsed parsed;
    ck_assert_int_eq(PARSE(&v, &parsed, "a.png"), -1);
    ck_assert(!v.loud);
    ck_assert_int_eq(v.count, 7);
    ck_assert(v.rate == 0.5);
    ck_assert_ptr_null(v.name);
    ck_assert_int_eq(v.colour, 1);
    ck_assert_int_eq(parsed.n_arguments, 1);
    ck_assert(!ls_given_has(&parsed.set, "count"));
}
END_TEST

START_TEST(spellings)
{
    values v;
    cli_parsed parsed;
    ck_assert_int_eq(PARSE(&v, &parsed, "--count", "3", "x", "--rate=1e-1", "-j4", "--colour=blue",
                           "y", "--loud", "--name", "-z", "--", "--count", "-n"),
                     -1);
    ck_assert_int_eq(v.count, 3);
    ck_assert(v.rate == 0.1 && v.loud);
    ck_assert_int_eq(v.threads, 4);
    ck_assert_int_eq(v.colour, 2);
    ck_assert_str_eq(v.name, "-z");
    ck_assert(ls_given_has(&parsed.set, "count") && ls_given_has(&parsed.set, "threads"));
    static const char *const arguments[] = { "x", "y", "--count", "-n" };
    ck_assert_int_eq(parsed.n_arguments, 4);
    for (int i = 0; i < 4; i++) ck_assert_str_eq(parsed.arguments[i], arguments[i]);
    ck_assert_int_eq(PARSE(&v, &parsed, "-n=-5", "-l"), -1);
    ck_assert_int_eq(v.count, -5);
    ck_assert(v.loud);
    ck_assert_int_eq(PARSE(&v, &parsed, "-n", "1", "-n", "2"), -1);
    ck_assert_int_eq(v.count, 2);
    ck_assert_int_eq(PARSE(&v, &parsed, "--loud=true"), -1);
    ck_assert(v.loud);
    ck_assert_int_eq(PARSE(&v, &parsed, "-l", "--loud=false"), -1);
    ck_assert(!v.loud && ls_given_has(&parsed.set, "loud"));
}
END_TEST

START_TEST(mistakes)
{
    static const struct {
        const char *word, *value; /* value NULL: the word alone */
        const char *said;
    } cases[] = {
        { "--cuont", "3", "unknown option '--cuont'; did you mean '--count'?" },
        { "--cuont=3", NULL, "unknown option '--cuont'; did you mean '--count'?" },
        { "--hepl", NULL, "did you mean '--help'?" },
        { "--zzzzzzzz", NULL,
          "unknown option '--zzzzzzzz'; 'lockstep try --help-all' lists all options" },
        { "-x", NULL, "unknown option '-x'" },
        { "--count", NULL, "--count requires a value: --count N" },
        { "--count", "", "--count: expected an integer from -5 to 100, got ''" },
        { "--count", "3x", "got '3x'" },
        { "--count", "101", "expected an integer from -5 to 100, got '101'" },
        { "--count", "-6", "got '-6'" },
        { "--count", "99999999999999999999", "got '99999999999999999999'" },
        { "--count", "1.5", "got '1.5'" },
        { "--count", " 5", "got ' 5'" },
        { "--count", "\n5", "got '\\n5'" },
        { "--rate", "\t1", "got '\\t1'" },
        { "--rate= 1", NULL, "got ' 1'" },
        { "--rate", "-0.1", "--rate: expected a number from 0 to 10, got '-0.1'" },
        { "--rate", "nan", "got 'nan'" },
        { "--rate", "inf", "got 'inf'" },
        { "--rate=", NULL, "got ''" },
        { "--name=", NULL, "--name: expected a NAME, got ''" },
        { "--colour", "re", "--colour: expected one of red|green|blue, got 're'" },
        { "--colour", "red|green", "got 'red|green'" },
        { "--loud=yes", NULL, "--loud: expected true or false, got 'yes'" },
        { "--loud=", NULL, "--loud: expected true or false" },
        { "--config", NULL, "--config requires a value: --config FILE" },
        { "--confg=x", NULL, "did you mean '--config'?" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        values v;
        cli_parsed parsed;
        const char *argv[] = { cases[i].word, cases[i].value };
        ck_assert_int_eq(parse(&v, &parsed, cases[i].value ? 2 : 1, argv), LS_EXIT_USAGE);
        ck_assert_msg(strstr(said, cases[i].said), "%s: said: %s", cases[i].word, said);
    }
}
END_TEST

START_TEST(closest_words)
{
    static const char *const words[] = { "train", "eval", "lo" };
    static const struct {
        const char *word, *hint;
        int first;
    } cases[] = { { "trian", "; did you mean '-train'?", 0 },
                  { "evaluate", "; did you mean '-eval'?", 1 },
                  { "ol", "; did you mean '-lo'?", 0 }, /* neighbours swapped are one slip */
                  { "xy", "; none", 0 },
                  { "a-word-that-is-longer-than-any-word", "; none", 0 } };
    char hint[LS_HINT_SIZE];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_str_eq(ls_closest_hint(cases[i].word, 3 - cases[i].first, words + cases[i].first,
                                         "-", "; none", hint),
                         cases[i].hint);
}
END_TEST

START_TEST(unexpected_arguments)
{
    static const cli_command none = { "bare", "", "", NULL, options };
    values v = { 0 };
    cli_parsed parsed;
    char word[] = "extra";
    char *argv[] = { word };
    ck_assert_int_eq(options_parse(&none, 1, argv, &v, &parsed), LS_EXIT_USAGE);
}
END_TEST

static bool resume(const cli_parsed *parsed, const json_t *stored, values *v)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const ls_status status = ls__settings_resume(ctx, &parsed->set, stored, "config.json", v);
    ck_assert_int_eq(status, ls_context_status(ctx));
    ck_assert(status == LS_OK || status == LS_ERR_SETTING);
    ls_context_close(&ctx);
    return status == LS_OK;
}

START_TEST(json_and_back)
{
    values v, w;
    cli_parsed parsed;
    ck_assert_int_eq(PARSE(&v, &parsed, "--count=9", "--rate=0.30000000000000004", "--name=x",
                           "--colour=red", "--loud"),
                     -1);
    json_t *stored = ls__settings_to_json(options, &v);
    char *text = json_dumps(stored, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));
    ck_assert_str_eq(text, "{\"loud\": true, \"count\": 9, \"rate\": 0.3, \"name\": \"x\", "
                           "\"colour\": \"red\", \"threads\": 0, \"late\": 0}");
    json_t *loaded = json_loads(text, 0, NULL);
    free(text);

    PARSE(&w, &parsed, "--threads=3", "--count=9");
    ck_assert(resume(&parsed, loaded, &w));
    ck_assert(w.loud && w.rate == v.rate && w.count == 9 && w.colour == 0 && w.threads == 3);
    ck_assert_str_eq(w.name, "x");
    json_object_del(loaded, "late");
    PARSE(&w, &parsed, "--count=9");
    ck_assert(resume(&parsed, loaded, &w));
    ck_assert_int_eq(w.late, 0);
    PARSE(&w, &parsed, "--late=3");
    ck_assert(!resume(&parsed, loaded, &w));
    PARSE(&w, &parsed, "--count=8");
    ck_assert(!resume(&parsed, loaded, &w));
    PARSE(&w, &parsed, "--count=9");
    json_object_set_new(loaded, "colour", json_string("pink"));
    ck_assert(!resume(&parsed, loaded, &w));
    json_object_del(loaded, "colour"); /* a run of a version without it has the default */
    PARSE(&w, &parsed, "--count=9");
    ck_assert(resume(&parsed, loaded, &w));
    ck_assert_int_eq(w.colour, 1);
    json_decref(loaded);
    json_decref(stored);
}
END_TEST

/* A stored null stands for a text that was not given, and only where that can be. */
START_TEST(stored_texts_with_a_default_are_texts)
{
    static const ls_setting one[] = {
        { LS_SETTING_TEXT, 0, "model", AT(name), "a text", "NAME", .fallback = "small" },
        { .kind = LS_SETTING_END },
    };
    static const cli_command none = { "try", "tries.", "", NULL, one, NULL };
    values v;
    cli_parsed parsed;
    ck_assert_int_eq(options_parse(&none, 0, NULL, &v, &parsed), -1);
    json_t *stored = json_pack("{s:n}", "model");
    ck_assert(!resume(&parsed, stored, &v));
    json_object_set_new(stored, "model", json_string("large"));
    ck_assert(resume(&parsed, stored, &v));
    ck_assert_str_eq(v.name, "large");
    json_decref(stored);
}
END_TEST

/* A stored 0 is the number that the table says, not one that stands in a note. */
START_TEST(stored_zeros_of_numbers_that_were_not_given)
{
    static const ls_setting two[] = {
        { LS_SETTING_INTEGER, 0, "limit", AT(count), "a number", "N", 1, 99, .note = "forty-two",
          .implied = 42 },
        { LS_SETTING_INTEGER, 0, "side", AT(late), "another", "N", 1, 99, .note = "32 or 64" },
        { .kind = LS_SETTING_END },
    };
    static const cli_command sizes = { "try", "tries.", "", NULL, two, NULL };
    static const struct {
        char *given;
        bool same;
    } cases[] = { { "--limit=42", true }, { "--limit=43", false }, { "--side=32", false } };
    json_t *stored = json_pack("{s:i, s:i}", "limit", 0, "side", 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        values v;
        cli_parsed parsed;
        ck_assert_int_eq(options_parse(&sizes, 1, (char *[]){ cases[i].given }, &v, &parsed), -1);
        ck_assert_int_eq(resume(&parsed, stored, &v), cases[i].same);
    }
    json_decref(stored);
}
END_TEST

START_TEST(numbers_are_rounded_as_in_the_file)
{
    ck_assert(ls__setting_round(0.1) == 0.1);
    ck_assert(ls__setting_round(1.0 / 3) == 0.333333333333333);
}
END_TEST

TEST_PROGRAM(options)
{
    return RUN_SUITE("options", defaults, spellings, mistakes, closest_words, unexpected_arguments,
                     json_and_back, stored_texts_with_a_default_are_texts,
                     stored_zeros_of_numbers_that_were_not_given,
                     numbers_are_rounded_as_in_the_file);
}
