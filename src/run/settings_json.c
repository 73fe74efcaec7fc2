/* settings_json.c: values of settings as the JSON of config.json, and back; see setting.h. */
#include "base/c_locale.h"
#include "base/error.h"
#include "run/setting.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number for a square, which older versions wrote, else "HxW". */
static json_t *size_to_json(const ls_size *size)
{
    return size->height == size->width
               ? json_integer(size->height)
               : json_sprintf("%lldx%lld", (long long)size->height, (long long)size->width);
}

static json_t *value_to_json(const ls_setting *setting, const void *values)
{
    const void *in = (const char *)values + setting->offset;
    switch (setting->kind) {
    case LS_SETTING_SWITCH: return json_boolean(*(const bool *)in);
    case LS_SETTING_INTEGER: return json_integer(*(const int64_t *)in);
    case LS_SETTING_SIZE: return size_to_json(in);
    case LS_SETTING_NUMBER: return json_real(*(const double *)in);
    case LS_SETTING_TEXT: {
        const char *text = *(const char *const *)in;
        return text ? json_string(text) : json_null();
    }
    case LS_SETTING_CHOICE: {
        int length;
        const char *word = ls__choice_word(setting->value, *(const int *)in, &length);
        return json_stringn(word, (size_t)length);
    }
    case LS_SETTING_HEADING:
    case LS_SETTING_END: break;
    }
    return NULL;
}

