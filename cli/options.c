/* options.c: command-line options from a table; see options.h. */
#include "options.h"
#include "print.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *field(const cli_option *option, void *values)
{
    return (char *)values + option->offset;
}

static const void *field_const(const cli_option *option, const void *values)
{
    return (const char *)values + option->offset;
}

double options_round(double x)
{
    char text[32];
    snprintf(text, sizeof(text), "%.15g", x);
    return strtod(text, NULL);
}

/* Position of `word` among the words of "a|b|c", or -1. */
static int choice_index(const char *choices, const char *word)
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

/* The word at a position that exists, not terminated. */
static const char *choice_word(const char *choices, int index, int *length)
{
    for (; index > 0; index--) choices += strcspn(choices, "|") + 1;
    *length = (int)strcspn(choices, "|");
    return choices;
}

/* Writes why `text` is no value for the option into `reason`. */
static bool set_value(const cli_option *option, const char *text, void *values, char *reason,
                      size_t reason_size)
{
    void *out = field(option, values);
    char *end = NULL;
    const bool begins =
        text && *text && !isspace((unsigned char)*text); /* strtoll skips white space */
    errno = 0;
    switch (option->kind) {
    case OPTION_INTEGER: {
        const long long n = strtoll(text, &end, 10);
        if (begins && !*end && !errno && (double)n >= option->min && (double)n <= option->max) {
            *(int64_t *)out = n;
            return true;
        }
        snprintf(reason, reason_size, "wants a whole number from %.0f to %.0f", option->min,
                 option->max);
        return false;
    }
    case OPTION_NUMBER: {
        const double x = strtod(text, &end);
        if (begins && !*end && x >= option->min && x <= option->max) {
            *(double *)out = options_round(x);
            return true;
        }
        snprintf(reason, reason_size, "wants a number from %g to %g", option->min, option->max);
        return false;
    }
    case OPTION_CHOICE: {
        const int index = choice_index(option->value, text);
        if (index >= 0) *(int *)out = index;
        snprintf(reason, reason_size, "wants one of %s", option->value);
        return index >= 0;
    }
    case OPTION_TEXT: {
        *(const char **)out = text;
        const bool utf8 = is_utf8(text);
        snprintf(reason, reason_size,
                 utf8 ? "wants a %s" : "wants a %s in UTF-8, as config.json is", option->value);
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

static int find_option(const cli_verb *verb, const char *name, size_t length)
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

static parse_result fail_unknown(const cli_verb *verb, const char *name, size_t length)
{
    const char *words[MAX_OPTIONS + 1] = { "help" };
    int n = 1;
    for (int i = 0; verb->options[i].kind != OPTION_END; i++)
        if (verb->options[i].name) words[n++] = verb->options[i].name;

    char word[32];
    snprintf(word, sizeof(word), "%.*s", (int)length, name);
    const char *meant = closest_word(word, n, words);
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
    const int i = is_long ? find_option(verb, word + 2, length) : find_letter(verb, word[1]);
    if (i < 0 && is_long) return fail_unknown(verb, word + 2, length);
    if (i < 0) {
        print_text(stderr,
                   "lockstep %s: unknown option '%s'; 'lockstep %s --help' lists them all\n",
                   verb->name, word, verb->name);
        return PARSE_ERROR;
    }

    const cli_option *option = &verb->options[i];
    const char *rest = is_long ? word + 2 + length : word + 2;
    const char *value = NULL;
    if (*rest) value = *rest == '=' ? rest + 1 : rest;
    if (option->kind == OPTION_SWITCH && value) {
        print_text(stderr, "lockstep %s: --%s takes no value, got '%s'\n", verb->name, option->name,
                   value);
        return PARSE_ERROR;
    }
    if (option->kind != OPTION_SWITCH && !value) {
        if (*at + 1 >= argc) {
            print_text(stderr, "lockstep %s: --%s needs a value: --%s %s\n", verb->name,
                       option->name, option->name, option->value);
            return PARSE_ERROR;
        }
        value = argv[++*at];
    }
    char reason[256];
    if (!set_value(option, value, values, reason, sizeof(reason))) {
        print_text(stderr, "lockstep %s: --%s %s, got '%s'\n", verb->name, option->name, reason,
                   value);
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
            print_text(stderr, "lockstep %s: unexpected argument '%s'\n", verb->name, word);
            return PARSE_ERROR;
        } else {
            argv[parsed->n_arguments++] = word;
        }
    }
    return PARSE_OK;
}

bool options_given(const cli_verb *verb, const cli_parsed *parsed, const char *name)
{
    const int i = find_option(verb, name, strlen(name));
    return i >= 0 && parsed->given[i];
}

/* ---- JSON ---- */

static json_t *value_to_json(const cli_option *option, const void *values)
{
    const void *in = field_const(option, values);
    switch (option->kind) {
    case OPTION_SWITCH: return json_boolean(*(const bool *)in);
    case OPTION_INTEGER: return json_integer(*(const int64_t *)in);
    case OPTION_NUMBER: return json_real(*(const double *)in);
    case OPTION_TEXT: {
        const char *text = *(const char *const *)in;
        return text ? json_string(text) : json_null();
    }
    case OPTION_CHOICE: {
        int length;
        const char *word = choice_word(option->value, *(const int *)in, &length);
        return json_stringn(word, (size_t)length);
    }
    case OPTION_HEADING:
    case OPTION_END: break;
    }
    return NULL;
}

json_t *options_to_json(const cli_verb *verb, const void *values)
{
    json_t *object = json_object();
    for (int i = 0; object && verb->options[i].kind != OPTION_END; i++) {
        const cli_option *option = &verb->options[i];
        if (option->kind == OPTION_HEADING) continue;
        if (json_object_set_new(object, option->name, value_to_json(option, values)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static bool value_from_json(const cli_option *option, const json_t *json, void *values)
{
    void *out = field(option, values);
    switch (option->kind) {
    case OPTION_SWITCH: *(bool *)out = json_is_true(json); return json_is_boolean(json);
    case OPTION_INTEGER: *(int64_t *)out = json_integer_value(json); break;
    case OPTION_NUMBER: *(double *)out = json_number_value(json); break;
    case OPTION_TEXT:
        *(const char **)out = json_string_value(json);
        return json_is_string(json) || (json_is_null(json) && !option->fallback);
    case OPTION_CHOICE:
        *(int *)out =
            json_is_string(json) ? choice_index(option->value, json_string_value(json)) : -1;
        return *(int *)out >= 0;
    case OPTION_HEADING:
    case OPTION_END: break;
    }
    /* 0 is what is not given */
    const double x = json_number_value(json);
    const bool right =
        option->kind == OPTION_INTEGER ? json_is_integer(json) : json_is_number(json);
    return right && (x == 0 || (x >= option->min && x <= option->max));
}

static bool same_value(const cli_option *option, const json_t *stored, const void *values)
{
    json_t *now = value_to_json(option, values);
    const bool same = now && json_equal(now, stored);
    json_decref(now);
    return same;
}

bool options_resume(const cli_verb *verb, const json_t *stored, const char *source, void *values,
                    const cli_parsed *parsed)
{
    for (int i = 0; verb->options[i].kind != OPTION_END; i++) {
        const cli_option *option = &verb->options[i];
        if (option->kind == OPTION_HEADING) continue;
        const json_t *json = json_object_get(stored, option->name);
        if (!json && option->optional && !parsed->given[i]) continue;
        if (!json) {
            print_text(stderr,
                       option->optional
                           ? "lockstep %s: %s was begun by a version without --%s, which can't be "
                             "given now\n"
                           : "lockstep %s: %s lacks the option '%s'\n",
                       verb->name, source, option->name);
            return false;
        }
        if (parsed->given[i] && (option->executor || option->lasting)) continue;
        if (parsed->given[i] && !same_value(option, json, values)) {
            char *text = json_is_null(json)
                             ? strdup("default")
                             : json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
            print_text(stderr,
                       "lockstep %s: --%s differs from the run's own %s: a resumed run keeps its "
                       "recipe (%s)\n",
                       verb->name, option->name, text ? text : "value", source);
            free(text);
            return false;
        }
        if (!value_from_json(option, json, values)) {
            print_text(stderr, "lockstep %s: %s: option '%s' has an unusable value\n", verb->name,
                       source, option->name);
            return false;
        }
    }
    return true;
}

json_t *options_changed(const cli_verb *verb, const json_t *stored, const void *values)
{
    json_t *out = json_array();
    for (int i = 0; out && verb->options[i].kind != OPTION_END; i++) {
        const cli_option *option = &verb->options[i];
        json_t *was = json_object_get(stored, option->name);
        if (!option->lasting || same_value(option, was, values)) continue;
        json_t *change = json_pack("{s:s, s:O, s:o}", "option", option->name, "there", was, "here",
                                   value_to_json(option, values));
        if (json_array_append_new(out, change) == 0) continue;
        json_decref(out);
        out = NULL;
    }
    return out;
}
