/* options.c: command-line options from a table; see options.h. */
#include "options.h"
#include "print.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *option_field(const cli_option *option, void *values)
{
    return (char *)values + option->offset;
}

double options_round(double x)
{
    char text[32];
    snprintf(text, sizeof(text), "%.15g", x);
    return strtod(text, NULL);
}

int option_choice_index(const char *choices, const char *word)
{
    const size_t length = strlen(word);
    int index = 0;
    for (const char *at = choices;; index++) {
        const size_t n = strcspn(at, "|");
        if (n == length && memcmp(at, word, n) == 0) return index;
        if (at[n] == '\0') return -1;
        at += n + 1;
    }
}

void option_describe_expected(const cli_option *option, char *out, size_t size)
{
    switch (option->kind) {
    case OPTION_INTEGER:
        snprintf(out, size, "an integer from %.0f to %.0f", option->min, option->max);
        break;
    case OPTION_NUMBER:
        snprintf(out, size, "a number from %g to %g", option->min, option->max);
        break;
    case OPTION_CHOICE: snprintf(out, size, "one of %s", option->value); break;
    case OPTION_TEXT: snprintf(out, size, "a %s", option->value); break;
    case OPTION_SWITCH: snprintf(out, size, "true or false"); break;
    case OPTION_HEADING:
    case OPTION_END: break;
    }
}

/* Writes why `text` is no value for the option into `reason`. */
static bool set_value(const cli_option *option, const char *text, void *values, char *reason,
                      size_t reason_size)
{
    void *out = option_field(option, values);
    char *end = NULL;
    const bool begins =
        text && *text && !isspace((unsigned char)*text); /* strtoll skips white space */
    option_describe_expected(option, reason, reason_size);
    errno = 0;
    switch (option->kind) {
    case OPTION_INTEGER: {
        const long long n = strtoll(text, &end, 10);
        if (!begins || *end || errno || (double)n < option->min || (double)n > option->max)
            return false;
        *(int64_t *)out = n;
        return true;
    }
    case OPTION_NUMBER: {
        const double x = strtod(text, &end);
        if (!begins || *end || !(x >= option->min && x <= option->max)) return false;
        *(double *)out = options_round(x);
        return true;
    }
    case OPTION_CHOICE: {
        const int index = option_choice_index(option->value, text);
        if (index >= 0) *(int *)out = index;
        return index >= 0;
    }
    case OPTION_TEXT: {
        *(const char **)out = text;
        const bool utf8 = is_utf8(text);
        if (!utf8)
            snprintf(reason, reason_size, "a %s in UTF-8, because config.json stores it",
                     option->value);
        return utf8 && *text != '\0';
    }
    case OPTION_SWITCH: *(bool *)out = true; return true;
    case OPTION_HEADING:
    case OPTION_END: break;
    }
    return false;
}

/* ---- Did you mean ---- */

static int smallest(int a, int b, int c)
{
    const int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edits (insert, delete, replace, swap neighbours) from one word to another; words beyond 31
 * letters count as far apart. */
static int edit_distance(const char *a, const char *b)
{
    enum { SIZE = 32 };
    int d[SIZE][SIZE];
    const int n = (int)strlen(a), m = (int)strlen(b);
    if (n >= SIZE || m >= SIZE) return SIZE;
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = smallest(d[i - 1][j] + 1, d[i][j - 1] + 1,
                               d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < d[i][j])
                d[i][j] = d[i - 2][j - 2] + 1;
        }
    return d[n][m];
}

const char *closest_word(const char *word, int n, const char *const *words)
{
    const char *best = NULL;
    int least = 2 + (int)strlen(word) / 4; /* so many slips are forgiven, one less below */
    for (int i = 0; i < n; i++) {
        const size_t word_length = strlen(word), length = strlen(words[i]);
        const size_t shorter = word_length < length ? word_length : length;
        const bool begins = shorter >= 3 && memcmp(word, words[i], shorter) == 0;
        const int distance = begins ? 1 : edit_distance(word, words[i]);
        if (distance < least) {
            least = distance;
            best = words[i];
        }
    }
    return best;
}

/* ---- Parsing ---- */

