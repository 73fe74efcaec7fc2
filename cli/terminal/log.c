/* log.c: which messages of the library and the command are printed; see cli.h. */
#include "cli.h"
#include "terminal/progress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_LEVELS = 3, N_CATEGORIES = 5, COMMAND = N_CATEGORIES - 1 };

typedef enum print_level { LEVEL_ERROR, LEVEL_WARN, LEVEL_INFO } print_level;

static const char *const level_names[N_LEVELS] = { "error", "warn", "info" };
/* In the order of ls_log_category, then that of the command's own warnings. */
static const char *const category_names[N_CATEGORIES] = { "context", "data", "net", "run",
                                                          "command" };

static print_level levels[N_CATEGORIES] = { LEVEL_WARN, LEVEL_WARN, LEVEL_WARN, LEVEL_WARN,
                                            LEVEL_WARN };

/* The index of a name, or -1 after an error. */
static int find(const char *what, const char *name, int n, const char *const *names,
                const char *expected)
{
    char hint[LS_HINT_SIZE];
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return i;
    return fail_with(-1, "LOCKSTEP_LOG: unknown %s '%s'%s", what, name,
                     ls_closest_hint(name, n, names, "", expected, hint));
}

/* "info" or "net=info" */
static bool read_item(char *item)
{
    char *equals = strchr(item, '=');
    if (equals) *equals = '\0';
    const int category = equals ? find("category", item, N_CATEGORIES, category_names,
                                       "; expected context, data, net, run or command")
                                : 0;
    if (category < 0) return false;
    const int chosen = find("level", equals ? equals + 1 : item, N_LEVELS, level_names,
                            "; expected error, warn or info");
    if (chosen < 0) return false;
    for (int i = 0; i < N_CATEGORIES; i++)
        if (!equals || i == category) levels[i] = (print_level)chosen;
    return true;
}

bool log_levels_read(const char *text)
{
    while (text && *text) {
        char item[64];
        const size_t n = strcspn(text, ",");
        if (n >= sizeof(item)) return fail_with(false, "LOCKSTEP_LOG: '%s' is too long", text);
        memcpy(item, text, n);
        item[n] = '\0';
        if (!read_item(item)) return false;
        text += n + (text[n] == ',');
    }
    set_print_warnings(levels[COMMAND] >= LEVEL_WARN);
    return true;
}

void print_log(void *user, ls_log_level level, ls_log_category category, const char *message)
{
    (void)user;
    const bool is_warning = level == LS_LOG_WARNING;
    if (print_is_muted(stderr)) return;
    if (level == LS_LOG_NOTE) {
        print_note("%s", ls_plain_message(message));
        return;
    }
    if (levels[category] < (is_warning ? LEVEL_WARN : LEVEL_INFO)) return;
    if (print_is_quiet()) {
        char *text;
        if (asprintf(&text, "%s: %s", is_warning ? "warning" : category_names[category],
                     ls_plain_message(message)) < 0)
            return;
        print_copy_line(text);
        free(text);
        return;
    }
    if (isatty(STDERR_FILENO)) progress_erase();
    /* as an argument, because the level of the command's own warnings does not apply */
    print_message("%s: %s", is_warning ? "warning" : category_names[category],
                  ls_plain_message(message));
}
