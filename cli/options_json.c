/* options_json.c: values of options as the JSON of config.json, and back; see options.h. */
#include "options.h"
#include "print.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *field_const(const cli_option *option, const void *values)
{
    return (const char *)values + option->offset;
}

/* The word at a position that exists, not terminated. */
static const char *choice_word(const char *choices, int index, int *length)
{
    for (; index > 0; index--) choices += strcspn(choices, "|") + 1;
    *length = (int)strcspn(choices, "|");
    return choices;
}

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
    const bool right =
        option->kind == OPTION_INTEGER ? json_is_integer(json) : json_is_number(json);
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

static void print_difference(const cli_verb *verb, const cli_option *option, const json_t *stored,
                             const char *source)
{
    char *text = value_text(stored), note[256] = "";
    const bool unset = is_unset(option, stored);
    if (unset) snprintf(note, sizeof(note), "default (%s)", option->note);
    print_message(verb, "--%s differs from the run's own %s: a resumed run keeps its recipe (%s)",
                  option->name,
                  unset  ? note
                  : text ? text
                         : "value",
                  source);
    free(text);
}

static void print_unusable(const cli_verb *verb, const cli_option *option, const json_t *stored,
                           const char *source)
{
    char expected[256], *text = value_text(stored);
    option_describe_expected(option, expected, sizeof(expected));
    print_message(verb, "%s: option '%s': expected %s, got %s", source, option->name, expected,
                  text ? text : "another value");
    free(text);
}

/* An unknown option may have changed the result, so it is an error. */
static bool has_known_options(const cli_verb *verb, const json_t *stored, const char *source)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)stored, name, value)
    {
        if (option_find(verb, name, strlen(name)) >= 0) continue;
        const char *meant = option_closest(verb, name);
        return fail_with(verb, false, "%s: unknown option '%s'%s%s%s", source, name,
                         meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
    }
    return true;
}

bool options_resume(const cli_verb *verb, const json_t *stored, const char *source, void *values,
                    const cli_parsed *parsed)
{
    if (!has_known_options(verb, stored, source)) return false;
    for (int i = 0; verb->options[i].kind != OPTION_END; i++) {
        const cli_option *option = &verb->options[i];
        if (option->kind == OPTION_HEADING) continue;
        const json_t *json = json_object_get(stored, option->name);
        if (!json && option->optional && !parsed->given[i]) continue;
        if (!json) {
            print_text(stderr,
                       option->optional ? "lockstep %s: %s was begun by a version without --%s, "
                                          "which can't be given now\n"
                                        : "lockstep %s: %s lacks the option '%s'\n",
                       verb->name, source, option->name);
            return false;
        }
        if (parsed->given[i] && (option->executor || option->lasting)) continue;
        if (parsed->given[i] && !same_value(option, json, values)) {
            print_difference(verb, option, json, source);
            return false;
        }
        if (!value_from_json(option, json, values)) {
            print_unusable(verb, option, json, source);
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
