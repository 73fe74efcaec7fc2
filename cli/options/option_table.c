/* option_table.c: the options of all commands, and the table of one; see options.h. */
#include "options/options.h"
#include "terminal/print.h"
#include <assert.h>
#include <lockstep/run.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options of all commands ---- */

const ls_setting common_options[] = {
    { LS_SETTING_HEADING, .help = "General:" },
    { LS_SETTING_TEXT, 0, "config", LS_SETTING_UNSTORED,
      "read options from a file with lines 'key = value', such as 'epochs = 30'; the command line "
      "takes precedence",
      "FILE", .note = "none", .usual = true },
    { LS_SETTING_SWITCH, 'q', "quiet", LS_SETTING_UNSTORED, "print only errors and results",
      .usual = true },
    { LS_SETTING_SWITCH, 'h', "help", LS_SETTING_UNSTORED, "show the usual options",
      .usual = true },
    { LS_SETTING_SWITCH, 0, "help-all", LS_SETTING_UNSTORED, "show all options", .usual = true },
    { .kind = LS_SETTING_END },
};

/* ---- The table of a command ---- */

/* Both texts as one, which is static. */
static const char *join_texts(const char *before, const char *text)
{
    enum { MAX_TEXTS = 32, TEXT_SIZE = 320 };
    static char texts[MAX_TEXTS][TEXT_SIZE];
    char joined[TEXT_SIZE];
    int i = 0;
    snprintf(joined, sizeof(joined), "%s%s", before, text);
    while (i < MAX_TEXTS - 1 && *texts[i] && strcmp(texts[i], joined) != 0) i++;
    assert(!*texts[i] || strcmp(texts[i], joined) == 0);
    strcpy(texts[i], joined);
    return texts[i];
}

/* A row of LIKE_RUN, which has no `value`, becomes that of the run's table. */
static ls_setting complete_row(const ls_setting *own)
{
    const ls_setting *settings = ls_run_settings();
    if (own->kind != LS_SETTING_TEXT || own->value) return *own;
    const int i = ls_setting_find(settings, own->name, strlen(own->name));
    assert(i >= 0);
    ls_setting row = settings[i];
    row.offset = own->offset;
    row.letter = '\0';
    row.usual = false;
    if (own->help) row.help = join_texts(own->help, row.help);
    return row;
}

static void add_settings(const cli_command *command, int n, ls_setting out[LS_MAX_SETTINGS + 1])
{
    const ls_setting *heading = NULL; /* of the section, until it has an option here */
    const int n_own = n;
    for (const ls_setting *s = command->settings(); s->kind != LS_SETTING_END; s++) {
        if (n >= LS_MAX_SETTINGS - 1) {
            print_warning("options from --%s on are left out: LS_MAX_SETTINGS is %d",
                          s->name ? s->name : s[1].name, (int)LS_MAX_SETTINGS);
            break;
        }
        if (s->kind == LS_SETTING_HEADING) heading = s;
        if (s->kind == LS_SETTING_HEADING || (command->selects && !command->selects(s))) continue;
        bool is_own = false;
        for (int i = 0; i < n_own; i++) is_own |= out[i].name && strcmp(out[i].name, s->name) == 0;
        if (is_own) continue;
        if (heading) out[n++] = *heading;
        heading = NULL;
        out[n] = *s;
        out[n++].offset = LS_SETTING_UNSTORED;
    }
    out[n] = (ls_setting){ .kind = LS_SETTING_END };
}

void command_options(const cli_command *command, ls_setting out[LS_MAX_SETTINGS + 1])
{
    int n = 0;
    for (int i = 0; i < 2; i++)
        for (const ls_setting *own = i ? command->options : command->shared;
             own && own->kind != LS_SETTING_END; own++)
            out[n++] = complete_row(own);
    out[n] = (ls_setting){ .kind = LS_SETTING_END };
    if (command->settings) add_settings(command, n, out);
}

const char *command_details(const cli_command *command, char out[DETAILS_SIZE])
{
    char list[DETAILS_SIZE / 2] = "";
    size_t n = 0;
    const char *mark = strstr(command->details, "%s");
    if (!mark) return command->details;
    for (const ls_setting *s = ls_run_settings(); s->kind != LS_SETTING_END && n < sizeof(list);
         s++)
        if ((s->execution || s->lasting) && strcmp(s->name, "out") != 0 &&
            strcmp(s->name, "resume") != 0)
            n += (size_t)snprintf(list + n, sizeof(list) - n, "%s--%s", n ? ", " : "", s->name);
    snprintf(out, DETAILS_SIZE, "%.*s%s%s", (int)(mark - command->details), command->details, list,
             mark + 2);
    return out;
}

int all_options(const cli_command *command, ls_setting out[LS_MAX_SETTINGS + 1])
{
    int n = 0;
    command_options(command, out);
    while (out[n].kind != LS_SETTING_END) n++;
    const int n_own = n;
    for (const ls_setting *s = common_options; n < LS_MAX_SETTINGS; s++) {
        out[n++] = *s;
        if (s->kind == LS_SETTING_END) break;
    }
    out[LS_MAX_SETTINGS].kind = LS_SETTING_END;
    return n_own;
}

const char *given_text(const cli_parsed *parsed, const char *name)
{
    const int i = ls_setting_find(parsed->set.table, name, strlen(name));
    return i < 0 ? NULL : parsed->set.text[i];
}

char **given_texts(const ls_given *given)
{
    int n = 0;
    char **texts = calloc(LS_MAX_SETTINGS + 1, sizeof(*texts));
    for (int i = 0; texts && given->table[i].kind != LS_SETTING_END; i++) {
        const char *name = given->table[i].name, *text = given->text[i];
        if (!text || strcmp(name, "out") == 0) continue;
        if (asprintf(&texts[n++], "%s%s%s", name, *text ? "=" : "", text) < 0) {
            texts[n - 1] = NULL;
            free_texts(texts);
            return NULL;
        }
    }
    return texts;
}

void free_texts(char **texts)
{
    for (int i = 0; texts && texts[i]; i++) free(texts[i]);
    free(texts);
}
