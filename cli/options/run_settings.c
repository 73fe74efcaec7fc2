/* run_settings.c: see run_settings.h. */
#include "options/run_settings.h"
#include <stdlib.h>
#include <string.h>

void select_run_settings(const ls__setting *own, bool (*selects)(const ls__setting *setting),
                         ls__setting out[LS__MAX_SETTINGS + 1])
{
    const ls__setting *heading = NULL; /* of the section, until it has an option here */
    int n = 0;
    for (; own->kind != LS__SETTING_END; own++) out[n++] = *own;
    for (const ls__setting *o = ls__run_settings_table; o->kind != LS__SETTING_END; o++) {
        if (n >= LS__MAX_SETTINGS - 1) {
            print_warning("options from --%s on are left out: LS__MAX_SETTINGS is %d",
                          o->name ? o->name : o[1].name, (int)LS__MAX_SETTINGS);
            break;
        }
        if (o->kind == LS__SETTING_HEADING) heading = o;
        if (o->kind == LS__SETTING_HEADING || !selects(o)) continue;
        if (heading) out[n++] = *heading;
        heading = NULL;
        out[n++] = *o;
    }
    out[n] = (ls__setting){ .kind = LS__SETTING_END };
}

/* One that was closed, for the next call: opening one takes a tenth of a millisecond. */
static ls_context *spare;

static void close_spare(void)
{
    ls_context_close(&spare);
}

ls_context *open_error_context(void)
{
    static bool is_registered;
    ls_context *ctx = spare;
    spare = NULL;
    if (ctx) return ctx;
    if (!is_registered) is_registered = atexit(close_spare) == 0;
    return ls_context_open(&(ls_context_config){ .threads = 1, .log = print_log });
}

int close_error_context(ls_context *ctx)
{
    int exit_status = EXIT_DONE;
    if (ls_context_status(ctx) != LS_OK) exit_status = print_error(ctx, EXIT_RUNTIME);
    if (spare || ls_context_status(ctx) != LS_OK)
        ls_context_close(&ctx);
    else
        spare = ctx;
    return exit_status;
}

static void print_preset(const cli_parsed *parsed, const ls__run_settings *r)
{
    const char *name, *value;
    if (print_is_quiet() || !ls__given_has(&parsed->set, "recipe")) return;
    field_line line = begin_fields(stdout);
    const int recipe = ls__setting_find(parsed->set.table, "recipe", strlen("recipe"));
    print_field(&line, "recipe  %s", parsed->set.text[recipe]);
    for (int i = 0; ls__run_settings_preset_at(&parsed->set, r, i, &name, &value); i++)
        print_field(&line, "--%s%s%s", name, *value ? " " : "", value);
    end_fields(&line);
}

int resolve_run_settings(cli_parsed *parsed, ls__run_settings *r)
{
    ls_context *ctx = open_error_context();
    ls__run_settings_resolve(ctx, &parsed->set, NULL, r);
    const int exit_status = close_error_context(ctx);
    if (exit_status == EXIT_DONE) print_preset(parsed, r);
    return exit_status;
}

const ls_model *find_model(const char *name)
{
    ls_context *ctx = open_error_context();
    const ls_model *model = ls__find_model(ctx, name);
    close_error_context(ctx);
    return model;
}

bool check_resnet_options(const cli_parsed *parsed, const ls_model *model)
{
    ls_context *ctx = open_error_context();
    ls__check_resnet_settings(ctx, &parsed->set, model);
    return close_error_context(ctx) == EXIT_DONE;
}