int option_find(const cli_verb *verb, const char *name, size_t length)
{
    for (int i = 0; verb->options[i].kind != OPTION_END; i++) {
        const char *other = verb->options[i].name;
        if (other && strlen(other) == length && memcmp(other, name, length) == 0) return i;
    }
    return -1;
}

static int find_letter(const cli_verb *verb, char letter)
{
    for (int i = 0; verb->options[i].kind != OPTION_END; i++)
        if (letter && verb->options[i].letter == letter) return i;
    return -1;
}

const char *option_closest(const cli_verb *verb, const char *name)
{
    const char *words[MAX_OPTIONS + 1] = { "help" };
    int n = 1;
    for (int i = 0; verb->options[i].kind != OPTION_END; i++)
        if (verb->options[i].name) words[n++] = verb->options[i].name;
    return closest_word(name, n, words);
}

static parse_result fail_unknown(const cli_verb *verb, const char *name, size_t length)
{
    char word[32];
    snprintf(word, sizeof(word), "%.*s", (int)length, name);
    const char *meant = option_closest(verb, word);
    print_text(stderr, "lockstep %s: unknown option '--%.*s'", verb->name, (int)length, name);
    if (meant)
        print_text(stderr, "; did you mean '--%s'?\n", meant);
    else
        print_text(stderr, "; 'lockstep %s --help' lists them all\n", verb->name);
    return PARSE_ERROR;
}

/* Reads the option at argv[*at], "--name", "--name=value", "-n" or "-nvalue", and its value, moving
 * *at to the last word used. */
static parse_result parse_one(const cli_verb *verb, int argc, char **argv, int *at, void *values,
                              cli_parsed *parsed)
{
    const char *word = argv[*at];
    const bool is_long = word[1] == '-';
    const size_t length = is_long ? strcspn(word + 2, "=") : 1;
    const int i = is_long ? option_find(verb, word + 2, length) : find_letter(verb, word[1]);
    if (i < 0 && is_long) return fail_unknown(verb, word + 2, length);
    if (i < 0) {
        print_message(verb, "unknown option '%s'; 'lockstep %s --help' lists them all", word,
                      verb->name);
        return PARSE_ERROR;
    }

    const cli_option *option = &verb->options[i];
    const char *rest = is_long ? word + 2 + length : word + 2;
    const char *value = NULL;
    if (*rest) value = *rest == '=' ? rest + 1 : rest;
    if (option->kind == OPTION_SWITCH && value) {
        print_message(verb, "--%s takes no value, got '%s'", option->name, value);
        return PARSE_ERROR;
    }
    if (option->kind != OPTION_SWITCH && !value) {
        if (*at + 1 >= argc) {
            print_message(verb, "--%s needs a value: --%s %s", option->name, option->name,
                          option->value);
            return PARSE_ERROR;
        }
        value = argv[++*at];
    }
    char reason[256];
    if (!set_value(option, value, values, reason, sizeof(reason))) {
        print_message(verb, "--%s: expected %s, got '%s'", option->name, reason, value);
        return PARSE_ERROR;
    }
    parsed->given[i] = true;
    return PARSE_OK;
}

parse_result options_parse(const cli_verb *verb, int argc, char **argv, void *values,
                           cli_parsed *parsed)
{
    *parsed = (cli_parsed){ .arguments = argv };
    char reason[256];
    for (int i = 0; verb->options[i].kind != OPTION_END; i++)
        if (verb->options[i].fallback)
            set_value(&verb->options[i], verb->options[i].fallback, values, reason, sizeof(reason));

    bool only_arguments = false;
    for (int at = 0; at < argc; at++) {
        char *word = argv[at];
        if (!only_arguments && strcmp(word, "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            options_help(verb);
            return PARSE_HELP;
        } else if (!only_arguments && word[0] == '-' && word[1] != '\0') {
            if (parse_one(verb, argc, argv, &at, values, parsed) != PARSE_OK) return PARSE_ERROR;
        } else if (!*verb->arguments) {
            print_message(verb, "unexpected argument '%s'", word);
            return PARSE_ERROR;
        } else {
            argv[parsed->n_arguments++] = word;
        }
    }
    return PARSE_OK;
}

bool options_given(const cli_verb *verb, const cli_parsed *parsed, const char *name)
{
    const int i = option_find(verb, name, strlen(name));
    return i >= 0 && parsed->given[i];
}
