/* options.h: command-line options from a table. The table gives parsing, ranges, defaults, --help
 * and the JSON of config.json, so none of them can drift from another. */
#ifndef LS_CLI_OPTIONS_H
#define LS_CLI_OPTIONS_H

#include "verb.h"
#include <jansson.h>

/* The rest of a command line: which options it has, and its arguments. */
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

/* Rounds to the 15 digits that config.json stores, so that the stored number is the number in
 * use. */
double options_round(double x);

/* The word among words[0..n-1] that is most similar to `word`; NULL if none is similar. */
const char *closest_word(const char *word, int n, const char *const *words);

/* ---- One option of a table: for options_json.c ---- */

/* The address of the option's value. */
void *option_field(const cli_option *option, void *values);

/* Position of `word` among the words of "a|b|c", or -1. */
int option_choice_index(const char *choices, const char *word);

/* Writes "a number from 0 to 1": the values that the option accepts. */
void option_describe_expected(const cli_option *option, char *out, size_t size);

/* The position of the option of that name in the verb's table, or -1. */
int option_find(const cli_verb *verb, const char *name, size_t length);
/* The name of the most similar option, or NULL. */
const char *option_closest(const cli_verb *verb, const char *name);

#endif
