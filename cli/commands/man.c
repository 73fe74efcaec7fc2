/* man.c: 'lockstep man', which the build runs: manual pages from the commands' tables of options,
 * in the language of man(7). */
#include "cli.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- Text ---- */

/* Before a word that begins with a dot. */
static const char no_request[] = "\\&";

static const char *escape(char c, char out[8])
{
    snprintf(out, 8, "%s%c", c == '-' ? "\\" : "", c);
    return c == '\\' ? "\\e" : c == '\'' ? "\\(aq" : out;
}

/* Words in lines of at most 80 columns, escaped: no hyphen that a formatter may replace or break
 * at, no line that begins like a request. A newline in the text begins a paragraph. */
static void put_words(FILE *file, const char *text)
{
    enum { COLUMNS = 80 };
    int at = 0;
    while (*text) {
        char escaped[8];
        int n = *text == '.' ? (int)strlen(no_request) : 0;
        for (const char *c = text; *c && *c != ' ' && *c != '\n'; c++)
            n += (int)strlen(escape(*c, escaped));
        const bool fits = at + 1 + n <= COLUMNS;
        if (at > 0) fputc(fits ? ' ' : '\n', file);
        if (*text == '.') fputs(no_request, file);
        for (; *text && *text != ' ' && *text != '\n'; text++) fputs(escape(*text, escaped), file);
        at = (at > 0 && fits ? at + 1 : 0) + n;
        if (*text == '\n' && at > 0) {
            fputs("\n.PP\n", file);
            at = 0;
        }
        text += *text != '\0';
    }
    fputc('\n', file);
}

static void put_name(FILE *file, const char *name)
{
    for (; *name; name++) fputs(*name == '-' ? "\\-" : (char[]){ *name, '\0' }, file);
}

/* ---- Pages ---- */

static void put_head(FILE *file, const char *name, const char *summary, const char *date)
{
    char text[OPTION_TEXT_SIZE];
    fputs(".TH ", file);
    for (const char *c = name; *c; c++)
        fputs(*c == '-' ? "\\-" : (char[]){ (char)toupper((unsigned char)*c), '\0' }, file);
    fprintf(file, " 1 %s \"Lockstep %s\" \"Lockstep\"\n.SH NAME\n", date, ls_version());
    snprintf(text, sizeof(text), "%s - %s", name, summary);
    put_words(file, text);
}

static void put_option(FILE *file, const ls_setting *o)
{
    char text[OPTION_TEXT_SIZE];
    const bool lists = o->kind == LS_SETTING_CHOICE;
    fputs(".TP\n", file);
    if (o->letter) fprintf(file, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", file);
    put_name(file, o->name);
    fputs("\\fR", file);
    if (o->kind != LS_SETTING_SWITCH) {
        fputs(" \\fI", file);
        put_name(file, lists ? "NAME" : o->value);
        fputs("\\fR", file);
    }
    fputc('\n', file);
    option_text(o, lists, text);
    put_words(file, text);
}

static void put_options(FILE *file, const ls_setting *options)
{
    for (const ls_setting *o = options; o->kind != LS_SETTING_END; o++)
        if (o->kind != LS_SETTING_HEADING)
            put_option(file, o);
        else if (o[1].kind != LS_SETTING_HEADING && o[1].kind != LS_SETTING_END)
            fprintf(file, ".SS %.*s\n", (int)strcspn(o->help, ":"), o->help);
}

static void put_command_page(FILE *file, const cli_command *c, const char *name, const char *date)
{
    ls_setting options[LS_MAX_SETTINGS + 1];
    char details[DETAILS_SIZE];
    all_options(c, options);
    put_head(file, name, c->summary, date);
    fprintf(file, ".SH SYNOPSIS\n.B lockstep ");
    put_name(file, c->name);
    fprintf(file, "\n[\\fIoption\\fR...]%s%s\n", *c->arguments ? " " : "", c->arguments);
    if (c->details) {
        fputs(".SH DESCRIPTION\n", file);
        put_words(file, command_details(c, details));
    }
    fputs(".SH OPTIONS\n", file);
    put_options(file, options);
    fputs(".SH SEE ALSO\n.BR lockstep (1)\n", file);
}

static const struct {
    const char *name, *help;
} variables[] = {
    { "LOCKSTEP_LOG",
      "levels of the messages that are printed, error, warn or info, for all categories or for "
      "context, data, net, run or command, such as warn,net=info [warn]" },
    { "LOCKSTEP_MAX_ISA", "limit of the vector instructions of kernels on the CPU: plain, avx2 "
                          "or avx512; with --arithmetic native the identity of a run contains it "
                          "[all that the processor has]" },
    { "LOCKSTEP_MODULES", "folder of the modules for CUDA and MPI" },
    { "NO_COLOR", "no colours, if it is not empty" },
};

static void put_main_page(FILE *file, const char *date)
{
    put_head(file, "lockstep", "train image networks, bit-identically on any number of threads",
             date);
    fputs(".SH SYNOPSIS\n.B lockstep\n\\fIcommand\\fR [\\fIoption\\fR...]\n.SH DESCRIPTION\n",
          file);
    put_words(file,
              "Trains image networks. The results are bit-identical for any number of threads "
              "and data-loader workers. 'lockstep COMMAND --help' lists the usual options of a "
              "command, --help-all all of them.");
    fputs(".SH COMMANDS\n", file);
    for (int i = 0; command_at(i); i++) {
        if (command_at(i)->hidden) continue;
        fputs(".TP\n.BR lockstep\\-", file);
        put_name(file, command_at(i)->name);
        fputs(" (1)\n", file);
        put_words(file, command_at(i)->summary);
    }
    fputs(".SH ENVIRONMENT\n", file);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        fprintf(file, ".TP\n.B %s\n", variables[i].name);
        put_words(file, variables[i].help);
    }
}

/* ---- The command ---- */

typedef struct man_values {
    const char *date;
} man_values;

static const ls_setting man_options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_TEXT, 0, "date", offsetof(man_values, date), "date of the pages", "YYYY-MM-DD",
      .fallback = "1970-01-01" },
    { .kind = LS_SETTING_END },
};

/* command NULL: the page of lockstep. */
static bool write_page(const char *dir, const cli_command *command, const char *date)
{
    char name[64], path[4096];
    snprintf(name, sizeof(name), "lockstep%s%s", command ? "-" : "", command ? command->name : "");
    snprintf(path, sizeof(path), "%s/%s.1", dir, name);
    FILE *file = fopen(path, "w");
    if (!file) return fail_with(false, "%s: %s", path, strerror(errno));
    if (command)
        put_command_page(file, command, name, date);
    else
        put_main_page(file, date);
    return close_output(file, path);
}

static int run(const cli_parsed *parsed, void *values)
{
    man_values *v = values;
    if (parsed->n_arguments != 1) return fail_with(LS_EXIT_USAGE, "expected one folder");
    bool ok = write_page(parsed->arguments[0], NULL, v->date);
    for (int i = 0; command_at(i) && ok; i++)
        if (!command_at(i)->hidden) ok = write_page(parsed->arguments[0], command_at(i), v->date);
    return ok ? LS_EXIT_DONE : LS_EXIT_RUNTIME;
}

const cli_command command_man = {
    .name = "man",
    .summary = "write the manual pages of all commands to a folder",
    .arguments = "DIR",
    .values_bytes = sizeof(man_values),
    .options = man_options,
    .hidden = true,
    .run = run,
};
