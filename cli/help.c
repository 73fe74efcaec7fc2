/* help.c: --help from a command's table of options; see options.h. */
#include "options.h"
#include "print.h"
#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 28, TEXT_SIZE = 1024 };

/* "cosine, constant, step" from "cosine|constant|step" */
static void list_choices(const char *choices, char *out, size_t size)
{
    size_t n = 0;
    for (const char *c = choices; *c && n < size; c++)
        n += (size_t)snprintf(out + n, size - n, "%s", *c == '|' ? ", " : (char[]){ *c, '\0' });
}

/* Choices that do not fit beside the option's name are listed in its text. */
static void print_option(const cli_option *option)
{
    char left[128], text[TEXT_SIZE], choices[TEXT_SIZE / 2];
    const char letter[] = { '-', option->letter, ',', '\0' };
    const char *value = option->value ? option->value : "";
    const char *note = option->fallback ? option->fallback : option->note;
    int n = snprintf(left, sizeof(left), "  %3s --%s%s%s", option->letter ? letter : "",
                     option->name, *value ? " " : "", value);
    const bool lists = option->kind == OPTION_CHOICE && n + 2 > HELP_COLUMN;
    if (lists) {
        list_choices(value, choices, sizeof(choices));
        n = snprintf(left, sizeof(left), "      --%s NAME", option->name);
    }
    snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", option->help, lists ? " (" : "",
             lists ? choices : "", lists ? ")" : "", note ? " [" : "", note ? note : "",
             note ? "]" : "");
    const bool fits = n + 2 <= HELP_COLUMN;
    print_text(stdout, fits ? "%s" : "%s\n", left);
    print_text(stdout, "%*s", fits ? HELP_COLUMN - n : HELP_COLUMN, "");
    print_words(stdout, HELP_COLUMN, HELP_COLUMN, text);
}

void options_help(const cli_command *command)
{
    print_text(stdout, "usage: lockstep %s [option...]%s%s\n\n", command->name,
               *command->arguments ? " " : "", command->arguments);
    print_words(stdout, 0, 0, command->summary);
    for (const cli_option *o = command->options; o->kind != OPTION_END; o++) {
        if (o->kind != OPTION_HEADING)
            print_option(o);
        else if (o[1].kind != OPTION_HEADING && o[1].kind != OPTION_END)
            print_text(stdout, "\n%s\n", o->help);
    }
    print_option(&(cli_option){ OPTION_SWITCH, 'h', "help", .help = "show this help" });
    if (!command->details) return;
    print_text(stdout, "\n");
    print_words(stdout, 0, 0, command->details);
}
