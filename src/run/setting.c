/* setting.c: see setting.h. */
#include "run/setting.h"

#include "base/c_locale.h"
#include "base/error.h"
#include "base/minmax.h"
#include "base/utf8.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ls__refuse(ls_context *ctx, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls__fail_v(ctx, LS_ERR_SETTING, format, args);
    va_end(args);
    return false;
}

typedef union ls__setting_value {
    bool is_on;
    int64_t integer;
    ls_size size;
    double number;
    const char *text;
    int choice;
} ls__setting_value;

void *ls__setting_field(const ls_setting *setting, void *values)
{
    return (char *)values + setting->offset;
}

double ls__setting_round(double x)
{
    LS__IN_C_LOCALE;
    char text[32];
    snprintf(text, sizeof(text), "%.15g", x);
    return strtod(text, NULL);
}

int ls__setting_choice(const char *choices, const char *word)
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

const char *ls__choice_word(const char *choices, int index, int *length)
{
    for (; index > 0; index--) choices += strcspn(choices, "|") + 1;
    *length = (int)strcspn(choices, "|");
    return choices;
}

void ls_setting_expected(const ls_setting *setting, char *out, size_t size)
{
    switch (setting->kind) {
    case LS_SETTING_INTEGER:
        snprintf(out, size, "an integer from %.0f to %.0f", setting->min, setting->max);
        break;
    case LS_SETTING_SIZE:
        snprintf(out, size, "N or HEIGHTxWIDTH, integers from %.0f to %.0f", setting->min,
                 setting->max);
        break;
    case LS_SETTING_NUMBER:
        snprintf(out, size, "a number from %.10g to %.10g", setting->min, setting->max);
        break;
    case LS_SETTING_CHOICE: snprintf(out, size, "one of %s", setting->value); break;
    case LS_SETTING_TEXT: snprintf(out, size, "a %s", setting->value); break;
    case LS_SETTING_SWITCH: snprintf(out, size, "true or false"); break;
    case LS_SETTING_HEADING:
    case LS_SETTING_END: break;
    }
}

/* "64" or "48x96". */
static bool read_size(const ls_setting *setting, const char *text, ls_size *out)
{
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    const long long height = strtoll(text, &end, 10);
    long long width = height;
    if (*end == 'x' && isdigit((unsigned char)end[1])) width = strtoll(end + 1, &end, 10);
    const double min = (double)ls__min_i64(height, width);
    const double max = (double)ls__max_i64(height, width);
    if (*end || errno || min < setting->min || max > setting->max) return false;
    *out = (ls_size){ height, width };
    return true;
}

bool ls_setting_read(const ls_setting *setting, const char *text, void *values,
                     char expected[LS_EXPECTED_SIZE])
{
    LS__IN_C_LOCALE; /* for strtod */
    ls__setting_value unstored;
    void *out =
        setting->offset == LS_SETTING_UNSTORED ? &unstored : ls__setting_field(setting, values);
    char *end = NULL;
    const bool begins =
        text && *text && !isspace((unsigned char)*text); /* strtoll skips white space */
    ls_setting_expected(setting, expected, LS_EXPECTED_SIZE);
    errno = 0;
    switch (setting->kind) {
    case LS_SETTING_INTEGER: {
        const long long n = strtoll(text, &end, 10);
        if (!begins || *end || errno || (double)n < setting->min || (double)n > setting->max)
            return false;
        *(int64_t *)out = n;
        return true;
    }
    case LS_SETTING_SIZE: return begins && read_size(setting, text, out);
    case LS_SETTING_NUMBER: {
        const double x = strtod(text, &end);
        if (!begins || *end || !(x >= setting->min && x <= setting->max)) return false;
        *(double *)out = ls__setting_round(x);
        return true;
    }
    case LS_SETTING_CHOICE: {
        const int index = ls__setting_choice(setting->value, text);
        if (index >= 0) *(int *)out = index;
        return index >= 0;
    }
    case LS_SETTING_TEXT: {
        *(const char **)out = text;
        const bool utf8 = ls__utf8_is_valid(text);
        if (!utf8)
            snprintf(expected, LS_EXPECTED_SIZE, "a %s in UTF-8, because config.json stores it",
                     setting->value);
        return utf8 && *text != '\0';
    }
    case LS_SETTING_SWITCH:
        *(bool *)out = strcmp(text, "false") != 0;
        return *text == '\0' || strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    case LS_SETTING_HEADING:
    case LS_SETTING_END: break;
    }
    return false;
}

ls_status ls__setting_set(ls_context *ctx, const ls_setting *setting, const char *text,
                          void *values)
{
    char expected[LS_EXPECTED_SIZE];
    if (ls_setting_read(setting, text, values, expected)) return LS_OK;
    return ls__fail(ctx, LS_ERR_SETTING, "--%s: expected %s, got '%s'", setting->name, expected,
                    text);
}

int ls_setting_find(const ls_setting *table, const char *name, size_t length)
{
    for (int i = 0; table[i].kind != LS_SETTING_END; i++) {
        const char *other = table[i].name;
        if (other && strlen(other) == length && memcmp(other, name, length) == 0) return i;
    }
    return -1;
}

void ls_settings_default(const ls_setting *table, void *values)
{
    char expected[LS_EXPECTED_SIZE];
    for (const ls_setting *s = table; s->kind != LS_SETTING_END; s++)
        if (s->fallback) ls_setting_read(s, s->fallback, values, expected);
}

bool ls_given_has(const ls_given *given, const char *name)
{
    const int i = ls_setting_find(given->table, name, strlen(name));
    return i >= 0 && given->text[i] != NULL;
}

void ls__given_preset(ls_given *given, const char *name, const char *text, void *values)
{
    char expected[LS_EXPECTED_SIZE];
    const int i = ls_setting_find(given->table, name, strlen(name));
    if (i >= 0 && !given->preset[i])
        given->preset[i] = ls_setting_read(&given->table[i], text, values, expected);
}

bool ls__given_sets(const ls_given *given, const char *name)
{
    const int i = ls_setting_find(given->table, name, strlen(name));
    return i >= 0 && (given->text[i] || given->preset[i]);
}
