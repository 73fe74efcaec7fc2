/* setting_texts.h: the options of a command line as texts, for the library. */
#ifndef LS_CLI_OPTIONS_SETTING_TEXTS_H
#define LS_CLI_OPTIONS_SETTING_TEXTS_H

#include "options/options.h"

/* The options that were given but --out: "name=value", or "name" for a switch. Ends with NULL; the
 * caller frees it with setting_texts_free. NULL without memory. */
char **setting_texts_make(const ls_given *given);
void setting_texts_free(char **texts);

#endif
