/* completion.c: 'lockstep completion': scripts by which shells complete commands, options, their
 * values and paths, from the commands' tables of options. */
#include "cli.h"
#include <stdio.h>
#include <string.h>

/* ---- What completes a value ---- */

typedef enum value_kind {
    VALUE_NONE,
    VALUE_WORDS,
    VALUE_FILE,
    VALUE_FOLDER,
    VALUE_OTHER
} value_kind;

static value_kind kind_of_value(const ls_setting *o)
{
    if (o->kind == LS_SETTING_SWITCH) return VALUE_NONE;
    if (o->kind == LS_SETTING_CHOICE || strcmp(o->name, "model") == 0) return VALUE_WORDS;
    if (o->kind != LS_SETTING_TEXT) return VALUE_OTHER;
    if (strcmp(o->value, "RUN") == 0) return VALUE_FOLDER;
    const bool is_path = strcmp(o->value, "FILE") == 0 || strcmp(o->value, "DIR") == 0;
    return is_path ? VALUE_FILE : VALUE_OTHER;
}

/* The words of a VALUE_WORDS, "a b c" from "a|b|c", between two texts. */
static void print_value_words(const char *before, const ls_setting *o, const char *after)
{
    const ls_model *model;
    fputs(before, stdout);
    if (o->kind == LS_SETTING_CHOICE)
        for (const char *c = o->value; *c; c++) fputc(*c == '|' ? ' ' : *c, stdout);
    else
        for (int i = 0; (model = ls_model_at(i)); i++)
            print_text(stdout, "%s%s", i ? " " : "", model->name);
    fputs(after, stdout);
}

/* A command's arguments as an option: words, paths or nothing. */
static ls_setting arguments_of(const cli_command *c)
{
    const ls_setting_kind kind = !*c->arguments              ? LS_SETTING_SWITCH
                                 : strchr(c->arguments, '|') ? LS_SETTING_CHOICE
                                                             : LS_SETTING_TEXT;
    return (ls_setting){ kind, .name = "",
                         .value = kind == LS_SETTING_TEXT ? "FILE" : c->arguments };
}

/* ---- Lists ---- */

/* Calls print for each option of the command and each option of all commands. */
static void each_option(const cli_command *c,
                        void (*print)(const cli_command *c, const ls_setting *o))
{
    ls_setting options[LS_MAX_SETTINGS + 1];
    all_options(c, options);
    for (const ls_setting *o = options; o->kind != LS_SETTING_END; o++)
        if (o->kind != LS_SETTING_HEADING) print(c, o);
}

static void each_command(void (*print)(const cli_command *c))
{
    for (int i = 0; command_at(i); i++)
        if (!command_at(i)->hidden) print(command_at(i));
}

static void print_name(const cli_command *c)
{
    print_text(stdout, "%s ", c->name);
}

/* The beginning of a help text, up to the first of `ends`, for a line in single quotes. */
static void print_short(const char *help, const char *ends)
{
    size_t n = strcspn(help, ends);
    while (n > 0 && help[n - 1] == ' ') n--;
    for (size_t i = 0; i < n; i++)
        fputs(help[i] == '\'' ? "'\\''" : (char[]){ help[i], 0 }, stdout);
}

static const char short_ends[] = ":;([\n";

/* ---- bash ---- */

static void print_bash_word(const cli_command *c, const ls_setting *o)
{
    (void)c;
    print_text(stdout, " --%s", o->name);
    if (o->letter) print_text(stdout, " -%c", o->letter);
}

static void print_bash_words(const cli_command *c)
{
    print_text(stdout, "    %s)\n", c->name);
    fputs("        options='", stdout);
    each_option(c, print_bash_word);
    fputs("'\n        arguments=", stdout);
    const ls_setting arguments = arguments_of(c);
    const value_kind kind = kind_of_value(&arguments);
    if (kind == VALUE_FILE) fputs("-f", stdout);
    if (kind == VALUE_WORDS) print_value_words("'-W \"", &arguments, "\"'");
    fputs(" ;;\n", stdout);
}

