/* options.h: command-line options from tables of settings, with --help and configuration files. */
#ifndef LS_CLI_OPTIONS_OPTIONS_H
#define LS_CLI_OPTIONS_OPTIONS_H

#include "run/closest.h"
#include "run/setting.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses; that of a signal is 128 + its number. */
enum {
    EXIT_DONE = 0,
    EXIT_RUNTIME = 1,   /* anything but the following */
    EXIT_USAGE = 2,     /* the command line */
    EXIT_DATA = 3,      /* the images */
    EXIT_NONFINITE = 4, /* the loss became infinite or not a number */
    EXIT_SIGNAL = 128
};

/* "train", "eval", ... */
typedef struct cli_command {
    const char *name, *summary;
    const char *arguments;      /* "IMAGE...", "a|b" for one of these words, "" for none */
    const char *details;        /* paragraphs for --help with \n between, or NULL */
    const ls__setting *options; /* at most LS__MAX_SETTINGS, then LS__SETTING_END */
    void (*make_options)(
        ls__setting out[LS__MAX_SETTINGS + 1]); /* for a table that is not constant: then
                                             `options` is its beginning */
    const ls__setting *run_options;    /* those that a run's config.json has, for --config, which
                                         ignores those that the command does not have; NULL = the
                                         command does not read config.json */
    bool hidden;                       /* not in the list of commands */
    int (*run)(int argc, char **argv); /* the words after the name; returns the exit status */
} cli_command;

/* The command's whole table, which may be written to `out`. */
static inline const ls__setting *command_options(const cli_command *command,
                                                 ls__setting out[LS__MAX_SETTINGS + 1])
{
    if (!command->make_options) return command->options;
    command->make_options(out);
    return out;
}

/* The options of all commands, and their values. */
typedef struct common_values {
    const char *config;
    bool quiet, help, help_all;
} common_values;
extern const ls__setting common_options[];

/* Which options a command line has, and its arguments. */
typedef struct cli_parsed {
    ls__given set;      /* table: that of the command; borrowed */
    const char *config; /* the file of --config; NULL = none */
    int n_arguments;
    char **arguments; /* borrowed from argv, which is put in order */
} cli_parsed;

/* Fills `values` with defaults, then from the file of --config, then from argv[0..argc-1], which
 * begins after the command's name. Prints --help to stdout, errors to stderr. Returns -1, or the
 * exit status if the command ends: EXIT_DONE after --help, EXIT_USAGE after an error. */
int options_parse(const cli_command *command, int argc, char **argv, void *values,
                  cli_parsed *parsed);

/* --help: the usual options in groups, in lines of at most 80 columns, on stdout. all: --help-all,
 * with the other options and the details. */
void options_help(const cli_command *command, bool all);

/* The text of an option in --help: with the list of its choices if `lists`, and its default. */
enum { OPTION_TEXT_SIZE = 1024 };
void option_text(const ls__setting *option, bool lists, char out[OPTION_TEXT_SIZE]);

/* Reads the file of --config: values of options that were not given. It has lines `key = value`,
 * with comments after #, or is the config.json of a run. The command line takes precedence, but all
 * values are checked. On failure prints file, line and reason, and returns false. */
bool config_file_read(const cli_command *command, const char *path, void *values,
                      cli_parsed *parsed);
/* "; did you mean ...": as ls__setting_hint; after `dashes` "--" also with the options of all
 * commands. */
const char *option_hint(const ls__setting *options, const char *name, const char *dashes,
                        const char *otherwise, char out[LS__HINT_SIZE]);

#endif
