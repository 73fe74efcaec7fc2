/* read_settings.c: see read_settings.h. */
#include "run/read_settings.h"

#include "base/error.h"
#include "run/closest.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(LS_SETTING_CHOICE == (int)LS__SETTING_CHOICE - (int)LS__SETTING_SWITCH,
               "the public kinds are those of the table");

/* Those of the command alone: the folder is an argument of calls. */
static bool is_of_command(const ls__setting *setting)
{
    return strcmp(setting->name, "out") == 0 || strcmp(setting->name, "resume") == 0;
}

bool ls__setting_at(const ls__setting *table, int i, ls_setting *out)
{
    const ls__setting *s = table;
    for (; i >= 0 && s->kind != LS__SETTING_END; s++) {
        if (s->kind == LS__SETTING_HEADING || is_of_command(s) || i-- > 0) continue;
        *out = (ls_setting){ .kind = (ls_setting_kind)(s->kind - LS__SETTING_SWITCH),
                             .name = s->name,
                             .help = s->help,
                             .expected = s->value,
                             .fallback = s->fallback,
                             .note = s->note,
                             .min = s->min,
                             .max = s->max,
                             .execution = s->execution,
                             .lasting = s->lasting };
        return true;
    }
    return false;
}

static ls_status fail_unknown(ls_context *ctx, const ls__setting *table, const char *text,
                              size_t length)
{
    const char *words[LS__MAX_SETTINGS];
    char name[64], hint[LS__HINT_SIZE];
    int n = 0;
    for (const ls__setting *s = table; s->kind != LS__SETTING_END; s++)
        if (s->name && !is_of_command(s)) words[n++] = s->name;
    snprintf(name, sizeof(name), "%.*s", (int)length, text);
    return ls__fail(ctx, LS_ERR_SETTING, "unknown setting '%s'%s", name,
                    ls__closest_hint(name, n, words, "", "", hint));
}

/* Reads "name=value", which stays borrowed. */
static ls_status read_setting(ls_context *ctx, ls__given *given, const char *text, void *values)
{
    char expected[LS__EXPECTED_SIZE];
    const size_t length = strcspn(text, "=");
    const char *value = text[length] ? text + length + 1 : "";
    const int i = ls__setting_find(given->table, text, length);
    if (i < 0) return fail_unknown(ctx, given->table, text, length);
    const ls__setting *setting = &given->table[i];
    if (is_of_command(setting))
        return ls__fail(ctx, LS_ERR_SETTING,
                        "--%s is an option of the command: the folder is an argument of the call",
                        setting->name);
    if (given->text[i]) return ls__fail(ctx, LS_ERR_SETTING, "--%s is given twice", setting->name);
    ls__setting_expected(setting, expected, sizeof(expected));
    const bool is_empty_switch = setting->kind == LS__SETTING_SWITCH && text[length] && !*value;
    if (is_empty_switch || !ls__setting_read(setting, value, values, expected))
        return ls__fail(ctx, LS_ERR_SETTING, "--%s: expected %s, got '%s'", setting->name, expected,
                        value);
    given->text[i] = value;
    return LS_OK;
}

ls_status ls__settings_read(ls_context *ctx, const ls__setting *table, const char *const *settings,
                            char ***texts, void *values, ls__given *given)
{
    int n = 0;
    *given = (ls__given){ .table = table };
    ls__settings_default(table, values);
    while (settings && settings[n]) n++;
    *texts = calloc((size_t)n + 1, sizeof(**texts));
    if (!*texts) return ls__fail_memory(ctx, "settings", 0);
    for (int i = 0; i < n; i++) {
        (*texts)[i] = strdup(settings[i]);
        if (!(*texts)[i]) return ls__fail_memory(ctx, "settings", strlen(settings[i]));
        LS_TRY(read_setting(ctx, given, (*texts)[i], values));
    }
    return LS_OK;
}

void ls__settings_free_texts(char **texts)
{
    for (int i = 0; texts && texts[i]; i++) free(texts[i]);
    free(texts);
}