static void print_bash_value(const cli_command *c, const ls_setting *o)
{
    static const char *const actions[] = { [VALUE_FILE] = "-f", [VALUE_FOLDER] = "-d" };
    const value_kind kind = kind_of_value(o);
    if (kind == VALUE_NONE) return;
    print_text(stdout, "    '%s --%s'", c->name, o->name);
    if (o->letter) print_text(stdout, " | '%s -%c'", c->name, o->letter);
    fputs(") ", stdout);
    if (kind == VALUE_WORDS)
        print_value_words("_lockstep_reply -W '", o, "'; ");
    else if (kind != VALUE_OTHER)
        print_text(stdout, "_lockstep_reply %s; ", actions[kind]);
    fputs("return ;;\n", stdout);
}

static void print_bash_values(const cli_command *c)
{
    each_option(c, print_bash_value);
}

static void print_bash(void)
{
    fputs("# Completion of lockstep for bash.\n\n"
          "_lockstep_reply() {\n"
          "    mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$word\")\n"
          "}\n\n"
          "_lockstep() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local command=${COMP_WORDS[1]} options arguments\n"
          "    COMPREPLY=()\n"
          "    if [ \"$word\" = = ]; then\n"
          "        word=\n"
          "    elif [ \"$before\" = = ]; then\n"
          "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "    fi\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ] || [ \"$command\" = help ]; then\n"
          "        _lockstep_reply -W '",
          stdout);
    each_command(print_name);
    fputs("help --help --version'\n"
          "        return\n"
          "    fi\n"
          "    case \"$command $before\" in\n",
          stdout);
    each_command(print_bash_values);
    fputs("    esac\n"
          "    case $command in\n",
          stdout);
    each_command(print_bash_words);
    fputs("    *) return ;;\n"
          "    esac\n"
          "    if [[ $word == -* ]]; then\n"
          "        _lockstep_reply -W \"$options\"\n"
          "    elif [ \"$arguments\" = -f ]; then\n"
          "        _lockstep_reply -f\n"
          "    elif [ -n \"$arguments\" ]; then\n"
          "        _lockstep_reply -W \"${arguments#-W }\"\n"
          "    fi\n"
          "}\n\n"
          "complete -o filenames -F _lockstep lockstep\n",
          stdout);
}

/* ---- zsh ---- */

static void print_zsh_command(const cli_command *c)
{
    print_text(stdout, "        '%s:", c->name);
    print_short(c->summary, short_ends);
    fputs("'\n", stdout);
}

/* Of _arguments: '(-b --batch-size)'{-b+,--batch-size=}'[images per step]:N:' */
static void print_zsh_option(const cli_command *c, const ls_setting *o)
{
    (void)c;
    const value_kind kind = kind_of_value(o);
    const char *equals = kind == VALUE_NONE ? "" : "=", *plus = kind == VALUE_NONE ? "" : "+";
    fputs(" \\\n            ", stdout);
    if (o->letter)
        print_text(stdout, "'(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, o->name, o->letter, plus,
                   o->name, equals);
    else
        print_text(stdout, "'--%s%s[", o->name, equals);
    print_short(o->help, short_ends);
    fputs("]", stdout);
    if (kind == VALUE_WORDS) {
        print_text(stdout, ":%s:", o->name);
        print_value_words("(", o, ")");
    } else if (kind != VALUE_NONE) {
        print_text(stdout, ":%s:%s", o->name,
                   kind == VALUE_FILE     ? "_files"
                   : kind == VALUE_FOLDER ? "_files -/"
                                          : "");
    }
    fputs("'", stdout);
}

static void print_zsh_case(const cli_command *c)
{
    const ls_setting arguments = arguments_of(c);
    const value_kind kind = kind_of_value(&arguments);
    print_text(stdout, "    %s)\n", c->name);
    fputs("        _arguments -s", stdout);
    each_option(c, print_zsh_option);
    if (kind == VALUE_FILE) fputs(" \\\n            '*:file:_files'", stdout);
    if (kind == VALUE_WORDS) {
        fputs(" \\\n", stdout);
        print_text(stdout, "            '1:%s:", c->name);
        print_value_words("(", &arguments, ")'");
    }
    fputs(" ;;\n", stdout);
}

