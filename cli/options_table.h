/* options_table.h: one option of a table, for options.c and options_json.c. */
#ifndef LS_CLI_OPTIONS_TABLE_H
#define LS_CLI_OPTIONS_TABLE_H

#include "options.h"

/* Where the option's value lies. */
void *option_field(const cli_option *option, void *values);

/* Position of `word` among the words of "a|b|c", or -1. */
int option_choice_index(const char *choices, const char *word);

/* "wants a number from 0 to 1": what a value of the option may be. */
void option_describe_wanted(const cli_option *option, char *out, size_t size);

/* The position of the option of that name in the verb's table, or -1. */
int option_find(const cli_verb *verb, const char *name, size_t length);
/* The name of the option that was probably meant, or NULL. */
const char *option_closest(const cli_verb *verb, const char *name);

#endif
