/* fuzz_command_line.c: command lines, words with zero bytes between them, the first one the
 * command. Nothing is run. Values that are accepted come back from the JSON that a run keeps of
 * them. */
#include "fuzz.h"

#include "cli.h"
#include "run/setting.h"
#include "run/settings.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 64, VALUES_SIZE = 4096 };

static const cli_command *const commands[] = {
    &command_train, &command_eval,    &command_predict, &command_describe,  &command_compare,
    &command_repro, &command_pack,    &command_export,  &command_demo_data, &command_augment,
    &command_check, &command_lr_find, &command_report
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

/* Of any command. */
typedef union values {
    ls__run_settings settings;
    uint8_t bytes[VALUES_SIZE];
} values;

static void check_json(const ls_setting *options, const values *parsed)
{
    static values again;
    const ls_given none = { .table = options };
    memset(&again, 0, sizeof(again));
    json_t *json = ls__settings_to_json(options, parsed);
    char *text = json_dumps(json, JSON_REAL_PRECISION(15));
    json_t *stored = json_loads(text, 0, NULL);
    FUZZ_CHECK(ls__settings_resume(fuzz_context(), &none, stored, "a run", &again) == LS_OK);
    json_t *json_again = ls__settings_to_json(options, &again);
    for (const ls_setting *o = options; o->kind != LS_SETTING_END; o++)
        if (o->session) {
            json_object_del(json, o->name);
            json_object_del(json_again, o->name);
        }
    FUZZ_CHECK(json_equal(json, json_again));
    json_decref(json_again);
    json_decref(stored);
    free(text);
    json_decref(json);
}

/* The rows of the table whose values are stored. */
static void check_own(const ls_setting *table, const values *parsed)
{
    ls_setting own[LS_MAX_SETTINGS + 1];
    int n = 0;
    for (; table->kind != LS_SETTING_END; table++)
        if (table->offset != LS_SETTING_UNSTORED) own[n++] = *table;
    own[n] = (ls_setting){ .kind = LS_SETTING_END };
    check_json(own, parsed);
}

/* The settings of a run, which the command passes on as texts. */
static void check_run(const ls_given *given)
{
    static values in;
    ls_context *ctx = fuzz_context();
    char *list[LS_MAX_SETTINGS + 1] = { NULL }, **texts = NULL;
    ls_given read;
    int n = 0;
    for (int i = 0; given->table[i].kind != LS_SETTING_END; i++) {
        const char *name = given->table[i].name, *text = given->text[i];
        if (!text || strcmp(name, "out") == 0 || strcmp(name, "resume") == 0) continue;
        FUZZ_CHECK(asprintf(&list[n++], *text ? "%s=%s" : "%s", name, text) > 0);
    }
    memset(&in, 0, sizeof(in));
    FUZZ_CHECK(ls__settings_read(ctx, ls__run_settings_table, (const char *const *)list, &texts,
                                 &in.settings, &read) == LS_OK);
    check_json(ls__run_settings_table, &in);
    if (ls__run_settings_resolve(ctx, &read, NULL, &in.settings) == LS_OK)
        check_json(ls__run_settings_table, &in);
    ls_context_clear_error(ctx);
    ls__settings_free_texts(texts);
    while (n > 0) free(list[--n]);
}

static void parse(const cli_command *command, int n, char **words)
{
    static values in;
    memset(&in, 0, sizeof(in));
    FUZZ_CHECK(command->values_bytes <= VALUES_SIZE);
    cli_parsed parsed;
    if (options_parse(command, n, words, &in, &parsed) >= 0) return;
    check_own(parsed.set.table, &in);
    if (command == &command_train) check_run(&parsed.set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *words[MAX_WORDS];
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    int n = 0;
    for (char *at = text; at < text + size && n < MAX_WORDS; at += strlen(at) + 1) words[n++] = at;
    for (int i = 0; i < N_COMMANDS && n > 0; i++)
        if (strcmp(words[0], commands[i]->name) == 0) parse(commands[i], n - 1, words + 1);
    free(text);
    return 0;
}
