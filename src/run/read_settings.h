/* read_settings.h: settings that programs give as texts "name=value". The table is that of a run,
 * or another one that has some of its rows. */
#ifndef LS_RUN_READ_SETTINGS_H
#define LS_RUN_READ_SETTINGS_H

#include "run/setting.h"

/* Whether it is one of the command alone, out or resume: for others the folder is an argument. */
bool ls__setting_is_of_command(const ls_setting *setting);

/* Sets the table's defaults, then the settings, a list that ends with NULL and may be NULL, and
 * `given`. *texts becomes a copy of the list, from which values and `given` are borrowed, and which
 * the caller frees in any case. LS_ERR_SETTING for a wrong setting. */
ls_status ls__settings_read(ls_context *ctx, const ls_setting *table, const char *const *settings,
                            char ***texts, void *values, ls_given *given);
void ls__settings_free_texts(char **texts);

#endif
