/* setting_texts.h: command lines whose options are settings that the library reads. */
#ifndef LS_CLI_OPTIONS_SETTING_TEXTS_H
#define LS_CLI_OPTIONS_SETTING_TEXTS_H

#include "experiment/repro_settings.h"
#include "options/options.h"

/* The options of `lockstep repro`, for its cli_command. */
#define REPRO_OPTIONS .options = ls__repro_settings, .make_options = ls__repro_make_settings

/* Parses a command line as options_parse does. *texts: the options that were given, "name=value",
 * or "name" for a switch; ends with NULL; the caller frees it with setting_texts_free. Left out is
 * the option `apart`, whose value is *value, NULL = not given. Returns -1, or the exit status if
 * the command ends. */
int setting_texts_parse(const cli_command *command, int argc, char **argv, const char *apart,
                        const char **value, char ***texts);
void setting_texts_free(char **texts);
/* The value of the text "NAME=value"; NULL if there is none. */
const char *setting_text_value(char *const *texts, const char *name);

#endif
