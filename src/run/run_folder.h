/* run_folder.h: the folder of a run. */
#ifndef LS_RUN_RUN_FOLDER_H
#define LS_RUN_RUN_FOLDER_H

#include <lockstep/context.h>

/* Makes the folder and those above it. One that holds a run already (a config.json) is an error:
 * nothing is written over. */
ls_status ls__run_folder_create(ls_context *ctx, const char *dir);

bool ls__run_folder_holds_run(const char *dir);

/* Takes the folder for this process until the context is closed or the process ends, however it
 * ends: a second one that tries meanwhile gets LS_ERR_INVALID. The lock is flock's on DIR/.lock,
 * which stays there, empty; on a file system that has no locks nothing is taken. Where the context
 * has the lock already it keeps it, and nothing else happens. Then removes what
 * a killed process left: temporary files of ls__atomic_file. To be called before anything of the
 * run is read or written. */
ls_status ls__run_folder_lock(ls_context *ctx, const char *dir);

/* Finds a file or folder in `dir` that no run makes: the first by strcmp. False where there is
 * none, or dir can't be read. */
enum { LS__FILE_NAME_SIZE = 256 };
bool ls__run_folder_find_foreign(const char *dir, char name[LS__FILE_NAME_SIZE]);

#endif
