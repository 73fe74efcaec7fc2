/* options.h: command-line options from a table. The table gives parsing, ranges, defaults, --help,
 * configuration files and the JSON of config.json, so none of them can drift from another. */
#ifndef LS_CLI_OPTIONS_OPTIONS_H
#define LS_CLI_OPTIONS_OPTIONS_H

#include <jansson.h>
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

typedef enum option_kind {
    OPTION_END,     /* ends a table */
    OPTION_HEADING, /* only a line of --help: `help` */
    OPTION_SWITCH,  /* bool: "--name" or "--name=true"; "--name=false" */
    OPTION_INTEGER, /* int64_t in [min, max] */
    OPTION_SIZE,    /* cli_size, both in [min, max]: "N" for a square, or "HxW" */
    OPTION_NUMBER,  /* double in [min, max], finite, of 15 digits */
    OPTION_TEXT,    /* const char *, not empty */
    OPTION_CHOICE   /* int: which of the words of `value`, "fail|skip" */
} option_kind;

/* The size of an image, in pixels. */
typedef struct cli_size {
    int64_t height, width;
} cli_size;

typedef struct cli_option {
    option_kind kind;
    char letter;       /* 'b' for -b; 0 = none */
    const char *name;  /* "batch-size" for --batch-size */
    size_t offset;     /* of the value in the command's struct */
    const char *help;  /* a short phrase, which --help wraps */
    const char *value; /* "N": placeholder for the value in --help */
    double min, max;
    const char
        *fallback;    /* default, as a user would write it; NULL = zero, or set by the command */
    const char *note; /* how the command sets it, for --help. With a note and no fallback, a
                         stored null, or a stored 0 below `min`, means "not given". */
    int64_t implied;  /* the number that a stored 0 of an OPTION_INTEGER means; 0 = none */
    bool execution;   /* cannot change a result: may differ when a run is resumed */
    bool lasting;     /* may be changed when a run is resumed, and stays changed */
    bool images;      /* the images of a batch depend on it: an option of `lockstep augment`, too */
    bool optional;    /* may be missing in a stored run of an older version: the default */
    bool session;     /* of one session: its stored value is neither resumed nor used again */
    bool whole_run;   /* does not change a step with a given learning rate: not an option of
                         `lockstep lr-find` */
    bool usual;       /* in --help, which omits the others unless a table marks none */
    void (*list)(char *out,
                 size_t size); /* writes a list that --help adds to `help`; NULL = none */
} cli_option;

enum { MAX_OPTIONS = 128 };

/* "train", "eval", ... */
typedef struct cli_command {
    const char *name, *summary;
    const char *arguments;     /* "IMAGE...", "a|b" for one of these words, "" for none */
    const char *details;       /* paragraphs for --help with \n between, or NULL */
    const cli_option *options; /* at most MAX_OPTIONS, then OPTION_END */
    void (*make_options)(cli_option out[MAX_OPTIONS + 1]); /* for a table that is not constant: then
                                                              `options` is its beginning */
    const cli_option *run_options;     /* those that a run's config.json has, for --config, which
                                          ignores those that the command does not have; NULL = the
                                          command does not read config.json */
    bool hidden;                       /* not in the list of commands */
    int (*run)(int argc, char **argv); /* the words after the name; returns the exit status */
} cli_command;

/* The command's whole table, which may be written to `out`. */
static inline const cli_option *command_options(const cli_command *command,
                                                cli_option out[MAX_OPTIONS + 1])
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
extern const cli_option common_options[];

