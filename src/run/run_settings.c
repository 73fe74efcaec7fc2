/* run_settings.c: how a run gets its settings, and the values that programs read; see
 * lockstep/run.h. */
#include "run/run_state.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

const ls_setting *ls_run_settings(void)
{
    return ls__run_settings_table;
}

/* ---- Settings that a command line gave ---- */

/* The rows of the run's table that the other table has by name, too. */
static ls_setting *common_rows(const ls_setting *other)
{
    int n = 0;
    ls_setting *rows = calloc(LS_MAX_SETTINGS + 1, sizeof(*rows));
    for (const ls_setting *s = ls__run_settings_table; rows && s->kind != LS_SETTING_END; s++)
        if (s->name && ls_setting_find(other, s->name, strlen(s->name)) >= 0) rows[n++] = *s;
    return rows;
}

static ls_status read_given(ls_run *t, const ls_given *from)
{
    if (!from->table) return ls__fail(t->ctx, LS_ERR_INVALID, "ls_run_open: given has no table");
    t->own_table = common_rows(from->table);
    if (!t->own_table) return ls__fail_memory(t->ctx, "settings", 0);
    t->given = (ls_given){ .table = t->own_table };
    for (int i = 0; t->own_table[i].kind != LS_SETTING_END; i++) {
        const ls_setting *setting = &t->own_table[i];
        const int k = ls_setting_find(from->table, setting->name, strlen(setting->name));
        /* A default of the command's own row takes the place of the run's. */
        const char *text = from->text[k] ? from->text[k] : from->table[k].fallback;
        const bool is_own = from->table[k].offset != LS_SETTING_UNSTORED;
        if (strcmp(setting->name, "resume") == 0 || is_own || !text) continue;
        LS_TRY(ls__setting_set(t->ctx, setting, text, &t->values));
        t->given.text[i] = from->text[k];
        t->given.in_file[i] = from->in_file[k];
    }
    return ls__given_import_run(t->ctx, ls__run_settings_table, from, &t->values, &t->given);
}

ls_status ls__run_read_settings(ls_run *t, const ls_run_config *config)
{
    if (!config->given)
        return ls__settings_read(t->ctx, ls__run_settings_table, config->settings, &t->texts,
                                 &t->values, &t->given);
    ls_settings_default(ls__run_settings_table, &t->values);
    return read_given(t, config->given);
}

bool ls__run_is_of_command(const ls_run *t)
{
    return t->own_table != NULL;
}

void ls__run_free_settings(ls_run *t)
{
    ls__settings_free_texts(t->texts);
    for (int i = 0; i < LS_MAX_SETTINGS; i++) free(t->words[i]);
    free(t->own_table);
}

/* ---- Values ---- */

ls_status ls__run_keep_words(ls_run *t)
{
    int i = 0;
    for (const ls_setting *s = ls__run_settings_table; s->kind != LS_SETTING_END; s++, i++) {
        if (s->kind != LS_SETTING_CHOICE) continue;
        int length;
        const int *value = ls__setting_field(s, &t->values);
        const char *word = ls__choice_word(s->value, *value, &length);
        t->words[i] = strndup(word, (size_t)length);
        if (!t->words[i]) return ls__fail_memory(t->ctx, "settings", 0);
    }
    return LS_OK;
}

/* The index of a setting with a value, or -1. */
static int find_setting(const ls_run *run, const char *name)
{
    return run && name ? ls_setting_find(ls__run_settings_table, name, strlen(name)) : -1;
}

double ls_run_number(const ls_run *run, const char *name)
{
    const int i = find_setting(run, name);
    if (i < 0) return 0;
    const ls_setting *setting = &ls__run_settings_table[i];
    const void *value = (const char *)run->settings + setting->offset;
    switch (setting->kind) {
    case LS_SETTING_SWITCH: return *(const bool *)value;
    case LS_SETTING_INTEGER: return (double)*(const int64_t *)value;
    case LS_SETTING_SIZE: return (double)((const ls_size *)value)->height;
    case LS_SETTING_NUMBER: return *(const double *)value;
    case LS_SETTING_CHOICE: return *(const int *)value;
    case LS_SETTING_TEXT:
    case LS_SETTING_HEADING:
    case LS_SETTING_END: break;
    }
    return 0;
}

const char *ls_run_text(const ls_run *run, const char *name)
{
    const int i = find_setting(run, name);
    if (i < 0) return NULL;
    const ls_setting *setting = &ls__run_settings_table[i];
    const void *value = (const char *)run->settings + setting->offset;
    return setting->kind == LS_SETTING_TEXT ? *(const char *const *)value : run->words[i];
}

bool ls_run_preset_at(const ls_run *run, int i, const char **name, const char **value)
{
    return run && run->given.table &&
           ls__run_settings_preset_at(&run->given, run->settings, i, name, value);
}

bool ls_run_can_be_extended(const ls_run *run)
{
    return run && ls__run_can_be_extended(run->settings);
}
