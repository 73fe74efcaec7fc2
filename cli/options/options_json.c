/* options_json.c: values of options as the JSON of config.json, and back; see options.h. */
#include "options/options.h"
#include "terminal/print.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The word at a position that exists, not terminated. */
static const char *choice_word(const char *choices, int index, int *length)
{
    for (; index > 0; index--) choices += strcspn(choices, "|") + 1;
    *length = (int)strcspn(choices, "|");
    return choices;
}

/* A number for a square, which older versions wrote, else the text of the option. */
static json_t *size_to_json(const cli_size *size)
{
    return size->height == size->width
               ? json_integer(size->height)
               : json_sprintf("%lldx%lld", (long long)size->height, (long long)size->width);
}

static json_t *value_to_json(const cli_option *option, const void *values)
{
    const void *in = (const char *)values + option->offset;
    switch (option->kind) {
    case OPTION_SWITCH: return json_boolean(*(const bool *)in);
    case OPTION_INTEGER: return json_integer(*(const int64_t *)in);
    case OPTION_SIZE: return size_to_json(in);
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

json_t *options_to_json(const cli_option *options, const void *values)
{
    json_t *object = json_object();
    for (const cli_option *option = options; object && option->kind != OPTION_END; option++) {
        if (option->kind == OPTION_HEADING) continue;
        if (json_object_set_new(object, option->name, value_to_json(option, values)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

json_t *options_computed(const cli_parsed *parsed)
{
    json_t *names = json_array();
    for (int i = 0; names && parsed->options[i].kind != OPTION_END; i++) {
        const cli_option *o = &parsed->options[i];
        const bool is_set = parsed->given[i] || parsed->preset[i];
        if (is_set || !o->note || o->fallback || o->execution) continue;
        if (json_array_append_new(names, json_string(o->name)) == 0) continue;
        json_decref(names);
        names = NULL;
    }
    return names;
}

static bool is_in(const json_t *names, const char *name)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *other = json_string_value(json_array_get(names, i));
        if (other && strcmp(other, name) == 0) return true;
    }
    return false;
}

/* Whether the stored value marks an option that was not given and has no default in the table. */
static bool is_unset(const cli_option *option, const json_t *stored)
{
    const bool below = option->min > 0 && json_is_number(stored) && json_number_value(stored) == 0;
    return !option->fallback && option->note && (json_is_null(stored) || below);
}

static bool value_from_json(const cli_option *option, const json_t *json, void *values)
{
    void *out = option_field(option, values);
    switch (option->kind) {
    case OPTION_SWITCH: *(bool *)out = json_is_true(json); return json_is_boolean(json);
    case OPTION_INTEGER: *(int64_t *)out = json_integer_value(json); break;
    case OPTION_SIZE: {
        char expected[EXPECTED_SIZE];
        const int64_t side = json_integer_value(json);
        *(cli_size *)out = (cli_size){ side, side };
        if (json_is_string(json))
            return option_set(option, json_string_value(json), values, expected);
        break;
    }
    case OPTION_NUMBER: *(double *)out = json_number_value(json); break;
    case OPTION_TEXT:
        *(const char **)out = json_string_value(json);
        return json_is_string(json) || is_unset(option, json);
    case OPTION_CHOICE:
        *(int *)out =
            json_is_string(json) ? option_choice_index(option->value, json_string_value(json)) : -1;
        return *(int *)out >= 0;
    case OPTION_HEADING:
    case OPTION_END: break;
    }
    const double x = json_number_value(json);
    const bool right = option->kind == OPTION_NUMBER ? json_is_number(json) : json_is_integer(json);
    return right && (is_unset(option, json) || (x >= option->min && x <= option->max));
}

static bool same_value(const cli_option *option, const json_t *stored, const void *values)
{
    json_t *now = value_to_json(option, values);
    const bool is_default =
        option->implied && is_unset(option, stored) && json_integer_value(now) == option->implied;
    const bool same = now && (is_default || json_equal(now, stored));
    json_decref(now);
    return same;
}

/* As JSON text. To be freed; NULL without memory. */
static char *value_text(const json_t *value)
{
    return json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
}

static bool fail_changed(const cli_option *option, const json_t *stored, const char *source)
{
    char *text = value_text(stored);
    if (is_unset(option, stored))
        print_message("--%s can't be changed on resume: the run has the default, %s (%s)",
                      option->name, option->note, source);
    else
        print_message("--%s can't be changed on resume: the run has %s (%s)", option->name,
                      text ? text : "another value", source);
    free(text);
    return false;
}

static bool fail_unusable(const cli_option *option, const json_t *stored, const char *source)
{
    char expected[256], *text = value_text(stored);
    option_describe_expected(option, expected, sizeof(expected));
    print_message("%s: option '%s': expected %s, got %s", source, option->name, expected,
                  text ? text : "another value");
    free(text);
    return false;
}

static bool resume_option(const cli_option *option, bool given, const json_t *stored,
                          const char *source, void *values)
{
    const json_t *json = json_object_get(stored, option->name);
    if (option->session || (!json && option->optional && (!given || option->execution)))
        return true;
    if (!json && option->optional)
        return fail_with(false,
                         "the run was started by a version without --%s, so --%s can't be used on "
                         "resume (%s)",
                         option->name, option->name, source);
    if (!json) return fail_with(false, "%s lacks the option '%s'", source, option->name);
    if (given && (option->execution || option->lasting)) return true;
    if (given && !same_value(option, json, values)) return fail_changed(option, json, source);
    return value_from_json(option, json, values) || fail_unusable(option, json, source);
}

/* An unknown option may have changed the result, so it is an error. */
static bool check_names(const cli_option *options, const json_t *stored, const char *source)
{
    const char *name;
    json_t *value;
    char hint[HINT_SIZE];
    json_object_foreach((json_t *)stored, name, value)
    {
        if (option_find(options, name, strlen(name)) < 0)
            return fail_with(false, "%s: unknown option '%s'%s", source, name,
                             option_hint(options, name, "", "", hint));
    }
    return true;
}

bool options_from_run(const cli_command *command, const json_t *stored, const json_t *computed,
                      const char *source, void *values, cli_parsed *parsed)
{
    if (!check_names(command->run_options, stored, source)) return false;
    for (int i = 0; parsed->options[i].kind != OPTION_END; i++) {
        const cli_option *option = &parsed->options[i];
        const json_t *json = option->name ? json_object_get(stored, option->name) : NULL;
        if (!json || option->session || parsed->given[i]) continue;
        if (is_in(computed, option->name)) continue;
        if (!value_from_json(option, json, values)) return fail_unusable(option, json, source);
        parsed->preset[i] = true;
    }
    parsed->from_run = true;
    return true;
}

bool options_resume(const cli_parsed *parsed, const json_t *stored, const char *source,
                    void *values)
{
    if (!check_names(parsed->options, stored, source)) return false;
    for (int i = 0; parsed->options[i].kind != OPTION_END; i++)
        if (parsed->options[i].kind != OPTION_HEADING &&
            !resume_option(&parsed->options[i], parsed->given[i] != NULL, stored, source, values))
            return false;
    return true;
}

json_t *options_changed(const cli_option *options, const json_t *stored, const void *values)
{
    json_t *out = json_array();
    for (const cli_option *option = options; out && option->kind != OPTION_END; option++) {
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
