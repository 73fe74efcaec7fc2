/* options.c: parses command lines by a table of options; see options.h. */
#include "cli.h"
#include <lockstep/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int find_letter(const ls_setting *options, char letter)
{
    for (int i = 0; options[i].kind != LS_SETTING_END; i++)
        if (letter && options[i].letter == letter) return i;
    return -1;
}

static int fail_unknown(const cli_command *command, const ls_setting *options, const char *word)
{
    char name[32], help[LS_HINT_SIZE], hint[LS_HINT_SIZE];
    const bool is_long = word[1] == '-' || word[2] != '\0'; /* "-lr" is a long name, too */
    const int n_dashes = word[1] == '-' ? 2 : 1, length = (int)strcspn(word, is_long ? "=" : "");
    snprintf(help, sizeof(help), "; 'lockstep %s --help-all' lists all options", command->name);
    snprintf(name, sizeof(name), "%.*s", is_long ? length - n_dashes : 0, word + n_dashes);
    if (is_long) ls_setting_hint(options, name, "--", help, hint);
    return fail_with(LS_EXIT_USAGE, "unknown option '%.*s'%s", length, word, is_long ? hint : help);
}

static int find_option(const ls_setting *options, const char *word)
{
    return word[1] == '-' ? ls_setting_find(options, word + 2, strcspn(word + 2, "="))
                          : find_letter(options, word[1]);
}

/* Reads option i at argv[*at], "--name", "--name=value", "-n" or "-nvalue", and its value, moving
 * *at to the last word used. Returns -1 or LS_EXIT_USAGE. */
static int parse_one(cli_parsed *parsed, int i, void *values, int argc, char **argv, int *at)
{
    const ls_setting *option = &parsed->table[i];
    const char *word = argv[*at], *value = NULL;
    const char *rest = word[1] == '-' ? word + 2 + strlen(option->name) : word + 2;
    if (*rest) value = *rest == '=' ? rest + 1 : rest;
    if (option->kind == LS_SETTING_SWITCH && (!value || !*value)) {
        if (value) return fail_with(LS_EXIT_USAGE, "--%s: expected true or false", option->name);
        value = "";
    }
    if (!value) {
        if (*at + 1 >= argc)
            return fail_with(LS_EXIT_USAGE, "--%s requires a value: --%s %s", option->name,
                             option->name, option->value);
        value = argv[++*at];
    }
    char expected[LS_EXPECTED_SIZE];
    if (!ls_setting_read(option, value, values, expected))
        return fail_with(LS_EXIT_USAGE, "--%s: expected %s, got '%s'", option->name, expected,
                         value);
    parsed->set.text[i] = value;
    return -1;
}

/* Whether a switch whose value is not stored is on. */
static bool is_on(const cli_parsed *parsed, const char *name)
{
    const char *text = given_text(parsed, name);
    return text && strcmp(text, "false") != 0;
}

/* Of a command without arguments: names the option that a path was probably meant for. */
static int fail_argument(const ls_setting *table, const char *word)
{
    static const char *const options[] = { "--data-dir", "--checkpoint" };
    struct stat file;
    char *path = stat(word, &file) == 0 ? ls_shell_word(word) : NULL;
    int i = 0;
    while (i < 2 && find_option(table, options[i]) < 0) i++;
    const int status =
        path && i < 2 ? fail_with(LS_EXIT_USAGE, "unexpected argument '%s'; did you mean %s %s?",
                                  word, options[i], path)
                      : fail_with(LS_EXIT_USAGE, "unexpected argument '%s'", word);
    free(path);
    return status;
}

/* Returns -1, or the exit status if the command ends. */
static int parse_words(const cli_command *command, int argc, char **argv, void *values,
                       cli_parsed *parsed)
{
    bool only_arguments = false;
    for (int at = 0; at < argc; at++) {
        char *word = argv[at];
        if (!only_arguments && strcmp(word, "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && word[0] == '-' && word[1] != '\0') {
            const int i = find_option(parsed->table, word);
            if (i < 0) return fail_unknown(command, parsed->table, word);
            if (parse_one(parsed, i, values, argc, argv, &at) >= 0) return LS_EXIT_USAGE;
            const bool all = is_on(parsed, "help-all");
            if (!all && !is_on(parsed, "help")) continue;
            options_help(command, all);
            return LS_EXIT_DONE;
        } else if (!*command->arguments) {
            return fail_argument(parsed->table, word);
        } else {
            argv[parsed->n_arguments++] = word;
        }
    }
    return -1;
}

/* What a file gave, which texts are borrowed from until the process ends. */
static ls_given kept;

static void free_kept(void)
{
    ls_given_free(&kept);
}

int options_parse(const cli_command *command, int argc, char **argv, void *values,
                  cli_parsed *parsed)
{
    *parsed = (cli_parsed){ .arguments = argv };
    const int n_own = all_options(command, parsed->table);
    parsed->set.table = parsed->table;
    ls_settings_default(parsed->table, values);
    const int ended = parse_words(command, argc, argv, values, parsed);
    set_print_quiet(is_on(parsed, "quiet"));
    parsed->config = given_text(parsed, "config");
    parsed->table[n_own].kind = LS_SETTING_END; /* no file has the options of all commands */
    if (ended >= 0 || !parsed->config) return ended;
    const ls_setting *ignored = command->reads_runs ? ls_run_settings() : NULL;
    ls_context *ctx = command_context();
    const ls_status status = ls_given_read_file(ctx, parsed->config, ignored, values, &parsed->set);
    if (!kept.file) atexit(free_kept);
    ls_given_free(&kept);
    kept.file = parsed->set.file;
    if (status == LS_OK) return -1;
    print_error(ctx, LS_EXIT_USAGE);
    return LS_EXIT_USAGE;
}

int cli_run_command(const cli_command *command, int argc, char **argv)
{
    cli_parsed parsed;
    void *values = calloc(1, command->values_bytes + 1);
    if (!values) return print_error(NULL, LS_EXIT_RUNTIME);
    if (command->begin) command->begin(argc, argv);
    int exit_status = options_parse(command, argc, argv, values, &parsed);
    if (exit_status < 0) exit_status = command->run(&parsed, values);
    if (command->end) command->end();
    free(values);
    return exit_status;
}
