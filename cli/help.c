/* help.c: --help from a verb's table of options; see options.h. */
#include "options.h"
#include "print.h"
#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 28, TEXT_SIZE = 1024 };

/* "cosine, constant or step" */
static void list_choices(const char *choices, char *out, size_t size)
{
    size_t n = 0;
    for (const char *at = choices; n < size;) {
        const size_t length = strcspn(at, "|");
        const char *next = at + length + 1;
        const bool is_last = at[length] == '\0';
        const char *between = is_last ? "" : strchr(next, '|') ? ", " : " or ";
        n += (size_t)snprintf(out + n, size - n, "%.*s%s", (int)length, at, between);
        if (is_last) return;
        at = next;
    }
}

/* Choices that do not fit beside the option's name are listed in its text. */
static void print_option(const cli_option *option)
{
    char left[128], text[TEXT_SIZE], choices[TEXT_SIZE / 2];
    const char letter[] = { option->letter ? '-' : ' ', option->letter ? option->letter : ' ',
                            option->letter ? ',' : ' ', '\0' };
    const char *value = option->value ? option->value : "", *note = option->note;
    if (option->fallback) note = option->fallback;
    int n = snprintf(left, sizeof(left), "  %s --%s%s%s", letter, option->name, *value ? " " : "",
                     value);
    const bool lists = option->kind == OPTION_CHOICE && n + 2 > HELP_COLUMN;
    if (lists) {
        list_choices(value, choices, sizeof(choices));
        n = snprintf(left, sizeof(left), "  %s --%s WORD", letter, option->name);
    }
    snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", option->help, lists ? " (" : "",
             lists ? choices : "", lists ? ")" : "", note ? " [" : "", note ? note : "",
             note ? "]" : "");
    if (n + 2 <= HELP_COLUMN)
        print_text(stdout, "%-*s", HELP_COLUMN, left);
    else
        print_text(stdout, "%s\n", left);
    if (n + 2 > HELP_COLUMN) print_text(stdout, "%*s", HELP_COLUMN, "");
    print_words(stdout, HELP_COLUMN, HELP_COLUMN, text);
}

void options_help(const cli_verb *verb)
{
    print_text(stdout, "usage: lockstep %s [option...]%s%s\n\n", verb->name,
               *verb->arguments ? " " : "", verb->arguments);
    print_words(stdout, 0, 0, verb->summary);
    for (const cli_option *o = verb->options; o->kind != OPTION_END; o++) {
        if (o->kind != OPTION_HEADING)
            print_option(o);
        else if (o[1].kind != OPTION_HEADING && o[1].kind != OPTION_END)
            print_text(stdout, "\n%s\n", o->help);
    }
    print_option(&(cli_option){ OPTION_SWITCH, 'h', "help", .help = "show this help" });
    if (verb->details) print_text(stdout, "\n");
    for (const char *line = verb->details; line && *line;) {
        char text[TEXT_SIZE];
        const size_t length = strcspn(line, "\n");
        snprintf(text, sizeof(text), "%.*s", (int)length, line);
        print_words(stdout, 0, 0, text);
        line += length + (line[length] == '\n');
    }
}
