/* read_settings.h: settings as programs see them (lockstep/run.h): the rows of a table, and texts
 * "name=value". The table is that of a run, or another one that has some of its rows. */
#ifndef LS_RUN_READ_SETTINGS_H
#define LS_RUN_READ_SETTINGS_H

#include "run/setting.h"
#include <lockstep/run.h>

/* The i-th setting of the table, from 0, without headings and without the options of the command
 * alone, out and resume. False past the last one. */
bool ls__setting_at(const ls__setting *table, int i, ls_setting *out);

/* Sets the table's defaults, then the settings, a list that ends with NULL and may be NULL, and
 * `given`. *texts becomes a copy of the list, from which values and `given` are borrowed, and which
 * the caller frees in any case. LS_ERR_SETTING for a wrong setting. */
ls_status ls__settings_read(ls_context *ctx, const ls__setting *table, const char *const *settings,
                            char ***texts, void *values, ls__given *given);
void ls__settings_free_texts(char **texts);

#endif
