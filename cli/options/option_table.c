/* option_table.c: the values and names of the options in a table; see options.h. */
#include "options/options.h"
#include "terminal/print.h"
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
    case OPTION_SIZE:
        snprintf(out, size, "N or HEIGHTxWIDTH, integers from %.0f to %.0f", option->min,
                 option->max);
        break;
    case OPTION_NUMBER:
        snprintf(out, size, "a number from %.10g to %.10g", option->min, option->max);
        break;
    case OPTION_CHOICE: snprintf(out, size, "one of %s", option->value); break;
    case OPTION_TEXT: snprintf(out, size, "a %s", option->value); break;
    case OPTION_SWITCH: snprintf(out, size, "true or false"); break;
    case OPTION_HEADING:
    case OPTION_END: break;
    }
}

/* "64" or "48x96". */
static bool read_size(const cli_option *option, const char *text, cli_size *out)
{
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    const long long height = strtoll(text, &end, 10);
    long long width = height;
    if (*end == 'x' && isdigit((unsigned char)end[1])) width = strtoll(end + 1, &end, 10);
    const double less = (double)(height < width ? height : width);
    const double more = (double)(height < width ? width : height);
    if (*end || errno || less < option->min || more > option->max) return false;
    *out = (cli_size){ height, width };
    return true;
}

bool option_set(const cli_option *option, const char *text, void *values,
                char expected[EXPECTED_SIZE])
{
    void *out = option_field(option, values);
    char *end = NULL;
    const bool begins =
        text && *text && !isspace((unsigned char)*text); /* strtoll skips white space */
    option_describe_expected(option, expected, EXPECTED_SIZE);
    errno = 0;
    switch (option->kind) {
    case OPTION_INTEGER: {
        const long long n = strtoll(text, &end, 10);
        if (!begins || *end || errno || (double)n < option->min || (double)n > option->max)
            return false;
        *(int64_t *)out = n;
        return true;
    }
    case OPTION_SIZE: return begins && read_size(option, text, out);
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
            snprintf(expected, EXPECTED_SIZE, "a %s in UTF-8, because config.json stores it",
                     option->value);
        return utf8 && *text != '\0';
    }
    case OPTION_SWITCH:
        *(bool *)out = strcmp(text, "false") != 0;
        return *text == '\0' || strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    case OPTION_HEADING:
    case OPTION_END: break;
    }
    return false;
}

/* ---- Did you mean ---- */

static int smaller(int a, int b)
{
    return a < b ? a : b;
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
            d[i][j] = smaller(smaller(d[i - 1][j], d[i][j - 1]) + 1,
                              d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = smaller(d[i][j], d[i - 2][j - 2] + 1);
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

const char *closest_hint(const char *word, int n, const char *const *words, const char *dashes,
                         const char *otherwise, char out[HINT_SIZE])
{
    const char *closest = closest_word(word, n, words);
    if (closest)
        snprintf(out, HINT_SIZE, "; did you mean '%s%s'?", dashes, closest);
    else
        snprintf(out, HINT_SIZE, "%s", otherwise);
    return out;
}

/* ---- Options of all commands ---- */

#define AT(member) offsetof(common_values, member)

const cli_option common_options[] = {
    { OPTION_HEADING, .help = "General:" },
    { OPTION_TEXT, 0, "config", AT(config),
      "read options from a file with lines 'key = value', such as 'epochs = 30'; the command line "
      "takes precedence",
      "FILE", .note = "none", .usual = true },
    { OPTION_SWITCH, 'q', "quiet", AT(quiet), "print only errors and results", .usual = true },
    { OPTION_SWITCH, 'h', "help", AT(help), "show the usual options", .usual = true },
    { OPTION_SWITCH, 0, "help-all", AT(help_all), "show all options", .usual = true },
    { .kind = OPTION_END },
};

/* ---- Names ---- */

int option_find(const cli_option *options, const char *name, size_t length)
{
    for (int i = 0; options[i].kind != OPTION_END; i++) {
        const char *other = options[i].name;
        if (other && strlen(other) == length && memcmp(other, name, length) == 0) return i;
    }
    return -1;
}

/* The option of the table that is meant by such a name; NULL if none. */
static const char *option_of_name(const cli_option *options, const char *name)
{
    for (const cli_option *o = options; o->kind != OPTION_END; o++)
        if (o->name && option_is_same_name(name, o->name)) return o->name;
    const char *const *meant = options_of_foreign_name(name);
    for (int i = 0; meant && i < N_FOREIGN_OPTIONS; i++)
        if (meant[i] && option_find(options, meant[i], strlen(meant[i])) >= 0) return meant[i];
    return NULL;
}

const char *option_hint(const cli_option *options, const char *name, const char *dashes,
                        const char *otherwise, char out[HINT_SIZE])
{
    enum { N_TABLES = 2 };
    const char *meant = option_of_name(options, name);
    if (meant) {
        snprintf(out, HINT_SIZE, "; did you mean '%s%s'?", dashes, meant);
        return out;
    }
    const cli_option *const tables[N_TABLES] = { options, common_options };
    const char *words[N_TABLES * MAX_OPTIONS];
    int n = 0;
    for (int i = 0; i < (*dashes ? N_TABLES : 1); i++)
        for (const cli_option *o = tables[i]; o->kind != OPTION_END; o++)
            if (o->name) words[n++] = o->name;
    return closest_hint(name, n, words, dashes, otherwise, out);
}
