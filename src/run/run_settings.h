/* run_settings.h: how a run gets its settings. */
#ifndef LS_RUN_RUN_SETTINGS_H
#define LS_RUN_RUN_SETTINGS_H

#include "run/run_state.h"

/* Reads config's settings into t->values and t->given, with the table's defaults for others. */
ls_status ls__run_read_settings(ls_run *t, const ls_run_config *config);
/* Frees what they are borrowed from. */
void ls__run_free_settings(ls_run *t);

#endif
