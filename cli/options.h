/* options.h: command-line options from a table. The table gives parsing, ranges, defaults, --help
 * and the JSON of config.json, so none of them can drift from another. */
#ifndef LS_CLI_OPTIONS_H
#define LS_CLI_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_END,     /* ends a table */
    OPTION_HEADING, /* only a line of --help: `help` */
    OPTION_SWITCH,  /* bool: given or not */
    OPTION_INTEGER, /* int64_t in [min, max] */
    OPTION_NUMBER,  /* double in [min, max], finite, of 15 digits */
    OPTION_TEXT,    /* const char *, not empty */
    OPTION_CHOICE   /* int: which of the words of `value`, "fail|skip" */
} option_kind;

typedef struct cli_option {
    option_kind kind;
    char letter;       /* 'b' for -b; 0 = none */
    const char *name;  /* "batch-size" for --batch-size */
    size_t offset;     /* of the value in the verb's struct */
    const char *help;  /* a short phrase, which --help wraps */
    const char *value; /* "N": what stands for the value in --help */
    double min, max;
    const char *fallback; /* default, as a user would write it; NULL = zero, or found by the verb */
    const char *note;     /* how the verb finds it: "by image size", or what null and 0 mean where
                             these are stored: without a fallback, a note makes null usable, and 0
                             below `min` */
    int64_t implied;      /* the number that a stored 0 of an OPTION_INTEGER means; 0 = none */
    bool executor;        /* cannot change a result: may differ when a run is resumed */
    bool lasting;         /* may be changed when a run is resumed, and stays changed */
    bool optional;        /* may be missing in a stored run of an older version: the default */
} cli_option;

enum { MAX_OPTIONS = 96 };

typedef struct cli_verb {
    const char *name, *summary;
    const char *arguments;     /* "IMAGE...", or "" for none */
    const char *details;       /* paragraphs for --help, each ended by \n; or NULL */
    const cli_option *options; /* at most MAX_OPTIONS, then OPTION_END */
    int (*run)(const struct cli_verb *verb, int argc, char **argv);
} cli_verb;

/* What a command line held beyond the values. */
typedef struct cli_parsed {
    bool given[MAX_OPTIONS];
    int n_arguments;
    char **arguments; /* borrowed from argv, which is put in order */
} cli_parsed;

typedef enum parse_result { PARSE_OK, PARSE_HELP, PARSE_ERROR } parse_result;

/* Fills `values` with defaults, then from argv[0..argc-1], which begins after the verb. --help is
 * printed to stdout, errors to stderr. */
parse_result options_parse(const cli_verb *verb, int argc, char **argv, void *values,
                           cli_parsed *parsed);

/* --help: the options in groups, in lines of at most 80 columns, on stdout. */
void options_help(const cli_verb *verb);

bool options_given(const cli_verb *verb, const cli_parsed *parsed, const char *name);

/* All values by name; NULL without memory. */
json_t *options_to_json(const cli_verb *verb, const void *values);

/* Puts stored values in place of those that were not given. A given one that differs from the
 * stored one is an error, printed to stderr, unless it is an executor's or lasting. Texts are
 * borrowed from `stored`. */
bool options_resume(const cli_verb *verb, const json_t *stored, const char *source, void *values,
                    const cli_parsed *parsed);
/* The list of {"option": "epochs", "there": 30, "here": 60} for the lasting options whose values
 * differ from the stored ones; NULL without memory. */
json_t *options_changed(const cli_verb *verb, const json_t *stored, const void *values);

/* To the 15 digits that config.json holds, so that a stored number is the number that was used. */
double options_round(double x);

/* The word among words[0..n-1] that `word` was probably meant to be, or NULL. */
const char *closest_word(const char *word, int n, const char *const *words);

#endif
