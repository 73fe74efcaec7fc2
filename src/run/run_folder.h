/* run_folder.h: the folder of a run. */
#ifndef LS_RUN_RUN_FOLDER_H
#define LS_RUN_RUN_FOLDER_H

#include <lockstep/context.h>

/* Makes the folder and those above it. One that holds a run already (a config.json) is an error:
 * nothing is written over. */
ls_status ls__run_folder_create(ls_context *ctx, const char *dir);

bool ls__run_folder_holds_run(const char *dir);

#endif
