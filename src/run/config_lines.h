/* config_lines.h: text files of lines `key = value`, for --config and for the file of a sweep:
 *
 *     # comment
 *     [section]
 *     key = value      # another comment
 *     key = "value # no comment", 'value'
 *
 * A comment begins with a # at the beginning of a line or after white space, outside of quotes. A
 * quote begins a value: it is the first character after the = or after a comma. */
#ifndef LS_RUN_CONFIG_LINES_H
#define LS_RUN_CONFIG_LINES_H

#include "run/setting.h"

typedef struct ls__config_lines {
    ls_context *ctx; /* keeps the errors */
    const char *path;
    char *text; /* of the whole file; all other texts are borrowed from it */
    char *rest; /* the lines that have not been read */
    size_t n_rest;
    int line;                   /* from 1; of what follows. For ls__config_fail 0 = none */
    char *section;              /* the name in [] of a line that begins a section, else NULL */
    char *key, *value;          /* of another line; value: with its quotes, "" if there is none */
    int lines[LS_MAX_SETTINGS]; /* in which ls__config_set_option found the settings; 0 = none */
} ls__config_lines;

/* Reads the file, without a byte order mark; `path` is borrowed. LS_ERR_SETTING if it can't be
 * read. The caller must call ls__config_lines_close in any case. */
ls_status ls__config_lines_open(ls_context *ctx, const char *path, ls__config_lines *out);
void ls__config_lines_close(ls__config_lines *c);

/* Reads the next line that is not empty. False at the end, and after an error. */
bool ls__config_lines_next(ls__config_lines *c);

/* Stores the error "FILE:LINE: MESSAGE", LS_ERR_SETTING; its value is false. */
bool ls__config_fail(const ls__config_lines *c, const char *format, ...) LS_PRINTF(2, 3);

/* A value without its quotes; NULL after an error. */
char *ls__config_one_value(const ls__config_lines *c, char *text);
/* Cuts the next value out of the list *rest, "a, 'b, c', d". *rest is NULL after the last one. */
char *ls__config_next_value(const ls__config_lines *c, char **rest);

/* Sets a setting to `text`. False with the error, which says what is expected. */
bool ls__config_set_value(const ls__config_lines *c, const ls_setting *setting, const char *text,
                          void *values);
/* Sets the setting of this key to `text`, which is borrowed. One that is given, or that a typed one
 * excludes, keeps its value, but the text is checked. A key that another line has is an error, too.
 */
bool ls__config_set_option(ls__config_lines *c, const char *text, void *values, ls_given *given);

#endif
