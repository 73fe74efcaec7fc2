/* option_table.c: the options of all commands, and which option was meant; see options.h. */
#include "options/options.h"
#include "terminal/print.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options of all commands ---- */

#define AT(member) offsetof(common_values, member)

const ls__setting common_options[] = {
    { LS__SETTING_HEADING, .help = "General:" },
    { LS__SETTING_TEXT, 0, "config", AT(config),
      "read options from a file with lines 'key = value', such as 'epochs = 30'; the command line "
      "takes precedence",
      "FILE", .note = "none", .usual = true },
    { LS__SETTING_SWITCH, 'q', "quiet", AT(quiet), "print only errors and results", .usual = true },
    { LS__SETTING_SWITCH, 'h', "help", AT(help), "show the usual options", .usual = true },
    { LS__SETTING_SWITCH, 0, "help-all", AT(help_all), "show all options", .usual = true },
    { .kind = LS__SETTING_END },
};

/* ---- Names ---- */

const char *option_hint(const ls__setting *options, const char *name, const char *dashes,
                        const char *otherwise, char out[LS__HINT_SIZE])
{
    enum { N_TABLES = 2 };
    const char *meant = ls__setting_meant(options, name);
    if (meant) {
        snprintf(out, LS__HINT_SIZE, "; did you mean '%s%s'?", dashes, meant);
        return out;
    }
    const ls__setting *const tables[N_TABLES] = { options, common_options };
    const char *words[N_TABLES * LS__MAX_SETTINGS];
    int n = 0;
    for (int i = 0; i < (*dashes ? N_TABLES : 1); i++)
        for (const ls__setting *o = tables[i]; o->kind != LS__SETTING_END; o++)
            if (o->name) words[n++] = o->name;
    return ls__closest_hint(name, n, words, dashes, otherwise, out);
}