/* Which options a command line has, and its arguments. */
typedef struct cli_parsed {
    const cli_option *options;      /* of the command; borrowed */
    const char *given[MAX_OPTIONS]; /* the value as typed, on the command line or in a file of
                                       `key = value` lines; "" for a switch; NULL = not given */
    bool in_file[MAX_OPTIONS];      /* given in the lines of a file, not on the command line */
    bool preset[MAX_OPTIONS];       /* set by options_preset, or from the config.json of a run */
    bool from_run;                  /* --config names the config.json of a run */
    const char *config;             /* the file of --config; NULL = none */
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
void option_text(const cli_option *option, bool lists, char out[OPTION_TEXT_SIZE]);

bool options_given(const cli_parsed *parsed, const char *name);

/* Sets an option that was not given, unless it is preset; `text` is a value as typed, "" for a
 * switch. Ignores a name that the command does not have. */
void options_preset(cli_parsed *parsed, const char *name, const char *text, void *values);
/* Whether the option was given or preset. */
bool options_is_set(const cli_parsed *parsed, const char *name);

/* The names of the options whose values a default has computed from others: they have no default in
 * the table, can change a result, and are neither given nor preset. NULL without memory. */
json_t *options_computed(const cli_parsed *parsed);

/* All values by name; NULL without memory. */
json_t *options_to_json(const cli_option *options, const void *values);

/* Replaces values that were not given by the stored ones. An option that was given and differs from
 * the stored one is an error, printed to stderr, unless it is an execution or lasting option.
 * Strings are borrowed from `stored`; `source` is its file, for errors. */
bool options_resume(const cli_parsed *parsed, const json_t *stored, const char *source,
                    void *values);
/* The list of {"option": "epochs", "there": 30, "here": 60} for the lasting options whose values
 * differ from the stored ones; NULL without memory. */
json_t *options_changed(const cli_option *options, const json_t *stored, const void *values);

/* Reads the file of --config: values of options that were not given. It has lines `key = value`,
 * with comments after #, or is the config.json of a run. The command line takes precedence, but all
 * values are checked. On failure prints file, line and reason, and returns false. */
bool config_file_read(const cli_command *command, const char *path, void *values,
                      cli_parsed *parsed);
/* For config_file_read: values from the "options" of a run's config.json, without those in
 * `computed`, a list of names. Texts are borrowed from `stored`. */
bool options_from_run(const cli_command *command, const json_t *stored, const json_t *computed,
                      const char *source, void *values, cli_parsed *parsed);

/* Rounds to the 15 digits that config.json stores, so that the stored number is the number in
 * use. */
double options_round(double x);

/* The word among words[0..n-1] that is most similar to `word`; NULL if none is similar. */
const char *closest_word(const char *word, int n, const char *const *words);

/* The end of a message about an unknown word: "; did you mean '--WORD'?" with the most similar word
 * after `dashes`, or `otherwise` if none is similar. Writes it to `out`, and returns out. */
enum { HINT_SIZE = 96 };
const char *closest_hint(const char *word, int n, const char *const *words, const char *dashes,
                         const char *otherwise, char out[HINT_SIZE]);

/* ---- One option of a table: for options_json.c and config_file.c ---- */

/* The address of the option's value. */
void *option_field(const cli_option *option, void *values);

/* Reads a value as typed. Texts are borrowed. On failure writes the values that are expected. */
enum { EXPECTED_SIZE = 256 };
bool option_set(const cli_option *option, const char *text, void *values,
                char expected[EXPECTED_SIZE]);

/* Position of `word` among the words of "a|b|c", or -1. */
int option_choice_index(const char *choices, const char *word);

/* Writes "a number from 0 to 1": the values that the option accepts. */
void option_describe_expected(const cli_option *option, char *out, size_t size);

/* The index of the option of that name in the table, or -1. */
int option_find(const cli_option *options, const char *name, size_t length);
/* Whether both names are equal but for the case of letters, and _ for -. */
bool option_is_same_name(const char *typed, const char *name);
/* The names of the options that may be meant by a name of another training program, such as
 * "imgsz", in the order of preference, or NULL; an array whose last elements may be NULL. In
 * foreign_options.c, as the function above. */
enum { N_FOREIGN_OPTIONS = 2 };
const char *const *options_of_foreign_name(const char *name);
/* "; did you mean ...": by an option's name with _ or capitals, by a name of another training
 * program, then by closest_hint for the options of a table; after `dashes` "--" also for those of
 * all commands. */
const char *option_hint(const cli_option *options, const char *name, const char *dashes,
                        const char *otherwise, char out[HINT_SIZE]);

#endif
