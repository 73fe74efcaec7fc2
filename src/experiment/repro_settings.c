/* repro_settings.c: the table of the settings of an experiment; see repro_state.h. */
#include "experiment/repro_state.h"

#include <pthread.h>
#include <string.h>

#define AT(member) offsetof(ls__repro_values, member)

static const ls_setting own_settings[] = {
    { LS_SETTING_HEADING, .help = "Experiment:" },
    { LS_SETTING_TEXT, 'j', "workers", AT(workers), "numbers of data-loader workers to compare",
      "N,N,...", .fallback = "0,1,2,4,8", .usual = true },
    { LS_SETTING_TEXT, 0, "threads", AT(threads),
      "numbers of compute threads to compare, in all combinations with --workers", "N,N,...",
      .fallback = "1,2,3,4", .usual = true },
    { LS_SETTING_TEXT, 0, "ranks", AT(ranks),
      "numbers of ranks to compare, in all combinations; processes that mpirun starts, at most as "
      "many as --shards",
      "N,N,...", .fallback = "1", .usual = true },
    { LS_SETTING_INTEGER, 0, "restart", AT(restarts),
      "train each combination once more, interrupted N times and resumed with other numbers of "
      "workers, threads and ranks",
      "N", 0, LS__REPRO_MAX_RESTARTS, .fallback = "0", .usual = true },
    { LS_SETTING_INTEGER, 0, "steps", AT(settings.steps), "steps of each run", "N", 1, 1e6,
      .fallback = "60", .usual = true },
    { LS_SETTING_TEXT, 0, "out", AT(settings.out), "new folder for the experiment", "DIR",
      .note = "repro, or repro-2, repro-3, ...", .usual = true },
};
enum { N_OWN = sizeof(own_settings) / sizeof(own_settings[0]) };

/* Settings of a run that the experiment sets or that have no effect in it. */
static bool is_taken(const ls_setting *setting)
{
    static const char *const names[] = { "workers", "threads",  "steps", "stop-at",     "out",
                                         "resume",  "patience", "force", "inject-fault" };
    for (size_t i = 0; setting->name && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(setting->name, names[i]) == 0) return true;
    return false;
}

static ls_setting table[LS_MAX_SETTINGS + 1];

static void make_table(void)
{
    int n = N_OWN;
    memcpy(table, own_settings, sizeof(own_settings));
    for (const ls_setting *s = ls__run_settings_table;
         s->kind != LS_SETTING_END && n < LS_MAX_SETTINGS; s++)
        if (!is_taken(s)) table[n++] = *s;
    table[n] = (ls_setting){ .kind = LS_SETTING_END };
}

const ls_setting *ls_repro_settings(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_table);
    return table;
}

void ls__repro_put_settings(const ls_repro *r, bool of_runs, ls__words *words)
{
    for (int i = of_runs ? N_OWN : 0; table[i].kind != LS_SETTING_END; i++) {
        const char *value = r->given.text[i];
        if (value) ls__words_put(words, "--%s%s%s", table[i].name, *value ? "=" : "", value);
    }
}
