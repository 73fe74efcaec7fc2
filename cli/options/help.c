/* help.c: --help and --help-all from a command's table of options; see options.h. */
#include "options/options.h"
#include "terminal/print.h"
#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 28 };

/* "cosine, constant, step" from "cosine|constant|step" */
static void list_choices(const char *choices, char *out, size_t size)
{
    size_t n = 0;
    for (const char *c = choices; *c && n < size; c++)
        n += (size_t)snprintf(out + n, size - n, "%s", *c == '|' ? ", " : (char[]){ *c, '\0' });
}

void option_text(const ls_setting *option, bool lists, char out[OPTION_TEXT_SIZE])
{
    char choices[OPTION_TEXT_SIZE / 2] = "";
    const char *note = option->fallback ? option->fallback : option->note;
    if (lists) list_choices(option->value, choices, sizeof(choices));
    if (option->list) option->list(choices, sizeof(choices));
    const bool listed = *choices != '\0';
    snprintf(out, OPTION_TEXT_SIZE, "%s%s%s%s%s%s%s", option->help, listed ? " (" : "", choices,
             listed ? ")" : "", note ? " [" : "", note ? note : "", note ? "]" : "");
}

/* Choices that do not fit beside the option's name are listed in its text. */
static void print_option(const ls_setting *option)
{
    char left[128], text[OPTION_TEXT_SIZE];
    const char letter[] = { '-', option->letter, ',', '\0' };
    const char *value = option->value ? option->value : "";
    int n = snprintf(left, sizeof(left), "  %3s --%s%s%s", option->letter ? letter : "",
                     option->name, *value ? " " : "", value);
    const bool lists = option->kind == LS_SETTING_CHOICE && n + 2 > HELP_COLUMN;
    if (lists) n = snprintf(left, sizeof(left), "      --%s NAME", option->name);
    option_text(option, lists, text);
    const bool fits = n + 2 <= HELP_COLUMN;
    print_text(stdout, fits ? "%s" : "%s\n", left);
    print_text(stdout, "%*s", fits ? HELP_COLUMN - n : HELP_COLUMN, "");
    print_words(stdout, HELP_COLUMN, HELP_COLUMN, text);
}

/* The heading is printed only above an option. */
static void print_group(const ls_setting *heading, bool all)
{
    bool begins = true;
    for (const ls_setting *o = heading + 1;
         o->kind != LS_SETTING_END && o->kind != LS_SETTING_HEADING; o++) {
        if (!all && !o->usual) continue;
        if (begins) print_text(stdout, "\n%s\n", heading->help);
        begins = false;
        print_option(o);
    }
}

static void print_groups(const ls_setting *options, bool all)
{
    for (const ls_setting *o = options; o->kind != LS_SETTING_END; o++)
        if (o->kind == LS_SETTING_HEADING) print_group(o, all);
}

static bool has_usual(const ls_setting *options)
{
    for (; options->kind != LS_SETTING_END; options++)
        if (options->usual) return true;
    return false;
}

void options_help(const cli_command *command, bool all)
{
    ls_setting options[LS_MAX_SETTINGS + 1];
    command_options(command, options);
    const bool is_short = !all && has_usual(options);
    print_text(stdout, "usage: lockstep %s [option...]%s%s\n\n", command->name,
               *command->arguments ? " " : "", command->arguments);
    print_words(stdout, 0, 0, command->summary);
    print_groups(options, !is_short);
    print_groups(common_options, true);
    if (!command->details && !is_short) return;
    char hint[128], details[DETAILS_SIZE];
    snprintf(hint, sizeof(hint), "'lockstep %s --help-all' shows all options%s.", command->name,
             command->details ? " and further details" : "");
    print_text(stdout, "\n");
    print_words(stdout, 0, 0, is_short ? hint : command_details(command, details));
}
