/* setting_texts.c: see setting_texts.h. */
#include "options/setting_texts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --lr and --lr-per-256 exclude each other; that of the command line replaces that of a file. */
static bool is_replaced(const ls_given *given, int i)
{
    const char *name = given->table[i].name;
    const char *other = strcmp(name, "lr") == 0           ? "lr-per-256"
                        : strcmp(name, "lr-per-256") == 0 ? "lr"
                                                          : NULL;
    const int k = other ? ls_setting_find(given->table, other, strlen(other)) : -1;
    return k >= 0 && given->in_file[i] && given->text[k] && !given->in_file[k];
}

char **setting_texts_make(const ls_given *given)
{
    int n = 0;
    char **texts = calloc(LS_MAX_SETTINGS + 1, sizeof(*texts));
    for (int i = 0; texts && given->table[i].kind != LS_SETTING_END; i++) {
        const char *name = given->table[i].name, *text = given->text[i];
        if (!text || strcmp(name, "out") == 0 || is_replaced(given, i)) continue;
        if (asprintf(&texts[n++], "%s%s%s", name, *text ? "=" : "", text) < 0) {
            texts[n - 1] = NULL;
            setting_texts_free(texts);
            return NULL;
        }
    }
    return texts;
}

void setting_texts_free(char **texts)
{
    for (int i = 0; texts && texts[i]; i++) free(texts[i]);
    free(texts);
}