static void print_zsh(void)
{
    fputs("#compdef lockstep\n"
          "# Completion of lockstep for zsh.\n\n"
          "_lockstep() {\n"
          "    local -a commands=(\n",
          stdout);
    each_command(print_zsh_command);
    fputs("        'help:show the options of a command'\n"
          "    )\n"
          "    if (( CURRENT == 2 )) || [[ $words[2] == help ]]; then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $words[1] in\n",
          stdout);
    each_command(print_zsh_case);
    fputs("    esac\n"
          "}\n\n"
          "if [ \"$funcstack[1]\" = _lockstep ]; then\n"
          "    _lockstep \"$@\"\n"
          "else\n"
          "    compdef _lockstep lockstep\n"
          "fi\n",
          stdout);
}

/* ---- fish ---- */

static void print_fish_option(const cli_command *c, const ls_setting *o)
{
    const value_kind kind = kind_of_value(o);
    print_text(stdout, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -l %s", c->name,
               o->name);
    if (o->letter) print_text(stdout, " -s %c", o->letter);
    if (kind == VALUE_FILE) fputs(" -r -F", stdout);
    if (kind == VALUE_FOLDER) fputs(" -x -a '(__fish_complete_directories)'", stdout);
    if (kind == VALUE_OTHER) fputs(" -x", stdout);
    if (kind == VALUE_WORDS) print_value_words(" -x -a '", o, "'");
    fputs(" -d '", stdout);
    print_short(o->help, short_ends);
    fputs("'\n", stdout);
}

static void print_fish_command(const cli_command *c)
{
    print_text(stdout, "complete -c lockstep -n __fish_use_subcommand -a %s -d '", c->name);
    print_short(c->summary, short_ends);
    fputs("'\n", stdout);
    const ls_setting arguments = arguments_of(c);
    const value_kind kind = kind_of_value(&arguments);
    if (kind == VALUE_FILE || kind == VALUE_WORDS)
        print_text(stdout, "complete -c lockstep -n '__fish_seen_subcommand_from %s'", c->name);
    if (kind == VALUE_FILE) fputs(" -F\n", stdout);
    if (kind == VALUE_WORDS) print_value_words(" -a '", &arguments, "'\n");
    each_option(c, print_fish_option);
}

static void print_fish(void)
{
    fputs("# Completion of lockstep for fish.\n\n"
          "complete -c lockstep -f\n"
          "complete -c lockstep -n __fish_use_subcommand -l version -d 'print the version'\n"
          "complete -c lockstep -n __fish_use_subcommand -a help -d 'show the options of a "
          "command'\n"
          "complete -c lockstep -n '__fish_seen_subcommand_from help' -a '",
          stdout);
    each_command(print_name);
    fputs("'\n", stdout);
    each_command(print_fish_command);
}

/* ---- The command ---- */

#define SHELLS "bash|zsh|fish" /* in the order of `scripts` */

static int run(const cli_parsed *parsed, void *values)
{
    (void)values;
    static void (*const scripts[])(void) = { print_bash, print_zsh, print_fish };
    static const ls_setting shells = { LS_SETTING_CHOICE, .name = "SHELL", .value = SHELLS };
    char expected[LS_EXPECTED_SIZE];
    int shell;
    if (parsed->n_arguments != 1 ||
        !ls_setting_read(&shells, parsed->arguments[0], &shell, expected))
        return fail_with(LS_EXIT_USAGE, "expected one of " SHELLS);
    scripts[shell]();
    return LS_EXIT_DONE;
}

const cli_command command_completion = {
    .name = "completion",
    .summary = "print a script by which a shell completes commands, options and their values",
    .arguments = SHELLS,
    .details = "For the present shell: source <(lockstep completion bash), source <(lockstep "
               "completion zsh), or lockstep completion fish | source. 'cmake --install' puts "
               "the scripts where the shells search for them.",
    .run = run,
};
