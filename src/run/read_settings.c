/* read_settings.c: settings that programs give as texts "name=value"; see setting.h. The table is
 * that of a run, or another one that has some of its rows. */
#include "run/setting.h"

#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether it is one of the command alone: for others the folder is an argument. */
static bool is_of_command(const ls_setting *setting)
{
    return setting->name &&
           (strcmp(setting->name, "out") == 0 || strcmp(setting->name, "resume") == 0);
}

static ls_status fail_unknown(ls_context *ctx, const ls_setting *table, const char *text,
                              size_t length)
{
    ls_setting others[LS_MAX_SETTINGS + 1]; /* without those of the command */
    char name[64], hint[LS_HINT_SIZE];
    int n = 0;
    for (; table->kind != LS_SETTING_END && n < LS_MAX_SETTINGS; table++)
        if (!is_of_command(table)) others[n++] = *table;
    others[n] = (ls_setting){ .kind = LS_SETTING_END };
    snprintf(name, sizeof(name), "%.*s", (int)length, text);
    return ls__fail(ctx, LS_ERR_SETTING, "unknown setting '%s'%s", name,
                    ls_setting_hint(others, name, "", "", hint));
}

/* Reads "name=value", which stays borrowed. */
static ls_status read_setting(ls_context *ctx, ls_given *given, const char *text, void *values)
{
    const size_t length = strcspn(text, "=");
    const char *value = text[length] ? text + length + 1 : "";
    const int i = ls_setting_find(given->table, text, length);
    if (i < 0) return fail_unknown(ctx, given->table, text, length);
    const ls_setting *setting = &given->table[i];
    if (is_of_command(setting))
        return ls__fail(ctx, LS_ERR_SETTING,
                        "--%s is an option of the command: the folder is an argument of the call",
                        setting->name);
    if (given->text[i]) return ls__fail(ctx, LS_ERR_SETTING, "--%s is given twice", setting->name);
    if (setting->kind == LS_SETTING_SWITCH && text[length] && !*value)
        return ls__fail(ctx, LS_ERR_SETTING, "--%s: expected true or false, got ''", setting->name);
    LS_TRY(ls__setting_set(ctx, setting, value, values));
    given->text[i] = value;
    return LS_OK;
}

ls_status ls__settings_read(ls_context *ctx, const ls_setting *table, const char *const *settings,
                            char ***texts, void *values, ls_given *given)
{
    int n = 0;
    *given = (ls_given){ .table = table };
    ls_settings_default(table, values);
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