json_t *ls__settings_to_json(const ls_setting *table, const void *values)
{
    json_t *object = json_object();
    for (const ls_setting *setting = table; object && setting->kind != LS_SETTING_END; setting++) {
        if (setting->kind == LS_SETTING_HEADING) continue;
        if (json_object_set_new(object, setting->name, value_to_json(setting, values)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

json_t *ls__settings_computed(const ls_given *given)
{
    json_t *names = json_array();
    for (int i = 0; names && given->table[i].kind != LS_SETTING_END; i++) {
        const ls_setting *o = &given->table[i];
        const bool is_set = given->text[i] || given->preset[i];
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

/* Whether the stored value marks a setting that was not given and has no default in the table. */
static bool is_unset(const ls_setting *setting, const json_t *stored)
{
    const bool below = setting->min > 0 && json_is_number(stored) && json_number_value(stored) == 0;
    return !setting->fallback && setting->note && (json_is_null(stored) || below);
}

static bool value_from_json(const ls_setting *setting, const json_t *json, void *values)
{
    void *out = ls__setting_field(setting, values);
    switch (setting->kind) {
    case LS_SETTING_SWITCH: *(bool *)out = json_is_true(json); return json_is_boolean(json);
    case LS_SETTING_INTEGER: *(int64_t *)out = json_integer_value(json); break;
    case LS_SETTING_SIZE: {
        char expected[LS_EXPECTED_SIZE];
        const int64_t side = json_integer_value(json);
        *(ls_size *)out = (ls_size){ side, side };
        if (json_is_string(json))
            return ls_setting_read(setting, json_string_value(json), values, expected);
        break;
    }
    case LS_SETTING_NUMBER: *(double *)out = json_number_value(json); break;
    case LS_SETTING_TEXT:
        *(const char **)out = json_string_value(json);
        return json_is_string(json) || is_unset(setting, json);
    case LS_SETTING_CHOICE:
        *(int *)out =
            json_is_string(json) ? ls__setting_choice(setting->value, json_string_value(json)) : -1;
        return *(int *)out >= 0;
    case LS_SETTING_HEADING:
    case LS_SETTING_END: break;
    }
    const double x = json_number_value(json);
    const bool right =
        setting->kind == LS_SETTING_NUMBER ? json_is_number(json) : json_is_integer(json);
    return right && (is_unset(setting, json) || (x >= setting->min && x <= setting->max));
}

static bool same_value(const ls_setting *setting, const json_t *stored, const void *values)
{
    json_t *now = value_to_json(setting, values);
    const bool is_default = setting->implied && is_unset(setting, stored) &&
                            json_integer_value(now) == setting->implied;
    const bool same = now && (is_default || json_equal(now, stored));
    json_decref(now);
    return same;
}

/* As JSON text. To be freed; NULL without memory. */
static char *value_text(const json_t *value)
{
    LS__IN_C_LOCALE;
    return json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
}

static bool fail_changed(ls_context *ctx, const ls_setting *setting, const json_t *stored,
                         const char *source)
{
    char *text = value_text(stored);
    if (is_unset(setting, stored))
        ls__refuse(ctx, "--%s can't be changed on resume: the run has the default, %s (%s)",
                   setting->name, setting->note, source);
    else
        ls__refuse(ctx, "--%s can't be changed on resume: the run has %s (%s)", setting->name,
                   text ? text : "another value", source);
    free(text);
    return false;
}

static bool fail_unusable(ls_context *ctx, const ls_setting *setting, const json_t *stored,
                          const char *source)
{
    char expected[LS_EXPECTED_SIZE], *text = value_text(stored);
    ls_setting_expected(setting, expected, sizeof(expected));
    ls__refuse(ctx, "%s: option '%s': expected %s, got %s", source, setting->name, expected,
               text ? text : "another value");
    free(text);
    return false;
}

static bool resume_setting(ls_context *ctx, const ls_setting *setting, bool given,
                           const json_t *stored, const char *source, void *values)
{
    const json_t *json = json_object_get(stored, setting->name);
    if (setting->session || (!json && (!given || setting->execution))) return true;
    if (!json) /* a run of a version without the setting has the default */
        return ls__refuse(ctx,
                          "the run was started by a version without --%s, so --%s can't be used "
                          "on resume (%s)",
                          setting->name, setting->name, source);
    if (given && (setting->execution || setting->lasting)) return true;
    if (given && !same_value(setting, json, values))
        return fail_changed(ctx, setting, json, source);
    return value_from_json(setting, json, values) || fail_unusable(ctx, setting, json, source);
}

/* An unknown setting may have changed the result, so it is an error. */
static bool check_names(ls_context *ctx, const ls_setting *table, const json_t *stored,
                        const char *source)
{
    const char *name, *words[LS_MAX_SETTINGS];
    char hint[LS_HINT_SIZE];
    json_t *value;
    int n = 0;
    for (const ls_setting *s = table; s->kind != LS_SETTING_END; s++)
        if (s->name) words[n++] = s->name;
    json_object_foreach((json_t *)stored, name, value)
    {
        if (ls_setting_find(table, name, strlen(name)) < 0)
            return ls__refuse(ctx, "%s: unknown option '%s'%s", source, name,
                              ls_closest_hint(name, n, words, "", "", hint));
    }
    return true;
}

ls_status ls__settings_from_run(ls_context *ctx, const ls_setting *all, const json_t *stored,
                                const json_t *computed, const char *source, void *values,
                                ls_given *given)
{
    if (!check_names(ctx, all, stored, source)) return LS_ERR_SETTING;
    for (int i = 0; given->table[i].kind != LS_SETTING_END; i++) {
        const ls_setting *setting = &given->table[i];
        const json_t *json = setting->name ? json_object_get(stored, setting->name) : NULL;
        if (!json || setting->session || given->text[i]) continue;
        if (is_in(computed, setting->name)) continue;
        if (!value_from_json(setting, json, values)) {
            fail_unusable(ctx, setting, json, source);
            return LS_ERR_SETTING;
        }
        given->preset[i] = true;
    }
    given->run_file = source;
    return LS_OK;
}

ls_status ls__settings_resume(ls_context *ctx, const ls_given *given, const json_t *stored,
                              const char *source, void *values)
{
    if (!check_names(ctx, given->table, stored, source)) return LS_ERR_SETTING;
    for (int i = 0; given->table[i].kind != LS_SETTING_END; i++)
        if (given->table[i].kind != LS_SETTING_HEADING &&
            !resume_setting(ctx, &given->table[i], given->text[i] != NULL, stored, source, values))
            return LS_ERR_SETTING;
    return LS_OK;
}

json_t *ls__settings_changed(const ls_setting *table, const json_t *stored, const void *values)
{
    json_t *out = json_array();
    for (const ls_setting *setting = table; out && setting->kind != LS_SETTING_END; setting++) {
        json_t *was = json_object_get(stored, setting->name);
        /* A run of a version without the setting has the default; another one was refused. */
        if (!setting->lasting || !was || same_value(setting, was, values)) continue;
        json_t *change = json_pack("{s:s, s:O, s:o}", "option", setting->name, "there", was, "here",
                                   value_to_json(setting, values));
        if (json_array_append_new(out, change) == 0) continue;
        json_decref(out);
        out = NULL;
    }
    return out;
}
