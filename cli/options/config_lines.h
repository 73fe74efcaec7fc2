/* config_lines.h: text files of lines `key = value`, for --config and for the file of a sweep:
 *
 *     # comment
 *     [section]
 *     key = value      # another comment
 *     key = "value # no comment", 'value'
 *
 * A comment begins with a # at the beginning of a line or after white space, outside of quotes. A
 * quote begins a value: it is the first character after the = or after a comma. */
#ifndef LS_CLI_OPTIONS_CONFIG_LINES_H
#define LS_CLI_OPTIONS_CONFIG_LINES_H

#include "options/options.h"

typedef struct config_lines {
    const char *path;
    char *text; /* of the whole file; all other texts are borrowed from it */
    char *rest; /* the lines that have not been read */
    size_t n_rest;
    bool failed;
    int line;                    /* from 1; of what follows. For config_fail 0 = none */
    char *section;               /* the name in [] of a line that begins a section, else NULL */
    char *key, *value;           /* of another line; value: with its quotes, "" if there is none */
    int lines[LS__MAX_SETTINGS]; /* in which config_set_option found the options; 0 = none */
} config_lines;

/* Reads the file, without a byte order mark. On failure prints the reason. The caller must call
 * config_lines_close in any case. */
bool config_lines_open(const char *path, config_lines *out);
void config_lines_close(config_lines *c);

/* Reads the next line that is not empty. False at the end, and after config_fail. */
bool config_lines_next(config_lines *c);

/* Prints "FILE:LINE: MESSAGE" and sets `failed`; its value is false. */
bool config_fail(config_lines *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A value without its quotes; NULL after an error, which is printed. */
char *config_one_value(config_lines *c, char *text);
/* Cuts the next value out of the list *rest, "a, 'b, c', d". *rest is NULL after the last one. */
char *config_next_value(config_lines *c, char **rest);

/* Whether `text` is a value of the option, which it sets; else prints what is expected. */
bool config_set_value(config_lines *c, const ls__setting *option, const char *text, void *values);
/* Sets the option of this key to `text`, which is borrowed. The command line takes precedence, but
 * the text is checked. On failure, also for a key that another line has, prints the reason. */
bool config_set_option(config_lines *c, const char *text, void *values, cli_parsed *parsed);

#endif
