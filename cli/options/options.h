/* options.h: command-line options from tables of settings, with --help and configuration files. */
#ifndef LS_CLI_OPTIONS_OPTIONS_H
#define LS_CLI_OPTIONS_OPTIONS_H

#include <lockstep/run.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row for an option that is like the setting of a run of this name. before: what its help begins
 * with, such as "with --model: ", or NULL. */
#define LIKE_RUN(name, offset, before)                                                             \
    {                                                                                              \
        LS_SETTING_TEXT, 0, name, offset, before                                                   \
    }

/* Rows for the members of an ls_dataset_config `member` in the struct of values. */
#define DATA_OPTIONS(values, member)                                                               \
    LIKE_RUN("csv-columns", offsetof(values, member.csv_columns), NULL),                           \
        LIKE_RUN("image-root", offsetof(values, member.image_root), NULL),                         \
        LIKE_RUN("label-pattern", offsetof(values, member.label_pattern), NULL),                   \
        LIKE_RUN("group-column", offsetof(values, member.group_column), NULL),                     \
        LIKE_RUN("group-pattern", offsetof(values, member.group_pattern), NULL)

/* Which options a command line has, and its arguments. */
typedef struct cli_parsed {
    ls_setting table[LS_MAX_SETTINGS + 1]; /* that of the command */
    ls_given set;                          /* of the table */
    const char *config;                    /* the file of --config; NULL = none */
    int n_arguments;
    char **arguments; /* borrowed from argv, which is put in order */
} cli_parsed;

/* "train", "eval", ... */
typedef struct cli_command {
    const char *name, *summary;
    const char *arguments; /* "IMAGE...", "a|b" for one of these words, "" for none */
    const char *details;   /* paragraphs for --help with \n between, or NULL */
    /* The command's own options, then LS_SETTING_END; NULL = none. Rows of LIKE_RUN are completed.
     * `shared`: rows that precede them, or NULL. */
    const ls_setting *options, *shared;
    size_t values_bytes; /* of the struct in which they are stored; 0 = none is stored */
    /* A table of the library whose rows follow, below their headings; NULL = none. Their values are
     * not stored: cli_parsed passes them on. */
    const ls_setting *(*settings)(void);
    bool (*selects)(const ls_setting *setting); /* which of them; NULL = all */
    bool reads_runs; /* --config takes the config.json of a run, too, and ignores settings of runs
                        that the command does not have */
    bool hidden;     /* not in the list of commands */
    void (*begin)(int argc, char *const *argv); /* called before the options are read, or NULL */
    void (*end)(void); /* called last, also if the options have an error; NULL = none */
    int (*run)(const cli_parsed *parsed, void *values); /* returns the exit status */
} cli_command;

/* The command's details. In place of %s they list the options that may differ from those of the run
 * that --resume names. */
enum { DETAILS_SIZE = 4096 };
const char *command_details(const cli_command *command, char out[DETAILS_SIZE]);

/* Writes the command's whole table. */
void command_options(const cli_command *command, ls_setting out[LS_MAX_SETTINGS + 1]);
/* Writes the command's table, and common_options, the options of all commands, behind it. Returns
 * the number of rows before them. */
int all_options(const cli_command *command, ls_setting out[LS_MAX_SETTINGS + 1]);
extern const ls_setting common_options[];

/* The text of an option as given, NULL if it is not, for options whose values are not stored. */
const char *given_text(const cli_parsed *parsed, const char *name);

/* The options that were given but --out, for the library: "name=value", or "name" for a switch.
 * Ends with NULL; the caller frees it with free_texts. NULL without memory. */
char **given_texts(const ls_given *given);
void free_texts(char **texts);

/* Fills `values` with defaults, then from the file of --config, then from argv[0..argc-1], which
 * begins after the command's name. Prints --help to stdout, errors to stderr. Returns -1, or the
 * exit status if the command ends: LS_EXIT_DONE after --help, LS_EXIT_USAGE after an error. */
int options_parse(const cli_command *command, int argc, char **argv, void *values,
                  cli_parsed *parsed);

/* Reads the options argv[0..argc-1] and runs the command. Returns the exit status. */
int cli_run_command(const cli_command *command, int argc, char **argv);

/* --help: the usual options in groups, in lines of at most 80 columns, on stdout. all: --help-all,
 * with the other options and the details. */
void options_help(const cli_command *command, bool all);

/* The text of an option in --help: with the list of its choices if `lists`, and its default. */
enum { OPTION_TEXT_SIZE = 1024 };
void option_text(const ls_setting *option, bool lists, char out[OPTION_TEXT_SIZE]);

#endif
