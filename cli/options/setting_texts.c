/* setting_texts.c: see setting_texts.h. */
#include "options/setting_texts.h"
#include "terminal/print.h"
#include <stdlib.h>
#include <string.h>

/* --lr and --lr-per-256 exclude each other; that of the command line replaces that of a file. */
static bool is_replaced(const ls__given *given, int i)
{
    const char *name = given->table[i].name;
    const char *other = strcmp(name, "lr") == 0           ? "lr-per-256"
                        : strcmp(name, "lr-per-256") == 0 ? "lr"
                                                          : NULL;
    const int k = other ? ls__setting_find(given->table, other, strlen(other)) : -1;
    return k >= 0 && given->in_file[i] && given->text[k] && !given->in_file[k];
}

static char **make_texts(const ls__given *given, const char *apart, const char **value)
{
    int n = 0;
    char **texts = calloc(LS__MAX_SETTINGS + 1, sizeof(*texts));
    for (int i = 0; texts && given->table[i].kind != LS__SETTING_END; i++) {
        const char *name = given->table[i].name, *text = given->text[i];
        if (!text || is_replaced(given, i)) continue;
        if (strcmp(name, apart) == 0) {
            *value = text;
        } else if (asprintf(&texts[n++], "%s%s%s", name, *text ? "=" : "", text) < 0) {
            texts[n - 1] = NULL;
            setting_texts_free(texts);
            return NULL;
        }
    }
    return texts;
}

int setting_texts_parse(const cli_command *command, int argc, char **argv, const char *apart,
                        const char **value, char ***texts)
{
    ls__setting table[LS__MAX_SETTINGS + 1];
    cli_command made = *command;
    cli_parsed parsed;
    made.options = command_options(command, table);
    size_t size = 0; /* of the values, which only have to be checked */
    for (const ls__setting *o = made.options; o->kind != LS__SETTING_END; o++)
        if (o->offset + sizeof(ls__size) > size) size = o->offset + sizeof(ls__size);
    void *values = calloc(1, size);
    *value = NULL;
    *texts = NULL;
    int ended = values ? options_parse(&made, argc, argv, values, &parsed) : EXIT_RUNTIME;
    if (values && ended < 0) *texts = make_texts(&parsed.set, apart, value);
    free(values);
    if (!values || (ended < 0 && !*texts)) ended = fail_with(EXIT_RUNTIME, "out of memory");
    return ended;
}

void setting_texts_free(char **texts)
{
    for (int i = 0; texts && texts[i]; i++) free(texts[i]);
    free(texts);
}

const char *setting_text_value(char *const *texts, const char *name)
{
    const size_t n = strlen(name);
    for (; *texts; texts++)
        if (strncmp(*texts, name, n) == 0 && (*texts)[n] == '=') return *texts + n + 1;
    return NULL;
}
